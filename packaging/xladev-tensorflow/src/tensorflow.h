/* What TensorFlow 2.19 to 2.21 asks of a plugin and offers to it: layouts of structs, names of functions.
 *
 * The layout is an interface: names, types and order follow TensorFlow's public headers (see NOTICE).
 * The library is built without them, so one build serves all these releases.
 */
#ifndef XLADEV_TENSORFLOW_H
#define XLADEV_TENSORFLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct TF_Status TF_Status;

enum { TF_INVALID_ARGUMENT = 3, TF_UNIMPLEMENTED = 12, TF_INTERNAL = 13 };

/* Shapes: xla/stream_executor/tpu/c_api_decl.h. Short lists lie inside. */

enum { MAX_INLINED = 6 };

typedef struct {
    union {
        int64_t *heap;
        int64_t inlined[MAX_INLINED];
    };
    int64_t size;
} Int64List;

typedef struct {
    union {
        bool *heap;
        bool inlined[MAX_INLINED];
    };
    int64_t size;
} BoolList;

typedef struct {
    Int64List dimensions;
} XLA_Tile;

typedef struct {
    union {
        XLA_Tile *heap;
        XLA_Tile inlined[MAX_INLINED];
    };
    int64_t size;
} TileList;

typedef struct {
    Int64List minor_to_major;
    TileList tiles;
    int index_primitive_type, pointer_primitive_type;
    int64_t element_size_in_bits, memory_space, dynamic_shape_metadata_prefix_bytes;
    int64_t tail_padding_alignment_in_elements;
} XLA_Layout;

/* TensorFlow 2.19 has three more lists in a layout, after the first. */
enum { MORE_IN_OLD_LAYOUTS = 3 * 32 };

typedef struct XLA_Shape {
    int element_type;
    Int64List dimensions;
    BoolList dynamic_dimensions;
    struct XLA_Shape *tuple_shapes;
    int ntuple_shapes;
    bool has_layout;
    XLA_Layout layout;
} XLA_Shape;

/* The device: tensorflow/core/common_runtime/next_pluggable_device/c/plugin_c_api.h. Events, memory and
 * transfers are PJRT's; their functions are not called. */

typedef struct {
    size_t struct_size;
    void *priv;
    void *event_functions[5];
    void *allocator_functions[6];
    void *context_functions[2];
    void *transfer_functions[3];
    void *(*same_device_buffer_copy)(void *buffer, void *client, TF_Status *status);
    void (*shape_to_device_shape)(
        const XLA_Shape *shape, int type, bool fast_memory, int layout_preference,
        XLA_Shape *device_shape, TF_Status *status);
    int32_t (*get_device_count)(TF_Status *status);
    void (*init_device_states)(TF_Status *status);
} TFNPD_Api;

typedef struct {
    size_t struct_size;
    void *ext;
    const char *device_type, *compilation_device_name;
    int32_t priority;
    bool is_pluggable_device, use_pjrt_on_demand_compile;
} TFNPD_PluginParams;

/* Kernels: tensorflow/c/kernels.h, tensorflow/c/tf_datatype.h */

typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_OpKernelContext TF_OpKernelContext;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;

enum {
    TF_FLOAT = 1, TF_DOUBLE = 2, TF_INT32 = 3, TF_UINT8 = 4, TF_INT16 = 5, TF_INT8 = 6,
    TF_COMPLEX64 = 8, TF_INT64 = 9, TF_BOOL = 10, TF_BFLOAT16 = 14, TF_UINT16 = 17,
    TF_COMPLEX128 = 18, TF_HALF = 19, TF_VARIANT = 21, TF_UINT32 = 22, TF_UINT64 = 23
}; /* those that a C kernel can be constrained to */

/* C++ values by the ABI of the wheels: libstdc++ with the names of GCC 5 and later, x86-64. */

typedef struct {
    const char *text;
    size_t size;
    char inside[16];
} String; /* std::string, lent to who only reads it; tsl::DeviceType has this one member */

static inline String string_of(const char *text) {
    String string = {text, __builtin_strlen(text), {0}};
    return string;
}

#endif

/* The types of the PJRT C API 0.114 that its function arguments are made of.
 *
 * The layout is an interface: names, types and order follow OpenXLA's public header (see NOTICE).
 */
#ifndef XLADEV_PJRT_TYPES_H
#define XLADEV_PJRT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PJRT_API_MAJOR 0
#define PJRT_API_MINOR 114

typedef struct PJRT_Extension_Base {
    size_t struct_size;
    int type;
    struct PJRT_Extension_Base *next;
} PJRT_Extension_Base;

typedef struct PJRT_Error PJRT_Error;
typedef struct PJRT_Event PJRT_Event;
typedef struct PJRT_Client PJRT_Client;
typedef struct PJRT_Device PJRT_Device;
typedef struct PJRT_Memory PJRT_Memory;
typedef struct PJRT_Device PJRT_DeviceDescription;
typedef struct PJRT_TopologyDescription PJRT_TopologyDescription;
typedef struct PJRT_Executable PJRT_Executable;
typedef struct PJRT_Executable PJRT_LoadedExecutable;
typedef struct PJRT_Buffer PJRT_Buffer;
typedef struct PJRT_AsyncHostToDeviceTransferManager PJRT_AsyncHostToDeviceTransferManager;
typedef struct PJRT_AsyncTrackingEvent PJRT_AsyncTrackingEvent;
typedef struct PJRT_ExecuteContext PJRT_ExecuteContext;
typedef struct PJRT_Serialized PJRT_SerializedExecutable;
typedef struct PJRT_Serialized PJRT_SerializedTopology;
typedef struct PJRT_Serialized PJRT_SerializedCompileOptions;
typedef struct PJRT_Serialized PJRT_DeviceAssignmentSerialized;

/* Codes are those of absl::StatusCode. */
typedef enum {
    PJRT_Error_Code_OK = 0,
    PJRT_Error_Code_CANCELLED = 1,
    PJRT_Error_Code_INVALID_ARGUMENT = 3,
    PJRT_Error_Code_NOT_FOUND = 5,
    PJRT_Error_Code_RESOURCE_EXHAUSTED = 8,
    PJRT_Error_Code_FAILED_PRECONDITION = 9,
    PJRT_Error_Code_ABORTED = 10,
    PJRT_Error_Code_OUT_OF_RANGE = 11,
    PJRT_Error_Code_UNIMPLEMENTED = 12,
    PJRT_Error_Code_INTERNAL = 13,
    PJRT_Error_Code_UNAVAILABLE = 14,
} PJRT_Error_Code;

typedef enum {
    PJRT_Buffer_Type_INVALID, PJRT_Buffer_Type_PRED, PJRT_Buffer_Type_S8, PJRT_Buffer_Type_S16,
    PJRT_Buffer_Type_S32, PJRT_Buffer_Type_S64, PJRT_Buffer_Type_U8, PJRT_Buffer_Type_U16,
    PJRT_Buffer_Type_U32, PJRT_Buffer_Type_U64, PJRT_Buffer_Type_F16, PJRT_Buffer_Type_F32,
    PJRT_Buffer_Type_F64, PJRT_Buffer_Type_BF16, PJRT_Buffer_Type_C64, PJRT_Buffer_Type_C128,
    PJRT_Buffer_Type_F8E5M2, PJRT_Buffer_Type_F8E4M3FN, PJRT_Buffer_Type_F8E4M3B11FNUZ,
    PJRT_Buffer_Type_F8E5M2FNUZ, PJRT_Buffer_Type_F8E4M3FNUZ, PJRT_Buffer_Type_S4,
    PJRT_Buffer_Type_U4, PJRT_Buffer_Type_TOKEN, PJRT_Buffer_Type_S2, PJRT_Buffer_Type_U2,
    PJRT_Buffer_Type_F8E4M3, PJRT_Buffer_Type_F8E3M4, PJRT_Buffer_Type_F8E8M0FNU,
    PJRT_Buffer_Type_F4E2M1FN, PJRT_Buffer_Type_COUNT
} PJRT_Buffer_Type;

typedef enum {
    PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
    PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes,
    PJRT_HostBufferSemantics_kImmutableZeroCopy,
    PJRT_HostBufferSemantics_kMutableZeroCopy
} PJRT_HostBufferSemantics;

typedef enum {
    PJRT_NamedValue_kString, PJRT_NamedValue_kInt64, PJRT_NamedValue_kInt64List,
    PJRT_NamedValue_kFloat, PJRT_NamedValue_kBool
} PJRT_NamedValue_Type;

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const char *name;
    size_t name_size;
    PJRT_NamedValue_Type type;
    union {
        const char *string_value;
        int64_t int64_value;
        const int64_t *int64_array_value;
        float float_value;
        bool bool_value;
    };
    size_t value_size;
} PJRT_NamedValue;

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    char *code;
    size_t code_size;
    const char *format;
    size_t format_size;
} PJRT_Program;

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const int64_t *minor_to_major;
    size_t minor_to_major_size;
    const int64_t *tile_dims;
    const size_t *tile_dim_sizes;
    size_t num_tiles;
} PJRT_Buffer_MemoryLayout_Tiled;

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const int64_t *byte_strides;
    size_t num_byte_strides;
} PJRT_Buffer_MemoryLayout_Strides;

typedef enum {
    PJRT_Buffer_MemoryLayout_Type_Tiled,
    PJRT_Buffer_MemoryLayout_Type_Strides
} PJRT_Buffer_MemoryLayout_Type;

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    union {
        PJRT_Buffer_MemoryLayout_Tiled tiled;
        PJRT_Buffer_MemoryLayout_Strides strides;
    };
    PJRT_Buffer_MemoryLayout_Type type;
} PJRT_Buffer_MemoryLayout;

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const int64_t *dims;
    size_t num_dims;
    PJRT_Buffer_Type element_type;
} PJRT_ShapeSpec;

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    void **send_callbacks;
    void **recv_callbacks;
    size_t num_send_ops;
    size_t num_recv_ops;
    int launch_id;
    const int64_t *non_donatable_input_indices;
    size_t num_non_donatable_input_indices;
    PJRT_ExecuteContext *context;
    const char *call_location;
    size_t num_tasks;
    int *task_ids;
    int64_t *incarnation_ids;
} PJRT_ExecuteOptions;

typedef struct {
    int replica;
    int partition;
} PJRT_LogicalDeviceIds;

typedef void (*PJRT_Event_OnReadyCallback)(PJRT_Error *error, void *user_arg);
typedef PJRT_Error *(*PJRT_CallbackError)(PJRT_Error_Code code, const char *message, size_t size);

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const char *key;
    size_t key_size;
    int timeout_in_ms;
    PJRT_CallbackError *callback_error;
    void *user_arg;
    char *value;
    size_t value_size;
    void (*value_deleter_callback)(char *value);
} PJRT_KeyValueGetCallback_Args;

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const char *key;
    size_t key_size;
    const char *value;
    size_t value_size;
    PJRT_CallbackError *callback_error;
    void *user_arg;
} PJRT_KeyValuePutCallback_Args;

typedef PJRT_Error *(*PJRT_KeyValueGetCallback)(PJRT_KeyValueGetCallback_Args *args);
typedef PJRT_Error *(*PJRT_KeyValuePutCallback)(PJRT_KeyValuePutCallback_Args *args);
typedef void *PJRT_KeyValueTryGetCallback;

typedef enum {
    PJRT_ProcessState_kUnspecified, PJRT_ProcessState_kUninitialized,
    PJRT_ProcessState_kDisconnected, PJRT_ProcessState_kConnected, PJRT_ProcessState_kError
} PJRT_ProcessState;

typedef struct {
    size_t struct_size;
    int task_id;
    uint64_t incarnation_id;
    PJRT_ProcessState state;
    int error_code;
    const char *error_message;
    size_t error_message_size;
} PJRT_ProcessInfo;

/* Since 0.112 a memory begins with a pointer to this table. */
typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    size_t instance_struct_size;
    void *(*get_user_data)(PJRT_Memory *memory, const void *key);
    void (*set_user_data)(PJRT_Memory *memory, const void *key, void *data, void (*free)(void *));
} PJRT_Memory_FunctionTable;

#endif

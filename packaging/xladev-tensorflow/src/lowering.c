/* What TensorFlow knows of a device's operators: how they are lowered, and which it compiles one by one.
 *
 * For every operator that it lowers for XLA's CPU, TensorFlow registers a kernel on our device that
 * compiles and runs it. Those of NOT_COMPILED_ALONE are hidden: they have kernels of their own
 * (kernels.c), or run on the host. In compiled functions and clusters they are lowered like all others.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

static const char *const NOT_COMPILED_ALONE[] = {
    /* Run while their caller holds Python's lock, which compilation wants. */
    "_EagerConst",
    /* XLA drops checks; alone they cost little. */
    "Assert", "CheckNumerics", "CheckNumericsV2",
    /* Lists are values within a program of XLA's, and objects of TensorFlow's outside of one. */
    "EmptyTensorList", "TensorListConcat", "TensorListConcatLists", "TensorListConcatV2",
    "TensorListElementShape", "TensorListFromTensor", "TensorListGather", "TensorListGetItem",
    "TensorListLength", "TensorListPopBack", "TensorListPushBack", "TensorListPushBackBatch",
    "TensorListReserve", "TensorListResize", "TensorListScatter",
    "TensorListScatterIntoExistingList", "TensorListScatterV2", "TensorListSetItem",
    "TensorListSplit", "TensorListStack",
    "StackV2", "StackPushV2", "StackPopV2", "StackCloseV2",
    "TensorArrayV3", "TensorArrayCloseV3", "TensorArrayConcatV3", "TensorArrayGatherV3",
    "TensorArrayGradV3", "TensorArrayReadV3", "TensorArrayScatterV3", "TensorArraySizeV3",
    "TensorArraySplitV3", "TensorArrayWriteV3",
};

/* Portable HLO: TensorFlow makes no custom calls of the CPU's for devices of plugins. Random numbers
 * are those of TensorFlow's CPU. */
const char LOWERING[] = "XLA_CPU_JIT";

/* tensorflow::XlaOpRegistry::DeviceRegistration: what jit_compile and clustering know of a device. */
typedef struct {
    String compilation_device_name;
    int autoclustering_policy;
    bool cluster_resource_variable_ops_unsafely, cluster_stack_ops, cluster_tensor_array_ops;
    bool cluster_stateful_rng_ops, cluster_control_trigger, elide_assert_and_checknumerics;
    bool cluster_variant_ops, cluster_slow_ops, cluster_inaccurate_ops;
} DeviceRegistration;

enum { CLUSTERS_IF_ENABLED = 1 }; /* by a session, set_jit or TF_XLA_FLAGS */

static void register_device(void) {
    String device = string_of(device_type());
    DeviceRegistration told = {.compilation_device_name = string_of(LOWERING)};
    told.autoclustering_policy = CLUSTERS_IF_ENABLED;
    told.cluster_stack_ops = told.cluster_tensor_array_ops = told.cluster_control_trigger = true;
    told.elide_assert_and_checknumerics = told.cluster_variant_ops = true;
    told.cluster_slow_ops = told.cluster_inaccurate_ops = true;
    ((void (*)(const String *, const DeviceRegistration *))tensorflow.register_compilation_device)(
        &device, &told);
}

/* Kernels' definitions are protocol buffers: the operator is field 1, the label field 5. Only a
 * node that asks for a label gets a kernel that has one. */

typedef struct {
    const void **first, **end, **capacity;
} Pointers; /* std::vector of pointers */

typedef Pointers DeviceKernels(const String *device, bool with_those_for_compilation_only);
typedef String SerializeAsString(const void *message);
typedef bool ParseFromArray(const void *message, const void *bytes, int size);

enum { TAG_OP = 0x0a };
static const char HIDDEN[] = "\x2a\x06hidden";

static void release(const void *memory) {
    void (*operator_delete)(const void *) = (void (*)(const void *))dlsym(RTLD_DEFAULT, "_ZdlPv");
    if (memory && operator_delete) operator_delete(memory);
}

static bool is_named(const char *bytes, size_t size, const char *op) {
    size_t length = strlen(op);
    return size > length + 2 && bytes[0] == TAG_OP && (size_t)bytes[1] == length &&
           !memcmp(bytes + 2, op, length);
}

static bool is_hidden(const char *bytes, size_t size) {
    for (size_t i = 0; i < sizeof NOT_COMPILED_ALONE / sizeof *NOT_COMPILED_ALONE; i++)
        if (is_named(bytes, size, NOT_COMPILED_ALONE[i])) return true;
    return false;
}

static void hide(const void *definition, const char *bytes, size_t size) {
    size_t added = sizeof HIDDEN - 1;
    char *changed = malloc(size + added);
    if (!changed) abort();
    memcpy(changed, bytes, size);
    memcpy(changed + size, HIDDEN, added);
    ((ParseFromArray *)tensorflow.parse_from_array)(definition, changed, (int)(size + added));
    free(changed);
}

/* TensorFlow copies these definitions for our device when this plugin's are registered. */
static void hide_kernels(void) {
    String device = string_of(LOWERING);
    Pointers all = ((DeviceKernels *)tensorflow.device_kernels)(&device, false);
    for (const void **each = all.first; each < all.end; each++) {
        String bytes = ((SerializeAsString *)tensorflow.serialize_as_string)(*each);
        if (is_hidden(bytes.text, bytes.size)) hide(*each, bytes.text, bytes.size);
        if (bytes.size >= sizeof bytes.inside) release(bytes.text);
    }
    release(all.first);
}

void register_lowering(void) {
    hide_kernels();
    register_device();
}

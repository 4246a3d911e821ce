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
    /* The lowering has no pivoting, which is the default; an attribute cannot restrict a kernel. */
    "TridiagonalSolve",
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

/* Operators that are compiled for arrays; for lists, as gradients of loops have them, host_kernels.c. */
static const char *const COMPILED_FOR_ARRAYS[] = {"AddN", "ZerosLike"};

/* Calls of functions: TensorFlow (MemoryTypesForNode) hands them 32-bit integers in host memory whatever
 * their kernel says. A compiled program takes arrays of the device, so such calls run by TensorFlow's
 * kernels for all devices, and their functions' operators on the device. */
static const char *const CALLS[] = {"PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient"};
static const char *const LOOPS[] = {"StatelessWhile", "While"};

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

/* A constraint, field 3: the attribute T is one of these 15 types. */
static const char OF_ARRAYS[] =
    "\x1a\x18\x0a\x01T\x12\x13\x0a\x11\x32\x0f"
    "\x01\x02\x03\x04\x05\x06\x08\x09\x0a\x0e\x11\x12\x13\x16\x17";

/* The attribute, a list, has no 32-bit integers. */
#define NO_INT32 \
    "\x12\x1f\x0a\x1d\x32\x1b\x01\x02\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e" \
    "\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e"
static const char OF_LOOPS[] = "\x1a\x24\x0a\x01T" NO_INT32;
static const char OF_CALLS[] = "\x1a\x26\x0a\x03Tin" NO_INT32 "\x1a\x27\x0a\x04Tout" NO_INT32;

void release(const void *memory) {
    void (*operator_delete)(const void *) = (void (*)(const void *))dlsym(RTLD_DEFAULT, "_ZdlPv");
    if (memory && operator_delete) operator_delete(memory);
}

static bool is_named(const char *bytes, size_t size, const char *op) {
    size_t length = strlen(op);
    return size > length + 2 && bytes[0] == TAG_OP && (size_t)bytes[1] == length &&
           !memcmp(bytes + 2, op, length);
}

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool is_among(const String *bytes, const char *const *ops, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (is_named(bytes->text, bytes->size, ops[i])) return true;
    return false;
}

/* Of constraints on the same attribute, all count. */
static void add(const void *definition, const String *bytes, const char *added, size_t num_added) {
    char *changed = malloc(bytes->size + num_added);
    if (!changed) abort();
    memcpy(changed, bytes->text, bytes->size);
    memcpy(changed + bytes->size, added, num_added);
    ((ParseFromArray *)tensorflow.parse_from_array)(
        definition, changed, (int)(bytes->size + num_added));
    free(changed);
}

static void change(const void *definition, const String *bytes) {
    if (is_among(bytes, NOT_COMPILED_ALONE, COUNT(NOT_COMPILED_ALONE)))
        add(definition, bytes, HIDDEN, sizeof HIDDEN - 1);
    if (is_among(bytes, COMPILED_FOR_ARRAYS, COUNT(COMPILED_FOR_ARRAYS)))
        add(definition, bytes, OF_ARRAYS, sizeof OF_ARRAYS - 1);
    if (is_among(bytes, LOOPS, COUNT(LOOPS))) add(definition, bytes, OF_LOOPS, sizeof OF_LOOPS - 1);
    if (is_among(bytes, CALLS, COUNT(CALLS))) add(definition, bytes, OF_CALLS, sizeof OF_CALLS - 1);
}

/* TensorFlow copies these definitions for our device when this plugin's are registered. */
static void change_kernels(void) {
    String device = string_of(LOWERING);
    Pointers all = ((DeviceKernels *)tensorflow.device_kernels)(&device, false);
    for (const void **each = all.first; each < all.end; each++) {
        String bytes = ((SerializeAsString *)tensorflow.serialize_as_string)(*each);
        change(*each, &bytes);
        if (bytes.size >= sizeof bytes.inside) release(bytes.text);
    }
    release(all.first);
}

void register_lowering(void) {
    change_kernels();
    register_device();
}

/* Lists of arrays outside of compiled functions: TensorArray, and what gradients of loops remember.
 *
 * A list is an object of TensorFlow's on the host. TensorFlow's kernels for all devices put arrays of a
 * device into it as they are, and then read their memory. Ours take and give arrays in host memory, to
 * where TensorFlow copies them, and call the kernels of its CPU, to which they seem to run there.
 */
#include <pthread.h>
#include <stdlib.h>

#include "plugin.h"

enum { MOST_ARGUMENTS = 4 };

/* An operator, and which of its inputs and outputs lie in host memory: all but the list. */
typedef struct {
    const char *op, *on_host[MOST_ARGUMENTS];
} HostKernel;

static const HostKernel HOST_KERNELS[] = {
    {"TensorListConcat", {"tensor", "lengths"}},
    {"TensorListConcatV2", {"element_shape", "leading_dims", "tensor", "lengths"}},
    {"TensorListFromTensor", {"tensor", "element_shape"}},
    {"TensorListGather", {"indices", "element_shape", "values"}},
    {"TensorListGetItem", {"index", "element_shape", "item"}},
    {"TensorListPopBack", {"element_shape", "tensor"}},
    {"TensorListPushBack", {"tensor"}},
    {"TensorListPushBackBatch", {"tensor"}},
    {"TensorListScatter", {"tensor", "indices", "element_shape"}},
    {"TensorListScatterIntoExistingList", {"tensor", "indices"}},
    {"TensorListScatterV2", {"tensor", "indices", "element_shape", "num_elements"}},
    {"TensorListSetItem", {"index", "item"}},
    {"TensorListSplit", {"tensor", "element_shape", "lengths"}},
    {"TensorListStack", {"element_shape", "tensor"}},
};

/* The beginning of tensorflow::OpKernelConstruction. */
typedef struct {
    String device_type;
    void *device, *allocator, *function_library, *resource_manager;
    void *properties[2]; /* a std::shared_ptr */
    const void *input_memory[2], *output_memory[2];
    int graph_def_version;
} Construction;

/* An absl::Status is returned at an address that is the first argument. */
typedef void *CreateOpKernel(
    void **status, const String *device_type, void *device, void *allocator, void *function_library,
    void *resource_manager, void *const *properties, int graph_def_version, void **kernel);
typedef void *NewDevice(
    void **device, const String *type, const void *session_options, const String *name_prefix);

/* A device of TensorFlow's CPU, which kernels ask for memory and threads. */
static void *cpu_device;

static void make_cpu_device(void) {
    enum { SESSION_OPTIONS_NBYTES = 1 << 14 }; /* more than enough */
    void *options = calloc(1, SESSION_OPTIONS_NBYTES);
    if (!options) abort();
    ((void (*)(void *))tensorflow.session_options)(options);
    String type = string_of("CPU"), prefix = string_of("/job:localhost/replica:0/task:0");
    ((NewDevice *)tensorflow.new_device)(&cpu_device, &type, options, &prefix);
}

/* A kernel of the CPU's, and the device that it is registered for. */
typedef struct {
    void *kernel, *device;
} Hosted;

/* A kernel of the CPU's that believes that it runs on `device`. */
static void *create_for_cpu(const Construction *construction, void *device) {
    String cpu = {.size = 3, .inside = "CPU"};
    cpu.text = cpu.inside; /* the callee may take over what lies elsewhere */
    void *kernel = NULL, *status = ok_status();
    ((CreateOpKernel *)tensorflow.create_op_kernel)(
        &status, &cpu, device, construction->allocator, construction->function_library,
        construction->resource_manager, construction->properties, construction->graph_def_version,
        &kernel);
    return status == ok_status() ? kernel : NULL;
}

static void *create_on_cpu(const Construction *construction) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_cpu_device);
    return cpu_device ? create_for_cpu(construction, cpu_device) : NULL;
}

typedef void Fail(void *construction_or_context, TF_Status *status);

static void fail(Fail *how, void *of, const char *message) {
    TF_Status *failure = ((TF_Status * (*)(void)) tensorflow.new_status)();
    ((void (*)(TF_Status *, int, const char *))tensorflow.set_status)(
        failure, TF_INTERNAL, message);
    how(of, failure);
    ((void (*)(TF_Status *))tensorflow.delete_status)(failure);
}

static void *checked(void *kernel, TF_OpKernelConstruction *construction) {
    if (!kernel)
        fail((Fail *)tensorflow.construction_failure, construction,
             "xladev: TensorFlow's CPU has no such kernel");
    return kernel;
}

static void *create(TF_OpKernelConstruction *given) {
    const Construction *construction = (const void *)given;
    void *kernel = checked(create_on_cpu(construction), given);
    if (!kernel) return NULL;
    Hosted *hosted = malloc(sizeof *hosted);
    if (!hosted) abort();
    *hosted = (Hosted){kernel, construction->device};
    return hosted;
}

/* The first virtual functions of tensorflow::OpKernel. */
typedef struct {
    void (*destroy)(void *kernel);
    void (*destroy_and_free)(void *kernel);
    void (*compute)(void *kernel, TF_OpKernelContext *context);
} OpKernelFunctions;

static const OpKernelFunctions *functions(void *kernel) {
    return *(const OpKernelFunctions *const *)kernel;
}

/* tensorflow::OpKernelContext begins with virtual functions since 2.20, a flag and a status; then comes
 * the address of its parameters, which begin with times, the kernel and the device. */
enum { PARAMETERS_WORD = 2, DEVICE_WORD = 5 };

static void **find_device(void *const *context, const void *device) {
    int has_functions = minor_version() >= FIRST_OF_VIRTUAL_CONTEXTS;
    void **parameters = context[PARAMETERS_WORD + has_functions];
    return parameters[DEVICE_WORD] == device ? &parameters[DEVICE_WORD] : NULL;
}

static void compute(void *given, TF_OpKernelContext *context) {
    Hosted *hosted = given;
    void **device = find_device((void *const *)context, hosted->device);
    if (!device) {
        fail((Fail *)tensorflow.context_failure, context,
             "xladev: this kernel does not find its device in TensorFlow's context");
        return;
    }
    *device = cpu_device;
    functions(hosted->kernel)->compute(hosted->kernel, context);
    *device = hosted->device;
}

static void destroy(void *given) {
    Hosted *hosted = given;
    if (!hosted) return;
    functions(hosted->kernel)->destroy_and_free(hosted->kernel);
    free(hosted);
}

/* Variables of 32-bit integers, which TensorFlow keeps on the host for devices of plugins, as it does for
 * GPUs, though all operators on them run on devices. A handle lies on the host and names its device. */

static void *create_handle(TF_OpKernelConstruction *given) {
    const Construction *construction = (const void *)given;
    return checked(create_for_cpu(construction, construction->device), given);
}

static void compute_handle(void *kernel, TF_OpKernelContext *context) {
    functions(kernel)->compute(kernel, context);
}

static void destroy_handle(void *kernel) {
    if (kernel) functions(kernel)->destroy_and_free(kernel);
}

static void register_handles(void) {
    static const char *const on_host[] = {"resource"};
    register_kernel("VarHandleOp", create_handle, compute_handle, destroy_handle,
                    (OfType){"dtype", TF_INT32}, on_host, 1);
}

void register_host_kernels(void) {
    static const char *const of_lists[] = {"AddN", "ZerosLike"}; /* which lowering.c leaves to us */
    for (size_t i = 0; i < sizeof of_lists / sizeof *of_lists; i++)
        register_kernel(of_lists[i], create, compute, destroy, (OfType){"T", TF_VARIANT}, NULL, 0);
    for (size_t i = 0; i < sizeof HOST_KERNELS / sizeof *HOST_KERNELS; i++) {
        const HostKernel *kernel = &HOST_KERNELS[i];
        register_kernel(kernel->op, create, compute, destroy, (OfType){0}, kernel->on_host,
                        MOST_ARGUMENTS);
    }
    register_handles();
}

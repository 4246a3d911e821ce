/* The kernels of the plugin, and how TensorFlow is told of them. */
#include "plugin.h"

typedef TF_KernelBuilder *NewKernel(
    const char *op, const char *device, Create *create, Compute *compute, Destroy *destroy);
typedef void SetType(TF_KernelBuilder *builder, const char *name, int type, TF_Status *status);
typedef void SetHostMemory(TF_KernelBuilder *builder, const char *name);
typedef void Register(const char *name, TF_KernelBuilder *builder, TF_Status *status);

void register_kernel(
    const char *op, Create *create, Compute *compute, Destroy *destroy, OfType of,
    const char *const *on_host, size_t num_on_host) {
    TF_Status *status = ((TF_Status * (*)(void)) tensorflow.new_status)();
    TF_KernelBuilder *builder =
        ((NewKernel *)tensorflow.new_kernel)(op, device_type(), create, compute, destroy);
    if (of.attribute) ((SetType *)tensorflow.kernel_type)(builder, of.attribute, of.type, status);
    for (size_t i = 0; i < num_on_host && on_host[i]; i++)
        ((SetHostMemory *)tensorflow.kernel_host_memory)(builder, on_host[i]);
    ((Register *)tensorflow.register_kernel)(op, builder, status);
    if (((int (*)(TF_Status *))tensorflow.get_code)(status))
        say("kernel %s: %s", op, ((const char *(*)(TF_Status *))tensorflow.message)(status));
    ((void (*)(TF_Status *))tensorflow.delete_status)(status);
}

typedef const void *Input(const TF_OpKernelContext *context, int index);
typedef void SetOutput(TF_OpKernelContext *context, int index, const void *tensor);

static void pass_through(void *kernel, TF_OpKernelContext *context) {
    (void)kernel;
    const void *tensor = ((Input *)tensorflow.input)(context, 0);
    ((SetOutput *)tensorflow.set_output)(context, 0, tensor);
}

/* Makes a tensor on a device of one that was copied there before, while the caller holds Python's lock:
 * nothing may be compiled. Those of 32-bit integers are shapes, mostly, and stay with the host. */
static void register_constants(void) {
    static const int types[] = {
        TF_FLOAT, TF_DOUBLE, TF_INT32, TF_UINT8, TF_INT16, TF_INT8, TF_COMPLEX64, TF_INT64, TF_BOOL,
        TF_BFLOAT16, TF_UINT16, TF_COMPLEX128, TF_HALF, TF_UINT32, TF_UINT64};
    static const char *const both[] = {"input", "output"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        register_kernel("_EagerConst", NULL, pass_through, NULL, (OfType){"T", types[i]}, both,
                        types[i] == TF_INT32 ? 2 : 0);
}

/* TensorFlow calls this for a library with operators and again for one with a device. */
EXPORT void TF_InitKernel(void) {
    static bool is_done;
    if (is_done || !is_usable()) return;
    is_done = true;
    register_constants();
    register_host_kernels();
}

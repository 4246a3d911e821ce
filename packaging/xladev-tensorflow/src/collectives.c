/* Collectives that run alone: which executions on several devices belong together.
 *
 * TensorFlow compiles CollectiveReduceV2 into a program of several devices, and executes it for each of
 * them by itself. What belongs together has the keys of one group and instance, in one step.
 */
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "pjrt.h"
#include "plugin.h"

enum { GROUP_KEY = 2, INSTANCE_KEY = 3 }; /* arguments */

typedef const void *Input(const TF_OpKernelContext *context, int index);
typedef String TraceString(const void *kernel, const TF_OpKernelContext *context, bool verbose);

/* "name:type". */
bool is_collective(const void *kernel, const TF_OpKernelContext *context) {
    static const char type[] = ":CollectiveReduceV2";
    TraceString *trace_string = (TraceString *)find_symbol(
        "_ZNK10tensorflow8OpKernel11TraceStringB5cxx11ERKNS_15OpKernelContextEb");
    if (!trace_string) return false;
    String text = trace_string(kernel, context, false);
    size_t size = sizeof type - 1;
    bool is_it = text.size >= size && !memcmp(text.text + text.size - size, type, size);
    if (text.size >= sizeof text.inside) release(text.text);
    return is_it;
}

static bool read_key(const TF_OpKernelContext *context, int index, uint32_t *key) {
    const Tensor *tensor = ((Input *)tensorflow.input)(context, index);
    const TensorShape *shape = &tensor->shape;
    if (!tensor->buffer || shape->bytes[TYPE_BYTE] != TF_INT32 || shape->num_elements != 1)
        return false;
    if (is_on_device(tensor))
        return array_of(tensor) && read_buffer(array_of(tensor)->wrapped->buffer, key, sizeof *key);
    memcpy(key, tensor->buffer->data, sizeof *key);
    return true;
}

bool find_meeting(const TF_OpKernelContext *context, uint64_t *step, uint64_t *number) {
    static int64_t (*step_of)(const TF_OpKernelContext *context);
    if (!step_of) step_of = (int64_t(*)(const TF_OpKernelContext *))find_symbol("TF_StepId");
    uint32_t group, instance;
    if (!read_key(context, GROUP_KEY, &group) || !read_key(context, INSTANCE_KEY, &instance))
        return false;
    *step = step_of ? (uint64_t)step_of(context) : 0;
    *number = (uint64_t)group << 32 | instance;
    return *number;
}

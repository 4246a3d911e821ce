/* Tensors on a device: what they hold, and results made of PJRT buffers.
 *
 * TensorFlow owns an array by a std::shared_ptr of a buffer of XLA's, which wraps another, which owns
 * the PJRT buffer. Objects of C++ are made by their constructors, in memory of malloc, where the wheel's
 * operator delete returns it.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "arrays.h"
#include "plugin.h"

enum { OBJECT_NBYTES = 1000 }; /* the largest has 570 to 580 */

typedef void Construct(void *object, void *client, void *content);
typedef void SetBuffer(DeviceArray *array, void *shared[2]);
typedef void *AllocateOutput(
    void **status, TF_OpKernelContext *context, int index, const TensorShape *shape,
    Tensor **tensor);

static Construct *make_c_buffer, *make_tf_buffer;
static SetBuffer *set_buffer;
static AllocateOutput *allocate_output;

bool find_array_functions(void) {
    make_c_buffer = find_symbol("_ZN3xla14PjRtCApiBufferC1EPNS_14PjRtCApiClientEP11PJRT_Buffer");
    make_tf_buffer = find_symbol(
        "_ZN3xla12TfPjRtBufferC1EPNS_12TfPjRtClientESt10unique_ptrINS_10PjRtBufferESt14default_delete"
        "IS4_EE");
    set_buffer = find_symbol(
        "_ZN10tensorflow16AsyncValueTensor9SetBufferESt10shared_ptrIN3xla10PjRtBufferEE");
    allocate_output = find_symbol(
        "_ZN10tensorflow15OpKernelContext15allocate_outputEiRKNS_11TensorShapeEPPNS_6TensorE");
    return make_c_buffer && make_tf_buffer && set_buffer && allocate_output;
}

bool is_on_device(const Tensor *tensor) {
    return tensor->buffer && (uintptr_t)tensor->buffer->data & 1;
}

static DeviceArray *device_array(const Tensor *tensor) {
    return (DeviceArray *)(tensor->buffer->data - 1);
}

const TfBuffer *array_of(const Tensor *tensor) { return device_array(tensor)->buffer; }

/* Who shares an array: the counts of std::shared_ptr, and what to do at the end of each. */
typedef struct {
    void *const *functions;
    atomic_int uses, observers;
    void *object;
} Owners;

static void destroy_nothing(Owners *owners) { (void)owners; }
static void end_object(Owners *owners) {
    void (**functions)(void *) = *(void (***)(void *))owners->object;
    functions[1](owners->object); /* destroys and frees */
}
static void end_owners(Owners *owners) { free(owners); }
static void *no_deleter(Owners *owners, const void *type) {
    (void)owners, (void)type;
    return NULL;
}

/* std::_Sp_counted_base: two destructors, dispose, destroy, get_deleter; behind an offset and a type. */
static void *const OWNERS_FUNCTIONS[] = {
    NULL, NULL, destroy_nothing, end_owners, end_object, end_owners, no_deleter};

static void *new_object(Construct *construct, void *client, void *content) {
    void *object = malloc(OBJECT_NBYTES);
    if (!object) abort();
    construct(object, client, content);
    return object;
}

static void own(DeviceArray *array, void *object) {
    Owners *owners = malloc(sizeof *owners);
    if (!owners) abort();
    owners->functions = OWNERS_FUNCTIONS + 2;
    owners->uses = owners->observers = 1;
    owners->object = object;
    void *shared[2] = {object, owners};
    set_buffer(array, shared);
}

bool give_array(
    TF_OpKernelContext *context, int index, const TensorShape *shape, void *buffer,
    const TfBuffer *like) {
    Tensor *tensor = NULL;
    void *status;
    allocate_output(&status, context, index, shape, &tensor);
    if (status != ok_status() || !is_on_device(tensor)) return false;
    void *wrapped = new_object(make_c_buffer, like->wrapped->client, buffer);
    own(device_array(tensor), new_object(make_tf_buffer, like->client, &wrapped));
    return true;
}

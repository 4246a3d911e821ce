/* Arrays from the host's memory to devices. */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/* From so many bytes on, memory that a client lends is used where it is. */
enum { LENT_NBYTES = 1 << 16, LENT_ALIGNMENT = 64 };

/* What a client sends: dims and strides from major to minor in the device's memory. */
typedef struct {
    Device *device;
    const void *data;
    PJRT_Buffer_Type type;
    size_t rank, nbytes;
    int64_t dims[MOST_DIMS], strides[MOST_DIMS];
    bool is_lent;
} Upload;

static Error *send_by_python(const Upload *upload, Value **value) {
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    PyObject *array = python_call(
        engine.from_host,
        python_tuple(6, python_ref(upload->device->client->python),
                     py.PyLong_FromLongLong(upload->device->index),
                     py.PyLong_FromVoidPtr((void *)upload->data),
                     py.PyLong_FromLongLong(upload->type), python_dims(upload->dims, upload->rank),
                     python_dims(upload->strides, upload->rank)));
    Error *error = array ? NULL : error_from_python();
    if (array) *value = value_new(NULL, array, event_ref(&ready_event));
    python_leave(&scope);
    return error;
}

static Error *send_copy(const Upload *upload, const int64_t *dense, Value **value) {
    Block *block = block_allocate(upload->device, upload->nbytes);
    if (!block) return out_of_memory(upload->device, upload->nbytes);
    copy_array(upload->dims, upload->rank, type_nbytes(upload->type), upload->nbytes, upload->data,
               upload->strides, block->data, dense);
    *value = value_new(block, NULL, event_ref(&ready_event));
    return NULL;
}

/* The value is the client's memory; `done` is set when nobody uses it any more. */
static Value *borrow(const Upload *upload, Event **done) {
    Block *block = calloc(1, sizeof *block);
    if (!block) abort();
    *block = (Block){.refs = 1, .data = (void *)upload->data, .nbytes = upload->nbytes};
    block->released = event_new();
    *done = event_ref(block->released);
    return value_new(block, NULL, event_ref(&ready_event));
}

static Error *send(const Upload *upload, Value **value, Event **done) {
    if (!upload->device->client->record->host_addressable) return send_by_python(upload, value);
    int64_t dense[MOST_DIMS];
    dense_strides(upload->dims, upload->rank, NULL, type_nbytes(upload->type), dense);
    bool is_usable = upload->is_lent && upload->nbytes >= LENT_NBYTES &&
                     (uintptr_t)upload->data % LENT_ALIGNMENT == 0 &&
                     is_dense(upload->dims, upload->strides, dense, upload->rank);
    if (!is_usable) return send_copy(upload, dense, value);
    *value = borrow(upload, done);
    return NULL;
}

static void order_upload(
    Upload *upload, const PJRT_Client_BufferFromHostBuffer_Args *args, const int64_t *order) {
    int64_t dense[MOST_DIMS];
    size_t element = type_nbytes(args->type);
    dense_strides(args->dims, args->num_dims, NULL, element, dense);
    bool is_strided = args->byte_strides && args->num_byte_strides;
    by_major(args->dims, order, args->num_dims, upload->dims);
    by_major(is_strided ? args->byte_strides : dense, order, args->num_dims, upload->strides);
    upload->nbytes = element;
    for (size_t i = 0; i < upload->rank; i++) upload->nbytes *= (size_t)upload->dims[i];
}

IMPLEMENT(Client_BufferFromHostBuffer) {
    int64_t order[MOST_DIMS];
    Error *error = client_open(args->client);
    if (!error) error = check_shape(args->type, args->dims, args->num_dims);
    if (!error) error = read_layout(args->device_layout, args->num_dims, order);
    if (error) return error;
    Memory *memory = args->memory ? args->memory : &args->device->memories[0];
    Upload upload = {.device = memory->device, .data = args->data, .type = args->type};
    upload.rank = args->num_dims;
    upload.is_lent = args->host_buffer_semantics >= PJRT_HostBufferSemantics_kImmutableZeroCopy;
    order_upload(&upload, args, order);
    Value *value = NULL;
    Event *done = NULL;
    error = send(&upload, &value, &done);
    if (error) return error;
    args->buffer = buffer_new(memory, args->type, args->dims, args->num_dims, order, value);
    args->done_with_host_buffer = done ? done : event_ref(&ready_event);
    return NULL;
}

IMPLEMENT(Client_CreateUninitializedBuffer) {
    int64_t order[MOST_DIMS];
    Error *error = client_open(args->client);
    if (!error)
        error = check_shape(args->shape_element_type, args->shape_dims, args->shape_num_dims);
    if (!error) error = read_layout(args->shape_layout, args->shape_num_dims, order);
    if (error) return error;
    Memory *memory = args->memory ? args->memory : &args->device->memories[0];
    Buffer *buffer = buffer_new(
        memory, args->shape_element_type, args->shape_dims, args->shape_num_dims, order, NULL);
    Block *block = block_allocate(memory->device, buffer->nbytes);
    if (!block) {
        error = out_of_memory(memory->device, buffer->nbytes);
        free(buffer);
        return error;
    }
    buffer->value = value_new(block, NULL, event_ref(&ready_event));
    args->buffer = buffer;
    return NULL;
}

IMPLEMENT(Client_CreateErrorBuffer) {
    Error *error = check_shape(args->shape_element_type, args->shape_dims, args->shape_num_dims);
    if (error) return error;
    Event *event = event_new();
    event_set(event, error_copy((int)args->error_code, args->error_message,
                                args->error_message_size));
    args->buffer = buffer_new(args->memory, args->shape_element_type, args->shape_dims,
                              args->shape_num_dims, NULL, value_new(NULL, NULL, event));
    return NULL;
}

IMPLEMENT(Client_CreateViewOfDeviceBuffer) {
    int64_t order[MOST_DIMS];
    Error *error = client_open(args->client);
    if (!error) error = check_shape(args->element_type, args->dims, args->num_dims);
    if (!error) error = read_layout(args->layout, args->num_dims, order);
    if (error) return error;
    Memory *memory = HAS_FIELD(args, memory) ? args->memory : NULL;
    if (!memory) memory = &args->device->memories[0];
    if (!memory->device->client->record->host_addressable)
        return error_new(PJRT_Error_Code_UNIMPLEMENTED,
                         "platform %s takes no memory that it did not allocate",
                         memory->device->client->record->platform_name);
    Block *block = calloc(1, sizeof *block);
    if (!block) abort();
    *block = (Block){.refs = 1,
                     .data = args->device_buffer_ptr,
                     .on_delete = args->on_delete_callback,
                     .on_delete_argument = args->on_delete_callback_arg};
    Value *value = value_new(block, NULL, event_ref(&ready_event));
    args->buffer = buffer_new(memory, args->element_type, args->dims, args->num_dims, order, value);
    block->nbytes = args->buffer->nbytes;
    return NULL;
}

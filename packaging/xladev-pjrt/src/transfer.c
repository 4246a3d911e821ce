/* Arrays from the host's memory to devices, back, and between devices. */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

enum { SHORT_COPY = 1 << 16, MOST_DIMS = 64 };

/* A copy between arrays of equal dims; strides in bytes. */
typedef struct {
    const int64_t *dims, *from_strides, *to_strides;
    size_t rank, element_nbytes;
} StridedCopy;

static void copy_strided(const StridedCopy *copy, size_t axis, const char *from, char *to) {
    if (axis == copy->rank) {
        memcpy(to, from, copy->element_nbytes);
        return;
    }
    for (int64_t i = 0; i < copy->dims[axis]; i++)
        copy_strided(copy, axis + 1, from + i * copy->from_strides[axis],
                     to + i * copy->to_strides[axis]);
}

static void dense_strides(
    const int64_t *dims, size_t rank, const int64_t *minor_to_major, size_t nbytes,
    int64_t *strides) {
    int64_t stride = (int64_t)nbytes;
    for (size_t i = 0; i < rank; i++) {
        size_t axis = minor_to_major ? (size_t)minor_to_major[i] : rank - 1 - i;
        strides[axis] = stride;
        stride *= dims[axis];
    }
}

static bool is_dense(
    const int64_t *dims, const int64_t *strides, const int64_t *dense, size_t rank) {
    for (size_t i = 0; i < rank; i++)
        if (dims[i] != 1 && strides[i] != dense[i]) return false;
    return true;
}

static void copy_array(
    const int64_t *dims, size_t rank, size_t element_nbytes, size_t nbytes, const void *from,
    const int64_t *from_strides, void *to, const int64_t *to_strides) {
    if (!nbytes) return;
    if (is_dense(dims, from_strides, to_strides, rank)) {
        int64_t dense[MOST_DIMS];
        dense_strides(dims, rank, NULL, element_nbytes, dense);
        if (is_dense(dims, from_strides, dense, rank)) {
            memcpy(to, from, nbytes);
            return;
        }
    }
    StridedCopy copy = {dims, from_strides, to_strides, rank, element_nbytes};
    copy_strided(&copy, 0, from, to);
}

static Error *out_of_memory(Device *device, size_t nbytes) {
    return error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                     "Out of memory allocating %zu bytes on %s; %lld bytes are in use", nbytes,
                     device->record->name, (long long)device->nbytes_in_use);
}

static Error *check_rank(size_t rank) {
    if (rank <= MOST_DIMS) return NULL;
    return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "%zu dimensions; %d are the most", rank,
                     MOST_DIMS);
}

/* Host to device */

static Error *send_by_python(
    Device *device, const PJRT_Client_BufferFromHostBuffer_Args *args, const int64_t *strides,
    Value **value) {
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    PyObject *array = python_call(
        engine.from_host,
        python_tuple(6, python_ref(device->client->python), py.PyLong_FromLongLong(device->index),
                     py.PyLong_FromVoidPtr((void *)args->data), py.PyLong_FromLongLong(args->type),
                     python_dims(args->dims, args->num_dims),
                     python_dims(strides, args->num_dims)));
    Error *error = array ? NULL : error_from_python();
    if (array) *value = value_new(NULL, array, event_ref(&ready_event));
    python_leave(&scope);
    return error;
}

static Error *send(
    Device *device, const PJRT_Client_BufferFromHostBuffer_Args *args, const int64_t *strides,
    Value **value) {
    size_t element = type_nbytes(args->type), nbytes = element;
    for (size_t i = 0; i < args->num_dims; i++) nbytes *= (size_t)args->dims[i];
    Block *block = block_allocate(device, nbytes);
    if (!block) return out_of_memory(device, nbytes);
    int64_t dense[MOST_DIMS];
    dense_strides(args->dims, args->num_dims, NULL, element, dense);
    copy_array(args->dims, args->num_dims, element, nbytes, args->data, strides, block->data, dense);
    *value = value_new(block, NULL, event_ref(&ready_event));
    return NULL;
}

IMPLEMENT(Client_BufferFromHostBuffer) {
    Error *error = check_rank(args->num_dims);
    if (error) return error;
    Device *device = args->memory ? args->memory->device : args->device;
    int64_t dense[MOST_DIMS];
    dense_strides(args->dims, args->num_dims, NULL, type_nbytes(args->type), dense);
    bool is_strided = args->byte_strides && args->num_byte_strides;
    const int64_t *strides = is_strided ? args->byte_strides : dense;
    Value *value = NULL;
    error = device->client->record->host_addressable ? send(device, args, strides, &value)
                                                     : send_by_python(device, args, strides, &value);
    if (error) return error;
    args->buffer = buffer_new(device, args->type, args->dims, args->num_dims, value);
    args->done_with_host_buffer = event_ref(&ready_event);
    return NULL;
}

IMPLEMENT(Client_CreateUninitializedBuffer) {
    Device *device = args->memory ? args->memory->device : args->device;
    Buffer *buffer = buffer_new(
        device, args->shape_element_type, args->shape_dims, args->shape_num_dims, NULL);
    Block *block = block_allocate(device, buffer->nbytes);
    if (!block) return out_of_memory(device, buffer->nbytes);
    buffer->value = value_new(block, NULL, event_ref(&ready_event));
    args->buffer = buffer;
    return NULL;
}

IMPLEMENT(Client_CreateErrorBuffer) {
    Event *event = event_new();
    event_set(event, error_copy((int)args->error_code, args->error_message,
                                args->error_message_size));
    args->buffer = buffer_new(args->memory->device, args->shape_element_type, args->shape_dims,
                              args->shape_num_dims, value_new(NULL, NULL, event));
    return NULL;
}

IMPLEMENT(Client_CreateViewOfDeviceBuffer) {
    Device *device = args->device;
    if (!device && HAS_FIELD(args, memory) && args->memory) device = args->memory->device;
    if (!device->client->record->host_addressable)
        return error_new(PJRT_Error_Code_UNIMPLEMENTED,
                         "platform %s takes no memory that it did not allocate",
                         device->client->record->platform_name);
    Block *block = calloc(1, sizeof *block);
    if (!block) abort();
    *block = (Block){.refs = 1,
                     .data = args->device_buffer_ptr,
                     .on_delete = args->on_delete_callback,
                     .on_delete_argument = args->on_delete_callback_arg};
    Value *value = value_new(block, NULL, event_ref(&ready_event));
    args->buffer = buffer_new(device, args->element_type, args->dims, args->num_dims, value);
    block->nbytes = args->buffer->nbytes;
    return NULL;
}

/* Device to host */

typedef struct {
    Device *device;
    Value *value;
    void *to;
    Event *done;
    PJRT_Buffer_Type type;
    size_t rank, nbytes;
    int64_t dims[MOST_DIMS], strides[MOST_DIMS];
} Fetch;

static Error *fetch_by_python(Fetch *fetch) {
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    PyObject *told = python_call(
        engine.to_host,
        python_tuple(5, python_ref(fetch->value->array), py.PyLong_FromVoidPtr(fetch->to),
                     py.PyLong_FromLongLong(fetch->type), python_dims(fetch->dims, fetch->rank),
                     python_dims(fetch->strides, fetch->rank)));
    Error *error = told ? NULL : error_from_python();
    if (told) py.Py_DecRef(told);
    python_leave(&scope);
    return error;
}

static void fetch_now(Fetch *fetch) {
    Error *error = NULL;
    if (fetch->value->block) {
        int64_t dense[MOST_DIMS];
        size_t element = type_nbytes(fetch->type);
        dense_strides(fetch->dims, fetch->rank, NULL, element, dense);
        copy_array(fetch->dims, fetch->rank, element, fetch->nbytes, fetch->value->block->data,
                   dense, fetch->to, fetch->strides);
    } else {
        error = fetch_by_python(fetch);
    }
    event_set(fetch->done, error);
    event_unref(fetch->done);
    value_unref(fetch->value);
    free(fetch);
}

static void fetch_task(void *argument) { fetch_now(argument); }
static void lose_fetch(void *argument) { event_lose(((Fetch *)argument)->done); }

static void fetch_when_ready(Error *error, void *argument) {
    Fetch *fetch = argument;
    if (error) {
        event_set(fetch->done, error);
        event_unref(fetch->done);
        value_unref(fetch->value);
        free(fetch);
    } else if (fetch->value->block) {
        fetch_now(fetch);
    } else {
        worker_enqueue(fetch->device, fetch_task, lose_fetch, fetch);
    }
}

static void host_strides(const PJRT_Buffer_MemoryLayout *layout, Fetch *fetch) {
    if (layout && layout->type == PJRT_Buffer_MemoryLayout_Type_Strides &&
        layout->strides.num_byte_strides == fetch->rank) {
        memcpy(fetch->strides, layout->strides.byte_strides, fetch->rank * sizeof(int64_t));
        return;
    }
    bool is_given = layout && layout->type == PJRT_Buffer_MemoryLayout_Type_Tiled &&
                    layout->tiled.minor_to_major_size == fetch->rank;
    dense_strides(fetch->dims, fetch->rank, is_given ? layout->tiled.minor_to_major : NULL,
                  type_nbytes(fetch->type), fetch->strides);
}

IMPLEMENT(Buffer_ToHostBuffer) {
    Buffer *buffer = args->src;
    if (!args->dst) {
        args->dst_size = buffer->nbytes;
        return NULL;
    }
    Error *error = check_rank(buffer->rank);
    if (error) return error;
    if (args->dst_size < buffer->nbytes)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "%zu bytes do not fit into %zu",
                         buffer->nbytes, args->dst_size);
    Value *value = buffer_value(buffer);
    if (!value)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "Buffer has been deleted or donated.");
    Fetch *fetch = malloc(sizeof *fetch);
    if (!fetch) abort();
    *fetch = (Fetch){.device = buffer->device, .value = value, .to = args->dst};
    fetch->type = buffer->type;
    fetch->rank = buffer->rank;
    fetch->nbytes = buffer->nbytes;
    memcpy(fetch->dims, buffer->dims, buffer->rank * sizeof(int64_t));
    host_strides(args->host_layout, fetch);
    args->event = event_new();
    fetch->done = event_ref(args->event);
    if (event_is_ready(value->ready) && !value->block && value->array)
        fetch_now(fetch); /* the caller may hold Python's lock, and would wait with it */
    else
        event_on_ready(value->ready, fetch_when_ready, fetch);
    return NULL;
}

IMPLEMENT(Buffer_CopyRawToHost) {
    Buffer *buffer = args->buffer;
    if (args->offset < 0 || args->transfer_size < 0 ||
        (size_t)(args->offset + args->transfer_size) > buffer->nbytes)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "bytes %lld to %lld of a buffer of %zu",
                         (long long)args->offset,
                         (long long)(args->offset + args->transfer_size), buffer->nbytes);
    Value *value = buffer_value(buffer);
    if (!value)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "Buffer has been deleted or donated.");
    event_wait(value->ready);
    Error *error = event_error(value->ready);
    if (!error && !value->block)
        error = error_new(PJRT_Error_Code_UNIMPLEMENTED, "no raw access to memory of %s",
                          buffer->device->record->name);
    if (!error)
        memcpy(args->dst, (char *)value->block->data + args->offset, (size_t)args->transfer_size);
    value_unref(value);
    args->event = event_ref(&ready_event);
    return error;
}

/* Device to device */

typedef struct {
    Device *from_device, *to_device;
    Value *from, *to;
    PJRT_Buffer_Type type;
    size_t rank, nbytes;
    int64_t dims[MOST_DIMS];
} Move;

static Error *move_by_python(Move *move) {
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    PyObject *from =
        value_array(move->from_device, move->from, move->type, move->dims, move->rank);
    PyObject *made =
        from ? python_call(engine.copy, python_tuple(3, python_ref(from),
                                                     python_ref(move->to_device->client->python),
                                                     py.PyLong_FromLongLong(move->to_device->index)))
             : NULL;
    Error *error = made ? NULL : error_from_python();
    if (made) value_adopt(move->to, made);
    if (made) py.Py_DecRef(made);
    python_leave(&scope);
    return error;
}

static Error *move_here(Move *move) {
    Block *block = block_allocate(move->to_device, move->nbytes);
    if (!block) return out_of_memory(move->to_device, move->nbytes);
    memcpy(block->data, move->from->block->data, move->nbytes);
    move->to->block = block;
    return NULL;
}

static void move_task(void *argument) {
    Move *move = argument;
    bool is_here = move->from->block && move->to_device->client->record->host_addressable;
    event_set(move->to->ready, is_here ? move_here(move) : move_by_python(move));
    value_unref(move->from);
    value_unref(move->to);
    free(move);
}

static void lose_move(void *argument) { event_lose(((Move *)argument)->to->ready); }

static void move_when_ready(Error *error, void *argument) {
    Move *move = argument;
    if (!error && move->nbytes <= SHORT_COPY && move->from->block) {
        move_task(move);
    } else if (!error) {
        worker_enqueue(move->to_device, move_task, lose_move, move);
    } else {
        event_set(move->to->ready, error);
        value_unref(move->from);
        value_unref(move->to);
        free(move);
    }
}

static Error *copy_to(Buffer *buffer, Device *device, Buffer **copy) {
    Error *error = check_rank(buffer->rank);
    if (error) return error;
    Value *from = buffer_value(buffer);
    if (!from)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "Buffer has been deleted or donated.");
    Value *to = value_new(NULL, NULL, event_new());
    *copy = buffer_new(device, buffer->type, buffer->dims, buffer->rank, to);
    Move *move = malloc(sizeof *move);
    if (!move) abort();
    *move = (Move){.from_device = buffer->device, .to_device = device, .from = from};
    move->to = value_ref(to);
    move->type = buffer->type;
    move->rank = buffer->rank;
    move->nbytes = buffer->nbytes;
    memcpy(move->dims, buffer->dims, buffer->rank * sizeof(int64_t));
    event_on_ready(from->ready, move_when_ready, move);
    return NULL;
}

IMPLEMENT(Buffer_CopyToDevice) {
    return copy_to(args->buffer, args->dst_device, &args->dst_buffer);
}

IMPLEMENT(Buffer_CopyToMemory) {
    return copy_to(args->buffer, args->dst_memory->device, &args->dst_buffer);
}

IMPLEMENT(Buffer_Bitcast) {
    Value *value = buffer_value(args->buffer);
    if (!value)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "Buffer has been deleted or donated.");
    Buffer *made = buffer_new(
        args->buffer->device, args->element_type, args->dims, args->num_dims, NULL);
    bool fits = made->nbytes == args->buffer->nbytes && value->block;
    made->value = fits ? value_new(block_ref(value->block), NULL, event_ref(value->ready)) : NULL;
    value_unref(value);
    if (fits) {
        args->out_buffer = made;
        return NULL;
    }
    free(made);
    return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "a bitcast keeps size and place of a buffer");
}

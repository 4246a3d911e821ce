/* Arrays from devices to the host's memory. */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/* A copy to the host: sizes and strides from major to minor in the device's memory. */
typedef struct {
    Device *device;
    Value *value;
    void *to;
    Event *done;
    PJRT_Buffer_Type type;
    size_t rank, nbytes;
    int64_t dims[MOST_DIMS], strides[MOST_DIMS], from_strides[MOST_DIMS];
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
        copy_array(fetch->dims, fetch->rank, type_nbytes(fetch->type), fetch->nbytes,
                   fetch->value->block->data, fetch->from_strides, fetch->to, fetch->strides);
    } else {
        error = fetch_by_python(fetch);
    }
    event_set(fetch->done, error);
    event_unref(fetch->done);
    value_unref(fetch->value);
    free(fetch);
}

static void fetch_task(void *argument) { fetch_now(argument); }
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
        worker_enqueue(fetch->device, fetch_task, fetch, fetch->done);
    }
}

/* Strides in the client's memory: as asked for, else row-major. */
static void host_strides(
    const PJRT_Buffer_MemoryLayout *layout, const Buffer *buffer, const int64_t *sizes,
    int64_t *strides) {
    if (layout && layout->type == PJRT_Buffer_MemoryLayout_Type_Strides &&
        layout->strides.num_byte_strides == buffer->rank) {
        memcpy(strides, layout->strides.byte_strides, buffer->rank * sizeof *strides);
        return;
    }
    bool is_given = layout && layout->type == PJRT_Buffer_MemoryLayout_Type_Tiled &&
                    layout->tiled.minor_to_major_size == buffer->rank;
    dense_strides(sizes, buffer->rank, is_given ? layout->tiled.minor_to_major : NULL,
                  type_nbytes(buffer->type), strides);
}

static size_t sizes_nbytes(const Buffer *buffer, const int64_t *sizes) {
    size_t nbytes = type_nbytes(buffer->type);
    for (size_t i = 0; i < buffer->rank; i++) nbytes *= (size_t)sizes[i];
    return nbytes;
}

static Fetch *fetch_new(
    const Buffer *buffer, const int64_t *sizes, Value *value,
    const PJRT_Buffer_MemoryLayout *layout, void *to) {
    Fetch *fetch = malloc(sizeof *fetch);
    if (!fetch) abort();
    *fetch = (Fetch){.device = buffer->memory->device, .value = value, .to = to};
    fetch->type = buffer->type;
    fetch->rank = buffer->rank;
    fetch->nbytes = sizes_nbytes(buffer, sizes);
    const int64_t *order = buffer->dims + buffer->rank;
    int64_t strides[MOST_DIMS], bounds[MOST_DIMS];
    host_strides(layout, buffer, sizes, strides);
    by_major(buffer->dims, order, buffer->rank, bounds);
    dense_strides(bounds, buffer->rank, NULL, type_nbytes(buffer->type), fetch->from_strides);
    by_major(sizes, order, buffer->rank, fetch->dims);
    by_major(strides, order, buffer->rank, fetch->strides);
    return fetch;
}

IMPLEMENT(Buffer_ToHostBuffer) {
    Buffer *buffer = args->src;
    const int64_t *sizes;
    Error *error = buffer_sizes(buffer, &sizes);
    if (error) return error;
    size_t nbytes = sizes_nbytes(buffer, sizes);
    if (!args->dst) {
        args->dst_size = nbytes;
        return NULL;
    }
    if (args->dst_size < nbytes)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "%zu bytes do not fit into %zu", nbytes,
                         args->dst_size);
    Value *value = buffer_value(buffer);
    if (!value) return deleted_error();
    Fetch *fetch = fetch_new(buffer, sizes, value, args->host_layout, args->dst);
    args->event = event_new();
    fetch->done = event_ref(args->event);
    if (event_is_ready(value->ready) && !value->block && value->array)
        fetch_now(fetch); /* the caller may hold Python's lock, and would wait with it */
    else
        event_on_ready(value->ready, fetch_when_ready, fetch);
    return NULL;
}

/* Bytes as they are in the device's memory */

typedef struct {
    Value *value;
    void *to;
    int64_t offset, nbytes;
    Event *done;
} RawFetch;

static void fetch_raw_when_ready(Error *error, void *argument) {
    RawFetch *fetch = argument;
    if (!error && !fetch->value->block)
        error = error_new(PJRT_Error_Code_UNIMPLEMENTED,
                          "the host has no raw access to this device's memory");
    if (!error)
        memcpy(fetch->to, (char *)fetch->value->block->data + fetch->offset, (size_t)fetch->nbytes);
    event_set(fetch->done, error);
    event_unref(fetch->done);
    value_unref(fetch->value);
    free(fetch);
}

IMPLEMENT(Buffer_CopyRawToHost) {
    Buffer *buffer = args->buffer;
    int64_t end;
    if (args->offset < 0 || args->transfer_size < 0 ||
        __builtin_add_overflow(args->offset, args->transfer_size, &end) ||
        (size_t)end > buffer->nbytes)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
                         "%lld bytes from byte %lld on of a buffer of %zu",
                         (long long)args->transfer_size, (long long)args->offset, buffer->nbytes);
    Value *value = buffer_value(buffer);
    if (!value) return deleted_error();
    RawFetch *fetch = malloc(sizeof *fetch);
    if (!fetch) abort();
    args->event = event_new();
    *fetch = (RawFetch){value, args->dst, args->offset, args->transfer_size, event_ref(args->event)};
    event_on_ready(value->ready, fetch_raw_when_ready, fetch);
    return NULL;
}

/* Blocks of memory, values in them, and buffers, which are a client's names for values. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

enum { ALIGNMENT = 64 };

/* Guards which value a buffer has; held for a few instructions. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
HOLD_OVER_FORK(lock)

size_t type_nbytes(PJRT_Buffer_Type type) {
    static const unsigned char sizes[PJRT_Buffer_Type_COUNT] = {
        0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8, 16, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1};
    return (unsigned)type < PJRT_Buffer_Type_COUNT ? sizes[type] : 0;
}

static void raise_to(_Atomic int64_t *peak, int64_t value) {
    int64_t before = *peak;
    while (before < value && !atomic_compare_exchange_weak(peak, &before, value)) {
    }
}

Block *block_allocate(Device *device, size_t nbytes) {
    size_t rounded = (nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (rounded < nbytes) return NULL;
    void *data = aligned_alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT);
    Block *block = data ? calloc(1, sizeof *block) : NULL;
    if (!block) {
        free(data);
        return NULL;
    }
    *block = (Block){.refs = 1, .data = data, .nbytes = nbytes, .writable = true, .device = device};
    device->allocations++;
    raise_to(&device->largest_nbytes, (int64_t)nbytes);
    raise_to(&device->peak_nbytes, device->nbytes_in_use += (int64_t)nbytes);
    return block;
}

Error *out_of_memory(Device *device, size_t nbytes) {
    return error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                     "Out of memory allocating %zu bytes on %s; %lld bytes are in use", nbytes,
                     device->record->name, (long long)device->nbytes_in_use);
}

Block *block_ref(Block *block) {
    if (block) block->refs++;
    return block;
}

void block_unref(Block *block) {
    if (!block || --block->refs) return;
    if (block->on_delete) block->on_delete(block->data, block->on_delete_argument);
    if (block->released) {
        event_set(block->released, NULL);
        event_unref(block->released);
    }
    if (block->device) {
        block->device->nbytes_in_use -= (int64_t)block->nbytes;
        block->device->allocations--;
        free(block->data);
    }
    python_release(block->owner);
    free(block);
}

Value *value_new(Block *block, PyObject *array, Event *ready) {
    Value *value = calloc(1, sizeof *value);
    if (!value) abort();
    *value = (Value){.refs = 1, .block = block, .array = array, .ready = ready};
    return value;
}

Value *value_ref(Value *value) {
    value->refs++;
    return value;
}

void value_unref(Value *value) {
    if (!value || --value->refs) return;
    python_release(value->array);
    block_unref(value->block);
    event_unref(value->ready);
    free(value);
}

Buffer *buffer_new(Memory *memory, PJRT_Buffer_Type type, const int64_t *dims, size_t rank,
                   const int64_t *minor_to_major, Value *value) {
    Buffer *buffer = malloc(sizeof *buffer + 2 * rank * sizeof *dims);
    if (!buffer) abort();
    *buffer = (Buffer){.value = value, .memory = memory, .type = type, .rank = rank};
    buffer->nbytes = type_nbytes(type);
    for (size_t i = 0; i < rank; i++) {
        buffer->dims[i] = dims[i];
        buffer->dims[rank + i] = minor_to_major ? minor_to_major[i] : (int64_t)(rank - 1 - i);
        buffer->nbytes *= (size_t)dims[i];
    }
    return buffer;
}

static Dynamic *dynamic_new(size_t rank) {
    Dynamic *dynamic = calloc(1, sizeof *dynamic + rank * (sizeof(int64_t) + sizeof(size_t)));
    if (!dynamic) abort();
    dynamic->indices = (size_t *)(dynamic->sizes + rank);
    return dynamic;
}

void buffer_set_dynamic(Buffer *buffer, const uint8_t *flags) {
    for (size_t i = 0; i < buffer->rank; i++) {
        if (!flags[i]) continue;
        if (!buffer->dynamic) buffer->dynamic = dynamic_new(buffer->rank);
        buffer->dynamic->indices[buffer->dynamic->count++] = i;
    }
}

void buffer_dynamic_as(Buffer *buffer, const Buffer *other) {
    if (!other->dynamic) return;
    buffer->dynamic = dynamic_new(buffer->rank);
    buffer->dynamic->count = other->dynamic->count;
    memcpy(buffer->dynamic->indices, other->dynamic->indices, buffer->rank * sizeof(size_t));
}

/* Asks the engine, which knows sizes from major to minor; the value is ready, without error. */
static Error *ask_sizes(Buffer *buffer, const Value *value) {
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    PyObject *told = python_call(engine.live_dims, python_tuple(1, python_ref(value->array)));
    Error *error = told ? NULL : error_from_python();
    const int64_t *minor_to_major = buffer->dims + buffer->rank;
    for (size_t i = 0; told && i < buffer->rank; i++)
        buffer->dynamic->sizes[minor_to_major[buffer->rank - 1 - i]] =
            py.PyLong_AsLongLong(py.PyTuple_GetItem(told, (ssize_t)i));
    if (told) {
        py.Py_DecRef(told);
        buffer->dynamic->is_known = true;
    }
    python_leave(&scope);
    return error;
}

Error *buffer_sizes(Buffer *buffer, const int64_t **sizes) {
    *sizes = buffer->dynamic ? buffer->dynamic->sizes : buffer->dims;
    if (!buffer->dynamic || buffer->dynamic->is_known) return NULL;
    Value *value = buffer_value(buffer);
    if (!value) return deleted_error();
    event_wait(value->ready);
    Error *error = event_error(value->ready);
    if (!error) error = ask_sizes(buffer, value);
    value_unref(value);
    return error;
}

Value *buffer_value(Buffer *buffer) {
    pthread_mutex_lock(&lock);
    Value *value = buffer->value ? value_ref(buffer->value) : NULL;
    pthread_mutex_unlock(&lock);
    return value;
}

Value *buffer_take(Buffer *buffer) {
    pthread_mutex_lock(&lock);
    Value *value = buffer->value;
    buffer->value = NULL;
    pthread_mutex_unlock(&lock);
    return value;
}

void value_adopt(Value *value, PyObject *made) {
    value->array = python_ref(py.PyTuple_GetItem(made, 0));
    void *address = py.PyLong_AsVoidPtr(py.PyTuple_GetItem(made, 1));
    if (!address) return;
    Block *block = calloc(1, sizeof *block);
    if (!block) abort();
    *block = (Block){.refs = 1, .data = address, .owner = python_ref(value->array)};
    block->nbytes = (size_t)py.PyLong_AsLongLong(py.PyTuple_GetItem(made, 2));
    value->block = block;
}

static void release_block(PyObject *capsule) {
    block_unref(py.PyCapsule_GetPointer(capsule, NULL));
}

PyObject *value_array(Device *device, Value *value, int type, const int64_t *dims, size_t rank) {
    if (value->array) return value->array;
    PyObject *capsule = py.PyCapsule_New(block_ref(value->block), NULL, release_block);
    PyObject *made = python_call(
        engine.view,
        python_tuple(6, python_ref(device->client->python), py.PyLong_FromLongLong(device->index),
                     py.PyLong_FromVoidPtr(value->block->data), py.PyLong_FromLongLong(type),
                     python_dims(dims, rank), capsule));
    if (!value->array)
        value->array = made;
    else if (made)
        py.Py_DecRef(made); /* another thread was faster while Python ran */
    return value->array;
}

void buffer_free(Buffer *buffer) {
    value_unref(buffer->value);
    value_unref(buffer->held);
    free(buffer->dynamic);
    free(buffer);
}

IMPLEMENT(Buffer_Destroy) {
    buffer_free(args->buffer);
    return NULL;
}

IMPLEMENT(Buffer_Delete) {
    value_unref(buffer_take(args->buffer));
    return NULL;
}

IMPLEMENT(Buffer_IsDeleted) {
    args->is_deleted = !args->buffer->value;
    return NULL;
}

IMPLEMENT(Buffer_ElementType) {
    args->type = args->buffer->type;
    return NULL;
}

IMPLEMENT(Buffer_Dimensions) {
    args->dims = args->buffer->dims;
    args->num_dims = args->buffer->rank;
    return NULL;
}

IMPLEMENT(Buffer_UnpaddedDimensions) {
    args->num_dims = args->buffer->rank;
    return buffer_sizes(args->buffer, &args->unpadded_dims);
}

IMPLEMENT(Buffer_DynamicDimensionIndices) {
    const Dynamic *dynamic = args->buffer->dynamic;
    args->dynamic_dim_indices = dynamic ? dynamic->indices : NULL;
    args->num_dynamic_dims = dynamic ? dynamic->count : 0;
    return NULL;
}

IMPLEMENT(Buffer_GetMemoryLayout) {
    Buffer *buffer = args->buffer;
    memset(&args->layout, 0, sizeof args->layout);
    args->layout.struct_size = sizeof args->layout;
    args->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    args->layout.tiled.struct_size = sizeof args->layout.tiled;
    args->layout.tiled.minor_to_major = buffer->dims + buffer->rank;
    args->layout.tiled.minor_to_major_size = buffer->rank;
    return NULL;
}

IMPLEMENT(Buffer_OnDeviceSizeInBytes) {
    args->on_device_size_in_bytes = args->buffer->nbytes;
    return NULL;
}

IMPLEMENT(Buffer_Device) {
    args->device = args->buffer->memory->device;
    return NULL;
}

IMPLEMENT(Buffer_Memory) {
    args->memory = args->buffer->memory;
    return NULL;
}

/* Elements of fewer than 8 bits are packed by those who read memory as a CPU client's. */
static bool is_packed(PJRT_Buffer_Type type) {
    return type == PJRT_Buffer_Type_S4 || type == PJRT_Buffer_Type_U4 ||
           type == PJRT_Buffer_Type_S2 || type == PJRT_Buffer_Type_U2 ||
           type == PJRT_Buffer_Type_F4E2M1FN;
}

/* Nor is the live part of a dynamic array all that is at its address, and in that order. */
IMPLEMENT(Buffer_IsOnCpu) {
    Buffer *buffer = args->buffer;
    args->is_on_cpu = buffer->memory->device->client->record->host_addressable &&
                      !is_packed(buffer->type) && !buffer->dynamic;
    return NULL;
}

Error *deleted_error(void) {
    return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "Buffer has been deleted or donated.");
}

/* jaxlib asks whether a buffer is deleted, then this, and ends the process at an error: another
 * thread may delete or donate it between the two. So the event has the error. */
IMPLEMENT(Buffer_ReadyEvent) {
    Value *value = buffer_value(args->buffer);
    if (value) {
        args->event = event_ref(value->ready);
        value_unref(value);
        return NULL;
    }
    args->event = event_new();
    event_set(args->event, deleted_error());
    return NULL;
}

/* The address of a buffer, which is waited for. */
static Error *find_address(Buffer *buffer, void **address) {
    Value *value = buffer_value(buffer);
    if (!value) return deleted_error();
    event_wait(value->ready);
    Error *error = event_error(value->ready);
    if (!error && !value->block)
        error = error_new(PJRT_Error_Code_UNIMPLEMENTED, "memory of %s has no host address",
                          buffer->memory->device->record->name);
    if (!error) *address = value->block->data;
    value_unref(value);
    return error;
}

IMPLEMENT(Buffer_UnsafePointer) {
    void *address = NULL;
    Error *error = find_address(args->buffer, &address);
    args->buffer_pointer = (uintptr_t)address;
    return error;
}

IMPLEMENT(Buffer_OpaqueDeviceMemoryDataPointer) {
    return find_address(args->buffer, &args->device_memory_ptr);
}

IMPLEMENT(Buffer_IncreaseExternalReferenceCount) {
    Buffer *buffer = args->buffer;
    pthread_mutex_lock(&lock);
    bool is_live = buffer->held || buffer->value;
    if (is_live && !buffer->external_references++ && !buffer->held)
        buffer->held = value_ref(buffer->value);
    pthread_mutex_unlock(&lock);
    return is_live ? NULL : deleted_error();
}

IMPLEMENT(Buffer_DecreaseExternalReferenceCount) {
    Buffer *buffer = args->buffer;
    pthread_mutex_lock(&lock);
    bool is_last = buffer->external_references && !--buffer->external_references;
    Value *held = is_last ? buffer->held : NULL;
    if (is_last) buffer->held = NULL;
    pthread_mutex_unlock(&lock);
    value_unref(held);
    return NULL;
}

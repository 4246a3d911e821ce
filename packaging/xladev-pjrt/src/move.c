/* Arrays from one memory to another, and under another type. */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

enum { SHORT_COPY = 1 << 16 };

typedef struct {
    Device *from_device, *to_device;
    Value *from, *to;
    PJRT_Buffer_Type type;
    size_t rank, nbytes;
    bool is_dynamic; /* its sizes are the engine's */
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
    bool is_here = move->from->block && !move->is_dynamic && move->to_device->client->record->host_addressable;
    event_set(move->to->ready, is_here ? move_here(move) : move_by_python(move));
    value_unref(move->from);
    value_unref(move->to);
    free(move);
}

static void move_when_ready(Error *error, void *argument) {
    Move *move = argument;
    if (!error && move->nbytes <= SHORT_COPY && move->from->block && !move->is_dynamic) {
        move_task(move);
    } else if (!error) {
        worker_enqueue(move->to_device, move_task, move, move->to->ready);
    } else {
        event_set(move->to->ready, error);
        value_unref(move->from);
        value_unref(move->to);
        free(move);
    }
}

static Error *copy_to(Buffer *buffer, Memory *memory, Buffer **copy) {
    Value *from = buffer_value(buffer);
    if (!from) return deleted_error();
    Value *to = value_new(NULL, NULL, event_new());
    const int64_t *order = buffer->dims + buffer->rank;
    *copy = buffer_new(memory, buffer->type, buffer->dims, buffer->rank, order, to);
    buffer_dynamic_as(*copy, buffer);
    Move *move = malloc(sizeof *move);
    if (!move) abort();
    *move = (Move){.from_device = buffer->memory->device, .to_device = memory->device, .from = from};
    move->to = value_ref(to);
    move->type = buffer->type;
    move->rank = buffer->rank;
    move->is_dynamic = buffer->dynamic;
    move->nbytes = buffer->nbytes;
    by_major(buffer->dims, order, buffer->rank, move->dims);
    event_on_ready(from->ready, move_when_ready, move);
    return NULL;
}

IMPLEMENT(Buffer_CopyToDevice) {
    return copy_to(args->buffer, &args->dst_device->memories[0], &args->dst_buffer);
}

IMPLEMENT(Buffer_CopyToMemory) {
    return copy_to(args->buffer, args->dst_memory, &args->dst_buffer);
}

IMPLEMENT(Buffer_Bitcast) {
    int64_t order[MOST_DIMS];
    Error *error = check_shape(args->element_type, args->dims, args->num_dims);
    if (!error) error = read_layout(args->device_layout, args->num_dims, order);
    if (error) return error;
    if (args->buffer->dynamic)
        return error_new(PJRT_Error_Code_UNIMPLEMENTED, "no bitcast of an array of dynamic size");
    Value *value = buffer_value(args->buffer);
    if (!value) return deleted_error();
    event_wait(value->ready); /* its block is known from then on */
    Buffer *made = buffer_new(
        args->buffer->memory, args->element_type, args->dims, args->num_dims, order, NULL);
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

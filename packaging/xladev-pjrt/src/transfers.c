/* The extension by which clients move arrays to devices of other processes.
 *
 * Both processes name a transfer by the same key. The engine sends and receives in threads of its own,
 * since workers run in order what one process asked for, and two that receive before they send would
 * wait for each other. A client that is told UNIMPLEMENTED, as of layouts with tiles, tries the older
 * functions, which refuse in their own words.
 */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    Client *client;
    size_t num_buffers;
    Buffer **buffers;
    const int *device_ids; /* where each goes */
    const int64_t *keys;
    Event **events;
} SendArgs;

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    Client *client;
    size_t num_shapes;
    const size_t *ranks;
    const int64_t *const *dims;
    const PJRT_Buffer_Type *types;
    PJRT_Buffer_MemoryLayout *const *layouts;
    Device *device;
    const int *device_ids; /* where each comes from */
    const int64_t *keys;
    Buffer **buffers;
} ReceiveArgs;

/* An array on its way: dims as the client knows them. */
typedef struct {
    Device *device; /* of this process */
    Value *value;
    Event *done, *arrived;
    PyObject *receipt;
    Error *failure; /* why there is nothing to send */
    PJRT_Buffer_Type type;
    size_t rank;
    int process;
    int64_t key;
    int64_t dims[MOST_DIMS], minor_to_major[MOST_DIMS];
} Transfer;

static Error *find_process(Client *client, int id, int *process) {
    const ClientRecord *record = client->record;
    for (size_t i = 0; i < client->num_devices; i++)
        if (client->devices[i].record->id == id) {
            *process = client->devices[i].record->process_index;
            if (*process != record->process_index) return NULL;
            return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
                             "device %d is of this process: nothing goes between processes", id);
        }
    return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "platform %s has no device %d",
                     record->platform_name, id);
}

static Transfer *transfer_new(Device *device, PJRT_Buffer_Type type, size_t rank, const int64_t *dims,
                              const int64_t *minor_to_major, int process, int64_t key) {
    Transfer *transfer = calloc(1, sizeof *transfer);
    if (!transfer) abort();
    transfer->device = device;
    transfer->type = type;
    transfer->rank = rank;
    transfer->process = process;
    transfer->key = key;
    memcpy(transfer->dims, dims, rank * sizeof *dims);
    memcpy(transfer->minor_to_major, minor_to_major, rank * sizeof *dims);
    return transfer;
}

static void transfer_free(Transfer *transfer) {
    event_unref(transfer->done);
    event_unref(transfer->arrived);
    value_unref(transfer->value);
    python_release(transfer->receipt);
    free(transfer);
}

static void transfer_end(Transfer *transfer, Error *error) {
    event_set(transfer->done, error);
    transfer_free(transfer);
}

/* Calls the engine; its result, or NULL and the error. */
static PyObject *ask(PyObject *function, PyObject *arguments, Error **error) {
    PyObject *told = python_call(function, arguments);
    *error = told ? NULL : error_from_python();
    return told;
}

/* Who gets the event's address gives up a reference when it sets it. */
static PyObject *event_address(Event *event) { return py.PyLong_FromVoidPtr(event_ref(event)); }

static Error *in_python(Error *(*work)(Transfer *transfer), Transfer *transfer) {
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    Error *error = work(transfer);
    python_leave(&scope);
    return error;
}

/* Sending */

/* Lets this process stay until the array has gone. */
static Error *promise_in_python(Transfer *transfer) {
    Error *error;
    PyObject *told = ask(engine.promise,
                         python_tuple(2, python_ref(transfer->device->client->python),
                                      py.PyLong_FromLongLong(transfer->key)),
                         &error);
    if (told) py.Py_DecRef(told);
    return error;
}

static Error *send_in_python(Transfer *transfer) {
    int64_t by_order[MOST_DIMS];
    by_major(transfer->dims, transfer->minor_to_major, transfer->rank, by_order);
    PyObject *array = value_array(transfer->device, transfer->value, (int)transfer->type, by_order,
                                  transfer->rank);
    if (!array) return error_from_python();
    Error *error;
    PyObject *told = ask(
        engine.send,
        python_tuple(6, python_ref(transfer->device->client->python), python_ref(array),
                     python_dims(transfer->minor_to_major, transfer->rank),
                     py.PyLong_FromLongLong(transfer->process), py.PyLong_FromLongLong(transfer->key),
                     event_address(transfer->done)),
        &error);
    if (told)
        py.Py_DecRef(told);
    else
        event_unref(transfer->done); /* the engine did not take it */
    return error;
}

/* The other process would wait for an array whose computation failed. */
static Error *tell_failure(Transfer *transfer) {
    const char *text = error_message(transfer->failure);
    Error *error;
    PyObject *told = ask(
        engine.fail_transfer,
        python_tuple(3, python_ref(transfer->device->client->python),
                     py.PyLong_FromLongLong(transfer->key),
                     py.PyUnicode_FromStringAndSize(text, (ssize_t)strlen(text))),
        &error);
    if (told) py.Py_DecRef(told);
    return error;
}

static void send_task(void *argument) {
    Transfer *transfer = argument;
    Error *error = transfer->failure ? NULL : in_python(send_in_python, transfer);
    if (!error && !transfer->failure) {
        transfer_free(transfer);
        return;
    }
    if (error) transfer->failure = error;
    Error *untold = in_python(tell_failure, transfer);
    if (untold) error_free(untold);
    error = transfer->failure;
    transfer_end(transfer, error);
}

static void send_when_ready(Error *error, void *argument) {
    Transfer *transfer = argument;
    transfer->failure = error;
    worker_enqueue(transfer->device, send_task, transfer, transfer->done);
}

static Error *check_sent(SendArgs *args, size_t i, int *process) {
    Buffer *buffer = args->buffers[i];
    if (buffer->dynamic)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
                         "an array of dynamic size does not go to another process");
    return find_process(args->client, args->device_ids[i], process);
}

static void send_buffer(Buffer *buffer, int process, int64_t key, Event **event) {
    *event = event_new();
    Value *value = buffer_value(buffer);
    if (!value) {
        value = value_new(NULL, NULL, event_new()); /* fails as what was computed in vain does */
        event_set(value->ready, deleted_error());
    }
    const int64_t *order = buffer->dims + buffer->rank;
    Transfer *transfer = transfer_new(buffer->memory->device, buffer->type, buffer->rank, buffer->dims,
                                      order, process, key);
    transfer->value = value;
    transfer->done = event_ref(*event);
    Error *error = in_python(promise_in_python, transfer);
    if (error) error_free(error); /* sending fails too, and says why */
    event_on_ready(value->ready, send_when_ready, transfer);
}

static Error *send_buffers(SendArgs *args) {
    int process;
    Error *error = NULL;
    for (size_t i = 0; i < args->num_buffers && !error; i++) error = check_sent(args, i, &process);
    if (error) return error;
    for (size_t i = 0; i < args->num_buffers; i++) {
        check_sent(args, i, &process);
        send_buffer(args->buffers[i], process, args->keys[i], &args->events[i]);
    }
    return NULL;
}

/* Receiving */

static Error *receive_in_python(Transfer *transfer) {
    Error *error;
    transfer->receipt = ask(
        engine.receive,
        python_tuple(8, python_ref(transfer->device->client->python),
                     py.PyLong_FromLongLong(transfer->device->index),
                     py.PyLong_FromLongLong(transfer->type),
                     python_dims(transfer->dims, transfer->rank),
                     python_dims(transfer->minor_to_major, transfer->rank),
                     py.PyLong_FromLongLong(transfer->process), py.PyLong_FromLongLong(transfer->key),
                     event_address(transfer->arrived)),
        &error);
    if (error) event_unref(transfer->arrived);
    return error;
}

static Error *adopt_in_python(Transfer *transfer) {
    Error *error;
    PyObject *made = ask(engine.received, python_tuple(1, python_ref(transfer->receipt)), &error);
    if (made) value_adopt(transfer->value, made);
    if (made) py.Py_DecRef(made);
    return error;
}

static void adopt_task(void *argument) {
    Transfer *transfer = argument;
    transfer_end(transfer, in_python(adopt_in_python, transfer));
}

static void adopt_when_arrived(Error *error, void *argument) {
    Transfer *transfer = argument;
    if (error)
        transfer_end(transfer, error);
    else
        worker_enqueue(transfer->device, adopt_task, transfer, transfer->done);
}

static Error *receive_buffer(ReceiveArgs *args, size_t i, Buffer **made) {
    int process;
    int64_t order[MOST_DIMS];
    Error *error = find_process(args->client, args->device_ids[i], &process);
    if (!error) error = check_shape(args->types[i], args->dims[i], args->ranks[i]);
    if (!error) error = read_layout(args->layouts ? args->layouts[i] : NULL, args->ranks[i], order);
    if (error) return error;
    Transfer *transfer = transfer_new(args->device, args->types[i], args->ranks[i], args->dims[i],
                                      order, process, args->keys[i]);
    transfer->done = event_new();
    transfer->arrived = event_new();
    transfer->value = value_new(NULL, NULL, event_ref(transfer->done));
    error = in_python(receive_in_python, transfer);
    if (error) {
        transfer_free(transfer);
        return error;
    }
    *made = buffer_new(&args->device->memories[0], args->types[i], args->dims[i], args->ranks[i],
                       order, value_ref(transfer->value));
    event_on_ready(transfer->arrived, adopt_when_arrived, transfer);
    return NULL;
}

static Error *receive_buffers(ReceiveArgs *args) {
    Error *error = client_open(args->client);
    for (size_t i = 0; i < args->num_shapes && !error; i++) {
        error = receive_buffer(args, i, &args->buffers[i]);
        if (error)
            while (i) buffer_free(args->buffers[--i]);
        if (error) break;
    }
    return error;
}

/* The older functions, by which a receiver describes its buffers to the sender */

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    Buffer *buffer;
    Event *event; /* when the descriptor is there; ours to free */
    char **descriptor;
    size_t *descriptor_size;
    struct {
        void *argument;
        void (*on_done)(Error *error, bool sends_were_enqueued, void *argument);
    } done;
    void (*destroy_descriptor)(char **descriptor, size_t *size);
} RemoteCopyArgs;

static Error *older(void) {
    return error_new(PJRT_Error_Code_UNIMPLEMENTED,
                     "xladev sends and receives arrays between processes by their keys alone");
}

static Error *make_receive_buffers(void *args) {
    (void)args;
    return older();
}

typedef struct {
    Event *event;
    char **descriptor;
    size_t *size;
    void (*destroy)(char **descriptor, size_t *size);
} Descriptor;

static void drop_descriptor(Error *error, void *argument) {
    Descriptor *descriptor = argument;
    if (error) error_free(error);
    if (descriptor->destroy) descriptor->destroy(descriptor->descriptor, descriptor->size);
    event_unref(descriptor->event);
    free(descriptor);
}

/* Has no result for an error: the caller is told by its callback. */
static void copy_to_remote(RemoteCopyArgs *args) {
    Error *error = older();
    args->done.on_done(error, false, args->done.argument);
    error_free(error);
    Descriptor *descriptor = malloc(sizeof *descriptor);
    if (!descriptor) abort();
    *descriptor = (Descriptor){args->event, args->descriptor, args->descriptor_size, NULL};
    if (HAS_FIELD(args, destroy_descriptor)) descriptor->destroy = args->destroy_descriptor;
    event_on_ready(args->event, drop_descriptor, descriptor);
}

static struct {
    PJRT_Extension_Base base;
    Error *(*make_receive_buffers)(void *args);
    void (*copy_to_remote)(RemoteCopyArgs *args);
    Error *(*receive)(ReceiveArgs *args);
    Error *(*send)(SendArgs *args);
} extension = {{sizeof extension, 12, NULL},
               make_receive_buffers, copy_to_remote, receive_buffers, send_buffers};

PJRT_Extension_Base *transfers_extension = &extension.base;

/* Several processes: the store in which they leave values for each other, and who is still there. */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

typedef struct KeyValues {
    PJRT_KeyValueGetCallback get;
    PJRT_KeyValuePutCallback put;
    void *get_argument, *put_argument;
} KeyValues;

struct KeyValues *key_values_new(const PJRT_Client_Create_Args *args) {
    if (!args->kv_get_callback || !args->kv_put_callback) return NULL;
    KeyValues *store = malloc(sizeof *store);
    if (!store) abort();
    *store = (KeyValues){args->kv_get_callback, args->kv_put_callback, args->kv_get_user_arg,
                         args->kv_put_user_arg};
    return store;
}

static PJRT_Error *refuse(PJRT_Error_Code code, const char *message, size_t size) {
    return error_copy((int)code, message, size);
}

static PJRT_CallbackError refusal = refuse;

/* Writes an error's text where a value would be; its code. */
static int tell(Error *error, char *buffer, size_t capacity, size_t *size) {
    int code = error_code(error);
    *size = strnlen(error_message(error), capacity);
    memcpy(buffer, error_message(error), *size);
    error_free(error);
    return code;
}

/* For the engine: 0, or a code with the text of the error in `buffer`. */
__attribute__((visibility("default"))) int xladev_key_values_put(
    KeyValues *store, const char *key, size_t key_size, const char *value, size_t value_size,
    char *buffer, size_t capacity, size_t *size) {
    PJRT_KeyValuePutCallback_Args args = {
        sizeof args, NULL, key, key_size, value, value_size, &refusal, store->put_argument};
    Error *error = store->put(&args);
    *size = 0;
    return error ? tell(error, buffer, capacity, size) : 0;
}

/* Waits for a value, of which at most `capacity` bytes are written to `buffer`; `size` is all. */
__attribute__((visibility("default"))) int xladev_key_values_get(
    KeyValues *store, const char *key, size_t key_size, int timeout_ms, char *buffer,
    size_t capacity, size_t *size) {
    PJRT_KeyValueGetCallback_Args args = {
        .struct_size = sizeof args, .key = key, .key_size = key_size, .timeout_in_ms = timeout_ms,
        .callback_error = &refusal, .user_arg = store->get_argument};
    Error *error = store->get(&args);
    if (error) return tell(error, buffer, capacity, size);
    *size = args.value_size;
    memcpy(buffer, args.value, args.value_size < capacity ? args.value_size : capacity);
    if (args.value_deleter_callback) args.value_deleter_callback(args.value);
    return 0;
}

static PyObject *states(const PJRT_ProcessInfo *infos, size_t count) {
    PyObject *rows = py.PyTuple_New((ssize_t)count);
    for (size_t i = 0; rows && i < count; i++) {
        const char *text = infos[i].error_message ? infos[i].error_message : "";
        PyObject *message = py.PyUnicode_FromStringAndSize(
            text, *text ? (ssize_t)infos[i].error_message_size : 0);
        PyObject *row = python_tuple(3, py.PyLong_FromLongLong(infos[i].task_id),
                                     py.PyLong_FromLongLong(infos[i].state), message);
        py.PyTuple_SetItem(rows, (ssize_t)i, row);
    }
    return rows;
}

/* jaxlib tells every client that is open where jax.distributed is used, whoever computes, and ends
 * the process at an error: so none is given. */
IMPLEMENT(Client_UpdateGlobalProcessInfo) {
    Client *client = args->client;
    if (client->deferred || client->record->num_processes < 2) return NULL;
    PythonScope scope;
    if (!python_enter(&scope)) return NULL;
    PyObject *told = python_call(
        engine.update_processes,
        python_tuple(2, python_ref(client->python),
                     states(args->process_infos, args->num_process_infos)));
    if (told) py.Py_DecRef(told);
    py.PyErr_Clear();
    python_leave(&scope);
    return NULL;
}

/* Errors: a code and a text. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/* Since 0.112 an error begins with a pointer to this table. */
typedef struct {
    size_t struct_size, instance_size;
    PJRT_Extension_Base *extension_start;
    void (*destroy)(Error *error);
    void (*message)(const Error *error, const char **message, size_t *size);
    PJRT_Error_Code (*get_code)(const Error *error);
    void (*for_each_payload)(const Error *error, void *visitor, void *argument);
} ErrorFunctions;

struct PJRT_Error {
    const ErrorFunctions *functions; /* first: part of the interface */
    int code;
    size_t size;
    char message[];
};

static void get_message(const Error *error, const char **message, size_t *size) {
    *message = error->message;
    *size = error->size;
}

static PJRT_Error_Code get_code(const Error *error) { return (PJRT_Error_Code)error->code; }

static void for_each_payload(const Error *error, void *visitor, void *argument) {
    (void)error, (void)visitor, (void)argument;
}

static const ErrorFunctions functions = {
    sizeof(ErrorFunctions), sizeof(Error), NULL, error_free, get_message, get_code,
    for_each_payload};

Error *error_copy(int code, const char *message, size_t size) {
    Error *error = malloc(sizeof *error + size + 1);
    if (!error) abort();
    error->functions = &functions;
    error->code = code;
    error->size = size;
    memcpy(error->message, message, size);
    error->message[size] = 0;
    return error;
}

Error *error_new(int code, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_copy(code, text, strlen(text));
}

void error_free(Error *error) { free(error); }
int error_code(const Error *error) { return error->code; }
const char *error_message(const Error *error) { return error->message; }

/* What Ctrl-C or another signal's handler raised. */
typedef struct {
    PyObject *type, *value, *traceback;
} Raised;

static int raise_again(void *argument) {
    Raised raised = *(Raised *)argument;
    free(argument);
    py.PyErr_Restore(raised.type, raised.value, raised.traceback);
    return -1;
}

/* Clients make an ordinary exception of an error, which must not be all: the main thread raises
 * this one as soon as it is back in Python, and takes the references. False if it cannot. */
static bool raise_later(Raised raised) {
    Raised *kept = malloc(sizeof *kept);
    if (!kept) abort();
    *kept = raised;
    if (!py.Py_AddPendingCall(raise_again, kept)) return true;
    free(kept);
    return false;
}

Error *error_from_python(void) {
    PyObject *type, *value, *traceback;
    py.PyErr_Fetch(&type, &value, &traceback);
    py.PyErr_NormalizeException(&type, &value, &traceback);
    Error *error = NULL;
    ssize_t size = 0;
    PyObject *told =
        value ? python_call(engine.describe_error, python_tuple(1, python_ref(value))) : NULL;
    const char *text = told ? py.PyUnicode_AsUTF8AndSize(py.PyTuple_GetItem(told, 1), &size) : NULL;
    if (text)
        error = error_copy(
            (int)py.PyLong_AsLongLong(py.PyTuple_GetItem(told, 0)), text, (size_t)size);
    py.PyErr_Clear();
    if (told) py.Py_DecRef(told);
    if (error && error->code == PJRT_Error_Code_CANCELLED &&
        raise_later((Raised){type, value, traceback}))
        return error;
    if (type) py.Py_DecRef(type);
    if (value) py.Py_DecRef(value);
    if (traceback) py.Py_DecRef(traceback);
    return error ? error : error_new(PJRT_Error_Code_INTERNAL, "an error that has no text");
}

void shim_Error_Destroy(PJRT_Error_Destroy_Args *args) { error_free(args->error); }

void shim_Error_Message(PJRT_Error_Message_Args *args) {
    get_message(args->error, &args->message, &args->message_size);
}

IMPLEMENT(Error_GetCode) {
    args->code = get_code(args->error);
    return NULL;
}

IMPLEMENT(Error_ForEachPayload) {
    (void)args;
    return NULL;
}

/* The extension by which a client's profiler records what runs here: a table of functions of its
 * own, with errors of its own. Layout: OpenXLA's `xla/backends/profiler/plugin/profiler_c_api.h`.
 *
 * A client that registers the library under several names has as many profilers at once; the
 * engine gives what was recorded to the first. While no client of ours is open there is nothing to
 * record, and no Python to ask.
 */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

typedef struct {
    char *options;
    size_t options_size;
    PyObject *session; /* while it records, and until its data is taken */
    char *data;        /* a serialized XSpace */
    size_t size;
} Profiler;

#define ERROR_ARGS(name, ...)   \
    typedef struct {            \
        size_t struct_size;     \
        void *priv;             \
        __VA_ARGS__             \
    } name##Args;
#define PROFILER_ARGS(name, ...) \
    typedef struct {             \
        size_t struct_size;      \
        __VA_ARGS__              \
    } name##Args;

ERROR_ARGS(ErrorDestroy, Error *error;)
ERROR_ARGS(ErrorMessage, const Error *error; const char *message; size_t message_size;)
ERROR_ARGS(ErrorCode, const Error *error; int code;)
PROFILER_ARGS(Create, const char *options; size_t options_size; Profiler *profiler;)
PROFILER_ARGS(Profiler, Profiler *profiler;)
PROFILER_ARGS(Collect, Profiler *profiler; uint8_t *buffer; size_t buffer_size;)

static void error_destroy(ErrorDestroyArgs *args) { error_free(args->error); }

static void error_text(ErrorMessageArgs *args) {
    args->message = error_message(args->error);
    args->message_size = strlen(args->message);
}

static Error *error_number(ErrorCodeArgs *args) {
    args->code = error_code(args->error);
    return NULL;
}

static Error *create(CreateArgs *args) {
    Profiler *profiler = calloc(1, sizeof *profiler);
    char *options = malloc(args->options_size + 1);
    if (!profiler || !options) abort();
    if (args->options_size) memcpy(options, args->options, args->options_size);
    profiler->options = options;
    profiler->options_size = args->options_size;
    args->profiler = profiler;
    return NULL;
}

static Error *start(ProfilerArgs *args) {
    Profiler *profiler = args->profiler;
    PythonScope scope;
    if (profiler->session || !python_is_started() || !python_enter(&scope)) return NULL;
    PyObject *options =
        py.PyBytes_FromStringAndSize(profiler->options, (ssize_t)profiler->options_size);
    profiler->session = python_call(engine.start_profile, python_tuple(1, options));
    Error *error = profiler->session ? NULL : error_from_python();
    python_leave(&scope);
    return error;
}

static void take_data(Profiler *profiler, PyObject *told) {
    char *bytes = NULL;
    ssize_t size = 0;
    if (py.PyBytes_AsStringAndSize(told, &bytes, &size)) return;
    free(profiler->data);
    profiler->data = malloc((size_t)size + 1);
    if (!profiler->data) abort();
    memcpy(profiler->data, bytes, (size_t)size);
    profiler->size = (size_t)size;
}

static Error *stop(ProfilerArgs *args) {
    Profiler *profiler = args->profiler;
    PythonScope scope;
    if (!profiler->session || !python_enter(&scope)) return NULL;
    PyObject *told = python_call(engine.stop_profile, python_tuple(1, profiler->session));
    profiler->session = NULL; /* the tuple had the reference */
    if (told) take_data(profiler, told);
    Error *error = py.PyErr_Occurred() ? error_from_python() : NULL;
    if (told) py.Py_DecRef(told);
    python_leave(&scope);
    return error;
}

/* Into the caller's buffer, or where it has none into one that lives as long as the profiler. */
static Error *collect(CollectArgs *args) {
    Profiler *profiler = args->profiler;
    if (!args->buffer)
        args->buffer = (uint8_t *)profiler->data;
    else if (profiler->size)
        memcpy(args->buffer, profiler->data, profiler->size);
    args->buffer_size = profiler->size;
    return NULL;
}

static Error *destroy(ProfilerArgs *args) {
    Profiler *profiler = args->profiler;
    if (!profiler) return NULL;
    Error *error = stop(args);
    free(profiler->data);
    free(profiler->options);
    free(profiler);
    return error;
}

/* The table as it first was: jaxlib 0.10 takes one of this size alone, and later ones take it too.
 * What they added serves profiles that go on for ever. */
static struct {
    size_t struct_size;
    void *priv;
    void (*error_destroy)(ErrorDestroyArgs *args);
    void (*error_message)(ErrorMessageArgs *args);
    Error *(*error_code)(ErrorCodeArgs *args);
    Error *(*create)(CreateArgs *args);
    Error *(*destroy)(ProfilerArgs *args);
    Error *(*start)(ProfilerArgs *args);
    Error *(*stop)(ProfilerArgs *args);
    Error *(*collect)(CollectArgs *args);
} functions = {sizeof functions, NULL, error_destroy, error_text, error_number,
               create,           destroy, start,      stop,       collect};

static struct {
    PJRT_Extension_Base base;
    void *functions;
    int64_t context;
} extension = {{sizeof extension, 1, NULL}, &functions, 0};

PJRT_Extension_Base *profiler_extension = &extension.base;

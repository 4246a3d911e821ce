/* What runs on the device, in TensorFlow's profiles: the planes of xladev-pjrt's profiler.
 *
 * Layouts: tensorflow/c/experimental/pluggable_profiler/pluggable_profiler.h, and OpenXLA's
 * xla/backends/profiler/plugin/profiler_c_api.h. TensorFlow has one profiler of a library, and one
 * profile at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "pjrt.h"
#include "plugin.h"

typedef struct {
    size_t struct_size;
    void *extension;
    const char *device_type;
} TP_Profiler;

typedef struct {
    size_t struct_size;
    void *extension;
    void (*start)(const TP_Profiler *profiler, TF_Status *status);
    void (*stop)(const TP_Profiler *profiler, TF_Status *status);
    void (*collect)(
        const TP_Profiler *profiler, uint8_t *buffer, size_t *size, TF_Status *status);
} TP_ProfilerFns;

typedef struct {
    size_t struct_size;
    void *extension;
    int32_t major_version, minor_version, patch_version;
    TP_Profiler *profiler;
    TP_ProfilerFns *functions;
    void (*destroy_profiler)(TP_Profiler *profiler);
    void (*destroy_functions)(TP_ProfilerFns *functions);
} ProfilerParams;

/* The functions of PJRT's extension, which give errors of its own. */
typedef struct {
    size_t struct_size;
    void *private;
    void (*error_destroy)(Args *args);
    void (*error_message)(Args *args);
    void *(*error_code)(Args *args);
    Function create, destroy, start, stop, collect;
} Functions;

typedef struct Extension {
    size_t struct_size;
    int type;
    struct Extension *next;
    const Functions *functions; /* of the extension that is asked for */
} Extension;

enum { PROFILER_EXTENSION = 1 };

static const Functions *find_functions(void) {
    const void *const *api = pjrt_api();
    const Extension *extension = api ? api[1] : NULL;
    while (extension && extension->type != PROFILER_EXTENSION) extension = extension->next;
    return extension ? extension->functions : NULL;
}

static const Functions *functions;
static void *recording; /* what `create` gave, until TensorFlow has its data */

static void tell(void *error, TF_Status *status) {
    if (!error) return;
    Args of = {.struct_size = sizeof of, .first = error}; /* the message, its size */
    functions->error_message(&of);
    char *message = strndup((const char *)of.second, (size_t)of.third);
    if (!message) abort();
    ((void (*)(TF_Status *, int, const char *))tensorflow.set_status)(
        status, TF_INTERNAL, message);
    free(message);
    Args done = {.struct_size = sizeof done, .first = error};
    functions->error_destroy(&done);
}

/* Arguments of this table have no extension after their size, but for those of errors. */
typedef struct {
    size_t struct_size;
    void *first, *second, *third;
} ProfilerArgs;

static void *ask_of(Function function) {
    ProfilerArgs args = {.struct_size = sizeof args, .first = recording};
    return function(&args);
}

static void let_go(TF_Status *status) {
    if (recording) tell(ask_of(functions->destroy), status);
    recording = NULL;
}

static void start(const TP_Profiler *profiler, TF_Status *status) {
    (void)profiler;
    if (!functions) return;
    let_go(status);
    ProfilerArgs made = {.struct_size = sizeof made, .first = ""}; /* options: as by default */
    tell(functions->create(&made), status);
    recording = made.third;
    if (recording) tell(ask_of(functions->start), status);
}

static void stop(const TP_Profiler *profiler, TF_Status *status) {
    (void)profiler;
    if (recording) tell(ask_of(functions->stop), status);
}

static void collect(
    const TP_Profiler *profiler, uint8_t *buffer, size_t *size, TF_Status *status) {
    (void)profiler;
    *size = 0;
    if (!recording) return;
    ProfilerArgs args = {.struct_size = sizeof args, .first = recording}; /* the data, its size */
    tell(functions->collect(&args), status);
    *size = (size_t)args.third;
    if (!buffer) return;
    if (*size) memcpy(buffer, args.second, *size);
    let_go(status);
}

static void forget_profiler(TP_Profiler *profiler) { (void)profiler; }
static void forget_functions(TP_ProfilerFns *of) { (void)of; }

/* TensorFlow asks after the device, where the library has this function. It ends the process at any
 * status but OK, so a library without a device has a profiler too, which records nothing. */
EXPORT void TF_InitProfiler(ProfilerParams *params, TF_Status *status) {
    (void)status;
    functions = is_usable() ? find_functions() : NULL;
    params->struct_size = sizeof *params;
    *params->profiler = (TP_Profiler){sizeof(TP_Profiler), NULL, device_type()};
    *params->functions = (TP_ProfilerFns){sizeof(TP_ProfilerFns), NULL, start, stop, collect};
    params->destroy_profiler = forget_profiler;
    params->destroy_functions = forget_functions;
}

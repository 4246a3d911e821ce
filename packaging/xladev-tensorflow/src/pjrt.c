/* The PJRT API that TensorFlow talks to: xladev-pjrt's, but for the options of its client. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt.h"
#include "plugin.h"

enum { FIRST_SLOT_NBYTES = 40 }; /* sizes, an extension and the version come before the functions */
enum { NAMED_STRING = 0, NAMED_INT64 = 1, TABLE_NBYTES = 1 << 13 };

typedef struct {
    size_t struct_size;
    void *extension;
    const char *name;
    size_t name_size;
    int type;
    union {
        const char *string_value;
        int64_t int64_value;
    };
    size_t value_size;
} NamedValue;

typedef struct {
    size_t struct_size;
    void *extension;
    const NamedValue *options;
    size_t num_options;
} ClientCreateArgs;

static union {
    size_t struct_size;
    char bytes[TABLE_NBYTES];
} table;
static Function create_client;
CallMeeting *call_meeting;

Function *pjrt_slot(int number) { return (Function *)(table.bytes + FIRST_SLOT_NBYTES) + number; }

/* The platform is opened when something is compiled or copied, not here: TensorFlow makes a client
 * under a lock that threads with Python's lock wait for. */
static void *create_deferred(void *given) {
    ClientCreateArgs *args = given;
    const char *platform = platform_name();
    int count = device_count();
    NamedValue options[] = {
        {.struct_size = sizeof(NamedValue), .name = "platform", .name_size = 8, .type = NAMED_STRING,
         .string_value = platform, .value_size = strlen(platform)},
        {.struct_size = sizeof(NamedValue), .name = "deferred_devices", .name_size = 16,
         .type = NAMED_INT64, .int64_value = count, .value_size = 1},
        {.struct_size = sizeof(NamedValue), .name = "num_devices", .name_size = 11,
         .type = NAMED_INT64, .int64_value = count, .value_size = 1},
    };
    args->options = options;
    args->num_options = count > 1 ? 3 : 2; /* else as many as there are */
    void *error = create_client(args);
    args->options = NULL;
    args->num_options = 0;
    return error;
}

/* Beside this library, in site-packages; or where Python finds the package (pip install -e). */
static const char *beside(char *path, size_t size) {
    Dl_info info;
    if (!dladdr((void *)create_deferred, &info)) return NULL;
    const char *end = strstr(info.dli_fname, "/tensorflow-plugins/");
    if (!end) return NULL;
    snprintf(path, size, "%.*s/xladev_pjrt/libxladev_pjrt.so", (int)(end - info.dli_fname),
             info.dli_fname);
    return path;
}

static void *open_library(void) {
    char path[4096];
    const char *named = getenv("XLADEV_PJRT_LIBRARY");
    void *library = NULL;
    if (named && *named) return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (beside(path, sizeof path)) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library && call_python("xladev_pjrt", "library_path", path, sizeof path)) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library;
}

static const void *load(void) {
    void *library = open_library();
    if (!library) {
        const char *why = dlerror();
        say("no device, for the library of xladev-pjrt cannot be loaded (%s): python -m pip install "
            "xladev-pjrt", why ? why : "the package is not installed");
        return NULL;
    }
    const void *(*get)(void) = (const void *(*)(void))dlsym(library, "GetPjrtApi");
    size_t size = get ? *(const size_t *)get() : 0;
    if (!size || size > sizeof table) {
        say("no device, for the library of xladev-pjrt is of another release: install xladev-pjrt and "
            "xladev-tensorflow of the same release");
        return NULL;
    }
    memcpy(table.bytes, get(), size);
    create_client = *pjrt_slot(SLOT_CLIENT_CREATE);
    *pjrt_slot(SLOT_CLIENT_CREATE) = create_deferred;
    call_meeting = (CallMeeting *)dlsym(library, "xladev_call_meeting");
    register_executions();
    register_downloads();
    return &table;
}

const void *pjrt_api(void) {
    static const void *api;
    static bool is_asked;
    if (!is_asked) api = load();
    is_asked = true;
    return api;
}

static void *do_nothing(void *arguments) {
    (void)arguments;
    return NULL;
}

/* TensorFlow wants a table, though it will see no device: one of functions that do nothing. */
static const void *empty_api(void) {
    enum { NUM_SLOTS = 138, MINOR_VERSION = 114, VERSION_NBYTES = 24 };
    static struct {
        size_t struct_size;
        void *extension;
        size_t version_size;
        void *version_extension;
        int major_version, minor_version;
        Function functions[NUM_SLOTS];
    } empty = {.struct_size = sizeof empty, .version_size = VERSION_NBYTES,
               .minor_version = MINOR_VERSION};
    for (int i = 0; i < NUM_SLOTS; i++) empty.functions[i] = do_nothing;
    return &empty;
}

EXPORT const void *GetPjrtApi(void) { return pjrt_api() ? pjrt_api() : empty_api(); }

static void take_message(void *error, char *message, size_t size) {
    Args args = {.struct_size = sizeof args, .first = error};
    (*pjrt_slot(SLOT_ERROR_MESSAGE))(&args);
    snprintf(message, size, "%.*s", (int)(size_t)args.third, (const char *)args.second);
    Args done = {.struct_size = sizeof done, .first = error};
    (*pjrt_slot(SLOT_ERROR_DESTROY))(&done);
}

void *pjrt_copy(void *buffer, char *message, size_t size) {
    Args where = {.struct_size = sizeof where, .first = buffer};
    void *error = (*pjrt_slot(SLOT_BUFFER_DEVICE))(&where);
    Args copy = {.struct_size = sizeof copy, .first = buffer, .second = where.second};
    if (!error) error = (*pjrt_slot(SLOT_BUFFER_COPY_TO_DEVICE))(&copy);
    if (!error) return copy.third;
    take_message(error, message, size);
    return NULL;
}

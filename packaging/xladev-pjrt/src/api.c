/* The table of functions, and the symbol that clients look for. */
#include <pthread.h>
#include <stddef.h>

#include "pjrt_types.h"

PJRT_Error *error_new(int code, const char *format, ...);

typedef PJRT_Error *(*Function)(void *args);

/* Every function has one that refuses; those that another file implements take its place. */
#define SLOT(name)                                                                    \
    extern PJRT_Error *shim_##name(void *args) __attribute__((weak));                 \
    static PJRT_Error *refuse_##name(void *args) {                                    \
        (void)args;                                                                   \
        return error_new(PJRT_Error_Code_UNIMPLEMENTED, "xladev has no PJRT_" #name); \
    }
#include "pjrt_slots.h"
#undef SLOT

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    struct {
        size_t struct_size;
        PJRT_Extension_Base *extension_start;
        int major_version, minor_version;
    } version;
    Function functions[
#define SLOT(name) +1
#include "pjrt_slots.h"
#undef SLOT
    ];
} Api;

static Api api = {sizeof(Api), NULL, {sizeof api.version, NULL, PJRT_API_MAJOR, PJRT_API_MINOR}, {0}};

extern PJRT_Extension_Base *layouts_extension, *profiler_extension, *shardings_extension,
    *transfers_extension;

static void link_extensions(void) {
    PJRT_Extension_Base *all[] = {layouts_extension, profiler_extension, shardings_extension,
                                  transfers_extension};
    PJRT_Extension_Base **next = &api.extension_start;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *next = all[i];
        next = &all[i]->next;
    }
}

static void fill(void) {
    link_extensions();
    Function *next = api.functions;
#define SLOT(name) *next++ = shim_##name ? shim_##name : refuse_##name;
#include "pjrt_slots.h"
#undef SLOT
}

/* What a PJRT client calls after it has loaded the library. */
__attribute__((visibility("default"))) const void *GetPjrtApi(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
    return &api;
}

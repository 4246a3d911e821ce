/* Clients that are opened when they are first used.
 *
 * A framework makes all devices that are installed when it begins, and most programs use none of
 * ours. Such a client answers from a record made here, with as many devices as it was told, until
 * something is compiled or copied. Opening takes Python; making one does not, so a framework may make
 * it under locks of its own.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

static const char OPTION[] = "deferred_devices";

typedef struct Deferred {
    struct Deferred *next;
    bool is_opening;
    size_t num_options;
    PJRT_NamedValue options[]; /* of Client_Create, but the one above */
} Deferred;

/* Guards `is_opening` and the end of it; held for a few instructions. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Deferred *all; /* never freed, for a client stays */
HOLD_OVER_FORK(lock)

/* A child of fork lacks the thread that was opening a client: the next use begins anew. */
static void after_fork(void) {
    pthread_cond_init(&changed, NULL);
    for (Deferred *deferred = all; deferred; deferred = deferred->next) deferred->is_opening = false;
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }

static bool is_deferral(const PJRT_NamedValue *option) {
    return option->name_size == sizeof OPTION - 1 && !memcmp(option->name, OPTION, sizeof OPTION - 1);
}

int64_t deferred_devices(const PJRT_NamedValue *options, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (is_deferral(&options[i]) && options[i].type == PJRT_NamedValue_kInt64)
            return options[i].int64_value;
    return 0;
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    if (!memory) abort();
    return memory;
}

static const char *text_copy(const char *text, size_t size) {
    char *copy = allocate(size, 1);
    memcpy(copy, text, size);
    return copy;
}

static Deferred *deferred_new(const PJRT_NamedValue *options, size_t count) {
    Deferred *deferred = allocate(1, sizeof *deferred + count * sizeof *options);
    for (size_t i = 0; i < count; i++) {
        if (is_deferral(&options[i])) continue;
        PJRT_NamedValue *kept = &deferred->options[deferred->num_options++];
        *kept = options[i];
        kept->name = text_copy(kept->name, kept->name_size);
        if (kept->type == PJRT_NamedValue_kString)
            kept->string_value = text_copy(kept->string_value, kept->value_size);
    }
    pthread_mutex_lock(&lock);
    deferred->next = all;
    all = deferred;
    pthread_mutex_unlock(&lock);
    return deferred;
}

/* Not freed: clients, like their devices, stay. */
static const ClientRecord *provisional_record(size_t count) {
    enum { NAME_SIZE = 32 };
    ClientRecord *record = allocate(1, sizeof *record);
    DeviceRecord *devices = allocate(count, sizeof *devices);
    for (size_t i = 0; i < count; i++) {
        char *name = allocate(1, NAME_SIZE);
        snprintf(name, NAME_SIZE, "xladev:%zu", i);
        devices[i] = (DeviceRecord){
            .id = (int64_t)i, .local_id = (int)i, .kind = "xladev", .debug_string = name, .name = name,
            .memory_kind = "device"};
    }
    *record = (ClientRecord){.platform_name = "xladev", .platform_version = "xladev",
                             .num_processes = 1,
                             .num_devices = count, .devices = devices};
    return record;
}

Client *client_deferred(const PJRT_NamedValue *options, size_t count, int64_t num_devices) {
    size_t devices = (size_t)num_devices;
    Client *client = client_new(provisional_record(devices), devices);
    client->deferred = deferred_new(options, count);
    return client;
}

static Error *adopt(Client *client, PyObject *told) {
    const ClientRecord *record = py.PyLong_AsVoidPtr(py.PyTuple_GetItem(told, 1));
    if (record->num_devices < client->num_devices)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
                         "platform %s has %zu devices, and %zu were asked for",
                         record->platform_name, record->num_devices, client->num_devices);
    client->python = python_ref(py.PyTuple_GetItem(told, 0));
    for (size_t i = 0; i < client->num_devices; i++)
        client->devices[i].record = &record->devices[i];
    client->record = record;
    return NULL;
}

static Error *open_now(Client *client, const Deferred *deferred) {
    const char *problem = python_start();
    if (problem) return error_new(PJRT_Error_Code_UNAVAILABLE, "%s", problem);
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    PyObject *told = client_ask(deferred->options, deferred->num_options, NULL);
    Error *error = told ? adopt(client, told) : error_from_python();
    if (told) py.Py_DecRef(told);
    python_leave(&scope);
    return error;
}

/* Becomes the one who opens it, unless it is open by then. */
static void claim(void *argument) {
    Client *client = argument;
    pthread_mutex_lock(&lock);
    while (client->deferred && client->deferred->is_opening) pthread_cond_wait(&changed, &lock);
    if (client->deferred) client->deferred->is_opening = true;
    pthread_mutex_unlock(&lock);
}

/* After a failure the next use tries again. */
static void end_claim(Client *client, bool is_open) {
    pthread_mutex_lock(&lock);
    client->deferred->is_opening = false;
    if (is_open) client->deferred = NULL;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

Error *client_open(Client *client) {
    if (!client->deferred) return NULL;
    python_without_lock(claim, client);
    Deferred *deferred = client->deferred;
    if (!deferred) return NULL;
    Error *error = open_now(client, deferred);
    end_claim(client, !error);
    return error;
}

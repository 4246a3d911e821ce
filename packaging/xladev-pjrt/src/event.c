/* Events: ready or not, with an error or without, and what to call when ready. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

typedef struct Waiting {
    struct Waiting *next;
    Callback callback;
    void *argument;
} Waiting;

struct PJRT_Event {
    _Atomic int refs;
    atomic_bool is_ready;
    Error *error;
    Waiting *waiting;
};

Event ready_event = {.refs = 1, .is_ready = true};

/* Guards `waiting`, and `error` until ready; held for a few instructions. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
HOLD_OVER_FORK(lock)

static void after_fork(void) { pthread_cond_init(&changed, NULL); }

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }

Event *event_new(void) {
    Event *event = calloc(1, sizeof *event);
    if (!event) abort();
    event->refs = 1;
    return event;
}

Event *event_ref(Event *event) {
    if (event != &ready_event) event->refs++;
    return event;
}

void event_unref(Event *event) {
    if (!event || event == &ready_event || --event->refs) return;
    if (event->error) error_free(event->error);
    free(event);
}

bool event_is_ready(const Event *event) { return atomic_load(&event->is_ready); }

static Error *copy_of(const Error *error) {
    if (!error) return NULL;
    return error_copy(error_code(error), error_message(error), strlen(error_message(error)));
}

Error *event_error(const Event *event) { return copy_of(event->error); }

/* One by one, so that a child of fork finds those that a lost thread had not yet called. */
static Waiting *next_waiting(Event *event) {
    pthread_mutex_lock(&lock);
    Waiting *waiting = event->waiting;
    if (waiting) event->waiting = waiting->next;
    pthread_mutex_unlock(&lock);
    return waiting;
}

static void call_back(Event *event) {
    for (Waiting *waiting; (waiting = next_waiting(event)); free(waiting))
        waiting->callback(copy_of(event->error), waiting->argument);
}

void event_set(Event *event, Error *error) {
    event_ref(event); /* what is called back may let go of the last other reference */
    pthread_mutex_lock(&lock);
    event->error = error;
    atomic_store(&event->is_ready, true);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    call_back(event);
    event_unref(event);
}

void event_lose(Event *event) {
    if (event_is_ready(event))
        call_back(event);
    else
        event_set(event, error_new(PJRT_Error_Code_ABORTED,
                                   "the process forked while this was computed; only the parent has it"));
}

static void wait_until_ready(void *argument) {
    Event *event = argument;
    pthread_mutex_lock(&lock);
    while (!event_is_ready(event)) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void event_wait(Event *event) {
    if (!event_is_ready(event)) python_without_lock(wait_until_ready, event);
}

void event_on_ready(Event *event, Callback callback, void *argument) {
    if (!event_is_ready(event)) {
        Waiting *waiting = malloc(sizeof *waiting);
        if (!waiting) abort();
        *waiting = (Waiting){NULL, callback, argument};
        pthread_mutex_lock(&lock);
        bool must_wait = !event_is_ready(event);
        if (must_wait) {
            waiting->next = event->waiting;
            event->waiting = waiting;
        }
        pthread_mutex_unlock(&lock);
        if (must_wait) return;
        free(waiting);
    }
    callback(copy_of(event->error), argument);
}

/* Called by the engine when what an asynchronous device does is done; `message` NULL: well. */
__attribute__((visibility("default"))) void xladev_event_set(
    Event *event, int code, const char *message, size_t size) {
    event_set(event, message ? error_copy(code, message, size) : NULL);
    event_unref(event);
}

IMPLEMENT(Event_Destroy) {
    event_unref(args->event);
    return NULL;
}

IMPLEMENT(Event_IsReady) {
    args->is_ready = event_is_ready(args->event);
    return NULL;
}

IMPLEMENT(Event_Error) { return event_error(args->event); }

IMPLEMENT(Event_Await) {
    event_wait(args->event);
    return event_error(args->event);
}

IMPLEMENT(Event_OnReady) {
    event_on_ready(args->event, args->callback, args->user_arg);
    return NULL;
}

IMPLEMENT(Event_Create) {
    args->event = event_new();
    return NULL;
}

IMPLEMENT(Event_Set) {
    if (event_is_ready(args->event))
        return error_new(PJRT_Error_Code_FAILED_PRECONDITION, "the event was set before");
    Error *error = args->error_code ? error_copy((int)args->error_code, args->error_message,
                                                 args->error_message_size)
                                    : NULL;
    event_set(args->event, error);
    return NULL;
}

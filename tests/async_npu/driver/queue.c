/* Queues: a thread each, which takes its time. Kernels are computed by a function of the host's. */

#include "driver.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int (*kernel_function)(uint64_t token, uint8_t **buffers);

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
queue queues[MOST_QUEUES];
uint64_t known[MOST_QUEUES];
int checks = 1;
static uint64_t seed, longest_us;
static kernel_function compute;

EXPORT void an_configure(uint64_t new_seed, uint64_t new_longest_us, int new_checks,
                         kernel_function new_compute) {
    seed = new_seed;
    longest_us = new_longest_us;
    checks = new_checks;
    compute = new_compute;
}

static void release(event *e) {
    if (--e->references == 0) free(e);
}

/* Half of the time nothing, else up to `longest_us`, and now and then ten times as much. */
static void dawdle(queue *q) {
    q->random ^= q->random << 13;
    q->random ^= q->random >> 7;
    q->random ^= q->random << 17;
    uint64_t kind = q->random & 7, most_us = kind < 4 ? 0 : kind < 7 ? longest_us : 10 * longest_us;
    if (!most_us) return;
    uint64_t us = (q->random >> 8) % most_us;
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

/* Operands are read at the start, results are written at the end, and time passes between. */
static int64_t launch(queue *q, command *c) {
    uint8_t **copies = calloc(c->count, sizeof *copies);
    for (int i = 0; i < c->count; i++) {
        range *r = c->ranges + i;
        copies[i] = malloc(r->nbytes + 1);
        if (r->role & READS) memcpy(copies[i], r->data, r->nbytes);
        else memset(copies[i], 0xB5, r->nbytes);
    }
    int64_t failed = compute(c->token, copies) ? (int64_t)c->token : 0;
    dawdle(q);
    for (int i = 0; i < c->count; i++) {
        range *r = c->ranges + i;
        if (!failed && (r->role & WRITES)) memcpy(r->data, copies[i], r->nbytes);
        free(copies[i]);
    }
    free(copies);
    return failed;
}

static int64_t copy(queue *q, command *c) {
    range *to = c->ranges, *from = c->ranges + 1;
    uint64_t half = to->nbytes / 2;
    memmove(to->data, from->data, half);
    if (half > 4096) dawdle(q);
    memmove(to->data + half, from->data + half, to->nbytes - half);
    return 0;
}

static int64_t lost(command *c) {
    if (c->cancelled) return -HOST_FREED;
    for (int i = 0; checks && i < c->count; i++)
        if (c->ranges[i].block && c->ranges[i].block->freed) return -FREED;
    return 0;
}

static void work(queue *q, command *c) {
    int64_t failed = lost(c);
    if (!failed) {
        q->running = 1;
        pthread_mutex_unlock(&lock);
        dawdle(q);
        pthread_mutex_lock(&lock);
        failed = lost(c);
        pthread_mutex_unlock(&lock);
        if (!failed) failed = c->kind == COPY ? copy(q, c) : launch(q, c);
        pthread_mutex_lock(&lock);
        q->running = 0;
    }
    if (failed && !q->failure->token) q->failure->token = failed;
    unpin(c->ranges, c->count);
}

static void reach(queue *q, command *c) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    c->event->time_ns = now.tv_sec * 1000000000ull + now.tv_nsec;
    if (c->kind == RECORD) {
        c->event->failure = q->failure->token;
        q->failure->token = 0;
    }
    c->event->done = 1;
}

static void run(queue *q, command *c) {
    if (c->kind == COPY || c->kind == LAUNCH) {
        work(q, c);
        return;
    }
    if (c->kind == WAIT)
        while (!c->event->done && !q->device->closing) pthread_cond_wait(&progress, &lock);
    else reach(q, c);
    release(c->event);
}

static void *serve(void *given) {
    queue *q = given;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!q->todo && !q->closing) pthread_cond_wait(&q->work, &lock);
        if (!q->todo) break;
        command *c = q->todo;
        run(q, c);
        q->completed = c->number;
        q->todo = c->next;
        trim(q);
        pthread_cond_broadcast(&progress);
    }
    if (--q->failure->references == 0) free(q->failure);
    q->live = 0;
    pthread_cond_broadcast(&progress);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* A queue of its own, or a branch of another one; -1 if there are too many. */
EXPORT int an_queue(device *d, int parent) {
    pthread_mutex_lock(&lock);
    int id = 0;
    while (id < MOST_QUEUES && queues[id].live) id++;
    if (id < MOST_QUEUES) {
        queue *q = queues + id;
        q->live = 1;
        q->owner++;
        q->closing = 0;
        q->device = d;
        q->random = (seed + 1) * 0x9E3779B97F4A7C15ull + id * 0xBF58476D1CE4E5B9ull + q->enqueued;
        q->failure = parent < 0 ? calloc(1, sizeof *q->failure) : queues[parent].failure;
        q->failure->references++;
        memset(q->clock, 0, sizeof q->clock);
        pthread_cond_init(&q->work, NULL);
        pthread_t thread;
        pthread_create(&thread, NULL, serve, q);
        pthread_detach(thread);
    }
    pthread_mutex_unlock(&lock);
    return id < MOST_QUEUES ? id : -1;
}

EXPORT int an_queue_owner(int id) { return queues[id].owner; }

/* Its work goes on to the end. Nothing where the number is another queue's by now. */
EXPORT void an_queue_drop(int id, int owner) {
    pthread_mutex_lock(&lock);
    if (queues[id].owner == owner) {
        queues[id].closing = 1;
        pthread_cond_signal(&queues[id].work);
    }
    pthread_mutex_unlock(&lock);
}

static command *made(enum kind kind, int count) {
    command *c = calloc(1, sizeof *c + count * sizeof(range));
    c->kind = kind;
    c->count = count;
    return c;
}

static void append(queue *q, command *c) {
    c->number = ++q->enqueued;
    q->clock[q - queues] = c->number;
    if (q->last) q->last->next = c;
    else q->first = c;
    q->last = c;
    if (!q->todo) q->todo = c;
    pthread_cond_signal(&q->work);
}

/* Enqueues a command whose ranges have addresses or host pointers. */
static int submit(int id, command *c) {
    queue *q = queues + id;
    int status = OK, held = 0;
    pthread_mutex_lock(&lock);
    for (; held < c->count && !status; held += !status)
        if (!c->ranges[held].data) status = resolve(c->ranges + held);
    if (!status && checks && unordered(q, c->ranges, c->count)) status = UNORDERED;
    if (status) {
        unpin(c->ranges, held);
        free(c);
    } else {
        append(q, c);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* Copies; an end is a device address, or a host pointer where that is not NULL. */
EXPORT int an_copy(int id, uint64_t to, uint8_t *to_host, uint64_t from, uint8_t *from_host,
                   uint64_t nbytes) {
    command *c = made(COPY, 2);
    c->ranges[0] = (range){NULL, to_host, to_host ? 0 : to, nbytes, WRITES};
    c->ranges[1] = (range){NULL, from_host, from_host ? 0 : from, nbytes, READS};
    return submit(id, c);
}

EXPORT int an_launch(int id, uint64_t token, int count, const uint64_t *addresses,
                     const uint64_t *sizes, const uint8_t *roles) {
    for (int i = 0; i < count; i++)
        if (addresses[i] % ALIGNMENT) return UNALIGNED;
    command *c = made(LAUNCH, count);
    c->token = token;
    for (int i = 0; i < count; i++)
        c->ranges[i] = (range){NULL, NULL, addresses[i], sizes[i], roles[i]};
    return submit(id, c);
}

static event *moment(int id, enum kind kind) {
    event *e = calloc(1, sizeof *e);
    e->references = 2;
    command *c = made(kind, 0);
    c->event = e;
    pthread_mutex_lock(&lock);
    queue *q = queues + id;
    append(q, c);
    memcpy(e->clock, q->clock, sizeof e->clock);
    pthread_mutex_unlock(&lock);
    return e;
}

EXPORT event *an_record(int id) { return moment(id, RECORD); }

EXPORT event *an_mark(int id) { return moment(id, MARK); }

EXPORT void an_wait(int id, event *e) {
    command *c = made(WAIT, 0);
    c->event = e;
    pthread_mutex_lock(&lock);
    queue *q = queues + id;
    e->references++;
    append(q, c);
    for (int i = 0; i < MOST_QUEUES; i++)
        if (e->clock[i] > q->clock[i]) q->clock[i] = e->clock[i];
    pthread_mutex_unlock(&lock);
}

/* Waits up to so many seconds, without end if negative; 1 if the event is reached. */
EXPORT int an_event_wait(event *e, double seconds) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    if (seconds >= 0) {
        uint64_t ns = end.tv_nsec + (uint64_t)(seconds * 1e9);
        end.tv_sec += ns / 1000000000;
        end.tv_nsec = ns % 1000000000;
    }
    pthread_mutex_lock(&lock);
    for (int late = 0; !e->done && !late;) {
        if (seconds < 0) pthread_cond_wait(&progress, &lock);
        else late = pthread_cond_timedwait(&progress, &lock, &end) == ETIMEDOUT;
    }
    int done = e->done;
    if (done) learn(e);
    pthread_mutex_unlock(&lock);
    return done;
}

EXPORT int64_t an_event_failure(event *e) { return e->failure; }

EXPORT uint64_t an_event_time_ns(event *e) { return e->time_ns; }

EXPORT void an_event_drop(event *e) {
    pthread_mutex_lock(&lock);
    release(e);
    pthread_mutex_unlock(&lock);
}

static int touches_host(const command *c, const uint8_t *start, const uint8_t *end) {
    for (int i = 0; i < c->count && !c->cancelled; i++) {
        const range *r = c->ranges + i;
        if (!r->address && r->data < end && start < r->data + r->nbytes) return 1;
    }
    return 0;
}

/* Host memory goes away: commands that use it are waited for, or never run. 1 if the host could not
   know that they were done. */
EXPORT int an_host_freed(const uint8_t *start, uint64_t nbytes) {
    int early = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST_QUEUES; i++) {
        queue *q = queues + i;
        uint64_t last = 0;
        for (command *c = q->first; c; c = c->next)
            if (c->number > known[i] && touches_host(c, start, start + nbytes)) {
                c->cancelled = 1;
                last = c->number;
            }
        early |= last != 0;
        while (q->running && q->todo->number <= last) pthread_cond_wait(&progress, &lock);
    }
    pthread_mutex_unlock(&lock);
    return early;
}

/* Ends all queues of a device; what has not begun is left undone. */
EXPORT void an_close(device *d) {
    pthread_mutex_lock(&lock);
    d->closing = 1;
    for (int i = 0; i < MOST_QUEUES; i++) {
        queue *q = queues + i;
        if (!q->live || q->device != d) continue;
        for (command *c = q->todo; c; c = c->next) c->cancelled = 1;
        q->closing = 1;
        pthread_cond_signal(&q->work);
    }
    pthread_cond_broadcast(&progress);
    for (int i = 0; i < MOST_QUEUES; i++)
        while (queues[i].live && queues[i].device == d) pthread_cond_wait(&progress, &lock);
    for (int i = 0; i < MOST_QUEUES; i++) {
        if (queues[i].device != d) continue;
        known[i] = queues[i].enqueued;
        trim(queues + i);
    }
    pthread_mutex_unlock(&lock);
}

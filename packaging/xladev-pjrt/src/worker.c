/* One thread per device runs, in order, what does not run in its caller's thread. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

typedef struct Task {
    struct Task *next;
    Work work;
    void *argument;
    Event *done;
} Task;

typedef struct Worker {
    struct Worker *next;
    Task *first, **last;
    Task *current;
    const Device *device;
} Worker;

/* Guards all queues; held for a few instructions. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Worker *workers;
static Task *lost; /* in a child of fork: what its parent's threads had to do */
HOLD_OVER_FORK(lock)
static __thread bool is_worker;

/* Keeps a thread state for Python between tasks: making one takes microseconds. Timelines and
 * tracebacks call the thread by its device. */
static void attach_to_python(const Device *device) {
    PythonScope scope;
    if (!python_enter(&scope)) return;
    const char *name = device->record->name;
    PyObject *text = py.PyUnicode_FromStringAndSize(name, (ssize_t)strlen(name));
    PyObject *told = python_call(engine.name_thread, python_tuple(1, text));
    if (told) py.Py_DecRef(told);
    py.PyErr_Clear();
    py.PyEval_SaveThread();
}

static void *run(void *argument) {
    Worker *worker = argument;
    is_worker = true;
    attach_to_python(worker->device);
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!worker->first) pthread_cond_wait(&changed, &lock);
        Task *task = worker->first;
        worker->first = task->next;
        if (!worker->first) worker->last = &worker->first;
        worker->current = task;
        pthread_mutex_unlock(&lock);
        task->work(task->argument);
        pthread_mutex_lock(&lock);
        worker->current = NULL;
        event_unref(task->done);
        free(task);
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

static void lose_tasks(Task *task) {
    while (task) {
        Task *next = task->next;
        task->next = lost;
        lost = task;
        task = next;
    }
}

/* A child of fork has none of its parent's threads: new ones are started when needed. A worker that
 * forks itself, in a callback, goes on with its task. */
static void after_fork(void) {
    pthread_cond_init(&changed, NULL);
    for (Worker *worker = workers; worker; worker = worker->next) {
        lose_tasks(worker->first);
        if (worker->current && !is_worker) {
            worker->current->next = NULL;
            lose_tasks(worker->current);
        }
        worker->first = worker->current = NULL;
        worker->last = NULL;
    }
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }

/* Called by the engine in a child of fork, once Python runs there. What a lost thread was at is
 * neither freed nor read: nobody knows how far it came, and it may have freed its argument. */
__attribute__((visibility("default"))) void xladev_after_fork(void) {
    Task *task = lost;
    lost = NULL;
    for (; task; task = task->next) event_lose(task->done);
}

static void start(Worker *worker) {
    pthread_t thread;
    worker->last = &worker->first;
    if (pthread_create(&thread, NULL, run, worker)) abort();
    pthread_detach(thread);
}

static Worker *add_worker(const Device *device) {
    Worker *worker = calloc(1, sizeof *worker);
    if (!worker) abort();
    worker->device = device;
    worker->next = workers;
    return workers = worker;
}

void worker_enqueue(Device *device, Work work, void *argument, Event *done) {
    Task *task = malloc(sizeof *task);
    if (!task) abort();
    *task = (Task){NULL, work, argument, event_ref(done)};
    pthread_mutex_lock(&lock);
    if (!device->worker) device->worker = add_worker(device);
    if (!device->worker->last) start(device->worker);
    *device->worker->last = task;
    device->worker->last = &task->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

bool worker_is_current(void) { return is_worker; }

static bool is_idle(void) {
    for (Worker *worker = workers; worker; worker = worker->next)
        if (worker->first || worker->current) return false;
    return true;
}

static void wait_until_idle(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!is_idle()) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void workers_drain(void) { python_without_lock(wait_until_idle, NULL); }

/* Set when the interpreter begins to exit, by the thread that ends it. */
static atomic_bool is_leaving;
static pthread_t leaver;

/* Python ends a daemon thread where it next takes the lock; within a client's C++ that aborts the
 * process. One that goes on starting work while the interpreter exits is held here instead. */
void worker_admit(void) {
    if (!atomic_load_explicit(&is_leaving, memory_order_acquire) || is_worker) return;
    while (!pthread_equal(pthread_self(), leaver)) pause();
}

/* Called by the engine before it shuts the shim down. */
__attribute__((visibility("default"))) void xladev_drain(void) {
    if (is_worker) return;
    leaver = pthread_self();
    atomic_store_explicit(&is_leaving, true, memory_order_release);
    meetings_end();
    workers_drain();
}

/* Finds or starts Python, takes and gives back its lock, frees what could not be freed before. */
#define _GNU_SOURCE
#include "python.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

PythonApi py;
Engine engine;

static atomic_bool is_shut_down;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_started;

/* References that wait for the interpreter lock. */
typedef struct Released {
    struct Released *next;
    PyObject *object;
} Released;

static _Atomic(Released *) released;

static void *open_library(void) {
    const char *named = getenv("XLADEV_LIBPYTHON");
    if (named) return dlopen(named, RTLD_NOW | RTLD_GLOBAL);
    static const char *const names[] = {
        "libpython3.13.so.1.0", "libpython3.12.so.1.0", "libpython3.11.so.1.0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
        if (library) return library;
    }
    return NULL;
}

static const char *find_functions(void) {
    void *library = RTLD_DEFAULT;
    if (!dlsym(library, "Py_IsInitialized") && !(library = open_library()))
        return "there is no Python in this process and no shared libpython on the library path; "
               "set XLADEV_LIBPYTHON to one, and PYTHONHOME and PYTHONPATH if it needs them";
#define FIND(result, name, parameters) \
    if (!(*(void **)&py.name = dlsym(library, #name))) return "libpython lacks " #name;
    PYTHON_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

static const char *find_engine(void) {
    PyObject *module = py.PyImport_ImportModule("xladev.frontends.jax.engine");
    if (!module) return "xladev.frontends.jax.engine cannot be imported";
#define FIND(name) \
    if (!(engine.name = py.PyObject_GetAttrString(module, #name))) return "the engine lacks " #name;
    ENGINE_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

static void print_exception(void) {
    PyObject *type, *value, *traceback;
    py.PyErr_Fetch(&type, &value, &traceback);
    py.PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = value ? py.PyObject_GetAttrString(value, "args") : NULL;
    PyObject *first = text && py.PyTuple_Size(text) > 0 ? py.PyTuple_GetItem(text, 0) : NULL;
    const char *message = first ? py.PyUnicode_AsUTF8AndSize(first, NULL) : NULL;
    if (message) fprintf(stderr, "xladev: %s\n", message);
    py.PyErr_Clear();
}

static const char *start_locked(void) {
    const char *problem;
    bool was_running = py.Py_IsInitialized();
    if (!was_running) py.Py_InitializeEx(0);
    int gil = was_running ? py.PyGILState_Ensure() : 0;
    problem = find_engine();
    if (problem) print_exception();
    if (was_running)
        py.PyGILState_Release(gil);
    else
        py.PyEval_SaveThread();
    return problem;
}

static const char *missing; /* why there is no Python to start */

static void find_once(void) { missing = find_functions(); }

static void hold_start(void *unused) {
    (void)unused;
    pthread_mutex_lock(&start_lock);
}

const char *python_start(void) {
    static const char *problem;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_once);
    if (missing) return missing;
    python_without_lock(hold_start, NULL); /* who has it may need Python's lock */
    if (!is_started) problem = start_locked();
    is_started = !problem;
    pthread_mutex_unlock(&start_lock);
    return problem;
}

bool python_is_started(void) { return atomic_load(&is_started); }

/* A child of fork may come from a thread that another one kept waiting here. */
static void after_fork(void) { pthread_mutex_init(&start_lock, NULL); }

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }

static int free_released(void *unused) {
    (void)unused;
    Released *list = atomic_exchange(&released, NULL);
    while (list) {
        Released *next = list->next;
        py.Py_DecRef(list->object);
        free(list);
        list = next;
    }
    return 0;
}

bool python_enter(PythonScope *scope) {
    if (atomic_load(&is_shut_down)) return false;
    scope->gil = py.PyGILState_Ensure();
    py.PyErr_Fetch(&scope->type, &scope->value, &scope->traceback);
    if (atomic_load_explicit(&released, memory_order_relaxed)) free_released(NULL);
    return true;
}

void python_leave(PythonScope *scope) {
    py.PyErr_Restore(scope->type, scope->value, scope->traceback);
    py.PyGILState_Release(scope->gil);
}

/* A client's host, which runs Python, may wait here before the shim has started anything. */
static bool python_runs(void) {
    if (atomic_load(&is_shut_down)) return false;
    return is_started || (py.PyCapsule_GetPointer && py.Py_IsInitialized());
}

void python_without_lock(void (*wait)(void *argument), void *argument) {
    if (!python_runs()) {
        wait(argument);
        return;
    }
    int gil = py.PyGILState_Ensure();
    void *thread = py.PyEval_SaveThread();
    wait(argument);
    py.PyEval_RestoreThread(thread);
    py.PyGILState_Release(gil);
}

void python_release(PyObject *object) {
    if (!object || atomic_load(&is_shut_down)) return;
    Released *entry = malloc(sizeof *entry);
    if (!entry) return;
    Released *before = atomic_load(&released);
    do { /* once it is in the list, another thread may free it */
        *entry = (Released){before, object};
    } while (!atomic_compare_exchange_weak(&released, &before, entry));
    if (!before) py.Py_AddPendingCall(free_released, NULL);
}

/* Called by the engine when the interpreter begins to exit: nothing enters Python from then on. */
__attribute__((visibility("default"))) void xladev_shut_down(void) {
    atomic_store(&is_shut_down, true);
}

/* Grows with every change of what shim and engine say to each other that an engine with functions
 * for older shims besides would not be. */
__attribute__((visibility("default"))) int xladev_interface(void) { return 13; }

PyObject *python_ref(PyObject *object) {
    py.Py_IncRef(object);
    return object;
}

PyObject *python_tuple(int count, ...) {
    PyObject *tuple = py.PyTuple_New(count);
    va_list items;
    va_start(items, count);
    bool is_whole = tuple != NULL;
    for (int i = 0; i < count; i++) {
        PyObject *item = va_arg(items, PyObject *);
        if (!item) is_whole = false;
        if (tuple && item) py.PyTuple_SetItem(tuple, i, item);
    }
    va_end(items);
    if (is_whole) return tuple;
    if (tuple) py.Py_DecRef(tuple);
    return NULL;
}

PyObject *python_dims(const int64_t *dims, size_t count) {
    PyObject *tuple = py.PyTuple_New((ssize_t)count);
    for (size_t i = 0; tuple && i < count; i++)
        py.PyTuple_SetItem(tuple, (ssize_t)i, py.PyLong_FromLongLong(dims[i]));
    return tuple;
}

PyObject *python_call(PyObject *function, PyObject *arguments) {
    if (!arguments) return NULL;
    PyObject *result = py.PyObject_CallObject(function, arguments);
    py.Py_DecRef(arguments);
    return result;
}

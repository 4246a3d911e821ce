/* The part of Python's C API that the shim uses: functions of the stable ABI, found at run time.
 *
 * The library is built without Python's headers and linked without its library: in a Python process
 * it finds the functions there, in any other it loads a shared libpython. One file serves all
 * versions from 3.11 on.
 */
#ifndef XLADEV_PYTHON_H
#define XLADEV_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct _object PyObject;

#define PYTHON_FUNCTIONS(F)                                                   \
    F(int, Py_IsInitialized, (void))                                          \
    F(void, Py_InitializeEx, (int))                                           \
    F(void *, PyEval_SaveThread, (void))                                      \
    F(void, PyEval_RestoreThread, (void *))                                   \
    F(int, PyGILState_Ensure, (void))                                         \
    F(void, PyGILState_Release, (int))                                        \
    F(void, PyErr_Fetch, (PyObject **, PyObject **, PyObject **))             \
    F(void, PyErr_Restore, (PyObject *, PyObject *, PyObject *))              \
    F(void, PyErr_NormalizeException, (PyObject **, PyObject **, PyObject **)) \
    F(void, PyErr_Clear, (void))                                              \
    F(PyObject *, PyErr_Occurred, (void))                                     \
    F(void, Py_IncRef, (PyObject *))                                          \
    F(void, Py_DecRef, (PyObject *))                                          \
    F(int, Py_AddPendingCall, (int (*)(void *), void *))                      \
    F(PyObject *, PyImport_ImportModule, (const char *))                      \
    F(PyObject *, PyObject_GetAttrString, (PyObject *, const char *))         \
    F(PyObject *, PyObject_CallObject, (PyObject *, PyObject *))              \
    F(PyObject *, PyTuple_New, (ssize_t))                                     \
    F(int, PyTuple_SetItem, (PyObject *, ssize_t, PyObject *))                \
    F(PyObject *, PyTuple_GetItem, (PyObject *, ssize_t))                     \
    F(ssize_t, PyTuple_Size, (PyObject *))                                    \
    F(PyObject *, PyLong_FromLongLong, (long long))                           \
    F(PyObject *, PyLong_FromVoidPtr, (void *))                               \
    F(long long, PyLong_AsLongLong, (PyObject *))                             \
    F(void *, PyLong_AsVoidPtr, (PyObject *))                                 \
    F(PyObject *, PyUnicode_FromStringAndSize, (const char *, ssize_t))       \
    F(const char *, PyUnicode_AsUTF8AndSize, (PyObject *, ssize_t *))         \
    F(PyObject *, PyBytes_FromStringAndSize, (const char *, ssize_t))         \
    F(int, PyBytes_AsStringAndSize, (PyObject *, char **, ssize_t *))         \
    F(PyObject *, PyCapsule_New, (void *, const char *, void (*)(PyObject *))) \
    F(void *, PyCapsule_GetPointer, (PyObject *, const char *))

typedef struct {
#define DECLARE(result, name, parameters) result(*name) parameters;
    PYTHON_FUNCTIONS(DECLARE)
#undef DECLARE
} PythonApi;

extern PythonApi py;

/* The functions of xladev.frontends.jax.engine that the shim calls. */
#define ENGINE_FUNCTIONS(F) \
    F(open_client) F(compile) F(load) F(serialize) F(from_host) F(to_host) F(copy) F(view) \
    F(execute) F(explain) F(rethrow) F(notify) F(memory_stats) F(live_dims) F(settle) F(describe_error) \
    F(start_profile) F(stop_profile) F(name_thread) F(update_processes) F(promise) F(send) F(receive) \
    F(received) F(fail_transfer)

typedef struct {
#define DECLARE(name) PyObject *name;
    ENGINE_FUNCTIONS(DECLARE)
#undef DECLARE
} Engine;

extern Engine engine;

/* Finds Python, or starts it, and imports the engine. NULL, or why that failed (static text). */
const char *python_start(void);
/* Whether that was done: nobody starts Python, or waits for it, to ask. */
bool python_is_started(void);

/* The interpreter lock, with the caller's pending exception set aside. */
typedef struct {
    int gil;
    PyObject *type, *value, *traceback;
} PythonScope;

/* False, and nothing to leave, once the interpreter shuts down. */
bool python_enter(PythonScope *scope);
void python_leave(PythonScope *scope);

/* Runs `wait(argument)` with the interpreter lock free, whether the caller holds it or not. */
void python_without_lock(void (*wait)(void *argument), void *argument);

/* Gives up a reference, later where Python cannot run now. May be called from anywhere. */
void python_release(PyObject *object);

/* Calls with a tuple of new references that is taken over; NULL with an exception set if that
 * failed. The interpreter lock is held. */
PyObject *python_call(PyObject *function, PyObject *arguments);
PyObject *python_tuple(int count, ...);
PyObject *python_ref(PyObject *object);
PyObject *python_dims(const int64_t *dims, size_t count);

#endif

/* The module: what xladev/platforms/cpu/native_fast_call.py tells it once, and what it offers. */

#define XLADEV_CALLS_MODULE
#include "calls.h"

#include <stddef.h>

Known known;

/* Fields of `Known`, by the names that `connect` is given. */
typedef struct {
    const char *name;
    size_t offset;
    bool is_number; /* an address or an offset; else an object */
} Field;

#define OBJECT(name) {#name, offsetof(Known, name), false}
#define NUMBER(name) {#name, offsetof(Known, name), true}
static const Field fields[] = {
    OBJECT(empty_text), OBJECT(empty_tuple), OBJECT(defined), OBJECT(rethrow), OBJECT(device_array),
    OBJECT(allocated_buffer), OBJECT(device_memory), OBJECT(host_memory), OBJECT(weak_reference),
    NUMBER(watchers), NUMBER(poison), NUMBER(trace), NUMBER(array_buffer), NUMBER(array_device),
    NUMBER(array_event), NUMBER(array_shape), NUMBER(array_sizes), NUMBER(array_view), NUMBER(array_why),
    NUMBER(buffer_generation), NUMBER(buffer_memory), NUMBER(memory_handle), NUMBER(memory_offset),
    NUMBER(host_address),
};

static bool set_field(const Field *field, PyObject *told)
{
    PyObject *value = PyDict_GetItemString(told, field->name);
    void **place = (void **)((char *)&known + field->offset);
    if (value == NULL) {
        PyErr_Format(PyExc_KeyError, "xladev_calls was not told %s", field->name);
        return false;
    }
    if (!field->is_number) {
        *place = Py_NewRef(value); /* for good: blocks may outlive everything that refers to it */
        return true;
    }
    *place = PyLong_AsVoidPtr(value);
    return *place != NULL || !PyErr_Occurred();
}

/* connect(base, told): takes what is known, makes the type of blocks, and returns it. */
static PyObject *connect(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *base, *told;
    if (!PyArg_ParseTuple(arguments, "OO!", &base, &PyDict_Type, &told))
        return NULL;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!set_field(&fields[i], told))
            return NULL;
    PyObject *made = make_block_type(base);
    if (made != NULL)
        known.block = (PyTypeObject *)Py_NewRef(made);
    return made;
}

static PyMethodDef fast_call_method = {"fast_call", (PyCFunction)(void *)fast_call, METH_FASTCALL, NULL};

/* function(plan, owner): the fast call of the plan at an address; `owner` lives as long as it does. */
static PyObject *function(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *plan, *owner;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyLong_Type, &plan, &owner))
        return NULL;
    return PyCFunction_NewEx(&fast_call_method, plan, owner);
}

/* flush(pool): frees all blocks that the pool at an address keeps. */
static PyObject *flush_at(PyObject *self, PyObject *address)
{
    (void)self;
    Pool *pool = PyLong_AsVoidPtr(address);
    if (pool == NULL)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "a pool has an address");
    flush(pool);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"connect", connect, METH_VARARGS, NULL},
    {"function", function, METH_VARARGS, NULL},
    {"flush", flush_at, METH_O, NULL},
    {NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "xladev_calls._native", "Fast calls of xladev's CPU.", -1, methods,
};

PyMODINIT_FUNC PyInit__native(void)
{
    import_array();
    PyObject *made = PyModule_Create(&definition);
    if (made != NULL && (PyModule_AddIntConstant(made, "INTERFACE", INTERFACE) < 0 ||
                         PyModule_AddIntConstant(made, "INTERRUPTED", INTERRUPTED) < 0))
        Py_CLEAR(made);
    return made;
}

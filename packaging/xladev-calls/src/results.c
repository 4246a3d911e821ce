/* Results: DeviceArrays over blocks, and read-only NumPy arrays over DeviceArrays, without a copy. */

#include "calls.h"

static void set(PyObject *object, Py_ssize_t offset, PyObject *value)
{
    *slot(object, offset) = Py_NewRef(value);
}

/* A DeviceArray over a block, whose reference it takes; null with an error set if there is no room. */
static PyObject *array_over(const Plan *plan, PyObject *block, Py_ssize_t index)
{
    PyObject *made = PyType_GenericAlloc(known.device_array, 0);
    if (made == NULL)
        return NULL;
    *slot(made, known.array_buffer) = block;
    set(made, known.array_shape, plan->results[index].shape);
    set(made, known.array_device, plan->device);
    set(made, known.array_event, known.defined);
    set(made, known.array_sizes, known.empty_tuple);
    set(made, known.array_view, Py_None);
    set(made, known.array_why, known.empty_text);
    return made;
}

/* What a call gives, over the blocks, whose references it takes, even if it fails. Nothing is
 * allocated after the tuple: allocating may run anything, and nobody must see it half made. */
PyObject *results_over(const Plan *plan, PyObject **blocks)
{
    Py_ssize_t count = plan->result_count;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *array = array_over(plan, blocks[i], i);
        if (array == NULL) {
            release(blocks, count);
            return NULL;
        }
        blocks[i] = array;
    }
    if (plan->is_bare)
        return blocks[0];
    PyObject *tuple = PyTuple_New(count);
    if (tuple == NULL) {
        release(blocks, count);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        PyTuple_SetItem(tuple, i, blocks[i]);
    return tuple;
}

/* True unless a DeviceArray was deleted or donated. */
static bool is_live(PyObject *array)
{
    return *slot(array, known.array_why) == known.empty_text;
}

/* True if a DeviceArray refers to a NumPy array that is alive, or to what it should not. */
static bool is_shown(PyObject *array)
{
    PyObject *view = *slot(array, known.array_view);
    if (view == Py_None)
        return false;
    return !is_a(view, known.weak_reference) || PyWeakref_GetObject(view) != Py_None;
}

/* A block that holds a DeviceArray's value as NumPy would; null where the long way must be gone. */
static Block *block_of(PyObject *array)
{
    if (!is_a(array, known.device_array) || !is_live(array) || is_shown(array))
        return NULL;
    if (*slot(array, known.array_event) != known.defined)
        return NULL;
    if (*slot(array, known.array_sizes) != known.empty_tuple)
        return NULL;
    PyObject *buffer = *slot(array, known.array_buffer);
    if (!is_a(buffer, known.block))
        return NULL;
    Block *block = (Block *)buffer;
    if (block->generation != block->bucket->pool->account->generation)
        return NULL;
    const Result *result = block->result;
    return result->shape == *slot(array, known.array_shape) && result->dtype != NULL ? block : NULL;
}

/* A read-only NumPy array over a block, which it keeps; null with an error set if there is no room. */
static PyObject *ndarray_over(Block *block)
{
    const Result *result = block->result;
    PyArray_Descr *dtype = (PyArray_Descr *)Py_NewRef((PyObject *)result->dtype);
    PyObject *made = PyArray_NewFromDescr(
        &PyArray_Type, dtype, (int)result->rank, result->dims, NULL, block->data, 0, NULL);
    if (made == NULL)
        return NULL;
    if (PyArray_SetBaseObject((PyArrayObject *)made, Py_NewRef((PyObject *)block)) < 0)
        Py_CLEAR(made);
    return made;
}

/* The method Buffer.show of blocks: a DeviceArray's value as a read-only NumPy array over its block;
 * the array remembers it. None if the long way must be gone. */
PyObject *show(PyObject *self, PyObject *array)
{
    (void)self;
    Block *block = block_of(array);
    if (block == NULL)
        Py_RETURN_NONE;
    PyObject *made = ndarray_over(block);
    PyObject *reference = made != NULL ? PyWeakref_NewRef(made, NULL) : NULL;
    if (reference == NULL) {
        Py_XDECREF(made);
        return NULL;
    }
    if (!is_live(array) || is_shown(array)) { /* collecting garbage may have run anything */
        Py_DECREF(reference);
        Py_DECREF(made);
        Py_RETURN_NONE;
    }
    PyObject *old = *slot(array, known.array_view);
    *slot(array, known.array_view) = reference;
    Py_XDECREF(old);
    return made;
}

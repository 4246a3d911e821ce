/* Arguments: the address of each, or null where the long way must be gone. */

#include "calls.h"

enum { ARGUMENT_ALIGNMENT = 16 };

/* Arrays that were unpickled have dtypes of their own, which are compared. */
static bool is_same_dtype(const PyArray_Descr *dtype, const PyArray_Descr *wanted)
{
    if (dtype == wanted || wanted == NULL)
        return wanted != NULL;
    return dtype->byteorder == wanted->byteorder && dtype->type_num == wanted->type_num;
}

/* A NumPy array of the parameter's dtype and dims, contiguous and aligned. */
static void *numpy_address(PyArrayObject *array, const Parameter *parameter)
{
    if (!is_same_dtype(PyArray_DESCR(array), parameter->dtype))
        return NULL;
    if (PyArray_NDIM(array) != parameter->rank || !PyArray_IS_C_CONTIGUOUS(array))
        return NULL;
    const npy_intp *dims = PyArray_DIMS(array);
    for (int64_t i = 0; i < parameter->rank; i++)
        if (dims[i] != parameter->dims[i])
            return NULL;
    void *data = PyArray_DATA(array);
    return (uintptr_t)data % ARGUMENT_ALIGNMENT ? NULL : data;
}

/* A slot that holds an int of 64 bits; false if it does not. */
static bool read_slot(PyObject *object, Py_ssize_t offset, int64_t *number)
{
    PyObject *value = *slot(object, offset);
    if (!is_a(value, &PyLong_Type))
        return false;
    *number = PyLong_AsLongLong(value);
    if (*number == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return false;
    }
    return true;
}

/* Where the memory of an AllocatedBuffer is: address of its handle, and its offset. */
static void *buffer_address(PyObject *buffer, int64_t generation)
{
    PyObject *memory = *slot(buffer, known.buffer_memory);
    if (!is_a(memory, known.device_memory))
        return NULL;
    PyObject *handle = *slot(memory, known.memory_handle);
    if (!is_a(handle, known.host_memory))
        return NULL;
    int64_t made, offset, base;
    if (!read_slot(buffer, known.buffer_generation, &made) || made != generation)
        return NULL;
    if (!read_slot(memory, known.memory_offset, &offset) || !read_slot(handle, known.host_address, &base))
        return NULL;
    return (void *)(uintptr_t)(base + offset);
}

/* A DeviceArray of the device, in the parameter's shape, computed and not deleted; its buffer is
 * stored, as it must be kept meanwhile. */
static void *device_address(PyObject *array, const Parameter *parameter, const Plan *plan, PyObject **owner)
{
    if (*slot(array, known.array_shape) != parameter->shape ||
        *slot(array, known.array_device) != plan->device ||
        *slot(array, known.array_event) != known.defined ||
        *slot(array, known.array_why) != known.empty_text)
        return NULL;
    PyObject *buffer = *owner = *slot(array, known.array_buffer);
    int64_t generation = plan->account->generation;
    if (is_a(buffer, known.block)) {
        Block *block = (Block *)buffer;
        return block->generation == generation ? block->data : NULL;
    }
    return is_a(buffer, known.allocated_buffer) ? buffer_address(buffer, generation) : NULL;
}

/* Addresses of all arguments, and the buffers that must be kept (null for NumPy's, which the caller
 * keeps); false if the long way must be gone. */
bool addresses(const Plan *plan, PyObject *const *values, Py_ssize_t count, void **table, PyObject **owners)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = values[i];
        const Parameter *parameter = &plan->parameters[i];
        owners[i] = table[i] = NULL;
        if (PyArray_CheckExact(value))
            table[i] = numpy_address((PyArrayObject *)value, parameter);
        else if (is_a(value, known.device_array))
            table[i] = device_address(value, parameter, plan, &owners[i]);
        if (table[i] == NULL)
            return false;
    }
    return true;
}

/* Arrays of dynamic size as arrays of the size that they turned out to have. */
#include "shim.h"

Error *buffer_live_nbytes(Buffer *buffer, size_t *nbytes) {
    const int64_t *sizes;
    Error *error = buffer_sizes(buffer, &sizes);
    if (error) return error;
    *nbytes = type_nbytes(buffer->type);
    for (size_t i = 0; i < buffer->rank; i++) *nbytes *= (size_t)sizes[i];
    return NULL;
}

/* By the engine, which knows where the live part lies; the buffer is ready. */
Error *buffer_settle(Buffer *buffer, Value **value) {
    Value *given = buffer_value(buffer);
    if (!given) return deleted_error();
    PythonScope scope;
    if (!python_enter(&scope)) {
        value_unref(given);
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    }
    PyObject *made = python_call(engine.settle, python_tuple(1, python_ref(given->array)));
    Error *error = made ? NULL : error_from_python();
    if (made) {
        *value = value_new(NULL, NULL, event_ref(&ready_event));
        value_adopt(*value, made);
        py.Py_DecRef(made);
    }
    python_leave(&scope);
    value_unref(given);
    return error;
}

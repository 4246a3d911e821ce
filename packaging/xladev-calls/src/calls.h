/* xladev-calls: from arguments of a Python call to the kernels of a program, and back with arrays.
 *
 * blocks.c     memory of results with a Python object in front, handed out and taken back
 * arguments.c  addresses of the arguments of a call
 * results.c    DeviceArrays over blocks, and NumPy arrays over DeviceArrays
 * fast_call.c  the built-in function that a fast call is
 * module.c     the module: what xladev tells it, and what it offers
 *
 * Of CPython it uses the stable ABI, of NumPy the C API. It reads slots of the runtime's own classes
 * by their offsets, and tables that xladev/platforms/cpu/fast_call.py and block_pool.py write: whoever
 * changes a record or a name of `Known` raises INTERFACE, here and in native_fast_call.py.
 *
 * All of it runs with the interpreter lock, which therefore guards the free blocks and the counts;
 * only the program itself runs without. */

#ifndef XLADEV_CALLS_H
#define XLADEV_CALLS_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL xladev_calls_numpy
#ifndef XLADEV_CALLS_MODULE
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#define INTERFACE 1

/* Sums of a device: bytes in use, their peak, live blocks, blocks ever, resets, bytes in use elsewhere. */
typedef struct {
    int64_t in_use, peak, live, total, generation, elsewhere;
} Account;

typedef struct {
    PyArray_Descr *dtype; /* null: no NumPy arrays */
    PyObject *shape;
    int64_t rank;
    npy_intp *dims;
} Parameter;

/* All free blocks of one size. */
typedef struct Bucket {
    struct Block *free;
    int64_t nbytes;
    struct Bucket *next;
    struct Pool *pool;
} Bucket;

typedef struct Pool {
    Account *account;
    int64_t kept, most; /* bytes; a closed pool's limit is -1 */
    Bucket *first;
} Pool;

typedef struct {
    Bucket *bucket;
    PyObject *shape;
    int64_t kind;  /* of buffer, in the accounting */
    int64_t *live; /* how many of that kind are */
    PyArray_Descr *dtype;
    int64_t rank;
    npy_intp *dims;
} Result;

typedef struct Block {
    PyObject_HEAD
    struct Block *next;
    Bucket *bucket;
    PyObject *accounting;
    int64_t kind;
    Result *result;
    int64_t generation;
    PyObject *memory; /* the DeviceMemory made of it, or null */
    char *data;       /* HEADER_NBYTES after the block */
} Block;

enum { ALIGNMENT = 64, HEADER_NBYTES = 128 };
_Static_assert(sizeof(Block) <= HEADER_NBYTES, "memory begins after the block");

/* A result that begins as a copy of an argument. */
typedef struct {
    int64_t result, parameter, nbytes;
} Alias;

/* What an entry returns; INTERRUPTED is that of xladev/platforms/cpu/codegen. */
enum { RAN_WELL = 0, FAILED = 1, INTERRUPTED = 4 };
typedef int Entry(void *context, void **arguments, void **results, void *scratch);

typedef struct {
    int64_t parameter_count;
    Parameter *parameters;
    int64_t result_count;
    Result *results;
    int64_t alias_count;
    Alias *aliases;
    Result *scratch; /* null: the program needs none */
    Entry *entry;
    PyObject *accounting, *device;
    int64_t *clear;
    Account *account;
    int64_t is_bare; /* whether the one result comes without a tuple */
} Plan;

/* What `connect` was told: objects, addresses of words, offsets of slots. */
typedef struct {
    PyObject *empty_text, *empty_tuple, *defined, *rethrow;
    PyTypeObject *device_array, *allocated_buffer, *device_memory, *host_memory, *weak_reference;
    PyTypeObject *block; /* set by `block_type` */
    int64_t *watchers, *poison;
    void **trace;
    Py_ssize_t array_buffer, array_device, array_event, array_shape, array_sizes, array_view, array_why;
    Py_ssize_t buffer_generation, buffer_memory, memory_handle, memory_offset, host_address;
} Known;

extern Known known;

static inline PyObject **slot(PyObject *object, Py_ssize_t offset)
{
    return (PyObject **)((char *)object + offset);
}

static inline bool is_a(PyObject *object, PyTypeObject *type)
{
    return object != NULL && Py_TYPE(object) == type;
}

static inline void release(PyObject **objects, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        Py_XDECREF(objects[i]);
}

Block *take_block(Result *result, const Plan *plan);
void flush(Pool *pool);
PyObject *make_block_type(PyObject *base);
bool addresses(const Plan *plan, PyObject *const *values, Py_ssize_t count, void **table, PyObject **owners);
PyObject *results_over(const Plan *plan, PyObject **blocks);
PyObject *show(PyObject *self, PyObject *array);
PyObject *fast_call(PyObject *self, PyObject *const *values, Py_ssize_t count);

#endif

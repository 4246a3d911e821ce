/* Blocks: memory with a Python object in front, handed out and taken back, and counted. */

#include "calls.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>
#include <sys/mman.h>

enum { HUGE_NBYTES = 4 << 20, PAGE_NBYTES = 4096 };

/* Asks for pages of 2 MB, as NumPy does too. */
static void advise(char *data, int64_t nbytes)
{
#ifdef MADV_HUGEPAGE
    uintptr_t start = ((uintptr_t)data + PAGE_NBYTES - 1) & -(uintptr_t)PAGE_NBYTES;
    madvise((void *)start, (size_t)nbytes - (start - (uintptr_t)data), MADV_HUGEPAGE);
#else
    (void)data, (void)nbytes;
#endif
}

/* A new block of a bucket; null if there is no memory. */
static Block *make_block(Bucket *bucket)
{
    void *place;
    if (posix_memalign(&place, ALIGNMENT, HEADER_NBYTES + (size_t)bucket->nbytes))
        return NULL;
    Block *block = memset(place, 0, HEADER_NBYTES);
    block->bucket = bucket;
    block->data = (char *)place + HEADER_NBYTES;
    if (bucket->nbytes >= HUGE_NBYTES)
        advise(block->data, bucket->nbytes);
    return block;
}

static void count_block(Account *account, int64_t nbytes)
{
    account->in_use += nbytes;
    int64_t all = account->in_use + account->elsewhere;
    if (all > account->peak)
        account->peak = all;
    account->live++;
    account->total++;
}

/* A block that is in nobody's hands, with one reference to it; null if there is no memory. */
Block *take_block(Result *result, const Plan *plan)
{
    Bucket *bucket = result->bucket;
    Block *block = bucket->free;
    if (block != NULL) {
        bucket->free = block->next;
        bucket->pool->kept -= bucket->nbytes;
    } else if ((block = make_block(bucket)) == NULL) {
        return NULL;
    }
    PyObject_Init((PyObject *)block, known.block);
    block->kind = result->kind;
    block->result = result;
    block->accounting = Py_NewRef(plan->accounting);
    block->generation = plan->account->generation;
    count_block(plan->account, bucket->nbytes);
    ++*result->live;
    if (*known.poison)
        memset(block->data, 0xff, (size_t)bucket->nbytes);
    return block;
}

/* Frees all blocks that a pool keeps. */
void flush(Pool *pool)
{
    for (Bucket *bucket = pool->first; bucket != NULL; bucket = bucket->next)
        while (bucket->free != NULL) {
            Block *block = bucket->free;
            bucket->free = block->next;
            pool->kept -= bucket->nbytes;
            free(block);
        }
}

static void keep_or_free(Block *block, Pool *pool)
{
    Bucket *bucket = block->bucket;
    if (bucket->nbytes > pool->most) {
        free(block);
        return;
    }
    if (pool->kept + bucket->nbytes > pool->most)
        flush(pool);
    pool->kept += bucket->nbytes;
    block->next = bucket->free;
    bucket->free = block;
}

/* What Python calls when nobody refers to a block any more: it becomes free. */
static void drop(PyObject *self)
{
    Block *block = (Block *)self;
    Pool *pool = block->bucket->pool;
    if (block->generation == pool->account->generation) {
        pool->account->in_use -= block->bucket->nbytes;
        pool->account->live--;
        --*block->result->live;
    }
    PyObject *accounting = block->accounting, *memory = block->memory;
    PyTypeObject *type = Py_TYPE(self);
    block->accounting = block->memory = NULL;
    keep_or_free(block, pool);
    Py_XDECREF(memory); /* last: these may run anything, and free the pool */
    Py_XDECREF(accounting);
    Py_DECREF(type);
}

/* Visits nothing. A type that says how it is visited does not become a type of collected objects as
 * its base is: those have a header in front, which the collector reads and writes. */
static int traverse(PyObject *self, visitproc visit, void *argument)
{
    (void)self, (void)visit, (void)argument;
    return 0;
}

static PyMemberDef members[] = {
    {"_accounting", T_OBJECT, offsetof(Block, accounting), READONLY, NULL},
    {"_kind", T_PYSSIZET, offsetof(Block, kind), READONLY, NULL},
    {"_generation", T_PYSSIZET, offsetof(Block, generation), READONLY, NULL},
    {"_memory", T_OBJECT, offsetof(Block, memory), 0, NULL},
    {"_address", T_PYSSIZET, offsetof(Block, data), READONLY, NULL},
    {NULL},
};
static PyMethodDef block_methods[] = {
    {"show", show, METH_O, NULL},
    {NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, drop},
    {Py_tp_traverse, traverse},
    {Py_tp_members, members},
    {Py_tp_methods, block_methods},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "xladev.platforms.cpu.native_block.NativeBlock",
    .basicsize = HEADER_NBYTES,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

/* The type of blocks; null with an error set. */
PyObject *make_block_type(PyObject *base)
{
    PyObject *bases = PyTuple_Pack(1, base);
    PyObject *made = bases != NULL ? PyType_FromSpecWithBases(&spec, bases) : NULL;
    Py_XDECREF(bases);
    if (made != NULL && PyType_HasFeature((PyTypeObject *)made, Py_TPFLAGS_HAVE_GC)) {
        Py_CLEAR(made);
        PyErr_SetString(PyExc_SystemError, "blocks would need a header for the garbage collector");
    }
    return made;
}

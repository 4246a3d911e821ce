/* The fast call. Nothing here raises for what it does not like: it returns None, and the caller goes
 * the long way, which does the same and finds words for it. */

#include "calls.h"

#include <alloca.h>
#include <string.h>

/* Bytes of a table; one of no entries has an address too. */
static size_t table_nbytes(int64_t count)
{
    return sizeof(void *) * (size_t)(count + 1);
}

/* Without donation, a result that takes the place of an argument begins as a copy of it. */
static void copy_aliased(const Plan *plan, void **table, void **places)
{
    for (int64_t i = 0; i < plan->alias_count; i++) {
        const Alias *alias = &plan->aliases[i];
        memcpy(places[alias->result], table[alias->parameter], (size_t)alias->nbytes);
        table[alias->parameter] = places[alias->result];
    }
}

/* Runs the program without the interpreter lock; what it returned. */
static int run(const Plan *plan, void **table, Py_ssize_t count, PyObject **owners, PyObject **blocks)
{
    void **places = alloca(table_nbytes(plan->result_count));
    Block *scratch = NULL;
    if (plan->scratch != NULL && (scratch = take_block(plan->scratch, plan)) == NULL)
        return FAILED;
    for (int64_t i = 0; i < plan->result_count; i++)
        places[i] = ((Block *)blocks[i])->data;
    for (Py_ssize_t i = 0; i < count; i++)
        Py_XINCREF(owners[i]);
    PyThreadState *thread = PyEval_SaveThread();
    copy_aliased(plan, table, places);
    int status = plan->entry(NULL, table, places, scratch != NULL ? scratch->data : NULL);
    PyEval_RestoreThread(thread);
    release(owners, count);
    Py_XDECREF((PyObject *)scratch);
    return status;
}

/* Tells whoever traces how many bytes are in use; trace_points.py says how. */
static void note_memory(const Account *account)
{
    typedef void Mark(void *record, int64_t step, const void *place);
    void *record = *known.trace;
    if (record != NULL)
        (*(Mark **)record)(record, -16 - (account->in_use + account->elsewhere), account);
}

static bool take_all(const Plan *plan, PyObject **blocks)
{
    memset(blocks, 0, table_nbytes(plan->result_count));
    for (int64_t i = 0; i < plan->result_count; i++)
        if ((blocks[i] = (PyObject *)take_block(&plan->results[i], plan)) == NULL)
            return false;
    return true;
}

/* The built-in function: self holds the address of a Plan. Returns the results; None if they must
 * be had the long way, as if nothing had happened. */
PyObject *fast_call(PyObject *self, PyObject *const *values, Py_ssize_t count)
{
    const Plan *plan = PyLong_AsVoidPtr(self);
    if (count != plan->parameter_count || *plan->clear != 1 || *known.watchers != 0)
        Py_RETURN_NONE;
    void **table = alloca(table_nbytes(count));
    PyObject **owners = alloca(table_nbytes(count));
    if (!addresses(plan, values, count, table, owners))
        Py_RETURN_NONE;
    PyObject **blocks = alloca(table_nbytes(plan->result_count));
    int status = FAILED;
    if (take_all(plan, blocks)) {
        note_memory(plan->account);
        status = run(plan, table, count, owners, blocks);
    }
    if (status == RAN_WELL)
        return results_over(plan, blocks);
    release(blocks, plan->result_count);
    if (status == INTERRUPTED) /* raises what a signal's handler raised in a loop */
        return PyObject_CallFunctionObjArgs(known.rethrow, NULL);
    Py_RETURN_NONE;
}

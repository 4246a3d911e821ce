/* Execution by a program's native entry, or by those of its devices side by side. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "execution.h"

enum { FEW = 32 };

/* True if nobody else sees the memory, so that a result may take it. */
static bool is_exclusive(const Value *value) {
    return value->refs == 1 && !value->array && value->block->refs == 1 && value->block->writable &&
           value->block->device;
}

/* What a device's entry is called with. */
typedef struct {
    void **arguments, **results;
    Block *scratch;
} Pointers;

static Error *no_room(const Execution *run, const Device *device, size_t nbytes, const char *what) {
    return error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                     "Out of memory allocating %zu bytes %s of %s; %lld bytes are in use on %s",
                     nbytes, what, run->program->record->name, (long long)device->nbytes_in_use,
                     device->record->name);
}

/* Where the arguments of device `d` are, and its results, which it allocates or takes over. */
static Error *make_results(Execution *run, size_t d, Pointers *at) {
    const ProgramRecord *record = run->program->record;
    Device *device = run->devices[d];
    Value **arguments = run->arguments + d * run->num_arguments;
    Value **made = run->results + d * run->num_results;
    for (size_t i = 0; i < run->num_arguments; i++) at->arguments[i] = arguments[i]->block->data;
    for (size_t i = 0; i < run->num_results; i++) {
        int64_t parameter = record->alias ? record->alias[i] : -1;
        Value *given = parameter < 0 ? NULL : arguments[parameter];
        size_t nbytes = record->output_nbytes[i];
        if (given && run->donated[parameter] && is_exclusive(given)) {
            made[i]->block = block_ref(given->block);
        } else {
            made[i]->block = block_allocate(device, nbytes);
            if (!made[i]->block) return no_room(run, device, nbytes, "for a result");
            if (given) memcpy(made[i]->block->data, given->block->data, nbytes);
        }
        at->results[i] = made[i]->block->data;
        if (given) at->arguments[parameter] = at->results[i];
    }
    return NULL;
}

static Error *prepare(Execution *run, size_t d, Pointers *at) {
    Error *error = make_results(run, d, at);
    size_t nbytes = run->program->record->scratch_nbytes;
    if (error || !nbytes) return error;
    at->scratch = block_allocate(run->devices[d], nbytes);
    return at->scratch ? NULL : no_room(run, run->devices[d], nbytes, "for the scratch");
}

/* A program's status when an interruption ended one of its loops; Python keeps why. */
enum { INTERRUPTED = 4 };

static Error *failure(const ProgramRecord *record, int status) {
    return error_new(PJRT_Error_Code_INTERNAL, "program %s failed with status %d", record->name,
                     status);
}

/* The error that a function of the engine raises; `arguments` are made under Python's lock. */
static Error *raised(PyObject *function, PyObject *arguments) {
    PyObject *told = python_call(function, arguments);
    if (told) py.Py_DecRef(told);
    return error_from_python();
}

static Error *interruption(void) {
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    Error *error = raised(engine.rethrow, python_tuple(0));
    python_leave(&scope);
    return error;
}

static void *data_of(Block *scratch) { return scratch ? scratch->data : NULL; }

/* On one device */

static Error *call_entry(Execution *run, void **pointers) {
    const ProgramRecord *record = run->program->record;
    Pointers at = {pointers, pointers + run->num_arguments, NULL};
    Error *error = prepare(run, 0, &at);
    if (error) return error;
    int status = record->entry(NULL, at.arguments, at.results, data_of(at.scratch));
    block_unref(at.scratch);
    if (!status) return NULL;
    return status == INTERRUPTED ? interruption() : failure(record, status);
}

static Error *execute_on_one(Execution *run) {
    void *few[2 * FEW];
    size_t count = run->num_arguments + run->num_results;
    void **pointers = count <= 2 * FEW ? few : malloc(count * sizeof *pointers);
    if (!pointers) abort();
    Error *error = call_entry(run, pointers);
    if (pointers != few) free(pointers);
    return error;
}

/* On several devices side by side */

typedef struct {
    Pointers at;
    int status;
    pthread_t thread; /* where that is not 0 */
} Part;

typedef struct {
    const ProgramRecord *record;
    Part *parts;
} Launch;

static void run_part(void *argument, size_t d) {
    Launch *launch = argument;
    const ProgramRecord *record = launch->record;
    Part *part = &launch->parts[d];
    part->status = record->joint_entries[d](record->joint_contexts[d], part->at.arguments,
                                            part->at.results, data_of(part->at.scratch));
    if (!part->status) return;
    part->thread = pthread_self();
    int none = 0;
    if (record->joint_failure) atomic_compare_exchange_strong(record->joint_failure, &none, 1);
}

static PyObject *failed_threads(const Launch *launch, size_t num_devices) {
    size_t count = 0, next = 0;
    for (size_t d = 0; d < num_devices; d++) count += launch->parts[d].status != 0;
    PyObject *threads = py.PyTuple_New((ssize_t)count);
    for (size_t d = 0; threads && d < num_devices; d++)
        if (launch->parts[d].status)
            py.PyTuple_SetItem(threads, (ssize_t)next++,
                               py.PyLong_FromVoidPtr((void *)launch->parts[d].thread));
    return threads;
}

static Error *joint_failure(Execution *run, const Launch *launch) {
    size_t d = 0;
    while (d < run->num_devices && !launch->parts[d].status) d++;
    if (d == run->num_devices) return NULL;
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    Error *error = raised(engine.explain, python_tuple(2, python_ref(run->program->python),
                                                       failed_threads(launch, run->num_devices)));
    python_leave(&scope);
    return error;
}

static Error *launch_parts(Execution *run, Launch *launch) {
    const ProgramRecord *record = launch->record;
    Error *error = NULL;
    for (size_t d = 0; !error && d < run->num_devices; d++)
        error = prepare(run, d, &launch->parts[d].at);
    if (error) return error;
    if (record->is_tiny && !record->joint_failure)
        for (size_t d = 0; d < run->num_devices; d++) run_part(launch, d);
    else if (!team_run(run->num_devices, record->joint_failure, run_part, launch))
        return error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED, "no thread is left to run %s on %zu devices",
                         record->name, run->num_devices);
    return joint_failure(run, launch);
}

static Error *execute_jointly(Execution *run) {
    size_t count = run->num_arguments + run->num_results;
    Launch launch = {run->program->record, calloc(run->num_devices, sizeof(Part))};
    void **pointers = malloc((run->num_devices * count + 1) * sizeof *pointers);
    if (!launch.parts || !pointers) abort();
    for (size_t d = 0; d < run->num_devices; d++) {
        launch.parts[d].at.arguments = pointers + d * count;
        launch.parts[d].at.results = launch.parts[d].at.arguments + run->num_arguments;
    }
    Error *error = launch_parts(run, &launch);
    for (size_t d = 0; d < run->num_devices; d++) block_unref(launch.parts[d].at.scratch);
    free(pointers);
    free(launch.parts);
    atomic_store(&run->program->is_launched, false);
    return error;
}

/* Contexts are those of one launch at a time: where two threads call one program, Python runs one. */
bool executes_natively(Execution *run) {
    const ProgramRecord *record = run->program->record;
    if (record->entry) return true;
    return record->joint_entries && run->num_devices == record->num_own &&
           !atomic_exchange(&run->program->is_launched, true);
}

Error *execute_natively(Execution *run) {
    return run->program->record->entry ? execute_on_one(run) : execute_jointly(run);
}

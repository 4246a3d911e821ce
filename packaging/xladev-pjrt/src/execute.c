/* Execution: at once by the program's native entry, else by the engine, else later by the worker. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "execution.h"

void program_hold(Executable *program);
void program_release(Executable *program);

void execution_free(Execution *run) {
    for (size_t i = 0; i < argument_count(run); i++)
        if (run->arguments[i]) value_unref(run->arguments[i]);
    for (size_t i = 0; i < result_count(run); i++)
        if (run->results[i]) value_unref(run->results[i]);
    if (run->done) event_unref(run->done);
    program_release(run->program);
    free(run->devices);
    free(run);
}

static void finish(Execution *run, Error *error) {
    event_set(run->done, error);
    execution_free(run);
}

/* The first failure among the arguments; they are ready. */
static Error *argument_error(const Execution *run) {
    for (size_t i = 0; i < argument_count(run); i++) {
        Error *error = event_error(run->arguments[i]->ready);
        if (error) return error;
    }
    return NULL;
}

/* By the engine */

static PyObject *argument_arrays(Execution *run) {
    const ProgramRecord *record = run->program->record;
    PyObject *rows = py.PyTuple_New((ssize_t)run->num_devices);
    for (size_t d = 0; rows && d < run->num_devices; d++) {
        PyObject *row = py.PyTuple_New((ssize_t)run->num_arguments);
        const int64_t *dims = record->parameter_dims;
        for (size_t i = 0; i < run->num_arguments; i++) {
            Value *value = run->arguments[d * run->num_arguments + i];
            PyObject *array = value_array(run->devices[d], value, record->parameter_types[i], dims,
                                          record->parameter_ranks[i]);
            dims += record->parameter_ranks[i];
            if (!array) {
                py.Py_DecRef(row);
                py.Py_DecRef(rows);
                return NULL;
            }
            py.PyTuple_SetItem(row, (ssize_t)i, python_ref(array));
        }
        py.PyTuple_SetItem(rows, (ssize_t)d, row);
    }
    return rows;
}

/* True if on every device only this execution holds an argument: no copy of it is still to be made. */
static bool ends_here(const Execution *run, size_t argument) {
    for (size_t d = 0; d < run->num_devices; d++)
        if (run->arguments[d * run->num_arguments + argument]->refs != 1) return false;
    return true;
}

static PyObject *donated_numbers(Execution *run) {
    size_t count = 0, at = 0;
    for (size_t i = 0; i < run->num_arguments; i++) {
        run->donated[i] = run->donated[i] && ends_here(run, i);
        count += run->donated[i];
    }
    PyObject *numbers = py.PyTuple_New((ssize_t)count);
    for (size_t i = 0; numbers && i < run->num_arguments; i++)
        if (run->donated[i])
            py.PyTuple_SetItem(numbers, (ssize_t)at++, py.PyLong_FromLongLong((long long)i));
    return numbers;
}

/* Takes what the engine made: a row of (array, address, nbytes) for each device. */
static void take_results(Execution *run, PyObject *rows) {
    for (size_t d = 0; d < run->num_devices; d++) {
        PyObject *row = py.PyTuple_GetItem(rows, (ssize_t)d);
        for (size_t i = 0; i < run->num_results; i++)
            value_adopt(run->results[d * run->num_results + i], py.PyTuple_GetItem(row, (ssize_t)i));
    }
}

/* Lets the engine set the event of results that are not there yet; they have been taken. */
static Error *hand_over_event(Execution *run, PyObject *pending) {
    event_ref(run->done);
    PyObject *told = python_call(
        engine.notify, python_tuple(2, python_ref(pending), py.PyLong_FromVoidPtr(run->done)));
    if (told) {
        py.Py_DecRef(told);
        return NULL;
    }
    event_unref(run->done);
    return error_from_python();
}

static PyObject *ask_engine(Execution *run) {
    PyObject *rows = argument_arrays(run);
    if (!rows) return NULL;
    return python_call(engine.execute,
                       python_tuple(4, python_ref(run->program->python), rows, donated_numbers(run),
                                    py.PyLong_FromLongLong(run->devices[0]->index)));
}

/* Ends the execution here, or leaves that to the engine, which sets the event later. */
static void execute_by_python(Execution *run) {
    PythonScope scope;
    if (!python_enter(&scope)) {
        finish(run, error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down"));
        return;
    }
    PyObject *told = ask_engine(run);
    Error *error = told ? NULL : error_from_python();
    bool is_pending = false;
    if (told) {
        take_results(run, py.PyTuple_GetItem(told, 0));
        PyObject *events = py.PyTuple_GetItem(told, 1);
        is_pending = py.PyTuple_Size(events) > 0;
        if (is_pending) error = hand_over_event(run, py.PyTuple_GetItem(events, 0));
        py.Py_DecRef(told);
    }
    python_leave(&scope);
    if (is_pending && !error)
        execution_free(run);
    else
        finish(run, error);
}

static atomic_long num_executions;

/* How many executions began in this process: tests ask whether a device was used at all. */
__attribute__((visibility("default"))) long xladev_num_executions(void) {
    return atomic_load(&num_executions);
}

void execution_run(Execution *run) {
    atomic_fetch_add_explicit(&num_executions, 1, memory_order_relaxed);
    Error *error = argument_error(run);
    if (error)
        finish(run, error);
    else if (executes_natively(run))
        finish(run, execute_natively(run));
    else
        execute_by_python(run);
}

static void wait_and_execute(void *argument) {
    Execution *run = argument;
    for (size_t i = 0; i < argument_count(run); i++) event_wait(run->arguments[i]->ready);
    execution_run(run);
}

/* From handles to values */

static Error *mismatch(const ProgramRecord *record, size_t index, const Buffer *buffer) {
    return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
                     "argument %zu of %s has type %d, %zu dimensions and %zu bytes; the program "
                     "takes type %d, %zu dimensions and %zu bytes, and its own layout", index,
                     record->name, buffer->type, buffer->rank, buffer->nbytes,
                     record->parameter_types[index], record->parameter_ranks[index],
                     record->parameter_nbytes[index]);
}

static bool fits(const ProgramRecord *record, size_t i, const int64_t *layout, const Buffer *buffer,
                 size_t nbytes) {
    if (record->parameter_types[i] == PJRT_Buffer_Type_TOKEN) return true;
    size_t rank = record->parameter_ranks[i];
    return (int)buffer->type == record->parameter_types[i] &&
           nbytes == record->parameter_nbytes[i] && buffer->rank == rank &&
           !memcmp(buffer->dims + rank, layout, rank * sizeof *layout);
}

/* The value of an argument, to be unreferenced. A program may take an array whose sizes another one
 * gave as one of these sizes: TensorFlow compiles for what it finds. */
static Error *take_argument(const ProgramRecord *record, size_t i, const int64_t *layout,
                            Buffer *buffer, Value **value) {
    if (fits(record, i, layout, buffer, buffer->nbytes)) {
        *value = buffer_value(buffer);
        return *value ? NULL : deleted_error();
    }
    size_t nbytes = 0;
    Error *error = buffer->dynamic ? buffer_live_nbytes(buffer, &nbytes) : NULL;
    if (error) return error;
    if (!buffer->dynamic || !fits(record, i, layout, buffer, nbytes))
        return mismatch(record, i, buffer);
    return buffer_settle(buffer, value);
}

static Error *take_arguments(Execution *run, const PJRT_LoadedExecutable_Execute_Args *args) {
    const ProgramRecord *record = run->program->record;
    for (size_t d = 0; d < run->num_devices; d++) {
        const int64_t *layout = record->parameter_layouts;
        for (size_t i = 0; i < run->num_arguments; i++) {
            Error *error = take_argument(record, i, layout, args->argument_lists[d][i],
                                         &run->arguments[d * run->num_arguments + i]);
            if (error) return error;
            layout += record->parameter_ranks[i];
        }
    }
    return NULL;
}

static void find_donated(Execution *run, const PJRT_ExecuteOptions *options) {
    const uint8_t *offered = run->program->record->donated;
    for (size_t i = 0; offered && i < run->num_arguments; i++) run->donated[i] = offered[i];
    for (size_t i = 0; options && i < options->num_non_donatable_input_indices; i++) {
        int64_t index = options->non_donatable_input_indices[i];
        if (index >= 0 && (size_t)index < run->num_arguments) run->donated[index] = 0;
    }
}

/* Ends donated buffers: the execution keeps their values. A buffer passed twice is an error. */
static Error *end_donated(Execution *run, const PJRT_LoadedExecutable_Execute_Args *args) {
    for (size_t d = 0; d < run->num_devices; d++)
        for (size_t i = 0; i < run->num_arguments; i++) {
            if (!run->donated[i]) continue;
            Value *value = run->arguments[d * run->num_arguments + i];
            for (size_t j = 0; j < run->num_arguments; j++)
                if (j != i && run->arguments[d * run->num_arguments + j] == value)
                    return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
                                     "Attempt to donate the same buffer twice in Execute() "
                                     "(arguments %zu and %zu of %s)", i, j,
                                     run->program->record->name);
        }
    for (size_t d = 0; d < run->num_devices; d++)
        for (size_t i = 0; i < run->num_arguments; i++)
            if (run->donated[i]) value_unref(buffer_take(args->argument_lists[d][i]));
    return NULL;
}

Execution *execution_new(Executable *program, size_t num_devices) {
    const ProgramRecord *record = program->record;
    size_t arguments = num_devices * record->num_parameters;
    size_t results = num_devices * record->num_outputs;
    Execution *run = calloc(
        1, sizeof *run + (arguments + results) * sizeof(Value *) + record->num_parameters);
    if (!run) abort();
    run->program = program;
    program_hold(program);
    run->num_devices = num_devices;
    run->num_arguments = record->num_parameters;
    run->num_results = record->num_outputs;
    run->results = run->arguments + arguments;
    run->donated = (uint8_t *)(run->results + results);
    return run;
}

static void place(Execution *run, Device *device) {
    run->devices = malloc(run->num_devices * sizeof *run->devices);
    if (!run->devices) abort();
    for (size_t d = 0; d < run->num_devices; d++)
        run->devices[d] = device ? device : run->program->devices[d];
}

static void give_results(Execution *run, const PJRT_LoadedExecutable_Execute_Args *args) {
    const ProgramRecord *record = run->program->record;
    for (size_t d = 0; d < run->num_devices; d++) {
        const int64_t *dims = record->output_dims, *layout = record->output_layouts;
        const uint8_t *dynamic = record->output_dynamic;
        for (size_t i = 0; i < run->num_results; i++) {
            Memory *memory = &run->devices[d]->memories[record->output_kinds[i]];
            Value *value = value_new(NULL, NULL, event_ref(run->done));
            run->results[d * run->num_results + i] = value_ref(value);
            args->output_lists[d][i] = buffer_new(
                memory, record->output_types[i], dims, record->output_ranks[i], layout, value);
            if (dynamic) {
                buffer_set_dynamic(args->output_lists[d][i], dynamic);
                dynamic += record->output_ranks[i];
            }
            dims += record->output_ranks[i];
            layout += record->output_ranks[i];
        }
        if (args->device_complete_events) args->device_complete_events[d] = event_ref(run->done);
    }
}

/* Takes back what a failed call was given: its caller gets an error instead. */
static void take_results_back(
    const PJRT_LoadedExecutable_Execute_Args *args, size_t num_results) {
    for (size_t d = 0; d < args->num_devices; d++) {
        for (size_t i = 0; i < num_results; i++) {
            buffer_free(args->output_lists[d][i]);
            args->output_lists[d][i] = NULL;
        }
        if (!args->device_complete_events) continue;
        event_unref(args->device_complete_events[d]);
        args->device_complete_events[d] = NULL;
    }
}

static bool has_failed_argument(const Execution *run) {
    Error *error = argument_error(run);
    if (error) error_free(error);
    return error != NULL;
}

/* In the caller's thread. What a callback raises is raised there; other failures, and that of an
 * argument, belong to the results, like those of what runs later. */
static Error *execute_now(Execution *run, const PJRT_LoadedExecutable_Execute_Args *args) {
    if (!run->program->record->has_callbacks || has_failed_argument(run)) {
        execution_run(run);
        return NULL;
    }
    size_t num_results = run->num_results;
    Event *done = event_ref(run->done);
    execution_run(run);
    Error *error = event_is_ready(done) ? event_error(done) : NULL;
    event_unref(done);
    if (error) take_results_back(args, num_results);
    return error;
}

/* Programs that run in other processes too run here in the order in which they were called, all in
 * one thread: in another order, or at once, they would wait for each other crosswise. */
static Device *queue_of(const Execution *run) {
    Device *first = run->devices[0];
    return run->program->record->is_spread ? first->client->own_list[0] : first;
}

static bool can_run_now(const Execution *run) {
    if (run->program->record->is_spread && !worker_is_current()) return false;
    for (size_t i = 0; i < argument_count(run); i++)
        if (!event_is_ready(run->arguments[i]->ready)) return false;
    return run->program->record->is_short || worker_is_current();
}

/* A program of several devices, on one of them. */
static bool is_part(const PJRT_LoadedExecutable_Execute_Args *args) {
    const Executable *program = args->executable;
    size_t devices = program->record->num_own;
    if (!meeting_is_called() || args->num_devices != 1 || devices < 2) return false;
    if (program->record->is_spread) return false;
    for (size_t d = 0; d < devices; d++)
        if (program->devices[d] == args->execute_device) return true;
    return false;
}

static Error *check(const PJRT_LoadedExecutable_Execute_Args *args) {
    const ProgramRecord *record = args->executable->record;
    size_t devices = record->num_own;
    if (args->executable->deleted)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "Execute() of %s, which was deleted",
                         record->name);
    if (args->num_args != record->num_parameters)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "%s takes %zu arguments, not %zu",
                         record->name, record->num_parameters, args->num_args);
    if (is_part(args)) return NULL;
    if (args->num_devices != devices)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "%s runs on %zu devices, not %zu",
                         record->name, devices, args->num_devices);
    if (args->execute_device && !record->is_portable &&
        args->execute_device != args->executable->devices[0])
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "%s was compiled for %s, not for %s",
                         record->name, args->executable->devices[0]->record->name,
                         args->execute_device->record->name);
    return NULL;
}

IMPLEMENT(LoadedExecutable_Execute) {
    if (!args->num_devices && !args->executable->record->num_own) return NULL; /* all elsewhere */
    worker_admit();
    Error *error = check(args);
    if (error) return error;
    Execution *run = execution_new(args->executable, args->num_devices);
    error = take_arguments(run, args);
    Meeting *meeting = NULL;
    if (!error) place(run, args->execute_device);
    if (!error && is_part(args)) {
        meeting = meeting_enter(run, &error);
    } else if (!error) {
        find_donated(run, args->options);
        error = end_donated(run, args);
        run->done = event_new();
    }
    if (error) {
        execution_free(run);
        return error;
    }
    give_results(run, args);
    if (meeting) {
        meeting_join(meeting, run);
        return NULL;
    }
    if (can_run_now(run)) return execute_now(run, args);
    worker_enqueue(queue_of(run), wait_and_execute, run, run->done);
    return NULL;
}

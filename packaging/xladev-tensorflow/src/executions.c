/* Executions that TensorFlow asks for, watched as they pass, and the same programs run again. */
#include <string.h>

#include "pjrt.h"

static Function execute;

/* What this thread's operator has executed so far. */
static __thread struct {
    bool is_on;
    int count;
    Execution last;
} watched;

static void *call(int slot, Args *args) {
    args->struct_size = sizeof *args;
    void *error = (*pjrt_slot(slot))(args);
    if (error) (*pjrt_slot(SLOT_ERROR_DESTROY))(&(Args){.struct_size = sizeof(Args), .first = error});
    return error;
}

void destroy_buffer(void *buffer) { call(SLOT_BUFFER_DESTROY, &(Args){.first = buffer}); }

bool read_buffer(void *buffer, void *to, size_t nbytes) {
    struct {
        size_t struct_size;
        void *extension, *buffer, *layout, *to;
        size_t nbytes;
        void *event;
    } copy = {.struct_size = sizeof copy, .buffer = buffer, .to = to, .nbytes = nbytes};
    void *error = (*pjrt_slot(SLOT_BUFFER_TO_HOST_BUFFER))(&copy);
    if (error) {
        call(SLOT_ERROR_DESTROY, &(Args){.first = error});
        return false;
    }
    bool is_read = !call(SLOT_EVENT_AWAIT, &(Args){.first = copy.event});
    call(SLOT_EVENT_DESTROY, &(Args){.first = copy.event});
    return is_read;
}

/* In xladev-pjrt whoever holds an executable also holds what is loaded of it. */
void release_program(Execution *execution) {
    if (execution->program) call(SLOT_EXECUTABLE_DESTROY, &(Args){.first = execution->program});
    execution->program = NULL;
}

static size_t hold_program(Execution *execution, void *loaded) {
    Args held = {.first = loaded};
    if (call(SLOT_LOADED_EXECUTABLE_GET_EXECUTABLE, &held)) return 0;
    execution->program = held.second;
    execution->loaded = loaded;
    Args count = {.first = held.second};
    return call(SLOT_EXECUTABLE_NUM_OUTPUTS, &count) ? 0 : (size_t)count.second;
}

static void note(const ExecuteArgs *args) {
    Execution *last = &watched.last;
    release_program(last);
    *last = (Execution){.device = args->execute_device, .num_arguments = args->num_args};
    last->num_results = hold_program(last, args->executable);
    if (args->num_args <= MOST_VALUES)
        memcpy(last->arguments, args->argument_lists[0], args->num_args * sizeof(void *));
    if (last->num_results <= MOST_VALUES)
        memcpy(last->results, args->output_lists[0], last->num_results * sizeof(void *));
}

static void *watch_and_execute(void *given) {
    ExecuteArgs *args = given;
    void *error = execute(args);
    if (!watched.is_on || error) return error;
    watched.count += args->num_devices == 1 ? 1 : 2;
    if (args->num_devices == 1) note(args);
    return NULL;
}

void register_executions(void) {
    execute = *pjrt_slot(SLOT_LOADED_EXECUTABLE_EXECUTE);
    *pjrt_slot(SLOT_LOADED_EXECUTABLE_EXECUTE) = watch_and_execute;
}

void watch_executions(void) {
    watched.is_on = true;
    watched.count = 0;
}

/* The sizes of others are known once it has run. */
static bool has_known_sizes(void *buffer) {
    Args args = {.first = buffer};
    return !call(SLOT_BUFFER_DYNAMIC_DIMENSION_INDICES, &args) && !args.third;
}

static bool is_simple(const Execution *execution) {
    if (!execution->program || execution->num_arguments > MOST_VALUES) return false;
    if (!execution->num_results || execution->num_results > MOST_VALUES) return false;
    for (size_t i = 0; i < execution->num_results; i++)
        if (!has_known_sizes(execution->results[i])) return false;
    return true;
}

bool end_watching(Execution *seen) {
    watched.is_on = false;
    *seen = watched.last;
    watched.last.program = NULL;
    if (watched.count == 1 && is_simple(seen)) return true;
    release_program(seen);
    return false;
}

bool execute_again(const Execution *execution, void *const *arguments, void **results) {
    static const int64_t all[MOST_VALUES] = {0, 1, 2, 3, 4, 5, 6, 7};
    ExecuteOptions options = {.struct_size = sizeof options, .non_donatable_input_indices = all,
                              .num_non_donatable_input_indices = execution->num_arguments};
    ExecuteArgs args = {
        .struct_size = sizeof args, .executable = execution->loaded, .options = &options,
        .argument_lists = &arguments, .num_devices = 1, .num_args = execution->num_arguments,
        .output_lists = &results, .execute_device = execution->device};
    void *error = execute(&args);
    if (!error) return true;
    call(SLOT_ERROR_DESTROY, &(Args){.first = error});
    return false;
}

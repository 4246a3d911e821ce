/* Compiled programs: made by the engine, described by the record that it gives. */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

struct PJRT_Serialized {
    size_t size;
    char bytes[];
};

static void free_serialized(struct PJRT_Serialized *serialized) { free(serialized); }

static struct PJRT_Serialized *serialized_copy(const char *bytes, size_t size) {
    struct PJRT_Serialized *serialized = malloc(sizeof *serialized + size);
    if (!serialized) abort();
    serialized->size = size;
    memcpy(serialized->bytes, bytes, size);
    return serialized;
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    if (!memory) abort();
    return memory;
}

static void fill_costs(Executable *program) {
    const char *names[NUM_COSTS] = {"flops", "bytes accessed"};
    const double values[NUM_COSTS] = {program->record->flops, program->record->nbytes_accessed};
    for (int i = 0; i < NUM_COSTS; i++)
        program->costs[i] = (PJRT_NamedValue){.struct_size = sizeof(PJRT_NamedValue),
                                              .name = names[i],
                                              .name_size = strlen(names[i]),
                                              .type = PJRT_NamedValue_kFloat,
                                              .float_value = (float)values[i],
                                              .value_size = 1};
}

/* From the engine's (program, address of its record). */
static Executable *make_program(Client *client, PyObject *told) {
    Executable *program = allocate(1, sizeof *program);
    program->refs = 1;
    program->client = client;
    program->python = python_ref(py.PyTuple_GetItem(told, 0));
    const ProgramRecord *record = py.PyLong_AsVoidPtr(py.PyTuple_GetItem(told, 1));
    program->record = record;
    size_t devices = record->num_own;
    size_t kinds = record->num_outputs + record->num_parameters;
    program->devices = allocate(devices, sizeof *program->devices);
    program->logical_ids = allocate(devices, sizeof *program->logical_ids);
    program->memory_kinds = allocate(kinds, sizeof *program->memory_kinds);
    program->memory_kind_sizes = allocate(kinds, sizeof *program->memory_kind_sizes);
    for (size_t i = 0; i < devices; i++) {
        program->devices[i] = &client->devices[record->device_ids[i]];
        program->logical_ids[i].replica = record->own[i] / (int)record->num_partitions;
        program->logical_ids[i].partition = record->own[i] % (int)record->num_partitions;
    }
    for (size_t i = 0; i < kinds; i++) {
        bool is_output = i < record->num_outputs;
        int number = is_output ? record->output_kinds[i]
                               : record->parameter_kinds[i - record->num_outputs];
        program->memory_kinds[i] = client->own_list[0]->memories[number].kind;
        program->memory_kind_sizes[i] = strlen(program->memory_kinds[i]);
    }
    fill_costs(program);
    return program;
}

/* Calls the engine for a program; `arguments` are made by the caller under Python's lock. */
static Error *ask_for_program(
    Client *client, PyObject *function, PyObject *arguments, Executable **program) {
    PyObject *told = python_call(function, arguments);
    if (!told) return error_from_python();
    *program = make_program(client, told);
    py.Py_DecRef(told);
    return NULL;
}

static Error *compile(
    Client *client, const PJRT_Program *source, const char *options, size_t options_size,
    Executable **program) {
    Error *closed = client_open(client);
    if (closed) return closed;
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    Error *error = ask_for_program(
        client, engine.compile,
        python_tuple(4, python_ref(client->python),
                     py.PyBytes_FromStringAndSize(source->code, (ssize_t)source->code_size),
                     py.PyUnicode_FromStringAndSize(source->format, (ssize_t)source->format_size),
                     py.PyBytes_FromStringAndSize(options, (ssize_t)options_size)),
        program);
    python_leave(&scope);
    return error;
}

IMPLEMENT(Client_Compile) {
    return compile(args->client, args->program, args->compile_options, args->compile_options_size,
                   &args->executable);
}

IMPLEMENT(Compile) {
    Client *client = args->client ? args->client : args->topology->client;
    return compile(client, args->program, args->compile_options, args->compile_options_size,
                   &args->executable);
}

static Executable *program_ref(Executable *program) {
    program->refs++;
    return program;
}

IMPLEMENT(Client_Load) {
    args->loaded_executable = program_ref(args->executable);
    return NULL;
}

IMPLEMENT(Executable_DeserializeAndLoad) {
    Error *closed = client_open(args->client);
    if (closed) return closed;
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    Error *error = ask_for_program(
        args->client, engine.load,
        python_tuple(2, python_ref(args->client->python),
                     py.PyBytes_FromStringAndSize(args->serialized_executable,
                                                  (ssize_t)args->serialized_executable_size)),
        &args->loaded_executable);
    python_leave(&scope);
    return error;
}

IMPLEMENT(Executable_Serialize) {
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    char *bytes = NULL;
    ssize_t size = 0;
    PyObject *told = python_call(engine.serialize, python_tuple(1, python_ref(args->executable->python)));
    Error *error = NULL;
    if (!told || py.PyBytes_AsStringAndSize(told, &bytes, &size)) error = error_from_python();
    if (!error) args->serialized_executable = serialized_copy(bytes, (size_t)size);
    if (told) py.Py_DecRef(told);
    python_leave(&scope);
    if (error) return error;
    args->serialized_bytes = args->serialized_executable->bytes;
    args->serialized_bytes_size = args->serialized_executable->size;
    args->serialized_executable_deleter = free_serialized;
    return NULL;
}

IMPLEMENT(LoadedExecutable_GetDeviceAssignment) {
    const ProgramRecord *record = args->executable->record;
    args->serialized_device_assignment =
        serialized_copy(record->device_assignment, record->device_assignment_size);
    args->serialized_bytes = args->serialized_device_assignment->bytes;
    args->serialized_bytes_size = args->serialized_device_assignment->size;
    args->serialized_device_assignment_deleter = free_serialized;
    return NULL;
}

IMPLEMENT(Executable_GetCompileOptions) {
    const ProgramRecord *record = args->executable->record;
    args->serialized_compile_options =
        serialized_copy(record->compile_options, record->compile_options_size);
    args->serialized_bytes = args->serialized_compile_options->bytes;
    args->serialized_bytes_size = args->serialized_compile_options->size;
    args->serialized_compile_options_deleter = free_serialized;
    return NULL;
}

static void program_unref(Executable *program) {
    if (--program->refs) return;
    layouts_free(program->output_layouts, program->record->num_outputs);
    layouts_free(program->parameter_layouts, program->record->num_parameters);
    python_release(program->python);
    free(program->devices);
    free(program->logical_ids);
    free(program->memory_kinds);
    free(program->memory_kind_sizes);
    free(program);
}

void program_hold(Executable *program) { program_ref(program); }
void program_release(Executable *program) { program_unref(program); }

IMPLEMENT(Executable_Destroy) {
    program_unref(args->executable);
    return NULL;
}

IMPLEMENT(LoadedExecutable_Destroy) {
    program_unref(args->executable);
    return NULL;
}

IMPLEMENT(LoadedExecutable_Delete) {
    args->executable->deleted = true;
    return NULL;
}

IMPLEMENT(LoadedExecutable_IsDeleted) {
    args->is_deleted = args->executable->deleted;
    return NULL;
}

IMPLEMENT(LoadedExecutable_GetExecutable) {
    args->executable = program_ref(args->loaded_executable);
    return NULL;
}

IMPLEMENT(LoadedExecutable_AddressableDevices) {
    args->addressable_devices = args->executable->devices;
    args->num_addressable_devices = args->executable->record->num_own;
    return NULL;
}

IMPLEMENT(LoadedExecutable_AddressableDeviceLogicalIds) {
    args->addressable_device_logical_ids = args->executable->logical_ids;
    args->num_addressable_device_logical_ids = args->executable->record->num_own;
    return NULL;
}

IMPLEMENT(Executable_Name) {
    args->executable_name = args->executable->record->name;
    args->executable_name_size = args->executable->record->name_size;
    return NULL;
}

IMPLEMENT(Executable_Fingerprint) {
    args->executable_fingerprint = args->executable->record->fingerprint;
    args->executable_fingerprint_size = args->executable->record->fingerprint_size;
    return NULL;
}

IMPLEMENT(LoadedExecutable_Fingerprint) {
    args->executable_fingerprint = args->executable->record->fingerprint;
    args->executable_fingerprint_size = args->executable->record->fingerprint_size;
    return NULL;
}

#define ANSWER(function, field, value)          \
    IMPLEMENT(function) {                       \
        args->field = args->executable->record->value; \
        return NULL;                            \
    }

ANSWER(Executable_NumReplicas, num_replicas, num_replicas)
ANSWER(Executable_NumPartitions, num_partitions, num_partitions)
ANSWER(Executable_NumOutputs, num_outputs, num_outputs)
ANSWER(Executable_SizeOfGeneratedCodeInBytes, size_in_bytes, code_nbytes)

IMPLEMENT(Executable_GetCostAnalysis) {
    args->properties = args->executable->costs;
    args->num_properties = NUM_COSTS;
    return NULL;
}

IMPLEMENT(Executable_OutputElementTypes) {
    args->output_types = (PJRT_Buffer_Type *)args->executable->record->output_types;
    args->num_output_types = args->executable->record->num_outputs;
    return NULL;
}

IMPLEMENT(Executable_OutputDimensions) {
    args->num_outputs = args->executable->record->num_outputs;
    args->dims = args->executable->record->output_dims;
    args->dim_sizes = args->executable->record->output_ranks;
    return NULL;
}

IMPLEMENT(Executable_OutputMemoryKinds) {
    args->num_outputs = args->executable->record->num_outputs;
    args->memory_kinds = args->executable->memory_kinds;
    args->memory_kind_sizes = args->executable->memory_kind_sizes;
    return NULL;
}

IMPLEMENT(Executable_ParameterMemoryKinds) {
    size_t outputs = args->executable->record->num_outputs;
    args->num_parameters = args->executable->record->num_parameters;
    args->memory_kinds = args->executable->memory_kinds + outputs;
    args->memory_kind_sizes = args->executable->memory_kind_sizes + outputs;
    return NULL;
}

/* Called twice: for the size, then for the text. */
IMPLEMENT(Executable_OptimizedProgram) {
    const ProgramRecord *record = args->executable->record;
    args->program->format = record->shown_format;
    args->program->format_size = record->shown_format_size;
    if (args->program->code) memcpy(args->program->code, record->shown, record->shown_size);
    args->program->code_size = record->shown_size;
    return NULL;
}

IMPLEMENT(Executable_GetCompiledMemoryStats) {
    const ProgramRecord *record = args->executable->record;
    int64_t scratch = (int64_t)record->scratch_nbytes;
    int64_t all = record->argument_nbytes + record->result_nbytes - record->alias_nbytes + scratch;
    args->generated_code_size_in_bytes = record->code_nbytes;
    args->argument_size_in_bytes = record->argument_nbytes;
    args->output_size_in_bytes = record->result_nbytes;
    args->alias_size_in_bytes = record->alias_nbytes;
    args->temp_size_in_bytes = scratch;
    args->host_generated_code_size_in_bytes = args->host_argument_size_in_bytes = 0;
    args->host_output_size_in_bytes = args->host_alias_size_in_bytes = 0;
    args->host_temp_size_in_bytes = 0;
    if (HAS_FIELD(args, peak_memory_in_bytes)) args->peak_memory_in_bytes = all;
    if (HAS_FIELD(args, total_size_in_bytes)) args->total_size_in_bytes = all;
    if (HAS_FIELD(args, total_allocation_bytes)) args->total_allocation_bytes = all;
    if (HAS_FIELD(args, indefinite_allocations)) args->indefinite_allocations = 0;
    if (HAS_FIELD(args, peak_unpadded_heap_bytes)) args->peak_unpadded_heap_bytes = all;
    return NULL;
}

/* Clients, their devices, memories and topology: answers from what the engine told once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/* Notes that a client pins to a memory, by key. */
typedef struct Note {
    struct Note *next;
    const Memory *memory;
    const void *key;
    void *data;
    void (*free)(void *);
} Note;

static Note *notes;
static pthread_mutex_t notes_lock = PTHREAD_MUTEX_INITIALIZER;
HOLD_OVER_FORK(notes_lock)

static void *get_user_data(Memory *memory, const void *key) {
    pthread_mutex_lock(&notes_lock);
    Note *note = notes;
    while (note && !(note->memory == memory && note->key == key)) note = note->next;
    void *data = note ? note->data : NULL;
    pthread_mutex_unlock(&notes_lock);
    return data;
}

static void set_user_data(Memory *memory, const void *key, void *data, void (*release)(void *)) {
    pthread_mutex_lock(&notes_lock);
    Note *note = notes;
    while (note && !(note->memory == memory && note->key == key)) note = note->next;
    Note before = note ? *note : (Note){0};
    if (!note) {
        note = malloc(sizeof *note);
        if (!note) abort();
        note->next = notes;
        notes = note;
    }
    *note = (Note){note->next, memory, key, data, release};
    pthread_mutex_unlock(&notes_lock);
    if (before.free && before.data) before.free(before.data);
}

static const PJRT_Memory_FunctionTable memory_functions = {
    sizeof memory_functions, NULL, sizeof(Memory), get_user_data, set_user_data};

static void fill_memory(Device *device, int number, const char *kind) {
    Memory *memory = &device->memories[number];
    memory->functions = &memory_functions;
    memory->device = device;
    memory->kind = kind;
    memory->kind_number = number;
    memory->id = device->index * MOST_KINDS + number;
    snprintf(memory->text, sizeof memory->text, "%s memory of %s", kind, device->record->name);
    device->memory_list[number] = memory;
}

static void fill_device(Client *client, int index) {
    Device *device = &client->devices[index];
    device->client = client;
    device->record = &client->record->devices[index];
    device->index = index;
    device->self = device;
    const char *kinds[MOST_KINDS] = {device->record->memory_kind, "pinned_host", "unpinned_host"};
    client->device_list[index] = device;
    if (device->record->process_index != client->record->process_index) return;
    client->own_list[client->num_own++] = device;
    device->num_memories = client->record->host_addressable ? MOST_KINDS : 1;
    for (int i = 0; i < (int)device->num_memories; i++) {
        fill_memory(device, i, kinds[i]);
        client->memory_list[client->num_memories++] = device->memory_list[i];
    }
}

Client *client_new(const ClientRecord *record, size_t count) {
    Client *client = calloc(1, sizeof *client);
    if (!client) abort();
    client->record = record;
    client->num_devices = count;
    client->devices = calloc(count + 1, sizeof *client->devices);
    client->device_list = calloc(count + 1, sizeof *client->device_list);
    client->own_list = calloc(count + 1, sizeof *client->own_list);
    client->memory_list = calloc(MOST_KINDS * count + 1, sizeof *client->memory_list);
    client->topology.client = client;
    for (size_t i = 0; i < count; i++) fill_device(client, (int)i);
    return client;
}

static Client *make_client(PyObject *told) {
    const ClientRecord *record = py.PyLong_AsVoidPtr(py.PyTuple_GetItem(told, 1));
    Client *client = client_new(record, record->num_devices);
    client->python = python_ref(py.PyTuple_GetItem(told, 0));
    return client;
}

/* Texts and numbers among the create options, as pairs; the caller's names are not zero-terminated. */
static PyObject *option_pairs(const PJRT_NamedValue *options, size_t count) {
    PyObject *pairs = py.PyTuple_New((ssize_t)count);
    for (size_t i = 0; pairs && i < count; i++) {
        const PJRT_NamedValue *option = &options[i];
        bool is_number = option->type == PJRT_NamedValue_kInt64;
        const char *text = option->type == PJRT_NamedValue_kString ? option->string_value : "";
        PyObject *value =
            is_number ? py.PyLong_FromLongLong(option->int64_value)
                      : py.PyUnicode_FromStringAndSize(text, *text ? (ssize_t)option->value_size : 0);
        PyObject *name = py.PyUnicode_FromStringAndSize(option->name, (ssize_t)option->name_size);
        py.PyTuple_SetItem(pairs, (ssize_t)i, python_tuple(2, name, value));
    }
    return pairs;
}

PyObject *client_ask(const PJRT_NamedValue *options, size_t count, struct KeyValues *store) {
    return python_call(engine.open_client, python_tuple(2, option_pairs(options, count),
                                                        py.PyLong_FromVoidPtr(store)));
}

static Error *open_client(const PJRT_NamedValue *options, size_t count, struct KeyValues *store,
                          Client **client) {
    int64_t promised = deferred_devices(options, count);
    if (promised > 0) {
        *client = client_deferred(options, count, promised);
        return NULL;
    }
    const char *problem = python_start();
    if (problem) return error_new(PJRT_Error_Code_UNAVAILABLE, "%s", problem);
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    PyObject *told = client_ask(options, count, store);
    Error *error = told ? NULL : error_from_python();
    if (told) {
        *client = make_client(told);
        py.Py_DecRef(told);
    }
    python_leave(&scope);
    return error;
}

IMPLEMENT(Client_Create) {
    struct KeyValues *store = key_values_new(args);
    return open_client(args->create_options, args->num_options, store, &args->client);
}

/* Buffers and executables may outlive their client, and point to its devices: it stays. */
IMPLEMENT(Client_Destroy) {
    (void)args;
    return NULL;
}

#define TEXT(function, object, field, size_field, text) \
    IMPLEMENT(function) {                               \
        args->field = (text);                           \
        args->size_field = strlen(args->field);         \
        return NULL;                                    \
    }

TEXT(Client_PlatformName, client, platform_name, platform_name_size,
     args->client->record->platform_name)
TEXT(Client_PlatformVersion, client, platform_version, platform_version_size,
     args->client->record->platform_version)
TEXT(TopologyDescription_PlatformName, topology, platform_name, platform_name_size,
     args->topology->client->record->platform_name)
TEXT(TopologyDescription_PlatformVersion, topology, platform_version, platform_version_size,
     args->topology->client->record->platform_version)
TEXT(DeviceDescription_Kind, device_description, device_kind, device_kind_size,
     args->device_description->record->kind)
TEXT(DeviceDescription_DebugString, device_description, debug_string, debug_string_size,
     args->device_description->record->debug_string)
TEXT(DeviceDescription_ToString, device_description, to_string, to_string_size,
     args->device_description->record->name)
TEXT(Memory_Kind, memory, kind, kind_size, args->memory->kind)
TEXT(Memory_DebugString, memory, debug_string, debug_string_size, args->memory->text)
TEXT(Memory_ToString, memory, to_string, to_string_size, args->memory->text)

static bool is_own(const Device *device) {
    return device->record->process_index == device->client->record->process_index;
}

#define ANSWER(function, field, value) \
    IMPLEMENT(function) {              \
        args->field = (value);         \
        return NULL;                   \
    }

ANSWER(Client_ProcessIndex, process_index, args->client->record->process_index)
ANSWER(Client_TopologyDescription, topology, &args->client->topology)
ANSWER(Device_GetDescription, device_description, args->device)
ANSWER(Device_IsAddressable, is_addressable, is_own(args->device))
ANSWER(Device_LocalHardwareId, local_hardware_id, args->device->record->local_id)
ANSWER(Device_DefaultMemory, memory, &args->device->memories[0])
ANSWER(DeviceDescription_Id, id, (int)args->device_description->record->id)
ANSWER(DeviceDescription_ProcessIndex, process_index,
       args->device_description->record->process_index)
ANSWER(Memory_Id, id, args->memory->id)
ANSWER(Memory_Kind_Id, kind_id, args->memory->kind_number)

#define LIST(function, list, count, first, length) \
    IMPLEMENT(function) {                          \
        args->list = (first);                      \
        args->count = (length);                    \
        return NULL;                               \
    }

LIST(Client_Devices, devices, num_devices, args->client->device_list,
     args->client->num_devices)
LIST(Client_AddressableDevices, addressable_devices, num_addressable_devices,
     args->client->own_list, args->client->num_own)
LIST(Client_AddressableMemories, addressable_memories, num_addressable_memories,
     args->client->memory_list, args->client->num_memories)
LIST(TopologyDescription_GetDeviceDescriptions, descriptions, num_descriptions,
     args->topology->client->device_list, args->topology->client->num_devices)
LIST(TopologyDescription_Attributes, attributes, num_attributes, NULL, 0)
LIST(DeviceDescription_Attributes, attributes, num_attributes,
     args->device_description->record->attributes,
     args->device_description->record->num_attributes)
LIST(Device_AddressableMemories, memories, num_memories, args->device->memory_list,
     args->device->num_memories)
LIST(Memory_AddressableByDevices, devices, num_devices, &args->memory->device->self, 1)

static void keep_attributes(void *attributes) { (void)attributes; }

IMPLEMENT(Device_GetAttributes) {
    args->attributes = args->device->record->attributes;
    args->num_attributes = args->device->record->num_attributes;
    args->device_attributes = args->device;
    args->attributes_deleter = keep_attributes;
    return NULL;
}

static Error *look_up(Client *client, int64_t id, Device **device) {
    for (size_t i = 0; i < client->num_devices; i++)
        if (client->devices[i].record->id == id) {
            *device = &client->devices[i];
            return NULL;
        }
    return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "platform %s has no device %lld",
                     client->record->platform_name, (long long)id);
}

IMPLEMENT(Client_LookupDevice) { return look_up(args->client, args->id, &args->device); }

IMPLEMENT(Client_LookupAddressableDevice) {
    for (size_t i = 0; i < args->client->num_own; i++)
        if (args->client->own_list[i]->record->local_id == args->local_hardware_id) {
            args->addressable_device = args->client->own_list[i];
            return NULL;
        }
    return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "platform %s has no device %d here",
                     args->client->record->platform_name, args->local_hardware_id);
}

IMPLEMENT(Client_DefaultDeviceAssignment) {
    size_t needed = (size_t)args->num_replicas * (size_t)args->num_partitions;
    size_t present = args->client->num_devices;
    if (needed > args->default_assignment_size || needed > present)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
                         "%zu devices are wanted and platform %s has %zu", needed,
                         args->client->record->platform_name, present);
    for (size_t i = 0; i < needed; i++)
        args->default_assignment[i] = (int)args->client->devices[i].record->id;
    return NULL;
}

IMPLEMENT(TopologyDescription_Create) {
    Client *client = NULL;
    Error *error = open_client(args->create_options, args->num_options, NULL, &client);
    if (!error) args->topology = &client->topology;
    return error;
}

IMPLEMENT(TopologyDescription_Destroy) {
    (void)args;
    return NULL;
}

IMPLEMENT(TopologyDescription_Fingerprint) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a, of all that programs depend on */
    const ClientRecord *record = args->topology->client->record;
    const char *texts[] = {record->platform_name, record->platform_version};
    for (int i = 0; i < 2; i++)
        for (const char *c = texts[i]; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    args->fingerprint = hash;
    return NULL;
}

/* Device memory that Python allocated is counted there, what the shim allocated here. */
IMPLEMENT(Device_MemoryStats) {
    Device *device = args->device;
    Error *closed = client_open(device->client);
    if (closed) return closed;
    PythonScope scope;
    if (!python_enter(&scope))
        return error_new(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
    PyObject *told = python_call(
        engine.memory_stats,
        python_tuple(2, python_ref(device->client->python), py.PyLong_FromLongLong(device->index)));
    Error *error = told ? NULL : error_from_python();
    int64_t numbers[4] = {0};
    for (int i = 0; told && i < 4; i++)
        numbers[i] = py.PyLong_AsLongLong(py.PyTuple_GetItem(told, i));
    if (told) py.Py_DecRef(told);
    python_leave(&scope);
    if (error) return error;
    args->bytes_in_use = numbers[0] + device->nbytes_in_use;
    args->peak_bytes_in_use = numbers[1] + device->peak_nbytes;
    args->num_allocs = numbers[2] + device->allocations;
    args->largest_alloc_size = device->largest_nbytes;
    args->bytes_limit = numbers[3];
    args->peak_bytes_in_use_is_set = args->num_allocs_is_set = true;
    args->largest_alloc_size_is_set = device->largest_nbytes > 0;
    args->bytes_limit_is_set = numbers[3] > 0;
    args->bytes_reserved_is_set = args->peak_bytes_reserved_is_set = false;
    args->bytes_reservable_limit_is_set = args->largest_free_block_bytes_is_set = false;
    args->pool_bytes_is_set = args->peak_pool_bytes_is_set = false;
    if (HAS_FIELD(args, peak_allocated_bytes_is_set)) args->peak_allocated_bytes_is_set = false;
    return NULL;
}

/* No event: jaxlib then tracks nothing, where an error would end the process. */
IMPLEMENT(Device_CreateAsyncTrackingEvent) {
    args->event = NULL;
    return NULL;
}

IMPLEMENT(AsyncTrackingEvent_Destroy) {
    (void)args;
    return NULL;
}

IMPLEMENT(Device_ClearMemoryStats) {
    args->device->peak_nbytes = args->device->nbytes_in_use;
    args->device->largest_nbytes = 0;
    return NULL;
}

/* What lies behind the handles of the PJRT C API, and what the parts of the shim ask of each other.
 *
 * Everything that a client asks about often, or at a moment when no Python may run, is answered
 * from these structs. Python is entered to open a client, to compile, for transfers of memory that
 * the host cannot address, and to execute programs without a native entry.
 */
#ifndef XLADEV_SHIM_H
#define XLADEV_SHIM_H

#include <pthread.h>
#include <stdatomic.h>

#include "pjrt_args.h"
#include "python.h"

typedef PJRT_Error Error;
typedef PJRT_Event Event;
typedef PJRT_Client Client;
typedef PJRT_Device Device;
typedef PJRT_Memory Memory;
typedef PJRT_Executable Executable;
typedef PJRT_Buffer Buffer;

/* Errors and events: error.c, event.c */

Error *error_new(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
Error *error_copy(int code, const char *message, size_t size);
void error_free(Error *error);
int error_code(const Error *error);
const char *error_message(const Error *error);
/* The pending Python exception as an error; clears it. The interpreter lock is held. */
Error *error_from_python(void);

extern Event ready_event; /* ready, without error, never freed */
Event *event_new(void);
Event *event_ref(Event *event);
void event_unref(Event *event);
bool event_is_ready(const Event *event);
/* A copy of the error of a ready event; NULL if there is none. */
Error *event_error(const Event *event);
/* Makes it ready, takes over `error`, runs what waits for it. */
void event_set(Event *event, Error *error);
void event_wait(Event *event);
typedef void (*Callback)(Error *error, void *argument);
/* Calls back once, now or when ready, with an error that the callee frees. */
void event_on_ready(Event *event, Callback callback, void *argument);

/* Clients, devices and memories: client.c */

/* Filled by xladev.frontends.jax.records; field for field the same there. A deferred client has one
 * made here until it is opened. */
typedef struct {
    int64_t id;
    int process_index, local_id; /* whose it is, and its number there */
    const char *kind, *debug_string, *name, *memory_kind;
    const PJRT_NamedValue *attributes;
    size_t num_attributes;
} DeviceRecord;

typedef struct {
    const char *platform_name, *platform_version;
    bool host_addressable; /* programs find arrays at addresses that the host can read and write */
    int process_index, num_processes; /* of this process; 0 and 1 where it is alone */
    size_t num_devices;
    const DeviceRecord *devices;
} ClientRecord;

enum { MOST_DIMS = 64, MOST_KINDS = 3 };

/* A kind of memory of a device. Where the host addresses the device's memory, the kinds that are
 * called the host's are that memory, too. */
struct PJRT_Memory {
    const PJRT_Memory_FunctionTable *functions; /* first: part of the interface */
    Device *device;
    const char *kind;
    int kind_number, id;
    char text[64];
};

struct PJRT_Device {
    Client *client;
    const DeviceRecord *_Atomic record;
    int index;
    Memory memories[MOST_KINDS]; /* the first is the default */
    Memory *memory_list[MOST_KINDS];
    size_t num_memories;
    Device *self;
    struct Worker *worker;
    _Atomic int64_t nbytes_in_use, peak_nbytes, largest_nbytes, allocations;
};

struct PJRT_TopologyDescription {
    Client *client;
};

struct PJRT_Client {
    PyObject *python; /* the engine's client, and the record with all it points to */
    const ClientRecord *_Atomic record;
    struct Deferred *_Atomic deferred; /* how to open it; NULL once it is open */
    size_t num_devices, num_own;
    Device *devices;
    Device **device_list, **own_list; /* all, and those of this process */
    Memory **memory_list;
    size_t num_memories;
    PJRT_TopologyDescription topology;
};

struct KeyValues;
Client *client_new(const ClientRecord *record, size_t num_devices);
/* Asks the engine to open a client: (client, address of its record), a new reference. The interpreter
 * lock is held. `store` is what processes leave values for each other in, or NULL. */
PyObject *client_ask(const PJRT_NamedValue *options, size_t count, struct KeyValues *store);

/* What the caller of Client_Create gave for that; NULL if nothing. Never freed: processes.c */
struct KeyValues *key_values_new(const PJRT_Client_Create_Args *args);

/* Clients that are opened when they are first used: deferred.c */

/* How many devices the option `deferred_devices` promises; 0 where it is not given. */
int64_t deferred_devices(const PJRT_NamedValue *options, size_t count);
Client *client_deferred(const PJRT_NamedValue *options, size_t count, int64_t num_devices);
/* Opens a deferred client, or waits until another thread has. Called before anything that needs the
 * engine's client or the true record; never while the caller holds a lock. */
Error *client_open(Client *client);

/* Values and buffers: value.c */

/* Memory that the host can address, shared by whoever refers to it. */
typedef struct {
    _Atomic int refs;
    void *data;
    size_t nbytes;
    bool writable;             /* false: somebody outside may look at it */
    Device *device;            /* counts it, if allocated here */
    PyObject *owner;           /* what keeps it alive, if made by Python */
    Event *released;           /* set when nobody uses it any more; a host buffer of the caller's */
    void (*on_delete)(void *data, void *argument);
    void *on_delete_argument;
} Block;

/* One array, computed or not; buffers and pending executions refer to it. */
typedef struct {
    _Atomic int refs;
    Block *block;    /* set once it is launched, where memory is host-addressable */
    PyObject *array; /* the DeviceArray, where there is one */
    Event *ready;
} Value;

/* Which dimensions have sizes that the program gives, and these sizes, once they were asked for. */
typedef struct {
    size_t count;
    size_t *indices;
    atomic_bool is_known;
    int64_t sizes[]; /* of all dimensions, as the client knows them; then the indices */
} Dynamic;

struct PJRT_Buffer {
    Value *value; /* NULL once deleted or donated */
    Value *held;  /* while references from outside exist */
    int external_references;
    Memory *memory;
    Dynamic *dynamic; /* NULL: the sizes are the dims */
    PJRT_Buffer_Type type;
    size_t nbytes, rank;
    int64_t dims[]; /* dims, bounds where dynamic; then minor to major */
};

/* Where elements lie: strides.c. Engine and programs know arrays by their dims from major to minor
 * (`by_major`); clients know the dims and the order. */

size_t type_nbytes(PJRT_Buffer_Type type);
Error *check_shape(PJRT_Buffer_Type type, const int64_t *dims, size_t rank);
Error *read_layout(const PJRT_Buffer_MemoryLayout *layout, size_t rank, int64_t *minor_to_major);
void by_major(const int64_t *values, const int64_t *minor_to_major, size_t rank, int64_t *ordered);
/* Strides in bytes of an array without gaps; minor_to_major NULL: row-major. */
void dense_strides(const int64_t *dims, size_t rank, const int64_t *minor_to_major, size_t nbytes,
                   int64_t *strides);
bool is_dense(const int64_t *dims, const int64_t *strides, const int64_t *dense, size_t rank);
void copy_array(const int64_t *dims, size_t rank, size_t element_nbytes, size_t nbytes,
                const void *from, const int64_t *from_strides, void *to,
                const int64_t *to_strides);

Block *block_allocate(Device *device, size_t nbytes);
Block *block_ref(Block *block);
void block_unref(Block *block);
Value *value_new(Block *block, PyObject *array, Event *ready);
Value *value_ref(Value *value);
void value_unref(Value *value);
/* Gives a value what the engine made: (DeviceArray, its address or 0, its size). */
void value_adopt(Value *value, PyObject *made);
/* minor_to_major NULL: row-major. */
Buffer *buffer_new(Memory *memory, PJRT_Buffer_Type type, const int64_t *dims, size_t rank,
                   const int64_t *minor_to_major, Value *value);
void buffer_free(Buffer *buffer);
/* Says which dimensions are dynamic: a flag for each; or as those of another buffer. */
void buffer_set_dynamic(Buffer *buffer, const uint8_t *flags);
void buffer_dynamic_as(Buffer *buffer, const Buffer *other);
/* The sizes of the dimensions; waits for the value where one is dynamic. */
Error *buffer_sizes(Buffer *buffer, const int64_t **sizes);
/* How many bytes these sizes are; and the part that they name as a value of its own: settle.c */
Error *buffer_live_nbytes(Buffer *buffer, size_t *nbytes);
Error *buffer_settle(Buffer *buffer, Value **value);
Error *deleted_error(void);
Error *out_of_memory(Device *device, size_t nbytes);
/* The value of a live buffer, to be unreferenced; NULL if it is deleted. */
Value *buffer_value(Buffer *buffer);
/* Deletes the buffer; its value, to be unreferenced, or NULL if it was deleted before. */
Value *buffer_take(Buffer *buffer);
/* The DeviceArray of a value, made where it has none; borrowed. The interpreter lock is held. */
PyObject *value_array(Device *device, Value *value, int type, const int64_t *dims, size_t rank);

/* Programs: program.c, execute.c */

typedef int (*NativeEntry)(void *context, void **arguments, void **results, void *scratch);

/* Filled by xladev.frontends.jax.records; field for field the same there. */
typedef struct {
    const char *name, *fingerprint, *shown, *shown_format, *compile_options, *device_assignment;
    size_t name_size, fingerprint_size, shown_size, shown_format_size, compile_options_size;
    size_t device_assignment_size;
    size_t num_replicas, num_partitions, num_parameters, num_outputs;
    size_t num_own;        /* participants in this process: all, where it is alone */
    const int *device_ids; /* indices of their devices, by replica */
    const int *own;        /* their numbers: replica * num_partitions + partition */
    const int *parameter_types, *output_types;
    const size_t *parameter_nbytes, *output_nbytes, *output_ranks;
    const int64_t *parameter_dims, *output_dims; /* of parameters: from major to minor */
    const uint8_t *output_dynamic; /* a flag for each of output_dims, or NULL */
    const int64_t *parameter_layouts, *output_layouts; /* minor to major, one after the other */
    const size_t *parameter_ranks;
    const int *parameter_kinds, *output_kinds; /* numbers of kinds of memory */
    const char *const *parameter_shardings, *const *output_shardings; /* OpShardings, or NULL */
    const size_t *parameter_sharding_sizes, *output_sharding_sizes;
    const uint8_t *donated;       /* for each parameter: the program offers to end it */
    const int64_t *alias;         /* for each output: the parameter whose memory it takes, or -1 */
    NativeEntry entry;            /* NULL: executed by Python */
    size_t scratch_nbytes;
    double flops, nbytes_accessed;
    int64_t code_nbytes, argument_nbytes, result_nbytes, alias_nbytes;
    bool is_short;      /* runs in the caller's thread where its arguments are there */
    bool has_callbacks; /* calls functions of the user's, whose failures are of use to the caller */
    bool is_portable;   /* runs on whichever device of the client the caller names */
    bool is_spread;     /* runs in other processes too */
    bool is_tiny;       /* takes less time on a device than to wake a thread */
    const NativeEntry *joint_entries; /* for each device, where there are several; or NULL */
    void *const *joint_contexts;      /* what each of these takes first */
    atomic_int *joint_failure;        /* is made 1 when one has failed; NULL: they do not meet */
} ProgramRecord;

enum { NUM_COSTS = 2 };

struct PJRT_Executable {
    _Atomic int refs;
    atomic_bool deleted;
    atomic_bool is_launched; /* its joint entries are in use */
    Client *client;
    PyObject *python;
    const ProgramRecord *record;
    Device **devices;
    PJRT_LogicalDeviceIds *logical_ids;
    const char **memory_kinds; /* of outputs, then of parameters */
    size_t *memory_kind_sizes;
    PJRT_NamedValue costs[NUM_COSTS];
    _Atomic(void *) output_layouts, parameter_layouts; /* once asked for: layouts.c */
};

void layouts_free(void *layouts, size_t count);

/* One thread per device runs what does not run at once, in order: worker.c */
typedef void (*Work)(void *argument);
/* `done` is what `work` sets; in a child of fork, which lacks the thread, it is set with an error. */
/* Fails executions that wait for devices: meeting.c */
void meetings_end(void);
void worker_enqueue(Device *device, Work work, void *argument, Event *done);
/* Sets the event of what a child of fork will not see the end of, and calls back what waits for it. */
void event_lose(Event *event);
bool worker_is_current(void);
/* Called without Python's lock where work begins; returns unless the interpreter exits. */
void worker_admit(void);
void workers_drain(void);

/* Threads for several devices of one launch: team.c. Calls work(argument, i) for i from 0 to count - 1,
 * in the caller's thread and in others: each in one of its own if all are to run at the same time,
 * which fails, having called nothing, where the system has no threads left. */
bool team_run(size_t count, bool at_once, void (*work)(void *argument, size_t index), void *argument);

/* Holds a lock that is never held for long over fork, so that the child finds what it guards whole. */
#define HOLD_OVER_FORK(lock)                                        \
    static void hold_##lock(void) { pthread_mutex_lock(&lock); }    \
    static void free_##lock(void) { pthread_mutex_unlock(&lock); }  \
    __attribute__((constructor)) static void watch_##lock(void) {   \
        pthread_atfork(hold_##lock, free_##lock, free_##lock);      \
    }

#define IMPLEMENT(name) PJRT_Error *shim_##name(PJRT_##name##_Args *args)
#define HAS_FIELD(args, field) \
    ((args)->struct_size >= offsetof(__typeof__(*(args)), field) + sizeof((args)->field))

#endif

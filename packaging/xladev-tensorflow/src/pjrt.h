/* The table of PJRT's functions, as far as the plugin calls them: xla/pjrt/c/pjrt_c_api.h. */
#ifndef XLADEV_TF_PJRT_H
#define XLADEV_TF_PJRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a function gives is an error, or NULL. */
typedef void *(*Function)(void *arguments);

/* A test compares the numbers with xladev-pjrt's table. */
enum {
    SLOT_ERROR_DESTROY = 0, SLOT_ERROR_MESSAGE = 1, SLOT_EVENT_DESTROY = 5, SLOT_EVENT_AWAIT = 8,
    SLOT_CLIENT_CREATE = 10,
    SLOT_EXECUTABLE_DESTROY = 40, SLOT_EXECUTABLE_NUM_OUTPUTS = 44,
    SLOT_LOADED_EXECUTABLE_GET_EXECUTABLE = 51,
    SLOT_LOADED_EXECUTABLE_EXECUTE = 55, SLOT_BUFFER_DESTROY = 58,
    SLOT_BUFFER_DYNAMIC_DIMENSION_INDICES = 62, SLOT_BUFFER_DEVICE = 65,
    SLOT_BUFFER_COPY_TO_DEVICE = 69, SLOT_BUFFER_TO_HOST_BUFFER = 70, SLOT_BUFFER_READY_EVENT = 72,
};

/* An entry of the table that TensorFlow has, or will be given. */
Function *pjrt_slot(int number);

typedef struct {
    size_t struct_size;
    void *extension;
    void *first, *second, *third;
    size_t size;
} Args; /* of functions that take and give pointers */

typedef struct {
    size_t struct_size;
    void *extension;
    void **send_callbacks, **receive_callbacks;
    size_t num_sends, num_receives;
    int launch_id;
    const int64_t *non_donatable_input_indices;
    size_t num_non_donatable_input_indices;
    void *context;
} ExecuteOptions; /* as of PJRT 0.90; what is left out is zero by its size */

typedef struct {
    size_t struct_size;
    void *extension;
    void *executable;
    ExecuteOptions *options;
    void *const *const *argument_lists;
    size_t num_devices, num_args;
    void **const *output_lists;
    void **device_complete_events;
    void *execute_device;
} ExecuteArgs;

/* downloads.c */

void register_downloads(void); /* before TensorFlow has the table */

/* executions.c */

enum { MOST_VALUES = 8 };

/* An execution on one device. It holds the program. */
typedef struct {
    void *program, *loaded, *device;
    size_t num_arguments, num_results;
    void *arguments[MOST_VALUES], *results[MOST_VALUES];
} Execution;

void register_executions(void); /* before TensorFlow has the table */
/* From here to the end executions of this thread are watched. */
void watch_executions(void);
/* Whether there was exactly one, with few arguments, and results whose sizes the program knows; its
 * program is to be let go. */
bool end_watching(Execution *seen);
void release_program(Execution *execution);
/* Until `number` is 0 again, this thread's executions on one device are parts of those of programs of
 * several devices: those of the same step and number are one. */
typedef void CallMeeting(uint64_t step, uint64_t number);
extern CallMeeting *call_meeting; /* NULL where the library has none */
/* Runs a program on other arguments, and leaves them as they are; false if it could not begin. */
bool execute_again(const Execution *execution, void *const *arguments, void **results);
void destroy_buffer(void *buffer);
/* Copies an array to the host and waits for that; false if it failed. */
bool read_buffer(void *buffer, void *to, size_t nbytes);

#endif

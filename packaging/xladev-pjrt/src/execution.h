/* One execution, as its parts see it: execute.c, meeting.c. */
#ifndef XLADEV_EXECUTION_H
#define XLADEV_EXECUTION_H

#include "shim.h"

/* One execution: on each device a row of arguments and of results. */
typedef struct {
    Executable *program;
    size_t num_devices, num_arguments, num_results;
    Device **devices;
    uint8_t *donated; /* for each argument of a row */
    Event *done;      /* of all results */
    Value **results;
    Value *arguments[];
} Execution;

static inline size_t argument_count(const Execution *run) { return run->num_devices * run->num_arguments; }
static inline size_t result_count(const Execution *run) { return run->num_devices * run->num_results; }

Execution *execution_new(Executable *program, size_t num_devices);
void execution_free(Execution *run); /* with what it has so far */
/* Runs it, whose arguments are ready, and ends it. */
void execution_run(Execution *run);

/* By native code: native.c */

/* True if native code will run it; to be followed by `execute_natively`, once. */
bool executes_natively(Execution *run);
Error *execute_natively(Execution *run);

/* Executions that are asked for device by device: meeting.c */

typedef struct Meeting Meeting;

/* Whether this thread's executions are parts, as their caller says. */
bool meeting_is_called(void);
/* The meeting of a program's devices that is called, at which that of `part` has not come yet; NULL with
 * an error if others have come with another program. The part's results are due with its event. */
Meeting *meeting_enter(Execution *part, Error **error);
/* Hands over what the part has, and ends it. The last one starts the execution. */
void meeting_join(Meeting *meeting, Execution *part);

#endif

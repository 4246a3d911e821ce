/* A program of several devices, asked for device by device: it runs when all have come.
 *
 * TensorFlow runs collectives so. The caller numbers what belongs together; executions of one number
 * and device are of different meetings, in their order. Where a step fails, a device may not come; its
 * meetings are given up when it comes to one of another step, or when the process ends.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "execution.h"

struct Meeting {
    Meeting *next;
    uint64_t step, number;
    Execution *all;
    size_t num_entered, num_joined;
    atomic_size_t num_pending; /* arguments that are not ready, once all have joined */
    bool has_entered[]; /* by device */
};

/* What this thread's executions belong to. */
static __thread struct {
    uint64_t step, number;
} called;

/* Called by xladev-tensorflow around an execution; `number` 0: those that follow are no parts. */
__attribute__((visibility("default"))) void xladev_call_meeting(uint64_t step, uint64_t number) {
    called.step = step;
    called.number = number;
}

bool meeting_is_called(void) { return called.number; }

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Meeting *first; /* the oldest */
HOLD_OVER_FORK(lock)

static size_t row_of(const Meeting *meeting, const Device *device) {
    size_t row = 0;
    while (meeting->all->devices[row] != device) row++;
    return row;
}

static bool has_devices(const Meeting *meeting, const Executable *program) {
    size_t count = meeting->all->num_devices;
    return program->record->num_own == count &&
           !memcmp(meeting->all->devices, program->devices, count * sizeof(Device *));
}

/* Names and numbers of channels may differ; what comes in and out may not. */
static bool is_alike(const ProgramRecord *one, const ProgramRecord *other) {
    size_t in = one->num_parameters, out = one->num_outputs;
    return in == other->num_parameters && out == other->num_outputs &&
           !memcmp(one->parameter_types, other->parameter_types, in * sizeof *one->parameter_types) &&
           !memcmp(one->parameter_nbytes, other->parameter_nbytes, in * sizeof *one->parameter_nbytes) &&
           !memcmp(one->output_types, other->output_types, out * sizeof *one->output_types) &&
           !memcmp(one->output_nbytes, other->output_nbytes, out * sizeof *one->output_nbytes);
}

static Meeting *open_meeting(Executable *program) {
    size_t count = program->record->num_own;
    Meeting *meeting = calloc(1, sizeof *meeting + count * sizeof *meeting->has_entered);
    if (!meeting) abort();
    meeting->step = called.step;
    meeting->number = called.number;
    meeting->all = execution_new(program, count);
    meeting->all->devices = malloc(count * sizeof(Device *));
    if (!meeting->all->devices) abort();
    memcpy(meeting->all->devices, program->devices, count * sizeof(Device *));
    meeting->all->done = event_new();
    return meeting;
}

static void leave_list(Meeting *meeting) {
    Meeting **link = &first;
    while (*link != meeting) link = &(*link)->next;
    *link = meeting->next;
}

/* Nobody is at the door. */
static bool is_quiet(const Meeting *meeting) { return meeting->num_entered == meeting->num_joined; }

/* Takes those from the list that a device will not come to; NULL: all. */
static Meeting *take_forsaken(const Executable *program, const Device *device) {
    Meeting *forsaken = NULL, **link = &first;
    while (*link) {
        Meeting *meeting = *link;
        bool is_one = !device || (has_devices(meeting, program) && meeting->step && called.step &&
                                  meeting->step != called.step &&
                                  !meeting->has_entered[row_of(meeting, device)]);
        if (is_one && is_quiet(meeting)) {
            *link = meeting->next;
            meeting->next = forsaken;
            forsaken = meeting;
        } else {
            link = &meeting->next;
        }
    }
    return forsaken;
}

static void give_up(Meeting *meeting) {
    event_set(meeting->all->done,
              error_new(PJRT_Error_Code_ABORTED, "%s waited for %zu of its devices",
                        meeting->all->program->record->name,
                        meeting->all->num_devices - meeting->num_joined));
    execution_free(meeting->all);
    free(meeting);
}

static void give_up_all(Meeting *forsaken) {
    while (forsaken) {
        Meeting *next = forsaken->next;
        give_up(forsaken);
        forsaken = next;
    }
}

void meetings_end(void) {
    pthread_mutex_lock(&lock);
    Meeting *forsaken = take_forsaken(NULL, NULL);
    pthread_mutex_unlock(&lock);
    give_up_all(forsaken);
}

static Meeting *find_or_open(Executable *program, const Device *device) {
    Meeting **link = &first;
    for (; *link; link = &(*link)->next) {
        Meeting *meeting = *link;
        if (meeting->number == called.number && meeting->step == called.step &&
            has_devices(meeting, program) && !meeting->has_entered[row_of(meeting, device)])
            return meeting;
    }
    return *link = open_meeting(program);
}

Meeting *meeting_enter(Execution *part, Error **error) {
    pthread_mutex_lock(&lock);
    Meeting *forsaken = take_forsaken(part->program, part->devices[0]);
    Meeting *meeting = find_or_open(part->program, part->devices[0]);
    const ProgramRecord *record = meeting->all->program->record;
    bool is_welcome = is_alike(record, part->program->record);
    if (is_welcome) {
        meeting->has_entered[row_of(meeting, part->devices[0])] = true;
        meeting->num_entered++;
        part->done = event_ref(meeting->all->done);
    } else {
        *error = error_new(PJRT_Error_Code_INVALID_ARGUMENT,
                           "%s and %s are one execution, but have other arguments or results",
                           record->name, part->program->record->name);
    }
    pthread_mutex_unlock(&lock);
    give_up_all(forsaken);
    return is_welcome ? meeting : NULL;
}

static void take_row(Execution *all, size_t row, Execution *part) {
    size_t in = all->num_arguments, out = all->num_results;
    memcpy(all->arguments + row * in, part->arguments, in * sizeof *part->arguments);
    memcpy(all->results + row * out, part->results, out * sizeof *part->results);
    memset(part->arguments, 0, in * sizeof *part->arguments);
    memset(part->results, 0, out * sizeof *part->results);
}

/* A thread of its own: what is in a device's queue may wait for the results, or for arguments from
 * another device, whose queue waits for the results. */
static const DeviceRecord record = {.name = "collectives"};
static Device queue = {.record = &record};

static void run(void *argument) { execution_run(argument); }

static void note_ready(Error *error, void *argument) {
    Meeting *meeting = argument;
    if (error) error_free(error); /* the execution asks the argument */
    if (atomic_fetch_sub(&meeting->num_pending, 1) > 1) return;
    worker_enqueue(&queue, run, meeting->all, meeting->all->done);
    free(meeting);
}

static void start_when_ready(Meeting *meeting) {
    Execution *all = meeting->all;
    size_t count = argument_count(all);
    meeting->num_pending = count + 1;
    for (size_t i = 0; i < count; i++)
        event_on_ready(all->arguments[i]->ready, note_ready, meeting);
    note_ready(NULL, meeting);
}

void meeting_join(Meeting *meeting, Execution *part) {
    pthread_mutex_lock(&lock);
    Execution *all = meeting->all;
    take_row(all, row_of(meeting, part->devices[0]), part);
    bool is_last = ++meeting->num_joined == all->num_devices;
    if (is_last) leave_list(meeting);
    pthread_mutex_unlock(&lock);
    execution_free(part);
    if (is_last) start_when_ready(meeting);
}

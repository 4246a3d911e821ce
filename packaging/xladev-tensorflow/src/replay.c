/* Operators that run alone, run again.
 *
 * TensorFlow compiles such an operator for the shapes of its arguments and for the values of those that
 * have to be constants. At each call it looks all of that up, which takes many times what a small
 * operator does. Here a kernel remembers what TensorFlow executed for it, and executes that again on
 * arguments of the same shapes and constants. It remembers an execution that it watched, and only if
 * the arrays that went in and came out were its arguments and results.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arrays.h"
#include "pjrt.h"
#include "plugin.h"

/* What a program is compiled for. */

enum { MOST_CONSTANT_NBYTES = 32 };

typedef struct {
    TensorShape shape;
    int64_t is_on_device; /* as wide as what is compared */
    char constant[MOST_CONSTANT_NBYTES];
} InputKey;

typedef struct {
    size_t num_inputs;
    InputKey inputs[MOST_VALUES];
} Key;

typedef struct {
    const Tensor *inputs[MOST_VALUES];
    Key key;
} Question;

/* Of other types no constants are compared. */
static size_t constant_nbytes(const TensorShape *shape) {
    if (shape->num_elements < 0 || shape->num_elements > MOST_CONSTANT_NBYTES) return SIZE_MAX;
    if (shape->bytes[TYPE_BYTE] == TF_INT32) return (size_t)shape->num_elements * 4;
    if (shape->bytes[TYPE_BYTE] == TF_INT64) return (size_t)shape->num_elements * 8;
    return SIZE_MAX;
}

static bool copy_shape(TensorShape *to, const TensorShape *from) {
    uint8_t kind = from->bytes[KIND_BYTE];
    if (kind != OF_16_BITS && kind != OF_32_BITS) return false;
    memset(to, 0, sizeof *to);
    memcpy(to->bytes + TYPE_BYTE, from->bytes + TYPE_BYTE, sizeof to->bytes - TYPE_BYTE);
    memcpy(to->bytes, from->bytes, from->bytes[RANK_BYTE] * (kind == OF_16_BITS ? 2u : 4u));
    to->num_elements = from->num_elements;
    return true;
}

static bool describe(InputKey *key, const Tensor *tensor) {
    if (!tensor->buffer || !copy_shape(&key->shape, &tensor->shape)) return false;
    key->is_on_device = is_on_device(tensor);
    memset(key->constant, 0, sizeof key->constant);
    if (key->is_on_device) return array_of(tensor);
    size_t nbytes = constant_nbytes(&tensor->shape);
    if (nbytes > MOST_CONSTANT_NBYTES) return false;
    memcpy(key->constant, tensor->buffer->data, nbytes);
    return true;
}

typedef int Count(TF_OpKernelContext *context);
typedef const void *Input(const TF_OpKernelContext *context, int index);
static Count *num_inputs, *num_outputs;

static bool ask(Question *question, TF_OpKernelContext *context) {
    int count = num_inputs(context);
    if (count > MOST_VALUES) return false;
    question->key.num_inputs = (size_t)count;
    for (int i = 0; i < count; i++) {
        question->inputs[i] = ((Input *)tensorflow.input)(context, i);
        if (!describe(&question->key.inputs[i], question->inputs[i])) return false;
    }
    return true;
}

/* What a kernel remembers. */

enum { MOST_CALLS = 8, MOST_TRIALS = 32, TABLE_WORDS = 24, TABLE_HEAD_WORDS = 2 };

typedef struct {
    Key key;
    Execution execution;
    TensorShape results[MOST_VALUES];
} Call;

/* The kernel's own table of virtual functions is a part: its first word leads here. */
typedef struct {
    void *head[TABLE_HEAD_WORDS], *functions[TABLE_WORDS];
    pthread_mutex_t mutex;
    bool is_collective;
    atomic_int num_trials;
    atomic_int num_calls;
    Call *calls[MOST_CALLS];
} Memory;

enum { DESTROY, DESTROY_AND_FREE, COMPUTE };
static void **original; /* the table of all such kernels; its functions, and that of Compute before */
static void (*original_compute)(void *kernel, TF_OpKernelContext *context);

static Memory *memory_of(void *kernel) {
    return (Memory *)(*(void ***)kernel - TABLE_HEAD_WORDS);
}

static const Call *find_call(Memory *memory, const Key *key) {
    int count = atomic_load_explicit(&memory->num_calls, memory_order_acquire);
    size_t nbytes = sizeof key->num_inputs + key->num_inputs * sizeof *key->inputs;
    for (int i = 0; i < count; i++)
        if (!memcmp(&memory->calls[i]->key, key, nbytes)) return memory->calls[i];
    return NULL;
}

static size_t arguments_of(const Question *question, void **arguments) {
    size_t count = 0;
    for (size_t i = 0; i < question->key.num_inputs; i++)
        if (question->key.inputs[i].is_on_device)
            arguments[count++] = array_of(question->inputs[i])->wrapped->buffer;
    return count;
}

/* All that lies on the device is an argument, in order. */
static bool are_arguments(const Question *question, const Execution *execution) {
    void *arguments[MOST_VALUES];
    size_t count = arguments_of(question, arguments);
    return count && count == execution->num_arguments &&
           !memcmp(arguments, execution->arguments, count * sizeof *arguments);
}

typedef void *GetOutput(TF_OpKernelContext *context, int index, TF_Status *status);
static GetOutput *get_output;
static void (*delete_output)(void *output);

/* A TF_Tensor points to an object of virtual functions and the tensor. */
static bool is_result(TF_OpKernelContext *context, int i, const void *buffer, TensorShape *shape) {
    TF_Status *status = ((TF_Status * (*)(void)) tensorflow.new_status)();
    void **output = get_output(context, i, status);
    ((void (*)(TF_Status *))tensorflow.delete_status)(status);
    if (!output) return false;
    const Tensor *tensor = (const Tensor *)((void **)*output + 1);
    bool is_it = is_on_device(tensor) && array_of(tensor) &&
                 array_of(tensor)->wrapped->buffer == buffer && copy_shape(shape, &tensor->shape);
    delete_output(output);
    return is_it;
}

static bool are_results(Call *call, TF_OpKernelContext *context) {
    if ((int)call->execution.num_results != num_outputs(context)) return false;
    for (int i = 0; i < num_outputs(context); i++)
        if (!is_result(context, i, call->execution.results[i], &call->results[i])) return false;
    return true;
}

static void add_call(Memory *memory, const Call *call) {
    Call *kept = malloc(sizeof *kept);
    if (!kept) abort();
    *kept = *call;
    memory->calls[memory->num_calls] = kept;
    atomic_fetch_add_explicit(&memory->num_calls, 1, memory_order_release);
}

static void remember(Memory *memory, Call *call) {
    pthread_mutex_lock(&memory->mutex);
    bool is_new = memory->num_calls < MOST_CALLS && !find_call(memory, &call->key);
    if (is_new) add_call(memory, call);
    pthread_mutex_unlock(&memory->mutex);
    if (!is_new) release_program(&call->execution);
}

/* By TensorFlow, watched. */
static void compute_and_remember(
    void *kernel, TF_OpKernelContext *context, const Question *question) {
    Memory *memory = memory_of(kernel);
    Call call = {.key = question->key};
    memory->num_trials++;
    watch_executions();
    original_compute(kernel, context);
    if (!end_watching(&call.execution)) return;
    if (are_arguments(question, &call.execution) && are_results(&call, context))
        remember(memory, &call);
    else
        release_program(&call.execution);
}

static atomic_long num_replays;

/* How often this was of use in this process: tests ask. */
EXPORT long xladev_num_replays(void) { return atomic_load(&num_replays); }

static bool replay(const Call *call, const Question *question, TF_OpKernelContext *context) {
    void *arguments[MOST_VALUES], *results[MOST_VALUES];
    arguments_of(question, arguments);
    const TfBuffer *like = NULL;
    for (size_t i = 0; !like; i++)
        if (question->key.inputs[i].is_on_device) like = array_of(question->inputs[i]);
    if (!execute_again(&call->execution, arguments, results)) return false;
    bool are_given = true;
    for (size_t i = 0; i < call->execution.num_results; i++)
        if (!are_given || !give_array(context, (int)i, &call->results[i], results[i], like)) {
            destroy_buffer(results[i]);
            are_given = false;
        }
    if (are_given) atomic_fetch_add_explicit(&num_replays, 1, memory_order_relaxed);
    return are_given;
}

/* It waits for other devices, so it is not run again by itself. */
static void compute_collective(void *kernel, TF_OpKernelContext *context) {
    uint64_t step, number;
    bool is_known = call_meeting && find_meeting(context, &step, &number);
    if (is_known) call_meeting(step, number);
    original_compute(kernel, context);
    if (is_known) call_meeting(0, 0);
}

static void compute(void *kernel, TF_OpKernelContext *context) {
    Memory *memory = memory_of(kernel);
    if (memory->is_collective) {
        compute_collective(kernel, context);
        return;
    }
    Question question;
    bool is_asked = is_replaying() && ask(&question, context);
    const Call *call = is_asked ? find_call(memory, &question.key) : NULL;
    if (call && replay(call, &question, context)) return;
    if (is_asked && !call && memory->num_trials < MOST_TRIALS)
        compute_and_remember(kernel, context, &question);
    else
        original_compute(kernel, context);
}

static void forget(Memory *memory) {
    for (int i = 0; i < memory->num_calls; i++) {
        release_program(&memory->calls[i]->execution);
        free(memory->calls[i]);
    }
    pthread_mutex_destroy(&memory->mutex);
    free(memory);
}

static void destroy_by(int function, void *kernel) {
    Memory *memory = memory_of(kernel);
    *(void ***)kernel = original;
    ((void (*)(void *))original[function])(kernel);
    forget(memory);
}

static void destroy(void *kernel) { destroy_by(DESTROY, kernel); }
static void destroy_and_free(void *kernel) { destroy_by(DESTROY_AND_FREE, kernel); }

/* Takes the place of Compute in the table of all: gives a kernel one of its own when it first runs. */
static void compute_first(void *kernel, TF_OpKernelContext *context) {
    Memory *memory = calloc(1, sizeof *memory);
    if (!memory || pthread_mutex_init(&memory->mutex, NULL)) abort();
    memcpy(memory->head, original - TABLE_HEAD_WORDS, sizeof memory->head + sizeof memory->functions);
    memory->functions[DESTROY] = destroy;
    memory->functions[DESTROY_AND_FREE] = destroy_and_free;
    memory->functions[COMPUTE] = compute;
    memory->is_collective = is_collective(kernel, context);
    void **expected = original;
    if (!__atomic_compare_exchange_n((void ***)kernel, &expected, memory->functions, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        forget(memory);
    compute(kernel, context);
}

/* The table is read-only once TensorFlow is loaded. */
static bool replace_compute(void) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)&original[COMPUTE];
    void *start = (void *)(at & ~(page - 1));
    if (mprotect(start, page, PROT_READ | PROT_WRITE)) return false;
    original_compute = (void (*)(void *, TF_OpKernelContext *))original[COMPUTE];
    original[COMPUTE] = (void *)compute_first;
    return !mprotect(start, page, PROT_READ);
}

void register_replay(void) {
    if (original) return;
    void **table = find_symbol("_ZTVN10tensorflow20XlaCompileOnDemandOpE");
    num_inputs = find_symbol("TF_NumInputs");
    num_outputs = find_symbol("TF_NumOutputs");
    get_output = find_symbol("TF_GetMutableOutput");
    delete_output = find_symbol("TF_DeleteTensor");
    if (!table || !num_inputs || !num_outputs || !get_output || !delete_output) return;
    if (!find_array_functions()) return;
    original = table + TABLE_HEAD_WORDS;
    replace_compute();
}

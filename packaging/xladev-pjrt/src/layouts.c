/* The extension by which clients ask for orders of dimensions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

typedef struct {
    size_t rank;
    int64_t minor_to_major[MOST_DIMS];
} Layout;

#define LAYOUT_ARGS(name, ...)                \
    typedef struct {                          \
        size_t struct_size;                   \
        PJRT_Extension_Base *extension_start; \
        __VA_ARGS__                           \
    } name##Args;

LAYOUT_ARGS(Destroy, Layout *layout;)
LAYOUT_ARGS(Serialize, const Layout *layout; const char *serialized_bytes;
            size_t serialized_bytes_size; char *serialized_layout; void (*deleter)(char *);)
LAYOUT_ARGS(ClientLayout, Client *client; PJRT_Buffer_Type type; const int64_t *dims;
            size_t num_dims; Layout *layout;)
LAYOUT_ARGS(BufferLayout, const Buffer *buffer; Layout *layout;)
LAYOUT_ARGS(TopologyLayout, PJRT_TopologyDescription *topology; PJRT_Buffer_Type type;
            const int64_t *dims; size_t num_dims; Layout *layout;)
LAYOUT_ARGS(ProgramLayouts, Executable *executable; size_t count; Layout **layouts;)

static Layout *layout_new(size_t rank, const int64_t *minor_to_major) {
    Layout *layout = calloc(1, sizeof *layout);
    if (!layout) abort();
    layout->rank = rank;
    for (size_t i = 0; i < rank; i++)
        layout->minor_to_major[i] = minor_to_major ? minor_to_major[i] : (int64_t)(rank - 1 - i);
    return layout;
}

static Error *default_layout(size_t rank, Layout **layout) {
    if (rank > MOST_DIMS)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "%zu dimensions; %d are the most", rank,
                         MOST_DIMS);
    *layout = layout_new(rank, NULL);
    return NULL;
}

static Error *destroy(DestroyArgs *args) {
    free(args->layout);
    return NULL;
}

static void free_bytes(char *bytes) { free(bytes); }

/* As HLO text spells it: {1,0}. */
static Error *serialize(SerializeArgs *args) {
    enum { AXIS_SIZE = 4 };
    const Layout *layout = args->layout;
    char *bytes = malloc(AXIS_SIZE * layout->rank + AXIS_SIZE), *end = bytes;
    if (!bytes) abort();
    *end++ = '{';
    for (size_t i = 0; i < layout->rank; i++)
        end += sprintf(end, i ? ",%d" : "%d", (int)layout->minor_to_major[i]);
    *end++ = '}';
    args->serialized_layout = bytes;
    args->serialized_bytes = bytes;
    args->serialized_bytes_size = (size_t)(end - bytes);
    args->deleter = free_bytes;
    return NULL;
}

static Error *of_client(ClientLayoutArgs *args) {
    return default_layout(args->num_dims, &args->layout);
}

static Error *of_topology(TopologyLayoutArgs *args) {
    return default_layout(args->num_dims, &args->layout);
}

static Error *of_buffer(BufferLayoutArgs *args) {
    const Buffer *buffer = args->buffer;
    args->layout = layout_new(buffer->rank, buffer->dims + buffer->rank);
    return NULL;
}

/* Made at the first question; the program owns them. */
static Layout **program_layouts(
    _Atomic(void *) *kept, size_t count, const size_t *ranks, const int64_t *orders) {
    Layout **made = calloc(count + 1, sizeof *made);
    if (!made) abort();
    for (size_t i = 0; i < count; orders += ranks[i++]) made[i] = layout_new(ranks[i], orders);
    void *before = NULL;
    if (atomic_compare_exchange_strong(kept, &before, (void *)made)) return made;
    layouts_free(made, count);
    return before;
}

static Error *of_results(ProgramLayoutsArgs *args) {
    const ProgramRecord *record = args->executable->record;
    args->count = record->num_outputs;
    args->layouts = program_layouts(&args->executable->output_layouts, record->num_outputs,
                                    record->output_ranks, record->output_layouts);
    return NULL;
}

static Error *of_parameters(ProgramLayoutsArgs *args) {
    const ProgramRecord *record = args->executable->record;
    args->count = record->num_parameters;
    args->layouts = program_layouts(&args->executable->parameter_layouts, record->num_parameters,
                                    record->parameter_ranks, record->parameter_layouts);
    return NULL;
}

void layouts_free(void *layouts, size_t count) {
    Layout **list = layouts;
    for (size_t i = 0; list && i < count; i++) free(list[i]);
    free(list);
}

static struct {
    PJRT_Extension_Base base;
    Error *(*destroy)(DestroyArgs *args);
    Error *(*serialize)(SerializeArgs *args);
    Error *(*of_client)(ClientLayoutArgs *args);
    Error *(*of_buffer)(BufferLayoutArgs *args);
    Error *(*of_topology)(TopologyLayoutArgs *args);
    Error *(*of_results)(ProgramLayoutsArgs *args);
    Error *(*of_parameters)(ProgramLayoutsArgs *args);
} extension = {{sizeof extension, 4, NULL}, destroy, serialize, of_client, of_buffer, of_topology,
               of_results, of_parameters};

PJRT_Extension_Base *layouts_extension = &extension.base;

/* The extension by which clients ask how arguments and results are laid out over the devices. */
#include "shim.h"

typedef struct {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    Executable *executable;
    size_t count;
    const char *const *shardings;
    const size_t *sizes;
} ShardingsArgs;

static Error *of_parameters(ShardingsArgs *args) {
    const ProgramRecord *record = args->executable->record;
    args->count = record->num_parameters;
    args->shardings = record->parameter_shardings;
    args->sizes = record->parameter_sharding_sizes;
    return NULL;
}

static Error *of_results(ShardingsArgs *args) {
    const ProgramRecord *record = args->executable->record;
    args->count = record->num_outputs;
    args->shardings = record->output_shardings;
    args->sizes = record->output_sharding_sizes;
    return NULL;
}

static struct {
    PJRT_Extension_Base base;
    Error *(*of_parameters)(ShardingsArgs *args);
    Error *(*of_results)(ShardingsArgs *args);
} extension = {{sizeof extension, 19, NULL}, of_parameters, of_results};

PJRT_Extension_Base *shardings_extension = &extension.base;

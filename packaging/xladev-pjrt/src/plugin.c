/* The functions of the plugin as a whole. */
#include <stdlib.h>

#include "shim.h"

IMPLEMENT(Plugin_Initialize) {
    (void)args;
    return NULL;
}

IMPLEMENT(Plugin_Attributes) {
    static const PJRT_NamedValue attributes[] = {
        {.struct_size = sizeof(PJRT_NamedValue),
         .name = "xla_version",
         .name_size = 11,
         .type = PJRT_NamedValue_kInt64,
         .int64_value = 2,
         .value_size = 1},
    };
    args->attributes = attributes;
    args->num_attributes = 1;
    return NULL;
}

struct PJRT_ExecuteContext {
    int unused;
};

IMPLEMENT(ExecuteContext_Create) {
    args->context = calloc(1, sizeof *args->context);
    return NULL;
}

IMPLEMENT(ExecuteContext_Destroy) {
    free(args->context);
    return NULL;
}

/* The device type that TensorFlow is told of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin.h"

/* TensorFlow's CPU has 70; the highest is where operators go that nobody placed. */
enum { PRIORITY_DEFAULT = 300, PRIORITY_ASKED_FOR = 50 };

/* Another copy of this library may be loaded: one of a package, one that a variable names. */
static bool is_second;

/* A variable of this process says which types there are: `PID XLADEV MY_NPU `. */
static void find_first(void) {
    static const char variable[] = "XLADEV_TF_REGISTERED";
    char told[1024], name[128];
    int length = snprintf(told, sizeof told, "%d ", (int)getpid());
    const char *before = getenv(variable);
    if (before && !strncmp(before, told, (size_t)length)) snprintf(told, sizeof told, "%s", before);
    snprintf(name, sizeof name, " %s ", device_type());
    is_second = strstr(told, name);
    if (is_second) {
        say("the device type %s is there already, and this copy of the plugin is not used; "
            "XLADEV_TF_DEVICE names another type", device_type());
        return;
    }
    size_t size = strlen(told);
    snprintf(told + size, sizeof told - size, "%s", name);
    setenv(variable, told, 1);
}

bool is_usable(void) { return is_supported() && pjrt_api() && !is_second; }

static int32_t get_device_count(TF_Status *status) {
    (void)status;
    return is_usable() ? device_count() : 0;
}

static void init_device_states(TF_Status *status) {
    (void)status;
    if (is_usable()) allow_pjrt();
}

static void *copy_buffer(void *buffer, void *client, TF_Status *status) {
    (void)client;
    char message[1024];
    void *copy = pjrt_copy(buffer, message, sizeof message);
    if (!copy)
        ((void (*)(TF_Status *, int, const char *))tensorflow.set_status)(
            status, TF_INTERNAL, message);
    return copy;
}

/* Lists of more than a few numbers lie in memory that their owner frees. */
static void copy_list(void *to, const void *from, int64_t count, size_t each) {
    if (count <= MAX_INLINED) return;
    void *copy = malloc((size_t)count * each);
    if (!copy) abort();
    memcpy(copy, *(void *const *)from, (size_t)count * each);
    *(void **)to = copy;
}

/* Arrays are on the device what they are on the host. */
static void shape_to_device_shape(
    const XLA_Shape *shape, int type, bool fast_memory, int layout_preference, XLA_Shape *device,
    TF_Status *status) {
    (void)type, (void)fast_memory, (void)layout_preference, (void)status;
    bool is_short = minor_version() >= FIRST_OF_SHORT_LAYOUTS;
    memcpy(device, shape, sizeof *shape + (is_short ? 0 : MORE_IN_OLD_LAYOUTS));
    copy_list(&device->dimensions, &shape->dimensions, shape->dimensions.size, sizeof(int64_t));
    copy_list(&device->dynamic_dimensions, &shape->dynamic_dimensions,
              shape->dynamic_dimensions.size, sizeof(bool));
    copy_list(&device->layout.minor_to_major, &shape->layout.minor_to_major,
              shape->layout.minor_to_major.size, sizeof(int64_t));
}

EXPORT const TFNPD_Api *TFNPD_InitPlugin(TFNPD_PluginParams *params, TF_Status *status) {
    (void)status;
    static TFNPD_Api api = {.struct_size = sizeof api};
    api.same_device_buffer_copy = copy_buffer;
    api.shape_to_device_shape = shape_to_device_shape;
    api.get_device_count = get_device_count;
    api.init_device_states = init_device_states;
    if (is_supported()) find_first();
    params->device_type = is_second ? "XLADEV_UNUSED" : device_type();
    params->compilation_device_name = LOWERING;
    params->priority = is_default_device() ? PRIORITY_DEFAULT : PRIORITY_ASKED_FOR;
    params->is_pluggable_device = true;
    params->use_pjrt_on_demand_compile = true;
    if (is_usable()) {
        register_lowering();
        register_client();
        call_python("xladev.frontends.tensorflow.loading", "on_load", NULL, 0);
    }
    return &api;
}

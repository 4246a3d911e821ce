/* What the environment asks for. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

enum { NAME_SIZE = 64, MOST_DEVICES = 1024 };

/* Device types of TensorFlow's own: another one of these names would hide it. */
static const char *const TAKEN[] = {
    "CPU", "GPU", "TPU", "TPU_SYSTEM", "XLA_CPU", "XLA_GPU", "DEFAULT", "COMPOSITE", "CUSTOM"};

void say(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "xladev: %s\n", text);
}

static const char *given(const char *variable) {
    const char *value = getenv(variable);
    return value && *value ? value : NULL;
}

static bool is_taken(const char *name) {
    for (size_t i = 0; i < sizeof TAKEN / sizeof *TAKEN; i++)
        if (!strcmp(name, TAKEN[i])) return true;
    return false;
}

/* Capital letters, digits and underscores, as in names of TensorFlow's devices. */
static bool is_name(const char *name) {
    if (!isupper((unsigned char)*name) || strlen(name) >= NAME_SIZE) return false;
    for (; *name; name++)
        if (!isupper((unsigned char)*name) && !isdigit((unsigned char)*name) && *name != '_')
            return false;
    return true;
}

static const char *named_device(void) {
    const char *name = given("XLADEV_TF_DEVICE");
    if (!name) return NULL;
    if (is_name(name) && !is_taken(name)) return name;
    static bool is_said;
    if (!is_said)
        say("XLADEV_TF_DEVICE=%s is no name for a device type: it is TensorFlow's own, or not made of "
            "capital letters, digits and underscores; the device is called XLADEV", name);
    is_said = true;
    return NULL;
}

const char *device_type(void) {
    const char *name = named_device();
    return name ? name : "XLADEV";
}

/* The device type XLADEV_TF_DEVICE=MY_NPU alone means the platform my_npu. */
const char *platform_name(void) {
    static char lower[NAME_SIZE];
    const char *platform = given("XLADEV_TF_PLATFORM"), *device = named_device();
    if (platform) return platform;
    if (!device || !strcmp(device, "XLADEV")) return "";
    for (size_t i = 0; i < sizeof lower - 1 && device[i]; i++)
        lower[i] = (char)tolower((unsigned char)device[i]);
    return lower;
}

int device_count(void) {
    const char *count = given("XLADEV_TF_DEVICES");
    if (!count) return 1;
    char *end;
    long number = strtol(count, &end, 10);
    if (!*end && number >= 0 && number <= MOST_DEVICES) return (int)number;
    say("XLADEV_TF_DEVICES=%s is no number of devices from 0 to %d; there is 1", count, MOST_DEVICES);
    return 1;
}

bool is_default_device(void) {
    const char *value = given("XLADEV_TF_DEFAULT");
    return value && strcmp(value, "0");
}

bool is_replaying(void) {
    const char *value = given("XLADEV_TF_REPLAY");
    return !value || strcmp(value, "0");
}

/* What the parts of the plugin ask of each other.
 *
 * TensorFlow loads the library when it is imported, and asks for a device (device.c), the PJRT API
 * (pjrt.c) and kernels (kernels.c). Nothing here starts Python's half of xladev: the PJRT client is
 * made when a device is first used (client.c), and is opened by xladev-pjrt when something is compiled
 * or copied.
 */
#ifndef XLADEV_PLUGIN_H
#define XLADEV_PLUGIN_H

#include "tensorflow.h"

#define EXPORT __attribute__((visibility("default")))

/* What the environment asks for: options.c */

const char *device_type(void);   /* XLADEV_TF_DEVICE, else XLADEV */
const char *platform_name(void); /* XLADEV_TF_PLATFORM; "": the one of highest priority */
int device_count(void);          /* XLADEV_TF_DEVICES, else 1 */
bool is_default_device(void);    /* XLADEV_TF_DEFAULT */
bool is_replaying(void);         /* XLADEV_TF_REPLAY, which is on unless 0 */
/* One line on standard error. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Functions of TensorFlow's libraries: symbols.c */

/* Whether this TensorFlow is one that the plugin was written for, and has every function that it
 * needs; else a line says why not, once. */
bool is_supported(void);
void *find_symbol(const char *name); /* in TensorFlow's libraries; NULL if there is none */
/* 21 for TensorFlow 2.21; 0 for what is no 2. */
int minor_version(void);
/* The releases that changed structs. */
enum {
    FIRST_OF_SHORT_LAYOUTS = 20, FIRST_OF_NEW_MAPS = 20, FIRST_OF_VIRTUAL_CONTEXTS = 20,
    FIRST_OF_ODD_STATUSES = 20
};

typedef struct {
    void *get_c_api_client, *register_client_factory, *client_factories;
    void *register_compilation_device, *get_xla_ops_common_flags;
    void *device_kernels, *serialize_as_string, *parse_from_array;
    void *input, *set_output, *create_op_kernel, *new_device, *session_options;
    void *set_status, *new_status, *delete_status, *get_code, *message;
    void *new_kernel, *kernel_type, *kernel_host_memory, *register_kernel, *construction_failure, *context_failure;
} TensorFlow;

extern TensorFlow tensorflow; /* filled by is_supported */

/* absl::Status without an error. */
static inline void *ok_status(void) {
    return minor_version() < FIRST_OF_ODD_STATUSES ? NULL : (void *)1;
}

/* The PJRT API: pjrt.c */

const void *pjrt_api(void); /* NULL, and a line about it, without xladev-pjrt */
void *pjrt_copy(void *buffer, char *message, size_t size); /* on its own device; NULL if that failed */

/* Calls a function without arguments and copies its result's text, where one is wanted: python.c. False
 * if there is none, or it failed. */
bool call_python(const char *module, const char *function, char *text, size_t size);
bool holds_python(void); /* whether this thread has the interpreter lock */

void register_client(void); /* client.c */
void allow_pjrt(void);      /* flags.c */

/* Kernels: kernels.c, host_kernels.c */

typedef void *Create(TF_OpKernelConstruction *construction);
typedef void Compute(void *kernel, TF_OpKernelContext *context);
typedef void Destroy(void *kernel);
/* Restricts an attribute to a type; all zero: nothing. */
typedef struct {
    const char *attribute;
    int type;
} OfType;

/* `on_host`: arguments in host memory, up to NULL or `num_on_host`. */
void register_kernel(
    const char *op, Create *create, Compute *compute, Destroy *destroy, OfType of,
    const char *const *on_host, size_t num_on_host);
void register_host_kernels(void);

bool is_usable(void); /* device.c: there is a device to offer */

/* How operators are lowered: lowering.c */

extern const char LOWERING[];
void register_lowering(void);
void release(const void *memory); /* of C++'s operator new */

void register_replay(void);     /* replay.c */
void register_allocators(void); /* allocators.c */

/* Collectives: collectives.c */

bool is_collective(const void *kernel, const TF_OpKernelContext *context);
/* The same on all devices that take part; a step of 0: an operator that runs alone. */
bool find_meeting(const TF_OpKernelContext *context, uint64_t *step, uint64_t *number);

#endif

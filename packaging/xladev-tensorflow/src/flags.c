/* Where TensorFlow runs compiled functions by PJRT.
 *
 * It allows that for operators on the devices of plugins, and not for functions compiled as a whole or
 * clusters, which then find no platform to run on. The flag of TF_XLA_FLAGS for it would change the CPU,
 * too. So the set of devices that it allows for operators becomes that for the others.
 */
#include <string.h>

#include "plugin.h"

enum { SET_WORDS = 4 };

/* absl::flat_hash_set<std::string>, as far as copying it goes; these are never destroyed. The first two
 * words tell an empty one from others; in some releases of Abseil the rest of it is not set. */
typedef struct {
    void *words[SET_WORDS];
} DeviceSet;

/* tensorflow::XlaOpsCommonFlags of tensorflow/compiler/jit/flags.h. */
typedef struct {
    bool always_defer_compilation, async_compilation;
    struct {
        bool functions_enabled, operators_enabled, clusters_enabled, all_enabled, gpu_enabled;
        DeviceSet functions, operators, clusters;
    } __attribute__((aligned(8))) pjrt;
} XlaOpsCommonFlags;

static bool is_alike(const DeviceSet *one, const DeviceSet *other) {
    return !memcmp(one, other, 2 * sizeof(void *));
}

/* Called when devices are made: after all plugins were registered, which may have changed the set. */
void allow_pjrt(void) {
    XlaOpsCommonFlags *flags =
        ((XlaOpsCommonFlags * (*)(void)) tensorflow.get_xla_ops_common_flags)();
    if (!is_alike(&flags->pjrt.functions, &flags->pjrt.clusters)) return; /* filled by another */
    flags->pjrt.functions = flags->pjrt.clusters = flags->pjrt.operators;
}

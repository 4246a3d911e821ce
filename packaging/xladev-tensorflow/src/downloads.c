/* Copies to the host that TensorFlow asks for while the caller holds Python's lock.
 *
 * `Tensor.cpu()` and what a `tf.py_function` returns are copied so: TensorFlow begins the copy and waits
 * for it with the lock. What computes the array may be Python, which then never goes on. PJRT's
 * Event_Await lets go of the lock meanwhile, so the array is waited for before the copy begins.
 */
#include "pjrt.h"
#include "plugin.h"

static Function download;

static void *wait_for(void *buffer) {
    Args ready = {.struct_size = sizeof ready, .first = buffer};
    void *error = (*pjrt_slot(SLOT_BUFFER_READY_EVENT))(&ready);
    if (error) return error;
    Args event = {.struct_size = sizeof event, .first = ready.second};
    error = (*pjrt_slot(SLOT_EVENT_AWAIT))(&event);
    (*pjrt_slot(SLOT_EVENT_DESTROY))(&event);
    return error;
}

static void *wait_and_download(void *given) {
    const Args *args = given;
    void *error = holds_python() ? wait_for(args->first) : NULL;
    return error ? error : download(given);
}

void register_downloads(void) {
    download = *pjrt_slot(SLOT_BUFFER_TO_HOST_BUFFER);
    *pjrt_slot(SLOT_BUFFER_TO_HOST_BUFFER) = wait_and_download;
}

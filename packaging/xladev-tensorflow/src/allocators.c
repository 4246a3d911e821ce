/* Two functions of TensorFlow's allocators that do not fit a device like ours.
 *
 * The allocator of a device of plugins gives every array an object, an empty one too, and says so
 * (AllocatesOpaqueHandle). In a traced step of a session (FULL_TRACE) TensorFlow puts an allocator that
 * counts around it, which does not: an empty result gets no object, and TensorFlow writes through a null
 * pointer. Here the counting one says what the one in it says.
 *
 * A session has devices of its own, and with each such an allocator, which ends with the session. A thread
 * that has handed an array on (LocalRendezvous::RecvAsync) lets go of it after the step may have ended,
 * and asks the allocator then. Here allocators of devices stay: 8 bytes for each session.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugin.h"

typedef bool Answer(const void *allocator);

/* Of a table of virtual functions: what comes before them, and the most that we look at. */
enum { TABLE_HEAD_WORDS = 2, MOST_FUNCTIONS = 24 };

/* The beginning of tsl::TrackingAllocator. */
typedef struct {
    Answer **functions;
    const struct {
        Answer **functions;
    } *counted;
} Counting;

static size_t number;

static bool as_counted(const void *given) {
    const Counting *allocator = given;
    return allocator->counted->functions[number](allocator->counted);
}

/* More than one library has this function. */
static bool is_usual(const void *function) {
    Dl_info info;
    return dladdr(function, &info) && info.dli_sname &&
           !strcmp(info.dli_sname, "_ZNK3tsl9Allocator21AllocatesOpaqueHandleEv");
}

/* The table is read-only once TensorFlow is loaded. */
static void replace(void **entry, void *by) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)entry;
    void *start = (void *)(at & ~(page - 1));
    if (mprotect(start, page, PROT_READ | PROT_WRITE)) return;
    *entry = by;
    mprotect(start, page, PROT_READ);
}

static void give_empty_arrays_objects(void) {
    void **table = find_symbol("_ZTVN3tsl17TrackingAllocatorE");
    if (!table) return;
    void **functions = table + TABLE_HEAD_WORDS;
    size_t i = 0;
    while (i < MOST_FUNCTIONS && !is_usual(functions[i])) i++;
    if (i == MOST_FUNCTIONS) return; /* it has been replaced, or TensorFlow has its own */
    number = i;
    replace(&functions[i], (void *)as_counted);
}

static void stay(void *allocator) { (void)allocator; }

static void keep_allocators(void) {
    enum { DESTROY_AND_FREE = 1 };
    void **table = find_symbol("_ZTVN10tensorflow19AsyncValueAllocatorE");
    if (table) replace(&table[TABLE_HEAD_WORDS + DESTROY_AND_FREE], (void *)stay);
}

void register_allocators(void) {
    give_empty_arrays_objects();
    keep_allocators();
}

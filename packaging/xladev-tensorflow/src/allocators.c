/* Empty arrays in traced steps of sessions (FULL_TRACE).
 *
 * The allocator of a device like ours gives every array an object, an empty one too, and says so
 * (AllocatesOpaqueHandle). In a traced step TensorFlow puts an allocator that counts around it, which does
 * not: an empty result gets no object, and TensorFlow writes through a null pointer. Here the counting
 * one says what the one in it says.
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

void register_allocators(void) {
    void **table = find_symbol("_ZTVN3tsl17TrackingAllocatorE");
    if (!table) return;
    void **functions = table + TABLE_HEAD_WORDS;
    size_t i = 0;
    while (i < MOST_FUNCTIONS && !is_usual(functions[i])) i++;
    if (i == MOST_FUNCTIONS) return; /* it has been replaced, or TensorFlow has its own */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)&functions[number];
    void *start = (void *)(at & ~(page - 1));
    if (mprotect(start, page, PROT_READ | PROT_WRITE)) return;
    number = i;
    functions[i] = (void *)as_counted;
    mprotect(start, page, PROT_READ); /* as all such tables once TensorFlow is loaded */
}

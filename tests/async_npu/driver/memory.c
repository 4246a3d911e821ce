/* Allocation, and copies in the calling thread. Fresh and freed memory is filled with noise. */

#include "driver.h"
#include <stdlib.h>
#include <string.h>

#define BASE (1ull << 56)  /* no address of a process has such bits */
#define SPAN (1ull << 46)
#define GAP 256            /* between blocks, so that no range reaches from one into the next */

enum { FRESH = 0xA9, GONE = 0xD7 };

static device *devices[1024];

EXPORT device *an_open(int ordinal, uint64_t limit) {
    device *d = calloc(1, sizeof *d);
    d->limit = limit;
    d->next = BASE + ordinal * SPAN;
    pthread_mutex_lock(&lock);
    devices[ordinal] = d;
    pthread_mutex_unlock(&lock);
    return d;
}

static device *device_of(uint64_t address) {
    uint64_t ordinal = (address - BASE) / SPAN;
    return address < BASE || ordinal >= 1024 ? NULL : devices[ordinal];
}

/* The block that an address is in, or at the end of; NULL if there is none. */
static block **find(device *d, uint64_t address) {
    uint64_t low = 0, high = d ? d->count : 0;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        block *b = d->blocks[middle];
        if (address > b->address + b->nbytes) low = middle + 1;
        else high = middle;
    }
    if (!d || low == d->count || d->blocks[low]->address > address) return NULL;
    return d->blocks + low;
}

int resolve(range *r) {
    block **found = find(device_of(r->address), r->address);
    if (!found || r->address + r->nbytes > (*found)->address + (*found)->nbytes) return BAD_ADDRESS;
    r->block = *found;
    r->data = r->block->data + (r->address - r->block->address);
    r->block->pins++;
    return OK;
}

static void discard(block *b) {
    free(b->data);
    free(b);
}

void unpin(range *ranges, int count) {
    for (int i = 0; i < count; i++) {
        block *b = ranges[i].block;
        if (b && --b->pins == 0 && b->freed) discard(b);
        ranges[i].block = NULL;
    }
}

EXPORT int an_alloc(device *d, uint64_t nbytes, uint64_t alignment, uint64_t *address) {
    int status = NO_MEMORY;
    pthread_mutex_lock(&lock);
    if (nbytes <= d->limit && d->in_use <= d->limit - nbytes) {
        block *b = calloc(1, sizeof *b);
        b->nbytes = nbytes;
        b->data = malloc(nbytes);
        memset(b->data, FRESH, nbytes);
        b->address = (d->next + GAP + alignment - 1) & ~(alignment - 1);
        d->next = b->address + nbytes;
        if (d->count == d->room) {
            d->room = 2 * d->room + 64;
            d->blocks = realloc(d->blocks, d->room * sizeof *d->blocks);
        }
        d->blocks[d->count++] = b;
        d->in_use += nbytes;
        if (d->in_use > d->peak) d->peak = d->in_use;
        *address = b->address;
        status = OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* Memory that pending commands use is lost to them at once; what they still touch is noise. */
EXPORT int an_free(device *d, uint64_t address) {
    int status = BAD_ADDRESS;
    pthread_mutex_lock(&lock);
    block **found = find(d, address);
    if (found && (*found)->address == address) {
        block *b = *found;
        status = checks && uses(b) ? IN_USE : OK;
        memmove(found, found + 1, (char *)(d->blocks + d->count) - (char *)(found + 1));
        d->count--;
        d->in_use -= b->nbytes;
        memset(b->data, GONE, b->nbytes);
        b->freed = 1;
        if (!b->pins) discard(b);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

EXPORT void an_memory_info(device *d, uint64_t *in_use_peak_count_limit) {
    pthread_mutex_lock(&lock);
    uint64_t found[] = {d->in_use, d->peak, d->count, d->limit};
    memcpy(in_use_peak_count_limit, found, sizeof found);
    pthread_mutex_unlock(&lock);
}

static int transfer(uint64_t address, uint8_t *host, uint64_t nbytes, int role) {
    range r = {.address = address, .nbytes = nbytes, .role = role};
    pthread_mutex_lock(&lock);
    int status = resolve(&r);
    if (!status && checks && unordered(NULL, &r, 1)) {
        unpin(&r, 1);
        status = UNORDERED;
    }
    pthread_mutex_unlock(&lock);
    if (status) return status;
    memcpy(role == WRITES ? r.data : host, role == WRITES ? host : r.data, nbytes);
    pthread_mutex_lock(&lock);
    unpin(&r, 1);
    pthread_mutex_unlock(&lock);
    return OK;
}

EXPORT int an_write(uint64_t address, uint8_t *source, uint64_t nbytes) {
    return transfer(address, source, nbytes, WRITES);
}

EXPORT int an_read(uint64_t address, uint8_t *destination, uint64_t nbytes) {
    return transfer(address, destination, nbytes, READS);
}

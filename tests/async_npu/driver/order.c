/* Who may rely on what being done: finds work that is not ordered, whether or not it went well.

   Each queue knows, for each queue, up to which command all is done before its own next one: by
   the events that it waited for, and by what the host knew when it enqueued. Two commands that
   touch the same bytes, one of them writing, must be ordered by that. */

#include "driver.h"
#include <stdlib.h>

static int meets(const range *mine, const range *theirs) {
    return ((mine->role | theirs->role) & WRITES) && mine->address < theirs->address + theirs->nbytes
        && theirs->address < mine->address + mine->nbytes;
}

static int clashes(const command *c, const range *ranges, int count) {
    for (int i = 0; i < c->count; i++)
        for (int j = 0; j < count; j++)
            if (c->ranges[i].address && ranges[j].address && meets(c->ranges + i, ranges + j))
                return 1;
    return 0;
}

/* True if commands of queues other than `q` (NULL: the host) may run at once with these ranges. */
int unordered(const queue *q, const range *ranges, int count) {
    for (int i = 0; i < MOST_QUEUES; i++) {
        if (q == queues + i) continue;
        uint64_t done = known[i];
        if (q && q->clock[i] > done) done = q->clock[i];
        for (command *c = queues[i].first; c; c = c->next)
            if (c->number > done && clashes(c, ranges, count)) return 1;
    }
    return 0;
}

/* True if a command that the host does not know to be done refers to the block. */
int uses(const block *b) {
    for (int i = 0; i < MOST_QUEUES; i++)
        for (command *c = queues[i].first; c; c = c->next)
            for (int j = 0; c->number > known[i] && j < c->count; j++)
                if (c->ranges[j].address >= b->address
                    && c->ranges[j].address < b->address + b->nbytes)
                    return 1;
    return 0;
}

/* Forgets commands that the host knows to be done. */
void trim(queue *q) {
    while (q->first && q->first != q->todo && q->first->number <= known[q - queues]) {
        command *c = q->first;
        q->first = c->next;
        if (!q->first) q->last = NULL;
        free(c);
    }
}

/* The host has seen an event. */
void learn(const event *e) {
    for (int i = 0; i < MOST_QUEUES; i++)
        if (e->clock[i] > known[i]) known[i] = e->clock[i];
}

/* A device in software whose queues are threads: what the parts of its driver share.

   Everything is guarded by `lock`; `progress` is signalled when a command has ended. Device
   addresses are no host pointers and are never given twice, so that whoever takes one for the
   other, or uses memory that was freed, is found out. */

#include <pthread.h>
#include <stdint.h>

#define MOST_QUEUES 256
#define ALIGNMENT 128  /* of what kernels read and write */

enum status { OK, NO_MEMORY, BAD_ADDRESS, IN_USE, UNORDERED, FREED, HOST_FREED, UNALIGNED };

enum role { READS = 1, WRITES = 2 };

typedef struct block {
    uint64_t address, nbytes;
    uint8_t *data;
    int pins, freed;  /* commands that refer to it; given back by the host */
} block;

typedef struct device {
    uint64_t limit, in_use, peak, next;
    block **blocks;  /* by address */
    uint64_t count, room;
    int closing;
} device;

typedef struct range {
    block *block;  /* NULL: host memory */
    uint8_t *data;
    uint64_t address, nbytes;
    uint8_t role;
} range;

/* A moment in a queue; `clock` says up to which command of each queue everything is done then. */
typedef struct event {
    int references, done;
    int64_t failure;
    uint64_t time_ns;
    uint64_t clock[MOST_QUEUES];
} event;

enum kind { COPY, LAUNCH, RECORD, MARK, WAIT };

typedef struct command {
    struct command *next;
    enum kind kind;
    uint64_t number, token;
    int count, cancelled;
    event *event;
    range ranges[];
} command;

/* What failed since it was last asked; a queue and its branches have one in common. */
typedef struct failure {
    int references;
    int64_t token;
} failure;

typedef struct queue {
    int live, closing, running;
    int owner; /* tells queues apart that had the same number one after the other */
    device *device;
    /* From the oldest command that the host does not know to be done, to the last one; `todo` is
       the one that runs now or next. */
    command *first, *todo, *last;
    uint64_t enqueued, completed, random;
    uint64_t clock[MOST_QUEUES];
    failure *failure;
    pthread_cond_t work;
} queue;

extern pthread_mutex_t lock;
extern pthread_cond_t progress;
extern queue queues[MOST_QUEUES];
extern uint64_t known[MOST_QUEUES];  /* the commands that the host knows to be done */
extern int checks;

#define EXPORT __attribute__((visibility("default")))

/* memory.c */
int resolve(range *r);
void unpin(range *ranges, int count);

/* order.c */
int unordered(const queue *q, const range *ranges, int count);
int uses(const block *b);
void trim(queue *q);
void learn(const event *e);

/* xladev_threads.h on POSIX threads. Build with -pthread.
 *
 * One job at a time is shared; who comes while there is one computes alone, and so does a thread
 * that has no memory of its own for the job. The caller takes part, and waits only for threads that
 * have joined it.
 */
#define _POSIX_C_SOURCE 200112L

#include "xladev_threads.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

enum { MOST_THREADS = 64 };

typedef struct job {
  xladev_part *part;
  void *frame;
  int64_t count, grain, nbytes;
  int64_t next;  /* first unit that nobody has taken */
  int64_t seats; /* threads that may still join */
  int guests;    /* threads that have joined and not left */
  int members;   /* what the rest is divided by */
} job;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t there_is_work = PTHREAD_COND_INITIALIZER;
static pthread_cond_t guests_have_gone = PTHREAD_COND_INITIALIZER;
static pthread_t helpers[MOST_THREADS];
static int helper_count = 0, is_ending = 0;
static job *shared = NULL;

/* Takes units until none is left; begins and ends with the lock held. */
static void work(job *j, void *memory) {
  while (j->next < j->count) {
    const int64_t begin = j->next, rest = j->count - begin;
    int64_t units = rest / (2 * j->members);
    if (units < j->grain) units = j->grain;
    if (units > rest) units = rest;
    j->next = begin + units;
    pthread_mutex_unlock(&lock);
    j->part(j->frame, memory, begin, begin + units);
    pthread_mutex_lock(&lock);
  }
}

static int has_room(const job *j) { return j != NULL && j->seats > 0 && j->next < j->count; }

/* Memory of at least nbytes, which is 0 bytes more often than not. */
static int reserve(void **memory, int64_t *held, int64_t nbytes) {
  if (nbytes <= *held) return 1;
  free(*memory);
  *held = 0;
  if (posix_memalign(memory, 64, (size_t)nbytes) != 0) {
    *memory = NULL;
    return 0;
  }
  *held = nbytes;
  return 1;
}

static void *help(void *unused) {
  void *memory = NULL;
  int64_t held = 0;
  pthread_mutex_lock(&lock);
  while (!is_ending) {
    job *j = shared;
    if (!has_room(j)) {
      pthread_cond_wait(&there_is_work, &lock);
      continue;
    }
    j->seats -= 1;
    if (!reserve(&memory, &held, j->nbytes)) continue;
    j->guests += 1;
    work(j, memory);
    j->guests -= 1;
    if (j->guests == 0) pthread_cond_broadcast(&guests_have_gone);
  }
  pthread_mutex_unlock(&lock);
  free(memory);
  return unused;
}

int xladev_threads_start(int threads) {
  while (helper_count < threads - 1 && helper_count < MOST_THREADS) {
    if (pthread_create(&helpers[helper_count], NULL, help, NULL) != 0) break;
    helper_count += 1;
  }
  return helper_count + 1;
}

void xladev_threads_stop(void) {
  pthread_mutex_lock(&lock);
  is_ending = 1;
  pthread_cond_broadcast(&there_is_work);
  pthread_mutex_unlock(&lock);
  while (helper_count > 0) pthread_join(helpers[--helper_count], NULL);
  is_ending = 0;
}

void xladev_parallel(xladev_part *part, void *frame, void *memory, int64_t count, int64_t grain,
                     int64_t nbytes, int64_t threads) {
  const int64_t all = helper_count + 1;
  const int64_t most = threads > 0 && threads < all ? threads : all;
  job j;
  if (most < 2 || count <= grain) {
    part(frame, memory, 0, count);
    return;
  }
  pthread_mutex_lock(&lock);
  if (shared != NULL) {
    pthread_mutex_unlock(&lock);
    part(frame, memory, 0, count);
    return;
  }
  j.part = part;
  j.frame = frame;
  j.count = count;
  j.grain = grain > 0 ? grain : 1;
  j.nbytes = nbytes;
  j.next = 0;
  j.seats = most - 1;
  j.guests = 0;
  j.members = (int)most;
  shared = &j;
  pthread_cond_broadcast(&there_is_work);
  work(&j, memory);
  shared = NULL;
  while (j.guests > 0) pthread_cond_wait(&guests_have_gone, &lock);
  pthread_mutex_unlock(&lock);
}

/* Threads for programs that `xladev aot --threads` compiled; one set serves all of them.
 *
 * Their code hands loops to xladev_parallel. xladev_threads.c has one on POSIX threads; a program
 * with a thread pool of its own may define xladev_parallel itself and leave that file out.
 */
#ifndef XLADEV_THREADS_H
#define XLADEV_THREADS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts threads - 1 threads that help whoever runs a program; how many there are then, with the
 * caller. Until then, and where none can be made, programs run on the calling thread alone: results
 * are the same. Not to be called while a program runs. */
int xladev_threads_start(int threads);

/* Ends them and frees what they have. Not to be called while a program runs. */
void xladev_threads_stop(void);

/* A part of a loop: units begin to end. */
typedef void xladev_part(void *frame, void *memory, int64_t begin, int64_t end);

/* Calls part(frame, memory, begin, end) until all units from 0 to count were computed, in up to
 * `threads` threads (0: all there are), none but the last call for fewer than `grain` units.
 * `memory` is the caller's, of nbytes; every other thread passes as much of its own, at a multiple
 * of 64 bytes. Returns when all calls have. */
void xladev_parallel(xladev_part *part, void *frame, void *memory, int64_t count, int64_t grain,
                     int64_t nbytes, int64_t threads);

#ifdef __cplusplus
}
#endif

#endif /* XLADEV_THREADS_H */

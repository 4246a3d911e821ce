"""xladev_threads.c: every unit is computed once, by several threads, whatever is asked of it."""

from pathlib import Path

import pytest

from tests.tools.c_programs import C99, TOOLCHAINS, checked

SOURCES = Path(__file__).parents[3] / "xladev" / "aot"
MAIN = """
#define _POSIX_C_SOURCE 200112L
#include "xladev_threads.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST = 1000 };
static int times[MOST], threads_seen, short_parts;
static int64_t least;
static pthread_t seen[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void part(void *frame, void *memory, int64_t begin, int64_t end) {
  const struct timespec pause = {0, 200000};
  int i;
  if (memory != NULL) memset(memory, (int)begin, 100);
  pthread_mutex_lock(&lock);
  if (end - begin < least && end != *(int64_t *)frame) ++short_parts;
  for (i = 0; i < threads_seen && !pthread_equal(seen[i], pthread_self()); ++i) {}
  if (i == threads_seen) seen[threads_seen++] = pthread_self();
  for (; begin < end; ++begin) ++times[begin];
  pthread_mutex_unlock(&lock);
  nanosleep(&pause, NULL);
}

static int check(int64_t count, int64_t grain, int64_t nbytes, int64_t threads) {
  unsigned char memory[100];
  int i, wrong = 0;
  memset(times, 0, sizeof times);
  threads_seen = 0;
  least = grain;
  xladev_parallel(part, &count, nbytes ? memory : NULL, count, grain, nbytes, threads);
  for (i = 0; i < MOST; ++i) wrong += times[i] != (i < count);
  return wrong;
}

static void inner(void *frame, void *memory, int64_t begin, int64_t end) {
  (void)memory;
  for (; begin < end; ++begin) xladev_parallel(part, frame, NULL, MOST, 10, 0, 0);
}

int main(void) {
  int64_t count = MOST;
  int wrong = check(1000, 10, 0, 0), several;
  printf("alone %d\\n", threads_seen);
  printf("threads %d\\n", xladev_threads_start(4));
  wrong += check(1000, 10, 100, 0);
  several = threads_seen;
  wrong += check(1000, 10, 0, 2) + (threads_seen > 2);
  wrong += check(999, 7, 100, 0) + check(1, 1, 0, 0) + check(0, 1, 0, 0) + check(50, 100, 0, 0);
  memset(times, 0, sizeof times);
  xladev_parallel(inner, &count, NULL, 3, 1, 0, 0);
  wrong += times[0] != 3 || times[999] != 3;
  xladev_threads_stop();
  wrong += check(100, 1, 0, 0) + (threads_seen != 1);
  printf("%d wrong, %d short, several %d\\n", wrong, short_parts, several > 1);
  return 0;
}
"""


@pytest.mark.parametrize("flags", [(), ("-fsanitize=thread",), ("-fsanitize=address,undefined",)])
def test_every_unit_is_computed_once(flags: tuple[str, ...], tmp_path: Path) -> None:
    TOOLCHAINS["gcc"].require(*flags)
    (tmp_path / "main.c").write_text(MAIN)
    sources = ["main.c", str(SOURCES / "xladev_threads.c"), f"-I{SOURCES}", "-pthread"]
    checked(["gcc", *C99, "-g", *flags, *sources, "-o", "main"], tmp_path)
    assert checked(["./main"], tmp_path).splitlines() == [
        "alone 1", "threads 4", "0 wrong, 0 short, several 1",
    ]  # fmt: skip

/* Calls exported programs: reads arguments from one file, writes results to another. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef int entry_t(void *context, void **arguments, void **results, void *scratch);

DECLARED
static entry_t *const entries[] = {ENTRIES};

static uint64_t number(FILE *file) {
  uint64_t value;
  if (fread(&value, sizeof value, 1, file) != 1) exit(2);
  return value;
}

static int is_last(FILE *file) {
  int next = getc(file);
  return next == EOF || ungetc(next, file) == EOF;
}

static void *block(uint64_t nbytes) {
  void *found = aligned_alloc(64, (nbytes + 127) / 64 * 64);
  if (!found) exit(3);
  return found;
}

static void call(FILE *in, FILE *out) {
  entry_t *entry = entries[number(in)];
  uint64_t arguments = number(in), results = number(in), scratch = number(in);
  void **given = block(8 * arguments), **taken = block(8 * results);
  uint64_t *sizes = block(8 * results);
  for (uint64_t n = 0; n < arguments; n++) {
    uint64_t nbytes = number(in);
    given[n] = block(nbytes);
    if (fread(given[n], 1, nbytes, in) != nbytes) exit(5);
  }
  for (uint64_t n = 0; n < results; n++) {
    sizes[n] = number(in);
    uint64_t alias = number(in);
    taken[n] = alias == UINT64_MAX ? block(sizes[n]) : given[alias];
  }
  if (entry(0, given, taken, block(scratch))) exit(7);
  for (uint64_t n = 0; n < results; n++)
    if (fwrite(taken[n], 1, sizes[n], out) != sizes[n]) exit(6);
  fflush(out);
}

int main(int count, char **words) {
  FILE *in = fopen(words[1], "rb"), *out = fopen(words[2], "wb");
  if (count != 3 || !in || !out) return 4;
  while (!is_last(in)) call(in, out);
  return fclose(out);
}

/* Trains softmax regression on handwritten digits: two programs that were compiled ahead of time,
 * and no Python. The weights go to and fro between two sets of buffers.
 *
 *     train digits.bin
 */
#include "predict.h"
#include "step.h"

#include <stdio.h>
#include <string.h>

#define PIXELS STEP_ARG_X_DIM1
#define BATCH STEP_ARG_X_DIM0
#define IMAGES 1797
#define TEST_IMAGES 500
#define STEPS 500

/* All memory there is. Batches lie in it one after the other, so a batch is copied to `x` and `y`,
 * which are aligned. */
static float pixels[IMAGES][PIXELS];
static int32_t labels[IMAGES];
static unsigned char arena[STEP_MEMORY_NBYTES + PREDICT_MEMORY_NBYTES + STEP_ARG_X_NBYTES +
                           STEP_ARG_Y_NBYTES + 2 * STEP_ARG_W_NBYTES + 2 * STEP_ARG_B_NBYTES +
                           8 * STEP_BEST_ALIGNMENT];

static void *take(size_t nbytes) {
  static size_t used = 0;
  unsigned char *found = (unsigned char *)step_align(arena + used);
  used = (size_t)(found - arena) + nbytes;
  return found;
}

static int read_digits(const char *path) {
  FILE *file = fopen(path, "rb");
  int whole;
  if (file == NULL) return 0;
  whole = fread(pixels, sizeof pixels, 1, file) == 1 && fread(labels, sizeof labels, 1, file) == 1;
  fclose(file);
  return whole;
}

/* The next of the batches in which the training images are gone through again and again. */
static void next_batch(float *x, int32_t *y) {
  static int at = 0;
  int i;
  for (i = 0; i < BATCH; ++i) {
    const int image = TEST_IMAGES + at;
    memcpy(x + i * PIXELS, pixels[image], sizeof pixels[image]);
    y[i] = labels[image];
    at = (at + 1) % (IMAGES - TEST_IMAGES);
  }
}

/* Runs one step from the weights w[from], b[from] to the others; -1 if it fails. */
static float train(step_context *step, float **w, float **b, int from) {
  step_set_arg_w(step, w[from]);
  step_set_arg_b(step, b[from]);
  step_set_result_w(step, w[1 - from]);
  step_set_result_b(step, b[1 - from]);
  return step_run(step) == STEP_OK ? *step_result_loss(step) : -1.0f;
}

/* How many of the test images the weights name rightly; -1 if it fails. */
static int count_right(predict_context *predict, float *x) {
  int right = 0, first, i;
  for (first = 0; first < TEST_IMAGES; first += BATCH) {
    memcpy(x, pixels[first], STEP_ARG_X_NBYTES);
    if (predict_run(predict) != PREDICT_OK) return -1;
    for (i = 0; i < BATCH; ++i) right += predict_result_digits(predict)[i] == labels[first + i];
  }
  return right;
}

int main(int argc, char **argv) {
  step_context step;
  predict_context predict;
  float *x = (float *)take(STEP_ARG_X_NBYTES);
  int32_t *y = (int32_t *)take(STEP_ARG_Y_NBYTES);
  float *w[2], *b[2];
  int i, right;
  for (i = 0; i < 2; ++i) {
    w[i] = (float *)take(STEP_ARG_W_NBYTES);
    b[i] = (float *)take(STEP_ARG_B_NBYTES);
    memset(w[i], 0, STEP_ARG_W_NBYTES);
    memset(b[i], 0, STEP_ARG_B_NBYTES);
  }
  if (argc != 2 || !read_digits(argv[1])) {
    fprintf(stderr, "usage: %s digits.bin\n", argv[0]);
    return 2;
  }
  if (step_init(&step, take(STEP_MEMORY_NBYTES), STEP_MEMORY_NBYTES) != STEP_OK) return 1;
  if (predict_init(&predict, take(PREDICT_MEMORY_NBYTES), PREDICT_MEMORY_NBYTES) != PREDICT_OK)
    return 1;
  step_set_arg_x(&step, x);
  step_set_arg_y(&step, y);
  for (i = 0; i < STEPS; ++i) {
    float loss;
    next_batch(x, y);
    loss = train(&step, w, b, i % 2);
    if (loss < 0) return 1;
    if ((i + 1) % 50 == 0) printf("step %5d  loss %.4f\n", i + 1, (double)loss);
  }
  predict_set_arg_w(&predict, w[STEPS % 2]);
  predict_set_arg_b(&predict, b[STEPS % 2]);
  predict_set_arg_x(&predict, x);
  right = count_right(&predict, x);
  if (right < 0) return 1;
  printf("test accuracy %.1f%% after %d steps\n", 100.0 * right / TEST_IMAGES, STEPS);
  return 0;
}

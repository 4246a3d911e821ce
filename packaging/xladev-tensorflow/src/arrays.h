/* Tensors on a device, by their layout in TensorFlow 2.19 to 2.21. */
#ifndef XLADEV_ARRAYS_H
#define XLADEV_ARRAYS_H

#include "tensorflow.h"

/* tensorflow::TensorShape. Few dimensions of 16 bits, or fewer of 32 bits, lie inside. */
enum { TYPE_BYTE = 13, RANK_BYTE = 14, KIND_BYTE = 15, OF_16_BITS = 0, OF_32_BITS = 1 };

typedef struct {
    uint8_t bytes[16];
    int64_t num_elements;
} TensorShape;

typedef struct {
    void *functions;
    int64_t refs;
    const char *data; /* its last bit says that a DeviceArray is there */
} TensorBuffer;

typedef struct {
    TensorShape shape;
    const TensorBuffer *buffer;
} Tensor;

/* xla::PjRtCApiBuffer and xla::TfPjRtBuffer, which wraps it; with their clients. */
typedef struct {
    void *functions, *client, *deleter[4], *buffer;
} CBuffer;

typedef struct {
    void *functions, *client;
    const CBuffer *wrapped;
} TfBuffer;

/* tensorflow::AsyncValueTensor */
typedef struct {
    void *reference;
    const TfBuffer *buffer;
    void *owners;
} DeviceArray;

/* Whether TensorFlow has the functions that the others here call. */
bool find_array_functions(void);
bool is_on_device(const Tensor *tensor);
const TfBuffer *array_of(const Tensor *tensor); /* NULL if it has none */
/* Makes a result of a PJRT buffer, which it takes over; false if there is no memory. `like` has the
 * clients that it belongs to. */
bool give_array(
    TF_OpKernelContext *context, int index, const TensorShape *shape, void *buffer,
    const TfBuffer *like);

#endif

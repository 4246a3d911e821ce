/* Where the elements of arrays are: sizes, strides, and copies between strides. */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/* A copy between arrays of equal dims; strides in bytes. */
typedef struct {
    const int64_t *dims, *from_strides, *to_strides;
    size_t rank, element_nbytes;
} StridedCopy;

static void copy_strided(const StridedCopy *copy, size_t axis, const char *from, char *to) {
    if (axis == copy->rank) {
        memcpy(to, from, copy->element_nbytes);
        return;
    }
    for (int64_t i = 0; i < copy->dims[axis]; i++)
        copy_strided(copy, axis + 1, from + i * copy->from_strides[axis],
                     to + i * copy->to_strides[axis]);
}

void dense_strides(
    const int64_t *dims, size_t rank, const int64_t *minor_to_major, size_t nbytes,
    int64_t *strides) {
    int64_t stride = (int64_t)nbytes;
    for (size_t i = 0; i < rank; i++) {
        size_t axis = minor_to_major ? (size_t)minor_to_major[i] : rank - 1 - i;
        strides[axis] = stride;
        stride *= dims[axis];
    }
}

void by_major(
    const int64_t *values, const int64_t *minor_to_major, size_t rank, int64_t *ordered) {
    for (size_t i = 0; i < rank; i++) ordered[i] = values[minor_to_major[rank - 1 - i]];
}

static bool array_nbytes(
    PJRT_Buffer_Type type, const int64_t *dims, size_t rank, size_t *nbytes) {
    bool is_large = false, is_empty = false;
    *nbytes = type_nbytes(type);
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0) return false;
        is_empty |= !dims[i];
        is_large |= __builtin_mul_overflow(*nbytes, (size_t)dims[i], nbytes);
    }
    if (is_empty) *nbytes = 0;
    return is_empty || (!is_large && *nbytes <= INT64_MAX);
}

Error *check_shape(PJRT_Buffer_Type type, const int64_t *dims, size_t rank) {
    size_t nbytes;
    if (rank > MOST_DIMS)
        return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "%zu dimensions; %d are the most", rank,
                         MOST_DIMS);
    if (array_nbytes(type, dims, rank, &nbytes)) return NULL;
    return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "no memory holds an array of such dimensions");
}

/* The order of dimensions that a client asks for; row-major where it asks for none. */
Error *read_layout(
    const PJRT_Buffer_MemoryLayout *layout, size_t rank, int64_t *minor_to_major) {
    for (size_t i = 0; i < rank; i++) minor_to_major[i] = (int64_t)(rank - 1 - i);
    if (!layout) return NULL;
    bool is_order = layout->type == PJRT_Buffer_MemoryLayout_Type_Tiled &&
                    !layout->tiled.num_tiles && layout->tiled.minor_to_major_size == rank;
    uint64_t seen = 0;
    for (size_t i = 0; is_order && i < rank; i++) {
        int64_t axis = minor_to_major[i] = layout->tiled.minor_to_major[i];
        is_order = axis >= 0 && (size_t)axis < rank && !(seen >> axis & 1);
        if (is_order) seen |= (uint64_t)1 << axis;
    }
    if (is_order) return NULL;
    return error_new(PJRT_Error_Code_UNIMPLEMENTED,
                     "layouts are orders of all dimensions, without tiles or strides");
}

bool is_dense(
    const int64_t *dims, const int64_t *strides, const int64_t *dense, size_t rank) {
    for (size_t i = 0; i < rank; i++)
        if (dims[i] != 1 && strides[i] != dense[i]) return false;
    return true;
}

void copy_array(
    const int64_t *dims, size_t rank, size_t element_nbytes, size_t nbytes, const void *from,
    const int64_t *from_strides, void *to, const int64_t *to_strides) {
    if (!nbytes) return;
    if (is_dense(dims, from_strides, to_strides, rank)) {
        int64_t dense[MOST_DIMS];
        dense_strides(dims, rank, NULL, element_nbytes, dense);
        if (is_dense(dims, from_strides, dense, rank)) {
            memcpy(to, from, nbytes);
            return;
        }
    }
    StridedCopy copy = {dims, from_strides, to_strides, rank, element_nbytes};
    copy_strided(&copy, 0, from, to);
}

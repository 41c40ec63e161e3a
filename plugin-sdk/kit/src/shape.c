/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes, strides, dims and their words. Broadcasting is in broadcast.c, reshapes in reshape.c, memory
 * overlap in overlap.c.
 */
#include <tenon/kit/shape.h>

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ words */

const char *tn_shape_format(uint32_t ndim, const tn_dim *sizes, char *buffer, size_t buffer_bytes) {
  static const char cut[] = "...]";
  if (buffer_bytes < sizeof cut + 1) {
    if (buffer_bytes > 0) buffer[0] = '\0';
    return buffer;
  }
  size_t at = 1;
  buffer[0] = '[';
  for (uint32_t d = 0; d < ndim; d++) {
    char number[24];
    size_t n =
        (size_t)snprintf(number, sizeof number, d ? ", %lld" : "%lld", (long long)TN_DIM_INT(sizes[d]));
    if (at + n + sizeof cut > buffer_bytes) {
      memcpy(buffer + at, cut, sizeof cut);
      return buffer;
    }
    memcpy(buffer + at, number, n);
    at += n;
  }
  memcpy(buffer + at, "]", 2);
  return buffer;
}

/* ------------------------------------------------------------------ sizes and strides */

bool tn_shape_equal(uint32_t ndim_a, const tn_dim *a, uint32_t ndim_b, const tn_dim *b) {
  if (ndim_a != ndim_b) return false;
  for (uint32_t d = 0; d < ndim_a; d++) {
    if (TN_DIM_NE(a[d], b[d])) return false;
  }
  return true;
}

tn_status tn_shape_numel(uint32_t ndim, const tn_dim *sizes, tn_dim *out_numel) {
  if (ndim > TN_MAX_RANK) {
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "a tensor has at most %d dims, %u were asked for", TN_MAX_RANK,
                   ndim);
  }
  bool empty = false;
  for (uint32_t d = 0; d < ndim; d++) {
    if (TN_DIM_LT(sizes[d], 0)) {
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "sizes must not be negative, found %s",
                     tn_shape_format(ndim, sizes, TN_SHAPE_TEXT));
    }
    empty = empty || TN_DIM_EQ(sizes[d], 0);
  }
  tn_dim n = TN_DIM(!empty);
  for (uint32_t d = 0; d < ndim && !empty; d++) {
    if (__builtin_mul_overflow(n, sizes[d], &n)) {
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "shape %s has more elements than 64 bits can count",
                     tn_shape_format(ndim, sizes, TN_SHAPE_TEXT));
    }
  }
  *out_numel = n;
  return TN_OK;
}

void tn_shape_contiguous_strides(uint32_t ndim, const tn_dim *sizes, tn_dim *out_strides) {
  tn_dim stride = TN_DIM(1);
  for (uint32_t d = ndim; d-- > 0;) {
    out_strides[d] = stride;
    stride = TN_DIM_MUL(stride, TN_DIM_MAX(sizes[d], 1));
  }
}

/* Does a * b fit? Both > 0. Views of absurd sizes reach here, before anybody refused them. */
static inline bool fits_times(tn_dim a, tn_dim b) { return TN_DIM_LE(b, TN_DIM_DIV(TN_DIM(INT64_MAX), a)); }

bool tn_shape_is_contiguous(uint32_t ndim, const tn_dim *sizes, const tn_dim *strides) {
  tn_dim expected = TN_DIM(1);
  for (uint32_t d = 0; d < ndim; d++)
    if (TN_DIM_EQ(sizes[d], 0)) return true;
  for (uint32_t d = ndim; d-- > 0;) {
    if (TN_DIM_EQ(sizes[d], 1)) continue;
    if (TN_DIM_NE(strides[d], expected) || !fits_times(expected, sizes[d])) return false;
    expected = TN_DIM_MUL(expected, sizes[d]);
  }
  return true;
}

/* Dims with more than one element, largest stride first; equal strides keep their order. Returns how many. */
static uint32_t order_by_stride(uint32_t ndim, const tn_dim *sizes, const tn_dim *strides, uint8_t *order) {
  uint32_t n = 0;
  for (uint32_t d = 0; d < ndim; d++) {
    if (TN_DIM_EQ(sizes[d], 1)) continue;
    uint32_t at = n++;
    for (; at > 0 && TN_DIM_LT(strides[order[at - 1]], strides[d]); at--) order[at] = order[at - 1];
    order[at] = (uint8_t)d;
  }
  return n;
}

bool tn_shape_is_dense(uint32_t ndim, const tn_dim *sizes, const tn_dim *strides) {
  if (tn_shape_is_contiguous(ndim, sizes, strides)) return true;
  uint8_t order[TN_MAX_RANK];
  tn_dim expected = TN_DIM(1);
  for (uint32_t i = order_by_stride(ndim, sizes, strides, order); i-- > 0;) {
    if (TN_DIM_NE(strides[order[i]], expected) || !fits_times(expected, sizes[order[i]])) return false;
    expected = TN_DIM_MUL(expected, sizes[order[i]]);
  }
  return true;
}

void tn_shape_dense_strides_like(uint32_t ndim, const tn_dim *sizes, const tn_dim *like,
                                 tn_dim *out_strides) {
  uint8_t order[TN_MAX_RANK];
  tn_dim stride = TN_DIM(1);
  uint32_t n = order_by_stride(ndim, sizes, like, order);
  for (uint32_t d = 0; d < ndim; d++) out_strides[d] = TN_DIM(1);
  for (uint32_t i = n; i-- > 0;) {
    out_strides[order[i]] = stride;
    stride = TN_DIM_MUL(stride, TN_DIM_MAX(sizes[order[i]], 1));
  }
}

/* ------------------------------------------------------------------ dims */

tn_status tn_shape_wrap_dim(int64_t dim, uint32_t ndim, uint32_t *out_dim) {
  int64_t limit = ndim ? (int64_t)ndim : 1;
  if (dim < -limit || dim >= limit) {
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "dim out of range (expected [%lld, %lld], got %lld)",
                   (long long)-limit, (long long)limit - 1, (long long)dim);
  }
  *out_dim = (uint32_t)(dim < 0 ? dim + limit : dim);
  return TN_OK;
}

tn_status tn_shape_dim_mask(const int64_t *dims, size_t n, uint32_t ndim, bool empty_is_all,
                            uint64_t *out_mask) {
  uint64_t mask = 0;
  if (n == 0 && empty_is_all && ndim > 0) mask = ~(uint64_t)0 >> (TN_MAX_RANK - ndim);
  for (size_t i = 0; i < n; i++) {
    uint32_t d = 0;
    TN_TRY(tn_shape_wrap_dim(dims[i], ndim, &d));
    if (mask >> d & 1) {
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "dim %lld appears twice in the list of dims",
                     (long long)dims[i]);
    }
    mask |= (uint64_t)1 << d;
  }
  *out_mask = mask;
  return TN_OK;
}

void tn_shape_reduce(uint32_t ndim, const tn_dim *sizes, uint64_t mask, bool keepdim, uint32_t *out_ndim,
                     tn_dim *out_sizes) {
  uint32_t n = 0;
  for (uint32_t d = 0; d < ndim; d++) {
    bool reduced = mask >> d & 1;
    if (!reduced)
      out_sizes[n++] = sizes[d];
    else if (keepdim)
      out_sizes[n++] = TN_DIM(1);
  }
  *out_ndim = n;
}

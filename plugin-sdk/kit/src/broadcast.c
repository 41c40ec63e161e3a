/* SPDX-License-Identifier: Apache-2.0
 *
 * Broadcasting: shapes are compared from the last dim; equal sizes agree, 1 stretches, a missing dim counts
 * as 1. The shape collected so far is kept in place and shifted when an operand of higher rank arrives, so
 * that n operands need no second array.
 */
#include <tenon/kit/shape.h>

#include <string.h>

static tn_status refuse(uint32_t ndim, const tn_dim *sizes, uint32_t ndim_b, const tn_dim *b,
                        uint32_t from_end) {
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                 "shapes %s and %s do not broadcast: sizes %lld and %lld at dim -%u differ and neither is 1",
                 tn_shape_format(ndim, sizes, TN_SHAPE_TEXT), tn_shape_format(ndim_b, b, TN_SHAPE_TEXT),
                 (long long)TN_DIM_INT(sizes[ndim - from_end]), (long long)TN_DIM_INT(b[ndim_b - from_end]),
                 from_end);
}

tn_status tn_shape_broadcast_into(uint32_t *ndim, tn_dim *sizes, uint32_t ndim_b, const tn_dim *b) {
  if (ndim_b > TN_MAX_RANK) {
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "a tensor has at most %d dims, found %u", TN_MAX_RANK, ndim_b);
  }
  uint32_t n = *ndim;
  /* Everything is checked before anything is written: a failure leaves the shape as it was. */
  for (uint32_t i = 1; i <= n && i <= ndim_b; i++) {
    if (TN_DIM_NE(sizes[n - i], b[ndim_b - i]) && TN_DIM_NE(sizes[n - i], 1) && TN_DIM_NE(b[ndim_b - i], 1)) {
      return refuse(n, sizes, ndim_b, b, i);
    }
  }
  if (ndim_b > n) {
    uint32_t shift = ndim_b - n;
    memmove(sizes + shift, sizes, n * sizeof *sizes);
    memcpy(sizes, b, shift * sizeof *sizes);
    *ndim = n = ndim_b;
  }
  for (uint32_t i = 1; i <= ndim_b; i++) {
    if (TN_DIM_EQ(sizes[n - i], 1)) sizes[n - i] = b[ndim_b - i];
  }
  return TN_OK;
}

tn_status tn_shape_broadcast(uint32_t ndim_a, const tn_dim *a, uint32_t ndim_b, const tn_dim *b,
                             uint32_t *out_ndim, tn_dim *out_sizes) {
  uint32_t n = 0;
  TN_TRY(tn_shape_broadcast_into(&n, out_sizes, ndim_a, a));
  TN_TRY(tn_shape_broadcast_into(&n, out_sizes, ndim_b, b));
  *out_ndim = n;
  return TN_OK;
}

tn_status tn_shape_broadcast_views(uint32_t n, const tn_view *const *views, uint32_t *out_ndim,
                                   tn_dim *out_sizes) {
  uint32_t ndim = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (views[i]) TN_TRY(tn_shape_broadcast_into(&ndim, out_sizes, views[i]->ndim, views[i]->sizes));
  }
  *out_ndim = ndim;
  return TN_OK;
}

tn_status tn_shape_check_expand(uint32_t ndim_from, const tn_dim *from, uint32_t ndim_to, const tn_dim *to) {
  bool fits = ndim_from <= ndim_to;
  for (uint32_t i = 1; fits && i <= ndim_from; i++) {
    fits = TN_DIM_EQ(from[ndim_from - i], to[ndim_to - i]) || TN_DIM_EQ(from[ndim_from - i], 1);
  }
  if (fits) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "shape %s cannot be expanded to %s",
                 tn_shape_format(ndim_from, from, TN_SHAPE_TEXT),
                 tn_shape_format(ndim_to, to, TN_SHAPE_TEXT));
}

void tn_shape_expand_strides(uint32_t ndim_from, const tn_dim *sizes, const tn_dim *strides, uint32_t ndim_to,
                             const tn_dim *to, tn_dim *out_strides) {
  for (uint32_t d = 0; d < ndim_to - ndim_from; d++) out_strides[d] = TN_DIM(0);
  for (uint32_t i = 1; i <= ndim_from; i++) {
    uint32_t at = ndim_from - i;
    bool stretched = TN_DIM_EQ(sizes[at], 1) && TN_DIM_NE(to[ndim_to - i], 1);
    out_strides[ndim_to - i] = stretched ? TN_DIM(0) : strides[at];
  }
}

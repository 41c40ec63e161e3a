/* SPDX-License-Identifier: Apache-2.0
 *
 * Other shapes over the same elements: the size that -1 stands for, and strides of a view where no copy is
 * needed.
 */
#include <tenon/kit/shape.h>

#include <string.h>

tn_status tn_shape_infer(uint32_t ndim, const tn_dim *sizes, tn_dim numel, tn_dim *out_sizes) {
  tn_dim known = TN_DIM(1);
  uint32_t hole = ndim;
  bool empty = false, overflow = false;
  for (uint32_t d = 0; d < ndim; d++) {
    if (TN_DIM_EQ(sizes[d], -1)) {
      if (hole < ndim) {
        return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "only one size may be -1, found %s",
                       tn_shape_format(ndim, sizes, TN_SHAPE_TEXT));
      }
      hole = d;
    } else if (TN_DIM_LT(sizes[d], 0)) {
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "sizes must be at least -1, found %s",
                     tn_shape_format(ndim, sizes, TN_SHAPE_TEXT));
    } else {
      empty = empty || TN_DIM_EQ(sizes[d], 0);
      overflow = __builtin_mul_overflow(known, sizes[d], &known) || overflow;
    }
  }
  if (empty) known = TN_DIM(0);
  if (hole < ndim && empty) {
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "the -1 in %s could be any size, because another size is 0",
                   tn_shape_format(ndim, sizes, TN_SHAPE_TEXT));
  }
  bool fits = empty || !overflow;
  if (fits) fits = hole < ndim ? TN_DIM_EQ(TN_DIM_MOD(numel, known), 0) : TN_DIM_EQ(numel, known);
  if (!fits) {
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "shape %s does not fit %lld elements",
                   tn_shape_format(ndim, sizes, TN_SHAPE_TEXT), (long long)TN_DIM_INT(numel));
  }
  for (uint32_t d = 0; d < ndim; d++) out_sizes[d] = sizes[d];
  if (hole < ndim) out_sizes[hole] = TN_DIM_DIV(numel, known);
  return TN_OK;
}

/* Runs of old dims that lie behind each other in memory are chunks; each chunk must be covered by whole new
 * dims, from the last to the first. */
static bool cover_chunks(uint32_t ndim, const tn_dim *sizes, const tn_dim *strides, uint32_t new_ndim,
                         const tn_dim *new_sizes, tn_dim *out_strides) {
  uint32_t left = new_ndim; /* new dims not placed yet */
  tn_dim base = strides[ndim - 1], old_numel = TN_DIM(1), new_numel = TN_DIM(1);
  for (uint32_t d = ndim; d-- > 0;) {
    old_numel = TN_DIM_MUL(old_numel, sizes[d]);
    bool chunk_ends =
        d == 0 || (TN_DIM_NE(sizes[d - 1], 1) && TN_DIM_NE(strides[d - 1], TN_DIM_MUL(old_numel, base)));
    if (!chunk_ends) continue;
    while (left > 0 && (TN_DIM_LT(new_numel, old_numel) || TN_DIM_EQ(new_sizes[left - 1], 1))) {
      left--;
      out_strides[left] = TN_DIM_MUL(new_numel, base);
      new_numel = TN_DIM_MUL(new_numel, new_sizes[left]);
    }
    if (TN_DIM_NE(new_numel, old_numel)) return false;
    if (d > 0) {
      base = strides[d - 1];
      old_numel = new_numel = TN_DIM(1);
    }
  }
  return left == 0;
}

bool tn_shape_view_strides(uint32_t ndim, const tn_dim *sizes, const tn_dim *strides, uint32_t new_ndim,
                           const tn_dim *new_sizes, tn_dim *out_strides) {
  bool empty = false;
  for (uint32_t d = 0; d < ndim; d++) empty = empty || TN_DIM_EQ(sizes[d], 0);
  if (empty && tn_shape_equal(ndim, sizes, new_ndim, new_sizes)) {
    memcpy(out_strides, strides, ndim * sizeof *strides);
    return true;
  }
  if (empty || ndim == 0) {
    tn_shape_contiguous_strides(new_ndim, new_sizes, out_strides);
    return true;
  }
  return cover_chunks(ndim, sizes, strides, new_ndim, new_sizes, out_strides);
}

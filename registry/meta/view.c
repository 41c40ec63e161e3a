/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of one result: sizes, strides and offset (in elements, from self's first element) of other
 * geometry over the same memory. Views of several results are in view_many.c.
 */
#include "registry/meta/rules.h"

/* Row-major memory and sizes that are all given: the new strides are row-major as well. false: not so simple, or
 * wrong; the general rule decides. */
static inline bool view_of_contiguous(const tn_view *self, uint32_t ndim, const tn_dim *sizes, tn_desc *desc) {
  tn_dim numel = TN_DIM(1);
  if (!(self->flags & TN_VIEW_CONTIGUOUS) || TN_DIM_EQ(self->numel, 0)) return false;
  for (uint32_t i = ndim; i-- > 0;) {
    if (TN_DIM_LE(sizes[i], 0) || TN_DIM_GT(sizes[i], self->numel)) return false;
    desc->sizes[i] = sizes[i];
    desc->strides[i] = numel;
    numel = TN_DIM_MUL(numel, sizes[i]);
    if (TN_DIM_GT(numel, self->numel)) return false; /* so the next product cannot overflow unnoticed */
  }
  return TN_DIM_EQ(numel, self->numel);
}

TN_META(view) {
  const tn_view *self = args[0].u.v;
  uint32_t ndim = args[1].count;
  TN_TRY(tni_check_rank(ndim));
  tn_desc *desc = &meta->out[0];
  tni_desc_head(desc, self->dtype, ndim, TN_DESC_STRIDES);
  if (view_of_contiguous(self, ndim, args[1].u.ints, desc)) return TN_OK;
  for (uint32_t i = 0; i < ndim; i++) desc->sizes[i] = args[1].u.ints[i];
  TN_TRY(tn_shape_infer(ndim, desc->sizes, TN_DIM(self->numel), desc->sizes));
  if (tn_shape_view_strides(self->ndim, self->sizes, self->strides, ndim, desc->sizes, desc->strides))
    return TN_OK;
  return TN_FAIL(
      TN_ERR_INVALID_ARGUMENT,
      "expected strides that allow shape %s without a copy, got shape %s with strides %s; reshape copies",
      tn_shape_format(ndim, desc->sizes, TN_SHAPE_TEXT),
      tn_shape_format(self->ndim, self->sizes, TN_SHAPE_TEXT),
      tn_shape_format(self->ndim, self->strides, TN_SHAPE_TEXT));
}

static void swap_dims(tn_desc *desc, uint32_t a, uint32_t b) {
  tn_dim size = desc->sizes[a], stride = desc->strides[a];
  desc->sizes[a] = desc->sizes[b];
  desc->strides[a] = desc->strides[b];
  desc->sizes[b] = size;
  desc->strides[b] = stride;
}

TN_META(transpose) {
  const tn_view *self = args[0].u.v;
  uint32_t a, b;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, self->ndim, &a));
  TN_TRY(tn_shape_wrap_dim(args[2].u.i, self->ndim, &b));
  tni_desc_view(&meta->out[0], self);
  if (a != b) swap_dims(&meta->out[0], a, b);
  return TN_OK;
}

TN_META(t) {
  const tn_view *self = args[0].u.v;
  if (self->ndim > 2)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at most 2 dims, got shape %s",
                   tn_shape_format(self->ndim, self->sizes, TN_SHAPE_TEXT));
  tni_desc_view(&meta->out[0], self);
  if (self->ndim == 2) swap_dims(&meta->out[0], 0, 1);
  return TN_OK;
}

TN_META(permute) {
  const tn_view *self = args[0].u.v;
  if (args[1].count != self->ndim)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected %u dims, one for each of shape %s, got %u",
                   (unsigned)self->ndim, tn_shape_format(self->ndim, self->sizes, TN_SHAPE_TEXT),
                   args[1].count);
  uint64_t mask;
  TN_TRY(tn_shape_dim_mask(args[1].u.ints, args[1].count, self->ndim, false, &mask));
  tn_desc *desc = &meta->out[0];
  tni_desc_head(desc, self->dtype, self->ndim, TN_DESC_STRIDES);
  for (uint32_t i = 0; i < self->ndim; i++) {
    uint32_t from;
    TN_TRY(tn_shape_wrap_dim(args[1].u.ints[i], self->ndim, &from));
    desc->sizes[i] = self->sizes[from];
    desc->strides[i] = self->strides[from];
  }
  return TN_OK;
}

TN_META(expand) {
  const tn_view *self = args[0].u.v;
  uint32_t ndim = args[1].count;
  TN_TRY(tni_check_rank(ndim));
  if (ndim < self->ndim)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at least %u sizes for shape %s, got %u",
                   (unsigned)self->ndim, tn_shape_format(self->ndim, self->sizes, TN_SHAPE_TEXT), ndim);
  tn_desc *desc = &meta->out[0];
  tni_desc_head(desc, self->dtype, ndim, TN_DESC_STRIDES);
  uint32_t fresh = ndim - self->ndim;
  for (uint32_t i = 0; i < ndim; i++) {
    tn_dim size = args[1].u.ints[i];
    bool keep = TN_DIM_EQ(size, -1) && i >= fresh;
    desc->sizes[i] = keep ? self->sizes[i - fresh] : size;
    if (TN_DIM_LT(desc->sizes[i], 0))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected a size of at least 0 in new dim %u, got %lld", i,
                     (long long)TN_DIM_INT(size));
  }
  TN_TRY(tn_shape_check_expand(self->ndim, self->sizes, ndim, desc->sizes));
  tn_shape_expand_strides(self->ndim, self->sizes, self->strides, ndim, desc->sizes, desc->strides);
  return TN_OK;
}

static tn_status dim_of_nonscalar(const tn_view *self, int64_t dim, uint32_t *out_dim) {
  if (self->ndim == 0) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at least 1 dim, got a 0-d tensor");
  return tn_shape_wrap_dim(dim, self->ndim, out_dim);
}

TN_META(select) {
  const tn_view *self = args[0].u.v;
  uint32_t dim;
  TN_TRY(dim_of_nonscalar(self, args[1].u.i, &dim));
  tn_dim size = self->sizes[dim], index = args[2].u.i;
  if (TN_DIM_LT(index, TN_DIM_SUB(0, size)) || TN_DIM_GE(index, size))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                   "expected an index in [-%lld, %lld) for dim %u of shape %s, got %lld",
                   (long long)TN_DIM_INT(size), (long long)TN_DIM_INT(size), dim,
                   tn_shape_format(self->ndim, self->sizes, TN_SHAPE_TEXT), (long long)TN_DIM_INT(index));
  if (TN_DIM_LT(index, 0)) index = TN_DIM_ADD(index, size);
  tn_desc *desc = &meta->out[0];
  tni_desc_view(desc, self);
  desc->offset = TN_DIM_MUL(index, self->strides[dim]);
  tni_desc_drop_dim(desc, dim);
  return TN_OK;
}

/* A bound of a slice: from the end if negative, then held inside [0, size]. */
static tn_dim slice_bound(const tn_value *value, tn_dim size, tn_dim otherwise) {
  if (!tni_given(value)) return otherwise;
  tn_dim bound = value->u.i;
  if (TN_DIM_LT(bound, 0)) bound = TN_DIM_ADD(bound, size);
  if (TN_DIM_LT(bound, 0)) return TN_DIM(0);
  return TN_DIM_GT(bound, size) ? size : bound;
}

TN_META(slice) {
  const tn_view *self = args[0].u.v;
  uint32_t dim;
  TN_TRY(dim_of_nonscalar(self, args[1].u.i, &dim));
  tn_dim step = args[4].u.i, size = self->sizes[dim];
  if (TN_DIM_LE(step, 0))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected a step of at least 1, got %lld",
                   (long long)TN_DIM_INT(step));
  tn_dim start = slice_bound(&args[2], size, TN_DIM(0));
  tn_dim end = slice_bound(&args[3], size, size);
  if (TN_DIM_LT(end, start)) end = start;
  tn_desc *desc = &meta->out[0];
  tni_desc_view(desc, self);
  tn_dim span = TN_DIM_SUB(end, start);
  tn_dim whole = TN_DIM_DIV(span, step);
  desc->sizes[dim] = TN_DIM_NE(TN_DIM_MOD(span, step), 0) ? TN_DIM_ADD(whole, 1) : whole;
  desc->offset = TN_DIM_MUL(start, self->strides[dim]);
  /* A dim of one index or none never steps, and a huge step must not overflow its stride. */
  if (TN_DIM_GT(desc->sizes[dim], 1)) desc->strides[dim] = TN_DIM_MUL(self->strides[dim], step);
  return TN_OK;
}

TN_META(unsqueeze) {
  const tn_view *self = args[0].u.v;
  TN_TRY(tni_check_rank((size_t)self->ndim + 1));
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, (uint32_t)self->ndim + 1, &dim));
  tn_desc *desc = &meta->out[0];
  tni_desc_view(desc, self);
  for (uint32_t i = self->ndim; i > dim; i--) {
    desc->sizes[i] = desc->sizes[i - 1];
    desc->strides[i] = desc->strides[i - 1];
  }
  desc->sizes[dim] = TN_DIM(1);
  desc->strides[dim] = dim < self->ndim ? TN_DIM_MUL(self->sizes[dim], self->strides[dim]) : TN_DIM(1);
  desc->ndim++;
  return TN_OK;
}

TN_META(squeeze) {
  const tn_view *self = args[0].u.v;
  tn_desc *desc = &meta->out[0];
  tni_desc_head(desc, self->dtype, 0, TN_DESC_STRIDES);
  for (uint32_t i = 0; i < self->ndim; i++) {
    if (TN_DIM_EQ(self->sizes[i], 1)) continue;
    desc->sizes[desc->ndim] = self->sizes[i];
    desc->strides[desc->ndim++] = self->strides[i];
  }
  return TN_OK;
}

TN_META(squeeze_dim) {
  const tn_view *self = args[0].u.v;
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, self->ndim, &dim));
  tni_desc_view(&meta->out[0], self);
  if (self->ndim && TN_DIM_EQ(self->sizes[dim], 1)) tni_desc_drop_dim(&meta->out[0], dim);
  return TN_OK;
}

TN_META(as_strided) {
  const tn_view *self = args[0].u.v;
  TN_TRY(tni_check_sizes(&args[1]));
  uint32_t ndim = args[1].count;
  if (args[2].count != ndim)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected %u strides for %u sizes, got %u", ndim, ndim,
                   args[2].count);
  tn_desc *desc = &meta->out[0];
  tni_desc_set(desc, self->dtype, ndim, args[1].u.ints, TN_DESC_FREE_STRIDES);
  for (uint32_t i = 0; i < ndim; i++) desc->strides[i] = args[2].u.ints[i];
  desc->offset = args[3].u.i;
  return TN_OK;
}

TN_META(diagonal) {
  const tn_view *self = args[0].u.v;
  uint32_t a, b;
  TN_TRY(dim_of_nonscalar(self, args[2].u.i, &a));
  TN_TRY(dim_of_nonscalar(self, args[3].u.i, &b));
  if (a == b) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected two different dims, got %u twice", a);
  tn_dim shift = args[1].u.i, rows = self->sizes[a], cols = self->sizes[b];
  /* Outside the matrix the diagonal is empty and begins nowhere. */
  bool above = TN_DIM_GE(shift, 0);
  tn_dim left = above ? TN_DIM_MIN(rows, TN_DIM_LT(shift, cols) ? TN_DIM_SUB(cols, shift) : 0)
                      : TN_DIM_MIN(TN_DIM_GT(shift, TN_DIM_SUB(0, rows)) ? TN_DIM_ADD(rows, shift) : 0, cols);
  tn_desc *desc = &meta->out[0];
  tni_desc_view(desc, self);
  if (TN_DIM_GT(left, 0))
    desc->offset =
        above ? TN_DIM_MUL(shift, self->strides[b]) : TN_DIM_MUL(TN_DIM_SUB(0, shift), self->strides[a]);
  tn_dim stride = TN_DIM_ADD(self->strides[a], self->strides[b]);
  tni_desc_drop_dim(desc, a > b ? a : b);
  tni_desc_drop_dim(desc, a > b ? b : a);
  desc->sizes[desc->ndim] = left;
  desc->strides[desc->ndim++] = stride;
  return TN_OK;
}

TN_META(unfold) {
  const tn_view *self = args[0].u.v;
  TN_TRY(tni_check_rank((size_t)self->ndim + 1));
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, self->ndim, &dim));
  tn_dim have = tni_size(self, dim), size = args[2].u.i, step = args[3].u.i;
  if (TN_DIM_LT(size, 0) || TN_DIM_GT(size, have))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected a window of at most %lld, the size of dim %u, got %lld",
                   (long long)TN_DIM_INT(have), dim, (long long)TN_DIM_INT(size));
  if (TN_DIM_LE(step, 0))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected a step of at least 1, got %lld",
                   (long long)TN_DIM_INT(step));
  tn_desc *desc = &meta->out[0];
  tni_desc_view(desc, self);
  tn_dim stride = self->ndim ? self->strides[dim] : TN_DIM(1);
  desc->sizes[desc->ndim] = size;
  desc->strides[desc->ndim++] = stride;
  if (self->ndim == 0) return TN_OK;
  desc->sizes[dim] = TN_DIM_ADD(TN_DIM_DIV(TN_DIM_SUB(have, size), step), 1);
  if (TN_DIM_GT(desc->sizes[dim], 1)) desc->strides[dim] = TN_DIM_MUL(stride, step);
  return TN_OK;
}

TN_META(alias) {
  tni_desc_view(&meta->out[0], args[0].u.v);
  return TN_OK;
}

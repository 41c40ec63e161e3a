/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing by index, cat, and triangles. The values of an index tensor are data: kernels
 * check them.
 */
#include "registry/meta/rules.h"

/* index may not reach further than `other` in any dim but `dim` (pass UINT32_MAX for every dim). */
static tn_status check_covers(const tn_view *index, const char *name, const tn_view *other, uint32_t dim) {
  bool fits = index->ndim == other->ndim || (index->ndim + other->ndim == 1);
  uint32_t ndim = index->ndim && other->ndim ? index->ndim : 0;
  for (uint32_t i = 0; fits && i < ndim; i++) fits = i == dim || TN_DIM_LE(index->sizes[i], other->sizes[i]);
  if (fits) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected 'index' to lie inside shape %s of '%s'%s, got shape %s",
                 tn_shape_format(other->ndim, other->sizes, TN_SHAPE_TEXT), name,
                 dim == UINT32_MAX ? "" : " outside dim",
                 tn_shape_format(index->ndim, index->sizes, TN_SHAPE_TEXT));
}

TN_META(gather) {
  const tn_view *self = args[0].u.v, *index = args[2].u.v;
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, self->ndim, &dim));
  TN_TRY(tni_check_index("index", index, false));
  if (index->numel) TN_TRY(check_covers(index, "self", self, dim));
  tni_desc_set(&meta->out[0], self->dtype, index->ndim, index->sizes, TN_DESC_CONTIGUOUS);
  return TN_OK;
}

/* scatter and its kin: the result is self with some elements changed. src NULL: a number is written. */
static tn_status scatter(tn_meta *meta, const tn_value *args, const tn_view *src) {
  const tn_view *self = args[0].u.v, *index = args[2].u.v;
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, self->ndim, &dim));
  TN_TRY(tni_check_index("index", index, false));
  if (src) TN_TRY(tni_check_dtype_is("src", src, self->dtype));
  if (index->numel) {
    TN_TRY(check_covers(index, "self", self, dim));
    if (src) TN_TRY(check_covers(index, "src", src, UINT32_MAX));
  }
  tni_desc_like(&meta->out[0], self, TN_DESC_CONTIGUOUS);
  return TN_OK;
}

TN_META(scatter_add) { return scatter(meta, args, args[3].u.v); }
TN_META(scatter_src) { return scatter(meta, args, args[3].u.v); }
TN_META(scatter_value) {
  TN_TRY(tni_check_number_held("value", &args[3], args[0].u.v->dtype));
  return scatter(meta, args, NULL);
}

static tn_status check_index_vector(const tn_view *index) {
  TN_TRY(tni_check_index("index", index, true));
  if (index->ndim <= 1) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected 'index' with at most 1 dim, got shape %s",
                 tn_shape_format(index->ndim, index->sizes, TN_SHAPE_TEXT));
}

TN_META(index_select) {
  const tn_view *self = args[0].u.v, *index = args[2].u.v;
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, self->ndim, &dim));
  TN_TRY(check_index_vector(index));
  if (self->ndim == 0 && TN_DIM_NE(TN_DIM(index->numel), 1))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected 1 index for a 0-d tensor, got %lld",
                   (long long)index->numel);
  tni_desc_like(&meta->out[0], self, TN_DESC_CONTIGUOUS);
  if (self->ndim) meta->out[0].sizes[dim] = TN_DIM(index->numel);
  return TN_OK;
}

TN_META(index_add) {
  const tn_view *self = args[0].u.v, *index = args[2].u.v, *source = args[3].u.v;
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, self->ndim, &dim));
  TN_TRY(check_index_vector(index));
  TN_TRY(tni_check_dtype_is("source", source, self->dtype));
  tn_desc want;
  tni_desc_like(&want, self, TN_DESC_CONTIGUOUS);
  if (want.ndim) want.sizes[dim] = TN_DIM(index->numel);
  TN_TRY(tni_check_shape_is("source", source, want.ndim, want.sizes));
  if (self->ndim == 0 && TN_DIM_NE(TN_DIM(index->numel), 1))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected 1 index for a 0-d tensor, got %lld",
                   (long long)index->numel);
  TN_TRY(tni_check_number_fits(&args[4], self->dtype));
  tni_desc_like(&meta->out[0], self, TN_DESC_CONTIGUOUS);
  return TN_OK;
}

/* A 1-d tensor without elements joins with anything, as ATen's does. */
static bool is_nothing(const tn_view *view) { return view->ndim == 1 && TN_DIM_EQ(view->sizes[0], 0); }

static tn_status cat_one(tn_desc *desc, const tn_view *first, const tn_view *view, uint32_t dim) {
  bool fits = view->ndim == first->ndim;
  for (uint32_t i = 0; fits && i < first->ndim; i++)
    fits = i == dim || TN_DIM_EQ(view->sizes[i], first->sizes[i]);
  if (!fits)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected shapes that agree except in dim %u, got %s and %s", dim,
                   tn_shape_format(first->ndim, first->sizes, TN_SHAPE_TEXT),
                   tn_shape_format(view->ndim, view->sizes, TN_SHAPE_TEXT));
  desc->sizes[dim] = TN_DIM_ADD(desc->sizes[dim], view->sizes[dim]);
  return TN_OK;
}

TN_META(cat) {
  uint32_t n = args[0].count;
  if (n == 0) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at least 1 tensor, got none");
  const tn_view *first = NULL;
  for (uint32_t i = 0; i < n; i++) {
    const tn_view *view = args[0].u.vs[i];
    if (view->ndim == 0) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at least 1 dim, got a 0-d tensor");
    if (!first && !is_nothing(view)) first = view;
  }
  if (!first) first = args[0].u.vs[0];
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, first->ndim, &dim));
  tn_desc *desc = &meta->out[0];
  tni_desc_like(desc, first, TN_DESC_CONTIGUOUS);
  desc->sizes[dim] = TN_DIM(0);
  bool last = true; /* channels_last if every operand is, as in ATen */
  for (uint32_t i = 0; i < n; i++) {
    if (is_nothing(args[0].u.vs[i])) continue;
    TN_TRY(cat_one(desc, first, args[0].u.vs[i], dim));
    last = last && tni_suggests_channels_last(args[0].u.vs[i]);
  }
  tn_dim numel;
  TN_TRY(tn_shape_numel(desc->ndim, desc->sizes, &numel));
  if (last && desc->ndim == 4) tni_desc_channels_last(desc);
  TN_TRY(tn_promote_values(args, 1, meta->default_dtype, &desc->dtype));
  meta->compute_dtype = desc->dtype;
  return TN_OK;
}

TN_META(tril) {
  const tn_view *self = args[0].u.v;
  if (self->ndim < 2)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at least 2 dims, got shape %s",
                   tn_shape_format(self->ndim, self->sizes, TN_SHAPE_TEXT));
  tni_desc_like(&meta->out[0], self, TN_DESC_CONTIGUOUS);
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions and scans. Where an entry takes a dtype, the rule makes it the compute dtype, so that
 * the kernel sees one dtype for input and result; how it adds up inside (float32 for half types) is
 * the kernel's business.
 */
#include "registry/meta/rules.h"

/* The result of reducing the dims in mask. */
static void reduced(tn_desc *desc, const tn_view *self, uint64_t mask, bool keepdim, tn_dtype dtype) {
  uint32_t ndim;
  tni_desc_head(desc, dtype, 0, TN_DESC_CONTIGUOUS);
  tn_shape_reduce(self->ndim, self->sizes, mask, keepdim, &ndim, desc->sizes);
  desc->ndim = (uint8_t)ndim;
}

static tn_status list_mask(const tn_value *dims, const tn_view *self, uint64_t *out_mask) {
  size_t n = tni_given(dims) ? dims->count : 0;
  return tn_shape_dim_mask(dims->u.ints, n, self->ndim, true, out_mask);
}

static tn_status one_mask(int64_t dim, const tn_view *self, uint64_t *out_mask) {
  return tn_shape_dim_mask(&dim, 1, self->ndim, false, out_mask);
}

/* Reductions without a neutral element need something to choose from. */
static tn_status check_not_empty(const tn_view *self, uint64_t mask) {
  for (uint32_t i = 0; i < self->ndim; i++)
    if ((mask >> i & 1) && TN_DIM_EQ(self->sizes[i], 0))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at least 1 element along dim %u, got shape %s", i,
                     tn_shape_format(self->ndim, self->sizes, TN_SHAPE_TEXT));
  return TN_OK;
}

/* Also prod. */
TN_META(sum) {
  tn_dtype dtype = tni_dtype_or(&args[1], tni_sum_dtype(args[0].u.v->dtype));
  tni_desc_head(&meta->out[0], dtype, 0, TN_DESC_CONTIGUOUS);
  meta->compute_dtype = dtype;
  return TN_OK;
}

TN_META(sum_dim) {
  const tn_view *self = args[0].u.v;
  uint64_t mask;
  TN_TRY(list_mask(&args[1], self, &mask));
  tn_dtype dtype = tni_dtype_or(&args[3], tni_sum_dtype(self->dtype));
  reduced(&meta->out[0], self, mask, args[2].u.i, dtype);
  meta->compute_dtype = dtype;
  return TN_OK;
}

TN_META(mean) {
  tn_dtype dtype = tni_dtype_or(&args[1], args[0].u.v->dtype);
  TN_TRY(tni_check_float("the mean", dtype));
  tni_desc_head(&meta->out[0], dtype, 0, TN_DESC_CONTIGUOUS);
  meta->compute_dtype = dtype;
  return TN_OK;
}

TN_META(mean_dim) {
  const tn_view *self = args[0].u.v;
  uint64_t mask;
  TN_TRY(list_mask(&args[1], self, &mask));
  tn_dtype dtype = tni_dtype_or(&args[3], self->dtype);
  TN_TRY(tni_check_float("the mean", dtype));
  reduced(&meta->out[0], self, mask, args[2].u.i, dtype);
  meta->compute_dtype = dtype;
  return TN_OK;
}

TN_META(prod_dim) {
  const tn_view *self = args[0].u.v;
  uint64_t mask;
  TN_TRY(one_mask(args[1].u.i, self, &mask));
  tn_dtype dtype = tni_dtype_or(&args[3], tni_sum_dtype(self->dtype));
  reduced(&meta->out[0], self, mask, args[2].u.i, dtype);
  meta->compute_dtype = dtype;
  return TN_OK;
}

TN_META(amax) {
  const tn_view *self = args[0].u.v;
  uint64_t mask;
  TN_TRY(list_mask(&args[1], self, &mask));
  TN_TRY(check_not_empty(self, mask));
  reduced(&meta->out[0], self, mask, args[2].u.i, self->dtype);
  return TN_OK;
}

TN_META(max_dim) {
  const tn_view *self = args[0].u.v;
  uint64_t mask;
  TN_TRY(one_mask(args[1].u.i, self, &mask));
  TN_TRY(check_not_empty(self, mask));
  reduced(&meta->out[0], self, mask, args[2].u.i, self->dtype);
  reduced(&meta->out[1], self, mask, args[2].u.i, TN_INT64);
  return TN_OK;
}

TN_META(argmax) {
  const tn_view *self = args[0].u.v;
  uint64_t mask;
  if (tni_given(&args[1])) {
    TN_TRY(one_mask(args[1].u.i, self, &mask));
  } else {
    TN_TRY(tn_shape_dim_mask(NULL, 0, self->ndim, true, &mask));
  }
  TN_TRY(check_not_empty(self, mask));
  reduced(&meta->out[0], self, mask, args[2].u.i, TN_INT64);
  return TN_OK;
}

/* any and all answer bool, uint8 for uint8 as ATen's do. */
static tn_dtype logic_dtype(const tn_view *self) { return self->dtype == TN_UINT8 ? TN_UINT8 : TN_BOOL; }

TN_META(any) {
  tni_desc_head(&meta->out[0], logic_dtype(args[0].u.v), 0, TN_DESC_CONTIGUOUS);
  return TN_OK;
}

TN_META(any_dim) {
  const tn_view *self = args[0].u.v;
  uint64_t mask;
  TN_TRY(one_mask(args[1].u.i, self, &mask));
  reduced(&meta->out[0], self, mask, args[2].u.i, logic_dtype(self));
  return TN_OK;
}

/* One row per element that is not 0: known to the kernel only. */
TN_META(nonzero) {
  tni_desc_head(&meta->out[0], TN_INT64, 2, TN_DESC_CONTIGUOUS);
  meta->out[0].sizes[0] = TN_DIM(0);
  meta->out[0].sizes[1] = TN_DIM(args[0].u.v->ndim);
  meta->out[0].unknown = 1;
  return TN_OK;
}

TN_META(var) {
  const tn_view *self = args[0].u.v;
  TN_TRY(tni_check_float("self", self->dtype));
  uint64_t mask;
  TN_TRY(list_mask(&args[1], self, &mask));
  reduced(&meta->out[0], self, mask, args[3].u.i, self->dtype);
  return TN_OK;
}

TN_META(cumsum) {
  const tn_view *self = args[0].u.v;
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, self->ndim, &dim));
  tn_dtype dtype = tni_dtype_or(&args[2], tni_sum_dtype(self->dtype));
  tni_desc_set(&meta->out[0], dtype, self->ndim, self->sizes, TN_DESC_CONTIGUOUS);
  meta->compute_dtype = dtype;
  return TN_OK;
}

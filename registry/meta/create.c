/* SPDX-License-Identifier: Apache-2.0
 *
 * Factories and fills in place. A factory's device is not decided here: descriptors have none.
 */
#include <math.h>

#include "registry/meta/rules.h"

TN_META(empty) {
  TN_TRY(tni_check_sizes(&args[0]));
  tn_desc *desc = &meta->out[0];
  tni_desc_set(desc, tni_dtype_or(&args[1], meta->default_dtype), args[0].count, args[0].u.ints,
               TN_DESC_CONTIGUOUS);
  return tni_given(&args[5]) ? tni_desc_format(desc, &args[5], NULL) : TN_OK;
}

TN_META(empty_strided) {
  TN_TRY(tni_check_sizes(&args[0]));
  uint32_t ndim = args[0].count;
  if (args[1].count != ndim)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected %u strides for %u sizes, got %u", ndim, ndim,
                   args[1].count);
  tn_desc *desc = &meta->out[0];
  tni_desc_set(desc, tni_dtype_or(&args[2], meta->default_dtype), ndim, args[0].u.ints, TN_DESC_STRIDES);
  for (uint32_t i = 0; i < ndim; i++) {
    if (TN_DIM_LT(args[1].u.ints[i], 0))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected strides of at least 0, got %lld in dim %u",
                     (long long)TN_DIM_INT(args[1].u.ints[i]), i);
    desc->strides[i] = args[1].u.ints[i];
  }
  return TN_OK;
}

TN_META(empty_like) {
  const tn_view *self = args[0].u.v;
  tn_desc *desc = &meta->out[0];
  tni_desc_set(desc, tni_dtype_or(&args[1], self->dtype), self->ndim, self->sizes, TN_DESC_LIKE_SELF);
  return tni_desc_format(desc, &args[5], self);
}

TN_META(new_empty) {
  TN_TRY(tni_check_sizes(&args[1]));
  tni_desc_set(&meta->out[0], tni_dtype_or(&args[2], args[0].u.v->dtype), args[1].count, args[1].u.ints,
               TN_DESC_CONTIGUOUS);
  return TN_OK;
}

/* How many numbers lie in [start, end) by step: exact for integers, by division in double else. */
static tn_status arange_count(const tn_value *args, bool all_ints, int64_t *out_n) {
  double start = tni_number(&args[0]), end = tni_number(&args[1]), step = tni_number(&args[2]);
  if (!isfinite(start) || !isfinite(end) || !isfinite(step) || step == 0)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                   "expected finite bounds and a step that is not 0, got start %g, end %g, step %g", start,
                   end, step);
  if (start != end && (end > start) != (step > 0))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected a step towards end, got start %g, end %g, step %g",
                   start, end, step);
  double n = ceil((end - start) / step);
  if (n >= 9.2e18) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected fewer than 2^63 numbers, got %g", n);
  if (all_ints) {
    uint64_t span = step > 0 ? (uint64_t)args[1].u.i - (uint64_t)args[0].u.i
                             : (uint64_t)args[0].u.i - (uint64_t)args[1].u.i;
    uint64_t stride = step > 0 ? (uint64_t)args[2].u.i : -(uint64_t)args[2].u.i;
    *out_n = (int64_t)(span / stride + (span % stride != 0));
    return TN_OK;
  }
  *out_n = (int64_t)n;
  return TN_OK;
}

TN_META(arange) {
  bool all_ints = true;
  for (int i = 0; i < 3; i++) all_ints = all_ints && args[i].kind != TN_VAL_FLOAT;
  tn_dtype dtype = tni_dtype_or(&args[3], all_ints ? TN_INT64 : meta->default_dtype);
  if (dtype == TN_BOOL) return TN_FAIL(TN_ERR_DTYPE, "expected an integer or floating dtype, got bool");
  int64_t n = 0;
  TN_TRY(arange_count(args, all_ints, &n));
  tni_desc_head(&meta->out[0], dtype, 1, TN_DESC_CONTIGUOUS);
  meta->out[0].sizes[0] = TN_DIM(n);
  return TN_OK;
}

/* ------------------------------------------------------------------ in place */

TN_META(inplace_self) {
  tni_desc_like(&meta->out[0], args[0].u.v, TN_DESC_LIKE_SELF);
  return TN_OK;
}

TN_META(fill) {
  TN_TRY(tni_check_number_held("value", &args[1], args[0].u.v->dtype));
  tni_desc_like(&meta->out[0], args[0].u.v, TN_DESC_LIKE_SELF);
  return TN_OK;
}

TN_META(fill_tensor) {
  TN_TRY(tni_check_ndim("value", args[1].u.v, 0));
  tni_desc_like(&meta->out[0], args[0].u.v, TN_DESC_LIKE_SELF);
  meta->compute_dtype = args[0].u.v->dtype;
  return TN_OK;
}

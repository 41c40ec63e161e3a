/* SPDX-License-Identifier: Apache-2.0
 *
 * Random fills in place and randperm: what the distributions' parameters may be. The numbers
 * themselves are drawn by kernels from the seed and offset that the core hands them.
 */
#include <float.h>
#include <math.h>

#include "registry/meta/rules.h"

TN_META(random_float) {
  const tn_view *self = args[0].u.v;
  TN_TRY(tni_check_float("self", self->dtype));
  double from = args[1].u.f, to = args[2].u.f;
  if (!(from <= to) || !isfinite(from) || !isfinite(to))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected finite bounds with from <= to, got from %g, to %g",
                   from, to);
  tni_desc_like(&meta->out[0], self, TN_DESC_LIKE_SELF);
  return TN_OK;
}

TN_META(random_normal) {
  const tn_view *self = args[0].u.v;
  TN_TRY(tni_check_float("self", self->dtype));
  if (!(args[2].u.f >= 0))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected a standard deviation of at least 0, got %g",
                   args[2].u.f);
  tni_desc_like(&meta->out[0], self, TN_DESC_LIKE_SELF);
  return TN_OK;
}

TN_META(random_bernoulli) {
  double p = args[1].u.f;
  if (!(p >= 0 && p <= 1))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected a probability between 0 and 1, got %g", p);
  tni_desc_like(&meta->out[0], args[0].u.v, TN_DESC_LIKE_SELF);
  return TN_OK;
}

/* Largest integer up to which the dtype holds every integer. */
static int64_t integer_limit(tn_dtype dtype) {
  switch (dtype) {
    case TN_BOOL: return 1;
    case TN_UINT8: return UINT8_MAX;
    case TN_INT8: return INT8_MAX;
    case TN_INT16: return INT16_MAX;
    case TN_INT32: return INT32_MAX;
    case TN_FLOAT16: return (int64_t)1 << 11;
    case TN_BFLOAT16: return (int64_t)1 << 8;
    case TN_FLOAT32: return (int64_t)1 << FLT_MANT_DIG;
    case TN_FLOAT64: return (int64_t)1 << DBL_MANT_DIG;
    default: return INT64_MAX;
  }
}

TN_META(random_int) {
  const tn_view *self = args[0].u.v;
  int64_t limit = integer_limit(self->dtype);
  int64_t from = args[1].u.i;
  int64_t last = tni_given(&args[2]) ? args[2].u.i - (args[2].u.i != INT64_MIN) : limit;
  int64_t lowest = self->dtype == TN_BOOL || self->dtype == TN_UINT8 ? 0 : -limit;
  if (from > last)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected from < to, got from %lld, to %lld", (long long)from,
                   tni_given(&args[2]) ? (long long)args[2].u.i : (long long)limit);
  if (from < lowest || last > limit)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected bounds that %s holds (%lld to %lld), got %lld to %lld",
                   tn_kit_dtype_name(self->dtype), (long long)lowest, (long long)limit, (long long)from,
                   (long long)last);
  tni_desc_like(&meta->out[0], self, TN_DESC_LIKE_SELF);
  return TN_OK;
}

TN_META(randperm) {
  tn_dtype dtype = tni_dtype_or(&args[1], TN_INT64);
  tn_dim n = args[0].u.i;
  if (TN_DIM_LT(n, 0))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected n of at least 0, got %lld", (long long)TN_DIM_INT(n));
  if (TN_DIM_GT(n, 0) && TN_DIM_GT(TN_DIM_SUB(n, 1), integer_limit(dtype)))
    return TN_FAIL(TN_ERR_DTYPE, "expected a dtype that holds %lld, got %s",
                   (long long)TN_DIM_INT(TN_DIM_SUB(n, 1)), tn_kit_dtype_name(dtype));
  tni_desc_head(&meta->out[0], dtype, 1, TN_DESC_CONTIGUOUS);
  meta->out[0].sizes[0] = n;
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions out of three: sum.dim_IntList, amax and argmax (with amin beside it, since not every dtype can be negated).
 * For backends that have no kernels of their own. Half types add up in float32.
 */
#include "registry/bodies/scoped_body.h"

#define DIMS(value) (tni_has(value) ? (value)->u.ints : NULL), (tni_has(value) ? (value)->count : 0)

static tn_tensor *sum_all(const tn_value *args) {
  return tns_sum_dim(args[0].u.t, NULL, 0, false, tni_dtype_of(&args[1]));
}
TN_SCOPED_BODY(sum_all, sum_all)

/* In dtype, or self's own; the sum is taken in a wider one. */
static tn_tensor *mean_over(tn_tensor *self, const tn_value *dims, bool keepdim, tn_dtype dtype) {
  static const tn_value all = {0};
  uint64_t mask;
  if (!dims) dims = &all;
  if (tn_scope_note(tni_mask_of(dims, tni_ndim(self), &mask)) != TN_OK) return NULL;
  if (dtype == TN_DTYPE_NONE) dtype = tn_tensor_dtype(self);
  tn_tensor *sum = tns_sum_dim(self, DIMS(dims), keepdim, tni_wide(dtype));
  return tni_as(tns_div_scalar(sum, tn_int(tni_count_along(self, mask))), dtype);
}

static tn_tensor *mean_all(const tn_value *args) {
  return mean_over(args[0].u.t, NULL, false, tni_dtype_of(&args[1]));
}
TN_SCOPED_BODY(mean_all, mean_all)

static tn_tensor *mean_dims(const tn_value *args) {
  return mean_over(args[0].u.t, &args[1], args[2].u.i, tni_dtype_of(&args[3]));
}
TN_SCOPED_BODY(mean_dims, mean_dims)

/* The complement turns the order of integers round without leaving their range; floats are negated. */
static tn_tensor *turned(tn_tensor *self) {
  return tn_tensor_dtype(self) < TN_FLOAT16 ? tns_bitwise_not(self) : tns_neg(self);
}

static tn_tensor *argmin(const tn_value *args) {
  return tns_argmax(turned(args[0].u.t), tni_int_or_null(&args[1]), args[2].u.i);
}
TN_SCOPED_BODY(argmin_parts, argmin)

/* args: self dim keepdim. Values are those at the indices. */
static void extreme_at(const tn_value *args, tn_tensor *ordered, tn_tensor **results) {
  tn_tensor *self = args[0].u.t;
  const int64_t dim = args[1].u.i;
  tn_tensor *indices = tns_argmax(ordered, &dim, true);
  tn_tensor *values =
      tn_tensor_ndim(self) ? tns_gather(self, dim, indices, false) : tns_clone(self, TN_CONTIGUOUS_FORMAT);
  bool keep = args[2].u.i || tn_tensor_ndim(self) == 0;
  results[0] = keep ? values : tns_clone(tns_squeeze_dim(values, dim), TN_CONTIGUOUS_FORMAT);
  results[1] = keep ? indices : tns_clone(tns_squeeze_dim(indices, dim), TN_CONTIGUOUS_FORMAT);
}
static void max_at(const tn_value *args, tn_tensor **results) { extreme_at(args, args[0].u.t, results); }
static void min_at(const tn_value *args, tn_tensor **results) {
  extreme_at(args, turned(args[0].u.t), results);
}
TN_SCOPED_BODY2(max_at, max_at)
TN_SCOPED_BODY2(min_at, min_at)

/* How many elements are not 0 (or are), compared with 0. Of uint8, which once stood for bool, uint8. */
static tn_tensor *truth_of(tn_tensor *self, tn_tensor *truth) {
  return tn_tensor_dtype(self) == TN_UINT8 ? tni_as(truth, TN_UINT8) : truth;
}
static tn_tensor *count(tn_tensor *elements, const int64_t *dim, bool keepdim) {
  return tns_sum_dim(elements, dim, dim ? 1 : 0, keepdim, TN_INT64);
}
static tn_tensor *any_over(tn_tensor *self, const int64_t *dim, bool keepdim) {
  return truth_of(self, tns_ne_scalar(count(tns_ne_scalar(self, tn_int(0)), dim, keepdim), tn_int(0)));
}
static tn_tensor *all_over(tn_tensor *self, const int64_t *dim, bool keepdim) {
  return truth_of(self, tns_eq_scalar(count(tns_eq_scalar(self, tn_int(0)), dim, keepdim), tn_int(0)));
}
static tn_tensor *any(const tn_value *args) { return any_over(args[0].u.t, NULL, false); }
static tn_tensor *all(const tn_value *args) { return all_over(args[0].u.t, NULL, false); }
static tn_tensor *any_dim(const tn_value *args) { return any_over(args[0].u.t, &args[1].u.i, args[2].u.i); }
static tn_tensor *all_dim(const tn_value *args) { return all_over(args[0].u.t, &args[1].u.i, args[2].u.i); }
TN_SCOPED_BODY(any_parts, any)
TN_SCOPED_BODY(all_parts, all)
TN_SCOPED_BODY(any_dim_parts, any_dim)
TN_SCOPED_BODY(all_dim_parts, all_dim)

/* args: self dim correction keepdim. Squares of what lies beside the mean; fewer elements than the correction: not a
 * number, or infinite. */
static tn_tensor *var(const tn_value *args) {
  tn_tensor *self = args[0].u.t;
  tn_dtype dtype = tn_tensor_dtype(self), wide = tni_wide(dtype);
  uint64_t mask;
  if (tn_scope_note(tni_mask_of(&args[1], tni_ndim(self), &mask)) != TN_OK) return NULL;
  double n = (double)tni_count_along(self, mask) - (tni_has(&args[2]) ? tni_double_of(&args[2]) : 1);
  tn_tensor *x = tni_as(self, wide);
  tn_tensor *beside = tns_sub(x, mean_over(x, &args[1], true, wide), tn_int(1));
  tn_tensor *sum = tns_sum_dim(tns_square(beside), DIMS(&args[1]), args[3].u.i, TN_DTYPE_NONE);
  return tni_as(tns_div_scalar(sum, tn_float(n > 0 ? n : 0)), dtype);
}
TN_SCOPED_BODY(var_parts, var)

/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise operators with a number beside a tensor, as those of two tensors: the number becomes a 0-d tensor on the
 * same device. So a backend gives one kernel for both.
 *
 * Note [A number's dtype]
 * A number never raises a tensor's dtype within its category, but a 0-d tensor would beside another 0-d tensor. So it
 * gets the tensor's own dtype where it fits the category; else the default dtype of its own category. What that dtype
 * cannot hold wraps (integers) or is infinite: arithmetic in the dtype goes on with it as ATen's does. A number that is
 * stored or bounds is refused instead, and so is a 0-d tensor's that is stored.
 */
#include <math.h>
#include <tenon/kit/dtype.h>

#include "registry/bodies/compose.h"

static tn_dtype beside(const tn_tensor *t, const tn_value *number) {
  tn_dtype dtype = tn_tensor_dtype(t);
  if (tn_kit_dtype_is_float(dtype) || (number->kind == TN_VAL_BOOL)) return dtype;
  if (number->kind == TN_VAL_INT) return dtype == TN_BOOL ? TN_INT64 : dtype;
  return TN_DTYPE_NONE; /* a factory's default */
}

/* The number as arithmetic in dtype sees it: see the note. */
static tn_scalar as_held(tn_dtype dtype, const tn_value *number) {
  if (dtype == TN_DTYPE_NONE && number->kind == TN_VAL_FLOAT) dtype = tn_default_dtype();
  if (dtype == TN_DTYPE_NONE || tn_kit_dtype_holds(dtype, number)) return *number;
  if (number->kind == TN_VAL_FLOAT || tn_kit_dtype_is_float(dtype))
    return tn_float(tni_double_of(number) < 0.0 ? -INFINITY : INFINITY);
  uint64_t bits = (uint64_t)number->u.i;
  int above = 64 - 8 * (int)tn_kit_dtype_size(dtype);
  return tn_int(dtype == TN_UINT8 ? (int64_t)(bits & 0xff) : (int64_t)(bits << above) >> above);
}

static tn_scalar as_it_is(tn_dtype dtype __attribute__((unused)), const tn_value *number) { return *number; }

/* Refuses a number that the dtype cannot hold. */
static tn_status as_tensor(const tn_tensor *like, const tn_value *number, tn_dtype dtype,
                           tn_tensor **out_tensor) {
  const tn_options options = {.dtype = dtype, .has_device = true, .device = tn_tensor_device(like)};
  return tn_scalar_tensor(*number, &options, out_tensor);
}

/* A quotient is a float whatever stands beside it, so an integer's sign must not be lost in an unsigned dtype. */
static tn_dtype quotient_dtype(const tn_tensor *t, const tn_value *number) {
  tn_dtype dtype = tn_tensor_dtype(t);
  return tn_kit_dtype_is_float(dtype) ? beside(t, number) : TN_DTYPE_NONE;
}

/* NAME(Tensor self, Scalar other, ...): `number` is other. */
#define BESIDE(NAME, self_, number_, call) BESIDE_AS(NAME, self_, number_, beside, as_held, call)
#define BESIDE_AS(NAME, self_, number_, dtype_of, held, call)              \
  TN_BODY(NAME) {                                                          \
    tn_tensor *self = args[self_].u.t, *number = NULL, *result = NULL;     \
    tn_dtype dtype = dtype_of(self, &args[number_]);                       \
    tn_scalar value = held(dtype, &args[number_]);                         \
    tn_status status = as_tensor(self, &value, dtype, &number);            \
    if (status == TN_OK) status = (call);                                  \
    tn_tensor_release(number);                                             \
    return tni_result(status, &result, out);                               \
  }

BESIDE(add_number, 0, 1, tn_add(self, number, args[2], &result))
BESIDE(sub_number, 0, 1, tn_sub(self, number, args[2], &result))
BESIDE(rsub_number, 0, 1, tn_sub(number, self, args[2], &result))
BESIDE(mul_number, 0, 1, tn_mul(self, number, &result))
BESIDE_AS(div_number, 0, 1, quotient_dtype, as_held, tn_div(self, number, &result))
BESIDE(remainder_number, 0, 1, tn_remainder(self, number, &result))
BESIDE(pow_number, 0, 1, tn_pow_tensor_tensor(self, number, &result))
BESIDE(number_pow, 1, 0, tn_pow_tensor_tensor(number, self, &result))
BESIDE_AS(clamp_min, 0, 1, beside, as_it_is, tn_maximum(self, number, &result))
BESIDE_AS(clamp_max, 0, 1, beside, as_it_is, tn_minimum(self, number, &result))
BESIDE(eq_number, 0, 1, tn_eq(self, number, &result))
BESIDE(ne_number, 0, 1, tn_ne(self, number, &result))
BESIDE(lt_number, 0, 1, tn_lt(self, number, &result))
BESIDE(le_number, 0, 1, tn_le(self, number, &result))
BESIDE(gt_number, 0, 1, tn_gt(self, number, &result))
BESIDE(ge_number, 0, 1, tn_ge(self, number, &result))

/* Refuses a 0-d tensor whose number the dtype cannot hold: it is stored, and reading it is what a number costs. */
static tn_status check_stored(tn_tensor *value, tn_dtype dtype) {
  tn_scalar number;
  if (tn_tensor_dtype(value) == dtype) return TN_OK;
  TN_TRY(tn_tensor_item(value, &number));
  if (tn_kit_dtype_holds(dtype, &number)) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected a number that %s can hold as 'value', got %.17g",
                 tn_kit_dtype_name(dtype), tni_double_of(&number));
}

/* copy_ broadcasts a 0-d tensor. */
TN_BODY(fill_tensor) {
  TN_TRY(check_stored(args[1].u.t, tn_tensor_dtype(args[0].u.t)));
  return tn_copy_(args[0].u.t, args[1].u.t, false);
}

/* where broadcasts value; its dtype follows self's. */
TN_BODY(masked_fill_tensor) {
  tn_tensor *self = args[0].u.t, *value = args[2].u.t, *t[2] = {NULL};
  if (tni_ndim(value) != 0)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected a 0-d 'value', got shape %s",
                   tni_shape_text(value, TN_SHAPE_TEXT));
  tn_status status;
  TNI_STEP(check_stored(value, tn_tensor_dtype(self)));
  TNI_STEP(tn_to_dtype(value, tn_tensor_dtype(self), false, false, 0, &t[0]));
  TNI_STEP(tn_where(args[1].u.t, t[0], self, &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[1]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(masked_fill_number) {
  tn_tensor *self = args[0].u.t, *value = NULL, *result = NULL;
  tn_status status = as_tensor(self, &args[2], tn_tensor_dtype(self), &value);
  if (status == TN_OK) status = tn_where(args[1].u.t, value, self, &result);
  tn_tensor_release(value);
  return tni_result(status, &result, out);
}

/* (self > 0) - (self < 0) in self's dtype; what has no sign is 0 or 1. */
TN_BODY(sign) {
  enum { ABOVE, BELOW, PLUS, MINUS, RESULT, N };
  tn_tensor *self = args[0].u.t, *t[N] = {NULL};
  tn_dtype dtype = tn_tensor_dtype(self);
  bool has_sign = dtype != TN_BOOL && dtype != TN_UINT8;
  tn_status status;
  TNI_STEP(tn_gt_scalar(self, tn_int(0), &t[ABOVE]));
  TNI_STEP(tn_to_dtype(t[ABOVE], dtype, false, true, 0, &t[PLUS]));
  if (has_sign) {
    TNI_STEP(tn_lt_scalar(self, tn_int(0), &t[BELOW]));
    TNI_STEP(tn_to_dtype(t[BELOW], dtype, false, true, 0, &t[MINUS]));
    TNI_STEP(tn_sub(t[PLUS], t[MINUS], tn_int(1), &t[RESULT]));
  }
  out[0] = tn_value_tensor(tni_take(&t[has_sign ? RESULT : PLUS]));
done:
  TNI_RELEASE(t);
  return status;
}

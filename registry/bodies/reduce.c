/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions written with others (deviations, norms, logsumexp, counts) and the gradients that send
 * a reduced value back to the elements it came from.
 */
#include <math.h>

#include "registry/bodies/compose.h"

/* A dim list argument as the typed calls take it. */
#define DIMS(value) ((value)->u.ints), (tni_has(value) ? (value)->count : 0)

TN_BODY(std) {
  tn_tensor *t[2] = {NULL};
  tn_status status;
  const int64_t *dims = tni_has(&args[1]) ? args[1].u.ints : NULL;
  TNI_STEP(tn_var(args[0].u.t, dims, dims ? args[1].count : 0, args[2], args[3].u.i, &t[0]));
  TNI_STEP(tn_sqrt(t[0], &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[1]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(count_nonzero) {
  tn_tensor *t[2] = {NULL};
  const int64_t *dim = tni_int_or_null(&args[1]);
  tn_status status;
  TNI_STEP(tn_ne_scalar(args[0].u.t, tn_int(0), &t[0]));
  TNI_STEP(tn_sum_dim(t[0], dim, dim ? 1 : 0, false, TN_DTYPE_NONE, &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[1]));
done:
  TNI_RELEASE(t);
  return status;
}

/* Of nothing at all: the logarithm of 0. amax has no answer there. */
static tn_status logsumexp_of_nothing(tn_tensor *self, const tn_value *dims, bool keepdim, tn_value *out) {
  tn_tensor *sum = NULL, *result = NULL;
  TN_TRY(tn_sum_dim(self, DIMS(dims), keepdim, TN_DTYPE_NONE, &sum));
  tn_status status = tn_log_op(sum, &result);
  tn_tensor_release(sum);
  return tni_result(status, &result, out);
}

/* The largest element is taken out first; where it is infinite, 0 is, so that infinities stay and
 * make no NaN. */
TN_BODY(logsumexp) {
  enum { SELF, MOST, INFINITE, SHIFT, CONSTANT, LESS, EXP, SUM, LOG, FLAT, RESULT, N };
  tn_tensor *self = args[0].u.t, *t[N] = {NULL};
  bool keepdim = args[2].u.i, whole = tn_tensor_dtype(self) < TN_FLOAT16;
  tn_status status;
  if (whole) {
    TNI_STEP(tn_to_dtype(self, tn_default_dtype(), false, false, 0, &t[SELF]));
    self = t[SELF];
  }
  if (tn_tensor_numel(self) == 0) {
    status = logsumexp_of_nothing(self, &args[1], keepdim, out);
    goto done;
  }
  TNI_STEP(tn_amax(self, DIMS(&args[1]), true, &t[MOST]));
  TNI_STEP(tn_isinf(t[MOST], &t[INFINITE]));
  TNI_STEP(tn_masked_fill(t[MOST], t[INFINITE], tn_int(0), &t[SHIFT]));
  TNI_STEP(tn_detach(t[SHIFT], &t[CONSTANT]));
  TNI_STEP(tn_sub(self, t[CONSTANT], tn_int(1), &t[LESS]));
  TNI_STEP(tn_exp(t[LESS], &t[EXP]));
  TNI_STEP(tn_sum_dim(t[EXP], DIMS(&args[1]), keepdim, TN_DTYPE_NONE, &t[SUM]));
  TNI_STEP(tn_log_op(t[SUM], &t[LOG]));
  TNI_STEP(tn_reshape(t[CONSTANT], tn_tensor_sizes(t[LOG]), tni_ndim(t[LOG]), &t[FLAT]));
  TNI_STEP(tn_add(t[LOG], t[FLAT], tn_int(1), &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
done:
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ norms */

static tn_status power_norm(tn_tensor *magnitude, double order, const tn_value *dims, bool keepdim,
                            tn_tensor **out_norm) {
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TNI_STEP(tn_pow_tensor_scalar(magnitude, tn_float(order), &t[0]));
  TNI_STEP(tn_sum_dim(t[0], DIMS(dims), keepdim, TN_DTYPE_NONE, &t[1]));
  TNI_STEP(tn_pow_tensor_scalar(t[1], tn_float(1 / order), out_norm));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status square_norm(tn_tensor *self, const tn_value *dims, bool keepdim, tn_tensor **out_norm) {
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TNI_STEP(tn_square(self, &t[0]));
  TNI_STEP(tn_sum_dim(t[0], DIMS(dims), keepdim, TN_DTYPE_NONE, &t[1]));
  TNI_STEP(tn_sqrt(t[1], out_norm));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status zero_norm(tn_tensor *self, const tn_value *dims, bool keepdim, tn_tensor **out_norm) {
  tn_tensor *t[1] = {NULL};
  tn_status status;
  TNI_STEP(tn_ne_scalar(self, tn_int(0), &t[0]));
  TNI_STEP(tn_sum_dim(t[0], DIMS(dims), keepdim, tn_tensor_dtype(self), out_norm));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status norm_of(tn_tensor *self, double order, const tn_value *dims, bool keepdim,
                         tn_tensor **out_norm) {
  if (order == 2) return square_norm(self, dims, keepdim, out_norm);
  if (order == 0) return zero_norm(self, dims, keepdim, out_norm);
  tn_tensor *magnitude = NULL;
  TN_TRY(tn_abs(self, &magnitude));
  tn_status status;
  if (order == 1)
    status = tn_sum_dim(magnitude, DIMS(dims), keepdim, TN_DTYPE_NONE, out_norm);
  else if (isinf(order))
    status = order > 0 ? tn_amax(magnitude, DIMS(dims), keepdim, out_norm)
                       : tn_amin(magnitude, DIMS(dims), keepdim, out_norm);
  else
    status = power_norm(magnitude, order, dims, keepdim, out_norm);
  tn_tensor_release(magnitude);
  return status;
}

TN_BODY(vector_norm) {
  tn_tensor *self = args[0].u.t, *t[2] = {NULL};
  tn_dtype dtype = tni_has(&args[4]) ? (tn_dtype)args[4].u.i : tn_tensor_dtype(self);
  if (dtype < TN_FLOAT16 || dtype > TN_FLOAT64)
    return tn_fail(TN_ERR_DTYPE, "expected a floating dtype for the norm, got %s", tn_dtype_name(dtype));
  tn_status status;
  TNI_STEP(tn_to_dtype(self, dtype, false, false, 0, &t[0]));
  TNI_STEP(norm_of(t[0], tni_double_of(&args[1]), &args[2], args[3].u.i, &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[1]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(norm_dim) {
  tn_tensor *result = NULL;
  tn_scalar order = tni_has(&args[1]) ? args[1] : tn_int(2);
  return tni_result(tn_linalg_vector_norm(args[0].u.t, order, args[2].u.ints, args[2].count, args[3].u.i,
                                          TN_DTYPE_NONE, &result),
                    &result, out);
}

TN_BODY(norm) {
  tn_tensor *result = NULL;
  return tni_result(tn_linalg_vector_norm(args[0].u.t, args[1], NULL, 0, false, TN_DTYPE_NONE, &result),
                    &result, out);
}

/* ------------------------------------------------------------------ back to the elements */

/* grad * (self == result) / how many are equal, over the reduced dims. Where the result is NaN, the elements that are NaN
 * are its equals. */
TN_BODY(extreme_backward) {
  enum { GRAD, MOST, SAME, UNORDERED, EQUAL, COUNT, PART, RESULT, N };
  tn_tensor *self = args[1].u.t, *t[N] = {NULL};
  int64_t ndim = tni_ndim(self);
  bool keepdim = args[4].u.i;
  tn_status status;
  TNI_STEP(tn__unreduce(args[0].u.t, DIMS(&args[3]), keepdim, ndim, &t[GRAD]));
  TNI_STEP(tn__unreduce(args[2].u.t, DIMS(&args[3]), keepdim, ndim, &t[MOST]));
  TNI_STEP(tn_eq(self, t[MOST], &t[SAME]));
  TNI_STEP(tn_isnan(self, &t[UNORDERED]));
  TNI_STEP(tn_logical_or(t[SAME], t[UNORDERED], &t[EQUAL]));
  TNI_STEP(tn_sum_dim(t[EQUAL], DIMS(&args[3]), true, TN_DTYPE_NONE, &t[COUNT]));
  TNI_STEP(tn_div(t[GRAD], t[COUNT], &t[PART]));
  TNI_STEP(tn_mul(t[PART], t[EQUAL], &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(value_selecting_reduction_backward) {
  enum { GRAD, INDICES, ZEROS, RESULT, N };
  tn_tensor *grad = args[0].u.t, *indices = args[2].u.t, *t[N] = {NULL};
  int64_t dim = args[1].u.i;
  bool widen = !args[4].u.i && args[3].count > 0;
  tn_status status;
  t[GRAD] = widen ? NULL : tn_tensor_retain(grad);
  t[INDICES] = widen ? NULL : tn_tensor_retain(indices);
  if (widen) {
    TNI_STEP(tn_unsqueeze(grad, dim, &t[GRAD]));
    TNI_STEP(tn_unsqueeze(indices, dim, &t[INDICES]));
  }
  TNI_STEP(tn_new_zeros(grad, args[3].u.ints, args[3].count, NULL, &t[ZEROS]));
  TNI_STEP(tn_scatter(t[ZEROS], dim, t[INDICES], t[GRAD], &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
done:
  TNI_RELEASE(t);
  return status;
}

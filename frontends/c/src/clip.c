/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient clipping. The norm is summed per parameter on its device and joined here in double, so parameters
 * may live on several devices.
 */
#include <math.h>
#include <tenon/optim.h>

#include "frontends/c/src/support.h"

/* Takes a step's result in place of *t, which is released. */
static tn_status replace(tn_tensor **t, tn_status status, tn_tensor **result) {
  tn_tensor_release(*t);
  *t = *result; /* NULL after a failure */
  *result = NULL;
  return status;
}

/* Half precision overflows in squares at 256, so it is summed in float32. */
static tn_status widened(tn_tensor *grad, tn_tensor **out) {
  tn_dtype dtype = tn_tensor_dtype(grad);
  bool half = (TN_DTYPE_BIT(dtype) & TN_DTYPES_HALF) != 0;
  return tn_to_dtype(grad, half ? TN_FLOAT32 : dtype, false, false, TN_MEMORY_FORMAT_NONE, out);
}

/* Sum of |g|^p, or the largest |g| for infinite p. */
static tn_status one_norm(tn_tensor *grad, double p, double *out_value) {
  tn_tensor *t = NULL, *r = NULL;
  *out_value = 0.0;
  if (tn_tensor_numel(grad) == 0) return TN_OK;
  TN_TRY(widened(grad, &t));
  tn_status status = p == 2.0 ? tn_mul(t, t, &r) : tn_abs(t, &r); /* a square needs no magnitude */
  TN_TRY(replace(&t, status, &r));
  if (p != 2.0 && !isinf(p)) {
    status = tn_pow_tensor_scalar(t, tn_float(p), &r);
    TN_TRY(replace(&t, status, &r));
  }
  status = isinf(p) ? tn_amax(t, NULL, 0, false, &r) : tn_sum(t, TN_DTYPE_NONE, &r);
  TN_TRY(replace(&t, status, &r));
  status = tn_tensor_item_double(t, out_value);
  tn_tensor_release(t);
  return status;
}

static tn_status joint_norm(tn_tensor *const *parameters, size_t n, double p, double *out_norm) {
  double joint = 0.0;
  for (size_t i = 0; i < n; i++) {
    tn_tensor *grad = tn_grad(parameters[i]);
    double one;
    if (!grad) continue;
    TN_TRY(one_norm(grad, p, &one));
    /* fmax would drop a NaN. */
    joint = !isinf(p) ? joint + one : isnan(one) || one > joint ? one : joint;
    if (isnan(joint)) break;
  }
  *out_norm = isinf(p) ? joint : pow(joint, 1.0 / p);
  return TN_OK;
}

static tn_status check(tn_tensor *const *parameters, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!parameters[i]) return tn_fail(TN_ERR_INVALID_ARGUMENT, "clipping: parameter %zu is NULL", i);
  return TN_OK;
}

static tn_status clip_norm(tn_tensor *const *parameters, size_t n, double max_norm, double p,
                           bool error_if_nonfinite, double *out_norm) {
  double norm = 0.0;
  TN_TRY(joint_norm(parameters, n, p, &norm));
  if (out_norm) *out_norm = norm;
  if (error_if_nonfinite && !isfinite(norm))
    return tn_fail(TN_ERR_DATA, "tn_clip_grad_norm: the gradients' norm is %g", norm);
  double factor = max_norm / (norm + 1e-6); /* PyTorch's guard against a zero norm */
  for (size_t i = 0; i < n && !(factor >= 1.0); i++) {
    tn_tensor *grad = tn_grad(parameters[i]);
    if (grad) TN_TRY(tn_mul_scalar_(grad, tn_float(factor)));
  }
  return TN_OK;
}

tn_status tn_clip_grad_norm(tn_tensor *const *parameters, size_t n, double max_norm, double p,
                            bool error_if_nonfinite, double *out_norm) {
  TN_TRY(check(parameters, n));
  if (!(max_norm >= 0.0) || !(p > 0.0))
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "tn_clip_grad_norm: max_norm >= 0 and p > 0 were expected, not %g and %g", max_norm, p);
  bool grad = tn_grad_mode_set(false);
  tn_status status = clip_norm(parameters, n, max_norm, p, error_if_nonfinite, out_norm);
  tn_grad_mode_set(grad);
  return status;
}

tn_status tn_clip_grad_value(tn_tensor *const *parameters, size_t n, double limit) {
  TN_TRY(check(parameters, n));
  if (!(limit >= 0.0))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_clip_grad_value: a limit >= 0 was expected, %g came", limit);
  bool mode = tn_grad_mode_set(false);
  tn_status status = TN_OK;
  for (size_t i = 0; i < n && status == TN_OK; i++) {
    tn_tensor *grad = tn_grad(parameters[i]);
    if (grad) status = tn_clamp_(grad, tn_float(-limit), tn_float(limit));
  }
  tn_grad_mode_set(mode);
  return status;
}

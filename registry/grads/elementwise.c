/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of powers and of the tanh form of gelu. Where a base or an exponent is 0 the derivative
 * is 0 by convention, not what 0 times an infinity would give.
 */
#include "registry/bodies/compose.h"

/* d/dx of x^p: grad * p * x^(p - 1); p = 0 gives no gradient. */
TN_GRAD(pow_tensor_scalar) {
  tn_tensor *self = ctx->args[0].u.t, *t[2] = {NULL};
  tn_scalar exponent = ctx->args[1];
  bool whole = exponent.kind != TN_VAL_FLOAT;
  double p = tni_double_of(&exponent);
  if (!(ctx->wanted & 1) || p == 0) return TN_OK;
  tn_status status;
  TNI_STEP(tn_pow_tensor_scalar(self, whole ? tn_int(exponent.u.i - 1) : tn_float(p - 1), &t[0]));
  TNI_STEP(tn_mul_scalar(t[0], exponent, &t[1]));
  TNI_STEP(tn_mul(grad_outs[0], t[1], &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* grad * exponent * self^(exponent - 1), 0 where exponent is 0. */
static tn_status pow_base(tn_tensor *grad, tn_tensor *self, tn_tensor *exponent, tn_tensor **out_grad) {
  enum { LESS, POWER, FACTOR, ZERO, KEPT, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_sub_scalar(exponent, tn_int(1), tn_int(1), &t[LESS]));
  TNI_STEP(tn_pow_tensor_tensor(self, t[LESS], &t[POWER]));
  TNI_STEP(tn_mul(exponent, t[POWER], &t[FACTOR]));
  TNI_STEP(tn_eq_scalar(exponent, tn_int(0), &t[ZERO]));
  TNI_STEP(tn_masked_fill(t[FACTOR], t[ZERO], tn_int(0), &t[KEPT]));
  TNI_STEP(tn_mul(grad, t[KEPT], out_grad));
done:
  TNI_RELEASE(t);
  return status;
}

/* grad * result * log(self), 0 where self is 0 and exponent is not negative: there the logarithm is
 * taken of 1. */
static tn_status pow_exponent(tn_tensor *grad, tn_tensor *self, tn_tensor *exponent, tn_tensor *result,
                              tn_tensor **out_grad) {
  enum { ZERO, RISING, NONE, BASE, LOG, FACTOR, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_eq_scalar(self, tn_int(0), &t[ZERO]));
  TNI_STEP(tn_ge_scalar(exponent, tn_int(0), &t[RISING]));
  TNI_STEP(tn_logical_and(t[ZERO], t[RISING], &t[NONE]));
  TNI_STEP(tn_masked_fill(self, t[NONE], tn_int(1), &t[BASE]));
  TNI_STEP(tn_log_op(t[BASE], &t[LOG]));
  TNI_STEP(tn_mul(result, t[LOG], &t[FACTOR]));
  TNI_STEP(tn_mul(grad, t[FACTOR], out_grad));
done:
  TNI_RELEASE(t);
  return status;
}

TN_GRAD(pow_tensor_tensor) {
  tn_tensor *self = ctx->args[0].u.t, *exponent = ctx->args[1].u.t;
  tn_status status = TN_OK;
  if (ctx->wanted & 1) status = pow_base(grad_outs[0], self, exponent, &grad_ins[0]);
  if (status == TN_OK && ctx->wanted & 2)
    status = pow_exponent(grad_outs[0], self, exponent, ctx->outs[0], &grad_ins[1]);
  return tni_grads(status, grad_ins, 2);
}

TN_GRAD(pow_scalar) {
  tn_tensor *exponent = ctx->args[1].u.t, *result = ctx->outs[0], *t[3] = {NULL};
  if (!(ctx->wanted & 1)) return TN_OK;
  tn_options options = {.dtype = TN_FLOAT64, .has_device = true, .device = tn_tensor_device(result)};
  tn_status status;
  TNI_STEP(tn_scalar_tensor(ctx->args[0], &options, &t[1])); /* too large for the dtype: infinite there */
  TNI_STEP(tn_to_dtype(t[1], tn_tensor_dtype(result), false, false, 0, &t[0]));
  TNI_STEP(pow_exponent(grad_outs[0], t[0], exponent, result, &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* The second derivative of 0.5 x (1 + tanh u), u = k (x + a x^3): with s = 1 - tanh(u)^2 and u' = k
 * (1 + 3 a x^2) it is s u' + 0.5 x s (6 k a x - 2 tanh(u) u'^2). */
static tn_status gelu_tanh_second(tn_tensor *x, tn_tensor **out_second) {
  const double k = 0.7978845608028654, a = 0.044715;
  enum { X2, INNER, U, TANH, T2, S, D3, D, SU, D2, TD, LEFT, RIGHT, BOTH, HALF, PRODUCT, N };
  tn_tensor *t[N] = {NULL};
  tn_scalar one = tn_int(1);
  tn_status status;
  TNI_STEP(tn_square(x, &t[X2]));
  TNI_STEP(tn_mul_scalar(t[X2], tn_float(k * a), &t[D3]));
  TNI_STEP(tn_add_scalar(t[D3], tn_float(k), one, &t[INNER]));
  TNI_STEP(tn_mul(t[INNER], x, &t[U]));
  TNI_STEP(tn_tanh(t[U], &t[TANH]));
  TNI_STEP(tn_square(t[TANH], &t[T2]));
  TNI_STEP(tn_rsub_scalar(t[T2], one, one, &t[S]));
  TNI_STEP(tn_add(t[INNER], t[D3], tn_int(2), &t[D]));
  TNI_STEP(tn_mul(t[S], t[D], &t[SU]));
  TNI_STEP(tn_square(t[D], &t[D2]));
  TNI_STEP(tn_mul(t[TANH], t[D2], &t[TD]));
  TNI_STEP(tn_mul_scalar(x, tn_float(6 * k * a), &t[LEFT]));
  TNI_STEP(tn_sub(t[LEFT], t[TD], tn_int(2), &t[RIGHT]));
  TNI_STEP(tn_mul(t[S], t[RIGHT], &t[BOTH]));
  TNI_STEP(tn_mul(t[BOTH], x, &t[PRODUCT]));
  TNI_STEP(tn_mul_scalar(t[PRODUCT], tn_float(0.5), &t[HALF]));
  TNI_STEP(tn_add(t[SU], t[HALF], one, out_second));
done:
  TNI_RELEASE(t);
  return status;
}

TN_GRAD(gelu_tanh_backward) {
  tn_tensor *grad_output = ctx->args[0].u.t, *self = ctx->args[1].u.t, *t[2] = {NULL};
  tn_status status = TN_OK;
  if (ctx->wanted & 1) TNI_STEP(tn__gelu_tanh_backward(grad_outs[0], self, &grad_ins[0]));
  if (ctx->wanted & 2) {
    TNI_STEP(gelu_tanh_second(self, &t[0]));
    TNI_STEP(tn_mul(grad_outs[0], grad_output, &t[1]));
    TNI_STEP(tn_mul(t[1], t[0], &grad_ins[1]));
  }
done:
  TNI_RELEASE(t);
  return tni_grads(status, grad_ins, 2);
}

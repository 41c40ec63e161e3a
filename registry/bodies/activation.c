/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations that split or broadcast their arguments, and gradients of activations that are made of other operators.
 */
#include "registry/bodies/compose.h"

/* args: grad_output alpha scale input_scale is_result self_or_result */
TN_BODY(elu_backward) {
  enum { POSITIVE, RIGHT, INNER, GROWTH, SLOPE, LEFT, RESULT, N };
  tn_tensor *grad = args[0].u.t, *x = args[5].u.t, *t[N] = {NULL};
  double alpha = tni_double_of(&args[1]), scale = tni_double_of(&args[2]), inner = tni_double_of(&args[3]);
  bool is_result = args[4].u.i;
  if (is_result && alpha < 0)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected alpha of at least 0 with a result, got %g", alpha);
  tn_status status;
  TNI_STEP(tn_gt_scalar(x, tn_int(0), &t[POSITIVE]));
  TNI_STEP(tn_mul_scalar(grad, args[2], &t[RIGHT]));
  if (is_result) { /* inner * (result + alpha * scale) */
    TNI_STEP(tn_add_scalar(x, tn_float(alpha * scale), tn_int(1), &t[GROWTH]));
    TNI_STEP(tn_mul_scalar(t[GROWTH], args[3], &t[SLOPE]));
  } else { /* exp(inner * x) * inner * alpha * scale; what is positive must not overflow */
    TNI_STEP(tn_clamp_max(x, tn_int(0), &t[INNER]));
    TNI_STEP(tn_mul_scalar(t[INNER], args[3], &t[GROWTH]));
    TNI_STEP(tn_exp(t[GROWTH], &t[SLOPE]));
    tn_tensor_release(tni_take(&t[GROWTH]));
    TNI_STEP(tn_mul_scalar(t[SLOPE], tn_float(inner * alpha * scale), &t[GROWTH]));
    tn_tensor_release(tni_take(&t[SLOPE]));
    t[SLOPE] = tni_take(&t[GROWTH]);
  }
  TNI_STEP(tn_mul(grad, t[SLOPE], &t[LEFT]));
  TNI_STEP(tn_where(t[POSITIVE], t[RIGHT], t[LEFT], &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(celu) {
  tn_tensor *result = NULL;
  double alpha = tni_double_of(&args[1]);
  if (alpha == 0) return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected an alpha other than 0");
  return tni_result(tn_elu(args[0].u.t, args[1], tn_int(1), tn_float(1 / alpha), &result), &result, out);
}

/* args: grad self beta threshold. beta * s * (1 - s) with s = sigmoid(beta * self), 0 beyond threshold. */
TN_BODY(softplus_curvature) {
  enum { INNER, S, SLOPE, SCALED, BEYOND, RESULT, N };
  tn_tensor *grad = args[0].u.t, *self = args[1].u.t, *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_mul_scalar(self, args[2], &t[INNER]));
  TNI_STEP(tn_sigmoid(t[INNER], &t[S]));
  TNI_STEP(tn_sigmoid_backward(grad, t[S], &t[SLOPE]));
  TNI_STEP(tn_mul_scalar(t[SLOPE], args[2], &t[SCALED]));
  TNI_STEP(tn_gt_scalar(t[INNER], args[3], &t[BEYOND]));
  TNI_STEP(tn_masked_fill(t[SCALED], t[BEYOND], tn_int(0), &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
done:
  TNI_RELEASE(t);
  return status;
}

/* grad * (w + self * sigmoid(self) * (1 - w * w)) with w = tanh(softplus(self)) */
TN_BODY(mish_backward) {
  enum { SOFT, W, SQUARE, REST, SWISH, SLOPE, WHOLE, RESULT, N };
  tn_tensor *grad = args[0].u.t, *self = args[1].u.t, *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_softplus(self, tn_int(1), tn_int(20), &t[SOFT]));
  TNI_STEP(tn_tanh(t[SOFT], &t[W]));
  TNI_STEP(tn_square(t[W], &t[SQUARE]));
  TNI_STEP(tn_rsub_scalar(t[SQUARE], tn_int(1), tn_int(1), &t[REST]));
  TNI_STEP(tn_silu(self, &t[SWISH]));
  TNI_STEP(tn_mul(t[SWISH], t[REST], &t[SLOPE]));
  TNI_STEP(tn_add(t[W], t[SLOPE], tn_int(1), &t[WHOLE]));
  TNI_STEP(tn_mul(grad, t[WHOLE], &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(prelu) {
  tn_tensor *self = args[0].u.t, *weight = args[1].u.t, *t[2] = {NULL};
  uint32_t ndim = tni_ndim(self);
  tn_dim channels = ndim > 1 ? tn_tensor_sizes(self)[1] : TN_DIM(1);
  tn_dim n = TN_DIM(tn_tensor_numel(weight));
  if (tni_ndim(weight) > 1 || (TN_DIM_NE(n, 1) && TN_DIM_NE(n, channels)))
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "expected 'weight' with 1 element or one a channel of %s, got shape %s",
                   tni_shape_text(self, TN_SHAPE_TEXT), tni_shape_text(weight, TN_SHAPE_TEXT));
  int64_t shape[TN_MAX_RANK];
  for (uint32_t i = 0; i < ndim; i++) shape[i] = 1;
  if (ndim > 1) shape[1] = n;
  tn_status status;
  TNI_STEP(tn_reshape(weight, shape, ndim, &t[0]));
  TNI_STEP(tn__prelu_kernel(self, t[0], &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[1]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(glu) {
  enum { FIRST, SECOND, GATE, RESULT, N };
  tn_tensor *self = args[0].u.t, *t[N] = {NULL};
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, tni_ndim(self), &dim));
  tn_dim size = tni_ndim(self) ? tn_tensor_sizes(self)[dim] : TN_DIM(1);
  if (TN_DIM_NE(TN_DIM_MOD(size, 2), 0))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected an even size at dim %u, got shape %s", dim,
                   tni_shape_text(self, TN_SHAPE_TEXT));
  tn_dim half = TN_DIM_DIV(size, 2);
  tn_status status;
  TNI_STEP(tn_narrow(self, dim, 0, half, &t[FIRST]));
  TNI_STEP(tn_narrow(self, dim, half, half, &t[SECOND]));
  TNI_STEP(tn_sigmoid(t[SECOND], &t[GATE]));
  TNI_STEP(tn_mul(t[FIRST], t[GATE], &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
done:
  TNI_RELEASE(t);
  return status;
}

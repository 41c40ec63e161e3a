/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of means, products, variances and norms: those that need counts of elements or a case
 * per order.
 */
#include <math.h>

#include "registry/bodies/compose.h"

#define DIMS(value) ((value)->u.ints), (tni_has(value) ? (value)->count : 0)

TN_GRAD(mean_dim) {
  tn_tensor *self = ctx->args[0].u.t, *t[2] = {NULL};
  if (!(ctx->wanted & 1)) return TN_OK;
  uint32_t ndim = tni_ndim(self);
  uint64_t mask;
  TN_TRY(tni_mask_of(&ctx->args[1], ndim, &mask));
  tn_status status;
  TNI_STEP(tn__unreduce(grad_outs[0], DIMS(&ctx->args[1]), ctx->args[2].u.i, ndim, &t[0]));
  TNI_STEP(tn_div_scalar(t[0], tn_int(tni_count_along(self, mask)), &t[1]));
  TNI_STEP(tn_expand(t[1], tn_tensor_sizes(self), ndim, false, &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ products */

/* Note [Gradient of a product]
 * The derivative by one factor is the product of all others. Dividing the whole product by the
 * factor fails at zeros, so the products of everything before and of everything after each element
 * are multiplied. Both are built in log2(n) steps of shifting and multiplying, which holds for any
 * number of zeros and differentiates again. */
static tn_status shifted(tn_tensor *self, uint32_t dim, tn_dim by, bool forward, tn_tensor **out_shifted) {
  tn_tensor *t[2] = {NULL};
  tn_dim sizes[TN_MAX_RANK], size = tn_tensor_sizes(self)[dim];
  for (uint32_t i = 0; i < tni_ndim(self); i++) sizes[i] = tn_tensor_sizes(self)[i];
  sizes[dim] = by;
  tn_status status;
  TNI_STEP(tn_new_full(self, sizes, tni_ndim(self), tn_int(1), NULL, &t[forward ? 0 : 1]));
  TNI_STEP(tn_narrow(self, dim, forward ? 0 : by, TN_DIM_SUB(size, by), &t[forward ? 1 : 0]));
  TNI_STEP(tn_cat(t, 2, dim, out_shifted));
done:
  TNI_RELEASE(t);
  return status;
}

/* The product of all elements before (or after) each one along dim. */
static tn_status products_beside(tn_tensor *self, uint32_t dim, bool before, tn_tensor **out_products) {
  tn_tensor *t[3] = {NULL};
  tn_dim size = tn_tensor_sizes(self)[dim];
  tn_status status;
  TNI_STEP(shifted(self, dim, TN_DIM(1), before, &t[0]));
  for (tn_dim by = TN_DIM(1); TN_DIM_LT(by, size); by = TN_DIM_MUL(by, 2)) {
    TNI_STEP(shifted(t[0], dim, by, before, &t[1]));
    TNI_STEP(tn_mul(t[0], t[1], &t[2]));
    tn_tensor_release(t[0]);
    tn_tensor_release(tni_take(&t[1]));
    t[0] = tni_take(&t[2]);
  }
  *out_products = tni_take(&t[0]);
done:
  TNI_RELEASE(t);
  return status;
}

/* grad (broadcast along dim) times the product of the others. */
static tn_status product_grad(tn_tensor *grad, tn_tensor *self, uint32_t dim, tn_tensor **out_grad) {
  tn_tensor *t[3] = {NULL};
  tn_status status;
  TNI_STEP(products_beside(self, dim, true, &t[0]));
  TNI_STEP(products_beside(self, dim, false, &t[1]));
  TNI_STEP(tn_mul(t[0], t[1], &t[2]));
  TNI_STEP(tn_mul(grad, t[2], out_grad));
done:
  TNI_RELEASE(t);
  return status;
}

TN_GRAD(prod) {
  tn_tensor *self = ctx->args[0].u.t, *t[2] = {NULL};
  if (!(ctx->wanted & 1) || tn_tensor_numel(self) == 0) return TN_OK;
  tn_status status;
  TNI_STEP(tn_reshape(self, (const int64_t[]){-1}, 1, &t[0]));
  TNI_STEP(product_grad(grad_outs[0], t[0], 0, &t[1]));
  TNI_STEP(tn_reshape(t[1], tn_tensor_sizes(self), tni_ndim(self), &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_GRAD(prod_dim) {
  tn_tensor *self = ctx->args[0].u.t, *t[1] = {NULL};
  int64_t dim = ctx->args[1].u.i;
  uint32_t ndim = tni_ndim(self), at;
  if (!(ctx->wanted & 1) || tn_tensor_numel(self) == 0) return TN_OK;
  TN_TRY(tn_shape_wrap_dim(dim, ndim, &at));
  if (ndim == 0) {
    grad_ins[0] = tn_tensor_retain(grad_outs[0]);
    return TN_OK;
  }
  tn_status status;
  TNI_STEP(tn__unreduce(grad_outs[0], &dim, 1, ctx->args[2].u.i, ndim, &t[0]));
  TNI_STEP(product_grad(t[0], self, at, &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ variances */

/* grad * (self - mean) * 2 / (n - correction). */
static tn_status variance_grad(tn_tensor *grad, tn_tensor *self, const tn_value *args, tn_tensor **out_grad) {
  enum { MEAN, CENTRED, WIDE, PRODUCT, N };
  tn_tensor *t[N] = {NULL};
  uint32_t ndim = tni_ndim(self);
  uint64_t mask;
  TN_TRY(tni_mask_of(&args[1], ndim, &mask));
  double divisor = (double)TN_DIM_INT(tni_count_along(self, mask));
  divisor -= tni_has(&args[2]) ? tni_double_of(&args[2]) : 1;
  const int64_t *dims = tni_has(&args[1]) ? args[1].u.ints : NULL;
  tn_status status;
  TNI_STEP(tn_mean_dim(self, dims, dims ? args[1].count : 0, true, TN_DTYPE_NONE, &t[MEAN]));
  TNI_STEP(tn_sub(self, t[MEAN], tn_int(1), &t[CENTRED]));
  TNI_STEP(tn__unreduce(grad, dims, dims ? args[1].count : 0, args[3].u.i, ndim, &t[WIDE]));
  TNI_STEP(tn_mul(t[WIDE], t[CENTRED], &t[PRODUCT]));
  TNI_STEP(tn_mul_scalar(t[PRODUCT], tn_float(2 / divisor), out_grad));
done:
  TNI_RELEASE(t);
  return status;
}

TN_GRAD(var) {
  if (!(ctx->wanted & 1)) return TN_OK;
  return variance_grad(grad_outs[0], ctx->args[0].u.t, ctx->args, &grad_ins[0]);
}

/* By way of the variance; where the deviation is 0 the gradient is 0. */
TN_GRAD(std) {
  enum { TWICE, ZERO, DIVISOR, QUOTIENT, KEPT, N };
  tn_tensor *result = ctx->outs[0], *t[N] = {NULL};
  if (!(ctx->wanted & 1)) return TN_OK;
  tn_status status;
  TNI_STEP(tn_mul_scalar(result, tn_int(2), &t[TWICE]));
  TNI_STEP(tn_eq_scalar(result, tn_int(0), &t[ZERO]));
  TNI_STEP(tn_masked_fill(t[TWICE], t[ZERO], tn_int(1), &t[DIVISOR]));
  TNI_STEP(tn_div(grad_outs[0], t[DIVISOR], &t[QUOTIENT]));
  TNI_STEP(tn_masked_fill(t[QUOTIENT], t[ZERO], tn_int(0), &t[KEPT]));
  TNI_STEP(variance_grad(t[KEPT], ctx->args[0].u.t, ctx->args, &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ norms */

/* grad / norm^(order - 1), 0 where the norm is 0: there the power is taken of 1. */
static tn_status norm_scale(tn_tensor *grad, tn_tensor *norm, double order, tn_tensor **out_scale) {
  enum { ZERO, BASE, POWER, PRODUCT, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_eq_scalar(norm, tn_int(0), &t[ZERO]));
  TNI_STEP(tn_masked_fill(norm, t[ZERO], tn_int(1), &t[BASE]));
  TNI_STEP(tn_pow_tensor_scalar(t[BASE], tn_float(1 - order), &t[POWER]));
  TNI_STEP(tn_mul(grad, t[POWER], &t[PRODUCT]));
  TNI_STEP(tn_masked_fill(t[PRODUCT], t[ZERO], tn_int(0), out_scale));
done:
  TNI_RELEASE(t);
  return status;
}

/* sign(x) |x|^(order - 1), written so that 0 gives 0. */
static tn_status signed_power(tn_tensor *x, double order, tn_tensor **out_power) {
  enum { MAGNITUDE, SIGN, POWER, PRODUCT, ZERO, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  if (order == 2) {
    *out_power = tn_tensor_retain(x);
    return TN_OK;
  }
  TNI_STEP(tn_abs(x, &t[MAGNITUDE]));
  if (order > 2) {
    TNI_STEP(tn_pow_tensor_scalar(t[MAGNITUDE], tn_float(order - 2), &t[POWER]));
    TNI_STEP(tn_mul(x, t[POWER], out_power));
  } else {
    TNI_STEP(tn_sign(x, &t[SIGN]));
    TNI_STEP(tn_pow_tensor_scalar(t[MAGNITUDE], tn_float(order - 1), &t[POWER]));
    TNI_STEP(tn_mul(t[SIGN], t[POWER], &t[PRODUCT]));
    TNI_STEP(tn_eq_scalar(x, tn_int(0), &t[ZERO]));
    TNI_STEP(tn_masked_fill(t[PRODUCT], t[ZERO], tn_int(0), out_power));
  }
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status norm_power_grad(tn_tensor *grad, tn_tensor *x, tn_tensor *norm, double order,
                                 tn_tensor **out_grad) {
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TNI_STEP(norm_scale(grad, norm, order, &t[0]));
  TNI_STEP(signed_power(x, order, &t[1]));
  TNI_STEP(tn_mul(t[1], t[0], out_grad));
done:
  TNI_RELEASE(t);
  return status;
}

/* Order 1, and the infinite ones: grad * sign(x), for these only at the extremes and shared evenly. */
static tn_status norm_sign_grad(tn_tensor *grad, tn_tensor *x, tn_tensor *norm, double order,
                                const tn_value *dims, tn_tensor **out_grad) {
  enum { SIGN, MAGNITUDE, SPREAD, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_sign(x, &t[SIGN]));
  if (isinf(order)) {
    TNI_STEP(tn_abs(x, &t[MAGNITUDE]));
    TNI_STEP(tn__extreme_backward(grad, t[MAGNITUDE], norm, DIMS(dims), true, &t[SPREAD]));
  }
  TNI_STEP(tn_mul(t[SIGN], isinf(order) ? t[SPREAD] : grad, out_grad));
done:
  TNI_RELEASE(t);
  return status;
}

TN_GRAD(vector_norm) {
  tn_tensor *self = ctx->args[0].u.t, *result = ctx->outs[0], *t[3] = {NULL};
  const tn_value *dims = &ctx->args[2];
  double order = tni_double_of(&ctx->args[1]);
  bool keepdim = ctx->args[3].u.i;
  if (!(ctx->wanted & 1) || order == 0) return TN_OK;
  tn_status status;
  TNI_STEP(tn__unreduce(grad_outs[0], DIMS(dims), keepdim, tni_ndim(self), &t[0]));
  TNI_STEP(tn__unreduce(result, DIMS(dims), keepdim, tni_ndim(self), &t[1]));
  TNI_STEP(tn_to_dtype(self, tn_tensor_dtype(result), false, false, 0, &t[2]));
  if (order == 1 || isinf(order))
    TNI_STEP(norm_sign_grad(t[0], t[2], t[1], order, dims, &grad_ins[0]));
  else
    TNI_STEP(norm_power_grad(t[0], t[2], t[1], order, &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of rms, batch and group norm: one call each for all inputs, told which are wanted. For a second
 * derivative the statistics are computed again from the input: see Note [Layer norm twice].
 */
#include <float.h>
#include <tenon/kit/dtype.h>

#include "registry/bodies/compose.h"

static double epsilon_of(tn_dtype dtype) {
  return dtype == TN_FLOAT64   ? DBL_EPSILON
         : dtype == TN_FLOAT32 ? FLT_EPSILON
         : dtype == TN_FLOAT16 ? 0x1p-10
                               : 0x1p-7;
}

/* 1 / sqrt(mean of squares of input's last n dims + eps), with history. */
static tn_status rms_again(tn_tensor *input, tn_dtype dtype, uint32_t n, double eps, tn_tensor **out_rstd) {
  enum { WIDE, SQUARE, MEAN, SHIFTED, N };
  tn_tensor *t[N] = {NULL};
  int64_t dims[TN_MAX_RANK];
  for (uint32_t i = 0; i < n; i++) dims[i] = (int64_t)i - n;
  tn_status status;
  TNI_STEP(tn_to_dtype(input, dtype, false, false, 0, &t[WIDE]));
  TNI_STEP(tn_square(t[WIDE], &t[SQUARE]));
  TNI_STEP(tn_mean_dim(t[SQUARE], dims, n, true, TN_DTYPE_NONE, &t[MEAN]));
  TNI_STEP(tn_add_scalar(t[MEAN], tn_float(eps), tn_int(1), &t[SHIFTED]));
  TNI_STEP(tn_rsqrt(t[SHIFTED], out_rstd));
done:
  TNI_RELEASE(t);
  return status;
}

TN_GRAD(fused_rms_norm) {
  tn_tensor *input = ctx->args[0].u.t, *rstd = NULL;
  const tn_value *shape = &ctx->args[1];
  uint8_t wanted[2] = {ctx->wanted & 1, ctx->wanted >> 1 & 1};
  if (!grad_outs[0]) return TN_OK;
  tn_status status;
  if (tn_grad_mode() && tn_requires_grad(input)) {
    double eps = tni_has(&ctx->args[3]) ? ctx->args[3].u.f : epsilon_of(tn_tensor_dtype(input));
    TNI_STEP(rms_again(input, tn_tensor_dtype(ctx->outs[1]), shape->count, eps, &rstd));
  } else {
    rstd = tn_tensor_retain(ctx->outs[1]);
  }
  TNI_STEP(tn__fused_rms_norm_backward(grad_outs[0], input, shape->u.ints, shape->count, rstd,
                                       tni_tensor_or_null(&ctx->args[2]), wanted, 2, &grad_ins[0],
                                       &grad_ins[1]));
done:
  tn_tensor_release(rstd);
  return status;
}

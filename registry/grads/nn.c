/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of layer norm: one call for all three inputs, told which are wanted.
 *
 * Note [Layer norm twice]
 * The saved means and reciprocal deviations carry no history, but for a second derivative they are
 * functions of input. So if one may follow, they are computed again from input, and the backward
 * operator, which takes them as plain arguments, is differentiated through them.
 */
#include "registry/bodies/compose.h"

/* 1 / sqrt(var + eps) and the mean over the last n dims of wide. */
static tn_status statistics(tn_tensor *wide, uint32_t n, tn_scalar eps, tn_tensor **out_mean,
                            tn_tensor **out_rstd) {
  enum { CENTRED, SQUARE, VAR, SHIFTED, N };
  tn_tensor *t[N] = {NULL};
  int64_t dims[TN_MAX_RANK];
  for (uint32_t i = 0; i < n; i++) dims[i] = (int64_t)i - n;
  tn_status status;
  TNI_STEP(tn_mean_dim(wide, dims, n, true, TN_DTYPE_NONE, out_mean));
  TNI_STEP(tn_sub(wide, *out_mean, tn_int(1), &t[CENTRED]));
  TNI_STEP(tn_square(t[CENTRED], &t[SQUARE]));
  TNI_STEP(tn_mean_dim(t[SQUARE], dims, n, true, TN_DTYPE_NONE, &t[VAR]));
  TNI_STEP(tn_add_scalar(t[VAR], eps, tn_int(1), &t[SHIFTED]));
  TNI_STEP(tn_rsqrt(t[SHIFTED], out_rstd));
done:
  TNI_RELEASE(t);
  return status;
}

TN_GRAD(native_layer_norm) {
  enum { WIDE, MEAN, RSTD, N };
  tn_tensor *input = ctx->args[0].u.t, *t[N] = {NULL};
  const tn_value *shape = &ctx->args[1];
  uint8_t wanted[3] = {ctx->wanted & 1, ctx->wanted >> 1 & 1, ctx->wanted >> 2 & 1};
  if (!grad_outs[0]) return TN_OK;
  tn_status status;
  if (tn_grad_mode() && tn_requires_grad(input)) { /* See Note [Layer norm twice] */
    TNI_STEP(tn_to_dtype(input, tn_tensor_dtype(ctx->outs[1]), false, false, 0, &t[WIDE]));
    TNI_STEP(statistics(t[WIDE], shape->count, ctx->args[4], &t[MEAN], &t[RSTD]));
  } else {
    t[MEAN] = tn_tensor_retain(ctx->outs[1]);
    t[RSTD] = tn_tensor_retain(ctx->outs[2]);
  }
  TNI_STEP(tn_native_layer_norm_backward(grad_outs[0], input, shape->u.ints, shape->count, t[MEAN], t[RSTD],
                                         tni_tensor_or_null(&ctx->args[2]), tni_tensor_or_null(&ctx->args[3]),
                                         wanted, 3, &grad_ins[0], &grad_ins[1], &grad_ins[2]));
done:
  TNI_RELEASE(t);
  return status;
}

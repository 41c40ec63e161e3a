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

/* Mean and 1 / sqrt(var + eps) over dims of wide, with history; keepdim as in the statistics that were saved. */
static tn_status statistics_again(tn_tensor *wide, const int64_t *dims, uint32_t n, double eps,
                                  tn_tensor **out_mean, tn_tensor **out_rstd) {
  enum { KEPT, CENTRED, SQUARE, VAR, SHIFTED, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_mean_dim(wide, dims, n, true, TN_DTYPE_NONE, &t[KEPT]));
  TNI_STEP(tn_mean_dim(wide, dims, n, false, TN_DTYPE_NONE, out_mean));
  TNI_STEP(tn_sub(wide, t[KEPT], tn_int(1), &t[CENTRED]));
  TNI_STEP(tn_square(t[CENTRED], &t[SQUARE]));
  TNI_STEP(tn_mean_dim(t[SQUARE], dims, n, false, TN_DTYPE_NONE, &t[VAR]));
  TNI_STEP(tn_add_scalar(t[VAR], tn_float(eps), tn_int(1), &t[SHIFTED]));
  TNI_STEP(tn_rsqrt(t[SHIFTED], out_rstd));
done:
  TNI_RELEASE(t);
  return status;
}

/* vector, one number a channel, as [C, 1, ...]; times factor. */
static tn_status spread(tn_tensor *vector, double factor, uint32_t ndim, tn_tensor **out_view) {
  int64_t shape[TN_MAX_RANK] = {-1};
  tn_tensor *scaled = NULL;
  for (uint32_t i = 1; i + 1 < ndim; i++) shape[i] = 1;
  tn_status status = tn_mul_scalar(vector, tn_float(factor), &scaled);
  if (status == TN_OK) status = tn_reshape(scaled, shape, ndim - 1, out_view);
  tn_tensor_release(scaled);
  return status;
}

/* What flows to the input through the batch's mean and rstd as results (either gradient may be absent), added to
 * *grad_in: (g_mean - g_rstd * rstd^3 * (x - mean)) / n. */
static tn_status through_results(tn_tensor *input, tn_tensor *mean, tn_tensor *rstd, tn_tensor *g_mean,
                                 tn_tensor *g_rstd, tn_tensor **grad_in) {
  enum { WIDE, M, CENTRED, CUBE, SLOPE, S, PART, G, BOTH, NARROW, SUM, N };
  tn_tensor *t[N] = {NULL}, *last = NULL;
  uint32_t ndim = tni_ndim(input);
  double n = (double)TN_DIM_INT(tni_count_along(input, ~(uint64_t)2));
  tn_status status;
  if (g_rstd) {
    TNI_STEP(tn_to_dtype(input, tn_tensor_dtype(mean), false, false, 0, &t[WIDE]));
    TNI_STEP(spread(mean, 1, ndim, &t[M]));
    TNI_STEP(tn_sub(t[WIDE], t[M], tn_int(1), &t[CENTRED]));
    TNI_STEP(tn_pow_tensor_scalar(rstd, tn_int(3), &t[CUBE]));
    TNI_STEP(tn_mul(t[CUBE], g_rstd, &t[SLOPE]));
    TNI_STEP(spread(t[SLOPE], -1 / n, ndim, &t[S]));
    TNI_STEP(tn_mul(t[CENTRED], t[S], &t[PART]));
    last = t[PART];
  }
  if (g_mean) {
    TNI_STEP(spread(g_mean, 1 / n, ndim, &t[G]));
    if (last)
      TNI_STEP(tn_add(last, t[G], tn_int(1), &t[BOTH]));
    else
      TNI_STEP(tn_expand(t[G], tn_tensor_sizes(input), ndim, false, &t[BOTH]));
    last = t[BOTH];
  }
  TNI_STEP(tn_to_dtype(last, tn_tensor_dtype(input), false, false, 0, &t[NARROW]));
  if (*grad_in) TNI_STEP(tn_add(*grad_in, t[NARROW], tn_int(1), &t[SUM]));
  tn_tensor *before = *grad_in;
  *grad_in = tni_take(&t[before ? SUM : NARROW]);
  tn_tensor_release(before);
done:
  TNI_RELEASE(t);
  return status;
}

/* args: input weight bias mean var eps */
TN_GRAD(batch_norm_forward) {
  enum { WIDE, MEAN, RSTD, N };
  tn_tensor *input = ctx->args[0].u.t, *t[N] = {NULL};
  bool train = !tni_has(&ctx->args[3]);
  uint8_t wanted[3] = {ctx->wanted & 1, ctx->wanted >> 1 & 1, ctx->wanted >> 2 & 1};
  bool results = train && wanted[0] && (grad_outs[1] || grad_outs[2]);
  if (!grad_outs[0] && !results) return TN_OK;
  tn_status status;
  if (train && tn_grad_mode() && tn_requires_grad(input)) {
    int64_t dims[TN_MAX_RANK] = {0};
    uint32_t ndim = tni_ndim(input);
    for (uint32_t i = 2; i < ndim; i++) dims[i - 1] = i;
    TNI_STEP(tn_to_dtype(input, tn_tensor_dtype(ctx->outs[1]), false, false, 0, &t[WIDE]));
    TNI_STEP(statistics_again(t[WIDE], dims, ndim - 1, ctx->args[5].u.f, &t[MEAN], &t[RSTD]));
  } else {
    t[MEAN] = tn_tensor_retain(ctx->outs[1]);
    t[RSTD] = tn_tensor_retain(ctx->outs[2]);
  }
  if (grad_outs[0])
    TNI_STEP(tn_native_batch_norm_backward(
        grad_outs[0], input, tni_tensor_or_null(&ctx->args[1]), tni_tensor_or_null(&ctx->args[3]),
        tni_tensor_or_null(&ctx->args[4]), t[MEAN], t[RSTD], train, ctx->args[5].u.f, wanted, 3, &grad_ins[0],
        &grad_ins[1], &grad_ins[2]));
  if (results) TNI_STEP(through_results(input, t[MEAN], t[RSTD], grad_outs[1], grad_outs[2], &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return tni_grads(status, grad_ins, 3);
}

/* args: input weight bias N C HxW group eps */
TN_GRAD(native_group_norm) {
  enum { WIDE, ROWS, MEAN, RSTD, N };
  tn_tensor *input = ctx->args[0].u.t, *t[N] = {NULL};
  const tn_value *numbers = &ctx->args[3];
  uint8_t wanted[3] = {ctx->wanted & 1, ctx->wanted >> 1 & 1, ctx->wanted >> 2 & 1};
  if (!grad_outs[0]) return TN_OK;
  tn_status status;
  if (tn_grad_mode() && tn_requires_grad(input)) {
    const int64_t last = 2;
    TNI_STEP(tn_to_dtype(input, tn_tensor_dtype(ctx->outs[1]), false, false, 0, &t[WIDE]));
    TNI_STEP(tn_reshape(t[WIDE], (const int64_t[]){numbers[0].u.i, numbers[3].u.i, -1}, 3, &t[ROWS]));
    TNI_STEP(statistics_again(t[ROWS], &last, 1, ctx->args[7].u.f, &t[MEAN], &t[RSTD]));
  } else {
    t[MEAN] = tn_tensor_retain(ctx->outs[1]);
    t[RSTD] = tn_tensor_retain(ctx->outs[2]);
  }
  TNI_STEP(tn_native_group_norm_backward(
      grad_outs[0], input, t[MEAN], t[RSTD], tni_tensor_or_null(&ctx->args[1]), numbers[0].u.i,
      numbers[1].u.i, numbers[2].u.i, numbers[3].u.i, wanted, 3, &grad_ins[0], &grad_ins[1], &grad_ins[2]));
done:
  TNI_RELEASE(t);
  return status;
}

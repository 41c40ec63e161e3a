/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of convolution, and of its gradients.
 *
 * Note [Convolution twice]
 * convolution is linear in input and in weight, so with gi, gw, gb the gradients that arrive for its three
 * gradients: grad_output gets convolution(gi, weight) + convolution(input, gw) + gb; input gets the input gradient of
 * a convolution with gw in weight's place; weight gets the weight gradient with gi in input's place.
 */
#include "registry/bodies/compose.h"

/* lists: stride padding dilation transposed output_padding groups */
static tn_status convolve(tn_tensor *input, tn_tensor *weight, tn_tensor *bias, const tn_value *lists,
                          tn_tensor **out_result) {
  return tn_convolution(input, weight, bias, lists[0].u.ints, lists[0].count, lists[1].u.ints, lists[1].count,
                        lists[2].u.ints, lists[2].count, lists[3].u.i, lists[4].u.ints, lists[4].count,
                        lists[5].u.i, out_result);
}

static tn_status backward(tn_tensor *grad, tn_tensor *input, tn_tensor *weight, const tn_value *lists,
                          const uint8_t *wanted, tn_tensor **out_grads) {
  tn_dim channels = tn_tensor_sizes(grad)[1];
  return tn_convolution_backward(
      grad, input, weight, wanted[2] ? &channels : NULL, wanted[2], lists[0].u.ints, lists[0].count,
      lists[1].u.ints, lists[1].count, lists[2].u.ints, lists[2].count, lists[3].u.i, lists[4].u.ints,
      lists[4].count, lists[5].u.i, wanted, 3, &out_grads[0], &out_grads[1], &out_grads[2]);
}

TN_GRAD(convolution) {
  uint8_t wanted[3] = {ctx->wanted & 1, ctx->wanted >> 1 & 1, ctx->wanted >> 2 & 1};
  return backward(grad_outs[0], ctx->args[0].u.t, ctx->args[1].u.t, &ctx->args[3], wanted, grad_ins);
}

/* The gradient of grad_output. */
static tn_status output_grad(const tn_backward *ctx, tn_tensor *const *g, tn_tensor **out_grad) {
  tn_tensor *grad = ctx->args[0].u.t, *input = ctx->args[1].u.t, *weight = ctx->args[2].u.t, *t[3] = {NULL};
  const tn_value *lists = &ctx->args[4];
  tn_status status = TN_OK;
  if (g[0]) TNI_STEP(convolve(g[0], weight, g[2], lists, &t[0]));
  if (g[1]) TNI_STEP(convolve(input, g[1], g[0] ? NULL : g[2], lists, &t[1]));
  if (g[0] && g[1]) {
    TNI_STEP(tn_add(t[0], t[1], tn_int(1), out_grad));
  } else if (g[0] || g[1]) {
    *out_grad = tni_take(&t[g[0] ? 0 : 1]);
  } else {
    int64_t shape[TN_MAX_RANK] = {-1};
    uint32_t ndim = tni_ndim(grad) - 1;
    for (uint32_t i = 1; i < ndim; i++) shape[i] = 1;
    TNI_STEP(tn_view_op(g[2], shape, ndim, &t[2]));
    TNI_STEP(tn_expand(t[2], tn_tensor_sizes(grad), tni_ndim(grad), false, out_grad));
  }
done:
  TNI_RELEASE(t);
  return status;
}

/* See Note [Convolution twice] */
TN_GRAD(convolution_backward) {
  static const uint8_t for_input[3] = {1, 0, 0}, for_weight[3] = {0, 1, 0};
  tn_tensor *grad = ctx->args[0].u.t, *input = ctx->args[1].u.t, *weight = ctx->args[2].u.t, *made[3];
  const tn_value *lists = &ctx->args[4];
  tn_status status = TN_OK;
  if (ctx->wanted & 1) TNI_STEP(output_grad(ctx, grad_outs, &grad_ins[0]));
  if (ctx->wanted & 2 && grad_outs[1]) {
    TNI_STEP(backward(grad, input, grad_outs[1], lists, for_input, made));
    grad_ins[1] = made[0];
  }
  if (ctx->wanted & 4 && grad_outs[0]) {
    TNI_STEP(backward(grad, grad_outs[0], weight, lists, for_weight, made));
    grad_ins[2] = made[1];
  }
done:
  return tni_grads(status, grad_ins, 3);
}

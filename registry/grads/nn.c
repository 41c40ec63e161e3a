/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of layer norm: one call for all three inputs, told which are wanted.
 */
#include "registry/bodies/compose.h"

TN_GRAD(native_layer_norm) {
  tn_tensor *weight = tni_tensor_or_null(&ctx->args[2]), *bias = tni_tensor_or_null(&ctx->args[3]);
  uint8_t wanted[3] = {ctx->wanted & 1, ctx->wanted >> 1 & 1, ctx->wanted >> 2 & 1};
  if (!grad_outs[0]) return TN_OK;
  return tn_native_layer_norm_backward(grad_outs[0], ctx->args[0].u.t, ctx->args[1].u.ints, ctx->args[1].count,
                                       ctx->outs[1], ctx->outs[2], weight, bias, wanted, 3, &grad_ins[0],
                                       &grad_ins[1], &grad_ins[2]);
}

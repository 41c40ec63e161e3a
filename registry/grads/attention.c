/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of fused attention: one call for query, key and value. Its own derivative goes through its body, which
 * reads neither output nor logsumexp: so nothing of the forward is left out of it.
 */
#include "registry/bodies/compose.h"

/* args: query key value attn_mask is_causal scale */
TN_GRAD(attention) {
  tn_tensor *const *saved = ctx->outs;
  if (!grad_outs[0]) return TN_OK;
  return tn__scaled_dot_product_attention_backward(
      grad_outs[0], ctx->args[0].u.t, ctx->args[1].u.t, ctx->args[2].u.t, tni_tensor_or_null(&ctx->args[3]),
      saved[0], saved[1], ctx->args[4].u.i, ctx->args[5].u.f, &grad_ins[0], &grad_ins[1], &grad_ins[2]);
}

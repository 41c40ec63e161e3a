/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of fused attention: one call for query, key and value.
 *
 * Note [Attention twice]
 * The backward operator is a function of what it is given, output and logsumexp included. output carries its history;
 * the saved logsumexp, which has no gradient, does not. If a second derivative may follow, it is computed again from
 * query and key, so that the backward operator is differentiated through it.
 */
#include "registry/bodies/attention.h"
#include "registry/bodies/compose.h"

/* args: query key value attn_mask is_causal scale dropout_p seed offset */
TN_GRAD(attention) {
  const tn_value *args = ctx->args;
  tn_tensor *query = args[0].u.t, *key = args[1].u.t, *mask = tni_tensor_or_null(&args[3]), *logs = NULL;
  if (!grad_outs[0]) return TN_OK;
  if (tn_grad_mode() && (tn_requires_grad(query) || tn_requires_grad(key)))
    TN_TRY(tni_attention_logsumexp(query, key, mask, args[4].u.i, args[5].u.f, &logs));
  else
    logs = tn_tensor_retain(ctx->outs[1]);
  tn_status status = tn__scaled_dot_product_attention_backward(
      grad_outs[0], query, key, args[2].u.t, mask, ctx->outs[0], logs, args[4].u.i, args[5].u.f, args[6].u.f,
      args[7].u.i, args[8].u.i, &grad_ins[0], &grad_ins[1], &grad_ins[2]);
  tn_tensor_release(logs);
  return status;
}

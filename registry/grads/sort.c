/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of reading and writing by lists of index tensors.
 */
#include "registry/bodies/compose.h"

TN_GRAD(index) {
  tn_tensor *self = ctx->args[0].u.t, *zeros = NULL;
  const tn_value *indices = &ctx->args[1];
  if (!(ctx->wanted & 1)) return TN_OK;
  tn_status status;
  TNI_STEP(tn_new_zeros(grad_outs[0], tn_tensor_sizes(self), tni_ndim(self), NULL, &zeros));
  TNI_STEP(tn_index_put(zeros, indices->u.ts, indices->count, grad_outs[0], true, &grad_ins[0]));
done:
  tn_tensor_release(zeros);
  return status;
}

/* args: self indices values accumulate */
TN_GRAD(index_put) {
  tn_tensor *grad = grad_outs[0], *values = ctx->args[2].u.t, *zeros = NULL;
  const tn_value *indices = &ctx->args[1];
  tn_status status = TN_OK;
  if (ctx->wanted & 1) {
    if (ctx->args[3].u.i) {
      grad_ins[0] = tn_tensor_retain(grad);
    } else {
      TNI_STEP(tn_new_zeros(grad, tn_tensor_sizes(values), tni_ndim(values), NULL, &zeros));
      TNI_STEP(tn_index_put(grad, indices->u.ts, indices->count, zeros, false, &grad_ins[0]));
    }
  }
  if (ctx->wanted & 2) TNI_STEP(tn_index(grad, indices->u.ts, indices->count, &grad_ins[1]));
done:
  tn_tensor_release(zeros);
  return tni_grads(status, grad_ins, 2);
}

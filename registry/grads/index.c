/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of cat (each tensor's part of the whole) and roll (rolled back).
 */
#include "registry/bodies/compose.h"

/* The dims of what cat joined: those of the first tensor that is not a 1-d nothing. */
static uint32_t joined_ndim(const tn_value *tensors) {
  for (uint32_t i = 0; i < tensors->count; i++)
    if (tni_ndim(tensors->u.ts[i]) != 1 || tn_tensor_numel(tensors->u.ts[i])) return tni_ndim(tensors->u.ts[i]);
  return 1;
}

TN_GRAD(cat) {
  const tn_value *tensors = &ctx->args[0];
  if (!(ctx->wanted & 1)) return TN_OK;
  uint32_t ndim = joined_ndim(tensors), dim;
  TN_TRY(tn_shape_wrap_dim(ctx->args[1].u.i, ndim, &dim));
  tn_dim at = TN_DIM(0);
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < tensors->count && status == TN_OK; i++) {
    if (tni_ndim(tensors->u.ts[i]) != ndim) continue; /* joined nothing */
    tn_dim length = tn_tensor_sizes(tensors->u.ts[i])[dim];
    status = tn_narrow(grad_outs[0], dim, at, length, &grad_ins[i]);
    at = TN_DIM_ADD(at, length);
  }
  return tni_grads(status, grad_ins, tensors->count);
}

TN_GRAD(roll) {
  int64_t back[TN_MAX_RANK];
  uint32_t n = ctx->args[1].count;
  if (!(ctx->wanted & 1)) return TN_OK;
  if (n > TN_MAX_RANK) return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected at most %d shifts, got %u", TN_MAX_RANK, n);
  for (uint32_t i = 0; i < n; i++) back[i] = -ctx->args[1].u.ints[i];
  return tn_roll(grad_outs[0], back, n, ctx->args[2].u.ints, ctx->args[2].count, &grad_ins[0]);
}

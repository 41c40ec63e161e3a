/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of cat (each tensor's part of the whole) and roll (rolled back).
 */
#include "registry/bodies/compose.h"

/* The dims of what cat joined: those of the first tensor that is not a 1-d nothing. */
static uint32_t joined_ndim(const tn_value *tensors) {
  for (uint32_t i = 0; i < tensors->count; i++)
    if (tni_ndim(tensors->u.ts[i]) != 1 || tn_tensor_numel(tensors->u.ts[i]))
      return tni_ndim(tensors->u.ts[i]);
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
  const tn_value *shifts = &ctx->args[1], *dims = &ctx->args[2];
  tn_tensor *grad = grad_outs[0];
  if (!(ctx->wanted & 1)) return TN_OK;
  if (shifts->count > TN_MAX_RANK)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected at most %d shifts, got %u", TN_MAX_RANK, shifts->count);
  for (uint32_t i = 0; i < shifts->count; i++) {
    tn_dim size = TN_DIM(tn_tensor_numel(grad));
    uint32_t dim;
    if (dims->count) {
      TN_TRY(tn_shape_wrap_dim(dims->u.ints[i], tni_ndim(grad), &dim));
      size = tni_ndim(grad) ? tn_tensor_sizes(grad)[dim] : TN_DIM(1);
    }
    back[i] = TN_DIM_GT(size, 0) ? -(shifts->u.ints[i] % size) : 0;
  }
  return tn_roll(grad, back, shifts->count, dims->u.ints, dims->count, &grad_ins[0]);
}

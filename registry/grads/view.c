/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of permute, of views with several results, and of as_strided.
 */
#include <stdlib.h>

#include "registry/bodies/compose.h"

TN_GRAD(permute) {
  if (!(ctx->wanted & 1)) return TN_OK;
  uint32_t ndim = ctx->args[1].count;
  int64_t inverse[TN_MAX_RANK];
  for (uint32_t i = 0; i < ndim; i++) {
    uint32_t from;
    TN_TRY(tn_shape_wrap_dim(ctx->args[1].u.ints[i], ndim, &from));
    inverse[from] = i;
  }
  return tn_permute(grad_outs[0], inverse, ndim, &grad_ins[0]);
}

/* ------------------------------------------------------------------ several results */

/* The gradient of a piece, zeros where none came. The first one that came gives dtype and device. */
static tn_status piece_grad(const tn_backward *ctx, tn_tensor *const *grad_outs, uint32_t i,
                            const tn_dim *sizes, uint32_t ndim, tn_tensor **out_grad) {
  if (grad_outs[i]) {
    *out_grad = tn_tensor_retain(grad_outs[i]);
    return TN_OK;
  }
  uint32_t given = 0;
  while (given + 1 < ctx->n_grad_outs && !grad_outs[given]) given++;
  return tn_new_zeros(grad_outs[given], sizes, ndim, NULL, out_grad);
}

/* Joins the gradients of n pieces along dim; lengths[i], or `length` but for the last piece, along dim. */
static tn_status join(const tn_backward *ctx, tn_tensor *const *grad_outs, uint32_t dim,
                      const int64_t *lengths, tn_dim length, tn_tensor **grad_ins) {
  tn_tensor *self = ctx->args[0].u.t;
  uint32_t n = ctx->n_grad_outs, ndim = tni_ndim(self);
  tn_dim sizes[TN_MAX_RANK], rest = tn_tensor_sizes(self)[dim];
  for (uint32_t i = 0; i < ndim; i++) sizes[i] = tn_tensor_sizes(self)[i];
  tn_tensor **grads = calloc(n, sizeof(*grads));
  if (!grads)
    return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu bytes for a list of gradients",
                   n * sizeof(*grads));
  tn_status status;
  for (uint32_t i = 0; i < n; i++) {
    sizes[dim] = lengths ? lengths[i] : TN_DIM_MIN(length, rest);
    rest = TN_DIM_SUB(rest, sizes[dim]);
    TNI_STEP(piece_grad(ctx, grad_outs, i, sizes, ndim, &grads[i]));
  }
  TNI_STEP(tn_cat(grads, n, dim, &grad_ins[0]));
done:
  tni_release_all(grads, n);
  free(grads);
  return status;
}

TN_GRAD(split) {
  uint32_t dim;
  if (!(ctx->wanted & 1)) return TN_OK;
  TN_TRY(tn_shape_wrap_dim(ctx->args[2].u.i, tni_ndim(ctx->args[0].u.t), &dim));
  return join(ctx, grad_outs, dim, NULL, ctx->args[1].u.i, grad_ins);
}

TN_GRAD(split_with_sizes) {
  uint32_t dim;
  if (!(ctx->wanted & 1)) return TN_OK;
  TN_TRY(tn_shape_wrap_dim(ctx->args[2].u.i, tni_ndim(ctx->args[0].u.t), &dim));
  return join(ctx, grad_outs, dim, ctx->args[1].u.ints, 0, grad_ins);
}

TN_GRAD(chunk) {
  uint32_t dim;
  if (!(ctx->wanted & 1)) return TN_OK;
  TN_TRY(tn_shape_wrap_dim(ctx->args[2].u.i, tni_ndim(ctx->args[0].u.t), &dim));
  tn_dim size = tn_tensor_sizes(ctx->args[0].u.t)[dim], chunks = TN_DIM(ctx->args[1].u.i);
  tn_dim length = TN_DIM_EQ(size, 0) ? TN_DIM(0) : TN_DIM_ADD(TN_DIM_DIV(TN_DIM_SUB(size, 1), chunks), 1);
  return join(ctx, grad_outs, dim, NULL, length, grad_ins);
}

TN_GRAD(unbind) {
  tn_tensor *self = ctx->args[0].u.t;
  uint32_t dim, n = ctx->n_grad_outs, ndim = tni_ndim(self), kept = 0;
  if (!(ctx->wanted & 1)) return TN_OK;
  TN_TRY(tn_shape_wrap_dim(ctx->args[1].u.i, ndim, &dim));
  tn_dim sizes[TN_MAX_RANK];
  for (uint32_t i = 0; i < ndim; i++)
    if (i != dim) sizes[kept++] = tn_tensor_sizes(self)[i];
  tn_tensor **grads = calloc(n, sizeof(*grads));
  if (!grads)
    return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu bytes for a list of gradients",
                   n * sizeof(*grads));
  tn_status status;
  for (uint32_t i = 0; i < n; i++) TNI_STEP(piece_grad(ctx, grad_outs, i, sizes, kept, &grads[i]));
  TNI_STEP(tn_stack(grads, n, dim, &grad_ins[0]));
done:
  tni_release_all(grads, n);
  free(grads);
  return status;
}

/* ------------------------------------------------------------------ as_strided */

/* First and last element that a geometry reaches, counted from its element [0, .., 0]. */
static void reach(uint32_t ndim, const tn_dim *sizes, const tn_dim *strides, tn_dim *out_first,
                  tn_dim *out_last) {
  *out_first = *out_last = TN_DIM(0);
  for (uint32_t i = 0; i < ndim; i++) {
    tn_dim far = TN_DIM_MUL(TN_DIM_SUB(sizes[i], 1), strides[i]);
    if (TN_DIM_LT(far, 0))
      *out_first = TN_DIM_ADD(*out_first, far);
    else
      *out_last = TN_DIM_ADD(*out_last, far);
  }
}

/* The places of a geometry in a flat memory of n elements, as a vector of indices. */
static tn_status places(tn_tensor *memory, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides,
                        tn_dim at, tn_tensor **out_places) {
  tn_tensor *t[2] = {NULL};
  tn_options options = {.dtype = TN_INT64, .has_device = true, .device = tn_tensor_device(memory)};
  tn_status status;
  TNI_STEP(tn_arange(tn_int(tn_tensor_numel(memory)), &options, &t[0]));
  TNI_STEP(tn_as_strided(t[0], sizes, ndim, strides, ndim, &at, &t[1]));
  TNI_STEP(tn_reshape(t[1], (const int64_t[]){-1}, 1, out_places));
done:
  TNI_RELEASE(t);
  return status;
}

/* Note [Gradient of as_strided]
 * Gradients are added up in a flat memory that both geometries lie in, at the places that the
 * result shows, and read back at the places that self shows. Where self shows one place several
 * times (an expanded tensor), each of its elements gets an even share. */
static tn_status through_memory(const tn_backward *ctx, tn_tensor *grad, tn_dim size, tn_dim self_at,
                                tn_dim at, tn_tensor **out_grad) {
  enum { MEMORY, PLACES, FLAT, ADDED, SELF_PLACES, ONES, TIMES, SHARES, PICKED, N };
  tn_tensor *self = ctx->args[0].u.t, *t[N] = {NULL};
  uint32_t ndim = tni_ndim(self);
  tn_status status;
  TNI_STEP(tn_new_zeros(grad, &size, 1, NULL, &t[MEMORY]));
  TNI_STEP(places(t[MEMORY], ctx->args[1].count, ctx->args[1].u.ints, ctx->args[2].u.ints, at, &t[PLACES]));
  TNI_STEP(tn_reshape(grad, (const int64_t[]){-1}, 1, &t[FLAT]));
  TNI_STEP(tn_index_add(t[MEMORY], 0, t[PLACES], t[FLAT], tn_int(1), &t[ADDED]));
  TNI_STEP(places(t[MEMORY], ndim, tn_tensor_sizes(self), ctx->args[4].u.ints, self_at, &t[SELF_PLACES]));
  TNI_STEP(tn_new_full(t[MEMORY], tn_tensor_sizes(t[SELF_PLACES]), 1, tn_int(1), NULL, &t[ONES]));
  TNI_STEP(tn_index_add(t[MEMORY], 0, t[SELF_PLACES], t[ONES], tn_int(1), &t[TIMES]));
  TNI_STEP(tn_div(t[ADDED], t[TIMES], &t[SHARES]));
  TNI_STEP(tn_index_select(t[SHARES], 0, t[SELF_PLACES], &t[PICKED]));
  TNI_STEP(tn_reshape(t[PICKED], tn_tensor_sizes(self), ndim, out_grad));
done:
  TNI_RELEASE(t);
  return status;
}

TN_GRAD(as_strided) {
  tn_tensor *self = ctx->args[0].u.t;
  tn_dim first, last, self_first, self_last, offset = ctx->args[3].u.i;
  if (!(ctx->wanted & 1) || tn_tensor_numel(self) == 0 || tn_tensor_numel(grad_outs[0]) == 0) return TN_OK;
  reach(ctx->args[1].count, ctx->args[1].u.ints, ctx->args[2].u.ints, &first, &last);
  reach(tni_ndim(self), tn_tensor_sizes(self), ctx->args[4].u.ints, &self_first, &self_last);
  tn_dim low = TN_DIM_MIN(TN_DIM_ADD(first, offset), self_first);
  tn_dim high = TN_DIM_MAX(TN_DIM_ADD(last, offset), self_last);
  return through_memory(ctx, grad_outs[0], TN_DIM_ADD(TN_DIM_SUB(high, low), 1), TN_DIM_SUB(0, low),
                        TN_DIM_SUB(offset, low), &grad_ins[0]);
}

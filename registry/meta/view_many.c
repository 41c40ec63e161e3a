/* SPDX-License-Identifier: Apache-2.0
 *
 * Views with several results: unbind, split, split_with_sizes, chunk. The number of results is
 * known only here, so each rule asks the core for room first (meta->grow).
 */
#include "registry/meta/rules.h"

static tn_status split_dim(const tn_view *self, int64_t dim, uint32_t *out_dim) {
  if (self->ndim == 0) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at least 1 dim, got a 0-d tensor");
  return tn_shape_wrap_dim(dim, self->ndim, out_dim);
}

/* A descriptor takes a kilobyte: a mistaken number (chunks of an empty dim) must not ask for all memory. */
enum { MOST_RESULTS = 1 << 20 };

static tn_status room_for(tn_meta *meta, tn_dim n) {
  if (TN_DIM_GT(n, MOST_RESULTS))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at most %d results, got %lld", MOST_RESULTS,
                   (long long)TN_DIM_INT(n));
  return meta->grow(meta, (uint32_t)TN_DIM_INT(n));
}

TN_META(unbind) {
  const tn_view *self = args[0].u.v;
  uint32_t dim;
  TN_TRY(split_dim(self, args[1].u.i, &dim));
  TN_TRY(room_for(meta, self->sizes[dim]));
  for (uint32_t i = 0; i < meta->n_out; i++) {
    tn_desc *desc = &meta->out[i];
    tni_desc_view(desc, self);
    desc->offset = TN_DIM_MUL(TN_DIM(i), self->strides[dim]);
    tni_desc_drop_dim(desc, dim);
  }
  return TN_OK;
}

/* One piece of dim: [start, start + length). */
static void piece(tn_desc *desc, const tn_view *self, uint32_t dim, tn_dim start, tn_dim length) {
  tni_desc_view(desc, self);
  desc->sizes[dim] = length;
  desc->offset = TN_DIM_MUL(start, self->strides[dim]);
}

/* Pieces of one size; the last may be smaller. */
static tn_status split_evenly(tn_meta *meta, const tn_view *self, uint32_t dim, tn_dim length) {
  tn_dim size = self->sizes[dim];
  tn_dim n = TN_DIM(1);
  if (TN_DIM_GT(size, 0))
    n = TN_DIM_ADD(TN_DIM_DIV(size, length), TN_DIM_NE(TN_DIM_MOD(size, length), 0) ? 1 : 0);
  TN_TRY(room_for(meta, n));
  for (uint32_t i = 0; i < meta->n_out; i++) {
    tn_dim start = TN_DIM_MUL(TN_DIM(i), length);
    piece(&meta->out[i], self, dim, start, TN_DIM_MIN(length, TN_DIM_SUB(size, start)));
  }
  return TN_OK;
}

TN_META(split) {
  const tn_view *self = args[0].u.v;
  uint32_t dim;
  TN_TRY(split_dim(self, args[2].u.i, &dim));
  tn_dim length = args[1].u.i;
  if (TN_DIM_LT(length, 0) || (TN_DIM_EQ(length, 0) && TN_DIM_NE(self->sizes[dim], 0)))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                   "expected a split size of at least 1 for a dim of size %lld, got %lld",
                   (long long)TN_DIM_INT(self->sizes[dim]), (long long)TN_DIM_INT(length));
  return split_evenly(meta, self, dim, length);
}

TN_META(split_with_sizes) {
  const tn_view *self = args[0].u.v;
  uint32_t dim;
  TN_TRY(split_dim(self, args[2].u.i, &dim));
  tn_dim rest = self->sizes[dim];
  for (uint32_t i = 0; i < args[1].count; i++) {
    tn_dim length = args[1].u.ints[i];
    if (TN_DIM_LT(length, 0) || TN_DIM_GT(length, rest)) {
      rest = TN_DIM(-1);
      break;
    }
    rest = TN_DIM_SUB(rest, length);
  }
  if (TN_DIM_NE(rest, 0))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected sizes that add up to %lld, the size of dim %u, got %s",
                   (long long)TN_DIM_INT(self->sizes[dim]), dim,
                   tn_shape_format(args[1].count, args[1].u.ints, TN_SHAPE_TEXT));
  TN_TRY(room_for(meta, TN_DIM(args[1].count)));
  tn_dim start = TN_DIM(0);
  for (uint32_t i = 0; i < meta->n_out; i++) {
    piece(&meta->out[i], self, dim, start, args[1].u.ints[i]);
    start = TN_DIM_ADD(start, args[1].u.ints[i]);
  }
  return TN_OK;
}

TN_META(chunk) {
  const tn_view *self = args[0].u.v;
  uint32_t dim;
  TN_TRY(split_dim(self, args[2].u.i, &dim));
  int64_t chunks = args[1].u.i;
  if (chunks < 1)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at least 1 chunk, got %lld", (long long)chunks);
  tn_dim size = self->sizes[dim];
  if (TN_DIM_NE(size, 0)) {
    tn_dim length = TN_DIM_ADD(TN_DIM_DIV(TN_DIM_SUB(size, 1), TN_DIM(chunks)), 1);
    return split_evenly(meta, self, dim, length);
  }
  /* Nothing to share out: every chunk is empty. */
  TN_TRY(room_for(meta, TN_DIM(chunks)));
  for (uint32_t i = 0; i < meta->n_out; i++) piece(&meta->out[i], self, dim, TN_DIM(0), TN_DIM(0));
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The iterator's set-up: views to byte strides over one shape, then fewer and better dims.
 *
 * Note [Which dim is innermost]
 * Dims are sorted by an insertion sort in which the first operand that has an opinion decides, outputs
 * first; a stride of 0 has none. Dims that walk backwards for every operand that moves are turned round
 * first. Neighbours are merged where every operand steps from one to the next without a jump.
 */
#include "iter_int.h"

#include <string.h>
#include <tenon/kit/shape.h>

/* ------------------------------------------------------------------ order and merge */

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* > 0: dim a belongs outside dim b; < 0: it is fine inside; 0: nobody decides. */
static int compare_dims(const tn_iter *it, uint32_t a, uint32_t b) {
  for (uint32_t k = 0; k < it->n_operands; k++) {
    int64_t sa = magnitude(it->strides[a][k]), sb = magnitude(it->strides[b][k]);
    if (sa == 0 || sb == 0) continue;
    if (sa != sb) return sa > sb ? 1 : -1;
    if (it->sizes[a] > it->sizes[b]) return 1;
  }
  return 0;
}

static void swap_dims(tn_iter *it, uint32_t a, uint32_t b) {
  int64_t size = it->sizes[a];
  it->sizes[a] = it->sizes[b];
  it->sizes[b] = size;
  for (uint32_t k = 0; k < it->n_operands; k++) {
    int64_t stride = it->strides[a][k];
    it->strides[a][k] = it->strides[b][k];
    it->strides[b][k] = stride;
  }
}

static void turn_backward_dims(tn_iter *it) {
  for (uint32_t d = 0; d < it->ndim; d++) {
    bool backward = false, forward = false;
    for (uint32_t k = 0; k < it->n_operands; k++) {
      backward = backward || it->strides[d][k] < 0;
      forward = forward || it->strides[d][k] > 0;
    }
    if (!backward || forward) continue;
    for (uint32_t k = 0; k < it->n_operands; k++) {
      if (it->strides[d][k] == 0) continue;
      it->data[k] += (it->sizes[d] - 1) * it->strides[d][k];
      it->strides[d][k] = -it->strides[d][k];
    }
  }
}

static void sort_dims(tn_iter *it) {
  for (uint32_t i = 1; i < it->ndim; i++) {
    uint32_t at = i;
    for (uint32_t d = i; d-- > 0;) {
      int order = compare_dims(it, d, at);
      if (order < 0) break;
      if (order == 0) continue;
      swap_dims(it, d, at);
      at = d;
    }
  }
}

static bool can_merge(const tn_iter *it, uint32_t inner, uint32_t outer) {
  for (uint32_t k = 0; k < it->n_operands; k++) {
    if (it->strides[inner][k] * it->sizes[inner] != it->strides[outer][k]) return false;
  }
  return true;
}

static void merge_dims(tn_iter *it) {
  uint32_t last = 0;
  for (uint32_t d = 1; d < it->ndim; d++) {
    if (can_merge(it, last, d)) {
      it->sizes[last] *= it->sizes[d];
      continue;
    }
    if (++last != d) swap_dims(it, last, d);
  }
  it->ndim = last + 1;
}

/* ------------------------------------------------------------------ building */

void tni_iter_begin(tn_iter *it, uint32_t n_outputs, uint32_t n_operands, uint32_t flags) {
  it->n_outputs = n_outputs;
  it->n_operands = n_operands;
  it->flags = flags;
  it->ndim = 0;
  it->numel = 1;
}

void tni_iter_add_dim(tn_iter *it, int64_t size, const int64_t *strides) {
  /* Unsigned: sizes around a 0 may be too large to multiply, the product is 0 all the same. */
  it->numel = (int64_t)((uint64_t)it->numel * (uint64_t)size);
  if (size == 1) return;
  it->sizes[it->ndim] = size;
  memcpy(it->strides[it->ndim], strides, it->n_operands * sizeof *strides);
  it->ndim++;
}

void tni_iter_finish(tn_iter *it) {
  if (it->ndim == 0 || it->numel == 0) {
    it->ndim = 1;
    it->sizes[0] = it->numel;
    memset(it->strides[0], 0, sizeof it->strides[0]);
    return;
  }
  for (uint32_t d = 0; d < it->ndim / 2; d++) swap_dims(it, d, it->ndim - 1 - d);
  if (!(it->flags & TN_ITER_IN_ORDER)) {
    turn_backward_dims(it);
    sort_dims(it);
  }
  merge_dims(it);
}

static tn_status check_operands(tn_iter *it, uint32_t ndim, const tn_dim *sizes, tn_dim numel,
                                const tn_view *const *operands) {
  for (uint32_t k = 0; k < it->n_operands; k++) {
    TN_TRY(tn_shape_check_expand(operands[k]->ndim, operands[k]->sizes, ndim, sizes));
    if (numel > 0 && !operands[k]->data) {
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                     "operand %u has no address that host code can read, an iteration over it was asked for",
                     k);
    }
    it->data[k] = (char *)operands[k]->data;
  }
  return TN_OK;
}

tn_status tn_iter_init(tn_iter *it, uint32_t ndim, const tn_dim *sizes, uint32_t n_outputs,
                       uint32_t n_operands, const tn_view *const *operands, uint32_t flags) {
  if (n_operands == 0 || n_operands > TN_ITER_MAX_OPERANDS) {
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "an iteration takes 1 to %d operands, found %u",
                   TN_ITER_MAX_OPERANDS, n_operands);
  }
  tn_dim numel = 0;
  TN_TRY(tn_shape_numel(ndim, sizes, &numel));
  tni_iter_begin(it, n_outputs, n_operands, flags);
  TN_TRY(check_operands(it, ndim, sizes, numel, operands));
  for (uint32_t d = 0; d < ndim; d++) {
    int64_t strides[TN_ITER_MAX_OPERANDS];
    for (uint32_t k = 0; k < n_operands; k++) {
      const tn_view *v = operands[k];
      uint32_t missing = ndim - v->ndim;
      bool moves = d >= missing && v->sizes[d - missing] != 1;
      strides[k] = moves ? v->strides[d - missing] * v->itemsize : 0;
    }
    tni_iter_add_dim(it, sizes[d], strides);
  }
  it->numel = numel;
  tni_iter_finish(it);
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracked views: a tensor that knows its parent and how it was made from it.
 *
 * Note [Replay records]
 * A view keeps the operator and the arguments that made it, so that its history can be made again after its base
 * was written (autograd), and later on another base (functionalize). The record is a private copy of the
 * argument values; list arguments are copied behind them. It stands in the view's own block, in the room that
 * inline data would take, because a view has none; a record that does not fit there is allocated.
 */
#include <stddef.h>

#include "core/autograd/autograd.h"
#include "core/tensor/view.h"

static size_t payload_bytes(const tn_value *v) {
  if (v->kind == TN_VAL_STRING) return ((size_t)v->count + 8) & ~(size_t)7;
  if (v->kind != TN_VAL_LIST) return 0;
  size_t entry = v->elem == TN_VAL_SCALAR ? sizeof(tn_value) : v->elem == TN_VAL_BOOL ? 1 : 8;
  return (entry * v->count + 7) & ~(size_t)7;
}

static size_t record_bytes(const tn_value *args, uint32_t n_args) {
  size_t bytes = sizeof(tni_replay) + n_args * sizeof(tn_value);
  for (uint32_t i = 1; i < n_args; ++i) bytes += payload_bytes(&args[i]);
  return bytes;
}

/* Bytes that are really there to copy; payload_bytes rounds up. */
static size_t source_bytes(const tn_value *v) {
  if (v->kind == TN_VAL_STRING) return (size_t)v->count + 1;
  return v->elem == TN_VAL_BOOL ? v->count : payload_bytes(v);
}

void tni_view_fix(tn_tensor *t) {
  t->view.sizes = t->dims;
  t->view.strides = t->dims + TNI_INLINE_RANK;
  t->view.reserved2 = 0;
  atomic_store_explicit(&t->counts, TNI_SOLE, memory_order_relaxed);
  tni_tensor_clear(t, TNI_BLOCK_VIEW, TNI_CREATION_DEFAULT, 0);
  t->replay = tni_view_own_record(t);
  t->replay->args[0] = tn_value_none();
  t->own_storage.kind = TNI_STORAGE_NONE;
}

tn_tensor *tni_view_block_new(void) {
  tn_tensor *t = tni_block_alloc(TNI_BLOCK_VIEW);
  if (t)
    tni_view_fix(t);
  else
    (void)tni_oom(TNI_VIEW_BYTES, "a view");
  return t;
}

/* Room for more dims than the block has. */
tn_status tni_view_dims_allocate(tn_tensor *t, unsigned ndim) {
  tn_dim *dims = tni_alloc(2 * ndim * sizeof *dims);
  if (!dims) return tni_oom(2 * ndim * sizeof *dims, "sizes and strides");
  t->extras |= TNI_EXTRA_DIMS;
  t->view.sizes = dims;
  t->view.strides = dims + ndim;
  return TN_OK;
}

/* Any kinds of values, their lists and strings behind them. */
tn_status tni_view_record_allocate(tn_tensor *t, const tn_op *op, const tn_value *args, uint32_t out_index) {
  size_t bytes = record_bytes(args, op->n_args);
  tni_replay *r = tni_alloc(bytes);
  if (!r) return tni_oom(bytes, "a view's record");
  tni_view_record_head(r, op, out_index);
  r->args[0] = tn_value_none();
  char *tail = (char *)&r->args[op->n_args];
  for (uint32_t i = 1; i < op->n_args; ++i) {
    const size_t payload = payload_bytes(&args[i]);
    r->args[i] = args[i];
    if (args[i].kind != TN_VAL_LIST && args[i].kind != TN_VAL_STRING) continue;
    if (payload) memcpy(tail, args[i].u.p, source_bytes(&args[i]));
    r->args[i].u.p = tail;
    tail += payload;
  }
  t->extras |= TNI_EXTRA_REPLAY;
  t->replay = r;
  return TN_OK;
}

/* A rule that takes strides and offset from the caller (as_strided) may reach outside the memory; every other
 * rule stays inside self's own elements. An empty view reaches nothing, but begins inside too: it may be resized
 * later. Meta tensors have no memory; of theirs, the numbers must fit 64 bits. */
tn_status tni_view_check_reach(const tn_tensor *src, const tn_desc *desc) {
  tn_dim first = desc->offset, last = desc->offset, step, bytes;
  bool overflow = false, empty = false;
  for (uint32_t i = 0; i < desc->ndim; ++i) empty |= desc->sizes[i] == 0;
  for (uint32_t i = 0; i < desc->ndim && !empty; ++i) {
    overflow |= __builtin_mul_overflow(desc->sizes[i] - 1, desc->strides[i], &step);
    overflow |= __builtin_add_overflow(step < 0 ? first : last, step, step < 0 ? &first : &last);
  }
  tn_dim item = src->view.itemsize, origin = tni_view_offset(&src->view) / item;
  tn_dim room = (tn_dim)(tni_storage_bytes(tni_storage_of(src)) / (uint64_t)item);
  overflow |= __builtin_add_overflow(first, origin, &first);
  overflow |= __builtin_add_overflow(last, origin, &last);
  overflow |= __builtin_mul_overflow(last, item, &bytes);
  bool inside = last < room || (empty && last == room) || src->view.backend == TN_BACKEND_META;
  if (!overflow && first >= 0 && inside) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT,
                 "the sizes, strides and offset reach outside the tensor's memory, which holds %lld elements",
                 (long long)room);
}

void tni_view_discard(tn_tensor *t) {
  if (t->extras & TNI_EXTRA_DIMS) tni_free((void *)(uintptr_t)t->view.sizes);
  tni_view_fix(t);
  tni_block_push(t, TNI_BLOCK_VIEW);
}

tn_status tni_tensor_view(tn_tensor *src, const tn_desc *desc, const tn_op *op, const tn_value *args,
                          uint32_t out_index, tn_tensor **out_tensor) {
  tn_status status;
  *out_tensor = NULL;
  if (TNI_UNLIKELY(desc->layout == TN_DESC_FREE_STRIDES)) TN_TRY(tni_view_check_reach(src, desc));
  *out_tensor = tni_view_make(src, desc, op, args, out_index, &status);
  return status;
}

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
#include "core/tensor/tensor.h"

enum { CLASS_VIEW = 5, VIEW_BYTES = 512, RECORD_OFFSET = sizeof(struct tn_tensor) };

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

/* Writes the record if it ends before `end`. args[0] is the parent and stays empty; view operators take no other
 * tensor. */
static inline __attribute__((always_inline)) bool record_write(tni_replay *r, const char *end, const tn_op *op,
                                                               const tn_value *args, uint32_t out_index) {
  const uint32_t n_args = op->n_args;
  char *tail = (char *)&r->args[n_args];
  if (TNI_UNLIKELY(tail > end)) return false;
  r->op = op;
  r->n_args = n_args;
  r->out_index = out_index;
  r->args[0] = tn_value_none();
  for (uint32_t i = 1; i < n_args; ++i) {
    const tn_value *from = &args[i];
    tn_value *to = &r->args[i];
    const uint8_t kind = from->kind;
    *to = *from;
    if (TNI_LIKELY(kind != TN_VAL_LIST && kind != TN_VAL_STRING)) continue;
    if (TNI_LIKELY(kind == TN_VAL_LIST && from->elem == TN_VAL_INT)) {
      const uint32_t count = from->count;
      const int64_t *ints = from->u.ints;
      if (TNI_UNLIKELY(count * 8ull > (size_t)(end - tail))) return false;
      to->u.p = tail;
      for (uint32_t k = 0; k < count; ++k, tail += 8) memcpy(tail, &ints[k], 8);
      continue;
    }
    size_t bytes = payload_bytes(from);
    if (TNI_UNLIKELY(bytes > (size_t)(end - tail))) return false;
    if (bytes) memcpy(tail, from->u.p, source_bytes(from));
    to->u.p = tail;
    tail += bytes;
  }
  return true;
}

static inline uint8_t creation_of(const tn_tensor *src, const tn_op *op) {
  if (src->creation != TNI_CREATION_DEFAULT) return src->creation;
  if (op->flags & TN_OP_MULTI_VIEW) return TNI_CREATION_MULTI_OUTPUT;
  if (TNI_UNLIKELY(tni_tls.modes.inference)) return TNI_CREATION_INFERENCE;
  return tni_tls.modes.grad_enabled ? TNI_CREATION_DEFAULT : TNI_CREATION_NO_GRAD;
}

static inline void fields_fill(tn_tensor *t, tn_tensor *src, const tn_desc *desc, unsigned creation) {
  const tn_view *from = &src->view;
  tn_view *v = &t->view;
  v->data = from->data ? (char *)from->data + desc->offset * from->itemsize : NULL;
  v->mem = from->mem;
  v->offset_bytes = from->offset_bytes + desc->offset * from->itemsize;
  v->storage = from->storage;
  memcpy(&v->dtype, &from->dtype, sizeof *v - offsetof(tn_view, dtype)); /* dtype .. reserved2 */
  v->ndim = desc->ndim;
  v->flags &= ~(uint32_t)(TN_VIEW_WRAPPED_NUMBER | TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE);
  atomic_store_explicit(&t->counts, TNI_SOLE, memory_order_relaxed);
  t->version = src->version;
  tni_tensor_clear(t, CLASS_VIEW, creation, 0);
  t->parent = src;
  t->base = src->base ? src->base : src;
}

/* Room for more dims than the block has. */
static __attribute__((noinline)) tn_status dims_allocate(tn_tensor *t, unsigned ndim) {
  tn_dim *dims = tni_alloc(2 * ndim * sizeof *dims);
  if (!dims) return tni_oom(2 * ndim * sizeof *dims, "sizes and strides");
  t->extras |= TNI_EXTRA_DIMS;
  t->view.sizes = dims;
  t->view.strides = dims + ndim;
  return TN_OK;
}

/* Sizes, strides, numel and flags in one pass over the dims: what tni_view_finish finds, for a fresh view. */
static inline tn_status dims_fill(tn_tensor *t, const tn_desc *desc) {
  tn_view *v = &t->view;
  unsigned ndim = desc->ndim;
  v->sizes = t->dims;
  v->strides = t->dims + TNI_INLINE_RANK;
  if (TNI_UNLIKELY(ndim > TNI_INLINE_RANK)) TN_TRY(dims_allocate(t, ndim));
  tn_dim *sizes = (tn_dim *)(uintptr_t)v->sizes, *strides = (tn_dim *)(uintptr_t)v->strides, numel = 1;
  bool contiguous = true, overflow = false;
  for (unsigned i = ndim; i-- > 0;) {
    tn_dim size = desc->sizes[i], stride = desc->strides[i];
    sizes[i] = size;
    strides[i] = stride;
    contiguous &= (stride == numel) | (size == 1);
    overflow |= __builtin_mul_overflow(numel, size, &numel);
  }
  v->numel = numel;
  if (TNI_LIKELY(contiguous && !overflow && numel)) {
    v->flags |= TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE;
    return TN_OK;
  }
  if (tni_view_finish(v)) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "the view would have more than 2^63 - 1 elements");
}

static __attribute__((noinline)) tn_status record_allocate(tn_tensor *t, const tn_op *op, const tn_value *args,
                                                           uint32_t out_index) {
  size_t bytes = record_bytes(args, op->n_args);
  tni_replay *r = tni_alloc(bytes);
  if (!r) return tni_oom(bytes, "a view's record");
  record_write(r, (char *)r + bytes, op, args, out_index);
  t->extras |= TNI_EXTRA_REPLAY;
  t->replay = r;
  return TN_OK;
}

static inline tn_status record_place(tn_tensor *t, const tn_op *op, const tn_value *args, uint32_t out_index) {
  tni_replay *r = (tni_replay *)(void *)((char *)t + RECORD_OFFSET);
  if (TNI_UNLIKELY(!record_write(r, (char *)t + VIEW_BYTES, op, args, out_index)))
    return record_allocate(t, op, args, out_index);
  t->replay = r;
  return TN_OK;
}

/* A rule that takes strides and offset from the caller (as_strided) may reach outside the memory; every other
 * rule stays inside self's own elements. An empty view reaches nothing, but begins inside too: it may be resized
 * later. Meta tensors have no memory; of theirs, the numbers must fit 64 bits. */
static tn_status check_reach(const tn_tensor *src, const tn_desc *desc) {
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

tn_status tni_tensor_view(tn_tensor *src, const tn_desc *desc, const tn_op *op, const tn_value *args,
                          uint32_t out_index, tn_tensor **out_tensor) {
  *out_tensor = NULL;
  if (TNI_UNLIKELY(desc->layout == TN_DESC_FREE_STRIDES)) TN_TRY(check_reach(src, desc));
  tn_tensor *t = tni_block_pop(CLASS_VIEW);
  if (TNI_UNLIKELY(!t)) return tni_oom(VIEW_BYTES, "a view");
  fields_fill(t, src, desc, creation_of(src, op));
  t->own_storage.kind = TNI_STORAGE_NONE;
  tn_status status = dims_fill(t, desc);
  if (TNI_LIKELY(status == TN_OK)) status = record_place(t, op, args, out_index);
  if (TNI_UNLIKELY(status != TN_OK)) {
    if (t->extras & TNI_EXTRA_DIMS) tni_free((void *)(uintptr_t)t->view.sizes);
    tni_block_push(t, CLASS_VIEW);
    return status;
  }
  t->replay->version = tni_version_get(src);
  uint64_t keys = src->keys;
  if (TNI_LIKELY(t->version && ((TN_DTYPE_BIT(src->view.dtype) & TN_DTYPES_FLOAT) || src->autograd)))
    keys |= TNI_KEY_AUTOGRAD; /* may have history */
  t->keys = keys;
  tni_retain(src);
  *out_tensor = t;
  return TN_OK;
}

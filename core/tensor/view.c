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

/* args[0] is the parent and stays empty; view operators take no other tensor. */
static void record_fill(tni_replay *r, const tn_op *op, const tn_value *args, uint32_t n_args,
                        uint32_t out_index) {
  r->op = op;
  r->n_args = n_args;
  r->out_index = out_index;
  char *tail = (char *)&r->args[n_args];
  r->args[0] = tn_value_none();
  for (uint32_t i = 1; i < n_args; ++i) {
    r->args[i] = args[i];
    size_t bytes = payload_bytes(&args[i]);
    if (!bytes) continue;
    size_t copied = args[i].kind == TN_VAL_STRING ? (size_t)args[i].count + 1
                    : args[i].elem == TN_VAL_SCALAR ? args[i].count * sizeof(tn_value)
                    : args[i].elem == TN_VAL_BOOL   ? args[i].count
                                                    : (size_t)args[i].count * 8;
    memcpy(tail, args[i].u.p, copied);
    r->args[i].u.p = tail;
    tail += bytes;
  }
}

static uint8_t creation_of(const tn_tensor *src, const tn_op *op) {
  if (src->creation != TNI_CREATION_DEFAULT) return src->creation;
  if (op->flags & TN_OP_MULTI_VIEW) return TNI_CREATION_MULTI_OUTPUT;
  if (tni_tls.modes.inference) return TNI_CREATION_INFERENCE;
  return tni_tls.modes.grad_enabled ? TNI_CREATION_DEFAULT : TNI_CREATION_NO_GRAD;
}

static inline void fields_fill(tn_tensor *t, tn_tensor *src, const tn_desc *desc) {
  const tn_view *from = &src->view;
  tn_view *v = &t->view;
  v->data = from->data ? (char *)from->data + desc->offset * from->itemsize : NULL;
  v->mem = from->mem;
  v->offset_bytes = from->offset_bytes + desc->offset * from->itemsize;
  v->storage = from->storage;
  memcpy(&v->dtype, &from->dtype, sizeof *v - offsetof(tn_view, dtype)); /* dtype .. reserved2 */
  v->ndim = desc->ndim;
  v->flags &= ~(uint32_t)TN_VIEW_WRAPPED_NUMBER;
  atomic_init(&t->refs, 1);
  atomic_init(&t->keep, 1);
  t->version = src->version;
  tni_tensor_clear(t, CLASS_VIEW);
  t->parent = src;
  t->base = src->base ? src->base : src;
}

static tn_status dims_fill(tn_tensor *t, const tn_desc *desc) {
  tn_dim *sizes = t->dims, *strides = t->dims + TNI_INLINE_RANK;
  if (TNI_UNLIKELY(desc->ndim > TNI_INLINE_RANK)) {
    sizes = tni_alloc(2 * desc->ndim * sizeof *sizes);
    if (!sizes) return tni_oom(2 * desc->ndim * sizeof *sizes, "sizes and strides");
    strides = sizes + desc->ndim;
    t->extras |= TNI_EXTRA_DIMS;
  }
  for (unsigned i = 0; i < desc->ndim; ++i) {
    sizes[i] = desc->sizes[i];
    strides[i] = desc->strides[i];
  }
  t->view.sizes = sizes;
  t->view.strides = strides;
  return TN_OK;
}

static tn_status record_place(tn_tensor *t, const tn_op *op, const tn_value *args, uint32_t n_args,
                              uint32_t out_index) {
  size_t bytes = record_bytes(args, n_args);
  tni_replay *r = (tni_replay *)(void *)((char *)t + RECORD_OFFSET);
  bool fits = RECORD_OFFSET + bytes <= VIEW_BYTES;
  if (!fits) r = tni_alloc(bytes);
  if (!r) return tni_oom(bytes, "a view's record");
  if (!fits) t->extras |= TNI_EXTRA_REPLAY;
  record_fill(r, op, args, n_args, out_index);
  t->replay = r;
  return TN_OK;
}

tn_status tni_tensor_view(tn_tensor *src, const tn_desc *desc, const tn_op *op, const tn_value *args,
                          uint32_t n_args, uint32_t out_index, tn_tensor **out_tensor) {
  tn_tensor *t = tni_block_pop(CLASS_VIEW);
  *out_tensor = NULL;
  if (TNI_UNLIKELY(!t)) return tni_oom(VIEW_BYTES, "a view");
  fields_fill(t, src, desc);
  t->own_storage.kind = TNI_STORAGE_NONE;
  tn_status status = dims_fill(t, desc);
  if (TNI_LIKELY(status == TN_OK) && TNI_UNLIKELY(!tni_view_finish(&t->view)))
    status = tn_fail(TN_ERR_INVALID_ARGUMENT, "the view would have more than 2^63 - 1 elements");
  if (TNI_LIKELY(status == TN_OK)) status = record_place(t, op, args, n_args, out_index);
  if (TNI_UNLIKELY(status != TN_OK)) {
    if (t->extras & TNI_EXTRA_DIMS) tni_free((void *)(uintptr_t)t->view.sizes);
    tni_block_push(t, CLASS_VIEW);
    return status;
  }
  t->creation = creation_of(src, op);
  t->replay->version = tni_version_get(src);
  bool history = t->version && ((TN_DTYPE_BIT(t->view.dtype) & TN_DTYPES_FLOAT) || src->autograd);
  t->keys = (src->keys & ~TNI_KEY_AUTOGRAD) | (history ? TNI_KEY_AUTOGRAD : src->keys & TNI_KEY_AUTOGRAD);
  tni_retain(src);
  *out_tensor = t;
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a tracked view (view.c), inline for the view step of the dispatcher: what most views need. Every store of a view
 * stands here or in tni_view_fix.
 */
#ifndef TENON_CORE_VIEW_H
#define TENON_CORE_VIEW_H

#include "core/tensor/small.h"

enum { TNI_VIEW_BYTES = 512, TNI_VIEW_RECORD = sizeof(struct tn_tensor) };

/* The rare parts, in view.c. */
tn_tensor *tni_view_block_new(void); /* NULL: out of memory */
tn_status tni_view_check_reach(const tn_tensor *src, const tn_desc *desc);
tn_status tni_view_dims_allocate(tn_tensor *t, unsigned ndim);
tn_status tni_view_record_allocate(tn_tensor *t, const tn_op *op, const tn_value *args, uint32_t out_index);
void tni_view_discard(tn_tensor *t); /* one that was not finished */

static inline tni_replay *tni_view_own_record(tn_tensor *t) {
  return (tni_replay *)(void *)((char *)t + TNI_VIEW_RECORD);
}

static inline void tni_view_record_head(tni_replay *r, const tn_op *op, uint32_t out_index) {
  const uint64_t counts = (uint64_t)out_index << 32 | op->n_args;
  r->op = op;
  memcpy(&r->n_args, &counts, sizeof counts);
}
_Static_assert(offsetof(tni_replay, out_index) == offsetof(tni_replay, n_args) + 4 &&
                   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tni_view_record_head knows the layout");

/* Writes the record behind the view, if it holds numbers and lists of integers, and fits. args[0] is the parent and stays
 * empty; view operators take no other tensor. */
static inline __attribute__((always_inline)) bool tni_view_record(tn_tensor *t, const tn_op *op, const tn_value *args,
                                                                  uint32_t out_index) {
  tni_replay *r = tni_view_own_record(t);
  const char *end = (char *)t + TNI_VIEW_BYTES;
  const uint32_t n_args = op->n_args;
  char *tail = (char *)&r->args[n_args];
  if (TNI_UNLIKELY(tail > end)) return false;
  tni_view_record_head(r, op, out_index);
  for (uint32_t i = 1; i < n_args; ++i) {
    const tn_value *from = &args[i];
    r->args[i] = *from;
    if (TNI_LIKELY(from->kind != TN_VAL_LIST && from->kind != TN_VAL_STRING)) continue;
    const size_t count = from->count;
    const int64_t *ints = from->u.ints;
    if (TNI_UNLIKELY(from->kind == TN_VAL_STRING || from->elem != TN_VAL_INT || count * 8 > (size_t)(end - tail)))
      return false;
    r->args[i].u.p = tail;
    for (size_t k = 0; k < count; ++k, tail += 8) memcpy(tail, &ints[k], 8);
  }
  return true;
}

static inline uint8_t tni_view_creation(const tn_tensor *src, const tn_op *op) {
  if (src->creation != TNI_CREATION_DEFAULT) return src->creation;
  if (op->flags & TN_OP_MULTI_VIEW) return TNI_CREATION_MULTI_OUTPUT;
  if (TNI_UNLIKELY(tni_tls.modes.inference)) return TNI_CREATION_INFERENCE;
  return tni_tls.modes.grad_enabled ? TNI_CREATION_DEFAULT : TNI_CREATION_NO_GRAD;
}

static inline void tni_view_fill(tn_tensor *t, tn_tensor *src, const tn_desc *desc, unsigned creation) {
  const tn_view *from = &src->view;
  tn_view *v = &t->view;
  v->data = from->data ? (char *)from->data + desc->offset * from->itemsize : NULL;
  v->mem = from->mem;
  v->offset_bytes = from->offset_bytes + desc->offset * from->itemsize;
  v->storage = from->storage;
  const uint64_t word = (tni_view_word(from) & ~(uint64_t)0xff00) | (uint64_t)desc->ndim << 8;
  memcpy(&v->dtype, &word, sizeof word);
  t->version = src->version;
  tni_tensor_mark(t, TNI_BLOCK_VIEW, creation, 0);
  t->parent = src;
  t->base = src->base ? src->base : src;
}

/* Sizes, strides, numel and flags in one pass over the dims: what tni_view_finish finds, for a fresh view. */
static inline tn_status tni_view_dims(tn_tensor *t, const tn_view *from, const tn_desc *desc) {
  tn_view *v = &t->view;
  const unsigned ndim = desc->ndim;
  if (TNI_UNLIKELY(ndim > TNI_INLINE_RANK)) TN_TRY(tni_view_dims_allocate(t, ndim));
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
  uint64_t flags = from->flags & ~(uint32_t)(TN_VIEW_WRAPPED_NUMBER | TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE);
  const bool usual = contiguous && !overflow && numel;
  if (usual) flags |= TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE;
  memcpy(&v->flags, &flags, sizeof flags); /* and reserved1 */
  if (TNI_LIKELY(usual) || tni_view_finish(v)) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "the view would have more than 2^63 - 1 elements");
}

/* tni_tensor_view. NULL: *out_status says why. */
static inline __attribute__((always_inline)) tn_tensor *tni_view_make(tn_tensor *src, const tn_desc *desc,
                                                                      const tn_op *op, const tn_value *args,
                                                                      uint32_t out_index, tn_status *out_status) {
  tn_tensor *t = tni_block_pop_listed(TNI_BLOCK_VIEW);
  if (TNI_UNLIKELY(!t)) t = tni_view_block_new();
  *out_status = TN_ERR_OUT_OF_MEMORY;
  if (TNI_UNLIKELY(!t)) return NULL;
  tni_view_fill(t, src, desc, tni_view_creation(src, op));
  tn_status status = tni_view_dims(t, &src->view, desc);
  if (TNI_UNLIKELY(status == TN_OK && !tni_view_record(t, op, args, out_index)))
    status = tni_view_record_allocate(t, op, args, out_index);
  *out_status = status;
  if (TNI_UNLIKELY(status != TN_OK)) return tni_view_discard(t), NULL;
  t->replay->version = tni_version_get(src);
  uint64_t keys = src->keys;
  if (TNI_LIKELY(src->version && ((TN_DTYPE_BIT(src->view.dtype) & TN_DTYPES_FLOAT) || src->autograd)))
    keys |= TNI_KEY_AUTOGRAD; /* may have history */
  t->keys = keys;
  tni_retain(src);
  return t;
}

#endif

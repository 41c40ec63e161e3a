/* SPDX-License-Identifier: Apache-2.0
 *
 * The structured step of small elementwise calls, and of fills in place.
 *
 * Note [Fast path]
 * Most small calls are an elementwise operator on contiguous operands of one shape, dtype and device, floating.
 * For these the meta rule's answer is the first operand's own descriptor, so the step allocates and calls the
 * kernel at once. Everything else goes through tni_structured, which knows all the rules. Both give the same
 * result; tests run each sample through both (a size-1 stride of 7 defeats the fast path).
 */
#include "core/dispatch/dispatch_int.h"
#include "core/dispatch/fresh.h"
#include "core/load/load.h"
#include "core/tensor/small.h"

/* Is b like a: dtype, device, sizes? Flags are the caller's. */
static inline bool view_alike(const tn_view *a, const tn_view *b) {
  if (tni_view_word(a) != tni_view_word(b)) return false;
  if (TNI_LIKELY(a->ndim == 1)) return a->sizes[0] == b->sizes[0];
  for (unsigned i = 0; i < a->ndim; ++i)
    if (a->sizes[i] != b->sizes[i]) return false;
  return true;
}

/* Are all tensor operands alike and contiguous? The first argument is one. */
static inline bool operands_flat(uint64_t tensor_args, const tn_value *args) {
  const tn_view *a = args[0].u.v;
  if (TNI_UNLIKELY(args[0].kind != TN_VAL_TENSOR)) return false;
  uint32_t flags = a->flags;
  for (uint64_t m = tensor_args & ~(uint64_t)1; m; m &= m - 1) {
    const tn_value *value = &args[__builtin_ctzll(m)];
    if (value->kind != TN_VAL_TENSOR || !view_alike(a, value->u.v)) return false;
    flags &= value->u.v->flags;
  }
  return (flags & TN_VIEW_CONTIGUOUS) != 0;
}

/* The second half of a fast call: its result is in out[0]. */
static inline __attribute__((always_inline)) tn_status fast_kernel(tn_call *call, const tn_value *args,
                                                                   tn_value *out) {
  const tni_cell *cell = call->cell;
  const tn_view *first = args[0].u.v;
  call->device.backend = first->backend; /* the rest of it is 0 */
  call->device.index = first->device_index;
  call->flags |= TN_CALL_FLAT;
  tn_status status = cell->fast_fn(call, args, out); /* call->user is the cell's: that kernel's */
  if (TNI_UNLIKELY(call->core != NULL)) tni_scratch_release_fast(call);
  return status;
}

/* The kernel failed or declined: nothing of the result stays. */
static TN_COLD tn_status fast_undo(tn_call *call, const tn_value *args, tn_value *out, tn_status status) {
  call->flags &= ~(uint32_t)TN_CALL_FLAT;
  tn_tensor_release(out[0].u.t);
  out[0] = tn_value_none();
  return status == TN_DECLINED ? tni_structured(call, args, out) : status;
}

/* A result whose data does not lie in its block. Out of line, so that the small call keeps few registers over its
 * kernel. */
static __attribute__((noinline)) tn_status fast_large(tn_call *call, const tn_value *args, tn_value *out, uint64_t word,
                                                      size_t itemsize) {
  const tn_view *first = args[0].u.v;
  const tni_cell *cell = call->cell;
  tn_tensor *result = tni_tensor_paired(first, word, itemsize, TNI_KEY(first->backend),
                                        cell->pools[first->device_index], cell->own_bytes);
  if (TNI_UNLIKELY(!result)) {
    tn_tensor *made; /* no address of `result` is taken: it stays in a register */
    TN_TRY(tni_tensor_new_like(first, word, itemsize, &made));
    result = made;
  }
  out[0] = tn_value_make((uint64_t)(uintptr_t)result, TN_VALUE_TAG(TN_VAL_TENSOR, 0, 0));
  tn_status status = fast_kernel(call, args, out);
  return TNI_LIKELY(status == TN_OK) ? TN_OK : fast_undo(call, args, out, status);
}

/* Allocates and calls the kernel. word: the result's tni_view_word. */
static inline __attribute__((always_inline)) tn_status fast_call(tn_call *call, const tn_value *args,
                                                                 tn_value *out, uint64_t word,
                                                                 size_t itemsize) {
  const tni_cell *cell = call->cell;
  /* At a backend's cell with operands alike, the call's keys are that backend's bit. */
  tn_tensor *result = tni_tensor_small(args[0].u.v, word, itemsize, call->keys, cell->small_bytes);
  if (TNI_UNLIKELY(!result)) return fast_large(call, args, out, word, itemsize);
  out[0] = tn_value_make((uint64_t)(uintptr_t)result, TN_VALUE_TAG(TN_VAL_TENSOR, 0, 0));
  tn_status status = fast_kernel(call, args, out);
  return TNI_LIKELY(status == TN_OK) ? TN_OK : fast_undo(call, args, out, status);
}

/* Two required operands in front, result of their dtype: most calls. Float operands keep their dtype under every
 * promotion, whatever numbers stand beside them; fast_dtypes holds floating ones only. */
tn_status tni_structured_binary(tn_call *call, const tn_value *args, tn_value *out) {
  const tni_cell *cell = call->cell;
  const tn_view *a = args[0].u.v, *b = args[1].u.v;
  if (TNI_UNLIKELY(!view_alike(a, b) || !(a->flags & b->flags & TN_VIEW_CONTIGUOUS) ||
                   !(cell->fast_dtypes >> a->dtype & 1)))
    return tni_structured(call, args, out);
  return fast_call(call, args, out, tni_view_word(a), a->itemsize);
}

tn_status tni_structured_elementwise(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  const tni_cell *cell = call->cell;
  if (!(op->tensor_args & 1) || !operands_flat(op->tensor_args, args)) return tni_structured(call, args, out);
  const tn_view *first = args[0].u.v;
  if (!(cell->fast_dtypes >> first->dtype & 1)) return tni_structured(call, args, out);
  uint64_t word = tni_view_word(first);
  if (op->promote < TN_PROMOTE_COMPARE) return fast_call(call, args, out, word, first->itemsize);
  return fast_call(call, args, out, (word & ~(uint64_t)0xff00ff) | TN_BOOL | 1 << 16, 1); /* one byte an element */
}

/* Do two contiguous views of one size and device share no byte (*out_exact false) or every one (true)? Memory may
 * have been imported twice, so addresses are compared where there are some. */
static inline bool flat_apart(const tn_view *a, const tn_view *b, bool *out_exact) {
  const uint64_t bytes = (uint64_t)a->numel * a->itemsize;
  uint64_t distance = (uint64_t)((uintptr_t)a->data - (uintptr_t)b->data);
  *out_exact = false;
  if (TNI_UNLIKELY(!a->data)) {
    if (a->storage != b->storage) return true;
    distance = (uint64_t)(a->offset_bytes - b->offset_bytes);
  }
  *out_exact = distance == 0;
  return distance >= bytes && -distance >= bytes;
}

/* The second half of an in-place call whose kernel may write to self at once. flags: what it is told beside that. */
static inline tn_status inplace_kernel(tn_call *call, const tn_value *args, uint32_t flags) {
  const tni_cell *cell = call->cell;
  tn_value target = args[0];
  call->device = tn_view_device(args[0].u.v);
  call->flags |= TN_CALL_IN_PLACE | flags;
  tn_status status = cell->fast_fn(call, args, &target);
  if (TNI_UNLIKELY(call->core != NULL)) tni_scratch_release_fast(call);
  /* What failed may have written, too; but kernels take their memory first. */
  if (TNI_LIKELY(status != TN_DECLINED && status != TN_ERR_OUT_OF_MEMORY)) tni_version_bump(args[0].u.t);
  call->flags &= ~(TN_CALL_IN_PLACE | flags);
  return status;
}

/* In place over contiguous self: other operands lie elsewhere or are exactly self. */
static inline tn_status inplace_fast(tn_call *call, const tn_value *args) {
  const tn_op *op = call->op;
  const tni_cell *cell = call->cell;
  if (!(op->tensor_args & 1) || !operands_flat(op->tensor_args, args)) return TN_DECLINED;
  const tn_view *first = args[0].u.v;
  if (!(cell->fast_dtypes >> first->dtype & 1) || op->promote >= TN_PROMOTE_COMPARE) return TN_DECLINED;
  if ((first->flags & TN_VIEW_READ_ONLY) || !args[0].u.t->version) return TN_DECLINED;
  for (uint64_t m = op->tensor_args & ~(uint64_t)1; m; m &= m - 1) {
    bool exact;
    if (!flat_apart(args[__builtin_ctzll(m)].u.v, first, &exact) && !(exact && (op->flags & TN_OP_POINTWISE_ALIAS)))
      return TN_DECLINED;
  }
  return inplace_kernel(call, args, TN_CALL_FLAT);
}

tn_status tni_structured_inplace(tn_call *call, const tn_value *args, tn_value *out) {
  tn_status status = inplace_fast(call, args);
  return TNI_LIKELY(status != TN_DECLINED) ? status : tni_structured(call, args, out);
}

/* Over contiguous self, if the meta rule describes self as it is. The rule runs, because it may refuse a number. */
static inline tn_status alone_fast(tn_call *call, const tn_value *args) {
  const tni_cell *cell = call->cell;
  const tn_view *self = args[0].u.v;
  tn_desc desc;
  tn_meta meta;
  if (args[0].kind != TN_VAL_TENSOR || !(self->flags & TN_VIEW_CONTIGUOUS) || !(cell->fast_dtypes >> self->dtype & 1))
    return TN_DECLINED;
  if ((self->flags & TN_VIEW_READ_ONLY) || !args[0].u.t->version) return TN_DECLINED;
  tni_meta_begin(&meta, call->op, &desc);
  TN_TRY(call->op->meta(&meta, args));
  if (tni_meta_byte(&desc.dtype) != self->dtype || tni_meta_byte(&desc.ndim) != self->ndim ||
      (tni_meta_byte(&desc.absent) | tni_meta_byte(&desc.unknown)))
    return TN_DECLINED;
  for (unsigned i = 0; i < self->ndim; ++i)
    if (desc.sizes[i] != self->sizes[i]) return TN_DECLINED;
  return inplace_kernel(call, args, 0);
}

tn_status tni_structured_alone(tn_call *call, const tn_value *args, tn_value *out) {
  tn_status status = alone_fast(call, args);
  return TNI_LIKELY(status != TN_DECLINED) ? status : tni_structured(call, args, out);
}

bool tni_alone_fits(const tn_op *op) {
  return op->form == TN_FORM_INPLACE && op->functional == op && op->meta && op->tensor_args == 1 &&
         op->write_args == 1 && !op->list_args && op->schema->n_results == 1 && !op->rng && op->device_arg == 255 &&
         !(op->flags & (TN_OP_NO_KERNEL | TN_OP_CROSS_DEVICE));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The structured step of functional operators with one fresh result (sum, mm, softmax): what is left of the general
 * step when no operand has to be cast or moved, nothing is random and no target exists. Whatever does
 * not fit is handed to tni_structured, before anything was done.
 */
#include "core/dispatch/dispatch_int.h"
#include "core/dispatch/fresh.h"

/* Are all operands on one device of the running backend? Then *out_device is it. */
static inline bool operands_together(const tn_op *op, const tn_value *args, uint8_t backend, tn_device *out_device) {
  bool decided = false;
  for (uint64_t m = op->tensor_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind != TN_VAL_TENSOR) continue;
    if (v->u.v->backend != backend || (decided && v->u.v->device_index != out_device->index)) return false;
    *out_device = tn_view_device(v->u.v);
    decided = true;
  }
  return decided;
}

/* Has some operand another dtype than the rule wants to compute in? */
static inline bool needs_cast(const tn_op *op, const tn_value *args, const tn_meta *meta) {
  if (meta->compute_dtype == TN_DTYPE_NONE) return false;
  for (uint64_t m = op->tensor_args & ~meta->keep_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR && v->u.v->dtype != meta->compute_dtype) return true;
  }
  return false;
}

/* By what providers are chosen: as in the general step. */
typedef struct claim {
  tn_dtype dtype;
  uint32_t rank;
  int64_t numel;
} claim;

static inline claim claim_of(const tn_op *op, const tn_value *args, const tn_meta *meta,
                             const tn_view *result) {
  claim c = {meta->compute_dtype, result->ndim, result->numel};
  for (uint64_t m = op->tensor_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind != TN_VAL_TENSOR) continue;
    if (c.dtype == TN_DTYPE_NONE) c.dtype = v->u.v->dtype;
    if (v->u.v->ndim > c.rank) c.rank = v->u.v->ndim;
    if (v->u.v->numel > c.numel) c.numel = v->u.v->numel;
  }
  if (c.dtype == TN_DTYPE_NONE) c.dtype = result->dtype;
  return c;
}

/* Providers in order, until one does not decline. */
static inline tn_status run_providers(tn_call *call, const tn_value *args, tn_value *out, claim c) {
  const tni_cell *cell = call->cell;
  void *const none = (void *)(uintptr_t)TNI_CORE_KERNEL;
  tn_status status = TN_DECLINED;
  call->core = none;
  for (uint32_t i = 0; i < cell->n_chain && status == TN_DECLINED; ++i) {
    const tni_kernel *k = cell->chain[i];
    if (c.numel < k->min_numel || !(k->dtypes & TN_DTYPE_BIT(c.dtype)) || c.rank > k->max_rank) continue;
    call->user = k->user;
    status = k->fn(call, args, out);
    if (TNI_LIKELY(call->core == none)) continue;
    tni_scratch_release_fast(call);
    call->core = none;
  }
  call->core = NULL;
  return status;
}

tn_status tni_structured_single(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  const tni_cell *cell = call->cell;
  tn_desc desc;
  tn_meta meta;
  tn_device device = {0}; /* in registers: the call's own, stored in parts, would be read as a whole */
  if (!operands_together(op, args, cell->bit, &device) || (call->flags & TN_CALL_DETERMINISTIC))
    return tni_structured(call, args, out);
  call->device = device;
  tni_meta_begin(&meta, op, &desc);
  TN_TRY(op->meta(&meta, args));
  if (TNI_UNLIKELY(tni_meta_byte(&desc.absent) || tni_meta_byte(&desc.unknown) || needs_cast(op, args, &meta)))
    return tni_structured(call, args, out);
  tn_tensor *result = tni_meta_byte(&desc.layout) == TN_DESC_CONTIGUOUS ? tni_result_small(cell, &desc, device) : NULL;
  if (!result) {
    tn_tensor *made; /* no address of `result` is taken: it stays in a register */
    TN_TRY(tni_result_new(op, args, &desc, device, &made));
    result = made;
  }
  out[0] = tn_value_make((uint64_t)(uintptr_t)result, TN_VALUE_TAG(TN_VAL_TENSOR, 0, 0));
  tn_status status = run_providers(call, args, out, claim_of(op, args, &meta, &result->view));
  if (TNI_LIKELY(status == TN_OK)) return TN_OK;
  tn_tensor_release(result);
  out[0] = tn_value_none();
  return status == TN_DECLINED ? tni_structured(call, args, out) : status; /* the body, or the words why not */
}

bool tni_single_fits(const tn_op *op, const tni_kernel *const *chain, uint32_t n_chain) {
  if (!tni_fresh_fits(op) || op->device_arg != 255 || !op->tensor_args) return false;
  for (uint32_t i = 0; i < n_chain; ++i)
    if ((chain[i]->flags & TN_KERNEL_CONTIGUOUS) || chain[i]->max_args < op->n_args) return false;
  return n_chain > 0;
}

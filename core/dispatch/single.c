/* SPDX-License-Identifier: Apache-2.0
 *
 * The structured step of functional operators with one fresh result (sum, mm, softmax): what is left of the general
 * step when no operand has to be cast or moved, nothing is random and no target exists. Whatever does
 * not fit is handed to tni_structured, before anything was done.
 */
#include "core/dispatch/dispatch_int.h"
#include "core/dispatch/fresh.h"

/* What one pass over the operands finds: their device, and by what providers are chosen, as in the general step. */
typedef struct operands {
  const tn_view *first; /* NULL: there is none */
  uint32_t rank;        /* the greatest */
  int64_t numel;        /* the largest */
  uint8_t mixed;        /* not 0: some dtypes differ */
} operands;

/* false: not all are on one device of the running backend. */
static inline bool operands_read(operands *found, const tn_op *op, const tn_value *args, uint8_t backend) {
  const tn_view *first = NULL;
  uint32_t rank = 0;
  int64_t numel = 0;
  uint8_t mixed = 0;
  for (uint64_t m = op->tensor_args; m; m &= m - 1) {
    const tn_value *value = &args[__builtin_ctzll(m)];
    if (value->kind != TN_VAL_TENSOR) continue;
    const tn_view *v = value->u.v;
    if (!first) first = v;
    if (v->backend != backend || v->device_index != first->device_index) return false;
    mixed |= v->dtype ^ first->dtype;
    if (v->ndim > rank) rank = v->ndim;
    if (v->numel > numel) numel = v->numel;
  }
  *found = (operands){first, rank, numel, mixed};
  return first != NULL;
}

/* Has some operand another dtype than the rule wants to compute in? */
static __attribute__((noinline)) bool needs_cast(const tn_op *op, const tn_value *args, const tn_meta *meta) {
  for (uint64_t m = op->tensor_args & ~meta->keep_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR && v->u.v->dtype != meta->compute_dtype) return true;
  }
  return false;
}

/* Providers in order, until one does not decline. */
static inline __attribute__((always_inline)) tn_status run_providers(tn_call *call, const tn_value *args, tn_value *out,
                                                                     tn_dtype dtype, uint32_t rank, int64_t numel) {
  const tni_cell *cell = call->cell;
  void *const none = (void *)(uintptr_t)TNI_CORE_KERNEL;
  const tni_kernel *const *chain = cell->chain, *const *const end = chain + cell->n_chain;
  tn_status status = TN_DECLINED;
  call->core = none;
  for (; chain < end && status == TN_DECLINED; ++chain) {
    const tni_kernel *k = *chain;
    if (numel < k->min_numel || numel > k->max_numel || !(k->dtypes & TN_DTYPE_BIT(dtype)) || rank > k->max_rank) continue;
    call->user = k->user;
    status = k->fn(call, args, out);
    if (TNI_LIKELY(call->core == none)) continue;
    tni_scratch_release_fast(call);
    call->core = none;
  }
  call->core = NULL;
  return status;
}

/* The kernels failed or declined: nothing of the result stays. */
static TN_COLD tn_status single_undo(tn_call *call, const tn_value *args, tn_value *out, tn_status status) {
  tn_tensor_release(out[0].u.t);
  out[0] = tn_value_none();
  return status == TN_DECLINED ? tni_structured(call, args, out) : status; /* the body, or the words why not */
}

tn_status tni_structured_single(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  const tni_cell *cell = call->cell;
  operands found;
  tn_desc desc;
  tn_meta meta;
  if (!operands_read(&found, op, args, cell->bit) || (call->flags & TN_CALL_DETERMINISTIC))
    return tni_structured(call, args, out);
  const tn_view *first = found.first;
  tni_meta_begin(&meta, op, &desc);
  tn_status status = op->meta(&meta, args);
  if (TNI_UNLIKELY(status != TN_OK)) return status;
  const tn_dtype compute = tni_meta_byte(&meta.compute_dtype);
  if (TNI_UNLIKELY(tni_meta_byte(&desc.absent) | tni_meta_byte(&desc.unknown))) return tni_structured(call, args, out);
  if (compute != TN_DTYPE_NONE && TNI_UNLIKELY(found.mixed || compute != first->dtype) && needs_cast(op, args, &meta))
    return tni_structured(call, args, out);
  tn_tensor *result = tni_meta_byte(&desc.layout) == TN_DESC_CONTIGUOUS
                          ? tni_result_small(cell, &desc, tn_view_device(first)) : NULL;
  if (!result) {
    tn_tensor *made; /* no address of `result` is taken: it stays in a register */
    TN_TRY(tni_result_new(op, args, &desc, tn_view_device(first), &made));
    result = made;
  }
  out[0] = tn_value_make((uint64_t)(uintptr_t)result, TN_VALUE_TAG(TN_VAL_TENSOR, 0, 0));
  call->device.backend = first->backend; /* the rest of it is 0 */
  call->device.index = first->device_index;
  const tn_view *v = &result->view;
  status = run_providers(call, args, out, compute != TN_DTYPE_NONE ? compute : first->dtype,
                         v->ndim > found.rank ? v->ndim : found.rank, v->numel > found.numel ? v->numel : found.numel);
  return TNI_LIKELY(status == TN_OK) ? TN_OK : single_undo(call, args, out, status);
}

bool tni_single_fits(const tn_op *op, const tni_kernel *const *chain, uint32_t n_chain) {
  if (!tni_fresh_fits(op) || op->device_arg != 255 || !op->tensor_args) return false;
  for (uint32_t i = 0; i < n_chain; ++i)
    if ((chain[i]->flags & TN_KERNEL_CONTIGUOUS) || chain[i]->max_args < op->n_args) return false;
  return n_chain > 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The structured step of functional operators with one fresh result (sum, mm, softmax, empty): what is left of the
 * general step when no operand has to be cast or moved, nothing is random and no target exists. Whatever does
 * not fit is handed to tni_structured, before anything was done.
 */
#include <tenon/kit/dtype.h>

#include "core/dispatch/dispatch_int.h"
#include "core/load/load.h"
#include "core/tensor/small.h"
#include "core/tensor/stream.h"

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

/* Dtype and rank by which providers are chosen: as in the general step. */
static inline tn_dtype claim(const tn_op *op, const tn_value *args, const tn_meta *meta, const tn_desc *desc,
                             uint32_t *out_rank) {
  tn_dtype dtype = meta->compute_dtype;
  *out_rank = desc->ndim;
  for (uint64_t m = op->tensor_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind != TN_VAL_TENSOR) continue;
    if (dtype == TN_DTYPE_NONE) dtype = v->u.v->dtype;
    if (v->u.v->ndim > *out_rank) *out_rank = v->u.v->ndim;
  }
  return dtype == TN_DTYPE_NONE ? desc->dtype : dtype;
}

/* Providers in order, until one does not decline. */
static tn_status run_providers(tn_call *call, const tn_value *args, tn_value *out, tn_dtype dtype, uint32_t rank) {
  const tni_cell *cell = call->cell;
  for (uint32_t i = 0; i < cell->n_chain; ++i) {
    const tni_kernel *k = cell->chain[i];
    if (!(k->dtypes & TN_DTYPE_BIT(dtype)) || rank > k->max_rank) continue;
    call->user = k->user;
    call->core = (void *)(uintptr_t)TNI_CORE_KERNEL;
    tn_status status = k->fn(call, args, out);
    if (TNI_UNLIKELY((uintptr_t)call->core != TNI_CORE_KERNEL)) tni_scratch_release_fast(call);
    call->core = NULL;
    if (status != TN_DECLINED) return status;
  }
  return TN_DECLINED;
}

static bool is_pinned_wanted(const tn_op *op, const tn_value *args) {
  return op->pin_arg != 255 && args[op->pin_arg].kind == TN_VAL_BOOL && args[op->pin_arg].u.i;
}

/* Pinned memory is the host's: for the device that the thread works with. */
static tn_status make_pinned(const tn_op *op, const tn_value *args, tn_desc *desc, tn_device device, tn_tensor **out) {
  if (device.backend != TN_BACKEND_CPU)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "pin_memory is for tensors on cpu, not on %s",
                   tni_backend_name(device.backend));
  tn_device target;
  TN_TRY(tni_pinned_device(&target));
  return tni_tensor_new_pinned(desc->dtype, desc->ndim, desc->sizes, tni_desc_strides(op, args, desc), target, out);
}

static inline tn_status make_result(const tni_cell *cell, const tn_op *op, const tn_value *args, tn_desc *desc,
                                    tn_device device, tn_tensor **out) {
  if (TNI_LIKELY(desc->layout == TN_DESC_CONTIGUOUS)) {
    *out = tni_tensor_small_new(desc->dtype, desc->ndim, desc->sizes, device, cell->small_bytes);
    if (TNI_LIKELY(*out != NULL)) return TN_OK;
  }
  return tni_tensor_new(desc->dtype, desc->ndim, desc->sizes, tni_desc_strides(op, args, desc), device, out);
}

tn_status tni_structured_single(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  const tni_cell *cell = call->cell;
  const bool allocates_only = (op->flags & TN_OP_NO_KERNEL) != 0;
  tn_desc desc;
  tn_meta meta;
  if (allocates_only)
    TN_TRY(tni_call_device(call, args, &call->device));
  else if (!operands_together(op, args, cell->bit, &call->device) || (call->flags & TN_CALL_DETERMINISTIC))
    return tni_structured(call, args, out);
  desc.dtype = TN_DTYPE_NONE;
  desc.ndim = desc.layout = desc.absent = desc.unknown = 0;
  desc.offset = 0;
  meta = op->meta_preset;
  meta.default_dtype = tni_tls.modes.default_dtype;
  meta.out = &desc;
  meta.grow = tni_meta_grow_refused;
  TN_TRY(op->meta(&meta, args));
  if (TNI_UNLIKELY(desc.absent || desc.unknown || needs_cast(op, args, &meta))) return tni_structured(call, args, out);
  tn_tensor *result;
  if (TNI_UNLIKELY(allocates_only && is_pinned_wanted(op, args)))
    TN_TRY(make_pinned(op, args, &desc, call->device, &result));
  else
    TN_TRY(make_result(cell, op, args, &desc, call->device, &result));
  out[0] = tn_value_tensor(result);
  if (allocates_only) return TN_OK;
  uint32_t rank;
  tn_dtype dtype = claim(op, args, &meta, &desc, &rank);
  tn_status status = run_providers(call, args, out, dtype, rank);
  if (TNI_LIKELY(status == TN_OK)) return TN_OK;
  tn_tensor_release(result);
  out[0] = tn_value_none();
  return status == TN_DECLINED ? tni_structured(call, args, out) : status; /* the body, or the words why not */
}

bool tni_single_fits(const tn_op *op, const tni_kernel *const *chain, uint32_t n_chain) {
  const tni_schema *s = op->schema;
  bool plain = op->form == TN_FORM_FUNCTIONAL && op->meta && s->n_results == 1 && !op->list_result &&
               !op->list_args && !op->write_args && !op->rng && !(op->flags & TN_OP_CROSS_DEVICE);
  if (op->flags & TN_OP_NO_KERNEL) return plain;
  if (!plain || op->device_arg != 255 || !op->tensor_args) return false;
  for (uint32_t i = 0; i < n_chain; ++i)
    if ((chain[i]->flags & TN_KERNEL_CONTIGUOUS) || chain[i]->max_args < op->n_args) return false;
  return n_chain > 0;
}

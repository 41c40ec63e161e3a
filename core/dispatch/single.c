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

/* Note [Bytes that a meta rule stored]
 * A meta rule stores the header of a descriptor byte by byte. Compilers join loads of neighbours, and a joined load waits
 * until all those stores have reached the cache: 5 ns of a call of 50. Reads through this stay apart. */
static inline uint8_t byte_of(const uint8_t *stored) { return *(const volatile uint8_t *)stored; }

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
  if (TNI_LIKELY(byte_of(&desc->layout) == TN_DESC_CONTIGUOUS)) {
    *out = tni_tensor_small_new(byte_of(&desc->dtype), byte_of(&desc->ndim), desc->sizes, device,
                                cell->small_bytes);
    if (TNI_LIKELY(*out != NULL)) return TN_OK;
    return tni_tensor_new(byte_of(&desc->dtype), byte_of(&desc->ndim), desc->sizes, NULL, device, out);
  }
  return tni_tensor_new(desc->dtype, desc->ndim, desc->sizes, tni_desc_strides(op, args, desc), device, out);
}

tn_status tni_structured_single(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  const tni_cell *cell = call->cell;
  const bool allocates_only = (op->flags & TN_OP_NO_KERNEL) != 0;
  tn_desc desc;
  tn_meta meta;
  tn_device device = {0}; /* in registers: the call's own, stored in parts, would be read as a whole */
  if (allocates_only) {
    TN_TRY(tni_call_device(call, args, &call->device));
    device.backend = call->device.backend;
    device.index = call->device.index;
  } else if (!operands_together(op, args, cell->bit, &device) || (call->flags & TN_CALL_DETERMINISTIC)) {
    return tni_structured(call, args, out);
  } else {
    call->device = device;
  }
  desc.dtype = TN_DTYPE_NONE;
  desc.ndim = desc.layout = desc.absent = desc.unknown = 0;
  desc.offset = 0;
  meta = op->meta_preset;
  meta.default_dtype = tni_tls.modes.default_dtype;
  meta.out = &desc;
  meta.grow = tni_meta_grow_refused;
  TN_TRY(op->meta(&meta, args));
  if (TNI_UNLIKELY(byte_of(&desc.absent) || byte_of(&desc.unknown) || needs_cast(op, args, &meta)))
    return tni_structured(call, args, out);
  tn_tensor *result;
  if (TNI_UNLIKELY(allocates_only && is_pinned_wanted(op, args)))
    TN_TRY(make_pinned(op, args, &desc, device, &result));
  else
    TN_TRY(make_result(cell, op, args, &desc, device, &result));
  out[0] = tn_value_tensor(result);
  if (allocates_only) return TN_OK;
  tn_status status = run_providers(call, args, out, claim_of(op, args, &meta, &result->view));
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

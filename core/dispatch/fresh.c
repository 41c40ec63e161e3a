/* SPDX-License-Identifier: Apache-2.0
 *
 * The step of operators that only allocate (empty, empty_like, new_empty, empty_strided): the device, the meta rule, a
 * tensor. No provider is asked, so on the way from the call to a block of the free list nothing else stands.
 */
#include "core/dispatch/dispatch_int.h"
#include "core/dispatch/fresh.h"
#include "core/load/load.h"
#include "core/tensor/stream.h"

static inline bool is_pinned_wanted(const tn_op *op, const tn_value *args) {
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

tn_status tni_result_new(const tn_op *op, const tn_value *args, tn_desc *desc, tn_device device,
                         tn_tensor **out_tensor) {
  const tn_dim *strides = desc->layout == TN_DESC_CONTIGUOUS ? NULL : tni_desc_strides(op, args, desc);
  return tni_tensor_new(desc->dtype, desc->ndim, desc->sizes, strides, device, out_tensor);
}

/* What is not small, row-major memory of the backend's own. Out of line, so that the small call keeps few registers. */
static __attribute__((noinline)) tn_status fresh_other(tn_call *call, const tn_value *args, tn_value *out,
                                                       tn_desc *desc, tn_device device) {
  const tn_op *op = call->op;
  tn_tensor *result;
  if (desc->absent || desc->unknown) return tni_structured(call, args, out);
  TN_TRY(is_pinned_wanted(op, args) ? make_pinned(op, args, desc, device, &result)
                                    : tni_result_new(op, args, desc, device, &result));
  out[0] = tn_value_tensor(result);
  return TN_OK;
}

tn_status tni_fresh_step(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  const tni_cell *cell = call->cell;
  tn_desc desc;
  tn_meta meta;
  const tn_device *device = tni_device_said(op, args, cell->bit);
  if (!device) {
    TN_TRY(tni_call_device(call, args, &call->device));
    device = &call->device;
  }
  tni_meta_begin(&meta, op, &desc);
  tn_status status = op->meta(&meta, args);
  if (TNI_UNLIKELY(status != TN_OK)) return status;
  if (TNI_UNLIKELY(tni_desc_odd(&desc) || is_pinned_wanted(op, args))) return fresh_other(call, args, out, &desc, *device);
  tn_tensor *result = tni_result_small(cell, &desc, *device);
  if (TNI_UNLIKELY(!result)) return fresh_other(call, args, out, &desc, *device);
  out[0] = tn_value_make((uint64_t)(uintptr_t)result, TN_VALUE_TAG(TN_VAL_TENSOR, 0, 0));
  return TN_OK;
}

bool tni_fresh_fits(const tn_op *op) {
  return op->form == TN_FORM_FUNCTIONAL && op->meta && op->schema->n_results == 1 && !op->list_result &&
         !op->list_args && !op->write_args && !op->rng && !(op->flags & TN_OP_CROSS_DEVICE);
}

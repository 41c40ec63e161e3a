/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators by name, through the host's table.
 */
#include <tenon/kit/call.h>

#include <string.h>

tn_status tn_kit_call(tn_kit_op *op, const tn_value *args, uint32_t n_args, tn_value *out) {
  const tn_op *found = __atomic_load_n(&op->op, __ATOMIC_ACQUIRE);
  if (!found) {
    TN_TRY(tn_kit_host()->find_op(op->name, &found));
    __atomic_store_n(&op->op, found, __ATOMIC_RELEASE);
  }
  return tn_kit_host()->call_n(found, args, n_args, out);
}

tn_status tn_kit_call_tensor(tn_kit_op *op, const tn_value *args, uint32_t n_args, tn_tensor **out_tensor) {
  tn_value out = tn_value_none();
  *out_tensor = NULL;
  TN_TRY(tn_kit_call(op, args, n_args, &out));
  *out_tensor = out.kind == TN_VAL_TENSOR ? out.u.t : NULL;
  return TN_OK;
}

/* The copy to the CPU waits for the device: its memory is complete when the call returns. */
tn_status tn_kit_read(tn_tensor *t, void *out, size_t size_bytes) {
  TN_KIT_OP(op_to, "to.dtype_layout");
  const tn_device cpu = {TN_BACKEND_CPU, 0, 0};
  const tn_view *v = tn_tensor_view(t);
  if (!(v->flags & TN_VIEW_CONTIGUOUS) || (uint64_t)v->numel * v->itemsize != size_bytes)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "reading %zu bytes: the tensor has %llu%s", size_bytes,
                   (unsigned long long)((uint64_t)v->numel * v->itemsize),
                   v->flags & TN_VIEW_CONTIGUOUS ? "" : ", and is not contiguous");
  tn_tensor *host = NULL;
  TN_TRY(TN_KIT_CALL(&op_to, &host, tn_value_tensor(t), tn_value_none(), tn_value_none(), tn_value_device(cpu),
                     tn_value_none(), tn_value_bool(false), tn_value_bool(false), tn_value_none()));
  if (size_bytes) memcpy(out, tn_tensor_view(host)->data, size_bytes);
  tn_kit_host()->tensor_release(host);
  return TN_OK;
}

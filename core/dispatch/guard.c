/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry of cells whose backend has streams, or may be lost in a fork: sees to both, then goes on to the entry that
 * the cell would have else. Cells of other backends (the cpu's) never come here.
 */
#include "core/dispatch/dispatch_int.h"
#include "core/load/load.h"
#include "core/tensor/stream.h"

static tn_device first_on(uint8_t backend, const tn_value *v) {
  const tn_device none = {.backend = TN_BACKEND_NONE};
  if (v->kind == TN_VAL_TENSOR && v->u.v->backend == backend) return tn_view_device(v->u.v);
  bool tensors = v->kind == TN_VAL_LIST && (v->elem == TN_VAL_TENSOR || v->elem == TN_VAL_OPTIONAL_TENSOR);
  for (uint32_t i = 0; tensors && i < v->count; ++i)
    if (v->u.vs[i] && v->u.vs[i]->backend == backend) return tn_view_device(v->u.vs[i]);
  return none;
}

tn_device tni_call_place(const tn_op *op, uint64_t keys, const tn_value *args) {
  const uint8_t backend = (uint8_t)(63 ^ __builtin_clzll((keys & TNI_KEYS_BACKENDS) | 1));
  if (op->device_arg != 255 && args[op->device_arg].kind == TN_VAL_DEVICE) return args[op->device_arg].u.d;
  for (uint64_t m = op->tensor_args | op->list_args; m; m &= m - 1) {
    tn_device device = first_on(backend, &args[__builtin_ctzll(m)]);
    if (device.backend != TN_BACKEND_NONE) return device;
  }
  if (tni_tls.modes.default_device.backend == backend) return tni_tls.modes.default_device;
  return (tn_device){.backend = backend};
}

static tn_status admit_tensors(const tn_call *call, const tni_backend *b, const tn_value *args) {
  for (uint64_t m = call->op->tensor_args | call->op->list_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR) TN_TRY(tni_tensor_admit(b, v->u.v, call->stream));
    for (uint32_t i = 0; v->kind == TN_VAL_LIST && i < v->count; ++i)
      if (v->u.vs[i]) TN_TRY(tni_tensor_admit(b, v->u.vs[i], call->stream));
  }
  return TN_OK;
}

static tn_status guarded(tn_call *call, const tn_value *args, tn_value *out) {
  const tni_cell *cell = call->cell;
  const tni_backend *b = tni_backend_get(cell->bit);
  TN_TRY(tni_backend_admit(b));
  if (TNI_UNLIKELY(tni_tls.modes.streams)) call->stream = tni_stream_raw(tni_call_place(call->op, TNI_KEY(b->id), args));
  TN_TRY(admit_tensors(call, b, args));
  return cell->guarded(call, args, out);
}

void tni_cell_guard(tni_cell *cell) {
  const tni_backend *b = cell->bit < TN_BACKEND_LIMIT ? tni_backend_get(cell->bit) : NULL;
  bool runs = cell->fn != tni_body_step && cell->fn != tni_view_step && cell->fn != tni_view_list_step &&
              cell->fn != tni_missing;
  if (!b || !runs || (b->def->fork == TN_FORK_SAFE && !tni_backend_has_streams(b))) return;
  cell->guarded = cell->fn;
  cell->fn = guarded;
}

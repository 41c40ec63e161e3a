/* SPDX-License-Identifier: Apache-2.0
 *
 * From a key set to a cell: the hot few lines of every operator call, and redispatch.
 */
#include "core/dispatch/dispatch.h"

#include "core/dispatch/dispatch_int.h"
#include "core/load/load.h"

uint64_t tni_keys_of(const tn_op *op, const tn_value *args) {
  uint64_t keys = 0;
  for (uint64_t m = op->tensor_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR) keys |= v->u.t->keys;
  }
  for (uint64_t m = op->list_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind != TN_VAL_LIST) continue;
    for (uint32_t i = 0; i < v->count; ++i)
      if (v->u.ts[i]) keys |= v->u.ts[i]->keys;
  }
  return keys;
}

uint64_t tni_call_backend(const tn_op *op, uint64_t keys, const tn_value *args) {
  static const tn_value none;
  return tni_keys_on(keys, op->device_arg != 255 ? &args[op->device_arg] : &none);
}

/* First call in the process: operators and manifests are not there yet. The call is made again. */
tn_status tni_start(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  TN_TRY(tni_load_init());
  if (!tni_op_ready(op)) return tn_fail(TN_ERR_INTERNAL, "an operator has no row after start");
  return tni_call_keys(op, tni_keys_of(op, args), args, out);
}

/* Adds the operator's name to the words of a failure on the way up. */
TN_COLD tn_status tni_call_failed(const tn_call *call, tn_status status) {
  if (status == TN_DECLINED) return status;
  if ((call->flags ^ tni_tls.modes.call_flags) < TNI_WORDS_ONE) tn_error_clear(); /* Note [Whose words] */
  return tn_wrap(status, "%s", call->op->name);
}

tn_status tni_call_keys(const tn_op *op, uint64_t keys, const tn_value *args, tn_value *out) {
  return tni_call_inline(op, keys, false, args, out);
}

tn_status tni_call(const tn_op *op, const tn_value *args, tn_value *out) {
  if (TNI_UNLIKELY(!tni_op_ready(op))) TN_TRY(tni_load_init());
  return tni_call_keys(op, tni_keys_of(op, args), args, out);
}

tn_status tni_call_below(tn_call *call, unsigned bit, const tn_value *args, tn_value *out) {
  const tni_row *row = atomic_load_explicit(&call->op->own_row, memory_order_acquire);
  uint64_t keys = call->keys & (TNI_KEY(bit) - 1) & ~tni_tls.modes.exclude & row->mask;
  const tni_cell *cell = row->cells[(size_t)(63 ^ __builtin_clzll(keys))];
  call->cell = cell;
  call->user = cell->user;
  call->keys = keys;
  return cell->fn(call, args, out);
}

/* Note [Layers do not meet themselves]
 * While a layer's kernel runs its bit is excluded, so what the layer calls for itself (a NaN finder its isnan) and
 * what runs below it never comes back to it. A layer that declines did not run: it is met again by the parts of the
 * operator, if there are any. The thread's set is put back however the kernel ends. */
tn_status tni_layer_step(tn_call *call, const tn_value *args, tn_value *out) {
  const tni_cell *cell = call->cell;
  uint64_t saved = tni_tls.modes.exclude;
  tni_tls.modes.exclude = saved | TNI_KEY(cell->bit);
  call->core = (void *)(uintptr_t)args; /* Note [Appended arguments] */
  tn_status status = cell->fast_fn(call, args, out);
  tni_tls.modes.exclude = saved;
  if (TNI_LIKELY(status != TN_DECLINED)) return status;
  call->core = NULL;
  return tni_call_below(call, cell->bit, args, out);
}

tn_status tni_redispatch(tn_call *call, const tn_value *args, tn_value *out) {
  const tni_cell *cell = call->cell;
  if (TNI_UNLIKELY(cell->bit < TN_BACKEND_LIMIT))
    return tn_fail(TN_ERR_PLUGIN, "redispatch is for layers; below a kernel of %s there is nothing",
                   tni_backend_name(cell->bit));
  const tn_op *op = call->op;
  const tni_row *row = atomic_load_explicit(&op->own_row, memory_order_acquire);
  const tni_thread_modes *modes = &tni_tls.modes; /* the layer's bit is excluded: tni_layer_step */
  uint64_t below_bit = TNI_KEY(cell->bit) - 1;
  uint64_t keys = tni_call_backend(op, tni_keys_of(op, args), args);
  tn_call below = {.host = call->host, .op = op, .flags = modes->call_flags};
  below.keys = (keys | modes->include) & ~modes->exclude & row->mask & below_bit;
  cell = row->cells[63 ^ __builtin_clzll(below.keys)];
  below.cell = cell;
  below.user = cell->user;
  return cell->fn(&below, args, out); /* who called the operator names it in a failure's words */
}

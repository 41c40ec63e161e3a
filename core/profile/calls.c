/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators as events: the one row that stands over those of all operators while somebody listens. See
 * Note [A row over all] in core/dispatch/dispatch.h.
 */
#include "core/dispatch/row.h"
#include "core/profile/profile_int.h"
#include "core/tensor/stream.h"

/* What tni_call_inline does with the operator's own row, between two events. */
static tn_status profile_call(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  const tni_row *row = atomic_load_explicit(&op->own_row, memory_order_acquire);
  const tni_thread_modes *modes = &tni_tls.modes;
  uint64_t keys = tni_call_backend(op, tni_keys_of(op, args), args);
  keys = (keys | modes->include) & ~modes->exclude & row->mask;
  const tni_cell *cell = row->cells[63 ^ __builtin_clzll(keys)];
  call->cell = cell;
  call->user = cell->user;
  call->keys = keys;
  tni_profile_span span;
  const tn_device device = tni_call_place(op, keys, args);
  tni_profile_begin(&span, TN_PROFILE_OPERATOR, op->name, device, args, op->n_args);
  tni_stopwatch *watch = NULL;
  if (tni_profile_wants(TNI_PROFILE_DEVICE_TIME)) watch = tni_stopwatch_begin(device, tni_stream_raw(device));
  tn_status status = cell->fn(call, args, out);
  if (watch) tni_stopwatch_end(watch, &span);
  tni_profile_end(&span, status);
  return status;
}

static const tni_cell profile_cell = {.fn = profile_call};
static const tni_row profile_row = {.mask = UINT64_MAX, .cells = {[0 ... 63] = &profile_cell}};

void tni_profile_calls(bool on) {
  tni_registry_lock();
  tni_rows_cover(on ? &profile_row : NULL);
  tni_registry_unlock();
}

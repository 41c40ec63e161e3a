/* SPDX-License-Identifier: Apache-2.0
 *
 * The one thread-local object, and carrying its modes to another thread.
 */
#include "core/base/thread_state.h"

_Thread_local tni_thread tni_tls = {
    .modes = {.default_dtype = TN_FLOAT32, .default_device = {TN_BACKEND_CPU, 0, 0}, .grad_enabled = true}};

static tn_status modes_copy(const tni_thread_modes *from, tni_thread_modes *out_modes) {
  tni_layer_states *states = NULL;
  if (from->layer_states) {
    tn_status status = from->layer_states->dup(from->layer_states, &states);
    if (status != TN_OK) return status;
  }
  *out_modes = *from;
  out_modes->layer_states = states;
  return TN_OK;
}

tn_status tni_thread_snapshot(tni_thread_modes *out_modes) { return modes_copy(&tni_tls.modes, out_modes); }

void tni_modes_release(tni_thread_modes *modes) {
  if (modes->layer_states) modes->layer_states->release(modes->layer_states);
  modes->layer_states = NULL;
}

tn_status tni_thread_enter(const tni_thread_modes *modes, tni_thread_modes *out_saved) {
  *out_saved = tni_tls.modes;
  return modes_copy(modes, &tni_tls.modes);
}

void tni_thread_leave(const tni_thread_modes *saved) {
  tni_modes_release(&tni_tls.modes);
  tni_tls.modes = *saved;
}

void tni_thread_restore(const tni_thread_modes *saved) {
  tni_layer_states *states = tni_tls.modes.layer_states;
  tni_tls.modes = *saved;
  tni_tls.modes.layer_states = states;
}

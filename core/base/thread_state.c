/* SPDX-License-Identifier: Apache-2.0
 *
 * The one thread-local object, and carrying its modes to another thread.
 */
#include "core/base/thread_state.h"

_Thread_local tni_thread tni_tls = {
    .modes = {.default_dtype = TN_FLOAT32, .default_device = {TN_BACKEND_CPU, 0, 0}, .grad_enabled = true}};

void tni_thread_snapshot(tni_thread_modes *out_modes) { *out_modes = tni_tls.modes; }
void tni_thread_install(const tni_thread_modes *modes) { tni_tls.modes = *modes; }

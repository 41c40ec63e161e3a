/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/profile.h. The checks are the host table's as well, so they stand in core/profile.
 */
#include <tenon/profile.h>

#include "core/profile/profile.h"

tn_status tn_profiler_attach(const tn_profiler_def *def, uint64_t *out_handle) {
  return tni_profile_attach(def, out_handle);
}
tn_status tn_profiler_detach(uint64_t handle) { return tni_profile_detach(handle); }
void tn_range_begin(const char *name) { tni_range_begin(name); }
void tn_range_end(void) { tni_range_end(); }

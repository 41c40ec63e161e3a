/* SPDX-License-Identifier: Apache-2.0
 *
 * Listening to what the library does: operators, backward nodes, spans of the program's own, memory, device time.
 * What a profiler receives is in tenon/plugin_profiler.h; tenon/trace.h writes it to a file or sums it up.
 */
#ifndef TENON_PROFILE_H
#define TENON_PROFILE_H

#include <tenon/plugin_profiler.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Events of every thread go to def's callbacks until it is detached; several may be attached. def is copied, its ctx
 * is shared until tn_profiler_detach has returned. Not inside a callback. Any thread. */
TN_EXPORT tn_status tn_profiler_attach(const tn_profiler_def *def, uint64_t *out_handle);
/* Tells what device times are still to come, then waits until no callback runs. TN_ERR_NOT_FOUND: it is not attached;
 * a forked child has none. */
TN_EXPORT tn_status tn_profiler_detach(uint64_t handle);
/* A named span of the calling thread's time. Spans nest; an end without a begin is ignored. Costs next to nothing while
 * nobody listens. name is borrowed for the call. */
TN_EXPORT void tn_range_begin(const char *name);
TN_EXPORT void tn_range_end(void);

#ifdef __cplusplus
}
#endif
#endif

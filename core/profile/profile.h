/* SPDX-License-Identifier: Apache-2.0
 *
 * Profilers, for neighbours in the core: what somebody wants to hear of, and telling it.
 *
 * Note [What profiling costs]
 * While nobody listens: calls nothing (Note [A row over all] in core/dispatch/dispatch.h), a backward node and a
 * request to a memory pool one test of tni_profile_wanted. Blocks that a thread's front hands out (core/memory) are
 * not told of; neither is data inside the tensor object.
 *
 * Note [Detaching]
 * Whoever tells an event holds the list of listeners meanwhile: its count goes up, and the list is looked at again,
 * because it may have been replaced in between. Detaching puts a new list in place and waits until the old one's
 * counts are 0; from then on no callback of the detached profiler runs. Lists are used again, never freed: a late reader
 * may still raise a count of one, also while the library is shut down. Counts stand on cache lines by thread.
 */
#ifndef TENON_CORE_PROFILE_H
#define TENON_CORE_PROFILE_H

#include <tenon/plugin_profiler.h>

#include "core/base/base.h"

/* tni_profile_wanted: what any attached profiler has a callback for. */
enum { TNI_PROFILE_SPANS = 1, TNI_PROFILE_MEMORY = 2, TNI_PROFILE_DEVICE_TIME = 4 };
extern _Atomic uint32_t tni_profile_wanted;
static inline bool tni_profile_wants(uint32_t what) {
  return TNI_UNLIKELY(atomic_load_explicit(&tni_profile_wanted, memory_order_relaxed) & what);
}

/* An event between its begin and its end; the caller's. */
typedef struct tni_profile_span {
  uint64_t id, parent;
  uint32_t kind;
  tn_device device;
  const char *name;
} tni_profile_span;

/* Fills the span, tells of its begin, and makes it the parent of what follows on this thread. */
void tni_profile_begin(tni_profile_span *span, uint32_t kind, const char *name, tn_device device, const tn_value *args,
                       uint32_t n_args);
void tni_profile_end(const tni_profile_span *span, tn_status status);
/* kind: TN_PROFILE_ALLOC or _FREE. */
void tni_profile_memory(uint32_t kind, tn_device device, uint64_t bytes, uint64_t current_bytes);
void tni_profile_device_time(const tn_profile_device_time *time);

/* host->profiler_attach and _detach, range_begin and _end. */
tn_status tni_profile_attach(const tn_profiler_def *def, uint64_t *out_handle);
tn_status tni_profile_detach(uint64_t handle);
void tni_range_begin(const char *name);
void tni_range_end(void);
/* Before a backend is unloaded: tells of the calls that ended there, and gives back what measured them. */
struct tni_backend;
void tni_profile_close(const struct tni_backend *b);
/* Detaches every profiler one of whose functions `owned` claims (code: its address); how many. Needs no memory. */
uint32_t tni_profile_detach_owned(bool (*owned)(const void *code, const void *ctx), const void *ctx);
/* At shutdown: nobody listens any more, and what profiling keeps is freed, but for what other threads may still hold. */
void tni_profile_stop(void);

#endif

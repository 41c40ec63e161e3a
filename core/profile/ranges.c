/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans of time that the program names. They are counted also while nobody listens, so that an end finds its begin
 * when a profiler comes or goes in between.
 */
#include "core/base/thread_state.h"
#include "core/profile/profile.h"

/* A span that somebody heard the begin of. A thread's end frees those that it left open. */
typedef struct tni_range {
  struct tni_range *outer; /* first */
  int32_t depth;
  tni_profile_span span;
  char name[];
} tni_range;

void tni_range_begin(const char *name) {
  const int32_t depth = ++tni_tls.range_depth;
  if (!tni_profile_wants(TNI_PROFILE_SPANS)) return;
  if (!name) name = "";
  const size_t n = strlen(name) + 1;
  tni_range *range = tni_alloc(sizeof *range + n); /* NULL: this span is not told of */
  if (!range) return;
  memcpy(range->name, name, n);
  range->depth = depth;
  range->outer = tni_tls.ranges;
  tni_tls.ranges = range;
  tni_thread_arm();
  tni_profile_begin(&range->span, TN_PROFILE_RANGE, range->name, tni_tls.modes.default_device, NULL, 0);
}

void tni_range_end(void) {
  if (tni_tls.range_depth == 0) return;
  const int32_t depth = tni_tls.range_depth--;
  tni_range *range = tni_tls.ranges;
  if (!range || range->depth != depth) return;
  tni_tls.ranges = range->outer;
  tni_profile_end(&range->span, TN_OK);
  tni_free(range);
}

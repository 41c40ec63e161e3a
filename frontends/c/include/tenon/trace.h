/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program did, as a file for a timeline viewer or as a table. Both listen through tenon/profile.h, so they see
 * every thread, and may be open together. docs/profiling.md says what to make of them.
 */
#ifndef TENON_TRACE_H
#define TENON_TRACE_H

#include <stdio.h>
#include <tenon/profile.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes events to `path` as they come, in Chrome's trace format (JSON), which Perfetto and chrome://tracing open:
 * operators with their arguments, backward nodes, spans; memory in use as counters; device time as a track a stream.
 * In a regular file what is written so far is always whole JSON, also if the process is killed. owned. */
typedef struct tn_trace tn_trace;
TN_EXPORT tn_status tn_trace_open(const char *path, tn_trace **out_trace);
/* Stops listening, writes what is left and frees (consumed, also on failure). TN_ERR_IO if anything could not be
 * written, now or before: then the file ends where that was. NULL is allowed. */
TN_EXPORT tn_status tn_trace_close(tn_trace *trace);

/* Sums events up by name: calls, total time and time of its own (without what it called), longest call, device time,
 * bytes allocated. owned. */
typedef struct tn_profile tn_profile;
TN_EXPORT tn_status tn_profile_begin(tn_profile **out_profile);
/* Stops listening; the sums stay. Again: nothing. */
TN_EXPORT tn_status tn_profile_end(tn_profile *profile);
TN_EXPORT void tn_profile_free(tn_profile *profile); /* ends it if need be; NULL is allowed */

/* One name. Times in nanoseconds. */
typedef struct tn_profile_row {
  const char *name; /* "mul.Tensor", "MulBackward0", a span's; borrowed until freed */
  uint32_t kind;    /* TN_PROFILE_OPERATOR, _RANGE, _BACKWARD */
  uint64_t n_calls;
  uint64_t total_ns;
  uint64_t self_ns;
  uint64_t max_ns;
  uint64_t device_ns; /* 0: its devices tell none */
  uint64_t bytes;     /* allocated while it was the innermost */
} tn_profile_row;
/* After tn_profile_end: rows by falling self_ns. */
TN_EXPORT size_t tn_profile_count(const tn_profile *profile);
TN_EXPORT tn_status tn_profile_get(const tn_profile *profile, size_t i, tn_profile_row *out_row);
TN_EXPORT uint64_t tn_profile_wall_ns(const tn_profile *profile); /* from begin to end */
/* The table for people. TN_ERR_IO if writing fails. */
TN_EXPORT tn_status tn_profile_print(const tn_profile *profile, FILE *file);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a profiler receives: the begin and end of operators, spans and backward nodes of every thread, and memory that
 * comes and goes. Attached through host->profiler_attach (plugins) or tn_profiler_attach (applications). While none is
 * attached a call costs nothing more.
 */
#ifndef TENON_PLUGIN_PROFILER_H
#define TENON_PLUGIN_PROFILER_H

#include <tenon/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tn_profile_event.kind. New ones may be added: skip what you do not know. */
enum {
  TN_PROFILE_OPERATOR = 1, /* a call from the top of an operator */
  TN_PROFILE_RANGE = 2,    /* host->range_begin, tn_range_begin */
  TN_PROFILE_BACKWARD = 3, /* one node of a backward run */
  TN_PROFILE_ALLOC = 4,    /* an instant: a block was given out */
  TN_PROFILE_FREE = 5      /* an instant: it came back */
};

/* One event. Cold: begins with its size. Everything in it is borrowed until the callback returns. */
typedef struct tn_profile_event {
  uint32_t struct_size;
  uint32_t kind;         /* TN_PROFILE_... */
  const char *name;      /* "mul.Tensor", "MulBackward0", the range's name; lives as long as the process for operators */
  uint64_t id;           /* the same at begin and end; unique in the process, never 0 */
  uint64_t parent;       /* id of the event that encloses this one on its thread, 0: none */
  uint64_t time_ns;      /* CLOCK_MONOTONIC */
  uint64_t thread;       /* the system's thread number */
  tn_device device;      /* of the operator's tensors; of the memory */
  uint32_t n_args;
  const tn_value *args;  /* operators, at begin: the arguments, read as tensors (tn_tensor_view); else NULL */
  tn_status status;      /* at end: what the call answered */
  uint32_t reserved;
  uint64_t bytes;        /* ALLOC, FREE: rounded as the cache rounds */
  uint64_t current_bytes; /* ALLOC, FREE: in use on that device afterwards */
  TN_FUTURE_FIELD
} tn_profile_event;

/* Callbacks; each may be NULL. They may run on any thread, several at once, and with locks of the memory cache held
 * (memory): they may not dispatch, allocate tensors, attach or detach. */
typedef struct tn_profiler_def {
  uint32_t struct_size;
  uint32_t flags; /* zero */
  void *ctx;      /* shared until profiler_detach returns */
  void (*begin)(void *ctx, const tn_profile_event *event);
  void (*end)(void *ctx, const tn_profile_event *event);
  void (*memory)(void *ctx, const tn_profile_event *event);
  /* Time that the operator `id` took on its device; called some time after its end, at the latest by detach. */
  void (*device_time)(void *ctx, uint64_t id, tn_device device, uint64_t ns);
  TN_FUTURE_FIELD
} tn_profiler_def;

#ifdef __cplusplus
}
#endif
#endif

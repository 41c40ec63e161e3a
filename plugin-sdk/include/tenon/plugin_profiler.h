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
  uint64_t id;           /* the same at begin and end; unique in the process, never 0; 0 for instants */
  uint64_t parent;       /* id of the event that encloses this one on its thread, 0: none; also of instants */
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

/* How long an operator ran on its device, by events around it on its stream. Cold: begins with its size. A call that
 * consists of others contains their time. */
typedef struct tn_profile_device_time {
  uint32_t struct_size;
  tn_device device;
  const char *name;  /* of the operator; lives as long as the process */
  uint64_t id;       /* of its begin and end */
  uint64_t begin_ns; /* where it began, on the host's clock (CLOCK_MONOTONIC): as near as events tell */
  uint64_t ns;       /* how long it took */
  void *stream;      /* the backend's; NULL: the device's default stream */
} tn_profile_device_time;

/* Callbacks; each may be NULL. They may run on any thread, several at once, and with locks of the memory cache held
 * (memory): they may not dispatch, allocate tensors, attach or detach. Ends come for all begins that came, but for
 * those that are open when the profiler is detached; what had begun before it was attached does not come at all. */
typedef struct tn_profiler_def {
  uint32_t struct_size;
  uint32_t flags; /* zero */
  void *ctx;      /* shared until profiler_detach returns */
  void (*begin)(void *ctx, const tn_profile_event *event);
  void (*end)(void *ctx, const tn_profile_event *event);
  void (*memory)(void *ctx, const tn_profile_event *event);
  /* Backends with event_elapsed only. Called some time after the operator's end, at the latest by detach. */
  void (*device_time)(void *ctx, const tn_profile_device_time *time);
  TN_FUTURE_FIELD
} tn_profiler_def;

#ifdef __cplusplus
}
#endif
#endif

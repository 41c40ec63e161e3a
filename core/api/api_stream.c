/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/stream.h: streams, events and pinned tensors. All argument checks of these calls stand here.
 */
#include <sched.h>
#include <time.h>

#include "core/dispatch/dispatch_int.h"
#include "core/load/load.h"
#include "core/tensor/stream.h"

#define REQUIRE(what, name)                                                                      \
  do {                                                                                           \
    if (!(name)) return tn_fail(TN_ERR_INVALID_ARGUMENT, what ": argument '" #name "' is NULL"); \
  } while (0)

static tn_status open_backend(const char *what, tn_device device, const tni_backend **out_backend) {
  TN_TRY(tni_load_init());
  const tni_backend *b = tni_backend_get(device.backend);
  if (!b || device.index < 0 || device.index >= b->n_devices)
    return tn_fail(TN_ERR_DEVICE, "%s: device %s:%d is not open", what, tni_backend_name(device.backend), device.index);
  *out_backend = b;
  return tni_backend_admit(b);
}

/* A backend that was unloaded, or whose process ends, has no such rows; those that it has answer why. */
static tn_status check_called(const tni_backend *b) {
  int32_t n;
  return b->closed ? b->def->device_count(b->def->ctx, &n) : TN_OK;
}

static tn_status check_stream(const char *what, tn_device device, const tn_stream *stream) {
  if (!stream || (stream->device.backend == device.backend && stream->device.index == device.index)) return TN_OK;
  return tn_fail(TN_ERR_DEVICE, "%s: the stream is of %s:%d, expected one of %s:%d", what,
                 tni_backend_name(stream->device.backend), stream->device.index, tni_backend_name(device.backend),
                 device.index);
}

static void *raw_of(const tn_stream *stream) { return stream ? stream->raw : NULL; }

/* ------------------------------------------------------------------ streams */

tn_status tn_stream_new(tn_device device, tn_stream **out_stream) {
  const tni_backend *b;
  REQUIRE("tn_stream_new", out_stream);
  *out_stream = NULL;
  TN_TRY(open_backend("tn_stream_new", device, &b));
  TN_TRY(check_called(b));
  return tni_stream_new(device, out_stream);
}

void tn_stream_release(tn_stream *stream) {
  if (stream) tni_stream_release(stream);
}

tn_device tn_stream_device(const tn_stream *stream) {
  return stream ? stream->device : (tn_device){.backend = TN_BACKEND_NONE};
}

tn_stream *tn_stream_get(tn_device device) { return tni_stream_current(device); }

tn_status tn_stream_set(tn_device device, tn_stream *stream) {
  const tni_backend *b;
  TN_TRY(open_backend("tn_stream_set", device, &b));
  TN_TRY(check_stream("tn_stream_set", device, stream));
  return tni_stream_set_current(device, stream);
}

tn_status tn_stream_synchronize(tn_device device, tn_stream *stream) {
  const tni_backend *b;
  TN_TRY(open_backend("tn_stream_synchronize", device, &b));
  TN_TRY(check_stream("tn_stream_synchronize", device, stream));
  if (tni_backend_has_streams(b)) return b->def->stream_synchronize(b->def->ctx, device.index, raw_of(stream));
  return b->def->synchronize ? b->def->synchronize(b->def->ctx, device.index) : TN_OK;
}

/* ------------------------------------------------------------------ events */

struct tn_event {
  tn_device device;
  void *raw; /* NULL: the device is done when a call returns */
  bool recorded;
  int32_t generation; /* of forks */
};

tn_status tn_event_new(tn_device device, tn_event **out_event) {
  const tni_backend *b;
  REQUIRE("tn_event_new", out_event);
  *out_event = NULL;
  TN_TRY(open_backend("tn_event_new", device, &b));
  TN_TRY(check_called(b));
  if (!tni_backend_has_events(b) && b->def->synchronize)
    return tn_fail(TN_ERR_UNSUPPORTED, "tn_event_new: device %s has no events", b->name);
  tn_event *e = tni_alloc_zero(sizeof *e);
  if (!e) return tni_oom(sizeof *e, "an event");
  e->device = device;
  e->generation = tni_fork_generation();
  tn_status status = tni_backend_has_events(b) ? b->def->event_new(b->def->ctx, device.index, &e->raw) : TN_OK;
  if (status != TN_OK) {
    tni_free(e);
    return status;
  }
  tni_events_count(device.backend, 1);
  *out_event = e;
  return TN_OK;
}

static bool is_lost(const tn_event *e) {
  return tni_backend_get(e->device.backend)->def->fork != TN_FORK_SAFE && e->generation != tni_fork_generation();
}

void tn_event_release(tn_event *event) {
  if (!event) return;
  const tn_backend_def *def = tni_backend_get(event->device.backend)->def;
  if (event->raw && !is_lost(event) && !tni_exiting()) def->event_free(def->ctx, event->device.index, event->raw);
  tni_events_count(event->device.backend, UINT32_MAX);
  tni_free(event);
}

static tn_status use_event(const char *what, const tn_event *e, const tn_backend_def **out_def) {
  const tni_backend *b;
  TN_TRY(open_backend(what, e->device, &b));
  if (is_lost(e)) return tn_fail(TN_ERR_STATE, "%s: the event of %s was made before the fork", what, b->name);
  *out_def = b->def;
  return check_called(b);
}

tn_status tn_event_record(tn_event *event, tn_stream *stream) {
  const tn_backend_def *def;
  REQUIRE("tn_event_record", event);
  TN_TRY(use_event("tn_event_record", event, &def));
  TN_TRY(check_stream("tn_event_record", event->device, stream));
  if (event->raw) TN_TRY(def->event_record(def->ctx, event->device.index, event->raw, raw_of(stream)));
  event->recorded = true;
  return TN_OK;
}

tn_status tn_event_wait(tn_event *event, tn_stream *stream) {
  const tn_backend_def *def;
  REQUIRE("tn_event_wait", event);
  TN_TRY(use_event("tn_event_wait", event, &def));
  TN_TRY(check_stream("tn_event_wait", event->device, stream));
  if (!event->raw || !event->recorded) return TN_OK;
  return def->event_wait(def->ctx, event->device.index, event->raw, raw_of(stream));
}

tn_status tn_event_query(tn_event *event, bool *out_done) {
  const tn_backend_def *def;
  REQUIRE("tn_event_query", event);
  REQUIRE("tn_event_query", out_done);
  *out_done = true;
  TN_TRY(use_event("tn_event_query", event, &def));
  if (!event->raw || !event->recorded) return TN_OK;
  return def->event_query(def->ctx, event->device.index, event->raw, out_done);
}

/* Backends have no row for it: short naps, after some turns without. */
tn_status tn_event_synchronize(tn_event *event) {
  enum { TURNS = 64 };
  const struct timespec nap = {.tv_nsec = 20000};
  REQUIRE("tn_event_synchronize", event);
  for (int turn = 0;; ++turn) {
    bool done;
    TN_TRY(tn_event_query(event, &done));
    if (done) return TN_OK;
    if (turn < TURNS)
      sched_yield();
    else
      nanosleep(&nap, NULL);
  }
}

tn_status tn_event_elapsed(tn_event *begin, tn_event *end, uint64_t *out_ns) {
  const tn_backend_def *def;
  REQUIRE("tn_event_elapsed", begin);
  REQUIRE("tn_event_elapsed", end);
  REQUIRE("tn_event_elapsed", out_ns);
  *out_ns = 0;
  if (begin->device.backend != end->device.backend || begin->device.index != end->device.index)
    return tn_fail(TN_ERR_DEVICE, "tn_event_elapsed: the events are of two devices");
  if (!begin->recorded || !end->recorded)
    return tn_fail(TN_ERR_STATE, "tn_event_elapsed: both events are to be recorded before");
  TN_TRY(use_event("tn_event_elapsed", begin, &def));
  if (!def->event_elapsed)
    return tn_fail(TN_ERR_UNSUPPORTED, "tn_event_elapsed: device %s does not tell times",
                   tni_backend_name(begin->device.backend));
  TN_TRY(tn_event_synchronize(begin));
  TN_TRY(tn_event_synchronize(end));
  return def->event_elapsed(def->ctx, begin->device.index, begin->raw, end->raw, out_ns);
}

/* ------------------------------------------------------------------ pinned memory */

tn_status tn_tensor_pin(tn_tensor *tensor, tn_device device, tn_tensor **out_tensor) {
  const tni_backend *b;
  REQUIRE("tn_tensor_pin", tensor);
  REQUIRE("tn_tensor_pin", out_tensor);
  *out_tensor = NULL;
  TN_TRY(open_backend("tn_tensor_pin", device, &b));
  const tn_view *v = &tensor->view;
  if (v->backend != TN_BACKEND_CPU)
    return tn_fail(TN_ERR_DEVICE, "tn_tensor_pin: expected a tensor on cpu, got one on %s", tni_backend_name(v->backend));
  const tn_dim *strides = v->flags & TN_VIEW_DENSE ? v->strides : NULL;
  tn_tensor *pinned;
  TN_TRY(tni_tensor_new_pinned(v->dtype, v->ndim, v->sizes, strides, device, &pinned));
  tn_status status = tni_copy_uncounted(pinned, tensor);
  if (status == TN_OK)
    *out_tensor = pinned;
  else
    tn_tensor_release(pinned);
  return status;
}

bool tn_tensor_is_pinned(const tn_tensor *tensor) {
  const tni_storage *s = tensor ? tni_storage_of(tensor) : NULL;
  return s && s->kind == TNI_STORAGE_ALLOCATED && tni_memory_is_pinned(s->ctx);
}

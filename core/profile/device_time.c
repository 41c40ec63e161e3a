/* SPDX-License-Identifier: Apache-2.0
 *
 * How long operators ran on their devices: a pair of events around each call on its stream. Pairs are read when both
 * are done, which later calls look for, and used again. Events also tell when a call began: an event recorded once,
 * while the device was idle, ties its clock to the host's.
 *
 * A clock ends with its backend and with the process's use of the library. Calls that are under way then hold it until
 * they end; the backend is not asked any more.
 */
#include <limits.h>

#include "core/base/thread_state.h"
#include "core/load/load.h"
#include "core/profile/profile_int.h"
#include "core/tensor/stream.h"

enum { LOOKS = 4 }; /* pairs looked at behind each call */

typedef struct clock_of clock_of;
struct tni_stopwatch {
  tni_stopwatch *next;
  clock_of *clock;
  void *begin, *end; /* events */
  void *stream;
  uint64_t id;
  const char *name;
};

/* One device's. */
struct clock_of {
  clock_of *next;
  const tni_backend *backend;
  tn_device device;
  tni_stopwatch *first, **last; /* ended, in order */
  tni_stopwatch *idle;
  void *base; /* event */
  uint64_t base_ns;
  uint32_t n_running; /* pairs that calls hold */
  bool ended;         /* out of the list */
};

static tni_mutex mutex = TNI_MUTEX_INIT;
static clock_of *clocks;
TNI_FORK_LOCK(stopwatches, TNI_FORK_STOPWATCHES, mutex);

static tn_status base_set(clock_of *c) {
  const tn_backend_def *def = c->backend->def;
  const int32_t index = c->device.index;
  TN_TRY(def->event_new(def->ctx, index, &c->base));
  tn_status status = def->synchronize ? def->synchronize(def->ctx, index) : TN_OK;
  if (status == TN_OK) status = def->event_record(def->ctx, index, c->base, NULL);
  c->base_ns = tni_profile_now();
  if (status != TN_OK) def->event_free(def->ctx, index, c->base);
  return status;
}

static clock_of *clock_find(const tni_backend *b, tn_device device) {
  for (clock_of *c = clocks; c; c = c->next)
    if (c->device.backend == device.backend && c->device.index == device.index) return c;
  clock_of *c = tni_alloc_zero(sizeof *c);
  if (!c) return NULL;
  c->backend = b;
  c->device = device;
  c->last = &c->first;
  if (base_set(c) != TN_OK) {
    tni_free(c);
    return NULL;
  }
  c->next = clocks;
  clocks = c;
  return c;
}

static void watch_free(tni_stopwatch *w) {
  const tn_backend_def *def = w->clock->backend->def;
  if (w->begin) def->event_free(def->ctx, w->clock->device.index, w->begin);
  if (w->end) def->event_free(def->ctx, w->clock->device.index, w->end);
  tni_free(w);
}

static tni_stopwatch *watch_take(clock_of *c) {
  const tn_backend_def *def = c->backend->def;
  tni_stopwatch *w = c->idle;
  if (w) {
    c->idle = w->next;
    return w;
  }
  w = tni_alloc_zero(sizeof *w);
  if (!w) return NULL;
  w->clock = c;
  if (def->event_new(def->ctx, c->device.index, &w->begin) == TN_OK &&
      def->event_new(def->ctx, c->device.index, &w->end) == TN_OK)
    return w;
  watch_free(w);
  return NULL;
}

/* Failures here are not the call's: its words stay as they are. */
tni_stopwatch *tni_stopwatch_begin(tn_device device, void *stream) {
  const tni_backend *b = tni_backend_get(device.backend);
  if (!b || !b->def->event_elapsed || device.index < 0 || device.index >= b->n_devices) return NULL;
  if (tni_exiting() || (b->fork && !tni_fork_usable(b->fork))) return NULL;
  tni_words words = tni_words_aside();
  tni_mutex_lock(&mutex);
  clock_of *c = clock_find(b, device);
  tni_stopwatch *w = c ? watch_take(c) : NULL;
  if (w && b->def->event_record(b->def->ctx, device.index, w->begin, stream) != TN_OK) {
    w->next = c->idle;
    c->idle = w;
    w = NULL;
  }
  if (w) c->n_running++;
  tni_mutex_unlock(&mutex);
  if (w) w->stream = stream;
  tni_words_back(words);
  return w;
}

static void tell(const tni_stopwatch *w) {
  const tn_backend_def *def = w->clock->backend->def;
  const int32_t index = w->clock->device.index;
  uint64_t ns, since = 0;
  if (def->event_elapsed(def->ctx, index, w->begin, w->end, &ns) != TN_OK) return;
  if (def->event_elapsed(def->ctx, index, w->clock->base, w->begin, &since) != TN_OK) since = 0;
  const tn_profile_device_time time = {.struct_size = sizeof time,
                                       .device = w->clock->device,
                                       .name = w->name,
                                       .id = w->id,
                                       .begin_ns = w->clock->base_ns + since,
                                       .ns = ns,
                                       .stream = w->stream};
  tni_profile_device_time(&time);
}

/* Tells of up to `most` pairs that are done, oldest first. */
static void look(clock_of *c, unsigned most) {
  const tn_backend_def *def = c->backend->def;
  while (c->first && most--) {
    tni_stopwatch *w = c->first;
    bool done = false;
    if (def->event_query(def->ctx, c->device.index, w->end, &done) == TN_OK && !done) return;
    if (done) tell(w);
    c->first = w->next;
    if (!c->first) c->last = &c->first;
    w->next = c->idle;
    c->idle = w;
  }
}

static void watch_end(clock_of *c, tni_stopwatch *w) {
  const tn_backend_def *def = c->backend->def;
  if (!tni_exiting() && def->event_record(def->ctx, c->device.index, w->end, w->stream) == TN_OK) {
    w->next = NULL;
    *c->last = w;
    c->last = &w->next;
  } else {
    w->next = c->idle;
    c->idle = w;
  }
  if (!tni_exiting()) look(c, LOOKS);
}

void tni_stopwatch_end(tni_stopwatch *w, const tni_profile_span *span) {
  clock_of *c = w->clock;
  w->id = span->id;
  w->name = span->name;
  tni_words words = tni_words_aside();
  tni_mutex_lock(&mutex);
  c->n_running--;
  if (!c->ended) {
    watch_end(c, w);
  } else {
    tni_free(w);
    if (!c->n_running) tni_free(c);
  }
  tni_mutex_unlock(&mutex);
  tni_words_back(words);
}

static bool is_usable(const clock_of *c) { return !c->backend->fork || tni_fork_usable(c->backend->fork); }

static void drain(clock_of *c) {
  const tn_backend_def *def = c->backend->def;
  if (!c->first || !is_usable(c) || tni_exiting()) return;
  if (!def->synchronize || def->synchronize(def->ctx, c->device.index) == TN_OK) look(c, UINT_MAX);
}

void tni_stopwatches_drain(void) {
  tni_words words = tni_words_aside();
  tni_mutex_lock(&mutex);
  for (clock_of *c = clocks; c; c = c->next) drain(c);
  tni_mutex_unlock(&mutex);
  tni_words_back(words);
}

/* Out of the list already. What the backend made is given back where it may be called. */
static void clock_end(clock_of *c) {
  const tn_backend_def *def = c->backend->def;
  const bool usable = is_usable(c) && !tni_exiting();
  *c->last = c->idle;
  for (tni_stopwatch *w = c->first, *next; w; w = next) {
    next = w->next;
    if (usable)
      watch_free(w);
    else
      tni_free(w);
  }
  if (usable) def->event_free(def->ctx, c->device.index, c->base);
  c->ended = true;
  if (!c->n_running) tni_free(c);
}

void tni_stopwatches_free(void) {
  tni_mutex_lock(&mutex);
  while (clocks) {
    clock_of *c = clocks;
    clocks = c->next;
    clock_end(c);
  }
  tni_mutex_unlock(&mutex);
}

void tni_profile_close(const tni_backend *b) {
  tni_words words = tni_words_aside();
  tni_mutex_lock(&mutex);
  for (clock_of **at = &clocks; *at;) {
    clock_of *c = *at;
    if (c->backend != b) {
      at = &c->next;
      continue;
    }
    drain(c);
    *at = c->next;
    clock_end(c);
  }
  tni_mutex_unlock(&mutex);
  tni_words_back(words);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams, the sets of current ones, and waiting. See Note [Current streams].
 */
#include "core/tensor/stream.h"

#include "core/load/load.h"

static tni_mutex mutex = TNI_MUTEX_INIT;
static tn_stream *idle;      /* released: for the next owner */
static tn_stream *closed;    /* of backends that were unloaded or shut down: sets may still name them */
static uint32_t n_live[TN_BACKEND_LIMIT]; /* neither idle nor closed */
static tni_stream_set *sets; /* all of them */
static _Atomic uint32_t n_events[TN_BACKEND_LIMIT];

/* A child's thread begins on the default streams of devices whose streams a fork took away. */
static void before_fork(void) { tni_mutex_lock(&mutex); }
static void after_fork(void) { tni_mutex_unlock(&mutex); }
static void after_fork_child(void) {
  const tni_stream_set *set = tni_tls.modes.streams;
  for (uint32_t i = 0; set && i < set->n; ++i)
    if (tni_backend_get(set->items[i]->device.backend)->def->fork != TN_FORK_SAFE) tni_tls.modes.streams = NULL;
  tni_mutex_unlock(&mutex);
}
TNI_FORK_PART(streams, TNI_FORK_STREAMS, before_fork, after_fork, after_fork_child);

static inline bool same_device(tn_device a, tn_device b) { return a.backend == b.backend && a.index == b.index; }

/* Of another process's life, as far as its backend is concerned. */
static bool is_stale(const tn_stream *s) {
  return tni_backend_get(s->device.backend)->def->fork != TN_FORK_SAFE && s->generation != tni_fork_generation();
}

/* ------------------------------------------------------------------ streams */

static tn_stream *idle_take(tn_device device) {
  for (tn_stream **at = &idle; *at; at = &(*at)->next) {
    tn_stream *s = *at;
    if (!same_device(s->device, device) || is_stale(s)) continue;
    *at = s->next;
    return s;
  }
  return NULL;
}

tn_status tni_stream_new(tn_device device, tn_stream **out_stream) {
  const tni_backend *b;
  *out_stream = NULL;
  TN_TRY(tni_backend_need(device, &b));
  if (!tni_backend_has_streams(b))
    return tn_fail(TN_ERR_UNSUPPORTED, "device %s has no streams but its default one", b->name);
  TN_TRY(tni_backend_admit(b));
  tni_mutex_lock(&mutex);
  tn_stream *s = idle_take(device);
  if (s) n_live[device.backend]++;
  tni_mutex_unlock(&mutex);
  if (!s) {
    s = tni_alloc_zero(sizeof *s);
    if (!s) return tni_oom(sizeof *s, "a stream");
    s->device = device;
    s->generation = tni_fork_generation();
    tn_status status = b->def->stream_new(b->def->ctx, device.index, &s->raw);
    if (status != TN_OK) {
      tni_free(s);
      return tn_wrap(status, "a stream of %s", b->name);
    }
    tni_mutex_lock(&mutex);
    n_live[device.backend]++;
    tni_mutex_unlock(&mutex);
  }
  atomic_store(&s->refs, 1);
  *out_stream = s;
  return TN_OK;
}

void tni_stream_release(tn_stream *s) {
  if (atomic_fetch_sub(&s->refs, 1) != 1) return;
  tni_mutex_lock(&mutex);
  s->next = idle;
  idle = s;
  n_live[s->device.backend]--;
  tni_mutex_unlock(&mutex);
}

uint32_t tni_events_live(uint8_t backend) { return atomic_load(&n_events[backend]); }
void tni_events_count(uint8_t backend, uint32_t more) { atomic_fetch_add(&n_events[backend], more); }

uint32_t tni_streams_live(uint8_t backend) {
  tni_mutex_lock(&mutex);
  uint32_t n = n_live[backend];
  tni_mutex_unlock(&mutex);
  return n;
}

/* A record that a thread's set still names stands for the default stream from now on. */
void tni_streams_close(const tni_backend *b) {
  tni_mutex_lock(&mutex);
  for (tn_stream **at = &idle; *at;) {
    tn_stream *s = *at;
    if (s->device.backend != b->id) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    if (!is_stale(s)) b->def->stream_free(b->def->ctx, s->device.index, s->raw);
    s->raw = NULL;
    s->next = closed;
    closed = s;
  }
  tni_mutex_unlock(&mutex);
}

/* Records and sets stay: threads that still compute may look at theirs. */
void tni_streams_free(void) {
  tni_tls.modes.streams = NULL;
  tni_mutex_lock(&mutex);
  while (idle) {
    tn_stream *s = idle;
    const tn_backend_def *def = tni_backend_get(s->device.backend)->def;
    idle = s->next;
    if (!is_stale(s) && !tni_exiting()) def->stream_free(def->ctx, s->device.index, s->raw);
    s->raw = NULL;
    s->next = closed;
    closed = s;
  }
  tni_mutex_unlock(&mutex);
}

/* ------------------------------------------------------------------ current streams */

tn_stream *tni_stream_find(tn_device device) {
  const tni_stream_set *set = tni_tls.modes.streams;
  for (uint32_t i = 0; i < set->n; ++i)
    if (same_device(set->items[i]->device, device)) return set->items[i];
  return NULL;
}

static uint32_t order_of(const tn_stream *s) {
  return (uint32_t)s->device.backend << 16 | (uint16_t)s->device.index;
}

/* The set with these items, made if it is the first of its kind. */
static tn_status set_intern(tn_stream *const *items, uint32_t n, const tni_stream_set **out_set) {
  tni_stream_set *set = sets;
  while (set && (set->n != n || memcmp(set->items, items, n * sizeof *items) != 0)) set = set->next;
  if (!set) {
    const size_t bytes = sizeof *set + n * sizeof *items;
    set = tni_alloc(bytes);
    if (!set) return tni_oom(bytes, "a thread's current streams");
    set->n = n;
    memcpy(set->items, items, n * sizeof *items);
    set->next = sets;
    sets = set;
  }
  *out_set = set;
  return TN_OK;
}

/* Of `items`, which has room for one more: without the device's, then with `stream` in its place by device. */
static uint32_t items_change(tn_stream **items, uint32_t n, tn_device device, tn_stream *stream) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; ++i)
    if (!same_device(items[i]->device, device)) items[kept++] = items[i];
  if (!stream) return kept;
  uint32_t at = kept;
  while (at && order_of(items[at - 1]) > order_of(stream)) {
    items[at] = items[at - 1];
    --at;
  }
  items[at] = stream;
  return kept + 1;
}

tn_status tni_stream_set_current(tn_device device, tn_stream *stream) {
  const tni_stream_set *now = tni_tls.modes.streams, *set = NULL;
  if (stream && !same_device(stream->device, device))
    return tn_fail(TN_ERR_DEVICE, "the stream is of another device: %s:%d, not %s:%d",
                   tni_backend_name(stream->device.backend), stream->device.index, tni_backend_name(device.backend),
                   device.index);
  if (stream && is_stale(stream))
    return tn_fail(TN_ERR_STATE, "the stream of %s was made before the fork", tni_backend_name(device.backend));
  if (tni_stream_current(device) == stream) return TN_OK;
  const uint32_t n = now ? now->n : 0;
  tn_stream **items = tni_alloc((n + 1) * sizeof *items);
  if (!items) return tni_oom((n + 1) * sizeof *items, "a thread's current streams");
  for (uint32_t i = 0; i < n; ++i) items[i] = now->items[i];
  const uint32_t count = items_change(items, n, device, stream);
  tni_mutex_lock(&mutex);
  tn_status status = count ? set_intern(items, count, &set) : TN_OK;
  tni_mutex_unlock(&mutex);
  tni_free(items);
  if (status == TN_OK) tni_tls.modes.streams = set;
  return status;
}

/* ------------------------------------------------------------------ waiting */

tn_status tni_stream_order(tn_device device, const tn_stream *first, const tn_stream *then) {
  if (first == then) return TN_OK;
  const tni_backend *b = tni_backend_get(device.backend);
  const tn_backend_def *def = b->def; /* has streams: one of the two is none of the default ones */
  void *from = first ? first->raw : NULL, *to = then ? then->raw : NULL, *event;
  if ((first && is_stale(first)) || (then && is_stale(then))) return TN_OK; /* nothing of it is left to wait for */
  if (!tni_backend_has_streams(b)) return TN_OK; /* not called any more (tni_exiting) */
  if (!tni_backend_has_events(b)) return def->stream_synchronize(def->ctx, device.index, from);
  TN_TRY(def->event_new(def->ctx, device.index, &event));
  tn_status status = def->event_record(def->ctx, device.index, event, from);
  if (status == TN_OK) status = def->event_wait(def->ctx, device.index, event, to);
  def->event_free(def->ctx, device.index, event);
  return status;
}

tn_status tni_device_wait(const tni_backend *b, int32_t index) {
  const tn_backend_def *def = b->def;
  TN_TRY(tni_backend_admit(b));
  const tn_device device = {.backend = b->id, .index = (int16_t)index};
  if (tni_backend_has_streams(b)) return def->stream_synchronize(def->ctx, index, tni_stream_raw(device));
  return def->synchronize ? def->synchronize(def->ctx, index) : TN_OK;
}

tn_status tni_tensor_admit(const tni_backend *b, const tn_view *view, void *raw) {
  const tni_storage *s = view->storage;
  if (!s || s->kind != TNI_STORAGE_ALLOCATED || s->backend != b->id) return TN_OK;
  tni_memory_block *block = s->ctx;
  if (TNI_UNLIKELY(tni_memory_lost(block, b->def)))
    return tn_fail(TN_ERR_STATE, "the tensor's memory on %s was allocated before the fork and is gone in the child",
                   b->name);
  if (!tni_backend_has_streams(b) || tni_memory_stream_of(block) == raw) return TN_OK;
  return tni_memory_use(block, raw);
}

/* ------------------------------------------------------------------ bytes */

tn_status tni_device_write(const tn_view *to, int64_t offset_bytes, const void *host, uint64_t bytes) {
  const tni_backend *b = tni_backend_get(to->backend);
  void *raw = tni_stream_raw(tn_view_device(to));
  TN_TRY(tni_backend_admit(b));
  TN_TRY(tni_tensor_admit(b, to, raw));
  return b->def->from_host(b->def->ctx, to->device_index, to->mem, offset_bytes, host, bytes, raw);
}

tn_status tni_device_read(const tn_view *from, int64_t offset_bytes, void *host, uint64_t bytes) {
  const tni_backend *b = tni_backend_get(from->backend);
  void *raw = tni_stream_raw(tn_view_device(from));
  TN_TRY(tni_device_wait(b, from->device_index));
  TN_TRY(tni_tensor_admit(b, from, raw));
  return b->def->to_host(b->def->ctx, from->device_index, from->mem, offset_bytes, host, bytes, raw);
}

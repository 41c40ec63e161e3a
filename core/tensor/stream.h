/* SPDX-License-Identifier: Apache-2.0
 *
 * Calling a device: is it usable in this process, on which stream, waiting for it; and its pinned host memory.
 *
 * Note [Current streams]
 * A thread has a current stream for each device; most have the default one everywhere, and then modes.streams is NULL.
 * Else it points to a set: immutable, made once for each combination that occurs, never freed. So it is copied like
 * every other mode, a snapshot owns nothing, and workers inherit it. Streams are not destroyed either: one that its
 * owner released serves the next tn_stream_new of its device, so that whoever still holds it by its address (a set, a
 * node that runs backward on the stream of its forward, free memory in its order) holds something that lives.
 */
#ifndef TENON_CORE_STREAM_H
#define TENON_CORE_STREAM_H

#include <tenon/stream.h>

#include "core/memory/memory.h"
#include "core/tensor/tensor.h"

struct tn_stream {
  struct tn_stream *next; /* of all streams, or of the idle ones */
  tn_device device;
  void *raw; /* the backend's */
  _Atomic uint32_t refs;
  int32_t generation; /* of forks */
};

typedef struct tni_stream_set {
  struct tni_stream_set *next; /* of all sets */
  uint32_t n;
  tn_stream *items[]; /* one a device, by backend and index */
} tni_stream_set;

/* The calling thread's current stream of a device; NULL: the default one. */
tn_stream *tni_stream_find(tn_device device);
static inline tn_stream *tni_stream_current(tn_device device) {
  return TNI_LIKELY(!tni_tls.modes.streams) ? NULL : tni_stream_find(device);
}
static inline void *tni_stream_raw(tn_device device) {
  tn_stream *stream = tni_stream_current(device);
  return stream ? stream->raw : NULL;
}
tn_status tni_stream_new(tn_device device, tn_stream **out_stream);
void tni_stream_release(tn_stream *stream);
/* Makes a stream (NULL: the default one) the thread's current one of its device. */
tn_status tni_stream_set_current(tn_device device, tn_stream *stream);
/* Later work of `then` waits for what `first` has been given so far; both of this device, NULL: the default one. */
tn_status tni_stream_order(tn_device device, const tn_stream *first, const tn_stream *then);
/* At shutdown, when devices are drained and their memory is given back: streams that nobody owns go, too. */
void tni_streams_free(void);
/* Events of a backend that somebody owns, and counting one more or one less. */
uint32_t tni_events_live(uint8_t backend);
void tni_events_count(uint8_t backend, uint32_t more);
/* Streams of a backend that somebody owns; and the end of those that nobody does, before it is unloaded. */
uint32_t tni_streams_live(uint8_t backend);
void tni_streams_close(const tni_backend *b);

static inline bool tni_backend_has_streams(const tni_backend *b) { return b->def->stream_new != NULL; }
static inline bool tni_backend_has_events(const tni_backend *b) { return b->def->event_new != NULL; }
/* Before everything that calls a backend. See Note [Backends after a fork] in core/memory/memory.h. */
static inline tn_status tni_backend_admit(const tni_backend *b) {
  return TNI_LIKELY(b->def->fork == TN_FORK_SAFE) ? TN_OK : tni_fork_admit_slow(b->fork);
}
/* Waits for what this thread's current stream of the device has been given. */
tn_status tni_device_wait(const tni_backend *b, int32_t index);
/* Before a kernel or copy on `raw` touches the tensor's memory: refuses what a fork took away, and keeps memory of
 * another stream from being reused before this one is done. */
tn_status tni_tensor_admit(const tni_backend *b, const tn_view *view, void *raw);
/* host <-> device, on the thread's current stream; complete on return. */
tn_status tni_device_write(const tn_view *to, int64_t offset_bytes, const void *host, uint64_t bytes);
tn_status tni_device_read(const tn_view *from, int64_t offset_bytes, void *host, uint64_t bytes);

/* The cache of pinned host memory for a device. TN_ERR_UNSUPPORTED: its backend has none. */
tn_status tni_pinned_pool(tn_device device, tni_pool **out_pool);
/* The device that memory is pinned for when nobody names one: the thread's default, else the only kind that has
 * pinned memory. */
tn_status tni_pinned_device(tn_device *out_device);
void tni_pinned_pools_free(tni_backend *b); /* of a backend that was never published */
/* As tni_tensor_new on the cpu, row-major, over pinned memory. */
tn_status tni_tensor_new_pinned(tn_dtype dtype, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides,
                                tn_device device, tn_tensor **out_tensor);
tn_status tni_pinned_alloc(tn_device device, uint64_t size_bytes, tn_memory *out_memory);
void tni_pinned_free(tn_device device, const tn_memory *memory);

#endif

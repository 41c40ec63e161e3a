/* SPDX-License-Identifier: Apache-2.0
 *
 * Reuse across streams. See Note [Streams] in memory.h.
 */
#include "core/memory/memory_int.h"

tni_memory_stream *tni_stream_of(tni_pool *pool, void *stream) {
  tni_memory_stream *s = pool->streams;
  while (s && s->stream != stream) s = s->next;
  if (s) return s;
  s = tni_alloc_zero(sizeof *s);
  if (!s) return NULL;
  s->stream = stream;
  s->next = pool->streams;
  pool->streams = s;
  return s;
}

void *tni_memory_stream_of(const tni_memory_block *block) { return block->stream->stream; }

/* ------------------------------------------------------------------ marks */

static bool event_done(tni_pool *pool, void *event) {
  const tn_backend_def *def = pool->options.def;
  bool done = false;
  return def->event_query(def->ctx, pool->options.index, event, &done) == TN_OK && done;
}

static bool event_put(tni_pool *pool, void **event, void *stream) {
  const tn_backend_def *def = pool->options.def;
  if (!*event && def->event_new(def->ctx, pool->options.index, event) != TN_OK) return false;
  return def->event_record(def->ctx, pool->options.index, *event, stream) == TN_OK;
}

static void event_drop(tni_pool *pool, void *event) {
  const tn_backend_def *def = pool->options.def;
  if (event) def->event_free(def->ctx, pool->options.index, event);
}

static bool mark_put(tni_pool *pool, tni_memory_stream *s) {
  if (!event_put(pool, &s->mark, s->stream)) return false;
  s->marked = s->freed;
  s->mark_out = true;
  return true;
}

static void mark_look(tni_pool *pool, tni_memory_stream *s) {
  if (!s->mark_out || !event_done(pool, s->mark)) return;
  s->done = s->marked;
  s->mark_out = false;
}

static bool wait_for(tni_pool *pool, tni_memory_stream *waiting, tni_memory_stream *other) {
  const tn_backend_def *def = pool->options.def;
  return mark_put(pool, other) &&
         def->event_wait(def->ctx, pool->options.index, other->mark, waiting->stream) == TN_OK;
}

tni_memory_block *tni_stream_steal(tni_pool *pool, tni_memory_stream *stream, uint8_t kind, uint64_t size,
                                   uint64_t most, bool force) {
  if (!pool->events) return NULL;
  tni_words words = tni_words_aside(); /* an event that fails is no failure of the request */
  tni_memory_block *found = NULL;
  for (tni_memory_stream *s = pool->streams; s && !found; s = s->next) {
    if (s == stream) continue;
    mark_look(pool, s);
    found = tni_bins_find(&s->bins[kind], size, most, s->done);
    if (found || !tni_bins_find(&s->bins[kind], size, most, UINT64_MAX)) continue;
    if (force && wait_for(pool, stream, s)) found = tni_bins_find(&s->bins[kind], size, most, UINT64_MAX);
    if (!force && !s->mark_out) mark_put(pool, s);
  }
  tni_words_back(words);
  if (!found) return NULL;
  tni_bins_take(&found->stream->bins[kind], found);
  tni_segment_cut(pool, found, size); /* the rest stays with the stream that freed it */
  found->stream = stream;
  return found;
}

/* ------------------------------------------------------------------ blocks that several streams use */

static tn_status use_add(tni_memory_block *block, void *stream) {
  if (stream == block->stream->stream) return TN_OK;
  for (tni_use *u = block->uses; u; u = u->next)
    if (u->stream == stream) return TN_OK;
  tni_use *u = tni_alloc_zero(sizeof *u);
  if (!u) return tni_oom(sizeof *u, "a block's stream");
  u->stream = stream;
  u->next = block->uses;
  block->uses = u;
  return TN_OK;
}

tn_status tni_memory_use(tni_memory_block *block, void *stream) {
  tni_pool *pool = block->pool;
  if (!pool->asynchronous) return TN_OK;
  tni_mutex_lock(&pool->mutex);
  tn_status status = use_add(block, stream);
  tni_mutex_unlock(&pool->mutex);
  return status;
}

static void uses_free(tni_pool *pool, tni_memory_block *block) {
  while (block->uses) {
    tni_use *u = block->uses;
    block->uses = u->next;
    event_drop(pool, u->event);
    tni_free(u);
  }
}

static bool uses_record(tni_pool *pool, tni_memory_block *block) {
  for (tni_use *u = block->uses; u; u = u->next)
    if (!event_put(pool, &u->event, u->stream)) return false;
  return true;
}

void tni_stream_give(tni_pool *pool, tni_memory_block *block, void *freed_on) {
  tni_words words = tni_words_aside();
  bool known = freed_on == TNI_MEMORY_OWN_STREAM || use_add(block, freed_on) == TN_OK;
  if (!block->uses && known) {
    tni_pool_give(pool, block);
  } else if (known && pool->events && uses_record(pool, block)) {
    atomic_store_explicit(&block->state, TNI_MEMORY_PENDING, memory_order_relaxed);
    block->next = pool->pending;
    pool->pending = block;
  } else if (tni_pool_wait(pool)) {
    uses_free(pool, block);
    tni_pool_give(pool, block);
  } /* else the device is lost, and the block with it */
  tni_words_back(words);
}

static bool uses_done(tni_pool *pool, const tni_memory_block *block) {
  for (const tni_use *u = block->uses; u; u = u->next)
    if (!event_done(pool, u->event)) return false;
  return true;
}

void tni_stream_drain(tni_pool *pool, bool all_done) {
  for (tni_memory_stream *s = pool->streams; s && all_done; s = s->next) {
    s->done = s->freed;
    s->mark_out = false;
  }
  if (!pool->pending) return;
  tni_words words = tni_words_aside();
  for (tni_memory_block **at = &pool->pending; *at;) {
    tni_memory_block *block = *at;
    if (!all_done && !uses_done(pool, block)) {
      at = &block->next;
      continue;
    }
    *at = block->next;
    uses_free(pool, block);
    tni_pool_give(pool, block);
  }
  tni_words_back(words);
}

void tni_streams_deinit(tni_pool *pool) {
  while (pool->streams) {
    tni_memory_stream *s = pool->streams;
    pool->streams = s->next;
    event_drop(pool, s->mark);
    tni_free(s);
  }
}

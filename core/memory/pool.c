/* SPDX-License-Identifier: Apache-2.0
 *
 * A request's way: the thread's front (memory.h), a slab or a free block of the stream, a block that another stream is
 * done with, a new segment; and when the backend or the limit refuses, once more with an empty cache.
 *
 * All pools are locked across a fork, so the child finds them whole. Lists of threads that the child does not have
 * stay with it unused. What becomes of devices: Note [Backends after a fork].
 */
#include "core/load/load.h"
#include "core/memory/memory_int.h"

#if defined(TN_STRESS) || defined(__SANITIZE_ADDRESS__)
#define CACHED false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CACHED false
#endif
#endif
#ifndef CACHED
#define CACHED true
#endif

enum { GRANULE = 4096 };

bool tni_memory_cached(void) { return CACHED; }

/* ------------------------------------------------------------------ all pools, fork */

static tni_mutex list_mutex = TNI_MUTEX_INIT; /* taken before a pool's */
static tni_pool *pools;

static void before_fork(void) {
  tni_mutex_lock(&list_mutex);
  for (tni_pool *p = pools; p; p = p->next) tni_mutex_lock(&p->mutex);
}
static void after_fork(void) {
  for (tni_pool *p = pools; p; p = p->next) tni_mutex_unlock(&p->mutex);
  tni_mutex_unlock(&list_mutex);
}
TNI_FORK_PART(pools, TNI_FORK_MEMORY, before_fork, after_fork, after_fork);

/* The backend may not be called for what the pool holds. */
static bool is_lost(const tni_pool *pool) {
  return TNI_UNLIKELY(pool->options.def->fork != TN_FORK_SAFE && pool->generation != tni_fork_generation());
}

/* After exit began no plugin is called (tni_exiting), except for the host's memory, whose rows are plain C. */
static bool is_over(const tni_pool *pool) {
  return TNI_UNLIKELY(tni_exiting() &&
                      (!(pool->options.def->flags & TN_BACKEND_HOST_MEMORY) || pool->options.pinned));
}

/* ------------------------------------------------------------------ life of a pool */

tn_status tni_pool_new(const tni_pool_options *options, tni_pool **out_pool) {
  const tn_backend_def *def = options->def;
  tni_pool *pool = tni_alloc_zero(sizeof *pool);
  *out_pool = NULL;
  if (!pool) return tni_oom(sizeof *pool, "a memory pool");
  tni_mutex_init(&pool->mutex);
  pool->options = *options;
  pool->granule = def->alignment_bytes > GRANULE ? def->alignment_bytes : GRANULE;
  pool->offsets = !(def->flags & TN_BACKEND_NO_OFFSETS);
  pool->asynchronous = def->synchronize != NULL;
  pool->events =
      def->event_new && def->event_free && def->event_record && def->event_query && def->event_wait;
  tni_fork_state_init(&pool->own_fork, def, options->name);
  pool->fork = options->fork ? options->fork : &pool->own_fork;
  pool->generation = tni_fork_generation();
  tni_mutex_lock(&list_mutex);
  pool->next = pools;
  if (pools) pools->previous = pool;
  pools = pool;
  tni_mutex_unlock(&list_mutex);
  *out_pool = pool;
  return TN_OK;
}

const tn_backend_def *tni_pool_def(const tni_pool *pool) { return pool->options.def; }
bool tni_memory_is_pinned(const tni_memory_block *block) { return block->pool->options.pinned; }

void tni_pool_free(tni_pool *pool) {
  if (!pool) return;
  tni_front_drop(pool);
  tni_pool_purge(pool);
  tni_mutex_lock(&list_mutex);
  if (pool->next) pool->next->previous = pool->previous;
  if (pool->previous)
    pool->previous->next = pool->next;
  else
    pools = pool->next;
  tni_mutex_unlock(&list_mutex);
  if (!is_lost(pool)) tni_streams_deinit(pool);
  tni_fork_state_deinit(&pool->own_fork);
  tni_mutex_deinit(&pool->mutex);
  tni_free(pool);
}

/* ------------------------------------------------------------------ giving memory back to the backend */

bool tni_pool_wait(tni_pool *pool) {
  const tn_backend_def *def = pool->options.def;
  return !def->synchronize || def->synchronize(def->ctx, pool->options.index) == TN_OK;
}

void tni_pool_purge_locked(tni_pool *pool) {
  if (is_lost(pool) || pool->closed || is_over(pool)) return;
  tni_words words = tni_words_aside();
  bool all_done = !pool->asynchronous || tni_pool_wait(pool);
  atomic_fetch_add_explicit(&pool->purges, 1, memory_order_relaxed);
  tni_front *own = tni_front_find(pool);
  if (own) tni_front_spill_all(own);
  tni_stream_drain(pool, all_done);
  tni_slabs_release(pool);
  tni_segments_release(pool, all_done);
  tni_words_back(words);
}

void tni_pool_purge(tni_pool *pool) {
  tni_mutex_lock(&pool->mutex);
  tni_pool_purge_locked(pool);
  tni_mutex_unlock(&pool->mutex);
}

void tni_pools_purge(void) {
  tni_mutex_lock(&list_mutex);
  for (tni_pool *p = pools; p; p = p->next) tni_pool_purge(p);
  tni_mutex_unlock(&list_mutex);
}

/* ------------------------------------------------------------------ blocks */

/* A segment's kind that is not ours serves too before we give up. */
static tni_memory_block *find_free(tni_pool *pool, tni_memory_stream *stream, uint8_t kind, uint64_t size,
                                   uint64_t most) {
  tni_memory_block *block = tni_bins_find(&stream->bins[kind], size, most, UINT64_MAX);
  if (!block) return NULL;
  tni_bins_take(&stream->bins[kind], block);
  tni_segment_cut(pool, block, size);
  return block;
}

/* The backend or the limit has refused: what else there is, in the order of what it costs. */
static tn_status take_hard(tni_pool *pool, tni_memory_stream *stream, uint8_t kind, uint64_t size,
                           uint64_t most, tni_memory_block **out_block) {
  pool->stats.n_retries++;
  *out_block = tni_stream_steal(pool, stream, kind, size, most, true);
  if (*out_block) return TN_OK;
  tni_pool_purge_locked(pool);
  *out_block = find_free(pool, stream, kind, size, most);
  if (*out_block) return TN_OK;
  tn_status status = tni_segment_new(pool, stream, kind, size, out_block);
  if (status != TN_ERR_OUT_OF_MEMORY || kind == TNI_KIND_WHOLE) return status;
  uint8_t other = kind == TNI_KIND_LARGE ? TNI_KIND_MEDIUM : TNI_KIND_LARGE;
  *out_block = find_free(pool, stream, other, size, most);
  return *out_block ? TN_OK : status;
}

tn_status tni_pool_take(tni_pool *pool, tni_memory_stream *stream, uint8_t kind, uint64_t size,
                        tni_memory_block **out_block) {
  uint64_t most = kind == TNI_KIND_WHOLE ? size + size / 4 : UINT64_MAX;
  if (pool->pending) tni_stream_drain(pool, false);
  *out_block = find_free(pool, stream, kind, size, most);
  if (!*out_block) *out_block = tni_stream_steal(pool, stream, kind, size, most, false);
  if (*out_block) return TN_OK;
  tni_words words = tni_words_aside(); /* a refusal that is mended leaves no words */
  uint64_t segment = tni_segment_size(pool, kind, size);
  tn_status status = tni_segment_new(pool, stream, kind, segment, out_block);
  if (status == TN_ERR_OUT_OF_MEMORY && segment > size)
    status = tni_segment_new(pool, stream, kind, size, out_block);
  if (status == TN_ERR_OUT_OF_MEMORY) status = take_hard(pool, stream, kind, size, most, out_block);
  if (status != TN_OK) {
    tni_words_drop(words);
    return status;
  }
  tni_words_back(words);
  tni_segment_cut(pool, *out_block, size);
  return TN_OK;
}

/* Sizes of blocks that cannot be cut: eight steps a doubling, so that a freed one finds another use. */
static uint64_t whole_size(const tni_pool *pool, uint64_t bytes) {
  uint64_t alignment = pool->options.def->alignment_bytes;
  uint64_t step = bytes < GRANULE ? 256 : (uint64_t)1 << (60 - __builtin_clzll(bytes));
  return tni_round_up(tni_round_up(bytes, step), alignment);
}

static tn_status raw_block(tni_pool *pool, uint64_t bytes, tni_memory_stream *stream,
                           tni_memory_block **out_block) {
  tni_memory_block *block = tni_alloc_zero(sizeof *block);
  tn_memory memory;
  if (!block) return tni_oom(sizeof *block, "a block's record");
  tni_words words = tni_words_aside();
  tn_status status = tni_raw_alloc(pool, bytes, stream->stream, &memory);
  if (status == TN_ERR_OUT_OF_MEMORY) {
    pool->stats.n_retries++;
    tni_pool_purge_locked(pool);
    status = tni_raw_alloc(pool, bytes, stream->stream, &memory);
  }
  if (status != TN_OK) {
    tni_words_drop(words);
    tni_free(block);
    return status;
  }
  tni_words_back(words);
  block->mem = memory.mem;
  block->address = memory.address;
  block->size = bytes;
  block->pool = pool;
  block->stream = stream;
  block->size_class = TNI_MEMORY_NO_CLASS;
  block->kind = TNI_KIND_RAW;
  *out_block = block;
  return TN_OK;
}

static tn_status pool_alloc(tni_pool *pool, uint64_t bytes, tni_memory_stream *stream, bool whole,
                            tni_memory_block **out_block) {
  if (bytes > INT64_MAX - (uint64_t)TNI_MEMORY_SEGMENT_MOST) return tni_oom(bytes, "a block");
  if (!pool->options.cached) return raw_block(pool, bytes, stream, out_block);
  if (whole || !pool->offsets)
    return tni_pool_take(pool, stream, TNI_KIND_WHOLE, whole_size(pool, bytes), out_block);
  uint64_t size = tni_round_up(bytes, pool->granule);
  if (bytes > TNI_MEMORY_SMALL)
    return tni_pool_take(pool, stream, size < TNI_MEMORY_LARGE ? TNI_KIND_MEDIUM : TNI_KIND_LARGE, size,
                         out_block);
  tni_words words = tni_words_aside();
  tn_status status = tni_slab_alloc(pool, stream, tni_memory_class(bytes), out_block);
  if (status == TN_ERR_OUT_OF_MEMORY) /* there may be room for one where there is none for a slab */
    status = tni_pool_take(pool, stream, TNI_KIND_MEDIUM, size, out_block);
  if (status == TN_OK)
    tni_words_back(words);
  else
    tni_words_drop(words);
  return status;
}

void tni_pool_give(tni_pool *pool, tni_memory_block *block) {
  if (block->kind == TNI_KIND_RAW) {
    tn_memory memory = {block->mem, block->address, block->size};
    tni_raw_free(pool, &memory, block->stream->stream);
    tni_free(block);
  } else if (block->size_class != TNI_MEMORY_NO_CLASS) {
    tni_slab_give(pool, block);
  } else {
    tni_segment_join(block);
  }
}

/* ------------------------------------------------------------------ the doors */

static tn_status fail_closed(const tni_pool *pool) {
  return tn_fail(TN_ERR_STATE, "device %s was unloaded: opening it by name loads its plugin again", pool->options.name);
}

static tn_status check_open(const tni_pool *pool) {
  if (TNI_UNLIKELY(pool->closed)) return fail_closed(pool);
  if (is_over(pool))
    return tn_fail(TN_ERR_STATE, "the process is ending: device %s gives no memory", pool->options.name);
  return TN_OK;
}

tn_status tni_memory_alloc_slow(tni_pool *pool, uint64_t bytes, void *stream, bool whole,
                                tni_memory_block **out_block) {
  *out_block = NULL;
  if (!whole && (tni_front_raise(pool) || tni_front_part(pool, bytes)))
    return tni_memory_alloc(pool, bytes, stream, out_block);
  TN_TRY(check_open(pool)); /* before the fork's state, which may call the backend */
  TN_TRY(tni_fork_admit(pool->fork));
  uint8_t tag = (uint8_t)tni_tls.modes.memory_tag;
  tni_mutex_lock(&pool->mutex);
  if (is_lost(pool)) tni_pool_forget(pool);
  tni_front *front = tni_front_of(pool);
  if (front) tni_front_sum(front);
  tni_memory_stream *order = tni_stream_of(pool, pool->asynchronous ? stream : NULL);
  tn_status status = check_open(pool); /* again: it may have been closed meanwhile */
  if (status == TN_OK)
    status = order ? pool_alloc(pool, bytes ? bytes : 1, order, whole, out_block)
                   : tni_oom(sizeof *order, "a stream's memory");
  if (status == TN_OK)
    tni_count_alloc(pool, *out_block, tag);
  else if (status == TN_ERR_OUT_OF_MEMORY)
    pool->stats.n_failures++;
  if (status == TN_OK && front && (*out_block)->size_class != TNI_MEMORY_NO_CLASS)
    tni_front_refill(front, (*out_block)->size_class);
  tni_mutex_unlock(&pool->mutex);
  return status;
}

static bool is_dropped(const tni_pool *pool, const tni_memory_block *block) {
  return TNI_UNLIKELY(tni_memory_lost(block, pool->options.def)) || is_over(pool);
}

void tni_memory_free_slow(tni_memory_block *block, void *stream) {
  tni_pool *pool = block->pool;
  if (tni_front_raise(pool)) return tni_memory_free(block, stream);
  if (is_dropped(pool, block)) return;
  tni_mutex_lock(&pool->mutex);
  tni_front *front = block->size_class != TNI_MEMORY_NO_CLASS ? tni_front_of(pool) : NULL;
  if (front) tni_front_sum(front);
  tni_count_free(pool, block);
  if (front) {
    struct tni_front_list *list = &front->lists[block->size_class];
    if (list->count >= list->most) tni_front_spill(front, block->size_class, list->most / 2);
    block->next = list->head;
    list->head = block;
    list->count++;
    atomic_store_explicit(&block->state, TNI_MEMORY_CACHED, memory_order_relaxed);
  } else if (pool->asynchronous) {
    tni_stream_give(pool, block, stream);
  } else {
    tni_pool_give(pool, block);
  }
  tni_mutex_unlock(&pool->mutex);
}

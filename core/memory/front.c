/* SPDX-License-Identifier: Apache-2.0
 *
 * The calling thread's lists of small objects. See Note [The front] in memory.h.
 */
#include "core/memory/memory_int.h"

enum { LIST_BYTES = 256 << 10, LIST_LEAST = 4, LIST_MOST = 64 };

static void front_free(tni_front *front) {
  tni_pool *pool = front->pool;
  tni_mutex_lock(&pool->mutex);
  tni_front_spill_all(front);
  tni_front_sum(front);
  if (front->next) front->next->previous = front->previous;
  if (front->previous)
    front->previous->next = front->next;
  else
    pool->fronts = front->next;
  tni_mutex_unlock(&pool->mutex);
  tni_free(front);
}

/* The thread ends. */
static void fronts_free(tni_front *front) {
  while (front) {
    tni_front *other = front->other;
    front_free(front);
    front = other;
  }
}

static tni_front *front_new(tni_pool *pool) {
  tni_front *front = tni_alloc_zero(sizeof *front);
  if (!front) return NULL;
  front->pool = pool;
  front->purges = atomic_load_explicit(&pool->purges, memory_order_relaxed);
  for (unsigned c = 0; c < TNI_MEMORY_CLASSES; ++c) {
    uint64_t most = LIST_BYTES / tni_memory_class_bytes(pool, c);
    front->lists[c].most = most < LIST_LEAST ? LIST_LEAST : most > LIST_MOST ? LIST_MOST : (uint32_t)most;
  }
  front->next = pool->fronts;
  if (front->next) front->next->previous = front;
  pool->fronts = front;
  front->other = tni_tls.front;
  tni_tls.front = front;
  tni_tls.front_free = fronts_free;
  tni_thread_arm();
  return front;
}

/* Takes the front of a pool out of the thread's list. */
static tni_front *take_out(const tni_pool *pool) {
  for (tni_front **at = &tni_tls.front; *at; at = &(*at)->other) {
    tni_front *front = *at;
    if (front->pool != pool) continue;
    *at = front->other;
    return front;
  }
  return NULL;
}

tni_front *tni_front_find(const tni_pool *pool) {
  tni_front *front = tni_tls.front;
  while (front && front->pool != pool) front = front->other;
  return front;
}

bool tni_front_raise(const tni_pool *pool) {
  if (!tni_tls.front || tni_tls.front->pool == pool) return false;
  tni_front *front = take_out(pool);
  if (!front) return false;
  front->other = tni_tls.front;
  tni_tls.front = front;
  return true;
}

tni_front *tni_front_of(tni_pool *pool) {
  if (!pool->options.fronts) return NULL;
  tni_front_raise(pool);
  return tni_tls.front && tni_tls.front->pool == pool ? tni_tls.front : front_new(pool);
}

void tni_front_drop(tni_pool *pool) {
  tni_front *front = take_out(pool);
  if (front) front_free(front);
}

static inline int64_t swap(_Atomic int64_t *field) {
  int64_t value = atomic_load_explicit(field, memory_order_relaxed);
  atomic_store_explicit(field, 0, memory_order_relaxed);
  return value;
}
static inline uint64_t swap_count(_Atomic uint64_t *field) {
  uint64_t value = atomic_load_explicit(field, memory_order_relaxed);
  atomic_store_explicit(field, 0, memory_order_relaxed);
  return value;
}

void tni_front_sum(tni_front *front) {
  tni_pool *pool = front->pool;
  int64_t high = pool->current + swap(&front->high);
  if (high > pool->peak) pool->peak = high;
  pool->current += swap(&front->delta);
  pool->stats.n_allocs += swap_count(&front->n_allocs);
  pool->stats.n_frees += swap_count(&front->n_frees);
  uint32_t purges = atomic_load_explicit(&pool->purges, memory_order_relaxed);
  if (front->purges == purges) return;
  front->purges = purges;
  tni_front_spill_all(front);
}

/* The object of a pair; the holder's block is the thread's again. */
static tni_memory_block *pair_part(struct tni_front_list *list) {
  tni_memory_pair *pair = list->pairs;
  tni_memory_block *object = pair->object;
  list->pairs = pair->next;
  tni_block_free(pair, TNI_MEMORY_PAIR_CLASS);
  return object;
}

bool tni_front_part(const tni_pool *pool, uint64_t bytes) {
  tni_front *front = tni_front_at(pool);
  if (!front || bytes > TNI_MEMORY_SMALL || tni_tls.modes.memory_tag) return false;
  struct tni_front_list *list = &front->lists[tni_memory_class(bytes)];
  if (list->head || !list->pairs) return false;
  list->head = pair_part(list);
  list->head->next = NULL;
  return true;
}

tni_memory_pair *tni_memory_pair_take_slow(const tni_pool *pool, uint64_t bytes) {
  return tni_front_raise(pool) ? tni_memory_pair_take(pool, bytes) : NULL;
}

bool tni_memory_pair_give_slow(tni_memory_pair *pair, tni_memory_block *object) {
  return tni_front_raise(object->pool) && tni_memory_pair_give(pair, object);
}

/* Objects alone go first. */
void tni_front_spill(tni_front *front, unsigned size_class, uint32_t keep) {
  struct tni_front_list *list = &front->lists[size_class];
  while (list->count > keep) {
    tni_memory_block *object = list->head;
    if (object)
      list->head = object->next;
    else
      object = pair_part(list);
    list->count--;
    tni_slab_give(front->pool, object);
  }
}

void tni_front_spill_all(tni_front *front) {
  for (unsigned c = 0; c < TNI_MEMORY_CLASSES; ++c) tni_front_spill(front, c, 0);
}

void tni_front_refill(tni_front *front, unsigned size_class) {
  struct tni_front_list *list = &front->lists[size_class];
  tni_memory_stream *stream = tni_stream_of(front->pool, NULL);
  while (list->count < list->most / 2 && stream && stream->slabs[size_class]) {
    tni_memory_block *object;
    if (tni_slab_alloc(front->pool, stream, size_class, &object) != TN_OK) return;
    atomic_store_explicit(&object->state, TNI_MEMORY_CACHED, memory_order_relaxed);
    object->next = list->head;
    list->head = object;
    list->count++;
  }
}

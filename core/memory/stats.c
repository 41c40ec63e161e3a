/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in use, and under which tags. Requests that fronts serve are counted there and summed here.
 */
#include "core/memory/memory_int.h"
#include "core/profile/profile.h"

enum { NAME_MOST = 63 };

/* Under the pool's lock, so that events come in the order of what they tell. */
static void tell(const tni_pool *pool, uint32_t kind, const tni_memory_block *block) {
  int64_t current = pool->current;
  for (const tni_front *f = pool->fronts; f; f = f->next) current += atomic_load_explicit(&f->delta, memory_order_relaxed);
  tni_profile_memory(kind, pool->options.device, block->size, current > 0 ? (uint64_t)current : 0);
}

void tni_count_alloc(tni_pool *pool, tni_memory_block *block, uint8_t tag) {
  pool->stats.n_allocs++;
  pool->current += (int64_t)block->size;
  if (pool->current > pool->peak) pool->peak = pool->current;
  block->tag = tag;
  block->generation = pool->generation;
  if (tni_profile_wants(TNI_PROFILE_MEMORY)) tell(pool, TN_PROFILE_ALLOC, block);
  atomic_store_explicit(&block->state, TNI_MEMORY_LIVE, memory_order_relaxed);
  if (!tag) return;
  pool->tags[tag].n_allocs++;
  pool->tags[tag].current += block->size;
  if (pool->tags[tag].current > pool->tags[tag].peak) pool->tags[tag].peak = pool->tags[tag].current;
}

void tni_count_free(tni_pool *pool, tni_memory_block *block) {
  pool->stats.n_frees++;
  pool->current -= (int64_t)block->size;
  if (block->tag) pool->tags[block->tag].current -= block->size;
  block->tag = 0;
  if (tni_profile_wants(TNI_PROFILE_MEMORY)) tell(pool, TN_PROFILE_FREE, block);
}

/* ------------------------------------------------------------------ reading */

static void stats_locked(tni_pool *pool, tn_memory_stats *out_stats) {
  int64_t current = pool->current, peak = pool->peak;
  *out_stats = pool->stats;
  for (tni_front *f = pool->fronts; f; f = f->next) {
    int64_t high = pool->current + atomic_load_explicit(&f->high, memory_order_relaxed);
    if (high > peak) peak = high;
    current += atomic_load_explicit(&f->delta, memory_order_relaxed);
    out_stats->n_allocs += atomic_load_explicit(&f->n_allocs, memory_order_relaxed);
    out_stats->n_frees += atomic_load_explicit(&f->n_frees, memory_order_relaxed);
  }
  out_stats->current_bytes = current > 0 ? (uint64_t)current : 0;
  out_stats->peak_bytes = (uint64_t)(peak > current ? peak : current > 0 ? current : 0);
}

void tni_pool_stats(tni_pool *pool, tn_memory_stats *out_stats) {
  tni_mutex_lock(&pool->mutex);
  stats_locked(pool, out_stats);
  tni_mutex_unlock(&pool->mutex);
}

void tni_pool_tag_stats(tni_pool *pool, uint32_t tag, tn_memory_tag_stats *out_stats) {
  tni_mutex_lock(&pool->mutex);
  *out_stats = (tn_memory_tag_stats){.name = tni_memory_tag_name(tag),
                                     .current_bytes = pool->tags[tag].current,
                                     .peak_bytes = pool->tags[tag].peak,
                                     .n_allocs = pool->tags[tag].n_allocs};
  if (tag == 0) { /* what no tag claims */
    tn_memory_stats all;
    stats_locked(pool, &all);
    out_stats->current_bytes = all.current_bytes;
    out_stats->peak_bytes = all.peak_bytes;
    out_stats->n_allocs = all.n_allocs;
    for (uint32_t i = 1; i < TNI_MEMORY_TAGS; ++i) {
      out_stats->current_bytes -= pool->tags[i].current;
      out_stats->n_allocs -= pool->tags[i].n_allocs;
    }
  }
  tni_mutex_unlock(&pool->mutex);
}

void tni_pool_reset_peak(tni_pool *pool) {
  tni_mutex_lock(&pool->mutex);
  tni_front *own = tni_front_of(pool);
  if (own) tni_front_sum(own);
  pool->peak = pool->current;
  pool->stats.reserved_peak_bytes = pool->stats.reserved_bytes;
  for (uint32_t i = 1; i < TNI_MEMORY_TAGS; ++i) pool->tags[i].peak = pool->tags[i].current;
  tni_mutex_unlock(&pool->mutex);
}

void tni_pool_set_limit(tni_pool *pool, uint64_t bytes) {
  tni_mutex_lock(&pool->mutex);
  pool->stats.limit_bytes = bytes;
  if (bytes && pool->stats.reserved_bytes > bytes) tni_pool_purge_locked(pool);
  tni_mutex_unlock(&pool->mutex);
}

/* ------------------------------------------------------------------ tags */

static tni_mutex tag_mutex = TNI_MUTEX_INIT;
static _Atomic(const char *) tag_names[TNI_MEMORY_TAGS] = {"untagged"};

const char *tni_memory_tag_name(uint32_t tag) {
  return tag < TNI_MEMORY_TAGS ? atomic_load_explicit(&tag_names[tag], memory_order_acquire) : NULL;
}

static tn_status tag_put(const char *name, uint32_t *out_tag) {
  uint32_t i = 0;
  for (const char *have; (have = tni_memory_tag_name(i)) != NULL; ++i)
    if (strcmp(have, name) == 0) {
      *out_tag = i;
      return TN_OK;
    }
  if (i >= TNI_MEMORY_TAGS)
    return tn_fail(TN_ERR_UNSUPPORTED, "memory tag '%s': there are %d names already", name,
                   TNI_MEMORY_TAGS - 1);
  char *copy = tni_strdup(name);
  if (!copy) return tni_oom(strlen(name) + 1, "a memory tag");
  atomic_store_explicit(&tag_names[i], copy, memory_order_release);
  *out_tag = i;
  return TN_OK;
}

tn_status tni_memory_tag_number(const char *name, uint32_t *out_tag) {
  *out_tag = 0;
  if (!name) return TN_OK;
  if (!*name || strlen(name) > NAME_MOST)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "a memory tag has 1 to %d characters, got %zu", NAME_MOST,
                   strlen(name));
  tni_mutex_lock(&tag_mutex);
  tn_status status = tag_put(name, out_tag);
  tni_mutex_unlock(&tag_mutex);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Closing a pool whose backend goes: everything cached is given back, and from then on requests fail in words. A pool
 * with a block in use stays open. Counted are raw allocations, never tensors: that is what the backend knows.
 */
#include "core/memory/memory_int.h"

/* What fronts hold of a pool without live blocks, only they know of. Whoever closes it has seen to it that no other thread
 * computes with the backend, so their lists may be emptied from here. */
static void spill_fronts(const tni_pool *pool) {
  int64_t live = pool->current;
  for (const tni_front *f = pool->fronts; f; f = f->next) live += atomic_load_explicit(&f->delta, memory_order_relaxed);
  if (live) return;
  for (tni_front *f = pool->fronts; f; f = f->next) tni_front_spill_all(f);
}

uint64_t tni_pool_close(tni_pool *pool, uint64_t *out_bytes) {
  tni_mutex_lock(&pool->mutex);
  spill_fronts(pool);
  tni_pool_purge_locked(pool);
  uint64_t n = pool->stats.n_segments;
  *out_bytes = pool->stats.reserved_bytes;
  if (n == 0) pool->closed = true;
  tni_mutex_unlock(&pool->mutex);
  return n;
}

void tni_pool_reopen(tni_pool *pool) {
  tni_mutex_lock(&pool->mutex);
  pool->closed = false;
  tni_mutex_unlock(&pool->mutex);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of operators that ran on the CPU in a backend's place: one record per (operator, backend), hung up at the
 * operator, so that the missing path finds its own without a lock and no other path knows of them.
 */
#include "core/dispatch/fallback.h"

static struct {
  tni_mutex mutex;
  tni_fallback_count **items;
  size_t count, capacity;
} all = {.mutex = TNI_MUTEX_INIT};
TNI_FORK_LOCK(all, TNI_FORK_REGISTRY, all.mutex);

static tni_fallback_count *find(const tn_op *op, uint8_t backend) {
  tni_fallback_count *c = atomic_load_explicit(&op->fallbacks, memory_order_acquire);
  while (c && c->backend != backend) c = c->next;
  return c;
}

static tn_status add(tn_op *op, uint8_t backend, tni_fallback_count **out_count) {
  TN_TRY(tni_grow(&all.items, &all.capacity, all.count, sizeof *all.items));
  tni_fallback_count *c = tni_alloc_zero(sizeof *c);
  if (!c) return tni_oom(sizeof *c, "counters of operators that run on the CPU");
  c->op = op;
  c->backend = backend;
  c->next = atomic_load_explicit(&op->fallbacks, memory_order_relaxed);
  all.items[all.count++] = c;
  atomic_store_explicit(&op->fallbacks, c, memory_order_release);
  *out_count = c;
  return TN_OK;
}

tn_status tni_fallback_counter(const tn_op *op, uint8_t backend, tni_fallback_count **out_count) {
  tn_status status = TN_OK;
  *out_count = find(op, backend);
  if (*out_count) return TN_OK;
  tni_mutex_lock(&all.mutex);
  *out_count = find(op, backend); /* another thread may have been faster */
  if (!*out_count) status = add((tn_op *)(uintptr_t)op, backend, out_count);
  tni_mutex_unlock(&all.mutex);
  return status;
}

void tni_fallback_note(tni_fallback_count *c, uint64_t to_host, uint64_t from_host) {
  atomic_fetch_add_explicit(&c->calls, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&c->to_host, to_host, memory_order_relaxed);
  atomic_fetch_add_explicit(&c->from_host, from_host, memory_order_relaxed);
}

size_t tni_fallback_counters(void) {
  tni_mutex_lock(&all.mutex);
  size_t n = all.count;
  tni_mutex_unlock(&all.mutex);
  return n;
}

tni_fallback_count *tni_fallback_counter_at(size_t i) {
  tni_mutex_lock(&all.mutex);
  tni_fallback_count *c = i < all.count ? all.items[i] : NULL;
  tni_mutex_unlock(&all.mutex);
  return c;
}

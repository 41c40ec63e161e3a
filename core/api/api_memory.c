/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions of tenon/memory.h: argument checks here, the work in core/memory.
 */
#include "core/load/load.h"
#include "core/memory/memory.h"

static tn_status pool_of(const char *function, tn_device device, tni_pool **out_pool) {
  TN_TRY(tni_load_init());
  const tni_backend *backend = tni_backend_get(device.backend);
  if (!backend || device.index < 0 || device.index >= backend->n_devices)
    return TN_FAIL(TN_ERR_DEVICE, "%s: device %s:%d is not open", function, tni_backend_name(device.backend),
                   device.index);
  if (!backend->pools) return TN_FAIL(TN_ERR_DEVICE, "%s: device %s has no memory", function, backend->name);
  *out_pool = backend->pools[device.index];
  return TN_OK;
}

static tn_status need(const void *pointer, const char *function, const char *what) {
  return pointer ? TN_OK : TN_FAIL(TN_ERR_INVALID_ARGUMENT, "%s: %s is NULL", function, what);
}

tn_status tn_memory_get_stats(tn_device device, tn_memory_stats *out_stats) {
  tni_pool *pool;
  TN_TRY(need(out_stats, "tn_memory_get_stats", "out_stats"));
  *out_stats = (tn_memory_stats){0};
  TN_TRY(pool_of("tn_memory_get_stats", device, &pool));
  tni_pool_stats(pool, out_stats);
  return TN_OK;
}

tn_status tn_memory_reset_peak(tn_device device) {
  tni_pool *pool;
  TN_TRY(pool_of("tn_memory_reset_peak", device, &pool));
  tni_pool_reset_peak(pool);
  return TN_OK;
}

tn_status tn_memory_set_limit(tn_device device, uint64_t bytes) {
  tni_pool *pool;
  TN_TRY(pool_of("tn_memory_set_limit", device, &pool));
  tni_pool_set_limit(pool, bytes);
  return TN_OK;
}

tn_status tn_empty_cache(void) {
  TN_TRY(tni_load_init());
  tni_pools_purge();
  return TN_OK;
}

tn_status tn_memory_snapshot(tn_device device, FILE *file) {
  tni_pool *pool;
  TN_TRY(need(file, "tn_memory_snapshot", "file"));
  TN_TRY(pool_of("tn_memory_snapshot", device, &pool));
  return tni_pool_snapshot(pool, file);
}

/* ------------------------------------------------------------------ tags */

tn_status tn_memory_set_tag(const char *name, const char **out_before) {
  uint32_t tag, before = tni_tls.modes.memory_tag;
  if (out_before) *out_before = before ? tni_memory_tag_name(before) : NULL;
  TN_TRY(tni_memory_tag_number(name, &tag));
  tni_tls.modes.memory_tag = tag;
  return TN_OK;
}

size_t tn_memory_tag_count(void) {
  uint32_t n = 0;
  while (tni_memory_tag_name(n)) ++n;
  return n;
}

tn_status tn_memory_get_tag_stats(tn_device device, size_t i, tn_memory_tag_stats *out_stats) {
  tni_pool *pool;
  TN_TRY(need(out_stats, "tn_memory_get_tag_stats", "out_stats"));
  *out_stats = (tn_memory_tag_stats){0};
  if (i >= tn_memory_tag_count())
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "memory tag %zu: there are %zu", i, tn_memory_tag_count());
  TN_TRY(pool_of("tn_memory_get_tag_stats", device, &pool));
  tni_pool_tag_stats(pool, (uint32_t)i, out_stats);
  return TN_OK;
}

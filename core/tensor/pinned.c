/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory that a device copies from and to without staging: the same cache as for device memory, over another pair
 * of raw rows (host_alloc, host_free). A device's pool of it is made when somebody first asks.
 */
#include <tenon/kit/dtype.h>
#include <tenon/kit/shape.h>

#include "core/load/load.h"
#include "core/tensor/stream.h"

/* The pair, in the form that pools call. Lives as long as the backend. */
typedef struct pinned_rows {
  tn_backend_def def; /* what the pool sees: host memory, with the device's events */
  const tn_backend_def *device;
} pinned_rows;

static tni_mutex mutex = TNI_MUTEX_INIT; /* making pools */
TNI_FORK_LOCK(pinned, TNI_FORK_STREAMS, mutex);

/* Events and waiting go to the device's own rows, which are called with its own ctx. */
#define DEVICE(ctx) (((const pinned_rows *)(ctx))->device)

static tn_status row_alloc(void *ctx, int32_t index, uint64_t bytes, void *stream, tn_memory *out_memory) {
  (void)stream;
  return DEVICE(ctx)->host_alloc(DEVICE(ctx)->ctx, index, bytes, out_memory);
}
static void row_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)stream;
  DEVICE(ctx)->host_free(DEVICE(ctx)->ctx, index, memory);
}
static tn_status row_synchronize(void *ctx, int32_t index) {
  return DEVICE(ctx)->synchronize(DEVICE(ctx)->ctx, index);
}
static tn_status row_event_new(void *ctx, int32_t index, void **out_event) {
  return DEVICE(ctx)->event_new(DEVICE(ctx)->ctx, index, out_event);
}
static void row_event_free(void *ctx, int32_t index, void *event) {
  DEVICE(ctx)->event_free(DEVICE(ctx)->ctx, index, event);
}
static tn_status row_event_record(void *ctx, int32_t index, void *event, void *stream) {
  return DEVICE(ctx)->event_record(DEVICE(ctx)->ctx, index, event, stream);
}
static tn_status row_event_query(void *ctx, int32_t index, void *event, bool *out_done) {
  return DEVICE(ctx)->event_query(DEVICE(ctx)->ctx, index, event, out_done);
}
static tn_status row_event_wait(void *ctx, int32_t index, void *event, void *stream) {
  return DEVICE(ctx)->event_wait(DEVICE(ctx)->ctx, index, event, stream);
}

static void rows_fill(pinned_rows *rows, const tn_backend_def *device) {
  *rows = (pinned_rows){.def = *device, .device = device};
  rows->def.flags = TN_BACKEND_HOST_MEMORY | (device->flags & TN_BACKEND_NO_OFFSETS);
  rows->def.ctx = rows;
  rows->def.alloc = row_alloc;
  rows->def.free = row_free;
  if (device->synchronize) rows->def.synchronize = row_synchronize;
  if (!device->event_new) return;
  rows->def.event_new = row_event_new;
  rows->def.event_free = row_event_free;
  rows->def.event_record = row_event_record;
  rows->def.event_query = row_event_query;
  rows->def.event_wait = row_event_wait;
}

/* The mutex is held. */
static tn_status pool_make(const tni_backend *b, int32_t index) {
  pinned_rows *rows = tni_alloc(sizeof *rows);
  tni_pool *pool;
  if (!rows) return tni_oom(sizeof *rows, "a pool of pinned memory");
  rows_fill(rows, b->def);
  const tni_pool_options options = {.def = &rows->def,
                                    .name = b->name,
                                    .index = index,
                                    .fork = b->fork,
                                    .device = {.backend = TN_BACKEND_CPU},
                                    .pinned = true,
                                    .cached = tni_memory_cached()};
  tn_status status = tni_pool_new(&options, &pool);
  if (status == TN_OK)
    atomic_store_explicit(&b->pinned[index], pool, memory_order_release);
  else
    tni_free(rows);
  return status;
}

tn_status tni_pinned_pool(tn_device device, tni_pool **out_pool) {
  const tni_backend *b;
  *out_pool = NULL;
  TN_TRY(tni_backend_need(device, &b));
  if (!b->def->host_alloc || !b->pinned)
    return tn_fail(TN_ERR_UNSUPPORTED, "device %s has no pinned host memory", b->name);
  TN_TRY(tni_backend_admit(b));
  *out_pool = atomic_load_explicit(&b->pinned[device.index], memory_order_acquire);
  if (*out_pool) return TN_OK;
  tni_mutex_lock(&mutex);
  tn_status status = atomic_load(&b->pinned[device.index]) ? TN_OK : pool_make(b, device.index);
  tni_mutex_unlock(&mutex);
  *out_pool = atomic_load(&b->pinned[device.index]);
  return status;
}

void tni_pinned_pools_free(tni_backend *b) {
  for (int32_t i = 0; b->pinned && i < b->n_devices; ++i) {
    tni_pool *pool = atomic_load(&b->pinned[i]);
    if (!pool) continue;
    void *rows = tni_pool_def(pool)->ctx;
    tni_pool_free(pool);
    tni_free(rows);
  }
  tni_free(b->pinned);
  b->pinned = NULL;
}

tn_status tni_pinned_device(tn_device *out_device) {
  const tni_backend *found = tni_backend_get(tni_tls.modes.default_device.backend);
  *out_device = tni_tls.modes.default_device;
  if (found && found->def->host_alloc) return TN_OK;
  found = NULL;
  for (uint8_t id = 0; id < TN_BACKEND_LIMIT; ++id) {
    const tni_backend *b = tni_backend_get(id);
    if (!b || !b->def->host_alloc) continue;
    if (found)
      return tn_fail(TN_ERR_UNAVAILABLE,
                     "pin_memory: both %s and %s have pinned memory; make one the default device, or call "
                     "tn_tensor_pin",
                     found->name, b->name);
    found = b;
  }
  if (!found) return tn_fail(TN_ERR_UNAVAILABLE, "pin_memory: no open device has pinned host memory");
  *out_device = (tn_device){.backend = found->id};
  return TN_OK;
}

tn_status tni_tensor_new_pinned(tn_dtype dtype, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides,
                                tn_device device, tn_tensor **out_tensor) {
  tni_pool *pool;
  *out_tensor = NULL;
  TN_TRY(tni_pinned_pool(device, &pool));
  return tni_tensor_new_in(dtype, ndim, sizes, strides, (tn_device){.backend = TN_BACKEND_CPU}, pool, out_tensor);
}

/* ------------------------------------------------------------------ host->pinned_alloc */

/* A plugin gets the block's record as its handle. */
tn_status tni_pinned_alloc(tn_device device, uint64_t size_bytes, tn_memory *out_memory) {
  tni_pool *pool;
  tni_memory_block *block;
  if (!out_memory) return tn_fail(TN_ERR_INVALID_ARGUMENT, "pinned_alloc: out_memory is NULL");
  *out_memory = (tn_memory){0};
  TN_TRY(tni_pinned_pool(device, &pool));
  TN_TRY(tni_memory_alloc(pool, size_bytes, tni_stream_raw(device), &block));
  *out_memory = (tn_memory){(uint64_t)(uintptr_t)block, block->address, size_bytes};
  return TN_OK;
}

void tni_pinned_free(tn_device device, const tn_memory *memory) {
  (void)device;
  if (memory && memory->mem) tni_memory_free((tni_memory_block *)(uintptr_t)memory->mem, TNI_MEMORY_OWN_STREAM);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See memory_fake.h.
 */
#include "memory_fake.h"

#include <stdlib.h>

#include "tn_test.h"

static tn_status device_count(void *ctx, int32_t *out_count) {
  (void)ctx;
  *out_count = 1;
  return TN_OK;
}

static tn_status fake_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream,
                            tn_memory *out_memory) {
  fake *f = ctx;
  (void)index, (void)stream;
  if (f->refuse != TN_OK) {
    tn_status status = f->refuse;
    f->refuse = TN_OK;
    return tn_fail(status, "fake: refused");
  }
  if (f->budget && f->held + size_bytes > f->budget) return tn_fail(TN_ERR_OUT_OF_MEMORY, "fake: no memory");
  f->held += size_bytes;
  uint64_t place = f->next ? f->next : (uint64_t)1 << 40;
  f->next = place + (size_bytes + ((uint64_t)2 << 20)) / 4096 * 4096; /* a gap between segments */
  *out_memory = (tn_memory){place, f->opaque ? NULL : (void *)(uintptr_t)place, size_bytes};
  return TN_OK;
}

static void fake_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)index, (void)stream;
  ((fake *)ctx)->held -= memory->size_bytes;
}

static tn_status fake_from(void *ctx, int32_t index, uint64_t mem, int64_t offset, const void *host,
                           uint64_t bytes, void *stream) {
  (void)ctx, (void)index, (void)mem, (void)offset, (void)host, (void)bytes, (void)stream;
  return TN_OK;
}
static tn_status fake_to(void *ctx, int32_t index, uint64_t mem, int64_t offset, void *host, uint64_t bytes,
                         void *stream) {
  (void)ctx, (void)index, (void)mem, (void)offset, (void)host, (void)bytes, (void)stream;
  return TN_OK;
}

static tn_status synchronize(void *ctx, int32_t index) {
  fake *f = ctx;
  (void)index;
  f->n_syncs++;
  for (int i = 0; i < 4; ++i)
    if (f->streams[i]) f->streams[i]->done = f->streams[i]->given;
  return TN_OK;
}

static tn_status event_new(void *ctx, int32_t index, void **out_event) {
  (void)index;
  *out_event = calloc(1, sizeof(fake_event));
  ((fake *)ctx)->n_events++;
  return *out_event ? TN_OK : tn_fail(TN_ERR_OUT_OF_MEMORY, "fake: an event");
}
static void event_free(void *ctx, int32_t index, void *event) {
  (void)index;
  ((fake *)ctx)->n_events--;
  free(event);
}
static tn_status event_record(void *ctx, int32_t index, void *event, void *stream) {
  (void)ctx, (void)index;
  *(fake_event *)event = (fake_event){stream, ((fake_stream *)stream)->given};
  return TN_OK;
}
static tn_status event_query(void *ctx, int32_t index, void *event, bool *out_done) {
  const fake_event *e = event;
  (void)ctx, (void)index;
  *out_done = e->stream->done >= e->at;
  return TN_OK;
}
static tn_status event_wait(void *ctx, int32_t index, void *event, void *stream) {
  (void)index, (void)event, (void)stream;
  ((fake *)ctx)->n_waits++;
  return TN_OK;
}

void fake_init(fake *f, bool asynchronous, bool events) {
  *f = (fake){.def = {.struct_size = sizeof f->def,
                      .device_name = "fake",
                      .alignment_bytes = 64,
                      .ctx = f,
                      .device_count = device_count,
                      .alloc = fake_alloc,
                      .free = fake_free,
                      .from_host = fake_from,
                      .to_host = fake_to}};
  if (asynchronous) f->def.synchronize = synchronize;
  if (!events) return;
  f->def.event_new = event_new;
  f->def.event_free = event_free;
  f->def.event_record = event_record;
  f->def.event_query = event_query;
  f->def.event_wait = event_wait;
}

tni_pool *fake_pool(fake *f, bool cached, bool fronts) {
  tni_pool *pool;
  TN_CHECK_OK(tni_pool_new(
      &(tni_pool_options){.def = &f->def, .name = "fake", .cached = cached, .fronts = fronts}, &pool));
  return pool;
}

tn_memory_stats fake_stats(tni_pool *pool) {
  tn_memory_stats stats;
  tni_pool_stats(pool, &stats);
  return stats;
}

tni_memory_block *fake_take(tni_pool *pool, uint64_t bytes, void *stream) {
  tni_memory_block *block;
  TN_CHECK_OK(tni_memory_alloc(pool, bytes, stream, &block));
  TN_CHECK(block->size >= bytes);
  return block;
}

void fake_end(fake *f, tni_pool *pool) {
  tni_pool_free(pool);
  TN_CHECK_INT(f->held, 0);
  TN_CHECK_INT(f->n_events, 0);
}

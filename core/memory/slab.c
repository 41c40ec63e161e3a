/* SPDX-License-Identifier: Apache-2.0
 *
 * Small objects: a block of medium size cut once into equal parts. One empty slab a class stays, so that a loop that
 * makes and drops one tensor does not cut anew each time.
 */
#include "core/memory/memory_int.h"

enum { SLAB_BYTES = 128 << 10, OBJECTS_LEAST = 8, OBJECTS_MOST = 128 };

uint64_t tni_memory_class_bytes(const tni_pool *pool, unsigned size_class) {
  uint64_t alignment = pool->options.def->alignment_bytes;
  unsigned log = size_class / 4 + 9;
  uint64_t bytes = size_class < 4 ? (size_class + 1) * 256
                                  : ((uint64_t)1 << log) + (size_class % 4 + 1) * ((uint64_t)1 << (log - 2));
  return tni_round_up(bytes, alignment);
}

static void link_slab(tni_slab **list, tni_slab *slab) {
  slab->previous = NULL;
  slab->next = *list;
  if (*list) (*list)->previous = slab;
  *list = slab;
}

static void unlink_slab(tni_slab **list, tni_slab *slab) {
  if (slab->next) slab->next->previous = slab->previous;
  if (slab->previous)
    slab->previous->next = slab->next;
  else
    *list = slab->next;
}

static void fill(tni_slab *slab, tni_pool *pool, unsigned size_class, uint64_t bytes) {
  const tni_memory_block *place = slab->place;
  bool by_address = tni_segment_by_address(place->segment);
  for (uint32_t i = slab->n; i-- > 0;) {
    tni_memory_block *item = &slab->items[i];
    *item = (tni_memory_block){.mem = by_address ? place->mem + i * bytes : place->mem,
                               .address = place->address ? (char *)place->address + i * bytes : NULL,
                               .base_bytes = by_address ? 0 : place->base_bytes + (int64_t)(i * bytes),
                               .size = bytes,
                               .pool = pool,
                               .next = slab->free,
                               .size_class = (uint8_t)size_class,
                               .kind = place->kind,
                               .slot = i,
                               .segment = place->segment,
                               .stream = place->stream,
                               .slab = slab};
    slab->free = item;
  }
}

static tn_status slab_new(tni_pool *pool, tni_memory_stream *stream, unsigned size_class) {
  uint64_t bytes = tni_memory_class_bytes(pool, size_class);
  uint64_t n = SLAB_BYTES / bytes;
  n = n < OBJECTS_LEAST ? OBJECTS_LEAST : n > OBJECTS_MOST ? OBJECTS_MOST : n;
  tni_slab *slab = tni_alloc(sizeof *slab + n * sizeof *slab->items);
  if (!slab) return tni_oom(sizeof *slab + n * sizeof *slab->items, "a slab's record");
  *slab = (tni_slab){.n = (uint32_t)n, .n_free = (uint32_t)n};
  tn_status status =
      tni_pool_take(pool, stream, TNI_KIND_MEDIUM, tni_round_up(n * bytes, pool->granule), &slab->place);
  if (status != TN_OK) {
    tni_free(slab);
    return status;
  }
  slab->place->slab = slab;
  atomic_store_explicit(&slab->place->state, TNI_MEMORY_SLAB, memory_order_relaxed);
  fill(slab, pool, size_class, bytes);
  link_slab(&stream->slabs[size_class], slab);
  return TN_OK;
}

tn_status tni_slab_alloc(tni_pool *pool, tni_memory_stream *stream, unsigned size_class,
                         tni_memory_block **out_block) {
  if (!stream->slabs[size_class]) TN_TRY(slab_new(pool, stream, size_class));
  tni_slab *slab = stream->slabs[size_class];
  tni_memory_block *object = slab->free;
  slab->free = object->next;
  if (--slab->n_free == 0) unlink_slab(&stream->slabs[size_class], slab);
  atomic_store_explicit(&object->state, TNI_MEMORY_LIVE, memory_order_relaxed);
  *out_block = object;
  return TN_OK;
}

/* An empty slab leaves its list and becomes a free block. */
static void slab_release(tni_slab **list, tni_slab *slab) {
  tni_memory_block *place = slab->place;
  unlink_slab(list, slab);
  tni_free(slab);
  place->slab = NULL;
  tni_segment_join(place);
}

void tni_slab_give(tni_pool *pool, tni_memory_block *object) {
  tni_slab *slab = object->slab;
  tni_slab **list = &object->stream->slabs[object->size_class];
  (void)pool;
  atomic_store_explicit(&object->state, TNI_MEMORY_FREE, memory_order_relaxed);
  object->next = slab->free;
  slab->free = object;
  if (slab->n_free++ == 0) link_slab(list, slab);
  if (slab->n_free == slab->n && (slab->next || slab->previous)) slab_release(list, slab);
}

void tni_slabs_release(tni_pool *pool) {
  for (tni_memory_stream *s = pool->streams; s; s = s->next) {
    for (unsigned c = 0; c < TNI_MEMORY_CLASSES; ++c) {
      for (tni_slab *slab = s->slabs[c], *next; slab; slab = next) {
        next = slab->next;
        if (slab->n_free == slab->n) slab_release(&s->slabs[c], slab);
      }
    }
  }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw allocations: made, cut, joined, given back. The only file that calls a backend's alloc and free.
 *
 * Segments grow with what is reserved of their kind, between TNI_MEMORY_SEGMENT and TNI_MEMORY_SEGMENT_MOST, so that a
 * large model needs few raw allocations and a small one little memory: some large tensors and a few small ones are no
 * reason for a large segment of small ones. A request of more than half of that gets one of its own
 * size.
 */
#include "core/memory/memory_int.h"

static uint64_t rest_least(const tni_pool *pool) { return tni_round_up(TNI_MEMORY_SMALL, pool->granule); }

/* ------------------------------------------------------------------ raw */

static tn_status check_limit(const tni_pool *pool, uint64_t bytes) {
  const tn_memory_stats *s = &pool->stats;
  if (!s->limit_bytes || (bytes <= s->limit_bytes && s->reserved_bytes <= s->limit_bytes - bytes))
    return TN_OK;
  return tn_fail(
      TN_ERR_OUT_OF_MEMORY,
      "out of memory: %llu bytes more on %s:%d would pass its limit of %llu (%llu reserved, %lld in use)",
      (unsigned long long)bytes, pool->options.name, pool->options.index, (unsigned long long)s->limit_bytes,
      (unsigned long long)s->reserved_bytes, (long long)pool->current);
}

/* A wrong place would end the process later, in a kernel. What is refused goes back. */
static tn_status check_place(const tni_pool *pool, const tn_memory *memory) {
  const tn_backend_def *def = pool->options.def;
  uintptr_t address = (uintptr_t)memory->address;
  if (TNI_LIKELY(address && address % def->alignment_bytes == 0)) return TN_OK;
  if (!address && !(def->flags & TN_BACKEND_HOST_MEMORY)) return TN_OK;
  if (memory->mem || address) def->free(def->ctx, pool->options.index, memory, NULL);
  if (!address)
    return tn_fail(TN_ERR_PLUGIN, "alloc of %s gave host memory without an address", pool->options.name);
  return tn_fail(TN_ERR_PLUGIN, "alloc of %s gave the address 0x%llx, expected a multiple of %u", pool->options.name,
                 (unsigned long long)address, def->alignment_bytes);
}

tn_status tni_raw_alloc(tni_pool *pool, uint64_t bytes, void *stream, tn_memory *out_memory) {
  const tn_backend_def *def = pool->options.def;
  *out_memory = (tn_memory){0};
  TN_TRY(check_limit(pool, bytes));
  if (tni_should_fail()) return tni_oom(bytes, "a segment");
  TN_TRY(def->alloc(def->ctx, pool->options.index, bytes, stream, out_memory));
  TN_TRY(check_place(pool, out_memory));
  out_memory->size_bytes = bytes;
  pool->stats.reserved_bytes += bytes;
  if (pool->stats.reserved_bytes > pool->stats.reserved_peak_bytes)
    pool->stats.reserved_peak_bytes = pool->stats.reserved_bytes;
  pool->stats.n_segments++;
  pool->stats.n_raw_allocs++;
  if (pool->options.fronts && (def->flags & TN_BACKEND_HOST_MEMORY)) tni_parallel_first_touch(out_memory->address, bytes);
  return TN_OK;
}

void tni_raw_free(tni_pool *pool, const tn_memory *memory, void *stream) {
  const tn_backend_def *def = pool->options.def;
  def->free(def->ctx, pool->options.index, memory, stream);
  pool->stats.reserved_bytes -= memory->size_bytes;
  pool->stats.n_segments--;
  pool->stats.n_raw_frees++;
}

/* ------------------------------------------------------------------ segments */

uint64_t tni_segment_size(const tni_pool *pool, uint8_t kind, uint64_t size) {
  if (kind == TNI_KIND_WHOLE) return size;
  uint64_t want = pool->reserved[kind] / 8;
  if (want < TNI_MEMORY_SEGMENT) want = TNI_MEMORY_SEGMENT;
  if (want > TNI_MEMORY_SEGMENT_MOST) want = TNI_MEMORY_SEGMENT_MOST;
  if (size <= want / 2) return tni_round_up(want, TNI_MEMORY_SEGMENT);
  /* One of its own size: rounded as little as lets a slightly larger request find it free later. */
  uint64_t step = size < TNI_MEMORY_SEGMENT ? TNI_MEMORY_SEGMENT : (uint64_t)1 << (59 - __builtin_clzll(size));
  return tni_round_up(size, step);
}

static tni_memory_block *block_record(tni_pool *pool) {
  tni_memory_block *block = tni_block_alloc(tni_block_class(sizeof *block));
  if (block) *block = (tni_memory_block){.pool = pool, .size_class = TNI_MEMORY_NO_CLASS};
  return block;
}
static void block_record_free(tni_memory_block *block) {
  tni_block_free(block, tni_block_class(sizeof *block));
}

static void link_segment(tni_pool *pool, tni_segment *s) {
  s->number = pool->n_numbers++;
  s->next = pool->segments;
  if (s->next) s->next->previous = s;
  pool->segments = s;
}

static void unlink_segment(tni_pool *pool, tni_segment *s) {
  if (s->next) s->next->previous = s->previous;
  if (s->previous)
    s->previous->next = s->next;
  else
    pool->segments = s->next;
}

tn_status tni_segment_new(tni_pool *pool, tni_memory_stream *stream, uint8_t kind, uint64_t size,
                          tni_memory_block **out_block) {
  tni_segment *s = tni_alloc_zero(sizeof *s);
  tni_memory_block *block = block_record(pool);
  tn_status status = s && block ? tni_raw_alloc(pool, size, stream->stream, &s->memory)
                                : tni_oom(sizeof *s + sizeof *block, "a segment's record");
  if (status != TN_OK) {
    tni_free(s);
    if (block) block_record_free(block);
    return status;
  }
  s->kind = kind;
  s->first = block;
  pool->reserved[kind] += size;
  link_segment(pool, s);
  block->mem = s->memory.mem;
  block->address = s->memory.address;
  block->size = size;
  block->kind = kind;
  block->segment = s;
  block->stream = stream;
  atomic_store_explicit(&block->state, TNI_MEMORY_LIVE, memory_order_relaxed);
  *out_block = block;
  return TN_OK;
}

/* ------------------------------------------------------------------ cutting and joining */

bool tni_segment_by_address(const tni_segment *s) {
  return s->memory.address && s->memory.mem == (uint64_t)(uintptr_t)s->memory.address;
}

void tni_segment_cut(tni_pool *pool, tni_memory_block *block, uint64_t size) {
  if (block->kind == TNI_KIND_WHOLE || block->size < size + rest_least(pool)) return;
  tni_memory_block *rest = block_record(pool);
  if (!rest) return; /* the block is larger than asked for, that is all */
  bool by_address = tni_segment_by_address(block->segment);
  rest->mem = by_address ? block->mem + size : block->mem;
  rest->base_bytes = by_address ? 0 : block->base_bytes + (int64_t)size;
  rest->address = block->address ? (char *)block->address + size : NULL;
  rest->size = block->size - size;
  rest->kind = block->kind;
  rest->segment = block->segment;
  rest->stream = block->stream;
  rest->freed = block->freed;
  rest->left = block;
  rest->right = block->right;
  if (rest->right) rest->right->left = rest;
  block->right = rest;
  block->size = size;
  tni_bins_put(&rest->stream->bins[rest->kind], rest);
}

static bool is_free(const tni_memory_block *block) {
  return block && atomic_load_explicit(&block->state, memory_order_relaxed) == TNI_MEMORY_FREE;
}

/* right, which is in no bin, becomes a part of its left neighbour, which is in none either. */
static void swallow(tni_memory_block *block, tni_memory_block *right) {
  block->size += right->size;
  block->right = right->right;
  if (block->right) block->right->left = block;
  if (right->freed > block->freed) block->freed = right->freed;
  block_record_free(right);
}

void tni_segment_join(tni_memory_block *block) {
  tni_memory_stream *stream = block->stream;
  tni_bins *bins = &stream->bins[block->kind];
  block->freed = ++stream->freed;
  if (is_free(block->right) && block->right->stream == stream) {
    tni_bins_take(bins, block->right);
    swallow(block, block->right);
  }
  tni_memory_block *left = block->left;
  if (is_free(left) && left->stream == stream) {
    tni_bins_take(bins, left);
    swallow(left, block);
    block = left;
  }
  tni_bins_put(bins, block);
}

/* ------------------------------------------------------------------ giving back */

/* Joins free neighbours whatever their streams. */
static void join_all(tni_segment *s) {
  for (tni_memory_block *b = s->first; b; b = b->right) {
    while (is_free(b) && is_free(b->right)) {
      tni_bins *bins = &b->stream->bins[b->kind];
      tni_bins_take(&b->right->stream->bins[b->kind], b->right);
      tni_bins_take(bins, b);
      b->freed = b->right->freed = 0; /* the work before both is done */
      swallow(b, b->right);
      tni_bins_put(bins, b);
    }
  }
}

void tni_segments_release(tni_pool *pool, bool all_done) {
  for (tni_segment *s = pool->segments, *next; s; s = next) {
    next = s->next;
    if (all_done) join_all(s);
    tni_memory_block *b = s->first;
    if (!is_free(b) || b->right) continue;
    tni_bins_take(&b->stream->bins[b->kind], b);
    tni_raw_free(pool, &s->memory, b->stream->stream);
    pool->reserved[s->kind] -= s->memory.size_bytes;
    unlink_segment(pool, s);
    block_record_free(b);
    tni_free(s);
  }
}

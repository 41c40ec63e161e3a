/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool as JSON lines: totals, then each segment with its blocks in the order of their places. Objects of a slab
 * follow the block that is cut for them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/memory/memory_int.h"

static const char *const kinds[] = {"medium", "large", "whole"};
static const char *const states[] = {"free", "live", "cached", "pending", "slab"};

/* Bytes of the UTF-8 character at s; 0 if there is none. The NUL at the end is no continuation. */
static int character(const unsigned char *s) {
  int n = s[0] < 0x80 ? 1 : s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
  if (n > 1 && (s[0] < 0xC2 || s[0] > 0xF4)) return 0;
  for (int i = 1; i < n; ++i)
    if ((s[i] & 0xC0) != 0x80) return 0;
  if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F)) return 0;
  if ((s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F)) return 0;
  return n;
}

/* Names are the program's: bytes that are no UTF-8 become the character for what cannot be read. */
static void put_string(FILE *file, const char *words) {
  putc('"', file);
  for (const unsigned char *s = (const unsigned char *)words; *s;) {
    int n = character(s);
    if (*s == '"' || *s == '\\')
      fprintf(file, "\\%c", *s);
    else if (*s < 0x20)
      fprintf(file, "\\u%04x", *s);
    else if (n == 0)
      fputs("\\ufffd", file);
    else
      fwrite(s, 1, (size_t)n, file);
    s += n ? n : 1;
  }
  putc('"', file);
}

static void put_totals(const tni_pool *pool, const tn_memory_stats *s, FILE *file) {
  fprintf(file, "{\"what\":\"device\",\"name\":");
  put_string(file, pool->options.name);
  fprintf(file,
          ",\"index\":%d,\"cached\":%s,\"current_bytes\":%" PRIu64 ",\"peak_bytes\":%" PRIu64
          ",\"reserved_bytes\":%" PRIu64 ",\"limit_bytes\":%" PRIu64 ",\"allocs\":%" PRIu64
          ",\"frees\":%" PRIu64 ",\"segments\":%" PRIu64 ",\"raw_allocs\":%" PRIu64 ",\"retries\":%" PRIu64
          ",\"failures\":%" PRIu64 "}\n",
          (int)pool->options.index, pool->options.cached ? "true" : "false", s->current_bytes, s->peak_bytes,
          s->reserved_bytes, s->limit_bytes, s->n_allocs, s->n_frees, s->n_segments, s->n_raw_allocs,
          s->n_retries, s->n_failures);
}

static void put_block(const tni_memory_block *b, uint64_t offset, FILE *file) {
  unsigned state = atomic_load_explicit(&b->state, memory_order_relaxed);
  fprintf(file,
          "{\"what\":\"%s\",\"segment\":%" PRIu64 ",\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64
          ",\"state\":\"%s\"",
          b->size_class == TNI_MEMORY_NO_CLASS ? "block" : "object", b->segment->number, offset, b->size,
          states[state]);
  if (b->tag) {
    fprintf(file, ",\"tag\":");
    put_string(file, tni_memory_tag_name(b->tag));
  }
  if (b->stream->stream) fprintf(file, ",\"stream\":\"0x%" PRIxPTR "\"", (uintptr_t)b->stream->stream);
  fprintf(file, "}\n");
}

static void put_segment(const tni_segment *s, FILE *file) {
  fprintf(file,
          "{\"what\":\"segment\",\"segment\":%" PRIu64 ",\"mem\":\"0x%" PRIx64 "\",\"bytes\":%" PRIu64
          ",\"kind\":\"%s\"}\n",
          s->number, s->memory.mem, s->memory.size_bytes, kinds[s->kind]);
  uint64_t offset = 0;
  for (const tni_memory_block *b = s->first; b; offset += b->size, b = b->right) {
    put_block(b, offset, file);
    for (uint32_t i = 0; b->slab && i < b->slab->n; ++i)
      put_block(&b->slab->items[i], offset + i * b->slab->items[i].size, file);
  }
}

tn_status tni_pool_snapshot(tni_pool *pool, FILE *file) {
  tn_memory_stats stats;
  tni_pool_stats(pool, &stats);
  tni_mutex_lock(&pool->mutex);
  put_totals(pool, &stats, file);
  for (const tni_segment *s = pool->segments; s; s = s->next) put_segment(s, file);
  tni_mutex_unlock(&pool->mutex);
  if (fflush(file) == 0 && !ferror(file)) return TN_OK;
  return tn_fail(TN_ERR_IO, "writing a memory snapshot: %s", strerror(errno));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the core: a thin door over the C library, and per-thread freelists of blocks for the hot objects.
 *
 * A free list is bounded (FREELIST_MOST), so memory that one thread allocates and another frees does not pile
 * up without end. In the stress and address-sanitizer builds the lists are off: every block is a malloc, so
 * that the sanitizer sees each life.
 */
#include <stdlib.h>

#include "core/base/base.h"
#include "core/base/thread_state.h"

#if defined(TN_STRESS) || defined(__SANITIZE_ADDRESS__)
#define FREELISTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FREELISTS 0
#endif
#endif
#ifndef FREELISTS
#define FREELISTS 1
#endif

/* A chain of 1000 recorded operators holds three blocks per operator at once; twice that stays cached. */
enum { FREELIST_MOST = 8192 };

const uint16_t tni_block_bytes[TNI_BLOCK_CLASSES] = {64, 128, 192, 256, 384, 512, 768, 1024, 512, 512};

#ifdef TN_STRESS
bool tni_should_fail(void) {
  tni_tls.fail_count++;
  return tni_tls.fail_after && --tni_tls.fail_after == 0;
}
uint64_t tni_fail_after(uint64_t n) {
  uint64_t ran = tni_tls.fail_count;
  tni_tls.fail_count = 0;
  tni_tls.fail_after = n;
  return ran;
}
#else
bool tni_should_fail(void) { return false; }
uint64_t tni_fail_after(uint64_t n) {
  (void)n;
  return 0;
}
#endif

void *tni_alloc(size_t size_bytes) { return tni_should_fail() ? NULL : malloc(size_bytes ? size_bytes : 1); }
void *tni_alloc_zero(size_t size_bytes) {
  return tni_should_fail() ? NULL : calloc(1, size_bytes ? size_bytes : 1);
}
void *tni_realloc(void *p, size_t size_bytes) {
  return tni_should_fail() ? NULL : realloc(p, size_bytes ? size_bytes : 1);
}
void tni_free(void *p) { free(p); }

char *tni_strdup(const char *s) {
  size_t n = strlen(s) + 1;
  char *copy = tni_alloc(n);
  if (copy) memcpy(copy, s, n);
  return copy;
}

unsigned tni_block_class(size_t size_bytes) {
  unsigned c = 0;
  while (tni_block_bytes[c] < size_bytes) ++c;
  return c;
}

static void *block_fresh(unsigned c) {
  if (tni_should_fail()) return NULL;
  tni_thread_arm();
  return aligned_alloc(64, tni_block_bytes[c]);
}

void *tni_block_alloc_slow(unsigned block_class) { return block_fresh(block_class); }

/* The list is full, or this is the first block that the thread frees. */
void tni_block_free_slow(void *block, unsigned block_class) {
  tni_thread_arm();
  if (tni_tls.blocks[block_class].count < tni_tls.block_limit)
    tni_block_push(block, block_class);
  else
    free(block);
}

uint32_t tni_block_limit(void) { return FREELISTS ? FREELIST_MOST : 0; }

void *tni_block_alloc(unsigned block_class) { return tni_block_pop(block_class); }
void tni_block_free(void *block, unsigned block_class) { tni_block_push(block, block_class); }

void tni_block_trim(void) {
  for (unsigned c = 0; c < TNI_BLOCK_CLASSES; ++c) {
    while (tni_tls.blocks[c].head) {
      void *block = tni_tls.blocks[c].head;
      tni_tls.blocks[c].head = *(void **)block;
      free(block);
    }
    tni_tls.blocks[c].count = 0;
  }
}

tn_status tni_grow(void *items, size_t *capacity, size_t count, size_t size) {
  if (count < *capacity) return TN_OK;
  size_t more = *capacity ? *capacity * 2 : 8;
  void *old;
  memcpy(&old, items, sizeof old);
  void *grown = more > SIZE_MAX / size ? NULL : tni_realloc(old, more * size);
  if (!grown) return tni_oom(more * size, "a growing array");
  memcpy(items, &grown, sizeof grown);
  *capacity = more;
  return TN_OK;
}

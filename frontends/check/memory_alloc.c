/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.alloc: the raw allocation rows, called as they are. The core's cache asks for few, large blocks, so an
 * allocator that is wrong for others may look right for weeks.
 */
#include <stdlib.h>

#include "frontends/check/door.h"
#include "frontends/check/tools.h"

enum { N_BLOCKS = 48 };
#define TOO_MUCH ((uint64_t)1 << 60)

static const uint64_t sizes[] = {1,  2,   3,   4,    7,    8,    15,   16,    17,      63,      64,
                                 65, 127, 256, 1000, 4095, 4096, 4097, 65536, 1000003, 16 << 20};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static void check_one_size(tni_check_report *r, const tni_raw *d, uint64_t size) {
  char *item = tni_raw_item(d, "%llu bytes", (unsigned long long)size);
  tn_memory m;
  tni_check_at(r, item);
  if (tni_check_ok(r, tni_raw_alloc(d, size, &m), item, "alloc failed")) {
    uint32_t align = d->def->alignment_bytes;
    bool addressed = !(d->def->flags & TN_BACKEND_HOST_MEMORY) || m.address;
    if (m.address && align && (uintptr_t)m.address % align)
      tni_check_fail(r, item, "the block's address %p is not a multiple of alignment_bytes (%u)", m.address,
                     align);
    else if (!addressed)
      tni_check_fail(r, item, "a backend with TN_BACKEND_HOST_MEMORY gave a block without an address");
    else if (m.size_bytes < size)
      tni_check_fail(r, item, "the block says that it has %llu bytes", (unsigned long long)m.size_bytes);
    else
      tni_check_pass(r, item);
    tni_raw_free(d, &m);
  }
  free(item);
}

/* Many blocks live at once, each with bytes of its own; some go and come back; at the end each still has its bytes. */
static bool write_block(const tni_raw *d, const tn_memory *m, uint64_t size, uint32_t seed) {
  unsigned char *bytes = tni_check_alloc(size);
  tni_raw_fill(bytes, size, seed);
  tn_status status = tni_raw_write(d, m, 0, bytes, size);
  free(bytes);
  return status == TN_OK;
}

static bool block_has(const tni_raw *d, const tn_memory *m, uint64_t size, uint32_t seed) {
  unsigned char *bytes = tni_check_alloc(size), *back = tni_check_alloc(size);
  tni_raw_fill(bytes, size, seed);
  tn_status status = tni_raw_read(d, m, 0, back, size);
  bool same = status == TN_OK && !memcmp(bytes, back, size);
  free(bytes);
  free(back);
  return same;
}

static void check_many(tni_check_report *r, const tni_raw *d) {
  tn_memory blocks[N_BLOCKS];
  char *item = tni_raw_item(d, "many blocks");
  int made = 0, wrong = -1;
  tni_check_at(r, item);
  for (; made < N_BLOCKS; made++) {
    uint64_t size = sizes[made % (N_SIZES - 1)];
    if (tni_raw_alloc(d, size, &blocks[made]) != TN_OK ||
        !write_block(d, &blocks[made], size, (uint32_t)made))
      break;
  }
  for (int i = 1; i < made; i += 3) { /* out of order: others stay */
    uint64_t size = sizes[i % (N_SIZES - 1)];
    tni_raw_free(d, &blocks[i]);
    if (tni_raw_alloc(d, size, &blocks[i]) != TN_OK || !write_block(d, &blocks[i], size, (uint32_t)i))
      made = i;
  }
  for (int i = 0; i < made && wrong < 0; i++)
    if (!block_has(d, &blocks[i], sizes[i % (N_SIZES - 1)], (uint32_t)i)) wrong = i;
  for (int i = 0; i < made; i++) tni_raw_free(d, &blocks[made - 1 - i]);
  if (made < N_BLOCKS)
    tni_check_fail(r, item, "block %d could not be made or written: %s", made, tn_error_message());
  else
    tni_check_that(r, wrong < 0, item,
                   "block %d of %llu bytes lost its bytes while others were made and freed: blocks overlap",
                   wrong, (unsigned long long)sizes[(wrong < 0 ? 0 : wrong) % (N_SIZES - 1)]);
  free(item);
}

static void check_too_much(tni_check_report *r, const tni_raw *d) {
  char *item = tni_raw_item(d, "more than there is");
  tn_memory m;
  tni_check_at(r, item);
  tn_error_clear();
  tn_status status = tni_raw_alloc(d, TOO_MUCH, &m);
  if (status == TN_OK) {
    tni_check_fail(r, item, "a request of 2^60 bytes succeeded");
    tni_raw_free(d, &m);
  } else {
    tni_check_that(r, status == TN_ERR_OUT_OF_MEMORY && *tn_error_message(), item,
                   "2^60 bytes were answered \"%s\" with the words \"%s\"; expected \"%s\" in words: only "
                   "that makes the core "
                   "empty its cache and try again",
                   tn_status_name(status), tn_error_message(), tn_status_name(TN_ERR_OUT_OF_MEMORY));
  }
  free(item);
}

static void check_info(tni_check_report *r, const tni_raw *d) {
  char *item = tni_raw_item(d, "memory_info");
  tn_memory_info info = {.struct_size = sizeof info};
  tni_check_at(r, item);
  if (!d->def->memory_info)
    tni_check_skip(r, item, "the backend has no memory_info");
  else if (tni_check_ok(r, d->def->memory_info(d->def->ctx, d->index, &info), item, "memory_info failed"))
    tni_check_that(r, info.total_bytes > 0 && info.free_bytes <= info.total_bytes, item,
                   "%llu of %llu bytes are free", (unsigned long long)info.free_bytes,
                   (unsigned long long)info.total_bytes);
  free(item);
}

/* Pinned host memory: ordinary memory to the host. */
static void check_pinned(tni_check_report *r, const tni_raw *d) {
  if (!d->def->host_alloc || !d->def->host_free) return;
  char *item = tni_raw_item(d, "pinned");
  tn_memory m = {0};
  tni_check_at(r, item);
  if (tni_check_ok(r, d->def->host_alloc(d->def->ctx, d->index, 4096, &m), item, "host_alloc failed")) {
    if (tni_check_that(r, m.address, item, "host_alloc gave no address")) memset(m.address, 1, 4096);
    d->def->host_free(d->def->ctx, d->index, &m);
  }
  free(item);
}

static void visit(tni_check_report *r, const tni_raw *d) {
  for (int i = 0; i < N_SIZES; i++) check_one_size(r, d, sizes[i]);
  check_many(r, d);
  check_too_much(r, d);
  check_info(r, d);
  check_pinned(r, d);
}

static void run(tni_check_report *r, const tni_check_context *c) { tni_door_devices(r, c, visit); }

const tni_check tni_check_memory_alloc = {
    .name = "memory.alloc",
    .about = "blocks are aligned, apart, of every size; too much is an answer",
    .kinds = TNI_CHECK_BACKEND,
    .run = run};

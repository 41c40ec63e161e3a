/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.copies: from_host, to_host and copy at sizes and offsets around every border that vector code or a driver's
 * alignment has. Each write is followed by reading the whole block: what stood beside it must still stand there.
 */
#include <stdlib.h>

#include "frontends/check/door.h"
#include "frontends/check/tools.h"

static const uint64_t sizes[] = {0,  1,  2,  3,  5,   7,    8,    9,    31,    32,
                                 33, 63, 64, 65, 255, 4095, 4096, 4097, 70001, 1048579};
static const uint64_t offsets[] = {0, 1, 2, 3, 4, 8, 13, 64, 100, 4096};
enum { N_SIZES = sizeof sizes / sizeof *sizes, N_OFFSETS = sizeof offsets / sizeof *offsets, GUARD = 64 };

/* Host buffers of one case: expected is what the device block shall hold. */
typedef struct buffers {
  unsigned char *expected, *given, *back;
  uint64_t block; /* bytes */
} buffers;

static buffers buffers_make(uint64_t block) {
  buffers b = {tni_check_alloc(block), tni_check_alloc(block + 2 * GUARD), tni_check_alloc(block + 2 * GUARD),
               block};
  return b;
}

static void buffers_free(buffers *b) {
  free(b->expected);
  free(b->given);
  free(b->back);
}

static const char *first_difference(const unsigned char *a, const unsigned char *b, uint64_t n,
                                    uint64_t offset, uint64_t size) {
  for (uint64_t i = 0; i < n; i++)
    if (a[i] != b[i])
      return i < offset          ? "bytes before it changed"
             : i < offset + size ? "its bytes are wrong"
                                 : "bytes behind it changed";
  return NULL;
}

static bool guard_is_whole(const unsigned char *bytes, uint64_t n) {
  for (uint64_t i = 0; i < GUARD; i++)
    if (bytes[i] != 0xC3 || bytes[GUARD + n + i] != 0xC3) return false;
  return true;
}

/* One write of size at offset, then two reads. NULL, or what is wrong. */
static const char *try_one(const tni_raw *d, const tn_memory *m, buffers *b, uint64_t offset, uint64_t size) {
  tni_raw_fill(b->given, size, (uint32_t)(size * 31 + offset));
  if (tni_raw_write(d, m, (int64_t)offset, b->given, size) != TN_OK) return "from_host failed";
  memcpy(b->expected + offset, b->given, size);
  memset(b->back, 0xC3, b->block + 2 * GUARD);
  if (tni_raw_read(d, m, 0, b->back + GUARD, b->block) != TN_OK) return "to_host of the whole block failed";
  const char *wrong = first_difference(b->expected, b->back + GUARD, b->block, offset, size);
  if (wrong) return wrong;
  memset(b->back, 0xC3, size + 2 * GUARD);
  if (tni_raw_read(d, m, (int64_t)offset, b->back + GUARD, size) != TN_OK) return "to_host failed";
  if (memcmp(b->back + GUARD, b->given, size)) return "reading it alone gives other bytes";
  return guard_is_whole(b->back, size) ? NULL : "to_host wrote outside the host's buffer";
}

static void check_size(tni_check_report *r, const tni_raw *d, uint64_t size) {
  char *item = tni_raw_item(d, "%llu bytes", (unsigned long long)size);
  uint64_t block = size + offsets[N_OFFSETS - 1] + 128;
  buffers b = buffers_make(block);
  tn_memory m;
  tni_check_at(r, item);
  if (tni_check_ok(r, tni_raw_alloc(d, block, &m), item, "alloc failed")) {
    tni_raw_fill(b.expected, block, 77);
    const char *wrong =
        tni_raw_write(d, &m, 0, b.expected, block) == TN_OK ? NULL : "from_host of the whole block failed";
    uint64_t at = 0;
    for (int i = 0; i < N_OFFSETS && !wrong; i++) wrong = try_one(d, &m, &b, at = offsets[i], size);
    tni_check_that(r, !wrong, item, "at offset %llu: %s", (unsigned long long)at, wrong);
    tni_raw_free(d, &m);
  }
  buffers_free(&b);
  free(item);
}

/* ------------------------------------------------------------------ the optional copy row */

static void check_row(tni_check_report *r, const tni_raw *from, const tni_raw *to, uint64_t size) {
  enum { FROM_AT = 3, TO_AT = 64 };
  char *item = tni_raw_item(from, "copy to %d, %llu bytes", (int)to->index, (unsigned long long)size);
  uint64_t block = size + 256;
  buffers b = buffers_make(block);
  tn_memory source, target;
  tni_check_at(r, item);
  tn_status status = tni_raw_alloc(from, block, &source);
  if (status == TN_OK && (status = tni_raw_alloc(to, block, &target)) != TN_OK) tni_raw_free(from, &source);
  if (tni_check_ok(r, status, item, "alloc failed")) {
    tni_raw_fill(b.given, block, 5);
    tni_raw_fill(b.expected, block, 6);
    status = tni_raw_write(from, &source, 0, b.given, block);
    if (status == TN_OK) status = tni_raw_write(to, &target, 0, b.expected, block);
    if (status == TN_OK)
      status = from->def->copy(from->def->ctx, to->index, target.mem, TO_AT, from->index, source.mem, FROM_AT,
                               size, NULL);
    if (status == TN_OK && to->def->synchronize) status = to->def->synchronize(to->def->ctx, to->index);
    if (status == TN_OK) status = tni_raw_read(to, &target, 0, b.back, block);
    memcpy(b.expected + TO_AT, b.given + FROM_AT, size);
    if (tni_check_ok(r, status, item, "copying failed")) {
      const char *wrong = first_difference(b.expected, b.back, block, TO_AT, size);
      tni_check_that(r, !wrong, item, "%s", wrong);
    }
    tni_raw_free(from, &source);
    tni_raw_free(to, &target);
  }
  buffers_free(&b);
  free(item);
}

static void visit(tni_check_report *r, const tni_raw *d) {
  for (int i = 0; i < N_SIZES; i++) check_size(r, d, sizes[i]);
  if (!d->def->copy) return;
  for (int32_t other = 0; other < d->count && other < 2; other++) {
    tni_raw to = *d;
    to.index = other;
    for (int i = 0; i < N_SIZES; i += 3) check_row(r, d, &to, sizes[i]);
  }
}

static void run(tni_check_report *r, const tni_check_context *c) { tni_door_devices(r, c, visit); }

const tni_check tni_check_memory_copies = {
    .name = "memory.copies",
    .about = "copies of every size at every offset move their bytes and no others",
    .kinds = TNI_CHECK_BACKEND,
    .run = run};

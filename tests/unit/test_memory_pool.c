/* SPDX-License-Identifier: Apache-2.0
 *
 * core/memory on a device that keeps count: sizes, cutting and joining, refusals, limit, figures, and a long random
 * run in which no two live blocks may touch.
 */
#include <stdio.h>
#include <stdlib.h>

#include "memory_fake.h"
#include "tn_stress.h"
#include "tn_test.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

TN_TEST(memory_pool, classes_hold_what_they_are_for_and_waste_a_fifth_at_most) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, false);
  for (uint64_t bytes = 1; bytes <= TNI_MEMORY_SMALL; bytes += bytes < 2000 ? 1 : 97) {
    tni_memory_block *b = fake_take(pool, bytes, NULL);
    TN_CHECK(b->size_class < TNI_MEMORY_CLASSES);
    TN_CHECK(b->size - bytes < (bytes <= 1024 ? 256 : bytes / 4 + 1));
    TN_CHECK_INT(b->mem % 64, 0);
    tni_memory_free(b, NULL);
  }
  fake_end(&f, pool);
}

TN_TEST(memory_pool, what_is_freed_is_used_again_without_the_backend) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, false);
  for (int i = 0; i < 100; ++i) {
    tni_memory_block *small = fake_take(pool, 3000, NULL), *large = fake_take(pool, 5 * MIB, NULL);
    tni_memory_free(small, NULL);
    tni_memory_free(large, NULL);
  }
  tn_memory_stats s = fake_stats(pool);
  TN_CHECK_INT(s.n_raw_allocs, 2);
  TN_CHECK_INT(s.n_allocs, 200);
  TN_CHECK_INT(s.n_frees, 200);
  TN_CHECK_INT(s.current_bytes, 0);
  TN_CHECK_INT(s.peak_bytes, 5 * MIB + 3072);
  TN_CHECK_INT(s.reserved_bytes, f.held);
  fake_end(&f, pool);
}

TN_TEST(memory_pool, neighbours_join_in_every_order) {
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, false);
  for (int i = 0; i < 6; ++i) {
    tni_memory_block *b[3];
    for (int k = 0; k < 3; ++k) b[k] = fake_take(pool, 680 * KIB, NULL);
    TN_CHECK_INT(b[1]->mem, b[0]->mem + 680 * KIB);
    for (int k = 0; k < 3; ++k) tni_memory_free(b[orders[i][k]], NULL);
  }
  TN_CHECK_INT(fake_stats(pool).n_raw_allocs, 1);
  tni_pool_purge(pool);
  TN_CHECK_INT(fake_stats(pool).reserved_bytes, 0);
  TN_CHECK_INT(fake_stats(pool).n_segments, 0);
  fake_end(&f, pool);
}

TN_TEST(memory_pool, segments_grow_with_what_is_reserved_of_their_kind) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, false);
  tni_memory_block *large = fake_take(pool, 128 * MIB, NULL);
  uint64_t before = fake_stats(pool).reserved_bytes;
  tni_memory_block *medium = fake_take(pool, 300 * KIB, NULL); /* the first of its kind, whatever large ones hold */
  TN_CHECK_INT(fake_stats(pool).reserved_bytes, before + 2 * MIB);
  tni_memory_block *second = fake_take(pool, 2 * MIB, NULL); /* one more of many */
  TN_CHECK_INT(fake_stats(pool).reserved_bytes, before + 2 * MIB + 16 * MIB);
  tni_memory_free(large, NULL);
  tni_memory_free(medium, NULL);
  tni_memory_free(second, NULL);
  tni_pool_purge(pool);
  medium = fake_take(pool, 300 * KIB, NULL);
  large = fake_take(pool, 2 * MIB, NULL); /* what was given back does not count */
  TN_CHECK_INT(fake_stats(pool).reserved_bytes, 4 * MIB);
  tni_memory_free(large, NULL);
  tni_memory_free(medium, NULL);
  fake_end(&f, pool);
}

TN_TEST(memory_pool, a_segment_of_one_request_is_hardly_larger) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, false);
  const uint64_t sizes[] = {9 * MIB, 5 * MIB + 300 * KIB, 33 * MIB + 1, 3 * MIB};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    tni_memory_block *b = fake_take(pool, sizes[i], NULL);
    TN_CHECK(fake_stats(pool).reserved_bytes <= sizes[i] + sizes[i] / 16);
    tni_memory_free(b, NULL);
    tni_pool_purge(pool);
  }
  fake_end(&f, pool);
}

TN_TEST(memory_pool, the_smallest_hole_that_fits_is_taken) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, false);
  tni_memory_block *wide = fake_take(pool, 312 * KIB, NULL), *a = fake_take(pool, 100 * KIB, NULL),
                   *narrow = fake_take(pool, 300 * KIB, NULL), *b = fake_take(pool, 100 * KIB, NULL);
  uint64_t place = narrow->mem;
  tni_memory_free(narrow, NULL);
  tni_memory_free(wide, NULL);
  tni_memory_block *again = fake_take(pool, 290 * KIB, NULL);
  TN_CHECK_INT(again->mem, place);
  tni_memory_free(again, NULL);
  tni_memory_free(a, NULL);
  tni_memory_free(b, NULL);
  fake_end(&f, pool);
}

/* ------------------------------------------------------------------ a long random run */

enum { SLOTS = 300, ROUNDS = 30000 };

static uint64_t place_of(const tni_memory_block *b) { return b->mem + (uint64_t)b->base_bytes; }

static void check_apart(tni_memory_block *const *slots, const tni_memory_block *fresh) {
  for (int i = 0; i < SLOTS; ++i) {
    const tni_memory_block *b = slots[i];
    if (!b || b == fresh) continue;
    if (place_of(b) < place_of(fresh) + fresh->size && place_of(fresh) < place_of(b) + b->size)
      tn_test_fail(__FILE__, __LINE__, "two live blocks share memory");
  }
}

static uint64_t random_size(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  uint64_t r = *seed >> 8;
  return r % 10 < 6 ? r % (70 * KIB) + 1 : r % 10 < 9 ? r % (900 * KIB) + 1 : r % (5 * MIB) + 1;
}

static void run_random(fake *f, bool cached) {
  tni_memory_block *slots[SLOTS] = {NULL};
  tni_pool *pool = fake_pool(f, cached, false);
  uint32_t seed = 7;
  uint64_t live = 0;
  for (int i = 0; i < ROUNDS; ++i) {
    uint64_t bytes = random_size(&seed);
    tni_memory_block **slot = &slots[seed % SLOTS];
    if (*slot) {
      live -= (*slot)->size;
      tni_memory_free(*slot, NULL);
      *slot = NULL;
    } else {
      *slot = fake_take(pool, bytes, NULL);
      live += (*slot)->size;
      TN_CHECK_INT(place_of(*slot) % 64, 0);
      check_apart(slots, *slot);
    }
    if (i % 5000 == 4999) tni_pool_purge(pool);
    if (i % 100 == 0) TN_CHECK_INT(fake_stats(pool).current_bytes, live);
  }
  for (int i = 0; i < SLOTS; ++i)
    if (slots[i]) tni_memory_free(slots[i], NULL);
  TN_CHECK_INT(fake_stats(pool).current_bytes, 0);
  fake_end(f, pool);
}

TN_TEST(memory_pool, live_blocks_never_touch) {
  fake f;
  fake_init(&f, false, false);
  run_random(&f, true);
  fake_init(&f, false, false);
  f.opaque = true;
  run_random(&f, true);
  fake_init(&f, false, false);
  f.def.flags = TN_BACKEND_NO_OFFSETS;
  run_random(&f, true);
  fake_init(&f, false, false);
  f.def.alignment_bytes = 8192;
  run_random(&f, true);
  fake_init(&f, false, false);
  run_random(&f, false);
}

TN_TEST(memory_pool, an_opaque_segment_is_cut_by_offsets_and_never_without_leave) {
  fake f;
  fake_init(&f, false, false);
  f.opaque = true;
  tni_pool *pool = fake_pool(&f, true, false);
  tni_memory_block *a = fake_take(pool, 100 * KIB, NULL), *b = fake_take(pool, 100 * KIB, NULL), *whole;
  TN_CHECK_INT(a->mem, b->mem);
  TN_CHECK_INT(b->base_bytes - a->base_bytes, 100 * KIB);
  TN_CHECK_PTR_NULL(b->address);
  TN_CHECK_OK(tni_memory_alloc_slow(pool, 100, NULL, true, &whole));
  TN_CHECK(whole->mem != a->mem);
  TN_CHECK_INT(whole->base_bytes, 0);
  tni_memory_free(a, NULL);
  tni_memory_free(b, NULL);
  tni_memory_free(whole, NULL);
  fake_end(&f, pool);
  f.def.flags = TN_BACKEND_NO_OFFSETS;
  pool = fake_pool(&f, true, false);
  for (int i = 0; i < 3; ++i) {
    a = fake_take(pool, 100 * KIB, NULL);
    b = fake_take(pool, 100 * KIB, NULL);
    TN_CHECK(a->mem != b->mem);
    TN_CHECK_INT(a->base_bytes + b->base_bytes, 0);
    tni_memory_free(a, NULL);
    tni_memory_free(b, NULL);
  }
  TN_CHECK_INT(fake_stats(pool).n_raw_allocs, 2);
  fake_end(&f, pool);
}

/* ------------------------------------------------------------------ refusals */

TN_TEST(memory_pool, a_full_device_is_asked_again_with_an_empty_cache) {
  fake f;
  fake_init(&f, false, false);
  f.budget = 13 * MIB;
  tni_pool *pool = fake_pool(&f, true, false);
  tni_memory_block *b[3];
  for (int i = 0; i < 3; ++i) b[i] = fake_take(pool, 4 * MIB, NULL);
  tni_memory_free(b[0], NULL);
  tni_memory_free(b[1], NULL);
  tn_error_clear();
  b[0] = fake_take(pool, 8 * MIB, NULL); /* fits only without the two */
  TN_CHECK_STR(tn_error_message(), "");
  TN_CHECK_INT(fake_stats(pool).n_retries, 1);
  TN_CHECK_FAILS(tni_memory_alloc(pool, 8 * MIB, NULL, &b[1]), TN_ERR_OUT_OF_MEMORY, "fake: no memory");
  TN_CHECK_PTR_NULL(b[1]);
  TN_CHECK_INT(fake_stats(pool).n_failures, 1);
  b[1] = fake_take(pool, 700 * KIB, NULL); /* a segment of 2 MiB does not fit, the request itself does */
  tni_memory_free(b[0], NULL);
  tni_memory_free(b[1], NULL);
  tni_memory_free(b[2], NULL);
  fake_end(&f, pool);
}

TN_TEST(memory_pool, small_objects_are_had_where_no_slab_is) {
  fake f;
  fake_init(&f, false, false);
  f.budget = 12 * KIB;
  tni_pool *pool = fake_pool(&f, true, false);
  tni_memory_block *a = fake_take(pool, 3000, NULL), *b = fake_take(pool, 3000, NULL), *c;
  TN_CHECK_INT(a->size, 4096);
  TN_CHECK_OK(tni_memory_alloc(pool, 3000, NULL, &c));
  tni_memory_free(b, NULL);
  tni_memory_free(a, NULL);
  tni_memory_free(c, NULL);
  fake_end(&f, pool);
}

TN_TEST(memory_pool, other_failures_of_the_backend_travel_up_at_once) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, false);
  tni_memory_block *b;
  f.refuse = TN_ERR_PLUGIN;
  TN_CHECK_FAILS(tni_memory_alloc(pool, 1 * MIB, NULL, &b), TN_ERR_PLUGIN, "fake: refused");
  TN_CHECK_INT(fake_stats(pool).n_retries, 0);
  TN_CHECK_FAILS(tni_memory_alloc(pool, UINT64_MAX, NULL, &b), TN_ERR_OUT_OF_MEMORY, "out of memory");
  TN_CHECK_FAILS(tni_memory_alloc(pool, INT64_MAX, NULL, &b), TN_ERR_OUT_OF_MEMORY, "out of memory");
  fake_end(&f, pool);
}

/* The host writes where the backend says, so what it says is looked at. */
TN_TEST(memory_pool, a_block_that_cannot_be_used_is_refused) {
  for (int cached = 0; cached < 2; ++cached) {
    fake f;
    fake_init(&f, false, false);
    f.opaque = true;
    f.def.flags = TN_BACKEND_HOST_MEMORY;
    tni_pool *pool = fake_pool(&f, cached, false);
    tni_memory_block *b;
    TN_CHECK_FAILS(tni_memory_alloc(pool, 100, NULL, &b), TN_ERR_PLUGIN,
                   "alloc of fake gave host memory without an address");
    f.opaque = false;
    f.next = ((uint64_t)1 << 40) + 32;
    TN_CHECK_FAILS(tni_memory_alloc(pool, 100, NULL, &b), TN_ERR_PLUGIN,
                   "alloc of fake gave the address 0x10000000020, expected a multiple of 64");
    TN_CHECK_INT(f.held, 0);
    f.next = 0;
    tni_memory_free(fake_take(pool, 100, NULL), NULL);
    fake_end(&f, pool);
  }
}

TN_TEST(memory_pool, the_limit_counts_what_is_reserved) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, false);
  tni_memory_block *a = fake_take(pool, 4 * MIB, NULL), *b, *c;
  tni_memory_free(fake_take(pool, 4 * MIB, NULL), NULL);
  tni_pool_set_limit(pool, 7 * MIB); /* gives the unused one back */
  TN_CHECK_INT(fake_stats(pool).reserved_bytes, 4 * MIB);
  TN_CHECK_FAILS(tni_memory_alloc(pool, 4 * MIB, NULL, &b), TN_ERR_OUT_OF_MEMORY,
                 "pass its limit of 7340032");
  b = fake_take(pool, 3 * MIB, NULL);
  TN_CHECK_FAILS(tni_memory_alloc(pool, 1, NULL, &c), TN_ERR_OUT_OF_MEMORY, "limit");
  tni_pool_set_limit(pool, 1);
  tni_pool_set_limit(pool, 0);
  tni_memory_free(fake_take(pool, 50 * MIB, NULL), NULL);
  tni_memory_free(a, NULL);
  tni_memory_free(b, NULL);
  fake_end(&f, pool);
}

typedef struct one {
  tni_pool *pool;
  tni_memory_block *block;
  uint64_t bytes;
} one;
static tn_status take_one(void *ctx) {
  one *o = ctx;
  return tni_memory_alloc(o->pool, o->bytes, NULL, &o->block);
}
static void drop_one(void *ctx, tn_status status) {
  one *o = ctx;
  if (status == TN_OK) tni_memory_free(o->block, NULL);
  TN_CHECK_INT(fake_stats(o->pool).current_bytes, 0);
  tni_pool_purge(o->pool);
  TN_CHECK_INT(fake_stats(o->pool).reserved_bytes, 0);
}

TN_TEST(memory_pool, each_failing_allocation_leaves_the_pool_whole) {
  static const uint64_t sizes[] = {100, 5000, 300 * KIB, 3 * MIB};
  for (int i = 0; i < 8; ++i) {
    fake f;
    fake_init(&f, false, false);
    one o = {.pool = fake_pool(&f, i < 4, false), .bytes = sizes[i % 4]};
    tn_stress_run(take_one, drop_one, &o);
    fake_end(&f, o.pool);
  }
}

/* ------------------------------------------------------------------ figures */

TN_TEST(memory_pool, tags_are_counted_until_the_memory_is_freed) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, true);
  uint32_t tag, again;
  TN_CHECK_OK(tni_memory_tag_number("weights", &tag));
  TN_CHECK_OK(tni_memory_tag_number("weights", &again));
  TN_CHECK_INT(tag, again);
  TN_CHECK_FAILS(tni_memory_tag_number("", &again), TN_ERR_INVALID_ARGUMENT, "1 to 63 characters");
  tn_memory_tag_stats t;
  tni_memory_block *plain = fake_take(pool, 1000, NULL), *b[2];
  tni_tls.modes.memory_tag = tag;
  b[0] = fake_take(pool, 1000, NULL);
  b[1] = fake_take(pool, 200 * KIB, NULL);
  tni_tls.modes.memory_tag = 0;
  tni_memory_free(b[1], NULL);
  tni_pool_tag_stats(pool, tag, &t);
  TN_CHECK_STR(t.name, "weights");
  TN_CHECK_INT(t.current_bytes, 1024);
  TN_CHECK_INT(t.peak_bytes, 1024 + 200 * KIB);
  TN_CHECK_INT(t.n_allocs, 2);
  tni_pool_tag_stats(pool, 0, &t);
  TN_CHECK_INT(t.current_bytes, 1024);
  tni_pool_reset_peak(pool);
  TN_CHECK_INT(fake_stats(pool).peak_bytes, 2048);
  tni_memory_free(b[0], NULL);
  tni_memory_free(plain, NULL);
  tni_pool_tag_stats(pool, tag, &t);
  TN_CHECK_INT(t.current_bytes, 0);
  TN_CHECK_INT(fake_stats(pool).current_bytes, 0);
  fake_end(&f, pool);
}

TN_TEST(memory_pool, peaks_are_exact_through_the_front) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, true);
  tni_memory_block *b[40];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 40; ++i) b[i] = fake_take(pool, 4096, NULL);
    for (int i = 0; i < 40; ++i) tni_memory_free(b[i], NULL);
    TN_CHECK_INT(fake_stats(pool).peak_bytes, 40 * 4096);
    TN_CHECK_INT(fake_stats(pool).current_bytes, 0);
    TN_CHECK_INT(fake_stats(pool).n_allocs, 40 * (round + 1));
  }
  tni_memory_free(fake_take(pool, 100 * KIB, NULL), NULL); /* sums the front up */
  TN_CHECK_INT(fake_stats(pool).peak_bytes, 40 * 4096);
  fake_end(&f, pool);
}

TN_TEST(memory_pool, a_thread_has_a_front_for_each_pool) {
  fake f, g;
  fake_init(&f, false, false);
  fake_init(&g, false, false);
  tni_pool *first = fake_pool(&f, true, true), *second = fake_pool(&g, true, true);
  tni_memory_free(fake_take(first, 4096, NULL), NULL);
  tni_memory_free(fake_take(second, 4096, NULL), NULL);
  for (int i = 0; i < 100; ++i) { /* in turn: each is served from its own */
    tni_memory_block *a = fake_take(first, 4096, NULL), *b = fake_take(second, 4096, NULL);
    TN_CHECK(a->pool == first);
    TN_CHECK(b->pool == second);
    TN_CHECK(tni_tls.front->pool == second);
    tni_memory_free(a, NULL);
    TN_CHECK(tni_tls.front->pool == first);
    tni_memory_free(b, NULL);
  }
  TN_CHECK_INT(fake_stats(first).n_allocs, 101);
  TN_CHECK_INT(fake_stats(second).n_frees, 101);
  TN_CHECK_INT(fake_stats(first).current_bytes, 0);
  TN_CHECK_INT(fake_stats(second).n_raw_allocs, 1);
  fake_end(&f, first); /* the other's stays */
  tni_memory_free(fake_take(second, 4096, NULL), NULL);
  TN_CHECK_INT(fake_stats(second).n_raw_allocs, 1);
  fake_end(&g, second);
}

TN_TEST(memory_pool, a_snapshot_accounts_for_every_byte) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, false);
  tni_memory_block *a = fake_take(pool, 700, NULL), *b = fake_take(pool, 300 * KIB, NULL);
  char *text = NULL, *line, *rest;
  size_t n = 0;
  FILE *file = open_memstream(&text, &n);
  TN_CHECK_OK(tni_pool_snapshot(pool, file));
  fclose(file);
  TN_CHECK_CONTAINS(
      text, "{\"what\":\"device\",\"name\":\"fake\",\"index\":0,\"cached\":true,\"current_bytes\":307968,");
  uint64_t segments = 0, blocks = 0, live = 0;
  for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    const char *bytes = strstr(line, "\"bytes\":");
    uint64_t size = bytes ? strtoull(bytes + 8, NULL, 10) : 0;
    if (strstr(line, "\"what\":\"segment\"")) segments += size;
    if (strstr(line, "\"what\":\"block\"")) blocks += size;
    if (strstr(line, "\"state\":\"live\"")) live += size;
    TN_CHECK_INT(line[strlen(line) - 1], '}');
  }
  TN_CHECK_INT(segments, fake_stats(pool).reserved_bytes);
  TN_CHECK_INT(blocks, segments);
  TN_CHECK_INT(live, 307968);
  free(text);
  tni_memory_free(a, NULL);
  tni_memory_free(b, NULL);
  fake_end(&f, pool);
}

TN_TEST(memory_pool, a_snapshot_is_json_whatever_tags_are_called) {
  fake f;
  const char *before = NULL;
  char *text = NULL;
  size_t n = 0;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, false);
  TN_CHECK_OK(tn_memory_set_tag("\xFF" "a\"\xC3\xBC\n\xE2", &before));
  tni_memory_block *b = fake_take(pool, 700, NULL);
  TN_CHECK_OK(tn_memory_set_tag(before, NULL));
  FILE *file = open_memstream(&text, &n);
  TN_CHECK_OK(tni_pool_snapshot(pool, file));
  fclose(file);
  TN_CHECK_CONTAINS(text, "\"tag\":\"\\ufffda\\\"\xC3\xBC\\u000a\\ufffd\"");
  free(text);
  tni_memory_free(b, NULL);
  fake_end(&f, pool);
}

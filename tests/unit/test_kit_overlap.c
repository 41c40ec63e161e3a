/* SPDX-License-Identifier: Apache-2.0
 *
 * kit/overlap: known pairs, and thousands of random small views against a byte map.
 */
#include <string.h>
#include <tenon/kit/shape.h>

#include "tn_test.h"

#define D(...) ((const tn_dim[]){__VA_ARGS__})

static char arena[4096];

/* A view of the arena; flags are worked out as the core does. */
static tn_view view_at(int64_t byte, uint8_t itemsize, uint8_t ndim, const tn_dim *sizes,
                       const tn_dim *strides) {
  tn_view v = {.data = arena + byte,
               .offset_bytes = byte,
               .storage = arena,
               .mem = 1,
               .sizes = sizes,
               .strides = strides,
               .itemsize = itemsize,
               .ndim = ndim,
               .numel = 1};
  for (uint32_t d = 0; d < ndim; d++) v.numel *= sizes[d];
  if (tn_shape_is_contiguous(ndim, sizes, strides)) v.flags |= TN_VIEW_CONTIGUOUS;
  if (tn_shape_is_dense(ndim, sizes, strides)) v.flags |= TN_VIEW_DENSE;
  return v;
}

TN_TEST(kit_overlap, self) {
  tn_view v = view_at(0, 4, 2, D(3, 4), D(4, 1));
  TN_CHECK_INT(tn_view_self_overlap(&v), TN_OVERLAP_NONE);
  v = view_at(0, 4, 2, D(3, 4), D(0, 1)); /* expanded */
  TN_CHECK_INT(tn_view_self_overlap(&v), TN_OVERLAP_PARTIAL);
  v = view_at(0, 4, 2, D(1, 4), D(0, 1));
  TN_CHECK_INT(tn_view_self_overlap(&v), TN_OVERLAP_NONE);
  v = view_at(0, 4, 2, D(3, 4), D(8, 2)); /* gaps */
  TN_CHECK_INT(tn_view_self_overlap(&v), TN_OVERLAP_NONE);
  v = view_at(0, 4, 2, D(5, 4), D(1, 1)); /* sliding windows */
  TN_CHECK_INT(tn_view_self_overlap(&v), TN_OVERLAP_PARTIAL);
  v = view_at(0, 4, 2, D(4, 3), D(3, 4)); /* neither nested nor overlapping */
  TN_CHECK_INT(tn_view_self_overlap(&v), TN_OVERLAP_NONE);
  v = view_at(0, 4, 2, D(5, 4), D(3, 4));
  TN_CHECK_INT(tn_view_self_overlap(&v), TN_OVERLAP_PARTIAL);
  v = view_at(400, 4, 2, D(3, 4), D(-4, -1));
  TN_CHECK_INT(tn_view_self_overlap(&v), TN_OVERLAP_NONE);
  v = view_at(0, 4, 2, D(0, 4), D(0, 0));
  TN_CHECK_INT(tn_view_self_overlap(&v), TN_OVERLAP_NONE);
}

TN_TEST(kit_overlap, pairs) {
  tn_view a = view_at(0, 4, 1, D(10), D(1)), b = view_at(0, 4, 1, D(10), D(1));
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_EXACT);
  b = view_at(40, 4, 1, D(10), D(1));
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_NONE);
  b = view_at(36, 4, 1, D(10), D(1));
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_PARTIAL);
  b = view_at(0, 4, 1, D(5), D(1));
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_PARTIAL);
  b = view_at(0, 2, 1, D(10), D(1));
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_PARTIAL);
  a = view_at(0, 4, 1, D(10), D(2)), b = view_at(4, 4, 1, D(10), D(2)); /* even and odd elements */
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_NONE);
  b = view_at(2, 4, 1, D(10), D(2)); /* the same, not aligned to each other */
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_PARTIAL);
  a = view_at(0, 4, 2, D(8, 3), D(8, 1)), b = view_at(12, 4, 2, D(8, 3), D(8, 1)); /* columns 0-2 and 3-5 */
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_NONE);
  b = view_at(8, 4, 2, D(8, 3), D(8, 1)); /* columns 2-4 */
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_PARTIAL);
  a = view_at(0, 4, 2, D(4, 4), D(4, 1)), b = view_at(0, 4, 2, D(4, 4), D(1, 4)); /* transposed */
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_PARTIAL);
  a = view_at(0, 4, 2, D(1, 4), D(4, 1)), b = view_at(0, 4, 2, D(1, 4), D(99, 1));
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_EXACT);
  a = view_at(36, 4, 1, D(10), D(-1)), b = view_at(0, 4, 1, D(10), D(1)); /* reversed */
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_PARTIAL);
}

TN_TEST(kit_overlap, other_memories) {
  tn_view a = view_at(0, 4, 1, D(10), D(1)), b = a;
  b.storage = &b; /* the same bytes, imported twice */
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_EXACT);
  b.device_index = 1;
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_NONE);
  b = a;
  b.backend = 3;
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_NONE);
  b = a;
  b.numel = 0;
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_NONE);
  a.data = NULL; /* a device without addresses: storage, then handle and offset */
  b = a;
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_EXACT);
  b.offset_bytes = 4;
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_PARTIAL);
  b.storage = &b;
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_PARTIAL);
  b.mem = 2;
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_NONE);
  a.mem = b.mem = 0;
  TN_CHECK_INT(tn_view_overlap(&a, &b), TN_OVERLAP_NONE);
}

TN_TEST(kit_overlap, byte_range) {
  int64_t begin, end;
  tn_view v = view_at(0, 4, 2, D(3, 2), D(-5, 1));
  tn_view_byte_range(&v, &begin, &end);
  TN_CHECK_INT(begin, -40);
  TN_CHECK_INT(end, 8);
  v.numel = 0;
  tn_view_byte_range(&v, &begin, &end);
  TN_CHECK_INT(begin, 0);
  TN_CHECK_INT(end, 0);
}

/* Ends in any answer, but soon: 64 dims of steps without a common pattern. */
TN_TEST(kit_overlap, adversarial_strides_end) {
  tn_dim sizes[TN_MAX_RANK], strides[TN_MAX_RANK];
  for (int d = 0; d < TN_MAX_RANK; d++) {
    sizes[d] = d < 55 ? 2 : 1;
    strides[d] = (INT64_C(1) << 54) + ((INT64_C(1) << d % 50) ^ 12345) * 2;
  }
  tn_view v = {.data = arena,
               .storage = arena,
               .sizes = sizes,
               .strides = strides,
               .itemsize = 1,
               .ndim = TN_MAX_RANK,
               .numel = INT64_C(1) << 55};
  TN_CHECK(tn_view_self_overlap(&v) != TN_OVERLAP_EXACT);
  for (int d = 0; d < TN_MAX_RANK; d++) strides[d] = INT64_MAX / 2 - d;
  TN_CHECK_INT(tn_view_self_overlap(&v), TN_OVERLAP_UNKNOWN);
}

static uint64_t state = 12345;
static int64_t pick(int64_t low, int64_t high) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return low + (int64_t)((state >> 33) % (uint64_t)(high - low + 1));
}

typedef struct random_view {
  tn_view view;
  tn_dim sizes[3];
  tn_dim strides[3];
} random_view;

static void make_random(random_view *r) {
  uint8_t ndim = (uint8_t)pick(0, 3), itemsize = (uint8_t)(1 << pick(0, 2));
  for (int d = 0; d < ndim; d++) {
    r->sizes[d] = pick(1, 4);
    r->strides[d] = pick(-9, 9);
  }
  r->view = view_at(2000 + pick(-30, 30) * (pick(0, 3) ? itemsize : 1), itemsize, ndim, r->sizes, r->strides);
}

/* Adds one to every byte that an element covers; returns the largest count. */
static int mark(const tn_view *v, unsigned char *map) {
  int most = 0;
  for (int64_t i = 0; i < v->numel; i++) {
    int64_t at = v->offset_bytes, index = i;
    for (uint32_t d = v->ndim; d-- > 0; index /= v->sizes[d])
      at += index % v->sizes[d] * v->strides[d] * v->itemsize;
    for (int b = 0; b < v->itemsize; b++) most = ++map[at + b] > most ? map[at + b] : most;
  }
  return most;
}

TN_TEST(kit_overlap, random_views_against_a_byte_map) {
  static unsigned char map_a[sizeof arena], map_b[sizeof arena];
  int kinds[4] = {0};
  for (int round = 0; round < 20000; round++) {
    random_view a, b;
    make_random(&a);
    make_random(&b);
    memset(map_a, 0, sizeof map_a);
    memset(map_b, 0, sizeof map_b);
    int expected = mark(&a.view, map_a) > 1 ? TN_OVERLAP_PARTIAL : TN_OVERLAP_NONE;
    TN_CHECK_INT(tn_view_self_overlap(&a.view), expected);
    mark(&b.view, map_b);
    bool shared = false;
    for (size_t i = 0; i < sizeof map_a; i++) shared = shared || (map_a[i] && map_b[i]);
    int got = tn_view_overlap(&a.view, &b.view);
    TN_CHECK_INT(got != TN_OVERLAP_NONE, shared);
    TN_CHECK_INT(tn_view_overlap(&b.view, &a.view), got);
    kinds[got]++;
  }
  TN_CHECK(kinds[TN_OVERLAP_NONE] > 1000 && kinds[TN_OVERLAP_PARTIAL] > 1000 &&
           kinds[TN_OVERLAP_UNKNOWN] == 0);
}

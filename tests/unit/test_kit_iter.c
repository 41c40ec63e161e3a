/* SPDX-License-Identifier: Apache-2.0
 *
 * kit/iter: random strided operands against a naive loop over indices, by every way of running; the short
 * way's test; order and numbers of rows; merged dims; bad operands.
 */
#include <string.h>
#include <tenon/kit/iter.h>
#include <tenon/kit/shape.h>

#include "tn_test.h"

enum { MEMORY = 1 << 15, MAX_RANK = 5 };

static uint64_t state = 7;
static int64_t pick(int64_t low, int64_t high) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return low + (int64_t)((state >> 33) % (uint64_t)(high - low + 1));
}

/* An operand over its own memory: any order of dims, gaps, turned dims, dims that are broadcast. */
typedef struct operand {
  tn_view view;
  tn_dim sizes[MAX_RANK];
  tn_dim strides[MAX_RANK];
  int32_t memory[MEMORY];
} operand;

static void finish(operand *o, uint8_t ndim, int64_t offset) {
  o->view = (tn_view){.data = o->memory + offset,
                      .sizes = o->sizes,
                      .strides = o->strides,
                      .ndim = ndim,
                      .itemsize = sizeof(int32_t),
                      .dtype = TN_INT32,
                      .numel = 1};
  for (int d = 0; d < ndim; d++) o->view.numel *= o->sizes[d];
  if (tn_shape_is_contiguous(ndim, o->sizes, o->strides)) o->view.flags |= TN_VIEW_CONTIGUOUS;
  for (int i = 0; i < MEMORY; i++) o->memory[i] = (int32_t)pick(0, 1000000);
}

static void make_operand(operand *o, uint8_t ndim, const tn_dim *sizes, bool output) {
  uint8_t drop = output ? 0 : (uint8_t)pick(0, ndim), order[MAX_RANK];
  bool plain = pick(0, 1);
  if (pick(0, 3)) drop = 0;
  ndim = (uint8_t)(ndim - drop);
  for (uint8_t d = 0; d < ndim; d++) {
    o->sizes[d] = !output && pick(0, 4) == 0 ? 1 : sizes[d + drop];
    order[d] = d;
  }
  for (uint8_t d = ndim; d-- > 1 && !plain;) {
    uint8_t other = (uint8_t)pick(0, d), kept = order[d];
    order[d] = order[other];
    order[other] = kept;
  }
  int64_t stride = plain ? 1 : pick(1, 2), offset = 0;
  for (uint8_t i = ndim; i-- > 0;) {
    uint8_t d = order[i];
    bool turned = !plain && pick(0, 3) == 0;
    o->strides[d] = turned ? -stride : stride;
    if (turned) offset += (o->sizes[d] - 1) * stride;
    stride *= o->sizes[d] > 0 ? o->sizes[d] : 1;
    if (!plain && pick(0, 3) == 0) stride += 3;
  }
  finish(o, ndim, offset > 0 ? offset : 0);
}

/* Element of a view under an index of the (larger or equal) shape. */
static int32_t *element(const tn_view *v, uint32_t ndim, const tn_dim *sizes, int64_t index) {
  int64_t at = 0;
  for (uint32_t d = ndim; d-- > 0; index /= sizes[d]) {
    int64_t own = (int64_t)d - (ndim - v->ndim);
    if (own >= 0 && v->sizes[own] != 1) at += index % sizes[d] * v->strides[own];
  }
  return (int32_t *)v->data + at;
}

static int32_t combine(int32_t a, int32_t b) { return a * 3 + b; }

static void row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  if (ctx) ++*(int *)ctx;
  for (int64_t i = 0; i < n; i++) {
    *(int32_t *)(void *)(data[0] + i * strides[0]) = combine(*(int32_t *)(void *)(data[1] + i * strides[1]),
                                                             *(int32_t *)(void *)(data[2] + i * strides[2]));
  }
}

static void block(void *ctx, char **data, const int64_t *inner, const int64_t *outer, int64_t n,
                  int64_t rows) {
  for (int64_t r = 0; r < rows; r++) {
    row(ctx, (char *[]){data[0] + r * outer[0], data[1] + r * outer[1], data[2] + r * outer[2]}, inner, n);
  }
}

static void indexed(void *ctx, char **data, const int64_t *strides, int64_t n, int64_t index) {
  (void)ctx;
  for (int64_t i = 0; i < n; i++) *(int32_t *)(void *)(data[0] + i * strides[0]) = (int32_t)(index + i);
}

static operand out, left, right;
static const tn_view *const three[3] = {&out.view, &left.view, &right.view};

static void check_result(uint32_t ndim, const tn_dim *sizes) {
  for (int64_t i = 0; i < out.view.numel; i++) {
    TN_CHECK_INT(*element(&out.view, ndim, sizes, i),
                 combine(*element(&left.view, ndim, sizes, i), *element(&right.view, ndim, sizes, i)));
  }
}

static void clear(void) { memset(out.memory, 0, sizeof out.memory); }

static void walk_in_pieces(const tn_iter *it, bool blocks) {
  int64_t begin = 0;
  while (begin < it->numel) {
    int64_t end = begin + pick(1, 40);
    if (end > it->numel) end = it->numel;
    if (blocks)
      tn_iter_walk2(it, NULL, begin, end, block, NULL);
    else
      tn_iter_walk(it, it->data, begin, end, row, NULL);
    begin = end;
  }
}

TN_TEST(kit_iter, random_operands_against_naive) {
  for (int round = 0; round < 1500; round++) {
    uint8_t ndim = (uint8_t)pick(0, MAX_RANK);
    tn_dim sizes[MAX_RANK];
    for (int d = 0; d < ndim; d++) sizes[d] = pick(0, 12) == 0 ? pick(0, 1) : pick(1, 6);
    make_operand(&out, ndim, sizes, true);
    make_operand(&left, ndim, sizes, false);
    make_operand(&right, ndim, sizes, false);
    uint32_t flags = pick(0, 1) ? TN_ITER_IN_ORDER : 0;
    tn_iter it;
    TN_CHECK_OK(tn_iter_init(&it, ndim, sizes, 1, 3, three, flags));
    TN_CHECK_INT(it.numel, out.view.numel);
    int64_t grain = pick(-1, 30);
    switch (round % 5) {
      case 0: TN_CHECK_OK(tn_iter_run(&it, grain, row, NULL)); break;
      case 1: TN_CHECK_OK(tn_iter_run2(&it, grain, block, NULL)); break;
      case 2: walk_in_pieces(&it, false); break;
      case 3: walk_in_pieces(&it, true); break;
      default: TN_CHECK_OK(tn_iter_each(1, 3, three, grain, row, NULL)); break;
    }
    check_result(ndim, sizes);
  }
}

TN_TEST(kit_iter, in_order_rows_know_their_index) {
  for (int round = 0; round < 500; round++) {
    uint8_t ndim = (uint8_t)pick(0, MAX_RANK);
    tn_dim sizes[MAX_RANK];
    for (int d = 0; d < ndim; d++) sizes[d] = pick(1, 6);
    make_operand(&out, ndim, sizes, true);
    clear();
    tn_iter it;
    TN_CHECK_OK(tn_iter_init(&it, ndim, sizes, 1, 1, three, TN_ITER_IN_ORDER));
    TN_CHECK_OK(tn_iter_run_indexed(&it, pick(0, 20), indexed, NULL));
    for (int64_t i = 0; i < out.view.numel; i++) TN_CHECK_INT(*element(&out.view, ndim, sizes, i), i);
  }
}

static void set_operand(operand *o, uint8_t ndim, const tn_dim *sizes, const tn_dim *strides,
                        int64_t offset) {
  memcpy(o->sizes, sizes, ndim * sizeof *sizes);
  memcpy(o->strides, strides, ndim * sizeof *strides);
  finish(o, ndim, offset);
}
#define D(...) ((const tn_dim[]){__VA_ARGS__})

TN_TEST(kit_iter, dims_are_ordered_and_merged) {
  tn_iter it;
  set_operand(&out, 3, D(4, 5, 6), D(30, 6, 1), 0);
  set_operand(&left, 3, D(4, 5, 6), D(30, 6, 1), 0);
  set_operand(&right, 0, D(0), D(0), 0);
  TN_CHECK_OK(tn_iter_init(&it, 3, out.sizes, 1, 3, three, 0));
  TN_CHECK_INT(it.ndim, 1); /* all merge; the number does not move */
  TN_CHECK_INT(it.sizes[0], 120);
  TN_CHECK_INT(it.strides[0][2], 0);
  set_operand(&out, 3, D(4, 5, 6), D(1, 4, 20), 0); /* column-major output decides */
  set_operand(&left, 3, D(4, 5, 6), D(1, 4, 20), 0);
  TN_CHECK_OK(tn_iter_init(&it, 3, out.sizes, 1, 3, three, 0));
  TN_CHECK_INT(it.ndim, 1);
  set_operand(&out, 1, D(100), D(-1), 99); /* both backwards: turned round */
  set_operand(&left, 1, D(100), D(-2), 198);
  TN_CHECK_OK(tn_iter_init(&it, 1, out.sizes, 1, 3, three, 0));
  TN_CHECK_INT(it.strides[0][0], 4);
  TN_CHECK(it.data[0] == (char *)out.memory);
  set_operand(&left, 1, D(100), D(2), 0); /* one forwards: stays */
  TN_CHECK_OK(tn_iter_init(&it, 1, out.sizes, 1, 3, three, 0));
  TN_CHECK_INT(it.strides[0][0], -4);
  set_operand(&out, 2, D(4, 6), D(6, 1), 0);
  set_operand(&left, 2, D(4, 6), D(1, 4), 0);
  TN_CHECK_OK(tn_iter_init(&it, 2, out.sizes, 1, 3, three, 0));
  TN_CHECK_INT(it.ndim, 2);
  TN_CHECK_INT(it.sizes[0], 6);
}

TN_TEST(kit_iter, rank_64) {
  tn_dim sizes[TN_MAX_RANK], strides[TN_MAX_RANK];
  for (int d = 0; d < TN_MAX_RANK; d++) sizes[d] = d % 7 == 0 ? 2 : 1;
  int64_t stride = 1;
  for (int d = 0; d < TN_MAX_RANK; d++) { /* column-major, with a gap behind every dim: nothing merges */
    strides[d] = stride;
    if (sizes[d] > 1) stride = stride * 2 + 1;
  }
  set_operand(&out, 0, D(0), D(0), 0);
  tn_view v = {.data = out.memory,
               .sizes = sizes,
               .strides = strides,
               .ndim = TN_MAX_RANK,
               .itemsize = 4,
               .numel = 1024};
  const tn_view *one[1] = {&v};
  tn_iter it;
  TN_CHECK_OK(tn_iter_init(&it, TN_MAX_RANK, sizes, 1, 1, one, TN_ITER_IN_ORDER));
  TN_CHECK_OK(tn_iter_run_indexed(&it, 100, indexed, NULL));
  for (int64_t i = 0; i < v.numel; i++) TN_CHECK_INT(*element(&v, TN_MAX_RANK, sizes, i), i);
}

TN_TEST(kit_iter, pointers) {
  set_operand(&out, 2, D(4, 6), D(6, 1), 0);
  set_operand(&left, 2, D(4, 6), D(1, 4), 0);
  set_operand(&right, 1, D(6), D(2), 0);
  tn_iter it;
  char *at[TN_ITER_MAX_OPERANDS];
  TN_CHECK_OK(tn_iter_init(&it, 2, out.sizes, 1, 3, three, 0));
  tn_iter_pointers(&it, NULL, 15, at);
  TN_CHECK(at[0] == (char *)(out.memory + 15) && at[1] == (char *)(left.memory + 2 + 3 * 4) &&
           at[2] == (char *)(right.memory + 3 * 2));
}

TN_TEST(kit_iter, the_short_way) {
  char *data[3];
  int64_t strides[3], n = 0;
  int calls = 0;
  set_operand(&out, 2, D(4, 6), D(6, 1), 0);
  set_operand(&left, 2, D(4, 6), D(6, 1), 0);
  set_operand(&right, 2, D(1, 1), D(9, 9), 0);
  right.view.flags |= TN_VIEW_CONTIGUOUS;
  TN_CHECK(tn_iter_fast(3, three, data, strides, &n));
  TN_CHECK_INT(n, 24);
  TN_CHECK_INT(strides[1], 4);
  TN_CHECK_INT(strides[2], 0);
  TN_CHECK_OK(tn_iter_each(1, 3, three, 1000, row, &calls));
  TN_CHECK_INT(calls, 1);
  check_result(2, out.sizes);
  TN_CHECK_OK(tn_iter_each(1, 3, three, 5, row, NULL));
  check_result(2, out.sizes);
  set_operand(&left, 2, D(4, 6), D(1, 4), 0);
  TN_CHECK(!tn_iter_fast(3, three, data, strides, &n));
  set_operand(&left, 1, D(6), D(1), 0);
  TN_CHECK(!tn_iter_fast(3, three, data, strides, &n));
  calls = 0;
  set_operand(&out, 2, D(0, 6), D(6, 1), 0);
  TN_CHECK_OK(tn_iter_each(1, 3, three, 5, row, &calls));
  TN_CHECK_INT(calls, 0);
}

static tn_status init_with(tn_iter *it, uint32_t n) {
  const tn_view *many[TN_ITER_MAX_OPERANDS + 1];
  for (uint32_t k = 0; k <= TN_ITER_MAX_OPERANDS; k++) many[k] = &out.view;
  return tn_iter_init(it, 2, out.sizes, 1, n, many, 0);
}

TN_TEST(kit_iter, bad_operands) {
  tn_iter it;
  set_operand(&out, 2, D(4, 6), D(6, 1), 0);
  set_operand(&left, 2, D(4, 5), D(5, 1), 0);
  set_operand(&right, 0, D(0), D(0), 0);
  TN_CHECK_FAILS(tn_iter_init(&it, 2, out.sizes, 1, 3, three, 0), TN_ERR_INVALID_ARGUMENT,
                 "shape [4, 5] cannot be expanded to [4, 6]");
  TN_CHECK_OK(init_with(&it, TN_ITER_MAX_OPERANDS));
  TN_CHECK_FAILS(init_with(&it, TN_ITER_MAX_OPERANDS + 1), TN_ERR_INVALID_ARGUMENT, "1 to 8 operands");
  TN_CHECK_FAILS(init_with(&it, 0), TN_ERR_INVALID_ARGUMENT, "found 0");
  out.view.data = NULL;
  TN_CHECK_FAILS(tn_iter_init(&it, 2, out.sizes, 1, 1, three, 0), TN_ERR_INVALID_ARGUMENT,
                 "operand 0 has no address");
}

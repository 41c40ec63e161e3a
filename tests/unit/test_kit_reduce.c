/* SPDX-License-Identifier: Apache-2.0
 *
 * kit/reduce: sums over random dims of random layouts against a naive loop, with and without the reduced
 * dims in the output; positions of maxima, which need the inner elements in order; nothing to reduce; bad
 * outputs.
 */
#include <string.h>
#include <tenon/kit/iter.h>
#include <tenon/kit/shape.h>

#include "tn_test.h"

enum { MAX_RANK = 4, MEMORY = 4096 };
#define D(...) ((const tn_dim[]){__VA_ARGS__})

static uint64_t state = 99;
static int64_t pick(int64_t low, int64_t high) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return low + (int64_t)((state >> 33) % (uint64_t)(high - low + 1));
}

static int64_t input_memory[MEMORY], output_memory[MEMORY], second_memory[MEMORY];
static tn_dim input_strides[MAX_RANK], output_sizes[MAX_RANK], output_strides[MAX_RANK];

static tn_view view_of(int64_t *memory, uint32_t ndim, const tn_dim *sizes, const tn_dim *strides) {
  tn_view v = {.data = memory,
               .sizes = sizes,
               .strides = strides,
               .ndim = (uint8_t)ndim,
               .itemsize = 8,
               .dtype = TN_INT64,
               .numel = 1};
  for (uint32_t d = 0; d < ndim; d++) v.numel *= sizes[d];
  return v;
}

static void add_row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  for (int64_t i = 0; i < n; i++) *(int64_t *)ctx += *(int64_t *)(void *)(data[0] + i * strides[0]);
}

static void sum_rows(void *ctx, char **data, const int64_t *strides, int64_t n, const tn_iter *inner) {
  (void)ctx;
  for (int64_t i = 0; i < n; i++) {
    int64_t sum = 0;
    char *base = data[1] + i * strides[1];
    tn_iter_walk(inner, &base, 0, inner->numel, add_row, &sum);
    *(int64_t *)(void *)(data[0] + i * strides[0]) = sum;
  }
}

/* Offset, in elements, of the input element `inside` of output element `outside`, both row-major. */
static int64_t input_offset(uint32_t ndim, const tn_dim *sizes, uint64_t mask, int64_t outside,
                            int64_t inside) {
  int64_t at = 0;
  for (uint32_t d = ndim; d-- > 0;) {
    int64_t *index = mask >> d & 1 ? &inside : &outside;
    at += *index % sizes[d] * input_strides[d];
    *index /= sizes[d];
  }
  return at;
}

static int64_t output_offset(const tn_view *v, int64_t index) {
  int64_t at = 0;
  for (uint32_t d = v->ndim; d-- > 0; index /= v->sizes[d]) at += index % v->sizes[d] * v->strides[d];
  return at;
}

static void make_case(uint32_t ndim, tn_dim *sizes, uint64_t *out_mask, tn_view *input, tn_view *output) {
  uint32_t n = 0;
  for (uint32_t d = 0; d < ndim; d++) sizes[d] = pick(1, 5);
  *out_mask = (uint64_t)pick(0, (1 << ndim) - 1);
  tn_shape_contiguous_strides(ndim, sizes, input_strides);
  if (ndim > 1 && pick(0, 1)) { /* two dims exchanged */
    uint32_t a = (uint32_t)pick(0, ndim - 1), b = (uint32_t)pick(0, ndim - 1);
    tn_dim stride = input_strides[a], size = sizes[a];
    input_strides[a] = input_strides[b], input_strides[b] = stride;
    sizes[a] = sizes[b], sizes[b] = size;
  }
  for (int i = 0; i < MEMORY; i++) input_memory[i] = pick(-1000, 1000);
  *input = view_of(input_memory, ndim, sizes, input_strides);
  tn_shape_reduce(ndim, sizes, *out_mask, pick(0, 1), &n, output_sizes);
  tn_shape_contiguous_strides(n, output_sizes, output_strides);
  for (uint32_t d = 0; d < n; d++) output_strides[d] *= 2; /* not contiguous */
  *output = view_of(output_memory, n, output_sizes, output_strides);
}

TN_TEST(kit_reduce, sums_against_naive) {
  for (int round = 0; round < 1000; round++) {
    uint32_t ndim = (uint32_t)pick(0, MAX_RANK);
    tn_dim sizes[MAX_RANK];
    uint64_t mask = 0;
    tn_view input, output;
    tn_reduce r;
    make_case(ndim, sizes, &mask, &input, &output);
    TN_CHECK_OK(tn_reduce_init(&r, mask, 1, (const tn_view *[]){&output}, &input, 0));
    TN_CHECK_INT(r.outer.numel * r.inner.numel, input.numel);
    TN_CHECK_OK(tn_reduce_run(&r, pick(0, 60), sum_rows, NULL));
    for (int64_t o = 0; o < output.numel; o++) {
      int64_t sum = 0;
      for (int64_t i = 0; i < r.inner.numel; i++) sum += input_memory[input_offset(ndim, sizes, mask, o, i)];
      TN_CHECK_INT(output_memory[output_offset(&output, o)], sum);
    }
  }
}

typedef struct best {
  int64_t value;
  int64_t position;
  int64_t seen;
} best;

static void best_row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  best *b = (best *)ctx;
  for (int64_t i = 0; i < n; i++, b->seen++) {
    int64_t value = *(int64_t *)(void *)(data[0] + i * strides[0]);
    if (b->seen > 0 && value <= b->value) continue;
    b->value = value;
    b->position = b->seen;
  }
}

static void best_rows(void *ctx, char **data, const int64_t *strides, int64_t n, const tn_iter *inner) {
  (void)ctx;
  for (int64_t i = 0; i < n; i++) {
    best b = {0, 0, 0};
    char *base = data[2] + i * strides[2];
    tn_iter_walk(inner, &base, 0, inner->numel, best_row, &b);
    *(int64_t *)(void *)(data[0] + i * strides[0]) = b.value;
    *(int64_t *)(void *)(data[1] + i * strides[1]) = b.position;
  }
}

TN_TEST(kit_reduce, two_outputs_and_positions_in_order) {
  for (int round = 0; round < 500; round++) {
    uint32_t ndim = (uint32_t)pick(0, MAX_RANK);
    tn_dim sizes[MAX_RANK];
    uint64_t mask = 0;
    tn_view input, value, position;
    tn_reduce r;
    make_case(ndim, sizes, &mask, &input, &value);
    position = value;
    position.data = second_memory;
    TN_CHECK_OK(
        tn_reduce_init(&r, mask, 2, (const tn_view *[]){&value, &position}, &input, TN_ITER_IN_ORDER));
    TN_CHECK_OK(tn_reduce_run(&r, 10, best_rows, NULL));
    for (int64_t o = 0; o < value.numel; o++) {
      int64_t at = 0, i_best = 0;
      for (int64_t i = 0; i < r.inner.numel; i++) {
        at = input_memory[input_offset(ndim, sizes, mask, o, i)];
        if (at > input_memory[input_offset(ndim, sizes, mask, o, i_best)]) i_best = i;
      }
      TN_CHECK_INT(second_memory[output_offset(&position, o)], i_best);
      TN_CHECK_INT(output_memory[output_offset(&value, o)],
                   input_memory[input_offset(ndim, sizes, mask, o, i_best)]);
    }
  }
}

TN_TEST(kit_reduce, nothing_to_reduce) {
  tn_reduce r;
  tn_view input = view_of(NULL, 2, D(3, 0), D(1, 1)), output = view_of(output_memory, 1, D(3), D(1));
  memset(output_memory, 1, sizeof output_memory);
  TN_CHECK_OK(tn_reduce_init(&r, 2, 1, (const tn_view *[]){&output}, &input, 0));
  TN_CHECK_OK(tn_reduce_run(&r, 10, sum_rows, NULL));
  for (int i = 0; i < 3; i++) TN_CHECK_INT(output_memory[i], 0);
  output = view_of(NULL, 1, D(0), D(1));
  TN_CHECK_OK(tn_reduce_init(&r, 1, 1, (const tn_view *[]){&output}, &input, 0));
  TN_CHECK_OK(tn_reduce_run(&r, 10, sum_rows, NULL));
}

TN_TEST(kit_reduce, bad_outputs) {
  tn_reduce r;
  tn_view input = view_of(input_memory, 2, D(3, 4), D(4, 1)), output = view_of(output_memory, 1, D(4), D(1));
  const tn_view *outputs[TN_ITER_MAX_OPERANDS] = {&output};
  TN_CHECK_FAILS(tn_reduce_init(&r, 2, 1, outputs, &input, 0), TN_ERR_INVALID_ARGUMENT,
                 "a reduction of shape [3, 4] gives [3], the output has [4]");
  TN_CHECK_FAILS(tn_reduce_init(&r, 2, 0, outputs, &input, 0), TN_ERR_INVALID_ARGUMENT, "1 to 7 outputs");
  TN_CHECK_FAILS(tn_reduce_init(&r, 2, 8, outputs, &input, 0), TN_ERR_INVALID_ARGUMENT, "found 8");
  output.data = NULL;
  TN_CHECK_FAILS(tn_reduce_init(&r, 1, 1, outputs, &input, 0), TN_ERR_INVALID_ARGUMENT, "cannot read");
}

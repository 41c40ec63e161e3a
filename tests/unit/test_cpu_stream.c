/* SPDX-License-Identifier: Apache-2.0
 *
 * Results larger than a last cache of 32 MiB, which the CPU backend stores past the caches: each way that
 * they are stored, from a place that is aligned to nothing, has the elements and only the elements of the
 * small case. Where the cache is larger the same checks hold for ordinary stores.
 */
#include "test_cpu.h"

enum { N = (36 << 20) / 4 + 37, PERIOD = 251, OFFSET = 3, MARGIN = 5 };

static float value(int64_t i) { return (float)(i % PERIOD) - 100; }

/* OFFSET elements in from the beginning of a block, MARGIN before its end: n elements of dtype, value(i)
 * each. */
static tn_tensor *inside(tn_tensor **out_block, tn_dtype dtype) {
  const int64_t n = N + OFFSET + MARGIN, begin = OFFSET, end = OFFSET + N;
  float *values = malloc((size_t)n * sizeof *values);
  tn_tensor *wide = NULL, *part = NULL;
  for (int64_t i = 0; i < n; ++i) values[i] = value(i - OFFSET + PERIOD);
  TN_CHECK_OK(tn_tensor_from_host(values, &n, 1, TN_OPTIONS(.dtype = TN_FLOAT32), &wide));
  TN_CHECK_OK(tn_to_dtype(wide, dtype, false, true, TN_PRESERVE_FORMAT, out_block));
  TN_CHECK_OK(tn_slice(*out_block, 0, &begin, &end, 1, &part));
  tn_tensor_release(wide);
  free(values);
  return part;
}

/* The block that a result lies in: all its elements as floats, the margins untouched. */
static void check_block(tn_tensor *block, float (*expected)(int64_t i)) {
  const int64_t n = N + OFFSET + MARGIN;
  tn_tensor *wide = NULL;
  float *got = malloc((size_t)n * sizeof *got);
  int64_t wrong = 0;
  TN_CHECK_OK(tn_to_dtype(block, TN_FLOAT32, false, false, TN_PRESERVE_FORMAT, &wide));
  TN_CHECK_OK(tn_tensor_to_host(wide, got, (size_t)n * sizeof *got));
  for (int64_t i = 0; i < n; ++i) {
    bool own = i >= OFFSET && i < OFFSET + N;
    wrong += got[i] != (own ? expected(i - OFFSET) : value(i - OFFSET + PERIOD));
  }
  TN_CHECK_INT(wrong, 0);
  tn_tensor_release(wide);
  free(got);
}

static float seven(int64_t i) { return 7; }
static float halves(int64_t i) { return value(i) / 2; }
static float doubled(int64_t i) { return value(i) + value(i); }
static float chosen(int64_t i) { return value(i) > 0 ? value(i) : value(i) / 2; }
static float masked(int64_t i) { return value(i) > 0 ? 7 : value(i); }

TN_TEST(cpu_stream, fills_copies_and_casts) {
  const tn_dtype dtypes[] = {TN_FLOAT32, TN_BFLOAT16, TN_FLOAT64, TN_INT16};
  tn_tensor *from = NULL, *x = inside(&from, TN_FLOAT32);
  for (int d = 0; d < 4; ++d) {
    tn_tensor *block = NULL, *y = inside(&block, dtypes[d]);
    TN_CHECK_OK(tn_fill_(y, tn_int(7)));
    check_block(block, seven);
    TN_CHECK_OK(tn_copy_(y, x, false));
    check_block(block, value);
    tn_tensor_release(y);
    tn_tensor_release(block);
  }
  tn_tensor_release(x);
  tn_tensor_release(from);
}

TN_TEST(cpu_stream, elementwise_results) {
  const tn_dtype dtypes[] = {TN_FLOAT32, TN_BFLOAT16, TN_INT32};
  for (int d = 0; d < 3; ++d) {
    tn_tensor *block = NULL, *from = NULL, *y = inside(&block, dtypes[d]), *x = inside(&from, dtypes[d]);
    TN_CHECK_OK(tn_add_out(x, x, tn_int(1), y));
    check_block(block, doubled);
    tn_tensor_release(x);
    tn_tensor_release(y);
    tn_tensor_release(from);
    tn_tensor_release(block);
  }
}

TN_TEST(cpu_stream, choices_by_a_mask) {
  tn_tensor *block = NULL, *from = NULL, *half, *mask, *fresh;
  tn_tensor *y = inside(&block, TN_FLOAT32), *x = inside(&from, TN_FLOAT32);
  TN_CHECK_OK(tn_gt_scalar(x, tn_int(0), &mask));
  TN_CHECK_OK(tn_mul_scalar(x, tn_float(0.5), &half));
  TN_CHECK_OK(tn_where(mask, x, half, &fresh));
  TN_CHECK_OK(tn_copy_(y, fresh, false));
  check_block(block, chosen);
  TN_CHECK_OK(tn_masked_fill_out(x, mask, tn_int(7), y));
  check_block(block, masked);
  TN_CHECK_OK(tn_copy_(y, half, false));
  check_block(block, halves);
  tn_tensor_release(fresh);
  tn_tensor_release(mask);
  tn_tensor_release(half);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(from);
  tn_tensor_release(block);
}

/* Rows of whole cache lines (streamed) and of odd length (not). */
TN_TEST(cpu_stream, transposed_copies) {
  const int64_t sizes[][2] = {{3008, 3200}, {3001, 3203}};
  for (int s = 0; s < 2; ++s) {
    const int64_t rows = sizes[s][0], columns = sizes[s][1], n = rows * columns;
    tn_tensor *x = NULL, *turned, *y;
    float *values = malloc((size_t)n * sizeof *values);
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; ++i) values[i] = (float)(i % 1000003);
    TN_CHECK_OK(tn_tensor_from_host(values, sizes[s], 2, TN_OPTIONS(.dtype = TN_FLOAT32), &x));
    TN_CHECK_OK(tn_t(x, &turned));
    TN_CHECK_OK(tn_contiguous(turned, TN_CONTIGUOUS_FORMAT, &y));
    TN_CHECK_OK(tn_tensor_to_host(y, values, (size_t)n * sizeof *values));
    for (int64_t i = 0; i < n; ++i) wrong += values[i] != (float)((i % rows * columns + i / rows) % 1000003);
    TN_CHECK_INT(wrong, 0);
    free(values);
    tn_tensor_release(x);
    tn_tensor_release(turned);
    tn_tensor_release(y);
  }
}

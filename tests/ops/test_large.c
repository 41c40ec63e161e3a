/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes that samples do not have: enough for several chunks of parallel_for, for the blocked matrix product and
 * for more than one cache, with one, two and three threads. Values are small integers, so that sums are exact
 * in float32 and every result is compared for equality.
 */
#include <stdlib.h>
#include <tenon/tenon.h>

#include "tn_test.h"

enum { ROWS = 301, COLUMNS = 517, DEPTH = 263, VALUES = ROWS * COLUMNS };

/* Element i of every tensor here: -3 ... 3. */
static float value(int64_t i) { return (float)((i * 7 + i / 5) % 7 - 3); }

static tn_tensor *filled(int64_t rows, int64_t columns) {
  tn_tensor *t = NULL;
  float *values = malloc((size_t)(rows * columns) * sizeof *values);
  TN_CHECK_NOT_NULL(values);
  for (int64_t i = 0; i < rows * columns; i++) values[i] = value(i);
  tn_status status = tn_tensor_from_host(values, (tn_dim[]){rows, columns}, 2, NULL, &t);
  free(values);
  TN_CHECK_OK(status);
  return t;
}

/* The row-major values of a result; the caller frees them. */
static float *values_of(tn_tensor *t, int64_t n) {
  float *values = malloc((size_t)n * sizeof *values);
  TN_CHECK_NOT_NULL(values);
  TN_CHECK_INT(tn_tensor_numel(t), n);
  TN_CHECK_OK(tn_tensor_to_host(t, values, (size_t)n * sizeof *values));
  return values;
}

/* Runs one check with several numbers of threads. */
static void with_threads(void (*check)(void)) {
  int32_t before = tn_num_threads();
  for (int32_t n = 1; n <= 3; n++) {
    TN_CHECK_OK(tn_set_num_threads(n));
    check();
  }
  TN_CHECK_OK(tn_set_num_threads(before));
}

static void check_elementwise(void) {
  tn_tensor *a = filled(ROWS, COLUMNS), *row = filled(1, COLUMNS), *out = NULL;
  TN_CHECK_OK(tn_mul(a, row, &out));
  TN_CHECK_OK(tn_add_(out, a, tn_int(2)));
  float *got = values_of(out, VALUES);
  for (int64_t i = 0; i < VALUES; i++)
    TN_CHECK_DOUBLE(got[i], value(i) * value(i % COLUMNS) + 2 * value(i), 0);
  free(got);
  tn_tensor_release(out);
  tn_tensor_release(row);
  tn_tensor_release(a);
}

static void check_transposed_copy(void) {
  tn_tensor *a = filled(ROWS, COLUMNS), *turned = NULL, *out = NULL;
  TN_CHECK_OK(tn_t(a, &turned));
  TN_CHECK_OK(tn_contiguous(turned, TN_CONTIGUOUS_FORMAT, &out));
  float *got = values_of(out, VALUES);
  for (int64_t i = 0; i < VALUES; i++) TN_CHECK_DOUBLE(got[i], value(i % ROWS * COLUMNS + i / ROWS), 0);
  free(got);
  tn_tensor_release(out);
  tn_tensor_release(turned);
  tn_tensor_release(a);
}

/* Sums over all, over rows, over columns. */
static void check_sums(void) {
  tn_tensor *a = filled(ROWS, COLUMNS), *out = NULL;
  double total = 0, down[COLUMNS] = {0}, across[ROWS] = {0}, sum;
  for (int64_t i = 0; i < VALUES; i++) {
    total += value(i);
    down[i % COLUMNS] += value(i);
    across[i / COLUMNS] += value(i);
  }
  TN_CHECK_OK(tn_sum(a, TN_DTYPE_NONE, &out));
  TN_CHECK_OK(tn_tensor_item_double(out, &sum));
  TN_CHECK_DOUBLE(sum, total, 0);
  tn_tensor_release(out);
  for (int64_t dim = 0; dim < 2; dim++) {
    TN_CHECK_OK(tn_sum_dim(a, &dim, 1, false, TN_DTYPE_NONE, &out));
    float *got = values_of(out, dim ? ROWS : COLUMNS);
    for (int64_t i = 0; i < (dim ? ROWS : COLUMNS); i++) TN_CHECK_DOUBLE(got[i], dim ? across[i] : down[i], 0);
    free(got);
    tn_tensor_release(out);
  }
  tn_tensor_release(a);
}

/* a (ROWS x DEPTH) times b (DEPTH x COLUMNS), either of them possibly a transposed view. */
static void check_product(bool turn_a, bool turn_b) {
  tn_tensor *a = turn_a ? filled(DEPTH, ROWS) : filled(ROWS, DEPTH), *x = NULL, *out = NULL;
  tn_tensor *b = turn_b ? filled(COLUMNS, DEPTH) : filled(DEPTH, COLUMNS), *y = NULL;
  if (turn_a) TN_CHECK_OK(tn_t(a, &x));
  if (turn_b) TN_CHECK_OK(tn_t(b, &y));
  TN_CHECK_OK(tn_mm(x ? x : a, y ? y : b, &out));
  float *got = values_of(out, VALUES);
  for (int64_t i = 0; i < VALUES; i += 97) { /* 97 meets every row and every column */
    double sum = 0;
    for (int64_t k = 0; k < DEPTH; k++) {
      double left = value(turn_a ? k * ROWS + i / COLUMNS : i / COLUMNS * DEPTH + k);
      sum += left * value(turn_b ? i % COLUMNS * DEPTH + k : k * COLUMNS + i % COLUMNS);
    }
    TN_CHECK_DOUBLE(got[i], sum, 0);
  }
  free(got);
  tn_tensor_release(out);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(a);
  tn_tensor_release(b);
}
static void check_products(void) {
  for (int way = 0; way < 4; way++) check_product(way & 1, way & 2);
}

TN_TEST(ops_large, elementwise_with_broadcast) { with_threads(check_elementwise); }
TN_TEST(ops_large, transposed_copy) { with_threads(check_transposed_copy); }
TN_TEST(ops_large, sums) { with_threads(check_sums); }
TN_TEST(ops_large, matrix_products_of_all_layouts) { with_threads(check_products); }

/* The same numbers whoever draws them. */
static float drawn[VALUES];
static void check_draws(void) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_manual_seed(6));
  TN_CHECK_OK(tn_rand((tn_dim[]){ROWS, COLUMNS}, 2, NULL, &t));
  float *got = values_of(t, VALUES);
  for (int64_t i = 0; i < VALUES; i++) {
    if (tn_num_threads() > 1) TN_CHECK_DOUBLE(got[i], drawn[i], 0);
    drawn[i] = got[i];
  }
  free(got);
  tn_tensor_release(t);
}
TN_TEST(ops_large, random_numbers_do_not_depend_on_threads) { with_threads(check_draws); }

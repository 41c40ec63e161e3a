/* SPDX-License-Identifier: Apache-2.0
 *
 * Norms of the CPU backend at sizes beyond their vectors and chunks: statistics against naive sums in double, the two
 * memory orders against each other, gradients against the same call in float64, and bits that do not depend on the
 * number of threads.
 */
#include "test_cpu.h"

enum { IMAGES = 5, CHANNELS = 36, HIGH = 17, WIDE = 19 };

static tn_tensor *images(tn_dtype dtype, uint64_t seed) {
  return cpu_tensor(CPU_SIZES(IMAGES, CHANNELS, HIGH, WIDE), dtype, 3, 5, seed);
}

/* The same elements with the channels innermost. */
static tn_tensor *channels_last(tn_tensor *t) {
  tn_tensor *last = NULL;
  TN_CHECK_OK(tn_contiguous(t, TN_CHANNELS_LAST, &last));
  return last;
}

static void check_close(tn_tensor *a, tn_tensor *b, double tolerance) {
  double *x = cpu_values(a), *y = cpu_values(b);
  TN_CHECK_INT(tn_tensor_numel(a), tn_tensor_numel(b));
  for (int64_t i = 0; i < tn_tensor_numel(a); ++i) TN_CHECK_DOUBLE(x[i], y[i], tolerance * (1 + fabs(y[i])));
  free(x);
  free(y);
}

/* Results of one forward and backward: output, mean, rstd, and gradients of input, weight and bias. */
enum { RESULTS = 6 };

static void run(bool groups, tn_tensor *x, tn_tensor *grad, tn_tensor *w, tn_tensor *b, tn_tensor **out) {
  static const uint8_t all[3] = {1, 1, 1};
  tn_tensor *var = NULL;
  if (groups) {
    TN_CHECK_OK(tn_native_group_norm(x, w, b, IMAGES, CHANNELS, HIGH * WIDE, 4, 1e-3, &out[0], &out[1], &out[2]));
    TN_CHECK_OK(tn_native_group_norm_backward(grad, x, out[1], out[2], w, IMAGES, CHANNELS, HIGH * WIDE, 4, all, 3,
                                              &out[3], &out[4], &out[5]));
    return;
  }
  TN_CHECK_OK(tn__batch_norm_forward(x, w, b, NULL, NULL, 1e-3, &out[0], &out[1], &out[2], &var));
  TN_CHECK_OK(tn_native_batch_norm_backward(grad, x, w, NULL, NULL, out[1], out[2], true, 1e-3, all, 3, &out[3],
                                            &out[4], &out[5]));
  tn_tensor_release(var);
}

static void release(tn_tensor **t, int n) {
  for (int i = 0; i < n; ++i) tn_tensor_release(t[i]);
}

static void orders_and_dtypes_agree(bool groups) {
  tn_tensor *results[3][RESULTS];
  for (int way = 0; way < 3; ++way) { /* float64; float32 row-major; float32 channels last */
    tn_dtype dtype = way ? TN_FLOAT32 : TN_FLOAT64;
    tn_tensor *t[4] = {images(TN_FLOAT32, 1),
                       cpu_tensor(CPU_SIZES(IMAGES, CHANNELS, HIGH, WIDE), TN_FLOAT32, -1, 1, 2),
                       cpu_tensor(CPU_SIZES(CHANNELS), dtype, 1, 2, 3),
                       cpu_tensor(CPU_SIZES(CHANNELS), dtype, -1, 1, 4)};
    for (int i = 0; i < 2; ++i) { /* float64 gets the values that float32 has */
      tn_tensor *was = t[i];
      if (way == 2)
        t[i] = channels_last(was);
      else
        TN_CHECK_OK(tn_to_dtype(was, dtype, false, true, TN_PRESERVE_FORMAT, &t[i]));
      tn_tensor_release(was);
    }
    run(groups, t[0], t[1], t[2], t[3], results[way]);
    release(t, 4);
  }
  for (int i = 0; i < RESULTS; ++i) {
    check_close(results[1][i], results[0][i], i < 3 ? 1e-5 : 2e-4);
    check_close(results[2][i], results[0][i], i < 3 ? 1e-5 : 2e-4);
  }
  for (int way = 0; way < 3; ++way) release(results[way], RESULTS);
}

TN_TEST(cpu_norm, batch_norm_in_both_memory_orders_agrees_with_float64) { orders_and_dtypes_agree(false); }
TN_TEST(cpu_norm, group_norm_in_both_memory_orders_agrees_with_float64) { orders_and_dtypes_agree(true); }

static void bits_stay(bool groups, bool last) {
  tn_tensor *first[RESULTS] = {NULL}, *x = images(TN_FLOAT32, 5), *grad = images(TN_FLOAT32, 6);
  tn_tensor *w = cpu_tensor(CPU_SIZES(CHANNELS), TN_FLOAT32, 1, 2, 7);
  int32_t before = tn_num_threads();
  if (last) {
    tn_tensor *rows[2] = {x, grad};
    x = channels_last(rows[0]);
    grad = channels_last(rows[1]);
    release(rows, 2);
  }
  for (int32_t threads = 1; threads <= 4; ++threads) {
    tn_tensor *r[RESULTS];
    TN_CHECK_OK(tn_set_num_threads(threads));
    run(groups, x, grad, w, NULL, r);
    for (int i = 0; i < RESULTS; ++i) {
      if (threads > 1) cpu_check_same_bits(first[i], r[i]);
      tn_tensor_release(first[i]);
      first[i] = r[i];
    }
  }
  TN_CHECK_OK(tn_set_num_threads(before));
  release(first, RESULTS);
  release((tn_tensor *[]){x, grad, w}, 3);
}

TN_TEST(cpu_norm, bits_do_not_depend_on_threads) {
  for (int way = 0; way < 4; ++way) bits_stay(way & 1, way & 2);
}

/* Rows whose length ends inside a vector, a thousand from 0 and one wide: what is left is the error of a float32 sum
 * of such numbers, less than a rounding of the input. */
TN_TEST(cpu_norm, rows_far_from_zero_keep_their_shape) {
  enum { ROWS = 70, N = 1003 };
  const int64_t n = N;
  tn_tensor *x = cpu_tensor(CPU_SIZES(ROWS, N), TN_FLOAT32, 1000, 1001, 8), *y, *mean, *rstd;
  TN_CHECK_OK(tn_native_layer_norm(x, &n, 1, NULL, NULL, 0, &y, &mean, &rstd));
  double *a = cpu_values(x), *b = cpu_values(y);
  for (int64_t r = 0; r < ROWS; ++r) {
    double m = 0, v = 0;
    for (int64_t i = 0; i < N; ++i) m += a[r * N + i] / N;
    for (int64_t i = 0; i < N; ++i) v += (a[r * N + i] - m) * (a[r * N + i] - m) / N;
    for (int64_t i = 0; i < N; ++i) TN_CHECK_DOUBLE(b[r * N + i], (a[r * N + i] - m) / sqrt(v), 1e-4);
  }
  free(a);
  free(b);
  release((tn_tensor *[]){x, y, mean, rstd}, 4);
}

TN_TEST(cpu_norm, gradients_of_weight_over_many_rows_agree_with_float64) {
  enum { ROWS = 1001, N = 45 };
  static const uint8_t all[3] = {1, 1, 1};
  const int64_t n = N;
  tn_tensor *results[2][3], *rms[2][2];
  for (int way = 0; way < 2; ++way) {
    tn_dtype dtype = way ? TN_FLOAT32 : TN_FLOAT64;
    tn_tensor *t[7] = {NULL}, *narrow = cpu_tensor(CPU_SIZES(ROWS, N), TN_FLOAT32, -1, 2, 9);
    TN_CHECK_OK(tn_to_dtype(narrow, dtype, false, true, TN_PRESERVE_FORMAT, &t[0]));
    TN_CHECK_OK(tn_cos(t[0], &t[1]));
    t[2] = cpu_tensor(CPU_SIZES(N), dtype, 1, 2, 10);
    TN_CHECK_OK(tn_native_layer_norm(t[0], &n, 1, t[2], NULL, 1e-5, &t[3], &t[4], &t[5]));
    TN_CHECK_OK(tn_native_layer_norm_backward(t[1], t[0], &n, 1, t[4], t[5], t[2], NULL, all, 3, &results[way][0],
                                              &results[way][1], &results[way][2]));
    TN_CHECK_OK(tn__fused_rms_norm_backward(t[1], t[0], &n, 1, t[5], t[2], all, 2, &rms[way][0], &rms[way][1]));
    tn_tensor_release(narrow);
    release(t, 7);
  }
  for (int i = 0; i < 3; ++i) check_close(results[1][i], results[0][i], 1e-4);
  for (int i = 0; i < 2; ++i) check_close(rms[1][i], rms[0][i], 1e-4);
  for (int way = 0; way < 2; ++way) release(results[way], 3), release(rms[way], 2);
}

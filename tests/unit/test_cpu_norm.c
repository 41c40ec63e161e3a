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

/* Against sums in double. A mean is as good as its sum: relative to the magnitudes summed. */
static void check_rows(tn_tensor *x, int64_t n, double tolerance) {
  tn_tensor *y, *mean, *rstd;
  TN_CHECK_OK(tn_native_layer_norm(x, &n, 1, NULL, NULL, 0, &y, &mean, &rstd));
  double *a = cpu_values(x), *b = cpu_values(y), *means = cpu_values(mean), *rstds = cpu_values(rstd);
  for (int64_t r = 0; r < tn_tensor_numel(x) / n; ++r) {
    double m = 0, v = 0, magnitude = 0;
    for (int64_t i = 0; i < n; ++i) m += a[r * n + i] / (double)n;
    for (int64_t i = 0; i < n; ++i) magnitude += fabs(a[r * n + i]) / (double)n;
    for (int64_t i = 0; i < n; ++i) v += (a[r * n + i] - m) * (a[r * n + i] - m) / (double)n;
    TN_CHECK_DOUBLE(means[r], m, 2e-7 * magnitude);
    TN_CHECK_DOUBLE(rstds[r] * sqrt(v), 1, 1e-6);
    for (int64_t i = 0; i < n; ++i) {
      const double right = (a[r * n + i] - m) / sqrt(v);
      TN_CHECK_DOUBLE(b[r * n + i], right, tolerance * (1 + fabs(right)));
    }
  }
  free(a);
  free(b);
  free(means);
  free(rstds);
  release((tn_tensor *[]){y, mean, rstd}, 3);
}

/* Rows whose length ends inside a vector, a thousand from 0 and one wide. */
TN_TEST(cpu_norm, rows_far_from_zero_keep_their_shape) {
  tn_tensor *x = cpu_tensor(CPU_SIZES(70, 1003), TN_FLOAT32, 1000, 1001, 8);
  check_rows(x, 1003, 2e-6);
  tn_tensor_release(x);
}

/* A row whose first element, which sums are taken around, says nothing of the others; and one after it that is far from
 * 0 as well. */
TN_TEST(cpu_norm, rows_behind_an_outlier_keep_their_shape) {
  enum { ROWS = 6, N = 1003 };
  float *values = calloc((size_t)ROWS * N, sizeof *values);
  const float first[ROWS] = {1e6f, -1e6f, 1e4f, 0, 3e4f, 1e-3f};
  const double low[ROWS] = {-1, 1000, -1, 1000, 30, -1e-6};
  uint64_t state = 11;
  for (int r = 0; r < ROWS; ++r)
    for (int i = 0; i < N; ++i)
      values[r * N + i] = i ? (float)cpu_next(&state, low[r], low[r] + fabs(low[r])) : first[r];
  tn_tensor *x = NULL;
  TN_CHECK_OK(tn_tensor_from_host(values, (const int64_t[]){ROWS, N}, 2, TN_OPTIONS(.dtype = TN_FLOAT32), &x));
  check_rows(x, N, 2e-6);
  tn_tensor_release(x);
  free(values);
}

/* The mean of nothing is 0 and its deviation not a number, as ATen has it. */
TN_TEST(cpu_norm, rows_of_no_elements_have_mean_0_and_no_deviation) {
  const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_BFLOAT16};
  const int64_t n = 0;
  for (int k = 0; k < 3; ++k) {
    tn_tensor *x = cpu_tensor(CPU_SIZES(3, 0), dtypes[k], 0, 1, 1), *r[5];
    TN_CHECK_OK(tn_native_layer_norm(x, &n, 1, NULL, NULL, 1e-5, &r[0], &r[1], &r[2]));
    TN_CHECK_OK(tn__fused_rms_norm(x, &n, 1, NULL, NULL, &r[3], &r[4]));
    TN_CHECK_INT(tn_tensor_numel(r[1]), 3);
    double *mean = cpu_values(r[1]), *rstd = cpu_values(r[2]), *rms = cpu_values(r[4]);
    for (int i = 0; i < 3; ++i) {
      TN_CHECK_DOUBLE(mean[i], 0, 0);
      TN_CHECK(isnan(rstd[i]));
      TN_CHECK(isnan(rms[i]));
    }
    free(mean);
    free(rstd);
    free(rms);
    tn_tensor_release(x);
    release(r, 5);
  }
}

/* An infinity or a NaN spoils its own row and no other, wherever it stands. */
TN_TEST(cpu_norm, a_row_with_an_infinity_is_nan_and_its_neighbours_are_not) {
  enum { ROWS = 4, N = 37 };
  const float bad[] = {INFINITY, -INFINITY, NAN};
  const int64_t n = N;
  for (int k = 0; k < 3; ++k)
    for (int at = 0; at < N; at += 9) {
      float values[ROWS * N];
      for (int i = 0; i < ROWS * N; ++i) values[i] = (float)(i % 7);
      values[N + at] = bad[k];
      tn_tensor *x = NULL, *y, *mean, *rstd;
      TN_CHECK_OK(
          tn_tensor_from_host(values, (const int64_t[]){ROWS, N}, 2, TN_OPTIONS(.dtype = TN_FLOAT32), &x));
      TN_CHECK_OK(tn_native_layer_norm(x, &n, 1, NULL, NULL, 1e-5, &y, &mean, &rstd));
      double *v = cpu_values(y);
      for (int i = 0; i < ROWS * N; ++i) TN_CHECK_INT(isnan(v[i]) != 0, i / N == 1);
      free(v);
      release((tn_tensor *[]){x, y, mean, rstd}, 4);
    }
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

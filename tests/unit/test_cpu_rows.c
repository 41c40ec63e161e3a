/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax, log_softmax and logsumexp of the CPU backend along rows: at sizes that end inside vectors, blocks and the
 * row kept on the stack, against sums in double; over the whole range of exp; with infinities and NaN; and bits that
 * depend neither on threads nor on where a row lies.
 */
#include "test_cpu.h"

static const int64_t SIZES[] = {1, 3, 4, 15, 16, 17, 63, 64, 65, 127, 513, 1000, 1023, 1024, 1025, 4099,
                                70001};

static void check(const double *got, const double *right, int64_t n, double tolerance, double floor) {
  for (int64_t i = 0; i < n; ++i) TN_CHECK_DOUBLE(got[i], right[i], tolerance * fabs(right[i]) + floor);
}

/* All three of one row, against double. Each exponential is off by a unit in the last place and by what the difference
 * to the greatest lost, their sum by less. */
static void check_row(const float *values, int64_t n, double tolerance) {
  tn_tensor *x = NULL, *y, *logs, *sum;
  const int64_t dim = 0;
  TN_CHECK_OK(tn_tensor_from_host(values, &n, 1, TN_OPTIONS(.dtype = TN_FLOAT32), &x));
  TN_CHECK_OK(tn_softmax(x, 0, TN_DTYPE_NONE, &y));
  TN_CHECK_OK(tn_log_softmax(x, 0, TN_DTYPE_NONE, &logs));
  TN_CHECK_OK(tn_logsumexp(x, &dim, 1, false, &sum));
  double *got[3] = {cpu_values(y), cpu_values(logs), cpu_values(sum)}, total = 0, most = -INFINITY;
  double *right[2] = {calloc((size_t)n, sizeof(double)), calloc((size_t)n, sizeof(double))};
  for (int64_t i = 0; i < n; ++i) most = values[i] > most ? (double)values[i] : most;
  for (int64_t i = 0; i < n; ++i) total += exp(values[i] - most);
  for (int64_t i = 0; i < n; ++i) {
    right[0][i] = exp(values[i] - most) / total;
    right[1][i] = values[i] - most - log(total);
  }
  check(got[0], right[0], n, tolerance, 0x1p-148);
  check(got[1], right[1], n, 5e-7, 5e-7);
  TN_CHECK_DOUBLE(got[2][0], most + log(total), 5e-7 * (1 + fabs(most)));
  for (int i = 0; i < 3; ++i) free(got[i]);
  for (int i = 0; i < 2; ++i) free(right[i]);
  tn_tensor *all[] = {x, y, logs, sum};
  for (int i = 0; i < 4; ++i) tn_tensor_release(all[i]);
}

TN_TEST(cpu_rows, rows_of_any_length_agree_with_double) {
  for (size_t k = 0; k < sizeof SIZES / sizeof *SIZES; ++k) {
    uint64_t state = k;
    float *values = calloc((size_t)SIZES[k], sizeof *values);
    for (int64_t i = 0; i < SIZES[k]; ++i) values[i] = (float)cpu_next(&state, -9, 7);
    check_row(values, SIZES[k], 1.2e-6);
    free(values);
  }
}

/* Down to results that are subnormal and, below -104, none; all differences are exact. */
TN_TEST(cpu_rows, softmax_over_the_whole_range_of_exp_agrees_with_double) {
  enum { N = 1500 };
  float values[N];
  for (int i = 0; i < N; ++i) values[i] = 50 - 0.125f * (float)((i * 7) % N);
  check_row(values, N, 3e-7);
  values[3] = -INFINITY;
  values[4] = -3e38f;
  check_row(values, N, 3e-7);
}

/* A row near its first element is summed around that; any other one around its greatest. The one element that is far
 * stands first, in a whole block, in a later one, or in what is left; 63 and 64.125 lie on either side of the bound. */
TN_TEST(cpu_rows, an_element_far_from_the_first_changes_no_result) {
  enum { N = 3001 };
  const float far[] = {-INFINITY, -500, -88, -64.125f, -63, 63, 64.125f, 88, 500};
  const int64_t lengths[] = {2, 40, 1000, N};
  float values[N];
  for (size_t f = 0; f < sizeof far / sizeof *far; ++f)
    for (int k = 0; k < 4; ++k) {
      const int64_t n = lengths[k], places[] = {0, n / 3, n / 2, n - 1};
      for (int p = 0; p < 4; ++p) {
        for (int64_t i = 0; i < n; ++i) values[i] = 0.125f * (float)((i * 7) % 61);
        values[0] = 0;
        values[places[p]] = far[f];
        check_row(values, n, 6e-7);
      }
    }
}

/* A finite logsumexp stands for any. */
static void check_special(const float *values, int64_t n, bool nan, double logsumexp) {
  tn_tensor *x = NULL, *y, *logs, *sum;
  const int64_t dim = 0;
  TN_CHECK_OK(tn_tensor_from_host(values, &n, 1, TN_OPTIONS(.dtype = TN_FLOAT32), &x));
  TN_CHECK_OK(tn_softmax(x, 0, TN_DTYPE_NONE, &y));
  TN_CHECK_OK(tn_log_softmax(x, 0, TN_DTYPE_NONE, &logs));
  TN_CHECK_OK(tn_logsumexp(x, &dim, 1, false, &sum));
  double *a = cpu_values(y), *b = cpu_values(sum), *c = cpu_values(logs);
  bool any = false, any_log = false;
  for (int64_t i = 0; i < n; ++i) any |= isnan(a[i]) != 0, any_log |= isnan(c[i]) != 0;
  TN_CHECK_INT(any, nan);
  TN_CHECK_INT(any_log, nan);
  TN_CHECK(isnan(logsumexp) ? isnan(b[0]) : isfinite(logsumexp) ? isfinite(b[0]) : b[0] == logsumexp);
  free(a);
  free(b);
  free(c);
  tn_tensor *all[] = {x, y, logs, sum};
  for (int i = 0; i < 4; ++i) tn_tensor_release(all[i]);
}

/* Wherever it stands: in a whole vector, beside others, or in what is left. */
TN_TEST(cpu_rows, a_nan_or_a_positive_infinity_makes_the_row_nan) {
  enum { N = 203 };
  float values[N];
  for (int at = 0; at < N; ++at) {
    for (int i = 0; i < N; ++i) values[i] = (float)(i % 11);
    values[at] = NAN;
    check_special(values, N, true, NAN);
    values[at] = INFINITY;
    check_special(values, N, true, INFINITY);
    values[at] = -INFINITY;
    check_special(values, N, false, 0);
  }
  for (int n = 1; n <= N; n += 67) {
    for (int i = 0; i < N; ++i) values[i] = -INFINITY;
    check_special(values, n, true, -INFINITY);
    for (int i = 0; i < N; ++i) values[i] = NAN;
    check_special(values, n, true, NAN);
  }
}

/* The same row at every offset of a vector, alone and among others that threads share. */
TN_TEST(cpu_rows, bits_depend_neither_on_threads_nor_on_the_place_of_a_row) {
  const int64_t lengths[] = {37, 1000, 1501};
  int32_t before = tn_num_threads();
  for (int k = 0; k < 3; ++k) {
    const int64_t n = lengths[k], rows = 67;
    tn_tensor *one = cpu_tensor(CPU_SIZES(1, n), TN_FLOAT32, -5, 5, 21), *many = NULL, *right, *shifted;
    const int64_t times[] = {rows, 1};
    TN_CHECK_OK(tn_repeat(one, times, 2, &many));
    TN_CHECK_OK(tn_softmax(one, 1, TN_DTYPE_NONE, &right));
    TN_CHECK_OK(tn_repeat(right, times, 2, &shifted));
    for (int32_t threads = 1; threads <= 3; ++threads) {
      tn_tensor *y;
      TN_CHECK_OK(tn_set_num_threads(threads));
      TN_CHECK_OK(tn_softmax(many, 1, TN_DTYPE_NONE, &y));
      cpu_check_same_bits(y, shifted);
      tn_tensor_release(y);
    }
    tn_tensor *all[] = {one, many, right, shifted};
    for (int i = 0; i < 4; ++i) tn_tensor_release(all[i]);
  }
  TN_CHECK_OK(tn_set_num_threads(before));
}

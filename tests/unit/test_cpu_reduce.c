/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions and scans of the CPU backend at sizes beyond their chunks: against naive sums in double, over
 * every subset of dims, in permuted layouts, with NaN, and with bits that do not depend on the number of
 * threads.
 */
#include "test_cpu.h"

enum { I = 37, J = 70, K = 90 };

/* Reduces x (I x J x K, row-major) over the dims of mask: what = 0 sum, 1 largest, 2 variance. */
static double *naive(const double *x, unsigned mask, int what) {
  double *out = calloc(I * J * K, sizeof *out), *mean = calloc(I * J * K, sizeof *mean);
  int64_t count = (mask & 1 ? I : 1) * (int64_t)(mask & 2 ? J : 1) * (mask & 4 ? K : 1);
  if (what == 1)
    for (int i = 0; i < I * J * K; ++i) out[i] = -INFINITY;
  for (int pass = 0; pass < 2; ++pass)
    for (int i = 0; i < I; ++i)
      for (int j = 0; j < J; ++j)
        for (int k = 0; k < K; ++k) {
          double v = x[(i * J + j) * K + k];
          int64_t at = mask & 1 ? 0 : i;
          at = at * (mask & 2 ? 1 : J) + (mask & 2 ? 0 : j);
          at = at * (mask & 4 ? 1 : K) + (mask & 4 ? 0 : k);
          if (pass == 0)
            mean[at] += v / (double)count;
          else if (what == 0)
            out[at] += v;
          else if (what == 1)
            out[at] = v > out[at] ? v : out[at];
          else
            out[at] += (v - mean[at]) * (v - mean[at]) / (double)(count - 1);
        }
  free(mean);
  return out;
}

static void check_mask(tn_tensor *t, const double *x, unsigned mask, const int64_t *place, double tolerance) {
  int64_t dims[3];
  size_t n = 0;
  for (int d = 0; d < 3; ++d)
    if (mask >> d & 1) dims[n++] = place[d];
  for (int what = 0; what < 3; ++what) {
    tn_tensor *r = NULL, *ordered = NULL;
    if (what == 0)
      TN_CHECK_OK(tn_sum_dim(t, dims, n, true, TN_DTYPE_NONE, &r));
    else if (what == 1)
      TN_CHECK_OK(tn_amax(t, dims, n, true, &r));
    else
      TN_CHECK_OK(tn_var(t, dims, n, tn_int(1), true, &r));
    TN_CHECK_OK(tn_permute(r, place, 3, &ordered)); /* back to I x J x K */
    double *expected = naive(x, mask, what), *got = cpu_values(ordered);
    for (int64_t i = 0; i < tn_tensor_numel(r); ++i)
      TN_CHECK_DOUBLE(got[i], expected[i], tolerance * (1 + fabs(expected[i])));
    free(expected);
    free(got);
    tn_tensor_release(r);
    tn_tensor_release(ordered);
  }
}

TN_TEST(cpu_reduce, every_subset_of_dims_in_every_order) {
  static const int64_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  static const struct {
    tn_dtype dtype;
    double tolerance;
  } dtypes[] = {{TN_FLOAT64, 1e-13}, {TN_FLOAT32, 1e-6}, {TN_BFLOAT16, 5e-3}};
  for (int d = 0; d < 3; ++d)
    for (int o = 0; o < 6; ++o) {
      const int64_t *order = orders[o];
      int64_t place[3];
      tn_tensor *x = cpu_tensor(CPU_SIZES(I, J, K), dtypes[d].dtype, -1, 2, 7), *t = NULL;
      TN_CHECK_OK(tn_permute(x, order, 3, &t));
      for (int i = 0; i < 3; ++i) place[order[i]] = i; /* where dim 0, 1, 2 of x went */
      double *values = cpu_values(x);
      for (unsigned mask = 1; mask < 8; ++mask) check_mask(t, values, mask, place, dtypes[d].tolerance);
      free(values);
      tn_tensor_release(x);
      tn_tensor_release(t);
    }
}

TN_TEST(cpu_reduce, bits_do_not_depend_on_threads) {
  tn_tensor *x = cpu_tensor(CPU_SIZES(300, 1001), TN_FLOAT32, -1, 1, 9), *first[4] = {NULL};
  int32_t before = tn_num_threads();
  const int64_t rows = 0, columns = 1;
  for (int32_t threads = 1; threads <= 5; ++threads) {
    tn_tensor *r[4];
    TN_CHECK_OK(tn_set_num_threads(threads));
    TN_CHECK_OK(tn_sum(x, TN_DTYPE_NONE, &r[0]));
    TN_CHECK_OK(tn_sum_dim(x, &rows, 1, false, TN_DTYPE_NONE, &r[1]));
    TN_CHECK_OK(tn_sum_dim(x, &columns, 1, false, TN_DTYPE_NONE, &r[2]));
    TN_CHECK_OK(tn_softmax(x, 0, TN_DTYPE_NONE, &r[3]));
    for (int i = 0; i < 4; ++i) {
      if (!first[i]) {
        first[i] = r[i];
        continue;
      }
      cpu_check_same_bits(first[i], r[i]);
      tn_tensor_release(r[i]);
    }
  }
  TN_CHECK_OK(tn_set_num_threads(before));
  for (int i = 0; i < 4; ++i) tn_tensor_release(first[i]);
  tn_tensor_release(x);
}

TN_TEST(cpu_reduce, a_long_float32_sum_is_exact_to_its_last_rounding) {
  const int64_t n = 1000003;
  tn_tensor *x = NULL, *s;
  double sum;
  TN_CHECK_OK(tn_full(&n, 1, tn_float(0.1), TN_OPTIONS(.dtype = TN_FLOAT32), &x));
  TN_CHECK_OK(tn_sum(x, TN_DTYPE_NONE, &s));
  TN_CHECK_OK(tn_tensor_item_double(s, &sum));
  TN_CHECK_DOUBLE(sum, (float)((double)0.1f * (double)n), 0);
  tn_tensor_release(x);
  tn_tensor_release(s);
}

/* Random float32 numbers: at most six roundings of the magnitudes' sum, over runs and over rows. */
TN_TEST(cpu_reduce, float32_sums_keep_their_error_bound) {
  enum { ROWS = 1037, COLUMNS = 1029 };
  tn_tensor *x = cpu_tensor(CPU_SIZES(ROWS, COLUMNS), TN_FLOAT32, -1, 1, 21), *r;
  double *a = cpu_values(x);
  for (int64_t dim = 0; dim < 2; ++dim) {
    TN_CHECK_OK(tn_sum_dim(x, &dim, 1, false, TN_DTYPE_NONE, &r));
    double *got = cpu_values(r);
    for (int64_t j = 0; j < (dim ? ROWS : COLUMNS); ++j) {
      double sum = 0, size = 0;
      for (int64_t i = 0; i < (dim ? COLUMNS : ROWS); ++i) {
        double v = dim ? a[j * COLUMNS + i] : a[i * COLUMNS + j];
        sum += v;
        size += fabs(v);
      }
      TN_CHECK_DOUBLE(got[j], sum, 6 * 0x1p-24 * size + 0x1p-24 * fabs(sum));
    }
    free(got);
    tn_tensor_release(r);
  }
  free(a);
  tn_tensor_release(x);
}

TN_TEST(cpu_reduce, a_variance_of_equal_numbers_is_zero) {
  const int64_t n = 1000;
  tn_tensor *x = NULL, *v, *s;
  double var, std;
  TN_CHECK_OK(tn_full(&n, 1, tn_float(0.1), TN_OPTIONS(.dtype = TN_FLOAT32), &x));
  TN_CHECK_OK(tn_var(x, NULL, 0, tn_int(1), false, &v));
  TN_CHECK_OK(tn_std(x, NULL, 0, tn_int(1), false, &s));
  TN_CHECK_OK(tn_tensor_item_double(v, &var));
  TN_CHECK_OK(tn_tensor_item_double(s, &std));
  TN_CHECK_DOUBLE(var, 0, 1e-14);
  TN_CHECK_DOUBLE(std, 0, 1e-7);
  tn_tensor_release(x);
  tn_tensor_release(v);
  tn_tensor_release(s);
}

/* Largest and smallest of every line of a table with many ties, along both dims, with a NaN in one line. */
TN_TEST(cpu_reduce, extremes_of_lines_and_columns_name_the_first) {
  static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_BFLOAT16, TN_INT64, TN_INT32};
  enum { ROWS = 133, COLUMNS = 71 };
  double values[ROWS * COLUMNS];
  for (int d = 0; d < 5; ++d)
    for (int largest = 0; largest < 2; ++largest)
      for (int64_t dim = 0; dim < 2; ++dim) {
        tn_tensor *wide, *x, *value, *index, *arg, *alone;
        for (int i = 0; i < ROWS * COLUMNS; ++i) values[i] = (i * 37 + i / 11) % 29 - 14;
        if (d < 3) values[50 * COLUMNS + 30] = values[60 * COLUMNS + 40] = NAN;
        TN_CHECK_OK(tn_tensor_from_host(values, (const tn_dim[]){ROWS, COLUMNS}, 2,
                                        TN_OPTIONS(.dtype = TN_FLOAT64), &wide));
        TN_CHECK_OK(tn_to_dtype(wide, dtypes[d], false, false, TN_PRESERVE_FORMAT, &x));
        TN_CHECK_OK((largest ? tn_max_dim : tn_min_dim)(x, dim, false, &value, &index));
        TN_CHECK_OK((largest ? tn_argmax : tn_argmin)(x, &dim, false, &arg));
        TN_CHECK_OK((largest ? tn_amax : tn_amin)(x, &dim, 1, false, &alone));
        cpu_check_same_bits(index, arg);
        double *places = cpu_values(index), *found = cpu_values(value), *same = cpu_values(alone);
        for (int64_t j = 0; j < (dim ? ROWS : COLUMNS); ++j) {
          int64_t n = dim ? COLUMNS : ROWS, best = 0;
          for (int64_t i = 1; i < n; ++i) {
            double v = values[dim ? j * COLUMNS + i : i * COLUMNS + j];
            double b = values[dim ? j * COLUMNS + best : best * COLUMNS + j];
            if (!isnan(b) && (isnan(v) || (largest ? v > b : v < b))) best = i;
          }
          TN_CHECK_DOUBLE(places[j], (double)best, 0);
          TN_CHECK_DOUBLE(found[j], values[dim ? j * COLUMNS + best : best * COLUMNS + j], 0);
          TN_CHECK_DOUBLE(same[j], found[j], 0);
        }
        free(places);
        free(found);
        free(same);
        tn_tensor *all[] = {wide, x, value, index, arg, alone};
        for (int i = 0; i < 6; ++i) tn_tensor_release(all[i]);
      }
}

TN_TEST(cpu_reduce, rows_of_infinities_have_a_first_element) {
  for (int n = 1; n < 200; n += 33)
    for (int largest = 0; largest < 2; ++largest) {
      tn_tensor *x = NULL, *r;
      int64_t place = -1, size = n;
      TN_CHECK_OK(tn_full(&size, 1, tn_float(largest ? -INFINITY : INFINITY), TN_OPTIONS(.dtype = TN_FLOAT32), &x));
      TN_CHECK_OK((largest ? tn_argmax : tn_argmin)(x, NULL, false, &r));
      TN_CHECK_OK(tn_tensor_item_int(r, &place));
      TN_CHECK_INT(place, 0);
      tn_tensor_release(x);
      tn_tensor_release(r);
    }
}

/* One long line and few columns are shared by threads. */
TN_TEST(cpu_reduce, shared_chunks_leave_the_bits_alone) {
  tn_tensor *x = cpu_tensor(CPU_SIZES(9001, 31), TN_FLOAT32, -1, 1, 23), *first[4] = {NULL};
  int32_t before = tn_num_threads();
  const int64_t rows = 0;
  for (int32_t threads = 1; threads <= 4; ++threads) {
    tn_tensor *r[4];
    TN_CHECK_OK(tn_set_num_threads(threads));
    TN_CHECK_OK(tn_sum_dim(x, &rows, 1, false, TN_DTYPE_NONE, &r[0]));
    TN_CHECK_OK(tn_var(x, &rows, 1, tn_int(1), false, &r[1]));
    TN_CHECK_OK(tn_argmax(x, NULL, false, &r[2]));
    TN_CHECK_OK(tn_var(x, NULL, 0, tn_int(1), false, &r[3]));
    for (int i = 0; i < 4; ++i) {
      if (threads > 1) cpu_check_same_bits(first[i], r[i]);
      tn_tensor_release(first[i]);
      first[i] = r[i];
    }
  }
  TN_CHECK_OK(tn_set_num_threads(before));
  for (int i = 0; i < 4; ++i) tn_tensor_release(first[i]);
  tn_tensor_release(x);
}

/* Sums, variances and extremes over the middle of a tensor that no near cache holds, against those of its parts, which one
 * does: rows that share a page, of 21 MB and of 38, and rows of more than a page in two pieces, all with rows and elements
 * left over. */
TN_TEST(cpu_reduce, rows_from_memory_have_the_bits_of_rows_from_a_cache) {
  enum { PARTS = 40, ROWS = 261 };
  const int64_t lengths[] = {501, 901, 1101}, rows = 0, middle = 1;
  for (int k = 0; k < 3; ++k) {
    tn_tensor *x, *sum, *var, *most;
    TN_CHECK_OK(tn_manual_seed(41));
    TN_CHECK_OK(tn_rand(CPU_SIZES(PARTS, ROWS, lengths[k]), NULL, &x));
    TN_CHECK_OK(tn_sum_dim(x, &middle, 1, false, TN_DTYPE_NONE, &sum));
    TN_CHECK_OK(tn_var(x, &middle, 1, tn_int(1), false, &var));
    TN_CHECK_OK(tn_amax(x, &middle, 1, false, &most));
    for (int64_t i = 0; i < PARTS; ++i) {
      tn_tensor *part, *far[3], *near[3];
      TN_CHECK_OK(tn_select(x, 0, i, &part));
      TN_CHECK_OK(tn_select(sum, 0, i, &far[0]));
      TN_CHECK_OK(tn_select(var, 0, i, &far[1]));
      TN_CHECK_OK(tn_select(most, 0, i, &far[2]));
      TN_CHECK_OK(tn_sum_dim(part, &rows, 1, false, TN_DTYPE_NONE, &near[0]));
      TN_CHECK_OK(tn_var(part, &rows, 1, tn_int(1), false, &near[1]));
      TN_CHECK_OK(tn_amax(part, &rows, 1, false, &near[2]));
      for (int j = 0; j < 3; ++j) {
        cpu_check_same_bits(far[j], near[j]);
        tn_tensor_release(far[j]);
        tn_tensor_release(near[j]);
      }
      tn_tensor_release(part);
    }
    tn_tensor *const made[] = {x, sum, var, most};
    for (int j = 0; j < 4; ++j) tn_tensor_release(made[j]);
  }
}

TN_TEST(cpu_reduce, nan_wins_and_the_first_of_equals_is_named) {
  float x[200];
  int64_t place;
  tn_tensor *t = NULL, *r, *index;
  for (int i = 0; i < 200; ++i) x[i] = (float)(i % 50);
  for (int round = 0; round < 2; ++round) {
    if (round == 1) x[120] = x[150] = NAN;
    TN_CHECK_OK(tn_tensor_from_host(x, (const tn_dim[]){200}, 1, TN_OPTIONS(.dtype = TN_FLOAT32), &t));
    TN_CHECK_OK(tn_argmax(t, NULL, false, &r));
    TN_CHECK_OK(tn_tensor_item_int(r, &place));
    TN_CHECK_INT(place, round ? 120 : 49);
    tn_tensor_release(r);
    TN_CHECK_OK(tn_max_dim(t, 0, false, &r, &index));
    double *value = cpu_values(r);
    TN_CHECK_DOUBLE(value[0], round ? NAN : 49, 0);
    free(value);
    tn_tensor_release(r);
    tn_tensor_release(index);
    TN_CHECK_OK(tn_amax(t, NULL, 0, false, &r));
    value = cpu_values(r);
    TN_CHECK_DOUBLE(value[0], round ? NAN : 49, 0);
    free(value);
    tn_tensor_release(r);
    tn_tensor_release(t);
  }
}

TN_TEST(cpu_reduce, cumsum_along_a_long_strided_dim) {
  tn_tensor *x = cpu_tensor(CPU_SIZES(1500, 3), TN_FLOAT32, -1, 1, 11), *r;
  TN_CHECK_OK(tn_cumsum(x, 0, TN_DTYPE_NONE, &r));
  double *a = cpu_values(x), *b = cpu_values(r);
  for (int j = 0; j < 3; ++j) {
    double sum = 0;
    for (int i = 0; i < 1500; ++i) {
      sum += a[i * 3 + j];
      TN_CHECK_DOUBLE(b[i * 3 + j], (float)sum, 0);
    }
  }
  free(a);
  free(b);
  tn_tensor_release(x);
  tn_tensor_release(r);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products of the CPU backend against sums in double: sizes around the register tile and the
 * blocks, every layout of the operands, other dtypes, beta and alpha, and bits that do not depend on the
 * number of threads.
 */
#include "test_cpu.h"

/* Note [Error of a product]
 * An element S of a product is a sum of k products in an order that is the kernel's own. Every addition rounds its
 * partial sum by at most u of it (u: half of the dtype's epsilon). The worst case, k u sum |a b|, says little where k
 * is large. The operands here have signs by chance: in any order, the partial sum of p products lies about p / k S, and
 * commonly N sqrt(p / k (1 - p / k)) from there, where N^2 is the sum of all (a b)^2; the mean square of such a path is
 * S^2 / 3 + N^2 / 6. Roundings have signs by chance as well, and a deviation of 1 / sqrt 3 of the most; that of the
 * error is then at most d = u sqrt(k (S^2 / 3 + N^2 / 6) / 3). These tests look at some 10^7 elements. What is as rare
 * as one of them is 5 deviations of one chance, and of two that multiply, path and roundings, 3.5 each: 12 d, which is
 * 4 u sqrt(k (S^2 + N^2 / 2)). (N. Higham and T. Mary, A new approach to probabilistic rounding error analysis, SIAM J.
 * Sci. Comput. 41, 2019, bounds every path by sum |a b|, which for k = 1000 is 24 N.) Since S and N grow as sqrt(k) the
 * error of a long sum grows as k: a tolerance in sqrt(k) is too little for it, and too much for a short one.
 *
 * The sum to compare with is made in long double: in double it would be as wrong as a kernel for float64. */
typedef struct exact_product {
  double value, tolerance;
} exact_product;

/* u of the dtype that sums have, and of the result's where that is another; of integers 0: they are exact. */
static double unit_of_sums(tn_dtype dtype) {
  if (dtype == TN_FLOAT64) return 0x1p-53;
  return dtype == TN_FLOAT32 || dtype == TN_FLOAT16 || dtype == TN_BFLOAT16 ? 0x1p-24 : 0;
}
static double unit_of_result(tn_dtype dtype) {
  return dtype == TN_FLOAT16 ? 0x1p-11 : dtype == TN_BFLOAT16 ? 0x1p-8 : 0;
}

/* c[i][j] of a (m x k) and b (k x n), and how far from it a result of this dtype may lie: see Note [Error of a product]. */
static exact_product product_at(const double *a, const double *b, int64_t n, int64_t k, int64_t i, int64_t j,
                                tn_dtype dtype) {
  long double sum = 0, squares = 0;
  for (int64_t p = 0; p < k; ++p) {
    long double product = (long double)a[i * k + p] * b[p * n + j];
    sum += product;
    squares += product * product;
  }
  double value = (double)sum;
  double sums = 4 * unit_of_sums(dtype) * sqrt((double)k * (value * value + (double)squares / 2));
  return (exact_product){value, sums + unit_of_result(dtype) * fabs(value)};
}

/* f v + g c: each of the three operations rounds once more. */
static exact_product with_added(exact_product c, double f, double v, double g, tn_dtype dtype) {
  double value = f * v + g * c.value, most = fabs(f * v) + fabs(g * c.value);
  return (exact_product){value, fabs(g) * c.tolerance + 3 * unit_of_sums(dtype) * most};
}

/* A matrix of rows x columns that lies transposed in memory, or with a gap behind each row, or has one row for all
 * rows. */
enum { ROWS = 0, TRANSPOSED, GAPS, REPEATED, LAYOUTS };
static tn_tensor *matrix(int64_t rows, int64_t columns, tn_dtype dtype, int layout, uint64_t seed) {
  tn_tensor *whole, *part = NULL;
  if (layout == TRANSPOSED) {
    whole = cpu_tensor(CPU_SIZES(columns, rows), dtype, -1, 1, seed);
    TN_CHECK_OK(tn_t(whole, &part));
  } else if (layout == REPEATED) {
    whole = cpu_tensor(CPU_SIZES(1, columns), dtype, -1, 1, seed);
    TN_CHECK_OK(tn_expand(whole, CPU_SIZES(rows, columns), false, &part));
  } else {
    whole = cpu_tensor(CPU_SIZES(rows, columns + (layout == GAPS ? 5 : 0)), dtype, -1, 1, seed);
    TN_CHECK_OK(tn_slice(whole, 1, NULL, &columns, 1, &part));
  }
  tn_tensor_release(whole);
  return part;
}

static void check_product(int64_t m, int64_t n, int64_t k, tn_dtype dtype, int layout_a, int layout_b) {
  tn_tensor *a = matrix(m, k, dtype, layout_a, 1), *b = matrix(k, n, dtype, layout_b, 2), *c = NULL;
  TN_CHECK_OK(tn_mm(a, b, &c));
  double *x = cpu_values(a), *y = cpu_values(b), *z = cpu_values(c);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      exact_product exact = product_at(x, y, n, k, i, j, dtype);
      TN_CHECK_DOUBLE(z[i * n + j], exact.value, exact.tolerance);
    }
  free(x);
  free(y);
  free(z);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(c);
}

static const int64_t tile_sizes[] = {1, 2, 6, 7, 13, 14, 15, 31, 33, 64};
enum { TILE_SIZES = sizeof tile_sizes / sizeof *tile_sizes };

TN_TEST(cpu_gemm, sizes_around_the_register_tile_in_every_layout) {
  for (int i = 0; i < TILE_SIZES; ++i)
    for (int j = 0; j < TILE_SIZES; ++j)
      for (int layouts = 0; layouts < LAYOUTS * LAYOUTS; ++layouts) {
        int64_t m = tile_sizes[i], n = tile_sizes[j], k = tile_sizes[(i + j + layouts) % TILE_SIZES];
        check_product(m, n, k, TN_FLOAT32, layouts % LAYOUTS, layouts / LAYOUTS);
        check_product(m, n, k, TN_FLOAT64, layouts % LAYOUTS, layouts / LAYOUTS);
      }
}

TN_TEST(cpu_gemm, sizes_beyond_the_blocks) {
  check_product(300, 300, 70, TN_FLOAT32, ROWS, ROWS);
  check_product(17, 1100, 33, TN_FLOAT32, GAPS, TRANSPOSED);
  check_product(33, 40, 1000, TN_FLOAT32, TRANSPOSED, GAPS);
  check_product(64, 128, 784, TN_FLOAT32, ROWS, TRANSPOSED);
  check_product(1, 500, 300, TN_FLOAT32, ROWS, TRANSPOSED);
  check_product(500, 1, 300, TN_FLOAT64, TRANSPOSED, ROWS);
}

TN_TEST(cpu_gemm, halves_are_computed_in_float32_and_integers_wrap) {
  for (int layouts = 0; layouts < LAYOUTS * LAYOUTS; ++layouts) {
    check_product(15, 33, 40, TN_FLOAT16, layouts % LAYOUTS, layouts / LAYOUTS);
    check_product(15, 33, 40, TN_BFLOAT16, layouts % LAYOUTS, layouts / LAYOUTS);
    check_product(15, 33, 40, TN_INT32, layouts % LAYOUTS, layouts / LAYOUTS);
  }
  tn_tensor *a = cpu_tensor(CPU_SIZES(2, 3), TN_INT8, 100, 101, 1), *b, *c;
  TN_CHECK_OK(tn_t(a, &b));
  TN_CHECK_OK(tn_mm(a, b, &c));
  double *values = cpu_values(c);
  TN_CHECK_DOUBLE(values[0], (int8_t)30000, 0);
  free(values);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(c);
}

TN_TEST(cpu_gemm, no_inner_dim_gives_zeros_and_beta_zero_hides_nan) {
  tn_tensor *a = cpu_tensor(CPU_SIZES(3, 0), TN_FLOAT32, 0, 1, 1),
            *b = cpu_tensor(CPU_SIZES(0, 4), TN_FLOAT32, 0, 1, 1);
  tn_tensor *bias = NULL, *c;
  TN_CHECK_OK(tn_mm(a, b, &c));
  double *values = cpu_values(c);
  for (int i = 0; i < 12; ++i) TN_CHECK_DOUBLE(values[i], 0, 0);
  free(values);
  tn_tensor_release(c);
  TN_CHECK_OK(tn_full(CPU_SIZES(4), tn_float(NAN), NULL, &bias));
  TN_CHECK_OK(tn_addmm(bias, a, b, tn_int(0), tn_int(1), &c));
  values = cpu_values(c);
  for (int i = 0; i < 12; ++i) TN_CHECK_DOUBLE(values[i], 0, 0);
  free(values);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(bias);
  tn_tensor_release(c);
}

TN_TEST(cpu_gemm, addmm_adds_a_broadcast_row) {
  const int64_t m = 20, n = 37, k = 50;
  tn_tensor *a = matrix(m, k, TN_FLOAT32, ROWS, 1), *b = matrix(k, n, TN_FLOAT32, TRANSPOSED, 2), *c;
  tn_tensor *bias = cpu_tensor(CPU_SIZES(n), TN_FLOAT32, -1, 1, 3);
  TN_CHECK_OK(tn_addmm(bias, a, b, tn_float(0.5), tn_float(-2), &c));
  double *x = cpu_values(a), *y = cpu_values(b), *z = cpu_values(c), *v = cpu_values(bias);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      exact_product exact = with_added(product_at(x, y, n, k, i, j, TN_FLOAT32), 0.5, v[j], -2, TN_FLOAT32);
      TN_CHECK_DOUBLE(z[i * n + j], exact.value, exact.tolerance);
    }
  free(x);
  free(y);
  free(z);
  free(v);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(c);
  tn_tensor_release(bias);
}

/* addmm of `added` (rows and columns may be 1) in one piece, whole and in place: the same bits. */
static void check_added(int64_t m, int64_t n, int64_t k, tn_tensor *added, tn_scalar beta, tn_scalar alpha) {
  tn_dtype dtype = tn_tensor_dtype(added);
  tn_tensor *a = matrix(m, k, dtype, ROWS, 1), *b = matrix(k, n, dtype, TRANSPOSED, 2), *spread, *whole, *c,
            *d;
  TN_CHECK_OK(tn_expand(added, CPU_SIZES(m, n), false, &spread));
  TN_CHECK_OK(tn_clone(spread, TN_CONTIGUOUS_FORMAT, &whole));
  TN_CHECK_OK(tn_addmm(added, a, b, beta, alpha, &c));
  TN_CHECK_OK(tn_addmm(whole, a, b, beta, alpha, &d));
  TN_CHECK_OK(tn_addmm_(whole, a, b, beta, alpha));
  cpu_check_same_bits(c, d);
  cpu_check_same_bits(c, whole);
  double *x = cpu_values(a), *y = cpu_values(b), *z = cpu_values(c), *v = cpu_values(spread);
  double f = beta.kind == TN_VAL_FLOAT ? beta.u.f : (double)beta.u.i;
  double g = alpha.kind == TN_VAL_FLOAT ? alpha.u.f : (double)alpha.u.i;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      exact_product exact = with_added(product_at(x, y, n, k, i, j, dtype), f, v[i * n + j], g, dtype);
      TN_CHECK_DOUBLE(z[i * n + j], exact.value, exact.tolerance);
    }
  free(x), free(y), free(z), free(v);
  tn_tensor *all[] = {a, b, c, d, spread, whole};
  for (int i = 0; i < 6; ++i) tn_tensor_release(all[i]);
}

TN_TEST(cpu_gemm, what_is_added_may_be_a_row_a_column_or_the_result_itself) {
  static const int64_t shapes[][3] = {{3, 5, 2},      {20, 37, 50}, {30, 64, 700},
                                      {300, 130, 60}, {1, 40, 30},  {40, 1, 30}};
  static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_INT32};
  for (int s = 0; s < 6; ++s)
    for (int t = 0; t < 3; ++t)
      for (int form = 0; form < 4; ++form) {
        int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        tn_tensor *added = cpu_tensor(CPU_SIZES(form & 1 ? 1 : m, form & 2 ? 1 : n), dtypes[t], -9, 9, 3);
        check_added(m, n, k, added, tn_int(1), tn_int(1));
        check_added(m, n, k, added, tn_int(2), tn_int(-3));
        tn_tensor_release(added);
      }
}

TN_TEST(cpu_gemm, edges_and_scaled_results_have_the_bits_of_whole_tiles) {
  const int64_t m = 29, n = 300, k = 650, part_n = 261, part_m = 3;
  tn_tensor *a = matrix(m, k, TN_FLOAT32, ROWS, 1), *b = matrix(k, n, TN_FLOAT32, ROWS, 2), *c, *few,
            *columns;
  tn_tensor *rows_of_a, *columns_of_b, *d, *e;
  TN_CHECK_OK(tn_mm(a, b, &c));
  TN_CHECK_OK(tn_slice(a, 0, NULL, &part_m, 1, &rows_of_a));
  TN_CHECK_OK(tn_slice(b, 1, NULL, &part_n, 1, &columns_of_b));
  TN_CHECK_OK(tn_mm(rows_of_a, columns_of_b, &d));
  TN_CHECK_OK(tn_slice(c, 0, NULL, &part_m, 1, &few));
  TN_CHECK_OK(tn_slice(few, 1, NULL, &part_n, 1, &columns));
  TN_CHECK_OK(tn_clone(columns, TN_CONTIGUOUS_FORMAT, &e));
  cpu_check_same_bits(d, e);
  tn_tensor *all[] = {a, b, c, few, columns, rows_of_a, columns_of_b, d, e};
  for (int i = 0; i < 9; ++i) tn_tensor_release(all[i]);
}

/* The first rows and columns of a product, computed alone, against the whole. */
static void check_part(tn_tensor *a, tn_tensor *b, tn_tensor *whole, int64_t m, int64_t n) {
  tn_tensor *rows_of_a, *columns_of_b, *part, *rows, *columns, *expected;
  TN_CHECK_OK(tn_slice(a, 0, NULL, &m, 1, &rows_of_a));
  TN_CHECK_OK(tn_slice(b, 1, NULL, &n, 1, &columns_of_b));
  TN_CHECK_OK(tn_mm(rows_of_a, columns_of_b, &part));
  TN_CHECK_OK(tn_slice(whole, 0, NULL, &m, 1, &rows));
  TN_CHECK_OK(tn_slice(rows, 1, NULL, &n, 1, &columns));
  TN_CHECK_OK(tn_clone(columns, TN_CONTIGUOUS_FORMAT, &expected));
  cpu_check_same_bits(part, expected);
  tn_tensor *all[] = {rows_of_a, columns_of_b, part, rows, columns, expected};
  for (int i = 0; i < 6; ++i) tn_tensor_release(all[i]);
}

/* Sizes that no other provider takes. */
TN_TEST(cpu_gemm, a_few_tiles_in_place_have_the_bits_of_a_blocked_product) {
  for (int layout = ROWS; layout <= GAPS; ++layout) {
    tn_tensor *a = matrix(40, 56, TN_FLOAT32, layout, 1), *b = matrix(56, 700, TN_FLOAT32, ROWS, 2), *c;
    TN_CHECK_OK(tn_mm(a, b, &c));
    check_part(a, b, c, 36, 16);
    check_part(a, b, c, 12, 48);
    check_part(a, b, c, 2, 64);
    check_part(a, b, c, 30, 10);
    check_part(a, b, c, 5, 33);
    tn_tensor_release(a);
    tn_tensor_release(b);
    tn_tensor_release(c);
  }
}

/* Rows of a result that end within a vector: what lies beside them in memory is another's. */
TN_TEST(cpu_gemm, what_lies_beside_a_narrow_result_stays) {
  static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64};
  const int64_t m = 17, k = 21, before = 3, width = 40;
  for (int d = 0; d < 2; ++d)
    for (int64_t n = 1; n <= 33; ++n) {
      const int64_t end = before + n;
      tn_tensor *a = matrix(m, k, dtypes[d], ROWS, 1), *b = matrix(k, n, dtypes[d], ROWS, 2), *whole, *part;
      TN_CHECK_OK(tn_full(CPU_SIZES(m, width), tn_float(7), TN_OPTIONS(.dtype = dtypes[d]), &whole));
      TN_CHECK_OK(tn_slice(whole, 1, &before, &end, 1, &part));
      TN_CHECK_OK(tn_mm_out(a, b, part));
      double *x = cpu_values(a), *y = cpu_values(b), *z = cpu_values(whole);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < width; ++j) {
          bool inside = j >= before && j < end;
          exact_product exact = inside ? product_at(x, y, n, k, i, j - before, dtypes[d]) : (exact_product){7, 0};
          TN_CHECK_DOUBLE(z[i * width + j], exact.value, exact.tolerance);
        }
      free(x);
      free(y);
      free(z);
      tn_tensor *all[] = {a, b, whole, part};
      for (int i = 0; i < 4; ++i) tn_tensor_release(all[i]);
    }
}

TN_TEST(cpu_gemm, bits_do_not_depend_on_threads) {
  tn_tensor *a = matrix(130, 500, TN_FLOAT32, ROWS, 1), *b = matrix(500, 129, TN_FLOAT32, TRANSPOSED, 2);
  tn_tensor *first = NULL, *many = cpu_tensor(CPU_SIZES(40, 60, 70), TN_FLOAT32, -1, 1, 3), *turned,
            *first_batch = NULL;
  TN_CHECK_OK(tn_transpose(many, 1, 2, &turned));
  int32_t before = tn_num_threads();
  for (int32_t threads = 1; threads <= 5; ++threads) {
    tn_tensor *c, *d;
    TN_CHECK_OK(tn_set_num_threads(threads));
    TN_CHECK_OK(tn_mm(a, b, &c));
    TN_CHECK_OK(tn_bmm(many, turned, &d));
    if (first) {
      cpu_check_same_bits(first, c);
      cpu_check_same_bits(first_batch, d);
      tn_tensor_release(c);
      tn_tensor_release(d);
    } else {
      first = c;
      first_batch = d;
    }
  }
  TN_CHECK_OK(tn_set_num_threads(before));
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(many);
  tn_tensor_release(turned);
  tn_tensor_release(first);
  tn_tensor_release(first_batch);
}

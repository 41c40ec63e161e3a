/* SPDX-License-Identifier: Apache-2.0
 *
 * Triangular factorisations and what is solved with them: Cholesky, LU with row pivots, substitution. Row-oriented, so
 * that every inner loop runs along a row. Golub and Van Loan, Matrix Computations, 4th edition, chapters 3 and 4.
 */
#include <math.h>

#include "plugins/backend-cpu/matrices.h"

/* y -= a x, n elements. */
static void subtract(double *y, double a, const double *x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] -= a * x[i];
}

/* ------------------------------------------------------------------ Cholesky */

/* Lower factor of the n x n matrix whose lower triangle is in a, in place; zeros above. 0, or the number of the first
 * leading minor that is not positive (the rows from there on are not factored). */
static int64_t cholesky(double *a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    double *row = a + i * n;
    for (int64_t j = 0; j < i; ++j) {
      const double *other = a + j * n;
      double sum = row[j];
      for (int64_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      row[j] = sum / other[j];
    }
    double pivot = row[i];
    for (int64_t k = 0; k < i; ++k) pivot -= row[k] * row[k];
    if (!(pivot > 0)) return i + 1;
    row[i] = sqrt(pivot);
  }
  return 0;
}

static void clear_above(double *a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) a[i * n + j] = 0;
}

typedef struct factor_options {
  bool upper, check, pivot;
} factor_options;

static void put_info(tn_matrix at, int64_t info) {
  const int32_t value = (int32_t)info;
  memcpy(at.data, &value, sizeof value);
}

static tn_status cholesky_place(const tn_stack_place *place, void *ctx) {
  const factor_options *o = ctx;
  tn_matrix out = place->matrices[0], self = place->matrices[2];
  cpu_matrix_read(place->work, o->upper ? tn_matrix_turned(self) : self);
  int64_t info = cholesky(place->work, self.rows);
  clear_above(place->work, self.rows);
  cpu_matrix_write(o->upper ? tn_matrix_turned(out) : out, place->work);
  put_info(place->matrices[1], info);
  if (!info || !o->check) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                 "matrix %lld of the stack is not positive definite: its leading minor of order %lld is not",
                 (long long)place->number, (long long)info);
}

/* args: self upper check_errors */
tn_status cpu_op_cholesky(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[0].u.v, out[1].u.v, args[0].u.v};
  factor_options o = {.upper = args[1].u.i, .check = args[2].u.i};
  double n = (double)views[2]->sizes[views[2]->ndim - 1];
  return cpu_stacks(call, 2, 3, views, (const uint8_t[]){2, 0, 2}, (int64_t)(n * n), n * n * n / 3,
                    cholesky_place, &o);
}

/* ------------------------------------------------------------------ LU */

static void swap_rows(double *a, double *b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    double t = a[i];
    a[i] = b[i];
    b[i] = t;
  }
}

/* The row from `k` on whose element in column k is largest; the first of equals. */
static int64_t find_pivot(const double *a, int64_t m, int64_t n, int64_t k) {
  int64_t best = k;
  for (int64_t i = k + 1; i < m; ++i)
    if (fabs(a[i * n + k]) > fabs(a[best * n + k])) best = i;
  return best;
}

/* m x n in place; pivots from 1. 0, or the number of the first pivot that is 0. */
static int64_t lu(double *a, int64_t m, int64_t n, bool pivot, int32_t *pivots, int64_t pivot_stride) {
  int64_t info = 0;
  for (int64_t k = 0; k < m && k < n; ++k) {
    int64_t p = pivot ? find_pivot(a, m, n, k) : k;
    pivots[k * pivot_stride] = (int32_t)(p + 1);
    if (p != k) swap_rows(a + k * n, a + p * n, n);
    double d = a[k * n + k];
    if (d == 0) {
      if (!info) info = k + 1;
      continue;
    }
    for (int64_t i = k + 1; i < m; ++i) {
      double *row = a + i * n, factor = row[k] / d;
      row[k] = factor;
      if (factor != 0) subtract(row + k + 1, factor, a + k * n + k + 1, n - k - 1);
    }
  }
  return info;
}

static tn_status lu_place(const tn_stack_place *place, void *ctx) {
  const factor_options *o = ctx;
  tn_matrix out = place->matrices[0], pivots = place->matrices[1], self = place->matrices[3];
  cpu_matrix_read(place->work, self);
  int64_t info = lu(place->work, self.rows, self.columns, o->pivot, (int32_t *)(void *)pivots.data,
                    pivots.column_stride / (int64_t)sizeof(int32_t));
  cpu_matrix_write(out, place->work);
  put_info(place->matrices[2], info);
  if (!info || !o->check) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "matrix %lld of the stack is singular: pivot %lld is 0",
                 (long long)place->number, (long long)info);
}

/* args: A pivot check_errors */
tn_status cpu_op_lu_factor(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[0].u.v, out[1].u.v, out[2].u.v, args[0].u.v};
  factor_options o = {.pivot = args[1].u.i, .check = args[2].u.i};
  double m = (double)views[3]->sizes[views[3]->ndim - 2], n = (double)views[3]->sizes[views[3]->ndim - 1];
  return cpu_stacks(call, 3, 4, views, (const uint8_t[]){2, 1, 0, 2}, (int64_t)(m * n),
                    m * n * (m < n ? m : n), lu_place, &o);
}

/* ------------------------------------------------------------------ substitution */

/* Solves t x = b in place: t is n x n triangular, b n x k. */
static void substitute(const double *t, int64_t n, bool upper, bool unit, double *b, int64_t k) {
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = upper ? n - 1 - step : step;
    double *row = b + i * k;
    for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j)
      if (t[i * n + j] != 0) subtract(row, t[i * n + j], b + j * k, k);
    if (unit) continue;
    double d = t[i * n + i];
    for (int64_t c = 0; c < k; ++c) row[c] /= d;
  }
}

typedef struct solve_options {
  bool left, upper, unit, adjoint;
} solve_options;

/* X t = B is t^T X^T = B^T. */
static tn_status triangular_place(const tn_stack_place *place, void *ctx) {
  const solve_options *o = ctx;
  tn_matrix out = place->matrices[0], t = place->matrices[1], b = place->matrices[2];
  if (!o->left) out = tn_matrix_turned(out), t = tn_matrix_turned(t), b = tn_matrix_turned(b);
  double *values = place->work, *x = values + t.rows * t.rows;
  cpu_matrix_read(values, t);
  cpu_matrix_read(x, b);
  substitute(values, t.rows, o->upper == o->left, o->unit, x, b.columns);
  cpu_matrix_write(out, x);
  return TN_OK;
}

static double sides(const tn_view *square, const tn_view *b, int64_t *out_work) {
  int64_t n = square->sizes[square->ndim - 1], m = b->sizes[b->ndim - 2], k = b->sizes[b->ndim - 1];
  *out_work = n * n + m * k;
  return (double)n * (double)m * (double)k;
}

/* args: self B upper left unitriangular */
tn_status cpu_op_solve_triangular(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[0].u.v, args[0].u.v, args[1].u.v};
  solve_options o = {.upper = args[2].u.i, .left = args[3].u.i, .unit = args[4].u.i};
  int64_t work;
  double flops = sides(views[1], views[2], &work);
  return cpu_stacks(call, 1, 3, views, (const uint8_t[]){2, 2, 2}, work, flops, triangular_place, &o);
}

static tn_status check_pivot(const tn_stack_place *place, int64_t i, int32_t pivot, int64_t n) {
  if (pivot >= 1 && pivot <= n) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected pivots from 1 to %lld, got %d in row %lld of matrix %lld",
                 (long long)n, (int)pivot, (long long)i, (long long)place->number);
}

/* Swaps the rows of x as pivots say, in their order or back. */
static tn_status permute(const tn_stack_place *place, tn_matrix pivots, double *x, int64_t k, bool back) {
  int64_t n = pivots.columns;
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = back ? n - 1 - step : step;
    int32_t p;
    memcpy(&p, pivots.data + i * pivots.column_stride, sizeof p);
    TN_TRY(check_pivot(place, i, p, n));
    if (p - 1 != i) swap_rows(x + i * k, x + (p - 1) * k, k);
  }
  return TN_OK;
}

/* A = P L U. On the right everything is turned: X A = B is A^T X^T = B^T, and A^T = U^T L^T P^T. */
static tn_status lu_solve_place(const tn_stack_place *place, void *ctx) {
  const solve_options *o = ctx;
  tn_matrix out = place->matrices[0], f = place->matrices[1], pivots = place->matrices[2],
            b = place->matrices[3];
  bool turned = o->adjoint == o->left;
  if (!o->left) out = tn_matrix_turned(out), b = tn_matrix_turned(b);
  if (turned) f = tn_matrix_turned(f);
  double *values = place->work, *x = values + f.rows * f.rows;
  cpu_matrix_read(values, f);
  cpu_matrix_read(x, b);
  if (!turned) TN_TRY(permute(place, pivots, x, b.columns, false));
  substitute(values, f.rows, false, !turned, x, b.columns);
  substitute(values, f.rows, true, turned, x, b.columns);
  if (turned) TN_TRY(permute(place, pivots, x, b.columns, true));
  cpu_matrix_write(out, x);
  return TN_OK;
}

/* args: LU pivots B left adjoint */
tn_status cpu_op_lu_solve(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[0].u.v, args[0].u.v, args[1].u.v, args[2].u.v};
  solve_options o = {.left = args[3].u.i, .adjoint = args[4].u.i};
  int64_t work;
  double flops = 2 * sides(views[1], views[3], &work);
  return cpu_stacks(call, 1, 4, views, (const uint8_t[]){2, 2, 1, 2}, work, flops, lu_solve_place, &o);
}

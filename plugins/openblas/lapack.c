/* SPDX-License-Identifier: Apache-2.0
 *
 * Factorisations of stacks of matrices: each matrix is copied column by column, worked on by LAPACK on one thread, and
 * copied back; the host's threads take matrices. Signs that LAPACK leaves to chance are fixed as the operators'
 * entries say (registry/ops/factor.yaml), so that the CPU plugin's own kernels give the same.
 */
#include "plugins/openblas/lapack.h"

#include <limits.h>
#include <math.h>
#include <string.h>
#include <tenon/kit/dtype.h>
#include <tenon/kit/stack.h>

#include "plugins/openblas/library.h"
#include "plugins/openblas/routines.h"

/* From which order on LAPACK beats the CPU plugin's kernels. Measured 2026-11-29, one AVX-512 core, float32, order 48:
 * Cholesky 7.0 us against 11.1, LU 9.8 against 16.1, substitution 12.0 against 16.3; QR of order 24: 9.0 against 12.8;
 * eigenvectors of order 8: 3.8 against 6.0, singular vectors 5.4 against 7.0. */
enum { LEAST_DIRECT = 48, LEAST_QR = 24, LEAST_SPECTRUM = 8 };

bool ob_has_lapack(void) {
  return sgetrf_ && sgetrs_ && spotrf_ && strsm_ && sgeqrf_ && sorgqr_ && ssyevd_ && sgesdd_ && dgetrf_ &&
         dgetrs_ && dpotrf_ && dtrsm_ && dgeqrf_ && dorgqr_ && dsyevd_ && dgesdd_;
}

/* ------------------------------------------------------------------ matrices */

/* One call: options, and what it needs of a place. */
typedef struct job {
  bool wide; /* float64 */
  bool upper, check, left, adjoint, unit, vectors, full;
} job;

static size_t size_of(const job *j) { return j->wide ? sizeof(double) : sizeof(float); }

/* Row by row to `out`; so a turned matrix comes column by column. */
static void read_rows(char *out, tn_matrix m, size_t size) {
  for (int64_t i = 0; i < m.rows; ++i) {
    const char *row = m.data + i * m.row_stride;
    char *to = out + (size_t)(i * m.columns) * size;
    if (m.column_stride == (int64_t)size) {
      memcpy(to, row, (size_t)m.columns * size);
      continue;
    }
    for (int64_t k = 0; k < m.columns; ++k) memcpy(to + (size_t)k * size, row + k * m.column_stride, size);
  }
}

/* From `in`, whose rows are `lead` elements apart. */
static void write_rows(tn_matrix m, const char *in, int64_t lead, size_t size) {
  for (int64_t i = 0; i < m.rows; ++i) {
    char *row = m.data + i * m.row_stride;
    const char *from = in + (size_t)(i * lead) * size;
    for (int64_t k = 0; k < m.columns; ++k) memcpy(row + k * m.column_stride, from + (size_t)k * size, size);
  }
}

static void read_columns(void *out, tn_matrix m, const job *j) {
  read_rows(out, tn_matrix_turned(m), size_of(j));
}
static void write_columns(tn_matrix m, const void *in, int64_t lead, const job *j) {
  write_rows(tn_matrix_turned(m), in, lead, size_of(j));
}

static double value_at(const void *p, int64_t i, const job *j) {
  return j->wide ? ((const double *)p)[i] : ((const float *)p)[i];
}
static void negate(void *p, int64_t n, int64_t stride, const job *j) {
  for (int64_t i = 0; i < n; ++i)
    if (j->wide)
      ((double *)p)[i * stride] = -((double *)p)[i * stride];
    else
      ((float *)p)[i * stride] = -((float *)p)[i * stride];
}
static void *at(void *p, int64_t i, const job *j) { return (char *)p + (size_t)i * size_of(j); }

/* Clears what lies above or below the diagonal of a column-major square. */
static void clear_triangle(void *a, int64_t n, bool above, const job *j) {
  for (int64_t c = 0; c < n; ++c)
    memset(at(a, c * n + (above ? 0 : c + 1), j), 0, (size_t)(above ? c : n - c - 1) * size_of(j));
}

static void put_info(tn_matrix to, int info) {
  const int32_t value = info;
  memcpy(to.data, &value, sizeof value);
}

/* The next `n` elements of the place's memory, on a border of 64 bytes. */
static void *take(char **memory, int64_t n, size_t size) {
  char *p = *memory;
  *memory += ((size_t)n * size + 63) / 64 * 64;
  return p;
}
static size_t room(int64_t n, size_t size) { return ((size_t)n * size + 63) / 64 * 64; }

static int64_t rows_of(const tn_view *v) { return v->sizes[v->ndim - 2]; }
static int64_t columns_of(const tn_view *v) { return v->sizes[v->ndim - 1]; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Sizes whose squares LAPACK's int can count. */
static bool fits(int64_t m, int64_t n, int64_t least) {
  enum { MOST = 16384 };
  return m >= least && n >= least && m <= MOST && n <= MOST && ob_library_single();
}

/* ------------------------------------------------------------------ Cholesky, LU */

static tn_status cholesky_place(const tn_stack_place *place, void *ctx) {
  const job *j = ctx;
  int n = (int)place->matrices[2].rows, info = 0, before = ob_single_begin();
  read_columns(place->work, place->matrices[2], j);
  (j->wide ? dpotrf_ : spotrf_)(j->upper ? "U" : "L", &n, place->work, &n, &info, 1);
  ob_single_end(before);
  clear_triangle(place->work, n, !j->upper, j);
  write_columns(place->matrices[0], place->work, n, j);
  put_info(place->matrices[1], info);
  if (info == 0 || !j->check) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                 "matrix %lld of the stack is not positive definite: its leading minor of order %d is not",
                 (long long)place->number, info);
}

/* args: self upper check_errors */
tn_status ob_cholesky(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[0].u.v, out[1].u.v, args[0].u.v};
  int64_t n = rows_of(views[2]);
  if (!fits(n, n, LEAST_DIRECT)) return TN_DECLINED;
  job j = {.wide = views[2]->dtype == TN_FLOAT64, .upper = args[1].u.i, .check = args[2].u.i};
  return tn_stack_each(call, 2, 3, views, (const uint8_t[]){2, 0, 2}, room(n * n, size_of(&j)), 1,
                       cholesky_place, &j);
}

static tn_status lu_place(const tn_stack_place *place, void *ctx) {
  const job *j = ctx;
  int m = (int)place->matrices[3].rows, n = (int)place->matrices[3].columns, info = 0,
      before = ob_single_begin();
  char *memory = place->work;
  void *a = take(&memory, (int64_t)m * n, size_of(j));
  int *pivots = take(&memory, m, sizeof(int));
  read_columns(a, place->matrices[3], j);
  (j->wide ? dgetrf_ : sgetrf_)(&m, &n, a, &m, pivots, &info);
  ob_single_end(before);
  write_columns(place->matrices[0], a, m, j);
  write_rows(place->matrices[1], (const char *)pivots, 0, sizeof(int));
  put_info(place->matrices[2], info);
  if (info == 0 || !j->check) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "matrix %lld of the stack is singular: pivot %d is 0",
                 (long long)place->number, info);
}

/* args: A pivot check_errors */
tn_status ob_lu_factor(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[0].u.v, out[1].u.v, out[2].u.v, args[0].u.v};
  int64_t m = rows_of(views[3]), n = columns_of(views[3]);
  if (!args[1].u.i || !fits(m, n, LEAST_DIRECT)) return TN_DECLINED;
  job j = {.wide = views[3]->dtype == TN_FLOAT64, .check = args[2].u.i};
  size_t work = room(m * n, size_of(&j)) + room(m, sizeof(int));
  return tn_stack_each(call, 3, 4, views, (const uint8_t[]){2, 1, 0, 2}, work, 1, lu_place, &j);
}

/* ------------------------------------------------------------------ solving */

static tn_status check_pivots(const tn_stack_place *place, const int *pivots, int n) {
  for (int i = 0; i < n; ++i)
    if (pivots[i] < 1 || pivots[i] > n)
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected pivots from 1 to %d, got %d in row %d of matrix %lld",
                     n, pivots[i], i, (long long)place->number);
  return TN_OK;
}

/* On the right, X A = B is A^T X^T = B^T. */
static tn_status lu_solve_place(const tn_stack_place *place, void *ctx) {
  const job *j = ctx;
  tn_matrix out = place->matrices[0], b = place->matrices[3];
  if (!j->left) out = tn_matrix_turned(out), b = tn_matrix_turned(b);
  int n = (int)place->matrices[1].rows, k = (int)b.columns, info = 0;
  char *memory = place->work;
  void *lu = take(&memory, (int64_t)n * n, size_of(j)), *x = take(&memory, (int64_t)n * k, size_of(j));
  int *pivots = take(&memory, n, sizeof(int));
  read_columns(lu, place->matrices[1], j);
  read_columns(x, b, j);
  read_rows((char *)pivots, place->matrices[2], sizeof(int));
  TN_TRY(check_pivots(place, pivots, n));
  int before = ob_single_begin();
  (j->wide ? dgetrs_ : sgetrs_)(j->adjoint == j->left ? "T" : "N", &n, &k, lu, &n, pivots, x, &n, &info, 1);
  ob_single_end(before);
  write_columns(out, x, n, j);
  return TN_OK;
}

/* args: LU pivots B left adjoint */
tn_status ob_lu_solve(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[0].u.v, args[0].u.v, args[1].u.v, args[2].u.v};
  int64_t n = rows_of(views[1]), m = rows_of(views[3]), k = columns_of(views[3]);
  if (!fits(n, n, LEAST_DIRECT) || !fits(m, k, 1)) return TN_DECLINED;
  job j = {.wide = views[1]->dtype == TN_FLOAT64, .left = args[3].u.i, .adjoint = args[4].u.i};
  size_t work = room(n * n, size_of(&j)) + room(m * k, size_of(&j)) + room(n, sizeof(int));
  return tn_stack_each(call, 1, 4, views, (const uint8_t[]){2, 2, 1, 2}, work, 1, lu_solve_place, &j);
}

static tn_status triangular_place(const tn_stack_place *place, void *ctx) {
  const job *j = ctx;
  const double one = 1;
  const float one_single = 1;
  tn_matrix b = place->matrices[2];
  int n = (int)place->matrices[1].rows, m = (int)b.rows, k = (int)b.columns;
  char *memory = place->work;
  void *t = take(&memory, (int64_t)n * n, size_of(j)), *x = take(&memory, (int64_t)m * k, size_of(j));
  read_columns(t, place->matrices[1], j);
  read_columns(x, b, j);
  int before = ob_single_begin();
  (j->wide ? dtrsm_ : strsm_)(j->left ? "L" : "R", j->upper ? "U" : "L", "N", j->unit ? "U" : "N", &m, &k,
                              j->wide ? (const void *)&one : &one_single, t, &n, x, &m, 1, 1, 1, 1);
  ob_single_end(before);
  write_columns(place->matrices[0], x, m, j);
  return TN_OK;
}

/* args: self B upper left unitriangular */
tn_status ob_solve_triangular(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[0].u.v, args[0].u.v, args[1].u.v};
  int64_t n = rows_of(views[1]), m = rows_of(views[2]), k = columns_of(views[2]);
  if (!fits(n, n, LEAST_DIRECT) || !fits(m, k, 1)) return TN_DECLINED;
  job j = {
      .wide = views[1]->dtype == TN_FLOAT64, .upper = args[2].u.i, .left = args[3].u.i, .unit = args[4].u.i};
  size_t work = room(n * n, size_of(&j)) + room(m * k, size_of(&j));
  return tn_stack_each(call, 1, 3, views, (const uint8_t[]){2, 2, 2}, work, 1, triangular_place, &j);
}

/* ------------------------------------------------------------------ QR */

enum { BLOCK = 64 }; /* columns that a blocked routine has room for */

static tn_status qr_place(const tn_stack_place *place, void *ctx) {
  const job *j = ctx;
  tn_matrix r = place->matrices[0];
  int m = (int)place->matrices[1].rows, n = (int)place->matrices[1].columns, info = 0;
  int k = (int)smaller(m, n), q_columns = j->vectors ? (int)place->matrices[2].columns : 0;
  int lwork = (int)larger(n, q_columns) * BLOCK;
  char *memory = place->work;
  void *a = take(&memory, (int64_t)m * larger(n, q_columns), size_of(j)), *tau = take(&memory, k, size_of(j));
  void *work = take(&memory, lwork, size_of(j));
  read_columns(a, place->matrices[1], j);
  int before = ob_single_begin();
  (j->wide ? dgeqrf_ : sgeqrf_)(&m, &n, a, &m, tau, work, &lwork, &info);
  for (int64_t c = 0; c < n; ++c) { /* R is what lies on and above the diagonal */
    tn_matrix column = {r.data + c * r.column_stride, r.dtype, r.rows, 1, r.row_stride, 0};
    for (int64_t i = 0; i < column.rows; ++i) {
      char *to = column.data + i * column.row_stride;
      if (i <= c)
        memcpy(to, at(a, c * m + i, j), size_of(j));
      else
        memset(to, 0, size_of(j));
    }
  }
  if (j->vectors) {
    (j->wide ? dorgqr_ : sorgqr_)(&m, &q_columns, &k, a, &m, tau, work, &lwork, &info);
    write_columns(place->matrices[2], a, m, j);
  }
  ob_single_end(before);
  return TN_OK;
}

/* args: A mode */
tn_status ob_qr(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[1].u.v, args[0].u.v, out[0].u.v};
  job j = {.wide = views[1]->dtype == TN_FLOAT64, .vectors = strcmp(args[1].u.s, "r") != 0};
  int64_t m = rows_of(views[1]), n = columns_of(views[1]),
          wide = larger(n, j.vectors ? columns_of(views[2]) : 0);
  if (!fits(m, n, LEAST_QR)) return TN_DECLINED;
  size_t work =
      room(m * wide, size_of(&j)) + room(smaller(m, n), size_of(&j)) + room(wide * BLOCK, size_of(&j));
  return tn_stack_each(call, 1, j.vectors ? 3 : 2, views, (const uint8_t[]){2, 2, 2}, work, 1, qr_place, &j);
}

/* ------------------------------------------------------------------ spectra */

static tn_status check_finite(const tn_stack_place *place, const void *a, int64_t n, const job *j) {
  for (int64_t i = 0; i < n; ++i)
    if (!isfinite(value_at(a, i, j)))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "matrix %lld of the stack has an element that is not finite",
                     (long long)place->number);
  return TN_OK;
}

/* Is the element of largest magnitude (the first of equals) negative? */
static bool points_down(const void *x, int64_t n, int64_t stride, const job *j) {
  double best = 0;
  for (int64_t i = 0; i < n; ++i) {
    double value = value_at(x, i * stride, j);
    if (fabs(value) > fabs(best)) best = value;
  }
  return best < 0;
}

static int64_t eigen_work(int64_t n) { return 1 + 6 * n + 2 * n * n; }
static int64_t eigen_ints(int64_t n) { return 3 + 5 * n; }

/* Only one triangle holds what was given; the other is cleared, so that what is not read cannot be what is refused. */
static tn_status eigen_place(const tn_stack_place *place, void *ctx) {
  const job *j = ctx;
  int n = (int)place->matrices[1].rows, info = 0, lwork = (int)eigen_work(n), liwork = (int)eigen_ints(n);
  char *memory = place->work;
  void *a = take(&memory, (int64_t)n * n, size_of(j)), *values = take(&memory, n, size_of(j));
  void *work = take(&memory, lwork, size_of(j));
  int *ints = take(&memory, liwork, sizeof(int));
  read_columns(a, place->matrices[1], j);
  clear_triangle(a, n, !j->upper, j);
  TN_TRY(check_finite(place, a, (int64_t)n * n, j));
  int before = ob_single_begin();
  (j->wide ? dsyevd_ : ssyevd_)(j->vectors ? "V" : "N", j->upper ? "U" : "L", &n, a, &n, values, work, &lwork,
                                ints, &liwork, &info, 1, 1);
  ob_single_end(before);
  if (info != 0) return TN_DECLINED; /* did not converge: the CPU plugin's rotations do */
  write_rows(place->matrices[0], values, n, size_of(j));
  if (!j->vectors) return TN_OK;
  for (int64_t c = 0; c < n; ++c)
    if (points_down(at(a, c * n, j), n, 1, j)) negate(at(a, c * n, j), n, 1, j);
  write_columns(place->matrices[2], a, n, j);
  return TN_OK;
}

/* args: A UPLO compute_v */
tn_status ob_eigh(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[0].u.v, args[0].u.v, out[1].u.v};
  int64_t n = rows_of(views[1]);
  if (!fits(n, n, LEAST_SPECTRUM)) return TN_DECLINED;
  job j = {.wide = views[1]->dtype == TN_FLOAT64, .upper = args[1].u.s[0] == 'U', .vectors = args[2].u.i};
  size_t work = room(n * n, size_of(&j)) + room(n, size_of(&j)) + room(eigen_work(n), size_of(&j)) +
                room(eigen_ints(n), sizeof(int));
  return tn_stack_each(call, 1, j.vectors ? 3 : 2, views, (const uint8_t[]){1, 2, 2}, work, 1, eigen_place,
                       &j);
}

/* What the routine's text asks for, for every job. */
static int64_t svd_work(int64_t m, int64_t n) {
  int64_t k = smaller(m, n);
  return 4 * k * k + 10 * k + larger(m, n);
}

/* Columns of u and rows of vt have one sign between them; a column or row without a partner has its own. */
static void fix_signs(void *u, int64_t m, int64_t u_columns, void *vt, int64_t n, int64_t vt_rows,
                      const job *j) {
  int64_t k = smaller(m, n);
  for (int64_t c = 0; c < u_columns; ++c) {
    if (!points_down(at(u, c * m, j), m, 1, j)) continue;
    negate(at(u, c * m, j), m, 1, j);
    if (c < k) negate(at(vt, c, j), n, vt_rows, j);
  }
  for (int64_t r = k; r < vt_rows; ++r)
    if (points_down(at(vt, r, j), n, vt_rows, j)) negate(at(vt, r, j), n, vt_rows, j);
}

static tn_status svd_place(const tn_stack_place *place, void *ctx) {
  const job *j = ctx;
  int m = (int)place->matrices[1].rows, n = (int)place->matrices[1].columns, k = (int)smaller(m, n), info = 0;
  int u_columns = j->full ? m : k, vt_rows = j->full ? n : k, lwork = (int)svd_work(m, n);
  const char *what = !j->vectors ? "N" : j->full ? "A" : "S";
  char *memory = place->work;
  void *a = take(&memory, (int64_t)m * n, size_of(j)), *s = take(&memory, k, size_of(j));
  void *u = take(&memory, (int64_t)m * u_columns, size_of(j)),
       *vt = take(&memory, (int64_t)n * vt_rows, size_of(j));
  void *work = take(&memory, lwork, size_of(j));
  int *ints = take(&memory, 8 * (int64_t)k, sizeof(int));
  read_columns(a, place->matrices[1], j);
  TN_TRY(check_finite(place, a, (int64_t)m * n, j));
  int before = ob_single_begin();
  (j->wide ? dgesdd_ : sgesdd_)(what, &m, &n, a, &m, s, u, &m, vt, &vt_rows, work, &lwork, ints, &info, 1);
  ob_single_end(before);
  if (info != 0) return TN_DECLINED;
  write_rows(place->matrices[0], s, k, size_of(j));
  if (!j->vectors) return TN_OK;
  fix_signs(u, m, u_columns, vt, n, vt_rows, j);
  write_columns(place->matrices[2], u, m, j);
  write_columns(place->matrices[3], vt, vt_rows, j);
  return TN_OK;
}

/* args: A full_matrices compute_uv driver */
tn_status ob_svd(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *views[] = {out[1].u.v, args[0].u.v, out[0].u.v, out[2].u.v};
  int64_t m = rows_of(views[1]), n = columns_of(views[1]), k = smaller(m, n);
  if (!fits(m, n, LEAST_SPECTRUM)) return TN_DECLINED;
  job j = {.wide = views[1]->dtype == TN_FLOAT64, .full = args[1].u.i && args[2].u.i, .vectors = args[2].u.i};
  size_t size = size_of(&j);
  size_t work = room(m * n, size) + room(k, size) + room(m * (j.full ? m : k), size) +
                room(n * (j.full ? n : k), size) + room(svd_work(m, n), size) + room(8 * k, sizeof(int));
  return tn_stack_each(call, 1, j.vectors ? 4 : 2, views, (const uint8_t[]){1, 2, 2, 2}, work, 1, svd_place,
                       &j);
}

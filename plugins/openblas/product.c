/* SPDX-License-Identifier: Apache-2.0
 *
 * Products as OpenBLAS takes them: views become layouts and leading dims, the table says whether and in which
 * pieces, the host's threads run the pieces. Every reason to decline is known before the first write.
 *
 * Note [Pieces]
 * OpenBLAS may sum an element in another order when the piece around it has another size. So pieces have
 * borders that depend on shapes alone (table.c); the number of threads only decides who computes which. The
 * CPU plugin, which has no such dependence, cuts as it likes.
 */
#include "plugins/openblas/product.h"

#include <cblas.h>
#include <limits.h>
#include <string.h>
#include <tenon/kit/dtype.h>
#include <tenon/kit/iter.h>

#include "plugins/openblas/table.h"

/* A stack of matrices; strides in elements. */
typedef struct matrix {
  char *data;
  int64_t batch, row, col;
} matrix;

/* c = beta c + alpha (a @ b), `batch` times. */
typedef struct product {
  int64_t m, n, k, batch;
  matrix a, b, c;
  double alpha, beta;
  bool wide;
} product;

/* ------------------------------------------------------------------ layouts */

/* How one operand is handed over: unit stride along rows (not transposed) or down columns. */
typedef struct layout {
  bool transposed;
  int64_t lead;
} layout;

static bool layout_rows(const matrix *x, int64_t rows, int64_t cols, layout *out) {
  if (x->col != 1 && cols > 1) return false;
  *out = (layout){false, rows > 1 ? x->row : cols};
  return out->lead >= cols && out->lead <= INT_MAX;
}

static bool layout_of(const matrix *x, int64_t rows, int64_t cols, layout *out) {
  if (layout_rows(x, rows, cols, out)) return true;
  matrix turned = {x->data, x->batch, x->col, x->row};
  bool fits = layout_rows(&turned, cols, rows, out);
  out->transposed = true;
  return fits;
}

/* The same product with c transposed. */
static void turn(product *p) {
  product t = *p;
  p->m = t.n, p->n = t.m;
  p->a = (matrix){t.b.data, t.b.batch, t.b.col, t.b.row};
  p->b = (matrix){t.a.data, t.a.batch, t.a.col, t.a.row};
  p->c = (matrix){t.c.data, t.c.batch, t.c.col, t.c.row};
}

static char *at(const product *p, const matrix *x, int64_t batch, int64_t row, int64_t col) {
  return x->data + (batch * x->batch + row * x->row + col * x->col) * (p->wide ? 8 : 4);
}

/* ------------------------------------------------------------------ pieces */

typedef struct job {
  const product *p;
  layout a, b, c;
  ob_plan plan;
  int64_t across, pieces; /* in a row of pieces, and in one matrix */
} job;

static void run_matrices(const job *j, int64_t batch, int64_t row, int64_t col, int64_t m, int64_t n) {
  const product *p = j->p;
  CBLAS_TRANSPOSE ta = j->a.transposed ? CblasTrans : CblasNoTrans,
                  tb = j->b.transposed ? CblasTrans : CblasNoTrans;
  const void *a = at(p, &p->a, batch, row, 0), *b = at(p, &p->b, batch, 0, col);
  void *c = at(p, &p->c, batch, row, col);
  int lda = (int)j->a.lead, ldb = (int)j->b.lead, ldc = (int)j->c.lead;
  if (p->wide)
    cblas_dgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)p->k, p->alpha, a, lda, b, ldb, p->beta, c, ldc);
  else
    cblas_sgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)p->k, (float)p->alpha, a, lda, b, ldb,
                (float)p->beta, c, ldc);
}

/* beta 0 must hide NaN in old memory, and versions of OpenBLAS differ in that here: zeros are added to
 * instead. */
static void clear(const product *p, char *c, int64_t m) {
  int64_t size = p->wide ? 8 : 4;
  if (p->c.row == 1) {
    memset(c, 0, (size_t)(m * size));
    return;
  }
  for (int64_t i = 0; i < m; ++i) memset(c + i * p->c.row * size, 0, (size_t)size);
}

static void run_vector(const job *j, int64_t batch, int64_t row, int64_t m) {
  const product *p = j->p;
  bool turned = j->a.transposed;
  CBLAS_TRANSPOSE ta = turned ? CblasTrans : CblasNoTrans;
  const void *a = at(p, &p->a, batch, row, 0), *x = at(p, &p->b, batch, 0, 0);
  char *y = at(p, &p->c, batch, row, 0);
  int rows = (int)(turned ? p->k : m), cols = (int)(turned ? m : p->k), lda = (int)j->a.lead;
  int incx = (int)p->b.row, incy = (int)p->c.row;
  double beta = p->beta == 0 ? 1 : p->beta;
  if (p->beta == 0) clear(p, y, m);
  if (p->wide)
    cblas_dgemv(CblasRowMajor, ta, rows, cols, p->alpha, a, lda, x, incx, beta, (double *)y, incy);
  else
    cblas_sgemv(CblasRowMajor, ta, rows, cols, (float)p->alpha, a, lda, x, incx, (float)beta, (float *)y,
                incy);
}

static tn_status run_pieces(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const job *j = ctx;
  int before = ob_single_begin();
  for (int64_t i = begin; i < end; ++i) {
    int64_t batch = i / j->pieces, place = i % j->pieces;
    int64_t row = place / j->across * j->plan.rows, col = place % j->across * j->plan.columns;
    int64_t m = j->p->m - row < j->plan.rows ? j->p->m - row : j->plan.rows;
    int64_t n = j->p->n - col < j->plan.columns ? j->p->n - col : j->plan.columns;
    if (j->p->n == 1)
      run_vector(j, batch, row, m);
    else
      run_matrices(j, batch, row, col, m, n);
  }
  ob_single_end(before);
  return TN_OK;
}

static tn_status run(job *j) {
  /* Fewest multiply-adds worth a thread, as in the CPU plugin; and OpenBLAS keeps a block of memory for each
   * call that runs, of which it has some hundreds. */
  enum { PIECE_WORK = 1 << 19, CALLS_MOST = 64 };
  const product *p = j->p;
  j->across = (p->n + j->plan.columns - 1) / j->plan.columns;
  j->pieces = j->across * ((p->m + j->plan.rows - 1) / j->plan.rows);
  int64_t n = j->pieces * p->batch;
  if (n == 1) return run_pieces(0, 1, 0, j);
  double work = (double)j->plan.rows * (double)j->plan.columns * (double)p->k * (p->n == 1 ? 8 : 1);
  int64_t grain = 1 + (int64_t)(PIECE_WORK / work);
  int64_t least = (n + CALLS_MOST - 1) / CALLS_MOST;
  return tn_kit_host()->parallel_for(n, grain > least ? grain : least, run_pieces, j);
}

/* ------------------------------------------------------------------ whether */

static bool plan_vector(job *j) {
  const product *p = j->p;
  ob_shape shape = {p->m, 1, p->k, p->wide, j->a.transposed, false};
  if (p->b.row < 1 || p->c.row < 1 || p->b.row > INT_MAX || p->c.row > INT_MAX) return false;
  j->plan = ob_plan_vector(ob_library_core(), &shape);
  return j->plan.rows > 0;
}

static bool plan_matrices(job *j) {
  const product *p = j->p;
  ob_shape shape = {p->m, p->n, p->k, p->wide, j->a.transposed, j->b.transposed};
  if (!layout_of(&p->b, p->k, p->n, &j->b)) return false;
  shape.b_transposed = j->b.transposed;
  j->plan = ob_plan_matrices(ob_library_core(), &shape);
  return j->plan.rows > 0;
}

/* Turns the product so that its result lies in rows (or is a column), and asks the table. alpha 0 and k 0
 * have rules of their own (NaN times 0 is NaN; BLAS says 0): not here. */
static bool plan(product *p, job *j) {
  *j = (job){.p = p};
  if (p->m > INT_MAX || p->n > INT_MAX || p->k > INT_MAX || p->k == 0 || p->alpha == 0) return false;
  if (p->m == 1 || (p->n > 1 && p->c.col != 1 && p->c.row == 1)) turn(p);
  bool column = p->n == 1;
  if (!column && !(layout_rows(&p->c, p->m, p->n, &j->c))) return false;
  if (!layout_of(&p->a, p->m, p->k, &j->a)) return false;
  return (column ? plan_vector(j) : plan_matrices(j)) && ob_library_single();
}

/* ------------------------------------------------------------------ operators */

static matrix matrix_of(const tn_view *v) {
  uint32_t n = v->ndim;
  return (matrix){v->data, n == 3 ? v->strides[0] : 0, v->strides[n - 2], v->strides[n - 1]};
}

static void copy_loop(void *ctx, char **data, const int64_t *strides, int64_t n) {
  size_t size = *(const size_t *)ctx;
  char *dst = data[0];
  const char *src = data[1];
  if (strides[0] == (int64_t)size && strides[1] == (int64_t)size) {
    memcpy(dst, src, (size_t)n * size);
    return;
  }
  for (int64_t i = 0; i < n; ++i) memcpy(dst + i * strides[0], src + i * strides[1], size);
}

static tn_status copy(const tn_view *result, const tn_view *self) {
  enum { GRAIN = 32768 };
  const tn_view *views[] = {result, self};
  size_t size = result->itemsize;
  return tn_iter_each(1, 2, views, GRAIN, copy_loop, &size);
}

/* result = beta self + alpha (a @ b); self (may be NULL) broadcasts; beta 0 ignores it. */
static tn_status multiply(const tn_view *result, const tn_view *self, const tn_view *a, const tn_view *b,
                          double beta, double alpha) {
  tn_dtype dtype = result->dtype;
  uint32_t nd = result->ndim;
  if (ob_too_small(result->sizes[nd - 2], result->sizes[nd - 1], a->sizes[nd - 1]))
    return TN_DECLINED;
  if (a->dtype != dtype || b->dtype != dtype || (self && self->dtype != dtype)) return TN_DECLINED;
  bool adds = self && beta != 0;
  product p = {.m = result->sizes[nd - 2],
               .n = result->sizes[nd - 1],
               .k = a->sizes[nd - 1],
               .batch = nd == 3 ? result->sizes[0] : 1, /* may be 0: no pieces */
               .a = matrix_of(a),
               .b = matrix_of(b),
               .c = matrix_of(result),
               .alpha = alpha,
               .beta = adds ? beta : 0,
               .wide = dtype == TN_FLOAT64};
  job j;
  if (!plan(&p, &j)) return TN_DECLINED;
  if (adds && self->data != result->data) TN_TRY(copy(result, self));
  return run(&j);
}

tn_status ob_mm(tn_call *call, const tn_value *args, tn_value *out) {
  return multiply(out[0].u.v, NULL, args[0].u.v, args[1].u.v, 0, 1);
}

static double number(const tn_value *v) {
  return v->kind == TN_VAL_NONE ? 1 : v->kind == TN_VAL_FLOAT ? v->u.f : (double)v->u.i;
}

tn_status ob_addmm(tn_call *call, const tn_value *args, tn_value *out) {
  return multiply(out[0].u.v, args[0].u.v, args[1].u.v, args[2].u.v, number(&args[3]), number(&args[4]));
}

/* A vector as a matrix of one column. */
typedef struct column {
  tn_view view;
  tn_dim sizes[2], strides[2];
} column;

static void column_of(column *out, const tn_view *v) {
  out->view = *v;
  out->view.ndim = 2;
  out->view.sizes = out->sizes;
  out->view.strides = out->strides;
  out->sizes[0] = v->sizes[0], out->sizes[1] = 1;
  out->strides[0] = v->strides[0], out->strides[1] = 1;
}

tn_status ob_mv(tn_call *call, const tn_value *args, tn_value *out) {
  column result, vector;
  column_of(&result, out[0].u.v);
  column_of(&vector, args[1].u.v);
  return multiply(&result.view, NULL, args[0].u.v, &vector.view, 0, 1);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Factorisations in double, by elimination as it is taught. Of QR, eigenvalues and singular values only the shapes are
 * here: test_factor.c checks what defines them.
 */
#include <math.h>
#include <string.h>

#include "ref.h"

/* Row-major copy with the stack as one number: matrix b is p + b * rows * columns. */
typedef struct stack {
  double *p;
  int64_t n, rows, columns;
} stack;

static stack stack_of(const rt *t) {
  stack s = {.p = rt_copy(t)->p, .n = 1, .rows = t->n[t->nd - 2], .columns = t->n[t->nd - 1]};
  for (int d = 0; d < t->nd - 2; d++) s.n *= t->n[d];
  return s;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* t's stack, then `behind` sizes. */
static rt *stacked(const rt *t, int behind, int64_t rows, int64_t columns) {
  int64_t n[RT_RANK];
  memcpy(n, t->n, (size_t)(t->nd - 2) * sizeof *n);
  if (behind == 2) n[t->nd - 2] = rows;
  if (behind > 0) n[t->nd - 3 + behind] = columns;
  return rt_new(t->nd - 2 + behind, n);
}

/* ------------------------------------------------------------------ elimination */

/* PA = LU in place; at[i] is the row of A that ended as row i. */
static void eliminate(double *a, int64_t m, int64_t n, bool pivot, int32_t *pivots, double *sign) {
  *sign = 1;
  for (int64_t k = 0; k < smaller(m, n); k++) {
    int64_t p = k;
    for (int64_t i = k; pivot && i < m; i++)
      if (fabs(a[i * n + k]) > fabs(a[p * n + k])) p = i;
    pivots[k] = (int32_t)p + 1;
    if (p != k) *sign = -*sign;
    for (int64_t j = 0; p != k && j < n; j++) {
      double x = a[k * n + j];
      a[k * n + j] = a[p * n + j];
      a[p * n + j] = x;
    }
    for (int64_t i = k + 1; i < m && a[k * n + k] != 0; i++) {
      a[i * n + k] /= a[k * n + k];
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= a[i * n + k] * a[k * n + j];
    }
  }
}

static void op_lu(ref_call *c) {
  stack s = stack_of(ref_t(c, 0));
  int64_t k = smaller(s.rows, s.columns);
  rt *lu = stacked(ref_t(c, 0), 2, s.rows, s.columns), *pivots = stacked(ref_t(c, 0), 1, 0, k);
  rt *info = stacked(ref_t(c, 0), 0, 0, 0);
  int32_t *p = ref_alloc((size_t)(k + 1) * sizeof *p);
  for (int64_t b = 0; b < s.n; b++) {
    double sign, *a = s.p + b * s.rows * s.columns;
    eliminate(a, s.rows, s.columns, ref_f(c, 1) != 0, p, &sign);
    memcpy(lu->p + b * s.rows * s.columns, a, (size_t)(s.rows * s.columns) * sizeof *a);
    for (int64_t i = 0; i < k; i++) pivots->p[b * k + i] = p[i];
  }
  ref_out(c, lu), ref_out(c, pivots), ref_out(c, info);
}

/* Gauss-Jordan on [a | b], the largest element of each column first: x replaces b. */
static void solve(double *a, int64_t n, double *b, int64_t k) {
  for (int64_t c = 0; c < n; c++) {
    int64_t p = c;
    for (int64_t i = c; i < n; i++)
      if (fabs(a[i * n + c]) > fabs(a[p * n + c])) p = i;
    for (int64_t j = 0; j < n + k; j++) {
      double *x = j < n ? &a[c * n + j] : &b[c * k + j - n], *y = j < n ? &a[p * n + j] : &b[p * k + j - n];
      double t = *x;
      *x = *y, *y = t;
    }
    for (int64_t i = 0; i < n; i++) {
      double f = i == c ? 0 : a[i * n + c] / a[c * n + c];
      for (int64_t j = 0; j < n; j++) a[i * n + j] -= f * a[c * n + j];
      for (int64_t j = 0; j < k; j++) b[i * k + j] -= f * b[c * k + j];
    }
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < k; j++) b[i * k + j] /= a[i * n + i];
}

static rt *turned(const rt *t) {
  rt *v = rt_view(t);
  int a = t->nd - 2, b = t->nd - 1;
  v->n[a] = t->n[b], v->n[b] = t->n[a];
  v->st[a] = t->st[b], v->st[b] = t->st[a];
  return rt_copy(v);
}

/* a x = b for stacks that broadcast. */
static rt *solved(const rt *a, const rt *b) {
  rt *la = rt_view(a), *lb = rt_view(b);
  int64_t n[RT_RANK];
  la->nd -= 2, lb->nd -= 2;
  int lead = rt_broadcast(la, lb, n);
  memcpy(n + lead, a->n + a->nd - 2, 2 * sizeof *n);
  stack x = stack_of(rt_expand(a, lead + 2, n));
  memcpy(n + lead, b->n + b->nd - 2, 2 * sizeof *n);
  rt *out = rt_copy(rt_expand(b, lead + 2, n));
  int64_t size = n[lead] * n[lead + 1];
  for (int64_t i = 0; i < x.n; i++) solve(x.p + i * x.rows * x.rows, x.rows, out->p + i * size, n[lead + 1]);
  return out;
}

static rt *solved_on(const rt *a, const rt *b, bool left) {
  return left ? solved(a, b) : turned(solved(turned(a), turned(b)));
}

/* Keeps one triangle of a copy of t; unit: ones on the diagonal. */
static rt *triangle(const rt *t, bool upper, bool unit) {
  rt *out = rt_copy(t);
  int64_t n = t->n[t->nd - 1];
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t row = i / n % n, column = i % n;
    if (upper ? row > column : row < column) out->p[i] = 0;
    if (unit && row == column) out->p[i] = 1;
  }
  return out;
}

static void op_triangular(ref_call *c) {
  rt *t = triangle(ref_t(c, 0), ref_f(c, 2) != 0, ref_f(c, 4) != 0);
  ref_out(c, solved_on(t, ref_t(c, 1), ref_f(c, 3) != 0));
}

/* P L U by multiplying, then any way of solving. */
static void op_lu_solve(ref_call *c) {
  const rt *lu = ref_t(c, 0), *pivots = ref_t(c, 1);
  rt *a = rt_matmul(triangle(lu, false, true), triangle(lu, true, false));
  int64_t n = lu->n[lu->nd - 1];
  for (int64_t b = 0; b * n * n < a->numel; b++)
    for (int64_t k = n; k-- > 0;) {
      int64_t p = (int64_t)*rt_at(pivots, b * n + k) - 1;
      for (int64_t j = 0; j < n; j++) {
        double *x = &a->p[b * n * n + k * n + j], *y = &a->p[b * n * n + p * n + j], t = *x;
        *x = *y, *y = t;
      }
    }
  ref_out(c, solved_on(ref_f(c, 4) != 0 ? turned(a) : a, ref_t(c, 2), ref_f(c, 3) != 0));
}

static void op_solve(ref_call *c) {
  const rt *a = ref_t(c, 0), *b = ref_t(c, 1);
  bool vectors = b->nd == 1 || (a->nd == b->nd + 1 && memcmp(a->n, b->n, (size_t)b->nd * sizeof *b->n) == 0);
  if (!vectors) {
    ref_out(c, solved_on(a, b, ref_f(c, 2) != 0));
    return;
  }
  rt *column = rt_copy(b);
  column->n[column->nd] = 1, column->st[column->nd++] = 1;
  rt *x = solved(a, column);
  x->nd--;
  ref_out(c, rt_copy(x));
}

static void op_inv(ref_call *c) {
  rt *eye = stacked(ref_t(c, 0), 2, ref_t(c, 0)->n[ref_t(c, 0)->nd - 1], ref_t(c, 0)->n[ref_t(c, 0)->nd - 1]);
  int64_t n = eye->n[eye->nd - 1];
  for (int64_t i = 0; i < eye->numel; i++) eye->p[i] = i / n % n == i % n;
  ref_out(c, solved(ref_t(c, 0), eye));
}

/* ------------------------------------------------------------------ determinants */

/* By the first row: no elimination. */
static double determinant(const double *a, int64_t n) {
  double sum = 0, *minor = ref_alloc((size_t)(n * n + 1) * sizeof *minor);
  if (n == 0) return 1;
  for (int64_t c = 0; c < n; c++) {
    for (int64_t i = 1; i < n; i++)
      for (int64_t j = 0, to = 0; j < n; j++)
        if (j != c) minor[(i - 1) * (n - 1) + to++] = a[i * n + j];
    sum += (c % 2 ? -1 : 1) * a[c] * determinant(minor, n - 1);
  }
  return sum;
}

static rt *determinants(const rt *t) {
  stack s = stack_of(t);
  rt *out = stacked(t, 0, 0, 0);
  for (int64_t b = 0; b < s.n; b++) out->p[b] = determinant(s.p + b * s.rows * s.rows, s.rows);
  return out;
}

static void op_det(ref_call *c) { ref_out(c, determinants(ref_t(c, 0))); }

static double sign_of(double x) { return (x > 0) - (x < 0); }
static double log_abs(double x) { return log(fabs(x)); }
static void op_slogdet(ref_call *c) {
  rt *d = determinants(ref_t(c, 0));
  ref_out(c, rt_map(d, sign_of));
  ref_out(c, rt_map(d, log_abs));
}

/* ------------------------------------------------------------------ Cholesky */

static rt *cholesky(const rt *t, bool upper) {
  stack s = stack_of(upper ? turned(t) : t);
  rt *out = stacked(t, 2, s.rows, s.rows);
  for (int64_t b = 0; b < s.n; b++) {
    double *l = out->p + b * s.rows * s.rows, *a = s.p + b * s.rows * s.rows;
    for (int64_t j = 0; j < s.rows; j++)
      for (int64_t i = j; i < s.rows; i++) {
        double sum = a[i * s.rows + j];
        for (int64_t k = 0; k < j; k++) sum -= l[i * s.rows + k] * l[j * s.rows + k];
        l[i * s.rows + j] = i == j ? sqrt(sum) : sum / l[j * s.rows + j];
      }
  }
  return upper ? turned(out) : out;
}

static void op_cholesky(ref_call *c) { ref_out(c, cholesky(ref_t(c, 0), ref_f(c, 1) != 0)); }
static void op_cholesky_ex(ref_call *c) {
  op_cholesky(c);
  ref_out(c, stacked(ref_t(c, 0), 0, 0, 0));
}

/* ------------------------------------------------------------------ shapes */

static rt *shape_only(rt *t) {
  t->check = REF_SHAPE;
  return t;
}
static rt *nothing(void) { return rt_new(1, (int64_t[]){0}); }

static void op_qr(ref_call *c) {
  const rt *a = ref_t(c, 0);
  int64_t m = a->n[a->nd - 2], n = a->n[a->nd - 1], k = smaller(m, n);
  if (strcmp(c->args[1].s, "complete") == 0) k = m;
  ref_out(c, strcmp(c->args[1].s, "r") == 0 ? nothing() : shape_only(stacked(a, 2, m, k)));
  ref_out(c, shape_only(stacked(a, 2, k, n)));
}

static void op_eigvalsh(ref_call *c) {
  const rt *a = ref_t(c, 0);
  ref_out(c, shape_only(stacked(a, 1, 0, a->n[a->nd - 1])));
}
static void op_eigh(ref_call *c) {
  const rt *a = ref_t(c, 0);
  op_eigvalsh(c);
  bool vectors = c->n_args < 3 || ref_f(c, 2) != 0;
  ref_out(c, vectors ? shape_only(stacked(a, 2, a->n[a->nd - 1], a->n[a->nd - 1])) : nothing());
}

static void svd_shapes(ref_call *c, bool full, bool vectors) {
  const rt *a = ref_t(c, 0);
  int64_t m = a->n[a->nd - 2], n = a->n[a->nd - 1], k = smaller(m, n);
  ref_out(c, vectors ? shape_only(stacked(a, 2, m, full ? m : k)) : nothing());
  ref_out(c, shape_only(stacked(a, 1, 0, k)));
  ref_out(c, vectors ? shape_only(stacked(a, 2, full ? n : k, n)) : nothing());
}
static void op_svd_part(ref_call *c) { svd_shapes(c, ref_f(c, 1) != 0, ref_f(c, 2) != 0); }
static void op_svd(ref_call *c) { svd_shapes(c, ref_f(c, 1) != 0, true); }
static void op_svdvals(ref_call *c) {
  const rt *a = ref_t(c, 0);
  ref_out(c, shape_only(stacked(a, 1, 0, smaller(a->n[a->nd - 2], a->n[a->nd - 1]))));
}

const ref_entry ref_factor[] = {
    {"linalg_cholesky_ex", op_cholesky_ex},
    {"linalg_cholesky", op_cholesky},
    {"linalg_lu_factor_ex", op_lu},
    {"linalg_lu_solve", op_lu_solve},
    {"linalg_solve_triangular", op_triangular},
    {"linalg_solve", op_solve},
    {"linalg_inv", op_inv},
    {"linalg_det", op_det},
    {"linalg_slogdet", op_slogdet},
    {"linalg_qr", op_qr},
    {"_linalg_eigh", op_eigh},
    {"linalg_eigh", op_eigh},
    {"linalg_eigvalsh", op_eigvalsh},
    {"_linalg_svd", op_svd_part},
    {"linalg_svd", op_svd},
    {"linalg_svdvals", op_svdvals},
    {NULL, NULL},
};

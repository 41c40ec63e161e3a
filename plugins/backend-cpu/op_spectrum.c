/* SPDX-License-Identifier: Apache-2.0
 *
 * Orthogonal factorisations: QR by reflections, symmetric eigenvalues and singular values by Jacobi's rotations. Slower
 * than what LAPACK does and as exact; a provider with LAPACK stands in front where speed matters. Golub and Van Loan,
 * Matrix Computations, 4th edition, sections 5.2, 8.5 and 8.6.
 *
 * Note [Signs]
 * Factors are unique but for signs. So that every provider gives the same: reflections have LAPACK's sign; of an
 * eigenvector and of a column of U the element of largest magnitude (the first of equals) is positive.
 */
#include <math.h>

#include "plugins/backend-cpu/matrices.h"

enum { SWEEPS_MOST = 60 }; /* each squares the distance to the goal once it is small: ten are many */

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

static void identity(double *a, int64_t n) {
  memset(a, 0, (size_t)(n * n) * sizeof *a);
  for (int64_t i = 0; i < n; ++i) a[i * n + i] = 1;
}

/* ------------------------------------------------------------------ QR */

/* Norm without overflow. */
static double norm(const double *x, int64_t n) {
  double largest = 0, sum = 0;
  for (int64_t i = 0; i < n; ++i) largest = fmax(largest, fabs(x[i]));
  if (largest == 0 || !isfinite(largest)) return largest;
  for (int64_t i = 0; i < n; ++i) sum += x[i] / largest * (x[i] / largest);
  return largest * sqrt(sum);
}

/* The reflection I - tau v v^T that brings x (n elements) to a multiple of the first axis; v replaces x with v[0] = 1,
 * *out_head is what becomes of x[0]. A vector that is there already is left alone: tau 0. */
static double reflector(double *x, int64_t n, double *out_head) {
  double head = x[0], rest = norm(x + 1, n - 1);
  *out_head = head;
  x[0] = 1;
  if (rest == 0) return 0;
  double length = hypot(head, rest), to = head < 0 ? length : -length;
  for (int64_t i = 1; i < n; ++i) x[i] /= head - to;
  *out_head = to;
  return (to - head) / to;
}

/* rows[i] -= tau v[i] (v^T rows): the reflection applied to n rows of `columns` elements, `stride` apart. */
static void reflect(double tau, const double *v, double *rows, int64_t n, int64_t columns, int64_t stride,
                    double *sum) {
  if (tau == 0) return;
  memset(sum, 0, (size_t)columns * sizeof *sum);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < columns; ++j) sum[j] += v[i] * rows[i * stride + j];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < columns; ++j) rows[i * stride + j] -= tau * v[i] * sum[j];
}

/* Factors a (m x n, becomes R). v holds the reflectors, row k the k-th from element k on; tau their factors. */
static void qr(double *a, int64_t m, int64_t n, double *v, double *tau, double *sum) {
  for (int64_t k = 0; k < m && k < n; ++k) {
    double *x = v + k * m;
    for (int64_t i = k; i < m; ++i) x[i] = a[i * n + k];
    double head;
    tau[k] = reflector(x + k, m - k, &head);
    a[k * n + k] = head;
    for (int64_t i = k + 1; i < m; ++i) a[i * n + k] = 0;
    reflect(tau[k], x + k, a + k * n + k + 1, m - k, n - k - 1, n, sum);
  }
}

/* The first `columns` columns of Q, m x columns. */
static void qr_q(double *q, int64_t m, int64_t columns, int64_t reflectors, const double *v,
                 const double *tau, double *sum) {
  memset(q, 0, (size_t)(m * columns) * sizeof *q);
  for (int64_t i = 0; i < m && i < columns; ++i) q[i * columns + i] = 1;
  for (int64_t k = reflectors; k-- > 0;)
    reflect(tau[k], v + k * m + k, q + k * columns, m - k, columns, columns, sum);
}

typedef struct qr_options {
  bool with_q;
} qr_options;

static tn_status qr_place(const tn_stack_place *place, void *ctx) {
  const qr_options *o = ctx;
  tn_matrix r = place->matrices[0], self = place->matrices[1];
  int64_t m = self.rows, n = self.columns, k = m < n ? m : n, wide = m > n ? m : n;
  double *a = place->work, *v = a + m * n, *tau = v + k * m, *sum = tau + k, *q = sum + wide;
  cpu_matrix_read(a, self);
  qr(a, m, n, v, tau, sum);
  cpu_matrix_write(r, a); /* its first rows */
  if (!o->with_q) return TN_OK;
  tn_matrix out = place->matrices[2];
  qr_q(q, m, out.columns, k, v, tau, sum);
  cpu_matrix_write(out, q);
  return TN_OK;
}

/* args: A mode. Q is the last operand: without it there is nothing of its stack. */
tn_status cpu_op_qr(tn_call *call, const tn_value *args, tn_value *out) {
  qr_options o = {.with_q = strcmp(args[1].u.s, "r") != 0};
  const tn_view *views[] = {out[1].u.v, args[0].u.v, out[0].u.v};
  int64_t m = views[1]->sizes[views[1]->ndim - 2], n = views[1]->sizes[views[1]->ndim - 1];
  int64_t k = m < n ? m : n, wide = m > n ? m : n;
  int64_t work = m * n + k * m + k + wide + (o.with_q ? m * m : 0);
  double flops = 4 * (double)m * (double)n * (double)k;
  return cpu_stacks(call, 1, o.with_q ? 3 : 2, views, (const uint8_t[]){2, 2, 2}, work, flops, qr_place, &o);
}

/* ------------------------------------------------------------------ rotations */

typedef struct rotation {
  double c, s;
} rotation;

/* Makes the off-diagonal element b of [[a, b], [b, d]] zero, by the smaller of the two angles. */
static rotation jacobi(double a, double b, double d) {
  double theta = (d - a) / (2 * b);
  double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
  double c = 1 / sqrt(t * t + 1);
  return (rotation){c, t * c};
}

/* (x, y) becomes (c x - s y, s x + c y). */
static void rotate(rotation r, double *x, double *y, int64_t n, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) {
    double a = x[i * stride], b = y[i * stride];
    x[i * stride] = r.c * a - r.s * b;
    y[i * stride] = r.s * a + r.c * b;
  }
}

/* Exchanges the sign of a row where its largest element asks for it; true if it did. */
static bool fix_sign(double *x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i)
    if (fabs(x[i]) > fabs(x[best])) best = i;
  if (n == 0 || x[best] >= 0) return false;
  for (int64_t i = 0; i < n; ++i) x[i] = -x[i];
  return true;
}

/* Positions 0 .. n-1 in the order of keys. */
static void order_by(const double *keys, int64_t n, bool falling, int64_t *order) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t j = i;
    for (; j > 0 && (falling ? keys[i] > keys[order[j - 1]] : keys[i] < keys[order[j - 1]]); --j)
      order[j] = order[j - 1];
    order[j] = i;
  }
}

static tn_status check_finite(const tn_stack_place *place, const double *a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!isfinite(a[i]))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "matrix %lld of the stack has an element that is not finite",
                     (long long)place->number);
  return TN_OK;
}

/* ------------------------------------------------------------------ eigenvalues */

static void mirror_lower(double *a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) a[i * n + j] = a[j * n + i];
}

/* One rotation in the plane (p, q) of the symmetric a; rows of v follow. */
static void rotate_plane(double *a, double *v, int64_t n, int64_t p, int64_t q) {
  rotation r = jacobi(a[p * n + p], a[p * n + q], a[q * n + q]);
  rotate(r, a + p * n, a + q * n, n, 1);
  rotate(r, a + p, a + q, n, n);
  a[p * n + q] = a[q * n + p] = 0;
  rotate(r, v + p * n, v + q * n, n, 1);
}

/* Diagonalises a in place; rows of v become eigenvectors. Sweeps until a whole one finds nothing to rotate: an element
 * that adds nothing to either diagonal element beside it counts as 0. */
static void eigen(double *a, double *v, int64_t n) {
  bool rotated = true;
  identity(v, n);
  for (int sweep = 0; rotated && sweep < SWEEPS_MOST; ++sweep) {
    rotated = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        double b = fabs(a[p * n + q]), least = 0x1p-53 * sqrt(fabs(a[p * n + p])) * sqrt(fabs(a[q * n + q]));
        if (b <= least || b < 0x1p-1000) continue;
        rotate_plane(a, v, n, p, q);
        rotated = true;
      }
  }
}

typedef struct eigen_options {
  bool upper, vectors;
} eigen_options;

static tn_status eigen_place(const tn_stack_place *place, void *ctx) {
  const eigen_options *o = ctx;
  tn_matrix values = place->matrices[0], self = place->matrices[1];
  int64_t n = self.rows;
  double *a = place->work, *v = a + n * n, *keys = v + n * n, *sorted = keys + n;
  int64_t *order = (int64_t *)(void *)(sorted + n);
  cpu_matrix_read(a, o->upper ? tn_matrix_turned(self) : self);
  mirror_lower(a, n);
  TN_TRY(check_finite(place, a, n * n));
  eigen(a, v, n);
  for (int64_t i = 0; i < n; ++i) keys[i] = a[i * n + i];
  order_by(keys, n, false, order);
  for (int64_t i = 0; i < n; ++i) sorted[i] = keys[order[i]];
  cpu_matrix_write(values, sorted);
  if (!o->vectors) return TN_OK;
  for (int64_t i = 0; i < n; ++i) {
    fix_sign(v + order[i] * n, n);
    memcpy(a + i * n, v + order[i] * n, (size_t)n * sizeof *a);
  }
  cpu_matrix_write(tn_matrix_turned(place->matrices[2]), a);
  return TN_OK;
}

/* args: A UPLO compute_v */
tn_status cpu_op_eigh(tn_call *call, const tn_value *args, tn_value *out) {
  eigen_options o = {.upper = args[1].u.s[0] == 'U', .vectors = args[2].u.i};
  const tn_view *views[] = {out[0].u.v, args[0].u.v, out[1].u.v};
  int64_t n = views[1]->sizes[views[1]->ndim - 1];
  double flops = 50 * (double)n * (double)n * (double)n;
  return cpu_stacks(call, 1, o.vectors ? 3 : 2, views, (const uint8_t[]){1, 2, 2}, 2 * n * n + 3 * n, flops,
                    eigen_place, &o);
}

/* ------------------------------------------------------------------ singular values */

/* One-sided: rotates the rows of a (k x n) until they are orthogonal; rows of u (k x k) follow. */
static void orthogonalise(double *a, double *u, int64_t k, int64_t n) {
  bool rotated = true;
  identity(u, k);
  for (int sweep = 0; rotated && sweep < SWEEPS_MOST; ++sweep) {
    rotated = false;
    for (int64_t p = 0; p < k; ++p)
      for (int64_t q = p + 1; q < k; ++q) {
        double *x = a + p * n, *y = a + q * n;
        double aa = dot(x, x, n), bb = dot(y, y, n), ab = dot(x, y, n);
        if (fabs(ab) <= 0x1p-52 * sqrt(aa) * sqrt(bb) || fabs(ab) < 0x1p-1000) continue;
        rotation r = jacobi(aa, ab, bb);
        rotate(r, x, y, n, 1);
        rotate(r, u + p * k, u + q * k, k, 1);
        rotated = true;
      }
  }
}

/* Row i of q (rows of n elements, orthonormal before i): the first axis that is far enough from them, made orthogonal.
 * Twice, since once leaves rounding. */
static void complete_row(double *q, int64_t i, int64_t n) {
  double *row = q + i * n;
  for (int64_t axis = 0; axis < n; ++axis) {
    memset(row, 0, (size_t)n * sizeof *row);
    row[axis] = 1;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = 0; j < i; ++j) {
        double d = dot(row, q + j * n, n);
        for (int64_t c = 0; c < n; ++c) row[c] -= d * q[j * n + c];
      }
    double length = norm(row, n);
    if (length * length * (double)n < 0.5) continue; /* some axis has at least 1/n outside i < n directions */
    for (int64_t c = 0; c < n; ++c) row[c] /= length;
    return;
  }
}

/* Where the decomposition is worked out. */
typedef struct svd_space {
  double *a, *u, *left, *right, *keys, *sorted;
  int64_t *order;
} svd_space;

static svd_space svd_space_of(double *work, int64_t k, int64_t n) {
  svd_space s = {.a = work};
  s.u = s.a + k * n;
  s.left = s.u + k * k;
  s.right = s.left + k * k;
  s.keys = s.right + n * n;
  s.sorted = s.keys + k;
  s.order = (int64_t *)(void *)(s.sorted + k);
  return s;
}

/* Of a (k x n, k <= n): a = left^T diag(sorted) right, rows of left and right orthonormal; `rows` of right are wanted. */
static void svd(const svd_space *s, int64_t k, int64_t n, int64_t rows) {
  orthogonalise(s->a, s->u, k, n);
  for (int64_t i = 0; i < k; ++i) s->keys[i] = norm(s->a + i * n, n);
  order_by(s->keys, k, true, s->order);
  double least = k ? s->keys[s->order[0]] * 0x1p-52 * (double)n : 0;
  for (int64_t i = 0; i < rows; ++i) {
    int64_t from = i < k ? s->order[i] : 0;
    double value = i < k ? s->keys[from] : 0;
    if (i < k) {
      s->sorted[i] = value;
      memcpy(s->left + i * k, s->u + from * k, (size_t)k * sizeof(double));
    }
    if (value > least)
      for (int64_t c = 0; c < n; ++c) s->right[i * n + c] = s->a[from * n + c] / value;
    else
      complete_row(s->right, i, n);
  }
}

static void flip(double *row, int64_t n) {
  for (int64_t c = 0; c < n; ++c) row[c] = -row[c];
}

/* See Note [Signs]: u decides, v follows; rows of u without a partner are on their own. */
static void fix_signs(double *u, int64_t n_u, int64_t rows_u, double *v, int64_t n_v, int64_t rows_v) {
  for (int64_t i = 0; i < rows_u; ++i)
    if (fix_sign(u + i * n_u, n_u) && i < rows_v && i < rows_u && i < n_u && i < n_v) flip(v + i * n_v, n_v);
  for (int64_t i = n_u < n_v ? n_u : n_v; i < rows_v; ++i) fix_sign(v + i * n_v, n_v);
}

typedef struct svd_options {
  bool full, vectors;
} svd_options;

/* A wide matrix as it is, a tall one turned: its U is then what was found on the right. */
static tn_status svd_place(const tn_stack_place *place, void *ctx) {
  const svd_options *o = ctx;
  tn_matrix self = place->matrices[1];
  bool tall = self.rows > self.columns;
  if (tall) self = tn_matrix_turned(self);
  int64_t k = self.rows, n = self.columns, rows = o->full ? n : k;
  svd_space s = svd_space_of(place->work, k, n);
  cpu_matrix_read(s.a, self);
  TN_TRY(check_finite(place, s.a, k * n));
  svd(&s, k, n, rows);
  cpu_matrix_write(place->matrices[0], s.sorted);
  if (!o->vectors) return TN_OK;
  if (tall)
    fix_signs(s.right, n, rows, s.left, k, k);
  else
    fix_signs(s.left, k, k, s.right, n, rows);
  cpu_matrix_write(tn_matrix_turned(place->matrices[2]), tall ? s.right : s.left);
  cpu_matrix_write(place->matrices[3], tall ? s.left : s.right);
  return TN_OK;
}

/* args: A full_matrices compute_uv driver */
tn_status cpu_op_svd(tn_call *call, const tn_value *args, tn_value *out) {
  svd_options o = {.full = args[1].u.i && args[2].u.i, .vectors = args[2].u.i};
  const tn_view *views[] = {out[1].u.v, args[0].u.v, out[0].u.v, out[2].u.v};
  int64_t m = views[1]->sizes[views[1]->ndim - 2], n = views[1]->sizes[views[1]->ndim - 1];
  int64_t k = m < n ? m : n, wide = m < n ? n : m;
  int64_t work = k * wide + 2 * k * k + wide * wide + 3 * k;
  double flops = 50 * (double)k * (double)k * (double)wide;
  return cpu_stacks(call, 1, o.vectors ? 4 : 2, views, (const uint8_t[]){1, 2, 2, 2}, work, flops, svd_place,
                    &o);
}

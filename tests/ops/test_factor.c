/* SPDX-License-Identifier: Apache-2.0
 *
 * What defines a factorisation, checked on matrices of many shapes: the product is the matrix, factors are orthonormal
 * or triangular, values are in order, signs are the ones that are promised. And what is refused.
 */
#include <math.h>
#include <string.h>
#include <tenon/tenon.h>

#include "tn_test.h"

#define SIZES(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

static tn_scope *open_scope(void) {
  tn_scope *scope = NULL;
  TN_CHECK_OK(tn_scope_begin(&scope));
  return scope;
}

/* Numbers from a fixed sequence in [-1, 1). */
static tn_tensor *numbers(int64_t stack, int64_t m, int64_t n) {
  tn_generator *g = NULL;
  TN_CHECK_OK(tn_generator_default((tn_device){.backend = TN_BACKEND_CPU}, &g));
  TN_CHECK_OK(tn_manual_seed(7 + (uint64_t)(stack * 100 + m * 10 + n)));
  tn_tensor *x = tns_empty(SIZES(stack, m, n), TN_OPTIONS(.dtype = TN_FLOAT64), TN_MEMORY_FORMAT_NONE);
  TN_CHECK_OK(tn_uniform_(x, -1, 1, g));
  return x;
}

static tn_tensor *turned(tn_tensor *x) { return tns_transpose(x, -2, -1); }

static double largest(tn_tensor *x) {
  double value = 0;
  if (tn_tensor_numel(x)) TN_CHECK_OK(tn_tensor_item_double(tns_max(tns_abs(x)), &value));
  return value;
}

static void check_equal(tn_tensor *a, tn_tensor *b) { TN_CHECK(largest(tns_sub(a, b, tn_int(1))) < 1e-12); }

/* Columns orthonormal. */
static void check_orthonormal(tn_tensor *q) {
  tn_tensor *eye = tns_eye(tn_tensor_sizes(q)[tn_tensor_ndim(q) - 1], TN_OPTIONS(.dtype = TN_FLOAT64));
  check_equal(tns_matmul(turned(q), q), tns_expand_as(eye, tns_matmul(turned(q), q)));
}

static double at(tn_tensor *x, int64_t i, int64_t j, int64_t k) {
  const tn_view *v = tn_tensor_view(x);
  return ((const double *)v->data)[i * v->strides[0] + j * v->strides[1] + k * v->strides[2]];
}

/* The element of largest magnitude of every column is positive. */
static void check_signs(tn_tensor *q) {
  const int64_t *n = tn_tensor_sizes(q);
  for (int64_t s = 0; s < n[0]; s++)
    for (int64_t c = 0; c < n[2]; c++) {
      double best = 0;
      for (int64_t r = 0; r < n[1]; r++)
        if (fabs(at(q, s, r, c)) > fabs(best)) best = at(q, s, r, c);
      TN_CHECK(best > 0);
    }
}

static const int64_t shapes[][2] = {{1, 1},  {2, 2}, {3, 3}, {5, 3},   {3, 5},   {9, 9},  {17, 6},
                                    {6, 17}, {1, 4}, {4, 1}, {70, 70}, {90, 60}, {60, 90}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

/* ------------------------------------------------------------------ QR */

static void check_qr(tn_tensor *a, const char *mode) {
  tn_tensor *q = NULL, *r = NULL;
  TN_CHECK_OK(tn_linalg_qr(a, mode, &q, &r));
  tn_scope_add(q), tn_scope_add(r);
  check_equal(tns_matmul(q, r), a);
  check_orthonormal(q);
  check_equal(tns_triu(r, 0), r);
}

TN_TEST(ops_factor_by_hand, qr_is_orthonormal_times_upper) {
  for (int i = 0; i < N_SHAPES; i++) {
    tn_scope *scope = open_scope();
    tn_tensor *a = numbers(2, shapes[i][0], shapes[i][1]);
    check_qr(a, "reduced");
    check_qr(a, "complete");
    TN_CHECK_OK(tn_scope_end(scope));
  }
}

TN_TEST(ops_factor_by_hand, qr_reflects_away_from_the_sign_of_the_head) {
  const double values[2] = {3, 4};
  tn_tensor *a = NULL, *q = NULL, *r = NULL;
  TN_CHECK_OK(tn_tensor_from_host(values, (const tn_dim[]){2, 1}, 2, TN_OPTIONS(.dtype = TN_FLOAT64), &a));
  TN_CHECK_OK(tn_linalg_qr(a, "reduced", &q, &r));
  TN_CHECK_DOUBLE(*(double *)tn_tensor_data(r), -5, 1e-15);
  TN_CHECK_DOUBLE(*(double *)tn_tensor_data(q), -0.6, 1e-15);
  tn_tensor_release(q);
  tn_tensor_release(r);
  tn_tensor_release(a);
}

TN_TEST(ops_factor_by_hand, qr_without_q_gives_the_same_r) {
  tn_scope *scope = open_scope();
  tn_tensor *a = numbers(2, 5, 3), *q[2], *r[2];
  TN_CHECK_OK(tn_linalg_qr(a, "r", &q[0], &r[0]));
  TN_CHECK_OK(tn_linalg_qr(a, "reduced", &q[1], &r[1]));
  for (int i = 0; i < 2; i++) tn_scope_add(q[i]), tn_scope_add(r[i]);
  TN_CHECK_INT(tn_tensor_numel(q[0]), 0);
  check_equal(r[0], r[1]);
  TN_CHECK_FAILS(tn_linalg_qr(a, "some", &q[0], &r[0]), TN_ERR_INVALID_ARGUMENT, "expected mode 'reduced'");
  TN_CHECK_OK(tn_scope_end(scope));
}

/* ------------------------------------------------------------------ eigenvalues */

static tn_tensor *symmetric(int64_t n) {
  tn_tensor *a = numbers(2, n, n);
  return tns_add(a, turned(a), tn_int(1));
}

/* a v = v diag(w) */
static void check_eigh(tn_tensor *a, const char *uplo) {
  tn_tensor *w = NULL, *v = NULL;
  TN_CHECK_OK(tn_linalg_eigh(a, uplo, &w, &v));
  tn_scope_add(w), tn_scope_add(v);
  check_equal(tns_matmul(a, v), tns_mul(v, tns_unsqueeze(w, -2)));
  check_orthonormal(v);
  check_signs(v);
  for (int64_t i = 1; i < tn_tensor_sizes(w)[1]; i++)
    TN_CHECK(((double *)tn_tensor_data(w))[i] >= ((double *)tn_tensor_data(w))[i - 1]);
  check_equal(tns_linalg_eigvalsh(a, uplo), w);
}

TN_TEST(ops_factor_by_hand, eigenvectors_are_orthonormal_and_in_order) {
  const int64_t sizes[] = {1, 2, 3, 8, 21, 70};
  for (int i = 0; i < 6; i++) {
    tn_scope *scope = open_scope();
    tn_tensor *a = symmetric(sizes[i]);
    check_eigh(a, "L");
    check_eigh(a, "U");
    TN_CHECK_OK(tn_scope_end(scope));
  }
}

/* Many equal eigenvalues, and none but 0. */
TN_TEST(ops_factor_by_hand, eigenvalues_may_repeat) {
  tn_scope *scope = open_scope();
  tn_tensor *ones = tns_ones(SIZES(1, 6, 6), TN_OPTIONS(.dtype = TN_FLOAT64));
  check_eigh(ones, "L");
  check_eigh(tns_zeros_like(ones, NULL, TN_MEMORY_FORMAT_NONE), "L");
  TN_CHECK_OK(tn_scope_end(scope));
}

TN_TEST(ops_factor_by_hand, only_one_triangle_is_read) {
  tn_scope *scope = open_scope();
  tn_tensor *a = symmetric(4), *nan = tns_full_like(a, tn_float(NAN), NULL, TN_MEMORY_FORMAT_NONE);
  tn_tensor *half = tns_add(tns_tril(a, 0), tns_triu(nan, 1), tn_int(1));
  /* NaN + 0 stays NaN only above the diagonal: tril of NaN below is 0 */
  check_equal(tns_linalg_eigvalsh(half, "L"), tns_linalg_eigvalsh(a, "L"));
  tn_tensor *w = NULL;
  TN_CHECK_FAILS(tn_linalg_eigvalsh(half, "U", &w), TN_ERR_INVALID_ARGUMENT, "not finite");
  TN_CHECK_FAILS(tn_linalg_eigvalsh(a, "X", &w), TN_ERR_INVALID_ARGUMENT, "expected UPLO");
  TN_CHECK_OK(tn_scope_end(scope));
}

/* ------------------------------------------------------------------ singular values */

static void check_svd(tn_tensor *a, bool full) {
  tn_tensor *u = NULL, *s = NULL, *vh = NULL;
  TN_CHECK_OK(tn_linalg_svd(a, full, NULL, &u, &s, &vh));
  tn_scope_add(u), tn_scope_add(s), tn_scope_add(vh);
  int64_t k = tn_tensor_sizes(s)[1];
  tn_tensor *left = tns_narrow(u, -1, 0, k), *right = tns_narrow(vh, -2, 0, k);
  check_equal(tns_matmul(tns_mul(left, tns_unsqueeze(s, -2)), right), a);
  check_orthonormal(u);
  check_orthonormal(turned(vh));
  check_signs(u);
  for (int64_t i = 0; i < k; i++) {
    double *values = tn_tensor_data(s);
    TN_CHECK(values[i] >= 0 && (i == 0 || values[i] <= values[i - 1]));
  }
  check_equal(tns_linalg_svdvals(a, NULL), s);
}

TN_TEST(ops_factor_by_hand, singular_vectors_are_orthonormal_and_in_order) {
  for (int i = 0; i < N_SHAPES; i++) {
    tn_scope *scope = open_scope();
    tn_tensor *a = numbers(2, shapes[i][0], shapes[i][1]);
    check_svd(a, false);
    check_svd(a, true);
    TN_CHECK_OK(tn_scope_end(scope));
  }
}

/* Vectors of singular values that are 0 come from nowhere in the matrix. */
TN_TEST(ops_factor_by_hand, singular_matrices_have_full_sets_of_vectors) {
  tn_scope *scope = open_scope();
  for (int i = 0; i < N_SHAPES; i++) {
    tn_tensor *a = numbers(1, shapes[i][0], 1), *b = numbers(1, 1, shapes[i][1]);
    check_svd(tns_matmul(a, b), true);
    check_svd(tns_zeros_like(tns_matmul(a, b), NULL, TN_MEMORY_FORMAT_NONE), true);
  }
  TN_CHECK_OK(tn_scope_end(scope));
}

/* ------------------------------------------------------------------ LU and Cholesky, on both sides of providers' borders */

/* x solves the system that it says it solves, for every side, triangle and transpose. */
static void check_solutions(int64_t n) {
  tn_tensor *a = tns_add(numbers(2, n, n),
                         tns_mul_scalar(tns_eye(n, TN_OPTIONS(.dtype = TN_FLOAT64)), tn_int(n)), tn_int(1));
  tn_tensor *b = numbers(2, n, 5), *c = turned(numbers(2, n, 3)), *lu = NULL, *pivots = NULL, *info = NULL;
  check_equal(tns_matmul(a, tns_linalg_solve(a, b, true)), b);
  check_equal(tns_matmul(tns_linalg_solve(a, c, false), a), c);
  TN_CHECK_OK(tn_linalg_lu_factor_ex(turned(a), true, true, &lu, &pivots, &info));
  tn_scope_add(lu), tn_scope_add(pivots), tn_scope_add(info);
  check_equal(tns_matmul(a, tns_linalg_lu_solve(lu, pivots, b, true, true)), b);
  check_equal(tns_matmul(tns_linalg_lu_solve(lu, pivots, c, false, true), a), c);
  check_equal(tns_matmul(tns_linalg_lu_solve(lu, pivots, c, false, false), turned(a)), c);
  for (int upper = 0; upper < 2; upper++) {
    tn_tensor *t = upper ? tns_triu(a, 0) : tns_tril(a, 0);
    check_equal(tns_matmul(t, tns_linalg_solve_triangular(a, b, upper, true, false)), b);
    check_equal(tns_matmul(tns_linalg_solve_triangular(a, c, upper, false, false), t), c);
    tn_tensor *small = tns_mul_scalar(a, tn_float(0.01 / (double)n)),
              *eye = tns_eye(n, TN_OPTIONS(.dtype = TN_FLOAT64));
    tn_tensor *unit = tns_add(upper ? tns_triu(small, 1) : tns_tril(small, -1), eye, tn_int(1));
    check_equal(tns_matmul(unit, tns_linalg_solve_triangular(small, b, upper, true, true)), b);
  }
}

TN_TEST(ops_factor_by_hand, solutions_solve) {
  const int64_t sizes[] = {1, 7, 47, 48, 100};
  for (int i = 0; i < 5; i++) {
    tn_scope *scope = open_scope();
    check_solutions(sizes[i]);
    TN_CHECK_OK(tn_scope_end(scope));
  }
}

TN_TEST(ops_factor_by_hand, cholesky_factors_multiply_to_the_matrix) {
  const int64_t sizes[] = {1, 7, 47, 48, 100};
  for (int i = 0; i < 5; i++) {
    tn_scope *scope = open_scope();
    tn_tensor *x = numbers(2, sizes[i], sizes[i] + 3), *a = tns_matmul(x, turned(x));
    tn_tensor *l = tns_linalg_cholesky(a, false), *u = tns_linalg_cholesky(a, true);
    check_equal(tns_matmul(l, turned(l)), a);
    check_equal(turned(u), l);
    check_equal(tns_tril(l, 0), l);
    TN_CHECK_OK(tn_scope_end(scope));
  }
}

/* ------------------------------------------------------------------ refusals */

TN_TEST(ops_factor_by_hand, singular_and_indefinite_matrices_are_named) {
  tn_scope *scope = open_scope();
  tn_tensor *a = tns_ones(SIZES(2, 3, 3), TN_OPTIONS(.dtype = TN_FLOAT64)), *x = NULL;
  TN_CHECK_FAILS(tn_linalg_inv(a, &x), TN_ERR_INVALID_ARGUMENT,
                 "matrix 0 of the stack is singular: pivot 2 is 0");
  TN_CHECK_FAILS(tn_linalg_solve(a, a, true, &x), TN_ERR_INVALID_ARGUMENT, "singular");
  TN_CHECK_FAILS(tn_linalg_cholesky(tns_neg(a), false, &x), TN_ERR_INVALID_ARGUMENT,
                 "leading minor of order 1");
  tn_tensor *l = NULL, *info = NULL;
  TN_CHECK_OK(tn_linalg_cholesky_ex(a, false, false, &l, &info));
  TN_CHECK_INT(((int32_t *)tn_tensor_data(tn_scope_add(info)))[1], 2);
  tn_scope_add(l);
  TN_CHECK_OK(tn_scope_end(scope));
}

TN_TEST(ops_factor_by_hand, pivots_that_no_factorisation_made_are_refused) {
  tn_scope *scope = open_scope();
  tn_tensor *a = numbers(1, 3, 3), *x = NULL;
  for (int32_t bad = 0; bad <= 4; bad += 4) {
    tn_tensor *pivots = tns_full(SIZES(1, 3), tn_int(bad), TN_OPTIONS(.dtype = TN_INT32));
    TN_CHECK_FAILS(tn_linalg_lu_solve(a, pivots, a, true, false, &x), TN_ERR_INVALID_ARGUMENT,
                   "expected pivots from 1 to 3");
  }
  TN_CHECK_OK(tn_scope_end(scope));
}

/* The derivative of a determinant is the matrix of cofactors, also where there is no inverse. */
TN_TEST(ops_factor_by_hand, a_singular_determinant_has_a_derivative) {
  tn_scope *scope = open_scope();
  const double values[9] = {1, 2, 3, 2, 4, 6, 1, 0, 1}; /* rows 0 and 1 depend on each other */
  const double cofactors[9] = {4, 4, -4, -2, -2, 2, 0, 0, 0};
  tn_tensor *a = NULL;
  TN_CHECK_OK(tn_tensor_from_host(values, (const tn_dim[]){3, 3}, 2, TN_OPTIONS(.dtype = TN_FLOAT64), &a));
  tn_scope_add(a);
  TN_CHECK_OK(tn_set_requires_grad(a, true));
  TN_CHECK_OK(tn_backward_run(tns_linalg_det(a), NULL));
  for (int i = 0; i < 9; i++) TN_CHECK_DOUBLE(((double *)tn_tensor_data(tn_grad(a)))[i], cofactors[i], 1e-12);
  TN_CHECK_OK(tn_scope_end(scope));
}

/* The gradients of `a` and `b` through whatever makes x of them; x weighted so that no two elements matter alike. */
static void gradients_of(tn_tensor *x, tn_tensor *a, tn_tensor *b, tn_tensor **out) {
  TN_CHECK_OK(tn_backward_run(tns_sum(tns_mul(x, x), TN_DTYPE_NONE), NULL));
  tn_tensor *leaves[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    out[i] = tns_clone(tn_grad(leaves[i]), TN_MEMORY_FORMAT_NONE);
    TN_CHECK_OK(tn_set_grad(leaves[i], NULL));
  }
}

/* x by the factors, in each of the four ways, has the gradients of x by linalg_solve: pivots that move rows, and stacks. */
TN_TEST(ops_factor_by_hand, solving_by_factors_has_the_gradient_of_solving) {
  const int64_t sizes[] = {1, 3, 9, 50};
  for (int i = 0; i < 4; i++)
    for (int left = 0; left < 2; left++)
      for (int adjoint = 0; adjoint < 2; adjoint++) {
        tn_scope *scope = open_scope();
        int64_t n = sizes[i];
        tn_tensor *a = numbers(2, n, n), *b = left ? numbers(2, n, 2) : numbers(2, 2, n);
        tn_tensor *by_hand[2], *by_solve[2];
        tn_tensor *lu = NULL, *pivots = NULL, *info = NULL;
        TN_CHECK_OK(tn_set_requires_grad(a, true));
        TN_CHECK_OK(tn_set_requires_grad(b, true));
        TN_CHECK_OK(tn_linalg_lu_factor_ex(a, true, true, &lu, &pivots, &info));
        tn_scope_add(lu), tn_scope_add(pivots), tn_scope_add(info);
        gradients_of(tns_linalg_lu_solve(lu, pivots, b, left, adjoint), a, b, by_hand);
        gradients_of(tns_linalg_solve(adjoint ? turned(a) : a, b, left), a, b, by_solve);
        for (int k = 0; k < 2; k++) {
          double scale = largest(by_solve[k]);
          TN_CHECK(largest(tns_sub(by_hand[k], by_solve[k], tn_int(1))) <= 1e-10 * (1 + scale));
        }
        TN_CHECK_OK(tn_scope_end(scope));
      }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of factorisations. Formulas: M. Giles, An extended collection of matrix derivative results for forward and
 * reverse mode algorithmic differentiation (2008), and, for QR, S. Walter and L. Lehmann (2010). What reads one
 * triangle of a symmetric matrix gives the gradient of the whole matrix, symmetric.
 */
#include "registry/bodies/compose.h"

static tn_status turn(tn_tensor *x, tn_tensor **out) { return tn_transpose(x, -2, -1, out); }

/* a^T b */
static tn_status turned_times(tn_tensor *a, tn_tensor *b, tn_tensor **out) {
  tn_tensor *at = NULL;
  tn_status status = turn(a, &at);
  if (status == TN_OK) status = tn_matmul(at, b, out);
  tn_tensor_release(at);
  return status;
}

/* a b^T */
static tn_status times_turned(tn_tensor *a, tn_tensor *b, tn_tensor **out) {
  tn_tensor *bt = NULL;
  tn_status status = turn(b, &bt);
  if (status == TN_OK) status = tn_matmul(a, bt, out);
  tn_tensor_release(bt);
  return status;
}

/* factor (x + sign x^T) */
static tn_status with_turned(tn_tensor *x, int sign, double factor, tn_tensor **out) {
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TNI_STEP(turn(x, &t[0]));
  TNI_STEP(tn_add(x, t[0], tn_int(sign), &t[1]));
  TNI_STEP(tn_mul_scalar(t[1], tn_float(factor), out));
done:
  TNI_RELEASE(t);
  return status;
}

/* The gradient that came for result i, else zeros of its shape. */
static tn_status grad_or_zeros(const tn_backward *ctx, tn_tensor *const *grad_outs, uint32_t i,
                               tn_tensor **out) {
  if (!grad_outs[i]) return tn_zeros_like(ctx->outs[i], NULL, TN_MEMORY_FORMAT_NONE, out);
  *out = tn_tensor_retain(grad_outs[i]);
  return TN_OK;
}

/* ------------------------------------------------------------------ Cholesky */

/* L^-T phi(L^T g) L^-1, phi the lower triangle with half the diagonal; l is lower. */
static tn_status cholesky_lower(tn_tensor *l, tn_tensor *g, tn_tensor **out) {
  tn_tensor *t[9] = {NULL};
  tn_status status;
  TNI_STEP(turned_times(l, g, &t[0]));
  TNI_STEP(tn_tril(t[0], 0, &t[1]));
  TNI_STEP(tn_tril(t[0], -1, &t[2]));
  TNI_STEP(tn_add(t[1], t[2], tn_int(1), &t[3]));
  TNI_STEP(turn(l, &t[4]));
  TNI_STEP(tn_linalg_solve_triangular(t[4], t[3], true, true, false, &t[5]));
  TNI_STEP(tn_linalg_solve_triangular(l, t[5], false, false, false, &t[6]));
  TNI_STEP(with_turned(t[6], 1, 0.25, out));
done:
  TNI_RELEASE(t);
  return status;
}

/* args: self upper check_errors */
TN_GRAD(linalg_cholesky_ex) {
  tn_tensor *t[2] = {NULL}, *g = grad_outs[0];
  if (!g) return TN_OK;
  if (!ctx->args[1].u.i) return cholesky_lower(ctx->outs[0], g, &grad_ins[0]);
  tn_status status;
  TNI_STEP(turn(ctx->outs[0], &t[0]));
  TNI_STEP(turn(g, &t[1]));
  TNI_STEP(cholesky_lower(t[0], t[1], &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ solutions */

/* The part of x that a triangular matrix has. */
static tn_status triangle(tn_tensor *x, bool upper, bool unit, tn_tensor **out) {
  return upper ? tn_triu(x, unit ? 1 : 0, out) : tn_tril(x, unit ? -1 : 0, out);
}

/* args: self B upper left unitriangular. X = T^-1 B: gB = T^-T g, gT = -gB X^T. */
TN_GRAD(linalg_solve_triangular) {
  tn_tensor *self = ctx->args[0].u.t, *t[4] = {NULL};
  bool upper = ctx->args[2].u.i, left = ctx->args[3].u.i, unit = ctx->args[4].u.i;
  tn_status status;
  TNI_STEP(turn(self, &t[0]));
  TNI_STEP(tn_linalg_solve_triangular(t[0], grad_outs[0], !upper, left, unit, &t[1]));
  if (ctx->wanted & 1) {
    tn_tensor *x = ctx->outs[0];
    TNI_STEP(left ? times_turned(t[1], x, &t[2]) : turned_times(x, t[1], &t[2]));
    TNI_STEP(triangle(t[2], upper, unit, &t[3]));
    TNI_STEP(tn_neg(t[3], &grad_ins[0]));
  }
  if (ctx->wanted & 2) grad_ins[1] = tni_take(&t[1]);
done:
  TNI_RELEASE(t);
  return tni_grads(status, grad_ins, 2);
}

/* -gB X^T, or -X^T gB; vectors are columns. */
static tn_status solve_left_grad(tn_tensor *gb, tn_tensor *x, bool vectors, bool left, tn_tensor **out) {
  tn_tensor *t[3] = {NULL};
  tn_status status;
  if (vectors) {
    TNI_STEP(tn_unsqueeze(gb, -1, &t[0]));
    TNI_STEP(tn_unsqueeze(x, -2, &t[1]));
    TNI_STEP(tn_mul(t[0], t[1], &t[2]));
  } else {
    TNI_STEP(left ? times_turned(gb, x, &t[2]) : turned_times(x, gb, &t[2]));
  }
  TNI_STEP(tn_neg(t[2], out));
done:
  TNI_RELEASE(t);
  return status;
}

/* args: A B left. The transposed system is factored again: what the forward call factored is not kept. */
TN_GRAD(linalg_solve) {
  tn_tensor *a = ctx->args[0].u.t, *t[2] = {NULL};
  bool left = ctx->args[2].u.i;
  tn_status status;
  TNI_STEP(turn(a, &t[0]));
  TNI_STEP(tn_linalg_solve(t[0], grad_outs[0], left, &t[1]));
  if (ctx->wanted & 1) {
    bool vectors = tni_is_vectors(a, ctx->args[1].u.t);
    TNI_STEP(solve_left_grad(t[1], ctx->outs[0], vectors, left, &grad_ins[0]));
  }
  if (ctx->wanted & 2) grad_ins[1] = tni_take(&t[1]);
done:
  TNI_RELEASE(t);
  return tni_grads(status, grad_ins, 2);
}

/* ------------------------------------------------------------------ LU */

/* x[.., :rows, first : first + columns] */
static tn_status block(tn_tensor *x, tn_dim rows, tn_dim first, tn_dim columns, tn_tensor **out) {
  tn_tensor *t = NULL;
  tn_status status = tn_narrow(x, -2, TN_DIM(0), rows, &t);
  if (status == TN_OK) status = tn_narrow(t, -1, first, columns, out);
  tn_tensor_release(t);
  return status;
}

static tn_status joined(tn_tensor *a, tn_tensor *b, int64_t dim, tn_tensor **out) {
  return tn_cat((tn_tensor *[]){a, b}, 2, dim, out);
}

/* A square factor whose first columns are l, with ones on its diagonal, and zeros elsewhere. */
static tn_status unit_lower(tn_tensor *l, tn_tensor **out) {
  uint32_t n = tni_ndim(l);
  tn_dim m = tn_tensor_sizes(l)[n - 2], sizes[TN_MAX_RANK];
  tn_options options = {.dtype = tn_tensor_dtype(l), .has_device = true, .device = tn_tensor_device(l)};
  tn_tensor *t[3] = {NULL};
  tn_status status;
  for (uint32_t i = 0; i < n; i++) sizes[i] = tn_tensor_sizes(l)[i];
  sizes[n - 1] = TN_DIM_SUB(m, sizes[n - 1]);
  TNI_STEP(tn_new_zeros(l, sizes, n, NULL, &t[0]));
  TNI_STEP(joined(l, t[0], -1, &t[1]));
  TNI_STEP(tn_eye(m, &options, &t[2]));
  TNI_STEP(tn_add(t[1], t[2], tn_int(1), out));
done:
  TNI_RELEASE(t);
  return status;
}

/* The same swaps of m rows: those beyond the pivots stay where they are. */
static tn_status more_pivots(tn_tensor *pivots, tn_dim m, tn_tensor **out) {
  uint32_t n = tni_ndim(pivots);
  tn_dim k = tn_tensor_sizes(pivots)[n - 1], sizes[TN_MAX_RANK];
  tn_options options = {.dtype = TN_INT32, .has_device = true, .device = tn_tensor_device(pivots)};
  tn_tensor *t[2] = {NULL};
  tn_status status;
  for (uint32_t i = 0; i < n; i++) sizes[i] = tn_tensor_sizes(pivots)[i];
  sizes[n - 1] = TN_DIM_SUB(m, k);
  TNI_STEP(tn_arange_start(tn_int(TN_DIM_INT(k) + 1), tn_int(TN_DIM_INT(m) + 1), &options, &t[0]));
  TNI_STEP(tn_expand(t[0], sizes, n, false, &t[1]));
  TNI_STEP(joined(pivots, t[1], -1, out));
done:
  TNI_RELEASE(t);
  return status;
}

/* tril(L^T gL, -1) + triu(gU U^T) - gV V^T of L = l + 1, U = [U1 V]: what stands between the inverses, k x k. */
static tn_status lu_inside(tn_tensor *lu, tn_tensor *l, tn_tensor *g, tn_tensor *gl, tn_dim k,
                           tn_tensor **out) {
  tn_tensor *t[13] = {NULL};
  tn_dim n = tn_tensor_sizes(lu)[tni_ndim(lu) - 1];
  tn_status status;
  TNI_STEP(turned_times(l, gl, &t[0]));
  TNI_STEP(block(gl, k, TN_DIM(0), k, &t[1]));
  TNI_STEP(tn_add(t[0], t[1], tn_int(1), &t[2]));
  TNI_STEP(tn_tril(t[2], -1, &t[3]));
  TNI_STEP(block(lu, k, TN_DIM(0), n, &t[4]));
  TNI_STEP(tn_triu(t[4], 0, &t[5]));
  TNI_STEP(block(g, k, TN_DIM(0), n, &t[6]));
  TNI_STEP(tn_triu(t[6], 0, &t[7]));
  TNI_STEP(times_turned(t[7], t[5], &t[8]));
  TNI_STEP(tn_triu(t[8], 0, &t[9]));
  TNI_STEP(tn_add(t[3], t[9], tn_int(1), &t[10]));
  if (TN_DIM_EQ(n, k)) {
    *out = tni_take(&t[10]);
  } else {
    TNI_STEP(block(g, k, k, TN_DIM_SUB(n, k), &t[11]));
    TNI_STEP(block(lu, k, k, TN_DIM_SUB(n, k), &t[12]));
    tn_tensor_release(tni_take(&t[8]));
    TNI_STEP(times_turned(t[11], t[12], &t[8]));
    TNI_STEP(tn_sub(t[10], t[8], tn_int(1), out));
  }
done:
  TNI_RELEASE(t);
  return status;
}

/* args: A pivot check_errors. With A = P L [U1 V], L squared by columns of the identity:
 * gA = P L^-T [inside U1^-T, gV], and below what is inside stand the rows of gL that U1 has no row for. P L^-T is the
 * solution with the factors L and 1, adjoint; for tall matrices it takes rows x rows of memory, as a P written out
 * would. S. Axen's derivation for rectangular matrices (sethaxen.com, 2021) has the same parts. */
TN_GRAD(linalg_lu_factor_ex) {
  tn_tensor *lu = ctx->outs[0], *g = grad_outs[0], *t[13] = {NULL};
  if (!g) return TN_OK;
  uint32_t ndim = tni_ndim(lu);
  tn_dim m = tn_tensor_sizes(lu)[ndim - 2], n = tn_tensor_sizes(lu)[ndim - 1], k = TN_DIM_MIN(m, n);
  tn_status status;
  TNI_STEP(block(lu, m, TN_DIM(0), k, &t[0]));
  TNI_STEP(tn_tril(t[0], -1, &t[1]));
  TNI_STEP(block(g, m, TN_DIM(0), k, &t[2]));
  TNI_STEP(tn_tril(t[2], -1, &t[3]));
  TNI_STEP(lu_inside(lu, t[1], g, t[3], k, &t[4]));
  TNI_STEP(tn_narrow(t[3], -2, k, TN_DIM_SUB(m, k), &t[5]));
  TNI_STEP(joined(t[4], t[5], -2, &t[6]));
  TNI_STEP(block(lu, k, TN_DIM(0), k, &t[7]));
  TNI_STEP(turn(t[7], &t[8]));
  TNI_STEP(tn_linalg_solve_triangular(t[8], t[6], false, false, false, &t[9]));
  TNI_STEP(block(g, m, k, TN_DIM_SUB(n, k), &t[10]));
  tn_tensor_release(tni_take(&t[6]));
  TNI_STEP(joined(t[9], t[10], -1, &t[6]));
  TNI_STEP(unit_lower(t[1], &t[11]));
  TNI_STEP(more_pivots(ctx->outs[1], m, &t[12]));
  TNI_STEP(tn_linalg_lu_solve(t[11], t[12], t[6], true, true, &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* x, or x^T where the unknown stands on the left. */
static tn_status as_columns(tn_tensor *x, bool left, tn_tensor **out) {
  if (!left) return turn(x, out);
  *out = tn_tensor_retain(x);
  return TN_OK;
}

/* With A x = b and A^T y = h, gA = -y x^T; gU = -triu(w x^T) and gL = -tril(z (U x)^T, -1), where w = U^-T h and
 * z = L^-T w is P^T y. */
static tn_status lu_pair(tn_tensor *lu, tn_tensor *x, tn_tensor *h, tn_tensor **out) {
  tn_tensor *t[11] = {NULL};
  tn_status status;
  TNI_STEP(turn(lu, &t[0]));
  TNI_STEP(tn_linalg_solve_triangular(t[0], h, false, true, false, &t[1]));
  TNI_STEP(tn_linalg_solve_triangular(t[0], t[1], true, true, true, &t[2]));
  TNI_STEP(tn_triu(lu, 0, &t[3]));
  TNI_STEP(tn_matmul(t[3], x, &t[4]));
  TNI_STEP(times_turned(t[1], x, &t[5]));
  TNI_STEP(tn_triu(t[5], 0, &t[6]));
  TNI_STEP(times_turned(t[2], t[4], &t[7]));
  TNI_STEP(tn_tril(t[7], -1, &t[8]));
  TNI_STEP(tn_add(t[6], t[8], tn_int(1), &t[9]));
  TNI_STEP(tn_neg(t[9], out));
done:
  TNI_RELEASE(t);
  return status;
}

/* args: LU pivots B left adjoint. gB solves the adjoint system; which of the two has A itself, and not A^T, on its
 * left decides who is x and who is h (X A = B is A^T X^T = B^T). */
TN_GRAD(linalg_lu_solve) {
  tn_tensor *lu = ctx->args[0].u.t, *g = grad_outs[0], *t[3] = {NULL};
  bool left = ctx->args[3].u.i, adjoint = ctx->args[4].u.i, direct = left != adjoint;
  tn_status status;
  TNI_STEP(tn_linalg_lu_solve(lu, ctx->args[1].u.t, g, left, !adjoint, &t[0]));
  if (ctx->wanted & 1) {
    TNI_STEP(as_columns(direct ? ctx->outs[0] : t[0], left, &t[1]));
    TNI_STEP(as_columns(direct ? g : ctx->args[2].u.t, left, &t[2]));
    TNI_STEP(lu_pair(lu, t[1], t[2], &grad_ins[0]));
  }
  if (ctx->wanted & 2) grad_ins[1] = tni_take(&t[0]);
done:
  TNI_RELEASE(t);
  return tni_grads(status, grad_ins, 2);
}

/* ------------------------------------------------------------------ determinants */

/* x[.., None, None] */
static tn_status as_matrices(tn_tensor *x, tn_tensor **out) {
  tn_tensor *t = NULL;
  tn_status status = tn_unsqueeze(x, -1, &t);
  if (status == TN_OK) status = tn_unsqueeze(t, -1, out);
  tn_tensor_release(t);
  return status;
}

/* g A^-T, g one number a matrix. */
static tn_status scaled_inverse(tn_tensor *a, tn_tensor *g, tn_tensor **out) {
  tn_tensor *t[3] = {NULL};
  tn_status status;
  TNI_STEP(tn_linalg_inv(a, &t[0]));
  TNI_STEP(turn(t[0], &t[1]));
  TNI_STEP(as_matrices(g, &t[2]));
  TNI_STEP(tn_mul(t[2], t[1], out));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status any_zero(tn_tensor *x, bool *out_any) {
  tn_tensor *t[2] = {NULL};
  int64_t found = 0;
  tn_status status;
  TNI_STEP(tn_eq_scalar(x, tn_int(0), &t[0]));
  TNI_STEP(tn_any(t[0], &t[1]));
  TNI_STEP(tn_tensor_item_int(t[1], &found));
  *out_any = found != 0;
done:
  TNI_RELEASE(t);
  return status;
}

/* Products of all entries of each row but the i-th: the row is spread over a matrix whose diagonal is 1. */
static tn_status products_of_others(tn_tensor *rows, tn_tensor **out) {
  tn_tensor *t[4] = {NULL};
  tn_dim n = tn_tensor_sizes(rows)[tni_ndim(rows) - 1];
  tn_options options = {.dtype = TN_BOOL, .has_device = true, .device = tn_tensor_device(rows)};
  tn_dim sizes[TN_MAX_RANK];
  uint32_t ndim = tni_ndim(rows);
  for (uint32_t i = 0; i < ndim; i++) sizes[i] = tn_tensor_sizes(rows)[i];
  sizes[ndim] = n;
  tn_status status;
  TNI_STEP(tn_eye(n, &options, &t[0]));
  TNI_STEP(tn_unsqueeze(rows, -2, &t[1]));
  TNI_STEP(tn_expand(t[1], sizes, ndim + 1, false, &t[2]));
  TNI_STEP(tn_masked_fill(t[2], t[0], tn_int(1), &t[3]));
  TNI_STEP(tn_prod_dim(t[3], -1, false, TN_DTYPE_NONE, out));
done:
  TNI_RELEASE(t);
  return status;
}

/* g times the cofactors of A, also where A is singular: det(U) det(Vh) U diag(products of the other singular values)
 * Vh. A second derivative there needs singular values that differ. */
static tn_status scaled_cofactors(tn_tensor *a, tn_tensor *g, tn_tensor **out) {
  tn_tensor *t[12] = {NULL};
  tn_status status;
  TNI_STEP(tn__linalg_svd(a, false, true, NULL, &t[0], &t[1], &t[2]));
  TNI_STEP(products_of_others(t[1], &t[3]));
  TNI_STEP(tn_linalg_det(t[0], &t[4]));
  TNI_STEP(tn_linalg_det(t[2], &t[5]));
  TNI_STEP(tn_mul(t[4], t[5], &t[6]));
  TNI_STEP(tn_mul(t[6], g, &t[7]));
  TNI_STEP(as_matrices(t[7], &t[8]));
  TNI_STEP(tn_unsqueeze(t[3], -2, &t[9]));
  TNI_STEP(tn_mul(t[0], t[9], &t[10]));
  TNI_STEP(tn_matmul(t[10], t[2], &t[11]));
  TNI_STEP(tn_mul(t[8], t[11], out));
done:
  TNI_RELEASE(t);
  return status;
}

TN_GRAD(linalg_det) {
  tn_tensor *a = ctx->args[0].u.t, *scaled = NULL;
  bool singular;
  tn_status status;
  TNI_STEP(any_zero(ctx->outs[0], &singular));
  if (singular) return scaled_cofactors(a, grad_outs[0], &grad_ins[0]);
  TNI_STEP(tn_mul(grad_outs[0], ctx->outs[0], &scaled));
  TNI_STEP(scaled_inverse(a, scaled, &grad_ins[0]));
done:
  tn_tensor_release(scaled);
  return status;
}

TN_GRAD(linalg_slogdet) {
  return grad_outs[1] ? scaled_inverse(ctx->args[0].u.t, grad_outs[1], &grad_ins[0]) : TN_OK;
}

/* ------------------------------------------------------------------ QR */

/* args: A mode. (gQ + Q sym(M)) R^-T, M = R gR^T - gQ^T Q, sym: the lower triangle, mirrored. */
TN_GRAD(linalg_qr) {
  tn_tensor *q = ctx->outs[0], *r = ctx->outs[1], *t[14] = {NULL};
  uint32_t n = tni_ndim(r);
  if (tni_ndim(q) < 2 || TN_DIM_NE(tn_tensor_sizes(r)[n - 1], tn_tensor_sizes(r)[n - 2]))
    return tn_fail(TN_ERR_NOT_DIFFERENTIABLE, "the derivative of linalg_qr needs Q and a square R: mode "
                                              "'reduced' of matrices that are not wide, or "
                                              "'complete' of square ones");
  tn_status status;
  TNI_STEP(grad_or_zeros(ctx, grad_outs, 0, &t[0]));
  TNI_STEP(grad_or_zeros(ctx, grad_outs, 1, &t[1]));
  TNI_STEP(times_turned(r, t[1], &t[2]));
  TNI_STEP(turned_times(t[0], q, &t[3]));
  TNI_STEP(tn_sub(t[2], t[3], tn_int(1), &t[4]));
  TNI_STEP(tn_tril(t[4], 0, &t[5]));
  TNI_STEP(tn_tril(t[4], -1, &t[6]));
  TNI_STEP(turn(t[6], &t[7]));
  TNI_STEP(tn_add(t[5], t[7], tn_int(1), &t[8]));
  TNI_STEP(tn_matmul(q, t[8], &t[9]));
  TNI_STEP(tn_add(t[0], t[9], tn_int(1), &t[10]));
  TNI_STEP(turn(r, &t[11]));
  TNI_STEP(tn_linalg_solve_triangular(t[11], t[10], false, false, false, &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ spectra */

/* e[.., i, j] = x_j - x_i, infinity on the diagonal. */
static tn_status differences(tn_tensor *x, tn_tensor **out) {
  tn_tensor *t[4] = {NULL};
  tn_dim n = tn_tensor_sizes(x)[tni_ndim(x) - 1];
  tn_options options = {.dtype = TN_BOOL, .has_device = true, .device = tn_tensor_device(x)};
  tn_status status;
  TNI_STEP(tn_unsqueeze(x, -2, &t[0]));
  TNI_STEP(tn_unsqueeze(x, -1, &t[1]));
  TNI_STEP(tn_sub(t[0], t[1], tn_int(1), &t[2]));
  TNI_STEP(tn_eye(n, &options, &t[3]));
  TNI_STEP(tn_masked_fill(t[2], t[3], tn_float(__builtin_inf()), out));
done:
  TNI_RELEASE(t);
  return status;
}

/* A matrix with x on its diagonal. */
static tn_status diagonal_matrices(tn_tensor *x, tn_tensor **out) {
  tn_tensor *t[2] = {NULL};
  tn_dim n = tn_tensor_sizes(x)[tni_ndim(x) - 1];
  tn_options options = {.dtype = tn_tensor_dtype(x), .has_device = true, .device = tn_tensor_device(x)};
  tn_status status;
  TNI_STEP(tn_eye(n, &options, &t[0]));
  TNI_STEP(tn_unsqueeze(x, -2, &t[1]));
  TNI_STEP(tn_mul(t[1], t[0], out));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status need_vectors(const tn_tensor *vectors, const char *what) {
  if (tni_ndim(vectors) >= 2) return TN_OK;
  return tn_fail(TN_ERR_NOT_DIFFERENTIABLE, "the derivative needs the vectors, which %s=False left out",
                 what);
}

/* a b a^T */
static tn_status between(tn_tensor *a, tn_tensor *b, tn_tensor **out) {
  tn_tensor *t = NULL;
  tn_status status = tn_matmul(a, b, &t);
  if (status == TN_OK) status = times_turned(t, a, out);
  tn_tensor_release(t);
  return status;
}

/* args: A UPLO compute_v. V (diag(gL) + V^T gV / E) V^T, E_ij = L_j - L_i. */
TN_GRAD(linalg_eigh) {
  tn_tensor *values = ctx->outs[0], *v = ctx->outs[1], *t[7] = {NULL};
  TN_TRY(need_vectors(v, "compute_v"));
  tn_status status;
  TNI_STEP(grad_or_zeros(ctx, grad_outs, 0, &t[0]));
  TNI_STEP(diagonal_matrices(t[0], &t[1]));
  if (grad_outs[1]) {
    TNI_STEP(turned_times(v, grad_outs[1], &t[2]));
    TNI_STEP(differences(values, &t[3]));
    TNI_STEP(tn_div(t[2], t[3], &t[4]));
  }
  TNI_STEP(t[4] ? tn_add(t[1], t[4], tn_int(1), &t[5]) : tn_clone(t[1], TN_MEMORY_FORMAT_NONE, &t[5]));
  TNI_STEP(between(v, t[5], &t[6]));
  TNI_STEP(with_turned(t[6], 1, 0.5, &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* (x^T g - g^T x) / E */
static tn_status turning(tn_tensor *x, tn_tensor *g, tn_tensor *e, tn_tensor **out) {
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TNI_STEP(turned_times(x, g, &t[0]));
  TNI_STEP(with_turned(t[0], -1, 1, &t[1]));
  TNI_STEP(tn_div(t[1], e, out));
done:
  TNI_RELEASE(t);
  return status;
}

/* g - x x^T g: the part of g outside the columns of x. */
static tn_status outside(tn_tensor *x, tn_tensor *g, tn_tensor **out) {
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TNI_STEP(turned_times(x, g, &t[0]));
  TNI_STEP(tn_matmul(x, t[0], &t[1]));
  TNI_STEP(tn_sub(g, t[1], tn_int(1), out));
done:
  TNI_RELEASE(t);
  return status;
}

/* The parts of the gradient inside the columns of U and rows of Vh: what stands between U and Vh. s_row scales columns,
 * s_column rows. */
static tn_status svd_inside(tn_tensor *u, tn_tensor *gu, tn_tensor *v, tn_tensor *gv, tn_tensor *s,
                            tn_tensor *gs, tn_tensor **out) {
  tn_tensor *t[11] = {NULL};
  tn_status status;
  TNI_STEP(tn_mul(s, s, &t[0]));
  TNI_STEP(differences(t[0], &t[1]));
  TNI_STEP(turning(u, gu, t[1], &t[2]));
  TNI_STEP(turning(v, gv, t[1], &t[3]));
  TNI_STEP(tn_unsqueeze(s, -2, &t[4]));
  TNI_STEP(tn_unsqueeze(s, -1, &t[5]));
  TNI_STEP(tn_mul(t[2], t[4], &t[6]));
  TNI_STEP(tn_mul(t[5], t[3], &t[7]));
  TNI_STEP(diagonal_matrices(gs, &t[8]));
  TNI_STEP(tn_add(t[6], t[7], tn_int(1), &t[9]));
  TNI_STEP(tn_add(t[9], t[8], tn_int(1), out));
done:
  TNI_RELEASE(t);
  return status;
}

/* (outside of U) S^-1 Vh + U S^-1 (outside of V)^T */
static tn_status svd_outside(tn_tensor *u, tn_tensor *gu, tn_tensor *v, tn_tensor *gv, tn_tensor *s,
                             tn_tensor **out) {
  tn_tensor *t[7] = {NULL};
  tn_status status;
  TNI_STEP(outside(u, gu, &t[0]));
  TNI_STEP(outside(v, gv, &t[1]));
  TNI_STEP(tn_unsqueeze(s, -2, &t[2]));
  TNI_STEP(tn_div(t[0], t[2], &t[3]));
  TNI_STEP(tn_div(u, t[2], &t[4]));
  TNI_STEP(times_turned(t[3], v, &t[5]));
  TNI_STEP(times_turned(t[4], t[1], &t[6]));
  TNI_STEP(tn_add(t[5], t[6], tn_int(1), out));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status check_reduced(const tn_tensor *u, const tn_tensor *s, const tn_tensor *vh) {
  tn_dim k = tn_tensor_sizes(s)[tni_ndim(s) - 1];
  if (!TN_DIM_NE(tn_tensor_sizes(u)[tni_ndim(u) - 1], k) &&
      !TN_DIM_NE(tn_tensor_sizes(vh)[tni_ndim(vh) - 2], k))
    return TN_OK;
  return tn_fail(TN_ERR_NOT_DIFFERENTIABLE,
                 "the vectors that full_matrices=True adds are not unique: take the derivative with False");
}

/* args: A full_matrices compute_uv driver */
TN_GRAD(linalg_svd) {
  tn_tensor *u = ctx->outs[0], *s = ctx->outs[1], *vh = ctx->outs[2], *t[9] = {NULL};
  TN_TRY(need_vectors(u, "compute_uv"));
  TN_TRY(check_reduced(u, s, vh));
  tn_status status;
  for (uint32_t i = 0; i < 3; i++) TNI_STEP(grad_or_zeros(ctx, grad_outs, i, &t[i]));
  TNI_STEP(turn(vh, &t[3]));
  if (!grad_outs[0] && !grad_outs[2]) {
    TNI_STEP(diagonal_matrices(t[1], &t[4]));
  } else {
    TNI_STEP(turn(t[2], &t[5]));
    TNI_STEP(svd_inside(u, t[0], t[3], t[5], s, t[1], &t[4]));
    TNI_STEP(svd_outside(u, t[0], t[3], t[5], s, &t[8]));
  }
  TNI_STEP(tn_matmul(u, t[4], &t[6]));
  TNI_STEP(tn_matmul(t[6], vh, &t[7]));
  if (!t[8])
    grad_ins[0] = tni_take(&t[7]);
  else
    TNI_STEP(tn_add(t[7], t[8], tn_int(1), &grad_ins[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Solutions, inverses and determinants over the factorisations that backends give; and the forms of those that refuse
 * or return less.
 */
#include "registry/bodies/compose.h"

TN_BODY(linalg_cholesky) {
  tn_tensor *info = NULL, *result = NULL;
  tn_status status = tn_linalg_cholesky_ex(args[0].u.t, args[1].u.i, true, &result, &info);
  tn_tensor_release(info);
  return tni_result(status, &result, out);
}

static tn_status check_solvable(const tn_tensor *a, const tn_tensor *b) {
  if (tni_ndim(a) >= 2 && tni_ndim(b) >= 1) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT,
                 "expected matrices 'A' and vectors or matrices 'B', got shapes %s and %s",
                 tni_shape_text(a, TN_SHAPE_TEXT), tni_shape_text(b, TN_SHAPE_TEXT));
}

/* x with its stack broadcast to sizes[0..ndim). */
static tn_status spread(tn_tensor *x, uint32_t ndim, tn_dim *sizes, tn_tensor **out_wide) {
  for (uint32_t i = 0; i < 2; i++) sizes[ndim + i] = tn_tensor_sizes(x)[tni_ndim(x) - 2 + i];
  return tn_expand(x, sizes, ndim + 2, false, out_wide);
}

/* Both with at least two dims. */
static tn_status solve_matrices(tn_tensor *a, tn_tensor *b, bool left, tn_tensor **out_result) {
  tn_tensor *t[5] = {NULL};
  uint32_t ndim;
  tn_dim sizes[TN_MAX_RANK + 2];
  tn_status status;
  TNI_STEP(tn_shape_broadcast(tni_ndim(a) - 2, tn_tensor_sizes(a), tni_ndim(b) - 2, tn_tensor_sizes(b), &ndim,
                              sizes));
  if (ndim + 2 > TN_MAX_RANK)
    TNI_STEP(tn_fail(TN_ERR_INVALID_ARGUMENT, "the solution would have %u dims; %d are the most", ndim + 2,
                     TN_MAX_RANK));
  TNI_STEP(spread(a, ndim, sizes, &t[0]));
  TNI_STEP(spread(b, ndim, sizes, &t[1]));
  TNI_STEP(tn_linalg_lu_factor_ex(t[0], true, true, &t[2], &t[3], &t[4]));
  TNI_STEP(tn_linalg_lu_solve(t[2], t[3], t[1], left, false, out_result));
done:
  TNI_RELEASE(t);
  return status;
}

/* args: A B left */
TN_BODY(linalg_solve) {
  tn_tensor *a = args[0].u.t, *b = args[1].u.t, *t[2] = {NULL}, *result = NULL;
  TN_TRY(check_solvable(a, b));
  if (!tni_is_vectors(a, b)) return tni_result(solve_matrices(a, b, args[2].u.i, &result), &result, out);
  tn_status status;
  if (!args[2].u.i)
    TNI_STEP(
        tn_fail(TN_ERR_INVALID_ARGUMENT, "vectors stand on the right of A: left=False needs matrices 'B'"));
  TNI_STEP(tn_unsqueeze(b, -1, &t[0]));
  TNI_STEP(solve_matrices(a, t[0], true, &t[1]));
  TNI_STEP(tn_squeeze_dim(t[1], -1, &result));
  out[0] = tn_value_tensor(result);
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status check_square(const tn_tensor *a) {
  uint32_t n = tni_ndim(a);
  if (n >= 2 && TN_DIM_EQ(tn_tensor_sizes(a)[n - 1], tn_tensor_sizes(a)[n - 2])) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected square matrices, got shape %s",
                 tni_shape_text(a, TN_SHAPE_TEXT));
}

static tn_status eye_like(tn_tensor *a, tn_tensor **out_eye) {
  tn_options options = {.dtype = tn_tensor_dtype(a), .has_device = true, .device = tn_tensor_device(a)};
  return tn_eye(tn_tensor_sizes(a)[tni_ndim(a) - 1], &options, out_eye);
}

TN_BODY(linalg_inv) {
  tn_tensor *a = args[0].u.t, *eye = NULL, *result = NULL;
  TN_TRY(check_square(a));
  tn_status status;
  TNI_STEP(eye_like(a, &eye));
  TNI_STEP(solve_matrices(a, eye, true, &result));
  out[0] = tn_value_tensor(result);
done:
  tn_tensor_release(eye);
  return status;
}

/* The diagonal of U (each matrix a row of *out_diagonal) and -1 or 1 for an odd or even number of swaps. */
static tn_status diagonal_and_parity(tn_tensor *a, tn_tensor **out_diagonal, tn_tensor **out_parity) {
  tn_tensor *t[10] = {NULL};
  tn_dim n = tn_tensor_sizes(a)[tni_ndim(a) - 1];
  tn_options ints = {.dtype = TN_INT32, .has_device = true, .device = tn_tensor_device(a)};
  tn_status status;
  TNI_STEP(tn_linalg_lu_factor_ex(a, true, false, &t[0], &t[1], &t[2]));
  TNI_STEP(tn_arange_start(tn_int(1), tn_int(TN_DIM_INT(n) + 1), &ints, &t[3]));
  TNI_STEP(tn_ne(t[1], t[3], &t[4]));
  TNI_STEP(tn_sum_dim(t[4], (const int64_t[]){-1}, 1, false, TN_DTYPE_NONE, &t[5]));
  TNI_STEP(tn_remainder_scalar(t[5], tn_int(2), &t[6]));
  TNI_STEP(tn_mul_scalar(t[6], tn_int(-2), &t[7]));
  TNI_STEP(tn_add_scalar(t[7], tn_int(1), tn_int(1), &t[8]));
  TNI_STEP(tn_diagonal(t[0], 0, -2, -1, &t[9]));
  TNI_STEP(tn_clone(t[9], TN_MEMORY_FORMAT_NONE, out_diagonal));
  *out_parity = tni_take(&t[8]);
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(linalg_det) {
  tn_tensor *a = args[0].u.t, *t[3] = {NULL}, *result = NULL;
  TN_TRY(check_square(a));
  tn_status status;
  TNI_STEP(diagonal_and_parity(a, &t[0], &t[1]));
  TNI_STEP(tn_prod_dim(t[0], -1, false, TN_DTYPE_NONE, &t[2]));
  TNI_STEP(tn_mul(t[2], t[1], &result));
  out[0] = tn_value_tensor(result);
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(linalg_slogdet) {
  tn_tensor *a = args[0].u.t, *t[6] = {NULL}, *sign = NULL, *logarithm = NULL;
  TN_TRY(check_square(a));
  tn_status status;
  TNI_STEP(diagonal_and_parity(a, &t[0], &t[1]));
  TNI_STEP(tn_sign(t[0], &t[2]));
  TNI_STEP(tn_prod_dim(t[2], -1, false, TN_DTYPE_NONE, &t[3]));
  TNI_STEP(tn_abs(t[0], &t[4]));
  TNI_STEP(tn_log_op(t[4], &t[5]));
  TNI_STEP(tn_mul(t[3], t[1], &sign));
  TNI_STEP(tn_sum_dim(t[5], (const int64_t[]){-1}, 1, false, TN_DTYPE_NONE, &logarithm));
  out[0] = tn_value_tensor(tni_take(&sign));
  out[1] = tn_value_tensor(logarithm);
done:
  tn_tensor_release(sign);
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ spectra */

TN_BODY(linalg_eigh) {
  tn_tensor *values = NULL, *vectors = NULL;
  TN_TRY(tn__linalg_eigh(args[0].u.t, args[1].u.s, true, &values, &vectors));
  out[0] = tn_value_tensor(values);
  out[1] = tn_value_tensor(vectors);
  return TN_OK;
}

/* With a gradient the vectors are needed, too. */
TN_BODY(linalg_eigvalsh) {
  tn_tensor *self = args[0].u.t, *values = NULL, *vectors = NULL;
  bool graph = tn_grad_mode() && tn_requires_grad(self);
  tn_status status = tn__linalg_eigh(self, args[1].u.s, graph, &values, &vectors);
  tn_tensor_release(vectors);
  return tni_result(status, &values, out);
}

TN_BODY(linalg_svd) {
  tn_tensor *parts[3] = {NULL};
  const char *driver = tni_has(&args[2]) ? args[2].u.s : NULL;
  TN_TRY(tn__linalg_svd(args[0].u.t, args[1].u.i, true, driver, &parts[0], &parts[1], &parts[2]));
  for (int i = 0; i < 3; i++) out[i] = tn_value_tensor(parts[i]);
  return TN_OK;
}

TN_BODY(linalg_svdvals) {
  tn_tensor *self = args[0].u.t, *u = NULL, *values = NULL, *vh = NULL;
  const char *driver = tni_has(&args[1]) ? args[1].u.s : NULL;
  bool graph = tn_grad_mode() && tn_requires_grad(self);
  tn_status status = tn__linalg_svd(self, false, graph, driver, &u, &values, &vh);
  tn_tensor_release(u);
  tn_tensor_release(vh);
  return tni_result(status, &values, out);
}

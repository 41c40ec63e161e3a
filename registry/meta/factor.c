/* SPDX-License-Identifier: Apache-2.0
 *
 * Factorisations over stacks of matrices: the last two dims are a matrix, those before them the stack. Results are
 * row-major; pivots and info are int32, as in LAPACK.
 */
#include "registry/meta/rules.h"

static tn_status check_matrices(const char *name, const tn_view *v) {
  if (v->dtype != TN_FLOAT32 && v->dtype != TN_FLOAT64)
    return TN_FAIL(TN_ERR_DTYPE, "expected '%s' of dtype float32 or float64, got %s", name,
                   tn_kit_dtype_name(v->dtype));
  if (v->ndim >= 2) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected '%s' with at least 2 dims, got shape %s", name,
                 tn_shape_format(v->ndim, v->sizes, TN_SHAPE_TEXT));
}

static tn_dim rows_of(const tn_view *v) { return v->sizes[v->ndim - 2]; }
static tn_dim columns_of(const tn_view *v) { return v->sizes[v->ndim - 1]; }

static tn_status check_square(const char *name, const tn_view *v) {
  TN_TRY(check_matrices(name, v));
  if (!TN_DIM_NE(rows_of(v), columns_of(v))) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected square matrices in '%s', got shape %s", name,
                 tn_shape_format(v->ndim, v->sizes, TN_SHAPE_TEXT));
}

/* The stack of v, and behind it rows and columns. */
static void matrices(tn_desc *desc, const tn_view *v, tn_dim rows, tn_dim columns) {
  tni_desc_set(desc, v->dtype, v->ndim, v->sizes, TN_DESC_CONTIGUOUS);
  desc->sizes[v->ndim - 2] = rows;
  desc->sizes[v->ndim - 1] = columns;
}

/* The stack of v, and behind it n. */
static void vectors(tn_desc *desc, tn_dtype dtype, const tn_view *v, tn_dim n) {
  tni_desc_set(desc, dtype, (uint32_t)v->ndim - 1, v->sizes, TN_DESC_CONTIGUOUS);
  desc->sizes[v->ndim - 2] = n;
}

static void one_each(tn_desc *desc, tn_dtype dtype, const tn_view *v) {
  tni_desc_set(desc, dtype, (uint32_t)v->ndim - 2, v->sizes, TN_DESC_CONTIGUOUS);
}

static tn_dim smaller(tn_dim a, tn_dim b) { return TN_DIM_LT(a, b) ? a : b; }

/* args: self upper check_errors */
TN_META(linalg_cholesky_ex) {
  const tn_view *self = args[0].u.v;
  TN_TRY(check_square("self", self));
  matrices(&meta->out[0], self, rows_of(self), rows_of(self));
  one_each(&meta->out[1], TN_INT32, self);
  return TN_OK;
}

/* args: A pivot check_errors */
TN_META(linalg_lu_factor_ex) {
  const tn_view *self = args[0].u.v;
  TN_TRY(check_matrices("A", self));
  matrices(&meta->out[0], self, rows_of(self), columns_of(self));
  vectors(&meta->out[1], TN_INT32, self, smaller(rows_of(self), columns_of(self)));
  one_each(&meta->out[2], TN_INT32, self);
  return TN_OK;
}

/* Does B have as many rows (columns where the unknown stands on the left) as the factor has? */
static tn_status check_sides(const tn_view *factor, const tn_view *b, bool left) {
  if (!TN_DIM_NE(left ? rows_of(b) : columns_of(b), rows_of(factor))) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                 "expected 'B' with as many %s as the matrices of shape %s have, got %s",
                 left ? "rows" : "columns", tn_shape_format(factor->ndim, factor->sizes, TN_SHAPE_TEXT),
                 tn_shape_format(b->ndim, b->sizes, TN_SHAPE_TEXT));
}

/* args: LU pivots B left adjoint */
TN_META(linalg_lu_solve) {
  const tn_view *lu = args[0].u.v, *pivots = args[1].u.v, *b = args[2].u.v;
  TN_TRY(check_square("LU", lu));
  TN_TRY(check_matrices("B", b));
  TN_TRY(tni_check_dtype_is("B", b, lu->dtype));
  TN_TRY(tni_check_dtype_is("pivots", pivots, TN_INT32));
  TN_TRY(tni_check_shape_is("pivots", pivots, (uint32_t)lu->ndim - 1, lu->sizes));
  if (b->ndim != lu->ndim || !tn_shape_equal(lu->ndim - 2u, lu->sizes, b->ndim - 2u, b->sizes))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected stacks of one shape, got shapes %s and %s",
                   tn_shape_format(lu->ndim, lu->sizes, TN_SHAPE_TEXT),
                   tn_shape_format(b->ndim, b->sizes, TN_SHAPE_TEXT));
  TN_TRY(check_sides(lu, b, args[3].u.i));
  tni_desc_set(&meta->out[0], b->dtype, b->ndim, b->sizes, TN_DESC_CONTIGUOUS);
  meta->keep_args = 2;
  return TN_OK;
}

/* args: self B upper left unitriangular */
TN_META(linalg_solve_triangular) {
  const tn_view *self = args[0].u.v, *b = args[1].u.v;
  TN_TRY(check_square("self", self));
  TN_TRY(check_matrices("B", b));
  TN_TRY(tni_check_dtype_is("B", b, self->dtype));
  TN_TRY(check_sides(self, b, args[3].u.i));
  tn_desc *desc = &meta->out[0];
  uint32_t ndim;
  tni_desc_head(desc, b->dtype, 0, TN_DESC_CONTIGUOUS);
  TN_TRY(tn_shape_broadcast(self->ndim - 2u, self->sizes, b->ndim - 2u, b->sizes, &ndim, desc->sizes));
  TN_TRY(tni_check_rank((size_t)ndim + 2));
  desc->ndim = (uint8_t)(ndim + 2);
  desc->sizes[ndim] = rows_of(b);
  desc->sizes[ndim + 1] = columns_of(b);
  return TN_OK;
}

/* args: A mode */
TN_META(linalg_qr) {
  const tn_view *self = args[0].u.v;
  const char *mode = args[1].u.s;
  TN_TRY(check_matrices("A", self));
  bool complete = strcmp(mode, "complete") == 0, only_r = strcmp(mode, "r") == 0;
  if (!complete && !only_r && strcmp(mode, "reduced") != 0)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected mode 'reduced', 'complete' or 'r', got '%s'", mode);
  tn_dim m = rows_of(self), n = columns_of(self), k = complete ? m : smaller(m, n);
  matrices(&meta->out[0], self, m, k);
  if (only_r) tni_desc_set(&meta->out[0], self->dtype, 1, (const tn_dim[]){TN_DIM(0)}, TN_DESC_CONTIGUOUS);
  matrices(&meta->out[1], self, k, n);
  return TN_OK;
}

/* args: A UPLO compute_v */
TN_META(linalg_eigh) {
  const tn_view *self = args[0].u.v;
  const char *uplo = args[1].u.s;
  TN_TRY(check_square("A", self));
  if ((uplo[0] != 'L' && uplo[0] != 'U') || uplo[1])
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected UPLO 'L' or 'U', got '%s'", uplo);
  vectors(&meta->out[0], self->dtype, self, rows_of(self));
  matrices(&meta->out[1], self, rows_of(self), rows_of(self));
  if (!args[2].u.i)
    tni_desc_set(&meta->out[1], self->dtype, 1, (const tn_dim[]){TN_DIM(0)}, TN_DESC_CONTIGUOUS);
  return TN_OK;
}

/* args: A full_matrices compute_uv driver */
TN_META(linalg_svd) {
  const tn_view *self = args[0].u.v;
  TN_TRY(check_matrices("A", self));
  tn_dim m = rows_of(self), n = columns_of(self), k = smaller(m, n);
  bool full = args[1].u.i;
  matrices(&meta->out[0], self, m, full ? m : k);
  vectors(&meta->out[1], self->dtype, self, k);
  matrices(&meta->out[2], self, full ? n : k, n);
  for (int i = 0; i < 3 && !args[2].u.i; i += 2)
    tni_desc_set(&meta->out[i], self->dtype, 1, (const tn_dim[]){TN_DIM(0)}, TN_DESC_CONTIGUOUS);
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that only move or write elements: copy_, clone, fills, cat, triangles, arange. The moving itself
 * is in elements.c.
 */
#include "plugins/backend-cpu/cpu.h"

tn_status cpu_op_copy(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *dst = out[0].u.v, *src = args[1].u.v;
  if (src->backend != dst->backend) return TN_DECLINED; /* the other side's backend, or the host, does it */
  return cpu_copy(dst, src);
}

tn_status cpu_op_clone(tn_call *call, const tn_value *args, tn_value *out) {
  return cpu_copy(out[0].u.v, args[0].u.v);
}

tn_status cpu_op_fill(tn_call *call, const tn_value *args, tn_value *out) {
  cpu_scalar s = cpu_scalar_of(&args[1]);
  return cpu_fill(out[0].u.v, &s);
}

tn_status cpu_op_zero(tn_call *call, const tn_value *args, tn_value *out) {
  cpu_scalar zero = {0, 0};
  return cpu_fill(out[0].u.v, &zero);
}

/* ------------------------------------------------------------------ cat */

tn_status cpu_op_cat(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *result = out[0].u.v;
  uint32_t dim = cpu_dim(cpu_int(&args[1], 0), result->ndim);
  cpu_local part;
  cpu_local_copy(&part, result);
  int64_t at = 0;
  for (uint32_t i = 0; i < args[0].count; ++i) {
    const tn_view *v = args[0].u.vs[i];
    if (v->numel == 0) continue; /* 1-d empty ones fit any shape, as in ATen */
    cpu_local_narrow(&part, result, dim, at, v->sizes[dim]);
    TN_TRY(cpu_copy(&part.view, v));
    at += v->sizes[dim];
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ triangles */

typedef struct triangle {
  const tn_view *out, *self; /* row-major batch of matrices, walked by the last two dims */
  int64_t rows, columns, diagonal;
  bool upper;
  bool in_place;
} triangle;

/* One matrix row: what lies outside the triangle becomes 0. */
static void triangle_row(const triangle *t, char *dst, const char *src, int64_t row) {
  uint32_t d = t->out->ndim - 1u;
  int64_t so = cpu_stride_bytes(t->out, d), ss = cpu_stride_bytes(t->self, d);
  int64_t border =
      row + t->diagonal + (t->upper ? 0 : 1); /* lower: keeps columns < border; upper: >= border */
  border = border < 0 ? 0 : border > t->columns ? t->columns : border;
  int64_t begin = t->upper ? border : 0, end = t->upper ? t->columns : border;
  size_t size = t->out->itemsize;
  for (int64_t j = 0; j < t->columns; ++j) {
    if (j < begin || j >= end)
      memset(dst + j * so, 0, size);
    else if (!t->in_place)
      memcpy(dst + j * so, src + j * ss, size);
  }
}

static void triangle_matrices(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const triangle *t = ctx;
  uint32_t d = t->out->ndim - 2u;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t row = 0; row < t->rows; ++row)
      triangle_row(t, data[0] + i * strides[0] + row * cpu_stride_bytes(t->out, d),
                   data[1] + i * strides[1] + row * cpu_stride_bytes(t->self, d), row);
}

static tn_status run_triangle(const tn_value *args, tn_value *out, bool upper) {
  triangle t = {.out = out[0].u.v, .self = args[0].u.v, .diagonal = cpu_int(&args[1], 0), .upper = upper};
  if (t.out->numel == 0) return TN_OK;
  t.rows = t.out->sizes[t.out->ndim - 2];
  t.columns = t.out->sizes[t.out->ndim - 1];
  t.in_place = t.out->data == t.self->data;
  /* Beyond the matrix every diagonal is the same one: no overflow in row + diagonal. */
  int64_t most = t.rows + t.columns;
  t.diagonal = t.diagonal > most ? most : t.diagonal < -most ? -most : t.diagonal;
  cpu_local o, s;
  cpu_local_copy(&o, t.out);
  cpu_local_copy(&s, t.self);
  o.sizes[o.view.ndim - 1] = o.sizes[o.view.ndim - 2] = 1;
  s.sizes[s.view.ndim - 1] = s.sizes[s.view.ndim - 2] = 1;
  const tn_view *operands[2] = {&o.view, &s.view};
  tn_iter it;
  TN_TRY(tn_iter_init(&it, o.view.ndim, o.sizes, 1, 2, operands, 0));
  return tn_iter_run(&it, CPU_GRAIN / (t.rows * t.columns) + 1, triangle_matrices, &t);
}

tn_status cpu_op_tril(tn_call *call, const tn_value *args, tn_value *out) {
  return run_triangle(args, out, false);
}
tn_status cpu_op_triu(tn_call *call, const tn_value *args, tn_value *out) {
  return run_triangle(args, out, true);
}

/* ------------------------------------------------------------------ arange */

typedef struct arange {
  cpu_scalar start, step;
  tn_dtype dtype;
} arange;

/* Element i is start + i * step, never a running sum: no error builds up, and any split gives the same
 * bits. */
static void arange_row(void *ctx, char **data, const int64_t *strides, int64_t n, int64_t index) {
  const arange *a = ctx;
  bool is_int = tn_kit_dtype_is_int(a->dtype);
  for (int64_t i = 0; i < n; ++i) {
    cpu_scalar s = {.f = a->start.f + (double)(index + i) * a->step.f};
    s.i = is_int ? (int64_t)((uint64_t)a->start.i + (uint64_t)(index + i) * (uint64_t)a->step.i) : 0;
    cpu_put_scalar(data[0] + i * strides[0], a->dtype, &s);
  }
}

tn_status cpu_op_arange(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *v = out[0].u.v;
  arange a = {cpu_scalar_of(&args[0]), {1, 1}, v->dtype};
  if (args[2].kind != TN_VAL_NONE) a.step = cpu_scalar_of(&args[2]);
  tn_iter it;
  TN_TRY(tn_iter_init(&it, v->ndim, v->sizes, 1, 1, &v, TN_ITER_IN_ORDER));
  return tn_iter_run_indexed(&it, CPU_GRAIN, arange_row, &a);
}

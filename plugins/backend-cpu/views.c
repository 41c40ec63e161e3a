/* SPDX-License-Identifier: Apache-2.0
 *
 * Views that kernels make for themselves (one dim dropped, one moved last, a row-major block of scratch),
 * lines along one dim, and the check of indices. All of it small; the walking is the kit's iterator.
 */
#include <inttypes.h>
#include <math.h>
#include <tenon/kit/shape.h>

#include "plugins/backend-cpu/cpu.h"

cpu_scalar cpu_scalar_of(const tn_value *v) {
  if (v->kind != TN_VAL_FLOAT) return (cpu_scalar){(double)v->u.i, v->u.i};
  double f = v->u.f;
  if (f >= 0x1p63) return (cpu_scalar){f, INT64_MAX};
  if (f <= -0x1p63) return (cpu_scalar){f, INT64_MIN};
  return (cpu_scalar){f, isnan(f) ? 0 : (int64_t)f};
}

void cpu_local_copy(cpu_local *out, const tn_view *v) {
  out->view = *v;
  for (uint32_t d = 0; d < v->ndim; ++d) {
    out->sizes[d] = v->sizes[d];
    out->strides[d] = v->strides[d];
  }
  out->view.sizes = out->sizes;
  out->view.strides = out->strides;
}

/* numel and flags after sizes and strides were changed. */
static void finish(cpu_local *out) {
  tn_view *v = &out->view;
  v->numel = 1;
  for (uint32_t d = 0; d < v->ndim; ++d) v->numel *= v->sizes[d];
  bool contiguous = tn_shape_is_contiguous(v->ndim, v->sizes, v->strides);
  v->flags = (v->flags & ~(uint32_t)(TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE)) |
             (contiguous ? TN_VIEW_CONTIGUOUS | TN_VIEW_DENSE : 0u);
}

void cpu_local_contiguous(cpu_local *out, void *data, tn_dtype dtype, uint32_t ndim, const tn_dim *sizes) {
  out->view = (tn_view){.data = data,
                        .dtype = dtype,
                        .ndim = (uint8_t)ndim,
                        .sizes = out->sizes,
                        .strides = out->strides,
                        .itemsize = (uint8_t)tn_kit_dtype_size(dtype)};
  for (uint32_t d = 0; d < ndim; ++d) out->sizes[d] = sizes[d];
  tn_shape_contiguous_strides(ndim, out->sizes, out->strides);
  finish(out);
}

void cpu_local_expand(cpu_local *out, const tn_view *v, uint32_t ndim, const tn_dim *sizes) {
  out->view = *v;
  out->view.ndim = (uint8_t)ndim;
  out->view.sizes = out->sizes;
  out->view.strides = out->strides;
  for (uint32_t d = 0; d < ndim; ++d) out->sizes[d] = sizes[d];
  tn_shape_expand_strides(v->ndim, v->sizes, v->strides, ndim, sizes, out->strides);
  finish(out);
}

void cpu_local_drop(cpu_local *out, const tn_view *v, uint32_t dim) {
  cpu_local_copy(out, v);
  if (v->ndim == 0) return;
  for (uint32_t d = dim; d + 1 < v->ndim; ++d) {
    out->sizes[d] = v->sizes[d + 1];
    out->strides[d] = v->strides[d + 1];
  }
  --out->view.ndim;
  finish(out);
}

void cpu_local_narrow(cpu_local *out, const tn_view *v, uint32_t dim, int64_t begin, int64_t length) {
  cpu_local_copy(out, v);
  out->sizes[dim] = length;
  if (v->data) out->view.data = (char *)v->data + begin * cpu_stride_bytes(v, dim);
  finish(out);
}

void cpu_local_last(cpu_local *out, const tn_view *v, uint32_t dim) {
  cpu_local_drop(out, v, dim);
  if (v->ndim == 0) return;
  out->sizes[v->ndim - 1] = v->sizes[dim];
  out->strides[v->ndim - 1] = v->strides[dim];
  ++out->view.ndim;
  finish(out);
}

/* ------------------------------------------------------------------ lines */

typedef struct lines {
  uint32_t n_operands;
  cpu_line_fn fn;
  void *ctx;
} lines;

static void run_lines(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const lines *l = ctx;
  for (int64_t i = 0; i < n; ++i) {
    l->fn(l->ctx, data);
    for (uint32_t k = 0; k < l->n_operands; ++k) data[k] += strides[k];
  }
}

tn_status cpu_lines(uint32_t n_operands, const tn_view *const *views, uint32_t dim, int64_t grain,
                    cpu_line_fn fn, void *ctx) {
  cpu_local dropped[CPU_LINES_OPERANDS];
  const tn_view *operands[CPU_LINES_OPERANDS];
  uint32_t ndim = 0; /* a result that was reduced without keepdim has one dim less */
  for (uint32_t k = 0; k < n_operands; ++k) ndim = views[k]->ndim > ndim ? views[k]->ndim : ndim;
  for (uint32_t k = 0; k < n_operands; ++k) {
    if (views[k]->ndim == ndim)
      cpu_local_drop(&dropped[k], views[k], dim);
    else
      cpu_local_copy(&dropped[k], views[k]);
    operands[k] = &dropped[k].view;
    if (k == 0) continue;
    /* An operand may be longer than operand 0 in the other dims (gather): operand 0's sizes count. */
    for (uint32_t d = 0; d < operands[k]->ndim; ++d) dropped[k].sizes[d] = dropped[0].sizes[d];
    finish(&dropped[k]);
  }
  tn_iter it;
  TN_TRY(tn_iter_init(&it, operands[0]->ndim, operands[0]->sizes, 1, n_operands, operands, 0));
  lines l = {n_operands, fn, ctx};
  return tn_iter_run(&it, grain > 0 ? grain : 1, run_lines, &l);
}

/* ------------------------------------------------------------------ indices */

typedef struct index_check {
  int64_t low, high; /* allowed: low <= index < high */
  int64_t size;
} index_check;

static tn_status check_row(const index_check *c, tn_dtype dtype, const char *p, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t value = cpu_get_int(p + i * stride, dtype);
    if (__builtin_expect(value < c->low || value >= c->high, 0))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "index %" PRId64 " is out of range for a dim of size %" PRId64,
                     value, c->size);
  }
  return TN_OK;
}

typedef struct index_walk {
  index_check check;
  tn_dtype dtype;
  tn_status status;
} index_walk;

static void walk_row(void *ctx, char **data, const int64_t *strides, int64_t n) {
  index_walk *w = ctx;
  if (w->status == TN_OK) w->status = check_row(&w->check, w->dtype, data[0], strides[0], n);
}

tn_status cpu_check_index(const tn_view *index, int64_t size, bool wrap) {
  index_walk w = {{wrap ? -size : 0, size, size}, index->dtype, TN_OK};
  const tn_view *operands[1] = {index};
  TN_TRY(tn_iter_each(0, 1, operands, 0, walk_row, &w));
  return w.status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax and log_softmax with their gradients, and nll_loss forward and backward. Rows are brought to
 * contiguous float32 or float64 (dim last) if they are not; then one row function of per-isa/rows.c runs
 * per row.
 */
#include <inttypes.h>
#include <math.h>

#include "plugins/backend-cpu/cpu.h"

/* ------------------------------------------------------------------ rows */

typedef struct rows_job {
  cpu_row_fn unary;         /* forward */
  cpu_row2_fn binary;       /* backward */
  void (*stream_end)(void); /* after streamed rows */
  tn_dtype dtype;           /* of the row functions */
  tn_dtype out_dtype, x_dtype, y_dtype;
  char *out;
  const char *x, *y;
  int64_t n;
  char *rows; /* three rows of dtype for each worker, if an operand needs a cast */
} rows_job;

/* Where row i of an operand lies in the dtype that computes: in place, or in `row` after a cast. */
static const char *row_in(const rows_job *job, const char *data, tn_dtype dtype, int64_t i, char *row) {
  const char *at = data + (size_t)(i * job->n) * tn_kit_dtype_size(dtype);
  if (dtype == job->dtype) return at;
  cpu_now->cast(job->dtype, dtype)(row, at, job->n);
  return row;
}

static tn_status rows_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const rows_job *job = ctx;
  size_t bytes = (size_t)job->n * tn_kit_dtype_size(job->dtype);
  char *rows = job->rows ? job->rows + 3 * bytes * (size_t)worker : NULL;
  for (int64_t i = begin; i < end; ++i) {
    char *at = job->out + (size_t)(i * job->n) * tn_kit_dtype_size(job->out_dtype);
    char *out = job->out_dtype == job->dtype ? at : rows;
    const char *x = row_in(job, job->x, job->x_dtype, i, rows + bytes);
    if (job->unary)
      job->unary(out, x, job->n);
    else
      job->binary(out, x, row_in(job, job->y, job->y_dtype, i, rows + 2 * bytes), job->n);
    if (out != at) cpu_now->cast(job->out_dtype, job->dtype)(at, out, job->n);
  }
  if (job->stream_end) job->stream_end();
  return TN_OK;
}

/* dim last and row-major, in the operand's own dtype. */
static tn_status contiguous_rows(tn_call *call, const tn_view *v, uint32_t dim, const char **out_data) {
  cpu_local last;
  const void *data = v->data;
  cpu_local_last(&last, v, dim);
  TN_TRY(cpu_contiguous_data(call, &last.view, v->dtype, &data));
  *out_data = data;
  return TN_OK;
}

static tn_status run_rows(tn_call *call, rows_job *job, const tn_view *out, const tn_view *x,
                          const tn_view *y, uint32_t dim) {
  if (out->numel == 0) return TN_OK;
  cpu_local target, block;
  cpu_local_last(&target, out, dim);
  bool direct = cpu_contiguous(&target.view);
  void *data = out->data, *rows = NULL;
  if (!direct) TN_TRY(cpu_scratch(call, (size_t)out->numel * out->itemsize, &data));
  TN_TRY(contiguous_rows(call, x, dim, &job->x));
  if (y) TN_TRY(contiguous_rows(call, y, dim, &job->y));
  job->n = cpu_size(x, dim);
  job->out_dtype = out->dtype;
  job->x_dtype = x->dtype;
  job->y_dtype = y ? y->dtype : job->dtype;
  if (job->out_dtype != job->dtype || job->x_dtype != job->dtype || job->y_dtype != job->dtype) {
    size_t workers = (size_t)tn_kit_host()->num_threads();
    TN_TRY(cpu_scratch(call, 3 * workers * (size_t)job->n * tn_kit_dtype_size(job->dtype), &rows));
  }
  job->out = data;
  job->rows = rows;
  TN_TRY(tn_kit_host()->parallel_for(out->numel / job->n, CPU_GRAIN_HEAVY / job->n + 1, rows_chunk, job));
  if (direct) return TN_OK;
  cpu_local_contiguous(&block, data, out->dtype, target.view.ndim, target.sizes);
  return cpu_copy(&target.view, &block.view);
}

static const cpu_row_fns *fns_of(tn_dtype dtype) {
  return dtype == TN_FLOAT32 ? cpu_now->rows_f32 : cpu_now->rows_f64;
}

static tn_status forward(tn_call *call, const tn_value *args, tn_value *out, bool logs) {
  const tn_view *x = args[0].u.v, *operands[] = {out[0].u.v, x};
  rows_job job = {.dtype = cpu_wide(x->dtype)};
  const cpu_row_fns *fns = fns_of(job.dtype);
  bool stream = cpu_streams(2, operands) && job.dtype == x->dtype;
  job.unary = stream ? (logs ? fns->stream_log_softmax : fns->stream_softmax)
                     : (logs ? fns->log_softmax : fns->softmax);
  job.stream_end = stream ? fns->stream_end : NULL;
  return run_rows(call, &job, out[0].u.v, x, NULL, cpu_dim(args[1].u.i, x->ndim));
}

static tn_status backward(tn_call *call, const tn_value *args, tn_value *out, bool logs) {
  const tn_view *grad = args[0].u.v, *y = args[1].u.v, *operands[] = {out[0].u.v, grad, y};
  rows_job job = {.dtype = cpu_wide(y->dtype)};
  const cpu_row_fns *fns = fns_of(job.dtype);
  bool stream = cpu_streams(3, operands) && job.dtype == out[0].u.v->dtype;
  job.binary = stream ? (logs ? fns->stream_log_softmax_backward : fns->stream_softmax_backward)
                      : (logs ? fns->log_softmax_backward : fns->softmax_backward);
  job.stream_end = stream ? fns->stream_end : NULL;
  return run_rows(call, &job, out[0].u.v, grad, y, cpu_dim(args[2].u.i, y->ndim));
}

tn_status cpu_op_softmax(tn_call *call, const tn_value *args, tn_value *out) {
  return forward(call, args, out, false);
}
tn_status cpu_op_log_softmax(tn_call *call, const tn_value *args, tn_value *out) {
  return forward(call, args, out, true);
}
tn_status cpu_op_softmax_backward(tn_call *call, const tn_value *args, tn_value *out) {
  return backward(call, args, out, false);
}
tn_status cpu_op_log_softmax_backward(tn_call *call, const tn_value *args, tn_value *out) {
  return backward(call, args, out, true);
}

/* ------------------------------------------------------------------ nll_loss */

enum { REDUCTION_NONE = 0, REDUCTION_MEAN = 1, REDUCTION_SUM = 2 };

/* The batch as rows: self is (rows, classes) or (classes). */
typedef struct nll {
  const tn_view *self, *target, *weight;
  int64_t rows, classes, ignore, reduction;
} nll;

static nll nll_of(const tn_view *self, const tn_value *target, const tn_value *weight,
                  const tn_value *reduction, const tn_value *ignore) {
  return (nll){self,
               target->u.v,
               cpu_view(weight),
               self->ndim == 2 ? self->sizes[0] : 1,
               self->sizes[self->ndim - 1],
               cpu_int(ignore, -100),
               cpu_int(reduction, REDUCTION_MEAN)};
}

/* Class of row i, or -1 if the row is ignored. */
static tn_status class_of(const nll *l, int64_t i, int64_t *out_class) {
  int64_t stride = l->target->ndim ? cpu_stride_bytes(l->target, 0) : 0;
  int64_t c = cpu_get_int((const char *)l->target->data + i * stride, l->target->dtype);
  *out_class = c == l->ignore ? -1 : c;
  if (c != l->ignore && (c < 0 || c >= l->classes))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                   "target %" PRId64 " of row %" PRId64 " is no class: there are %" PRId64, c, i, l->classes);
  return TN_OK;
}

static double weight_of(const nll *l, int64_t c) {
  if (!l->weight) return 1;
  return cpu_get_double((const char *)l->weight->data + c * cpu_stride_bytes(l->weight, 0), l->weight->dtype);
}

static char *place_of(const tn_view *v, int64_t i, int64_t c) {
  int64_t row = v->ndim == 2 ? cpu_stride_bytes(v, 0) : 0;
  return (char *)v->data + i * row + c * cpu_stride_bytes(v, v->ndim - 1u);
}

static void put(const tn_view *v, int64_t i, double value) {
  cpu_scalar s = {value, 0};
  cpu_put_scalar((char *)v->data + (v->ndim ? i * cpu_stride_bytes(v, 0) : 0), v->dtype, &s);
}

tn_status cpu_op_nll_loss_forward(tn_call *call, const tn_value *args, tn_value *out) {
  nll l = nll_of(args[0].u.v, &args[1], &args[2], &args[3], &args[4]);
  const tn_view *output = out[0].u.v, *total_weight = out[1].u.v;
  double sum = 0, total = 0;
  for (int64_t i = 0; i < l.rows; ++i) {
    int64_t c;
    TN_TRY(class_of(&l, i, &c));
    double w = c < 0 ? 0 : weight_of(&l, c);
    double loss = c < 0 ? 0 : -w * cpu_get_double(place_of(l.self, i, c), l.self->dtype);
    sum += loss;
    total += w;
    if (l.reduction == REDUCTION_NONE) put(output, i, loss);
  }
  if (l.reduction != REDUCTION_NONE) put(output, 0, l.reduction == REDUCTION_MEAN ? sum / total : sum);
  put(total_weight, 0, l.reduction == REDUCTION_NONE ? 0 : total);
  return TN_OK;
}

/* args: grad_output self target weight reduction ignore_index total_weight */
tn_status cpu_op_nll_loss_backward(tn_call *call, const tn_value *args, tn_value *out) {
  nll l = nll_of(args[1].u.v, &args[2], &args[3], &args[4], &args[5]);
  const tn_view *grad = args[0].u.v, *total = args[6].u.v, *result = out[0].u.v;
  cpu_scalar none = {0, 0};
  int64_t c;
  for (int64_t i = 0; i < l.rows; ++i) TN_TRY(class_of(&l, i, &c));
  TN_TRY(cpu_fill(result, &none));
  double scale = l.reduction == REDUCTION_MEAN ? 1 / cpu_get_double(total->data, total->dtype) : 1;
  int64_t stride = l.reduction == REDUCTION_NONE && grad->ndim ? cpu_stride_bytes(grad, 0) : 0;
  for (int64_t i = 0; i < l.rows; ++i) {
    TN_TRY(class_of(&l, i, &c));
    if (c < 0) continue;
    double g = cpu_get_double((const char *)grad->data + i * stride, grad->dtype);
    cpu_scalar s = {-weight_of(&l, c) * g * scale, 0};
    cpu_put_scalar(place_of(result, i, c), result->dtype, &s);
  }
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * native_layer_norm and its gradients. The normalized dims are the last ones, so a row-major input is a
 * table of rows; halves and other layouts are brought to float32 (or float64) rows in scratch. mean and
 * rstd have the wide dtype, as the entry fixes it.
 *
 * Gradients of weight and bias are sums over rows: threads share columns, each column is summed in one
 * order.
 */
#include "plugins/backend-cpu/cpu.h"

/* One result: its own memory where that is row-major and wide, else scratch that is copied back. */
typedef struct target {
  const tn_view *view; /* NULL: not wanted */
  char *data;
  cpu_local block;
} target;

static tn_status begin_target(tn_call *call, const tn_value *out, tn_dtype dtype, target *t) {
  t->view = cpu_view(out);
  t->data = NULL;
  if (!t->view) return TN_OK;
  void *data = t->view->data;
  if (t->view->dtype != dtype || !cpu_contiguous(t->view))
    TN_TRY(cpu_scratch(call, (size_t)t->view->numel * tn_kit_dtype_size(dtype), &data));
  t->data = data;
  cpu_local_contiguous(&t->block, data, dtype, t->view->ndim, t->view->sizes);
  return TN_OK;
}

static tn_status end_target(const target *t) {
  return t->view && t->data != t->view->data ? cpu_copy(t->view, &t->block.view) : TN_OK;
}

typedef struct norm_job {
  cpu_norm s;
  const cpu_norm_fns *fns;
  size_t size; /* of an element */
  int64_t rows;
  const char *grad, *input, *mean, *rstd;
  char *out, *out_mean, *out_rstd;
  double *weight, *bias; /* gradients, one sum a column */
} norm_job;

static tn_status optional_data(tn_call *call, const tn_value *v, tn_dtype dtype, const void **out_data) {
  *out_data = NULL;
  return v->kind == TN_VAL_TENSOR ? cpu_contiguous_data(call, v->u.v, dtype, out_data) : TN_OK;
}

static tn_status data_of(tn_call *call, const tn_value *v, tn_dtype dtype, const char **out_data) {
  const void *data;
  TN_TRY(cpu_contiguous_data(call, v->u.v, dtype, &data));
  *out_data = data;
  return TN_OK;
}

static norm_job job_of(const tn_view *input, const tn_value *shape, tn_dtype dtype) {
  norm_job job = {.s = {.n = 1},
                  .fns = dtype == TN_FLOAT32 ? cpu_now->norm_f32 : cpu_now->norm_f64,
                  .size = tn_kit_dtype_size(dtype)};
  for (uint32_t i = 0; i < shape->count; ++i) job.s.n *= shape->u.ints[i];
  job.rows = job.s.n ? input->numel / job.s.n : 0;
  return job;
}

static int64_t rows_grain(const norm_job *job) { return CPU_GRAIN_HEAVY / job->s.n + 1; }

/* ------------------------------------------------------------------ forward */

static tn_status forward_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const norm_job *job = ctx;
  size_t row = (size_t)job->s.n * job->size;
  for (int64_t i = begin; i < end; ++i)
    job->fns->forward(&job->s, job->input + (size_t)i * row, job->out + (size_t)i * row,
                      job->out_mean + (size_t)i * job->size, job->out_rstd + (size_t)i * job->size);
  return TN_OK;
}

/* args: input normalized_shape weight bias eps */
tn_status cpu_op_layer_norm(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *input = args[0].u.v;
  tn_dtype dtype = cpu_wide(input->dtype);
  norm_job job = job_of(input, &args[1], dtype);
  target t[3];
  if (job.rows == 0) return TN_OK;
  for (int i = 0; i < 3; ++i) TN_TRY(begin_target(call, &out[i], dtype, &t[i]));
  TN_TRY(data_of(call, &args[0], dtype, &job.input));
  TN_TRY(optional_data(call, &args[2], dtype, &job.s.weight));
  TN_TRY(optional_data(call, &args[3], dtype, &job.s.bias));
  job.s.eps = cpu_double(&args[4], 0);
  job.out = t[0].data;
  job.out_mean = t[1].data;
  job.out_rstd = t[2].data;
  TN_TRY(tn_kit_host()->parallel_for(job.rows, rows_grain(&job), forward_chunk, &job));
  for (int i = 0; i < 3; ++i) TN_TRY(end_target(&t[i]));
  return TN_OK;
}

/* ------------------------------------------------------------------ backward */

static tn_status backward_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const norm_job *job = ctx;
  size_t row = (size_t)job->s.n * job->size;
  tn_dtype dtype = job->size == sizeof(float) ? TN_FLOAT32 : TN_FLOAT64;
  for (int64_t i = begin; i < end; ++i)
    job->fns->backward(&job->s, job->grad + (size_t)i * row, job->input + (size_t)i * row,
                       cpu_get_double(job->mean + (size_t)i * job->size, dtype),
                       cpu_get_double(job->rstd + (size_t)i * job->size, dtype), job->out + (size_t)i * row);
  return TN_OK;
}

static tn_status columns_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const norm_job *job = ctx;
  for (int64_t j = begin; j < end; j += CPU_FOLD_COLUMNS) {
    int64_t n = end - j < CPU_FOLD_COLUMNS ? end - j : CPU_FOLD_COLUMNS;
    size_t at = (size_t)j * job->size;
    job->fns->columns(&job->s, job->grad + at, job->input + at, job->mean, job->rstd, job->rows, n,
                      job->weight + j, job->bias + j);
  }
  return TN_OK;
}

static tn_status run_columns(tn_call *call, norm_job *job, const tn_view *weight, const tn_view *bias) {
  void *sums;
  size_t bytes = (size_t)job->s.n * sizeof(double);
  TN_TRY(cpu_scratch(call, 2 * bytes, &sums));
  memset(sums, 0, 2 * bytes);
  job->weight = sums;
  job->bias = job->weight + job->s.n;
  TN_TRY(tn_kit_host()->parallel_for(job->s.n, CPU_GRAIN_HEAVY / (job->rows + 1) + CPU_FOLD_COLUMNS,
                                     columns_chunk, job));
  const tn_view *views[2] = {weight, bias};
  double *data[2] = {job->weight, job->bias};
  for (int i = 0; i < 2; ++i) {
    cpu_local block;
    if (!views[i]) continue;
    cpu_local_contiguous(&block, data[i], TN_FLOAT64, views[i]->ndim, views[i]->sizes);
    TN_TRY(cpu_copy(views[i], &block.view));
  }
  return TN_OK;
}

/* args: grad_out input normalized_shape mean rstd weight bias output_mask */
tn_status cpu_op_layer_norm_backward(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *input = args[1].u.v, *weight = cpu_view(&out[1]), *bias = cpu_view(&out[2]);
  const cpu_scalar none = {0, 0};
  tn_dtype dtype = cpu_wide(input->dtype);
  norm_job job = job_of(input, &args[2], dtype);
  target t;
  if (job.rows == 0) { /* sums over no rows */
    if (weight) TN_TRY(cpu_fill(weight, &none));
    return bias ? cpu_fill(bias, &none) : TN_OK;
  }
  TN_TRY(begin_target(call, &out[0], dtype, &t));
  TN_TRY(data_of(call, &args[0], dtype, &job.grad));
  TN_TRY(data_of(call, &args[1], dtype, &job.input));
  TN_TRY(data_of(call, &args[3], dtype, &job.mean));
  TN_TRY(data_of(call, &args[4], dtype, &job.rstd));
  TN_TRY(optional_data(call, &args[5], dtype, &job.s.weight));
  job.out = t.data;
  if (t.view) TN_TRY(tn_kit_host()->parallel_for(job.rows, rows_grain(&job), backward_chunk, &job));
  TN_TRY(end_target(&t));
  return weight || bias ? run_columns(call, &job, weight, bias) : TN_OK;
}

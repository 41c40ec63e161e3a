/* SPDX-License-Identifier: Apache-2.0
 *
 * native_layer_norm and _fused_rms_norm with their gradients. The normalized dims are the last ones, so a row-major input is a
 * table of rows; halves and other layouts are brought to float32 (or float64) rows in scratch. mean and
 * rstd have the wide dtype, as the entry fixes it.
 */
#include <float.h>
#include <math.h>

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
  double *weight; /* of each chunk of rows, sums for weight and then for bias; NULL: not wanted */
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
                      job->out_mean ? job->out_mean + (size_t)i * job->size : NULL,
                      job->out_rstd + (size_t)i * job->size);
  if (job->s.stream) job->fns->stream_end();
  return TN_OK;
}

/* Of rows without elements, of which ATen says: the mean is 0, and what is divided by a number of 0 is NaN. */
static tn_status fill_of_nothing(const norm_job *job, tn_value *out) {
  const cpu_scalar zero = {0, 0}, nan = {NAN, 0};
  if (!job->s.rms) TN_TRY(cpu_fill(out[1].u.v, &zero));
  return cpu_fill(out[job->s.rms ? 1 : 2].u.v, &nan);
}

/* out: the result, means unless rms, reciprocal deviations. */
static tn_status run_forward(tn_call *call, norm_job *job, const tn_value *input, const tn_value *weight,
                             const tn_value *bias, tn_value *out, tn_dtype dtype) {
  target t[3];
  int n = job->s.rms ? 2 : 3;
  if (job->rows == 0) return fill_of_nothing(job, out);
  for (int i = 0; i < n; ++i) TN_TRY(begin_target(call, &out[i], dtype, &t[i]));
  TN_TRY(data_of(call, input, dtype, &job->input));
  TN_TRY(optional_data(call, weight, dtype, &job->s.weight));
  if (bias) TN_TRY(optional_data(call, bias, dtype, &job->s.bias));
  const tn_view *operands[] = {t[0].view, input->u.v};
  job->s.stream = t[0].data == t[0].view->data && cpu_streams(2, operands);
  job->out = t[0].data;
  job->out_mean = job->s.rms ? NULL : t[1].data;
  job->out_rstd = t[n - 1].data;
  TN_TRY(tn_kit_host()->parallel_for(job->rows, rows_grain(job), forward_chunk, job));
  for (int i = 0; i < n; ++i) TN_TRY(end_target(&t[i]));
  return TN_OK;
}

/* args: input normalized_shape weight bias eps */
tn_status cpu_op_layer_norm(tn_call *call, const tn_value *args, tn_value *out) {
  tn_dtype dtype = cpu_wide(args[0].u.v->dtype);
  norm_job job = job_of(args[0].u.v, &args[1], dtype);
  job.s.eps = cpu_double(&args[4], 0);
  return run_forward(call, &job, &args[0], &args[2], &args[3], out, dtype);
}

static double epsilon_of(tn_dtype dtype) {
  return dtype == TN_FLOAT64   ? DBL_EPSILON
         : dtype == TN_FLOAT32 ? FLT_EPSILON
         : dtype == TN_FLOAT16 ? 0x1p-10
                               : 0x1p-7;
}

/* args: input normalized_shape weight eps */
tn_status cpu_op_rms_norm(tn_call *call, const tn_value *args, tn_value *out) {
  tn_dtype dtype = cpu_wide(args[0].u.v->dtype);
  norm_job job = job_of(args[0].u.v, &args[1], dtype);
  job.s.rms = true;
  job.s.eps = args[3].kind == TN_VAL_NONE ? epsilon_of(args[0].u.v->dtype) : cpu_double(&args[3], 0);
  return run_forward(call, &job, &args[0], &args[2], NULL, out, dtype);
}

/* ------------------------------------------------------------------ backward */

/* Note [Rows for weights]
 * Gradients of weight and bias are sums over rows. Chunks of rows, whose borders come from the sizes alone, are
 * summed apart and joined in order, so that each element of grad and input is read from memory once, the threads
 * share rows, and the bits do not depend on how many there are. A chunk has at least 16 rows: the sums of all
 * chunks together take at most half the memory of grad. */
enum { CHUNKS_MOST = 32, CHUNK_ROWS = 16, COLUMN_ROWS = 8 };

static int64_t chunk_rows(const norm_job *job) {
  int64_t rows = (job->rows + CHUNKS_MOST - 1) / CHUNKS_MOST;
  rows = (rows + COLUMN_ROWS - 1) / COLUMN_ROWS * COLUMN_ROWS;
  return rows < CHUNK_ROWS ? CHUNK_ROWS : rows;
}

/* Up to COLUMN_ROWS rows: first their own gradients, then, while they are cached, their share in the sums. */
static void backward_rows(const norm_job *job, int64_t begin, int64_t end, double *weight, double *bias) {
  size_t row = (size_t)job->s.n * job->size;
  tn_dtype dtype = job->size == sizeof(float) ? TN_FLOAT32 : TN_FLOAT64;
  const char *grad = job->grad + (size_t)begin * row, *input = job->input + (size_t)begin * row;
  const char *mean = job->mean ? job->mean + (size_t)begin * job->size : NULL;
  const char *rstd = job->rstd + (size_t)begin * job->size;
  if (job->out)
    for (int64_t i = 0; i < end - begin; ++i)
      job->fns->backward(&job->s, grad + (size_t)i * row, input + (size_t)i * row,
                         mean ? cpu_get_double(mean + (size_t)i * job->size, dtype) : 0,
                         cpu_get_double(rstd + (size_t)i * job->size, dtype),
                         job->out + ((size_t)(begin + i)) * row);
  if (weight) job->fns->columns(&job->s, grad, input, mean, rstd, end - begin, 0, job->s.n, weight, bias);
}

static tn_status backward_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const norm_job *job = ctx;
  int64_t size = chunk_rows(job);
  for (int64_t c = begin; c < end; ++c) {
    int64_t last = job->rows - c * size < size ? job->rows : (c + 1) * size;
    double *weight = job->weight ? job->weight + 2 * c * job->s.n : NULL;
    double *bias = weight ? weight + job->s.n : NULL;
    if (weight) memset(weight, 0, 2 * (size_t)job->s.n * sizeof *weight);
    for (int64_t i = c * size; i < last; i += COLUMN_ROWS)
      backward_rows(job, i, last - i < COLUMN_ROWS ? last : i + COLUMN_ROWS, weight, bias);
  }
  return TN_OK;
}

/* Chunk 0's sums take in the others', and are copied to the results. */
static tn_status join_columns(norm_job *job, int64_t chunks, const tn_view *weight, const tn_view *bias) {
  double *sums = job->weight;
  for (int64_t c = 1; c < chunks; ++c)
    for (int64_t j = 0; j < 2 * job->s.n; ++j) sums[j] += sums[2 * c * job->s.n + j];
  const tn_view *views[2] = {weight, bias};
  for (int i = 0; i < 2; ++i) {
    cpu_local block;
    if (!views[i]) continue;
    cpu_local_contiguous(&block, sums + i * job->s.n, TN_FLOAT64, views[i]->ndim, views[i]->sizes);
    TN_TRY(cpu_copy(views[i], &block.view));
  }
  return TN_OK;
}

/* args: grad, input, mean unless rms, rstd, weight. out: of input, weight, bias unless rms. */
static tn_status run_backward(tn_call *call, norm_job *job, const tn_value *const args[5], tn_value *out,
                              tn_dtype dtype) {
  const tn_view *weight = cpu_view(&out[1]), *bias = job->s.rms ? NULL : cpu_view(&out[2]);
  const cpu_scalar none = {0, 0};
  target t;
  if (job->rows == 0) { /* sums over no rows */
    if (weight) TN_TRY(cpu_fill(weight, &none));
    return bias ? cpu_fill(bias, &none) : TN_OK;
  }
  TN_TRY(begin_target(call, &out[0], dtype, &t));
  TN_TRY(data_of(call, args[0], dtype, &job->grad));
  TN_TRY(data_of(call, args[1], dtype, &job->input));
  if (args[2]) TN_TRY(data_of(call, args[2], dtype, &job->mean));
  TN_TRY(data_of(call, args[3], dtype, &job->rstd));
  TN_TRY(optional_data(call, args[4], dtype, &job->s.weight));
  job->out = t.data;
  int64_t chunks = (job->rows + chunk_rows(job) - 1) / chunk_rows(job);
  if (weight || bias) {
    void *sums;
    TN_TRY(cpu_scratch(call, (size_t)(2 * chunks * job->s.n) * sizeof(double), &sums));
    job->weight = sums;
  }
  TN_TRY(tn_kit_host()->parallel_for(chunks, rows_grain(job) / chunk_rows(job) + 1, backward_chunk, job));
  TN_TRY(end_target(&t));
  return job->weight ? join_columns(job, chunks, weight, bias) : TN_OK;
}

/* args: grad_out input normalized_shape mean rstd weight bias output_mask */
tn_status cpu_op_layer_norm_backward(tn_call *call, const tn_value *args, tn_value *out) {
  tn_dtype dtype = cpu_wide(args[1].u.v->dtype);
  norm_job job = job_of(args[1].u.v, &args[2], dtype);
  return run_backward(call, &job, (const tn_value *const[]){&args[0], &args[1], &args[3], &args[4], &args[5]},
                      out, dtype);
}

/* args: grad_out input normalized_shape rstd weight output_mask */
tn_status cpu_op_rms_norm_backward(tn_call *call, const tn_value *args, tn_value *out) {
  tn_dtype dtype = cpu_wide(args[1].u.v->dtype);
  norm_job job = job_of(args[1].u.v, &args[2], dtype);
  job.s.rms = true;
  return run_backward(call, &job, (const tn_value *const[]){&args[0], &args[1], NULL, &args[3], &args[4]},
                      out, dtype);
}

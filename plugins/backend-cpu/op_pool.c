/* SPDX-License-Identifier: Apache-2.0
 *
 * Max, average and adaptive pooling over images, forward and backward. A plan lists for each output row and
 * column which input rows and columns its windows read; per-isa/pool.c walks it. Threads share planes (or
 * whole images, if the channels are innermost), so that no two of them write one element.
 */
#include "plugins/backend-cpu/images.h"

typedef struct pool_job {
  cpu_pool plan;
  const cpu_pool_fns *fns;
  size_t size;
  bool last;                 /* channels innermost */
  int64_t tasks;             /* planes, or images */
  int64_t in_each, out_each; /* elements of a task */
  tn_dtype dtype;
  const char *from;
  char *to;
  int64_t *index;
} pool_job;

/* ------------------------------------------------------------------ plans */

static tn_status plan_memory(tn_call *call, cpu_pool *plan) {
  int64_t n = plan->out[0] + plan->out[1];
  void *memory;
  TN_TRY(cpu_scratch(call, (size_t)n * (2 * sizeof(int64_t) + sizeof(double)), &memory));
  int64_t *ints = memory;
  double *divisors = (double *)(void *)(ints + 2 * n);
  for (int i = 0; i < 2; ++i) {
    plan->begin[i] = ints + (i ? 2 * plan->out[0] : 0);
    plan->end[i] = plan->begin[i] + plan->out[i];
    plan->divisor[i] = divisors + (i ? plan->out[0] : 0);
  }
  return TN_OK;
}

static int64_t entry(const tn_value *list, uint32_t i) { return list->u.ints[list->count == 1 ? 0 : i]; }

/* Output columns whose windows are as wide as the widest and evenly apart, seen from the plan itself. */
static void plan_inner(cpu_pool *plan) {
  const int64_t *begin = plan->begin[1], *end = plan->end[1], n = plan->out[1];
  int64_t widest = 0, from = 0;
  for (int64_t o = 0; o < n; ++o)
    if (end[o] - begin[o] > widest) widest = end[o] - begin[o];
  while (from < n && end[from] - begin[from] < widest) ++from;
  int64_t until = from + 1;
  plan->advance = until < n ? begin[until] - begin[from] : 1;
  while (until < n && end[until] - begin[until] == widest &&
         begin[until] - begin[until - 1] == plan->advance &&
         plan->divisor[1][until] == plan->divisor[1][from])
    ++until;
  plan->inner[0] = from < n ? from : n;
  plan->inner[1] = until < n ? until : n;
}

/* Windows of max and average pooling. dilation NULL: 1. divisors count padded elements, or only those inside.
 */
static void plan_windows(cpu_pool *plan, const tn_value *kernel, const tn_value *stride,
                         const tn_value *padding, const tn_value *dilation, bool count_padding) {
  for (uint32_t i = 0; i < 2; ++i) {
    int64_t step = dilation ? entry(dilation, i) : 1, pad = entry(padding, i);
    int64_t advance = stride->count ? entry(stride, i) : entry(kernel, i);
    plan->step[i] = step;
    for (int64_t o = 0; o < plan->out[i]; ++o) {
      int64_t begin = o * advance - pad, end = begin + (entry(kernel, i) - 1) * step + 1;
      int64_t padded_end = end < plan->in[i] + pad ? end : plan->in[i] + pad, padded = padded_end - begin;
      if (begin < 0) begin += (-begin + step - 1) / step * step;
      if (end > plan->in[i]) end = plan->in[i];
      if (begin >= plan->in[i]) begin = end = plan->in[i] - 1; /* dilated past a small image: empty */
      plan->begin[i][o] = begin;
      plan->end[i][o] = end;
      plan->divisor[i][o] = (double)(count_padding ? padded : end - begin);
    }
  }
  plan_inner(plan);
}

static bool are_tiles(const cpu_pool *plan, int dim) {
  const int64_t *begin = plan->begin[dim], *end = plan->end[dim];
  bool good = plan->out[dim] > 0 && plan->step[dim] == 1 && begin[0] == 0;
  for (int64_t o = 1; o < plan->out[dim] && good; ++o) good = begin[o] == end[o - 1];
  return good;
}

/* Part o of n parts of `in`: from floor(o * in / n) to ceil((o + 1) * in / n). */
static void plan_parts(cpu_pool *plan) {
  for (uint32_t i = 0; i < 2; ++i) {
    int64_t n = plan->out[i], whole = n ? plan->in[i] / n : 0, rest = n ? plan->in[i] % n : 0;
    plan->step[i] = 1;
    for (int64_t o = 0; o < n; ++o) {
      plan->begin[i][o] = o * whole + o * rest / n;
      plan->end[i][o] = (o + 1) * whole + ((o + 1) * rest + n - 1) / n;
      plan->divisor[i][o] = (double)(plan->end[i][o] - plan->begin[i][o]);
    }
  }
  plan_inner(plan);
}

static void override_divisor(cpu_pool *plan, const tn_value *divisor) {
  if (divisor->kind == TN_VAL_NONE) return;
  for (uint32_t i = 0; i < 2; ++i)
    for (int64_t o = 0; o < plan->out[i]; ++o) plan->divisor[i][o] = i ? 1 : (double)divisor->u.i;
}

/* ------------------------------------------------------------------ jobs */

static tn_status begin_job(tn_call *call, const tn_view *in, const tn_view *out, bool last, pool_job *job) {
  uint32_t n = in->ndim;
  *job = (pool_job){.last = last, .dtype = cpu_wide(in->dtype)};
  job->fns = job->dtype == TN_FLOAT32 ? cpu_now->pool_f32 : cpu_now->pool_f64;
  job->size = tn_kit_dtype_size(job->dtype);
  job->plan.channels = last ? in->sizes[1] : 1;
  for (uint32_t i = 0; i < 2; ++i) {
    job->plan.in[i] = in->sizes[n - 2 + i];
    job->plan.out[i] = out->sizes[n - 2 + i];
  }
  job->in_each = job->plan.in[0] * job->plan.in[1] * job->plan.channels;
  job->out_each = job->plan.out[0] * job->plan.out[1] * job->plan.channels;
  job->tasks = in->numel / job->in_each;
  return plan_memory(call, &job->plan);
}

static tn_status run_tasks(pool_job *job, tn_parallel_fn fn) {
  int64_t work = job->in_each > job->out_each ? job->in_each : job->out_each;
  return tn_kit_host()->parallel_for(job->tasks, CPU_GRAIN_HEAVY / work + 1, fn, job);
}

static tn_status read_images(tn_call *call, const tn_view *v, pool_job *job) {
  const void *data;
  TN_TRY(cpu_image_data(call, v, job->dtype, job->last, &data));
  job->from = data;
  return TN_OK;
}

/* ------------------------------------------------------------------ max */

static tn_status max_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const pool_job *job = ctx;
  for (int64_t i = begin; i < end; ++i)
    job->fns->max[job->last](&job->plan, job->from + (size_t)(i * job->in_each) * job->size,
                             job->to + (size_t)(i * job->out_each) * job->size,
                             job->index + i * job->out_each);
  return TN_OK;
}

/* The plan is made. */
static tn_status run_max(tn_call *call, pool_job *job, const tn_view *self, tn_value *out) {
  cpu_image values, places;
  TN_TRY(read_images(call, self, job));
  TN_TRY(cpu_image_begin(call, &out[0], job->dtype, job->last, &values));
  TN_TRY(cpu_image_begin(call, &out[1], TN_INT64, job->last, &places));
  job->to = values.data;
  job->index = places.data;
  TN_TRY(run_tasks(job, max_chunk));
  TN_TRY(cpu_image_end(&values));
  return cpu_image_end(&places);
}

/* args: self kernel_size stride padding dilation ceil_mode */
tn_status cpu_op_max_pool2d(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *result = out[0].u.v;
  pool_job job;
  if (result->numel == 0) return TN_OK;
  TN_TRY(begin_job(call, self, result, cpu_channels_last(result) && self->ndim == 4, &job));
  plan_windows(&job.plan, &args[1], &args[2], &args[3], &args[4], false);
  return run_max(call, &job, self, out);
}

/* args: self output_size */
tn_status cpu_op_adaptive_max_pool2d(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *result = out[0].u.v;
  pool_job job;
  if (result->numel == 0) return TN_OK;
  TN_TRY(begin_job(call, self, result, cpu_channels_last(result) && self->ndim == 4, &job));
  plan_parts(&job.plan);
  return run_max(call, &job, self, out);
}

/* Are all of n indices within [0, limit)? */
static bool within(const int64_t *index, int64_t n, int64_t limit) {
  int64_t outside = 0; /* its sign bit */
  for (int64_t i = 0; i < n; ++i) outside |= index[i] | (int64_t)((uint64_t)(limit - 1) - (uint64_t)index[i]);
  return outside >= 0;
}

/* The words for an index of task i that points out of its plane. */
static tn_status bad_index(const pool_job *job, int64_t i, int64_t plane) {
  cpu_local block;
  cpu_local_contiguous(&block, job->index + i * job->out_each, TN_INT64, 1, &job->out_each);
  return cpu_check_index(&block.view, plane, false);
}

static tn_status unmax_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const pool_job *job = ctx;
  const int64_t plane = job->plan.in[0] * job->plan.in[1];
  for (int64_t i = begin; i < end; ++i) {
    char *to = job->to + (size_t)(i * job->in_each) * job->size;
    const char *from = job->from + (size_t)(i * job->out_each) * job->size;
    const int64_t *index = job->index + i * job->out_each;
    if (job->plan.tiles && job->fns->unmax_tiles(&job->plan, from, index, to)) continue;
    if (!within(index, job->out_each, plane)) return bad_index(job, i, plane);
    if (job->in_each) memset(to, 0, (size_t)job->in_each * job->size);
    job->fns->unmax[job->last](&job->plan, from, index, to);
  }
  return TN_OK;
}

/* windows: where kernel_size stands in args, or NULL for windows that are parts. */
static tn_status run_unmax(tn_call *call, const tn_view *grad, const tn_view *self, const tn_view *index,
                           const tn_value *windows, tn_value *out) {
  const void *places;
  pool_job job;
  cpu_image to;
  if (self->numel == 0) return TN_OK;
  TN_TRY(begin_job(call, self, grad, cpu_channels_last(out[0].u.v) && self->ndim == 4, &job));
  if (windows)
    plan_windows(&job.plan, &windows[0], &windows[1], &windows[2], &windows[3], false);
  else
    plan_parts(&job.plan);
  job.plan.tiles = job.last && are_tiles(&job.plan, 0) && are_tiles(&job.plan, 1);
  TN_TRY(read_images(call, grad, &job));
  TN_TRY(cpu_image_data(call, index, TN_INT64, job.last, &places));
  TN_TRY(cpu_image_begin(call, &out[0], job.dtype, job.last, &to));
  job.index = (int64_t *)(uintptr_t)places;
  job.to = to.data;
  TN_TRY(run_tasks(&job, unmax_chunk));
  return cpu_image_end(&to);
}

/* args: grad_output self kernel_size stride padding dilation ceil_mode indices */
tn_status cpu_op_max_pool2d_backward(tn_call *call, const tn_value *args, tn_value *out) {
  return run_unmax(call, args[0].u.v, args[1].u.v, args[7].u.v, &args[2], out);
}

/* args: grad_output self indices */
tn_status cpu_op_adaptive_max_pool2d_backward(tn_call *call, const tn_value *args, tn_value *out) {
  return run_unmax(call, args[0].u.v, args[1].u.v, args[2].u.v, NULL, out);
}

/* ------------------------------------------------------------------ mean */

static tn_status mean_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const pool_job *job = ctx;
  for (int64_t i = begin; i < end; ++i)
    job->fns->mean[job->last](&job->plan, job->from + (size_t)(i * job->in_each) * job->size,
                              job->to + (size_t)(i * job->out_each) * job->size);
  return TN_OK;
}

static tn_status unmean_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const pool_job *job = ctx;
  for (int64_t i = begin; i < end; ++i) {
    char *to = job->to + (size_t)(i * job->in_each) * job->size;
    if (job->in_each) memset(to, 0, (size_t)job->in_each * job->size);
    job->fns->unmean[job->last](&job->plan, job->from + (size_t)(i * job->out_each) * job->size, to);
  }
  return TN_OK;
}

/* Forward: from self to the pooled result. Backward: from the pooled gradient to self's. The plan is made. */
static tn_status run_mean(tn_call *call, pool_job *job, const tn_view *from, tn_value *out,
                          tn_parallel_fn fn) {
  cpu_image to;
  TN_TRY(read_images(call, from, job));
  TN_TRY(cpu_image_begin(call, &out[0], job->dtype, job->last, &to));
  job->to = to.data;
  TN_TRY(run_tasks(job, fn));
  return cpu_image_end(&to);
}

/* args: self kernel_size stride padding ceil_mode count_include_pad divisor_override */
tn_status cpu_op_avg_pool2d(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *result = out[0].u.v;
  pool_job job;
  if (result->numel == 0) return TN_OK;
  TN_TRY(begin_job(call, self, result, cpu_channels_last(result) && self->ndim == 4, &job));
  plan_windows(&job.plan, &args[1], &args[2], &args[3], NULL, args[5].u.i);
  override_divisor(&job.plan, &args[6]);
  return run_mean(call, &job, self, out, mean_chunk);
}

/* args: grad_output self kernel_size stride padding ceil_mode count_include_pad divisor_override */
tn_status cpu_op_avg_pool2d_backward(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *grad = args[0].u.v, *self = args[1].u.v;
  pool_job job;
  if (self->numel == 0) return TN_OK;
  TN_TRY(begin_job(call, self, grad, cpu_channels_last(out[0].u.v) && self->ndim == 4, &job));
  plan_windows(&job.plan, &args[2], &args[3], &args[4], NULL, args[6].u.i);
  override_divisor(&job.plan, &args[7]);
  return run_mean(call, &job, grad, out, unmean_chunk);
}

tn_status cpu_op_adaptive_avg_pool2d(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *result = out[0].u.v;
  pool_job job;
  if (result->numel == 0) return TN_OK;
  TN_TRY(begin_job(call, self, result, cpu_channels_last(result) && self->ndim == 4, &job));
  plan_parts(&job.plan);
  return run_mean(call, &job, self, out, mean_chunk);
}

tn_status cpu_op_adaptive_avg_pool2d_backward(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *grad = args[0].u.v, *self = args[1].u.v;
  pool_job job;
  if (self->numel == 0) return TN_OK;
  TN_TRY(begin_job(call, self, grad, cpu_channels_last(out[0].u.v) && self->ndim == 4, &job));
  plan_parts(&job.plan);
  return run_mean(call, &job, grad, out, unmean_chunk);
}

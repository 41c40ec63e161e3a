/* SPDX-License-Identifier: Apache-2.0
 *
 * convolution and convolution_backward over 1 to 3 spatial dims, with groups, dilation and the transposed
 * form: reads the arguments, chooses between tiles and columns (conv.h), and makes the gradients of weight
 * (over fixed chunks of the batch) and of bias.
 */
#include "plugins/backend-cpu/conv.h"

/* ------------------------------------------------------------------ what is asked */

static int64_t entry(const tn_value *list, uint32_t i) { return list->u.ints[list->count == 1 ? 0 : i]; }

static int64_t block_of(const cpu_conv *c) {
  enum { COLUMNS_BYTES = 256 << 10, LEAST = 64 };
  int64_t block = COLUMNS_BYTES / (int64_t)c->size / (c->columns > 0 ? c->columns : 1) / LEAST * LEAST;
  if (block < LEAST) block = LEAST;
  return block < c->small_positions ? block : c->small_positions;
}

/* lists: stride padding dilation transposed output_padding groups */
static cpu_conv conv_of(const tn_view *big, const tn_view *small, const tn_view *weight,
                        const tn_value *lists, bool last) {
  uint32_t n = (uint32_t)big->ndim - 2;
  cpu_conv c = {.batch = big->sizes[0],
                .groups = lists[5].u.i,
                .big_channels = big->sizes[1],
                .small_channels = small->sizes[1],
                .rows = weight->sizes[0] / lists[5].u.i,
                .taps = 1,
                .big_positions = 1,
                .small_positions = 1,
                .last = last,
                .pointwise = true,
                .dtype = cpu_wide(big->dtype)};
  c.window.channels = weight->sizes[1];
  c.window.all_channels = c.big_channels;
  for (uint32_t d = 0; d < 3; ++d) {
    bool given = d + n >= 3;
    uint32_t i = given ? d + n - 3 : 0;
    c.window.in[d] = given ? big->sizes[i + 2] : 1;
    c.window.out[d] = given ? small->sizes[i + 2] : 1;
    c.window.kernel[d] = given ? weight->sizes[i + 2] : 1;
    c.window.stride[d] = given ? entry(&lists[0], i) : 1;
    c.window.padding[d] = given ? entry(&lists[1], i) : 0;
    c.window.dilation[d] = given ? entry(&lists[2], i) : 1;
    c.taps *= c.window.kernel[d];
    c.big_positions *= c.window.in[d];
    c.small_positions *= c.window.out[d];
    c.pointwise &= c.window.kernel[d] == 1 && c.window.stride[d] == 1 && c.window.padding[d] == 0;
  }
  /* An output padding leaves positions of big that no position of small reaches. */
  c.pointwise &= c.big_positions == c.small_positions;
  c.columns = c.taps * c.window.channels;
  c.size = tn_kit_dtype_size(c.dtype);
  c.block = block_of(&c);
  c.gemm = c.dtype == TN_FLOAT32 ? cpu_now->gemm_f32 : cpu_now->gemm_f64;
  c.fns = c.dtype == TN_FLOAT32 ? cpu_now->conv_f32 : cpu_now->conv_f64;
  c.tile = c.dtype == TN_FLOAT32 ? cpu_now->conv_tile_f32 : cpu_now->conv_tile_f64;
  return c;
}

/* See TASK_WORK in op_linalg.c. */
int64_t cpu_conv_grain(const cpu_conv *c, int64_t positions) {
  double work = (double)(c->rows * c->columns) * (double)positions + 1, grain = (double)(1 << 19) / work;
  return grain < 1 ? 1 : grain > (double)(1 << 20) ? 1 << 20 : (int64_t)grain;
}

static tn_status to_image(tn_call *call, const cpu_conv_work *work, bool up) {
  return (cpu_conv_direct_suits(&work->c, up) ? cpu_conv_direct : cpu_conv_columns)(call, work, up);
}

/* ------------------------------------------------------------------ to weight */

/* Chunks of the batch, by sizes alone: enough for many threads, unless their sums would take over 32 MiB. */
static int64_t chunks_of(const cpu_conv *c, int64_t elements) {
  enum { MOST = 16, SUMS_BYTES = 32 << 20 };
  int64_t chunks = SUMS_BYTES / (int64_t)c->size / elements;
  chunks = chunks > MOST ? MOST : chunks < 1 ? 1 : chunks;
  return chunks < c->batch ? chunks : c->batch;
}

/* sums[0] += sums[1] + ..., in order. */
static void add_chunks(const cpu_conv *c, char *sums, int64_t chunks, int64_t n) {
  for (int64_t k = 1; k < chunks; ++k)
    if (c->dtype == TN_FLOAT32)
      for (int64_t i = 0; i < n; ++i)
        ((float *)(void *)sums)[i] += ((const float *)(const void *)sums)[k * n + i];
    else
      for (int64_t i = 0; i < n; ++i)
        ((double *)(void *)sums)[i] += ((const double *)(const void *)sums)[k * n + i];
}

/* The three ways: `turned` ones leave [rows][taps][channels] whatever the layout. */
typedef struct weight_way {
  void (*run)(const cpu_conv_work *work, int64_t group, int64_t first, int64_t until, char *to,
              char *scratch);
  size_t (*scratch)(const cpu_conv *c);
  bool turned;
} weight_way;

static weight_way way_of(const cpu_conv *c) {
  if (cpu_conv_direct_weight_suits(c))
    return (weight_way){cpu_conv_direct_weight, cpu_conv_direct_weight_scratch, true};
  if (cpu_conv_direct_few_suits(c))
    return (weight_way){cpu_conv_direct_few, cpu_conv_direct_few_scratch, true};
  return (weight_way){cpu_conv_columns_weight, cpu_conv_columns_weight_scratch, false};
}

typedef struct weight_job {
  const cpu_conv_work *work;
  int64_t chunk; /* images */
  char *sums, *scratch;
  size_t scratch_each;
  weight_way way;
} weight_job;

/* One group of one chunk of the batch, into that chunk's own sums. */
static tn_status weight_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const weight_job *job = ctx;
  const cpu_conv *c = &job->work->c;
  for (int64_t task = begin; task < end; ++task) {
    int64_t group = task % c->groups, first = task / c->groups * job->chunk;
    int64_t until = c->batch - first < job->chunk ? c->batch : first + job->chunk;
    job->way.run(job->work, group, first, until, job->sums + (size_t)(task * c->rows * c->columns) * c->size,
                 job->scratch + (size_t)worker * job->scratch_each);
  }
  return TN_OK;
}

/* The sums as the result wants them: tiles leave [rows][taps][channels] where planes have
 * [rows][channels][taps]. */
static void deliver(const cpu_conv *c, const char *sums, bool turned, char *to) {
  const int64_t rows = c->groups * c->rows;
  const size_t row = (size_t)c->columns * c->size;
  if (!turned) {
    memcpy(to, sums, (size_t)rows * row);
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    c->tile->turn(to + (size_t)r * row, c->taps, sums + (size_t)r * row, c->window.channels, c->taps,
                  c->window.channels);
}

static tn_status to_weight(tn_call *call, const cpu_conv_work *work, cpu_image *result) {
  const cpu_conv *c = &work->c;
  const cpu_scalar none = {0, 0};
  int64_t n = c->groups * c->rows * c->columns, chunks = chunks_of(c, n);
  if (c->batch == 0 || c->small_positions == 0) return cpu_fill(result->view, &none);
  weight_job job = {.work = work, .sums = result->data, .way = way_of(c)};
  const bool turned = job.way.turned && !c->last;
  void *memory;
  job.chunk = (c->batch + chunks - 1) / chunks;
  chunks = (c->batch + job.chunk - 1) / job.chunk;
  if (chunks > 1 || turned) {
    TN_TRY(cpu_scratch(call, (size_t)(chunks * n) * c->size, &memory));
    job.sums = memory;
  }
  job.scratch_each = job.way.scratch(c);
  TN_TRY(cpu_scratch(call, job.scratch_each * (size_t)tn_kit_host()->num_threads(), &memory));
  job.scratch = memory;
  TN_TRY(tn_kit_host()->parallel_for(chunks * c->groups, cpu_conv_grain(c, job.chunk * c->small_positions),
                                     weight_chunk, &job));
  add_chunks(c, job.sums, chunks, n);
  if (n && job.sums != result->data) deliver(c, job.sums, turned, result->data);
  return cpu_image_end(result);
}

/* ------------------------------------------------------------------ to bias */

typedef struct bias_job {
  const char *grad;
  double *sums;
  int64_t batch, channels, positions;
  tn_dtype dtype;
  size_t size;
  bool last;
} bias_job;

static tn_status bias_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const bias_job *job = ctx;
  cpu_acc sums[CPU_FOLD_COLUMNS];
  for (int64_t c = begin; c < end; c += job->last ? CPU_FOLD_COLUMNS : 1) {
    int64_t n = !job->last ? 1 : end - c < CPU_FOLD_COLUMNS ? end - c : CPU_FOLD_COLUMNS;
    for (int64_t j = 0; j < n; ++j) sums[j].f = 0;
    if (job->last)
      cpu_now->fold_rows(CPU_SUM, job->dtype, CPU_ROWS_AT_ONCE)(job->grad + (size_t)c * job->size,
                                                                job->channels * (int64_t)job->size,
                                                                job->batch * job->positions, n, NULL, sums);
    for (int64_t i = 0; i < job->batch && !job->last; ++i)
      cpu_now->fold(CPU_SUM,
                    job->dtype)(job->grad + (size_t)((i * job->channels + c) * job->positions) * job->size,
                                job->positions, 0, sums);
    for (int64_t j = 0; j < n; ++j) job->sums[c + j] = sums[j].f;
  }
  return TN_OK;
}

static tn_status to_bias(tn_call *call, const tn_view *grad, const char *data, bool last,
                         const tn_view *result) {
  void *sums;
  cpu_local block;
  int64_t channels = grad->sizes[1], images = grad->sizes[0] > 0 ? grad->sizes[0] : 1;
  tn_dtype dtype = cpu_wide(grad->dtype);
  if (result->numel == 0) return TN_OK;
  TN_TRY(cpu_scratch(call, (size_t)channels * sizeof(double), &sums));
  bias_job job = {
      data, sums, grad->sizes[0], channels, grad->numel / channels / images, dtype, tn_kit_dtype_size(dtype),
      last};
  int64_t grain = CPU_GRAIN / (grad->numel / channels + 1) + 1;
  TN_TRY(tn_kit_host()->parallel_for(channels, last ? grain + CPU_FOLD_COLUMNS : grain, bias_chunk, &job));
  cpu_local_contiguous(&block, sums, TN_FLOAT64, 1, result->sizes);
  return cpu_copy(result, &block.view);
}

/* ------------------------------------------------------------------ operators */

static tn_status image_data(tn_call *call, const tn_view *v, tn_dtype dtype, bool last,
                            const char **out_data) {
  const void *data;
  TN_TRY(cpu_image_data(call, v, dtype, last, &data));
  *out_data = data;
  return TN_OK;
}

/* args: input weight bias stride padding dilation transposed output_padding groups */
tn_status cpu_op_convolution(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *input = args[0].u.v, *weight = args[1].u.v, *bias = cpu_view(&args[2]), *result = out[0].u.v;
  bool transposed = args[6].u.i, last = cpu_channels_last(result);
  if (result->numel == 0) return TN_OK;
  cpu_conv_work job = {
      .c = conv_of(transposed ? result : input, transposed ? input : result, weight, &args[3], last)};
  cpu_image to;
  TN_TRY(image_data(call, input, job.c.dtype, last, &job.from));
  TN_TRY(image_data(call, weight, job.c.dtype, last, &job.other));
  if (bias) TN_TRY(image_data(call, bias, job.c.dtype, false, &job.bias));
  TN_TRY(cpu_image_begin(call, &out[0], job.c.dtype, last, &to));
  job.to = to.data;
  TN_TRY(to_image(call, &job, transposed));
  return cpu_image_end(&to);
}

/* args: grad_output input weight bias_sizes stride padding dilation transposed output_padding groups
 * output_mask */
tn_status cpu_op_convolution_backward(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *grad = args[0].u.v, *input = args[1].u.v, *weight = args[2].u.v;
  bool transposed = args[7].u.i, last = cpu_channels_last(input) || cpu_channels_last(grad);
  cpu_conv c = conv_of(transposed ? grad : input, transposed ? input : grad, weight, &args[4], last);
  const char *grad_data;
  cpu_image to;
  TN_TRY(image_data(call, grad, c.dtype, last, &grad_data));
  if (cpu_view(&out[0]) && input->numel) {
    cpu_conv_work job = {.c = c, .from = grad_data};
    TN_TRY(image_data(call, weight, c.dtype, last, &job.other));
    TN_TRY(cpu_image_begin(call, &out[0], c.dtype, last, &to));
    job.to = to.data;
    TN_TRY(to_image(call, &job, !transposed));
    TN_TRY(cpu_image_end(&to));
  }
  if (cpu_view(&out[1]) && weight->numel) {
    cpu_conv_work job = {.c = c, .from = grad_data, .other = grad_data};
    TN_TRY(image_data(call, input, c.dtype, last, transposed ? &job.other : &job.from));
    TN_TRY(cpu_image_begin(call, &out[1], c.dtype, last, &to));
    TN_TRY(to_weight(call, &job, &to));
  }
  return cpu_view(&out[2]) ? to_bias(call, grad, grad_data, last, cpu_view(&out[2])) : TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * convolution and convolution_backward over 1 to 3 spatial dims, with groups, dilation and the transposed form,
 * as products of matrices over columns (per-isa/conv.c). A convolution goes from a `big` image to a `small` one;
 * the weight is [channels of small, channels of big / groups, taps]. Three products serve everything: to_small
 * (the forward, and the input gradient of the transposed form), to_big (the other way round), to_weight.
 *
 * Images, weight and results are row-major or have their channels innermost, all the same way; the columns follow.
 *
 * Note [Blocks of positions]
 * Columns are made for a block of output positions at a time, so that they stay in the second-level cache. The
 * length of a block follows from the sizes alone, and weight gradients are summed over fixed chunks of the batch:
 * bits do not depend on the number of threads.
 */
#include "plugins/backend-cpu/images.h"

typedef struct conv {
  cpu_window window; /* of one group */
  int64_t batch, groups;
  int64_t big_channels, small_channels, rows; /* rows: channels of small in a group */
  int64_t taps, columns;                      /* columns: taps * channels of big in a group */
  int64_t big_positions, small_positions, block;
  bool last, pointwise;
  tn_dtype dtype; /* float32 or float64 */
  size_t size;
  const cpu_gemm_kernel *gemm;
  const cpu_conv_fns *fns;
} conv;

/* What one of the three products runs over. */
typedef struct conv_job {
  conv c;
  const char *from, *other, *bias; /* bias: of what is written, or NULL */
  char *to;
  char *scratch;
  size_t columns_bytes, scratch_each;
  int64_t blocks, chunk; /* blocks an image; images a chunk */
} conv_job;

/* ------------------------------------------------------------------ what is asked */

static int64_t entry(const tn_value *list, uint32_t i) { return list->u.ints[list->count == 1 ? 0 : i]; }

static int64_t block_of(const conv *c) {
  enum { COLUMNS_BYTES = 256 << 10, LEAST = 64 };
  int64_t block = COLUMNS_BYTES / (int64_t)c->size / (c->columns > 0 ? c->columns : 1) / LEAST * LEAST;
  if (block < LEAST) block = LEAST;
  return block < c->small_positions ? block : c->small_positions;
}

/* lists: stride padding dilation transposed output_padding groups */
static conv conv_of(const tn_view *big, const tn_view *small, const tn_view *weight, const tn_value *lists,
                    bool last) {
  uint32_t n = (uint32_t)big->ndim - 2;
  conv c = {.batch = big->sizes[0],
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
  return c;
}

/* ------------------------------------------------------------------ matrices */

/* A matrix of one group: first element, and the steps from channel to channel and from position to position. */
typedef struct plane {
  char *data;
  int64_t channel, position;
} plane;

static plane plane_of(const conv *c, const char *data, int64_t channels, int64_t positions, int64_t image,
                      int64_t first_channel, int64_t first_position) {
  int64_t channel = c->last ? 1 : positions, position = c->last ? channels : 1;
  int64_t at = image * channels * positions + first_channel * channel + first_position * position;
  return (plane){(char *)(uintptr_t)data + (size_t)at * c->size, channel, position};
}
static plane big_plane(const conv *c, const char *data, int64_t image, int64_t group, int64_t position) {
  return plane_of(c, data, c->big_channels, c->big_positions, image, group * c->window.channels, position);
}
static plane small_plane(const conv *c, const char *data, int64_t image, int64_t group, int64_t position) {
  return plane_of(c, data, c->small_channels, c->small_positions, image, group * c->rows, position);
}

/* The columns of n positions in scratch; channel stands for (channel, tap). */
static plane columns_plane(const conv *c, char *scratch, int64_t n) {
  return (plane){scratch, c->last ? 1 : n, c->last ? c->columns : 1};
}

/* c = beta * c + a @ b, with the rows of c along `m`. Written along its unit stride: columns become rows if
 * that is the other one. */
static void multiply(const conv *c, cpu_gemm g, void *scratch) {
  if (g.c_col != 1 && g.c_row == 1)
    g = (cpu_gemm){.m = g.n,
                   .n = g.m,
                   .k = g.k,
                   .a = g.b,
                   .a_row = g.b_col,
                   .a_col = g.b_row,
                   .b = g.a,
                   .b_row = g.a_col,
                   .b_col = g.a_row,
                   .c = g.c,
                   .c_row = g.c_col,
                   .c_col = g.c_row,
                   .beta = g.beta};
  g.alpha = 1;
  c->gemm->run(&g, scratch);
}

/* Scratch of a product of at most these sizes, however its operands lie. */
static size_t gemm_bytes(const conv *c, int64_t m, int64_t n, int64_t k) {
  cpu_gemm g = {
      .m = m, .n = n, .k = k, .a_row = 2, .a_col = 2, .b_row = 2, .b_col = 2, .c_row = 2, .c_col = 1};
  size_t one = c->gemm->scratch_bytes(&g);
  g.m = n;
  g.n = m;
  size_t other = c->gemm->scratch_bytes(&g);
  return ((one > other ? one : other) + 63) / 64 * 64;
}

/* Tasks worth a thread: see TASK_WORK in op_linalg.c. */
static int64_t task_grain(const conv *c, int64_t positions) {
  double work = (double)(c->rows * c->columns) * (double)positions + 1, grain = (double)(1 << 19) / work;
  return grain < 1 ? 1 : grain > (double)(1 << 20) ? 1 << 20 : (int64_t)grain;
}

/* bias[channel] over n positions of the channels of a group. */
static void spread_bias(const conv *c, const char *bias, plane to, int64_t channels, int64_t n) {
  if (c->dtype == TN_FLOAT32)
    for (int64_t i = 0; i < channels; ++i)
      for (int64_t j = 0; j < n; ++j)
        ((float *)(void *)to.data)[i * to.channel + j * to.position] =
            bias ? ((const float *)(const void *)bias)[i] : 0;
  else
    for (int64_t i = 0; i < channels; ++i)
      for (int64_t j = 0; j < n; ++j)
        ((double *)(void *)to.data)[i * to.channel + j * to.position] =
            bias ? ((const double *)(const void *)bias)[i] : 0;
}

static char *worker_scratch(const conv_job *job, int32_t worker) {
  return job->scratch + (size_t)worker * job->scratch_each;
}

static tn_status begin_job(tn_call *call, conv_job *job, size_t product_bytes) {
  const conv *c = &job->c;
  void *scratch;
  job->blocks = (c->small_positions + c->block - 1) / (c->block > 0 ? c->block : 1);
  job->columns_bytes = c->pointwise ? 0 : ((size_t)(c->columns * c->block) * c->size + 63) / 64 * 64;
  job->scratch_each = job->columns_bytes + product_bytes;
  TN_TRY(cpu_scratch(call, job->scratch_each * (size_t)tn_kit_host()->num_threads(), &scratch));
  job->scratch = scratch;
  return TN_OK;
}

/* The columns of positions [begin, begin + n), made, or (pointwise) the image itself. */
static plane columns_of(const conv_job *job, int64_t image, int64_t group, int64_t begin, int64_t n,
                        const char *from, char *scratch) {
  const conv *c = &job->c;
  if (c->pointwise) return big_plane(c, from, image, group, begin);
  (c->last ? c->fns->pixels : c->fns->planes)(&c->window, big_plane(c, from, image, group, 0).data, begin,
                                              begin + n, scratch);
  return columns_plane(c, scratch, n);
}

static int64_t length_of(const conv *c, int64_t begin) {
  return c->small_positions - begin < c->block ? c->small_positions - begin : c->block;
}

static const char *weight_of(const conv *c, const char *weight, int64_t group) {
  return weight + (size_t)(group * c->rows * c->columns) * c->size;
}

/* ------------------------------------------------------------------ to small */

/* One block of one group of one image. */
static tn_status small_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const conv_job *job = ctx;
  const conv *c = &job->c;
  char *scratch = worker_scratch(job, worker);
  for (int64_t task = begin; task < end; ++task) {
    int64_t at = task % job->blocks * c->block, n = length_of(c, at);
    int64_t group = task / job->blocks % c->groups, image = task / job->blocks / c->groups;
    plane to = small_plane(c, job->to, image, group, at);
    plane columns = columns_of(job, image, group, at, n, job->from, scratch);
    if (job->bias) spread_bias(c, job->bias + (size_t)(group * c->rows) * c->size, to, c->rows, n);
    multiply(c,
             (cpu_gemm){.m = c->rows,
                        .n = n,
                        .k = c->columns,
                        .a = weight_of(c, job->other, group),
                        .a_row = c->columns,
                        .a_col = 1,
                        .b = columns.data,
                        .b_row = columns.channel,
                        .b_col = columns.position,
                        .c = to.data,
                        .c_row = to.channel,
                        .c_col = to.position,
                        .beta = job->bias ? 1 : 0},
             scratch + job->columns_bytes);
  }
  return TN_OK;
}

static tn_status to_small(tn_call *call, conv_job *job) {
  conv *c = &job->c;
  TN_TRY(begin_job(call, job, gemm_bytes(c, c->rows, c->block, c->columns)));
  return tn_kit_host()->parallel_for(c->batch * c->groups * job->blocks, task_grain(c, c->block), small_chunk,
                                     job);
}

/* ------------------------------------------------------------------ to big */

static void big_block(const conv_job *job, int64_t image, int64_t group, int64_t at, char *scratch) {
  const conv *c = &job->c;
  int64_t n = length_of(c, at);
  plane small = small_plane(c, job->from, image, group, at), big = big_plane(c, job->to, image, group, 0);
  plane columns = c->pointwise ? big_plane(c, job->to, image, group, at) : columns_plane(c, scratch, n);
  multiply(c,
           (cpu_gemm){.m = c->columns,
                      .n = n,
                      .k = c->rows,
                      .a = weight_of(c, job->other, group),
                      .a_row = 1,
                      .a_col = c->columns,
                      .b = small.data,
                      .b_row = small.channel,
                      .b_col = small.position,
                      .c = columns.data,
                      .c_row = columns.channel,
                      .c_col = columns.position,
                      .beta = c->pointwise && job->bias ? 1 : 0},
           scratch + job->columns_bytes);
  if (!c->pointwise)
    (c->last ? c->fns->add_pixels : c->fns->add_planes)(&c->window, columns.data, at, at + n, big.data);
}

/* One group of one image: its blocks overlap, so they go in order. */
static tn_status big_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const conv_job *job = ctx;
  const conv *c = &job->c;
  for (int64_t task = begin; task < end; ++task) {
    int64_t image = task / c->groups, group = task % c->groups;
    const char *bias = job->bias ? job->bias + (size_t)(group * c->window.channels) * c->size : NULL;
    if (bias || !c->pointwise)
      spread_bias(c, bias, big_plane(c, job->to, image, group, 0), c->window.channels, c->big_positions);
    for (int64_t i = 0; i < job->blocks; ++i)
      big_block(job, image, group, i * c->block, worker_scratch(job, worker));
  }
  return TN_OK;
}

static tn_status to_big(tn_call *call, conv_job *job) {
  conv *c = &job->c;
  TN_TRY(begin_job(call, job, gemm_bytes(c, c->columns, c->block, c->rows)));
  return tn_kit_host()->parallel_for(c->batch * c->groups, task_grain(c, c->small_positions), big_chunk, job);
}

/* ------------------------------------------------------------------ to weight */

/* One group of one chunk of the batch, into that chunk's own sums. */
static tn_status weight_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const conv_job *job = ctx;
  const conv *c = &job->c;
  char *scratch = worker_scratch(job, worker);
  for (int64_t task = begin; task < end; ++task) {
    int64_t group = task % c->groups, first = task / c->groups * job->chunk;
    int64_t until = c->batch - first < job->chunk ? c->batch : first + job->chunk;
    char *to = job->to + (size_t)(task * c->rows * c->columns) * c->size;
    for (int64_t i = first * job->blocks; i < until * job->blocks; ++i) {
      int64_t image = i / job->blocks, at = i % job->blocks * c->block, n = length_of(c, at);
      plane small = small_plane(c, job->other, image, group, at);
      plane columns = columns_of(job, image, group, at, n, job->from, scratch);
      multiply(c,
               (cpu_gemm){.m = c->rows,
                          .n = c->columns,
                          .k = n,
                          .a = small.data,
                          .a_row = small.channel,
                          .a_col = small.position,
                          .b = columns.data,
                          .b_row = columns.position,
                          .b_col = columns.channel,
                          .c = to,
                          .c_row = c->columns,
                          .c_col = 1,
                          .beta = i > first * job->blocks},
               scratch + job->columns_bytes);
    }
  }
  return TN_OK;
}

/* Chunks of the batch, by sizes alone: enough for many threads, unless their sums would take over 32 MiB. */
static int64_t chunks_of(const conv *c, int64_t elements) {
  enum { MOST = 16, SUMS_BYTES = 32 << 20 };
  int64_t chunks = SUMS_BYTES / (int64_t)c->size / elements;
  chunks = chunks > MOST ? MOST : chunks < 1 ? 1 : chunks;
  return chunks < c->batch ? chunks : c->batch;
}

/* sums[0] += sums[1] + ..., in order. */
static void add_chunks(const conv *c, char *sums, int64_t chunks, int64_t n) {
  for (int64_t k = 1; k < chunks; ++k)
    if (c->dtype == TN_FLOAT32)
      for (int64_t i = 0; i < n; ++i)
        ((float *)(void *)sums)[i] += ((const float *)(const void *)sums)[k * n + i];
    else
      for (int64_t i = 0; i < n; ++i)
        ((double *)(void *)sums)[i] += ((const double *)(const void *)sums)[k * n + i];
}

static tn_status to_weight(tn_call *call, conv_job *job, cpu_image *result) {
  conv *c = &job->c;
  const cpu_scalar none = {0, 0};
  int64_t n = c->groups * c->rows * c->columns;
  if (c->batch == 0 || c->small_positions == 0) return cpu_fill(result->view, &none);
  int64_t chunks = chunks_of(c, n);
  void *sums = result->data;
  job->chunk = (c->batch + chunks - 1) / chunks;
  chunks = (c->batch + job->chunk - 1) / job->chunk;
  if (chunks > 1) TN_TRY(cpu_scratch(call, (size_t)(chunks * n) * c->size, &sums));
  job->to = sums;
  TN_TRY(begin_job(call, job, gemm_bytes(c, c->rows, c->columns, c->block)));
  TN_TRY(tn_kit_host()->parallel_for(chunks * c->groups, task_grain(c, job->chunk * c->small_positions),
                                     weight_chunk, job));
  add_chunks(c, sums, chunks, n);
  if (n && sums != result->data) memcpy(result->data, sums, (size_t)n * c->size);
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
      cpu_now->fold_rows(CPU_SUM, job->dtype)(job->grad + (size_t)c * job->size,
                                              job->channels * (int64_t)job->size, job->batch * job->positions,
                                              n, NULL, sums);
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
  conv_job job = {
      .c = conv_of(transposed ? result : input, transposed ? input : result, weight, &args[3], last)};
  cpu_image to;
  TN_TRY(image_data(call, input, job.c.dtype, last, &job.from));
  TN_TRY(image_data(call, weight, job.c.dtype, last, &job.other));
  if (bias) TN_TRY(image_data(call, bias, job.c.dtype, false, &job.bias));
  TN_TRY(cpu_image_begin(call, &out[0], job.c.dtype, last, &to));
  job.to = to.data;
  TN_TRY((transposed ? to_big : to_small)(call, &job));
  return cpu_image_end(&to);
}

/* args: grad_output input weight bias_sizes stride padding dilation transposed output_padding groups output_mask */
tn_status cpu_op_convolution_backward(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *grad = args[0].u.v, *input = args[1].u.v, *weight = args[2].u.v;
  bool transposed = args[7].u.i, last = cpu_channels_last(input) || cpu_channels_last(grad);
  conv c = conv_of(transposed ? grad : input, transposed ? input : grad, weight, &args[4], last);
  const char *grad_data;
  cpu_image to;
  TN_TRY(image_data(call, grad, c.dtype, last, &grad_data));
  if (cpu_view(&out[0]) && input->numel) {
    conv_job job = {.c = c, .from = grad_data};
    TN_TRY(image_data(call, weight, c.dtype, last, &job.other));
    TN_TRY(cpu_image_begin(call, &out[0], c.dtype, last, &to));
    job.to = to.data;
    TN_TRY((transposed ? to_small : to_big)(call, &job));
    TN_TRY(cpu_image_end(&to));
  }
  if (cpu_view(&out[1]) && weight->numel) {
    conv_job job = {.c = c, .from = grad_data, .other = grad_data};
    TN_TRY(image_data(call, input, c.dtype, last, transposed ? &job.other : &job.from));
    TN_TRY(cpu_image_begin(call, &out[1], c.dtype, last, &to));
    TN_TRY(to_weight(call, &job, &to));
  }
  return cpu_view(&out[2]) ? to_bias(call, grad, grad_data, last, cpu_view(&out[2])) : TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution over columns (per-isa/conv.c): a product of matrices for each block of positions. Takes
 * anything.
 *
 * Note [Blocks of positions]
 * Columns are made for a block of output positions at a time, so that they stay in the second-level cache.
 * The length of a block follows from the sizes alone, and weight gradients are summed over fixed chunks of
 * the batch: bits do not depend on the number of threads.
 */
#include "plugins/backend-cpu/conv.h"

typedef cpu_conv conv;

typedef struct conv_job {
  conv c;
  const char *from, *other, *bias;
  char *to;
  char *scratch;
  size_t columns_bytes, scratch_each;
  int64_t blocks; /* an image */
} conv_job;

/* ------------------------------------------------------------------ matrices */

/* A matrix of one group: first element, and the steps from channel to channel and from position to position.
 */
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

static conv_job job_of(const cpu_conv_work *work, size_t product_bytes) {
  const conv *c = &work->c;
  conv_job job = {.c = *c, .from = work->from, .other = work->other, .bias = work->bias, .to = work->to};
  job.blocks = (c->small_positions + c->block - 1) / (c->block > 0 ? c->block : 1);
  job.columns_bytes = c->pointwise ? 0 : ((size_t)(c->columns * c->block) * c->size + 63) / 64 * 64;
  job.scratch_each = job.columns_bytes + product_bytes;
  return job;
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
                        .a = cpu_conv_weight_of(c, job->other, group),
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
                      .a = cpu_conv_weight_of(c, job->other, group),
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

tn_status cpu_conv_columns(tn_call *call, const cpu_conv_work *work, bool up) {
  const conv *c = &work->c;
  void *scratch;
  conv_job job = job_of(work, up ? gemm_bytes(c, c->columns, c->block, c->rows)
                                 : gemm_bytes(c, c->rows, c->block, c->columns));
  TN_TRY(cpu_scratch(call, job.scratch_each * (size_t)tn_kit_host()->num_threads(), &scratch));
  job.scratch = scratch;
  if (up)
    return tn_kit_host()->parallel_for(c->batch * c->groups, cpu_conv_grain(c, c->small_positions), big_chunk,
                                       &job);
  return tn_kit_host()->parallel_for(c->batch * c->groups * job.blocks, cpu_conv_grain(c, c->block),
                                     small_chunk, &job);
}

/* ------------------------------------------------------------------ to weight */

static size_t weight_product_bytes(const conv *c) { return gemm_bytes(c, c->rows, c->columns, c->block); }

size_t cpu_conv_columns_weight_scratch(const cpu_conv *c) {
  const cpu_conv_work work = {.c = *c};
  return job_of(&work, weight_product_bytes(c)).scratch_each;
}

void cpu_conv_columns_weight(const cpu_conv_work *work, int64_t group, int64_t first, int64_t until, char *to,
                             char *scratch) {
  const conv_job job = job_of(work, weight_product_bytes(&work->c));
  const conv *c = &job.c;
  for (int64_t i = first * job.blocks; i < until * job.blocks; ++i) {
    int64_t image = i / job.blocks, at = i % job.blocks * c->block, n = length_of(c, at);
    plane small = small_plane(c, job.other, image, group, at);
    plane columns = columns_of(&job, image, group, at, n, job.from, scratch);
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
                        .beta = i > first * job.blocks},
             scratch + job.columns_bytes);
  }
}

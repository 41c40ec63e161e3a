/* SPDX-License-Identifier: Apache-2.0
 *
 * Random fills. Element i, in row-major order, draws Philox counter rng_offset + i, whatever the strides,
 * the number of threads or the instruction set. Values go through one block in a wide dtype and are cast.
 */
#include <math.h>
#include <tenon/kit/philox.h>

#include "plugins/backend-cpu/cpu.h"

typedef struct random_job random_job;
typedef void (*draw_fn)(const random_job *job, int64_t first, int64_t n, void *block);

struct random_job {
  draw_fn draw;
  tn_dtype drawn; /* dtype of the block */
  tn_dtype out;
  uint64_t seed, offset;
  double a, b;
  int64_t low;
  uint64_t range; /* 0: all of 64 bits */
};

static void random_row(void *ctx, char **data, const int64_t *strides, int64_t n, int64_t index) {
  const random_job *job = ctx;
  uint64_t block[CPU_BLOCK];
  for (int64_t i = 0; i < n; i += CPU_BLOCK) {
    int64_t m = n - i < CPU_BLOCK ? n - i : CPU_BLOCK;
    job->draw(job, index + i, m, block);
    cpu_write(data[0] + i * strides[0], job->out, strides[0], block, job->drawn, m);
  }
}

static tn_status fill_random(tn_call *call, random_job *job, const tn_view *v) {
  job->out = v->dtype;
  job->seed = call->rng_seed;
  job->offset = call->rng_offset;
  tn_iter it;
  TN_TRY(tn_iter_init(&it, v->ndim, v->sizes, 1, 1, &v, TN_ITER_IN_ORDER));
  return tn_iter_run_indexed(&it, CPU_GRAIN_HEAVY, random_row, job);
}

#define DRAW(job, i) tn_philox_draw((job)->seed, (job)->offset + (uint64_t)(i), 0)

/* [a, b): a product that rounds up to b is taken back below it. */
static void draw_uniform_float(const random_job *job, int64_t first, int64_t n, void *block) {
  float *x = block, a = (float)job->a, width = (float)(job->b - job->a), top = (float)job->b;
  for (int64_t i = 0; i < n; ++i) {
    x[i] = a + width * tn_philox_float(DRAW(job, first + i));
    if (x[i] >= top && top > a) x[i] = nextafterf(top, a);
  }
}
static void draw_uniform_double(const random_job *job, int64_t first, int64_t n, void *block) {
  double *x = block;
  for (int64_t i = 0; i < n; ++i) {
    x[i] = job->a + (job->b - job->a) * tn_philox_double(DRAW(job, first + i));
    if (x[i] >= job->b && job->b > job->a) x[i] = nextafter(job->b, job->a);
  }
}
static void draw_normal_float(const random_job *job, int64_t first, int64_t n, void *block) {
  float *x = block, mean = (float)job->a, std = (float)job->b;
  for (int64_t i = 0; i < n; ++i) x[i] = mean + std * tn_philox_normal_float(DRAW(job, first + i));
}
static void draw_normal_double(const random_job *job, int64_t first, int64_t n, void *block) {
  double *x = block;
  for (int64_t i = 0; i < n; ++i) x[i] = job->a + job->b * tn_philox_normal_double(DRAW(job, first + i));
}
static void draw_bernoulli(const random_job *job, int64_t first, int64_t n, void *block) {
  uint8_t *x = block;
  for (int64_t i = 0; i < n; ++i) x[i] = tn_philox_double(DRAW(job, first + i)) < job->a;
}
static void draw_integers(const random_job *job, int64_t first, int64_t n, void *block) {
  uint64_t *x = block;
  for (int64_t i = 0; i < n; ++i) {
    tn_philox r = DRAW(job, first + i);
    x[i] = (uint64_t)job->low + (job->range ? tn_philox_below(r, job->range) : tn_philox_bits64(r));
  }
}

/* Halves draw in float32, float64 in itself. */
static tn_status fill_floats(tn_call *call, const tn_view *v, double a, double b, draw_fn single,
                             draw_fn wide) {
  bool is_double = v->dtype == TN_FLOAT64;
  random_job job = {
      .draw = is_double ? wide : single, .drawn = is_double ? TN_FLOAT64 : TN_FLOAT32, .a = a, .b = b};
  return fill_random(call, &job, v);
}

tn_status cpu_op_uniform(tn_call *call, const tn_value *args, tn_value *out) {
  return fill_floats(call, out[0].u.v, cpu_double(&args[1], 0), cpu_double(&args[2], 1), draw_uniform_float,
                     draw_uniform_double);
}

tn_status cpu_op_normal(tn_call *call, const tn_value *args, tn_value *out) {
  return fill_floats(call, out[0].u.v, cpu_double(&args[1], 0), cpu_double(&args[2], 1), draw_normal_float,
                     draw_normal_double);
}

tn_status cpu_op_bernoulli(tn_call *call, const tn_value *args, tn_value *out) {
  random_job job = {.draw = draw_bernoulli, .drawn = TN_BOOL, .a = cpu_double(&args[1], 0.5)};
  return fill_random(call, &job, out[0].u.v);
}

/* Largest integer up to which every one is exact in dtype. */
static int64_t largest_exact(tn_dtype dtype) {
  switch (dtype) {
    case TN_BOOL: return 1;
    case TN_UINT8: return UINT8_MAX;
    case TN_INT8: return INT8_MAX;
    case TN_INT16: return INT16_MAX;
    case TN_INT32: return INT32_MAX;
    case TN_FLOAT16: return (int64_t)1 << 11;
    case TN_BFLOAT16: return (int64_t)1 << 8;
    case TN_FLOAT32: return (int64_t)1 << 24;
    case TN_FLOAT64: return (int64_t)1 << 53;
    default: return INT64_MAX;
  }
}

/* [from, to); without to, up to the largest integer of the dtype. */
tn_status cpu_op_random(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *v = out[0].u.v;
  random_job job = {.draw = draw_integers, .drawn = TN_INT64, .low = cpu_int(&args[1], 0)};
  job.range = args[2].kind == TN_VAL_NONE ? (uint64_t)largest_exact(v->dtype) - (uint64_t)job.low + 1
                                          : (uint64_t)args[2].u.i - (uint64_t)job.low;
  return fill_random(call, &job, v);
}

/* ------------------------------------------------------------------ randperm */

/* Fisher and Yates from the end; step i draws counter rng_offset + i. One thread: a step needs the last. */
tn_status cpu_op_randperm(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *v = out[0].u.v;
  void *memory;
  if (v->numel == 0) return TN_OK;
  TN_TRY(cpu_scratch(call, (size_t)v->numel * sizeof(int64_t), &memory));
  int64_t *p = memory;
  for (int64_t i = 0; i < v->numel; ++i) p[i] = i;
  for (int64_t i = v->numel - 1; i > 0; --i) {
    tn_philox r = tn_philox_draw(call->rng_seed, call->rng_offset + (uint64_t)i, 0);
    int64_t j = (int64_t)tn_philox_below(r, (uint64_t)i + 1), swap = p[i];
    p[i] = p[j];
    p[j] = swap;
  }
  cpu_write(v->data, v->dtype, cpu_stride_bytes(v, 0), p, TN_INT64, v->numel);
  return TN_OK;
}

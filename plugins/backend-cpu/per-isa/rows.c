/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax, log_softmax and logsumexp of one contiguous row, forward and backward, in float32 and float64. Each
 * exponential is evaluated once; sums go by lanes.h.
 */
#include <stdbool.h>

#include "plugins/backend-cpu/per-isa/lanes.h"
#include "plugins/backend-cpu/per-isa/math.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

static inline double f64_exp_wide(double x) { return exp(x); }

#define MAX_NAN(a, v) ((((a) > (v)) | ((a) != (a))) ? (a) : (v))

/* ------------------------------------------------------------------ float64 */

static double f64_row_max(const double *x, int64_t n) {
  double best = -INFINITY;
  LANES_FOLD(double, double, LANES_PLAIN, MAX_NAN, MAX_NAN, -INFINITY, x, n, best);
  return best;
}
#define SHIFTED_EXP(x) f64_exp_wide((x)-max)
static double f64_sum_exp(const double *x, int64_t n, double max) {
  double sum = 0;
  LANES_FOLD(double, double, SHIFTED_EXP, LANES_PLUS, LANES_PLUS, 0.0, x, n, sum);
  return sum;
}
static void f64_softmax(void *out, const void *x, int64_t n) {
  const double *v = x;
  double *o = out;
  const double max = f64_row_max(v, n), scale = 1.0 / f64_sum_exp(v, n, max);
  for (int64_t i = 0; i < n; ++i) o[i] = f64_exp_wide(v[i] - max) * scale;
}
static void f64_log_softmax(void *out, const void *x, int64_t n) {
  const double *v = x;
  double *o = out;
  const double max = f64_row_max(v, n), shift = log(f64_sum_exp(v, n, max));
  CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) o[i] = v[i] - max - shift;
}
static double f64_logsumexp(const void *x, int64_t n) {
  const double max = f64_row_max(x, n), shift = isinf(max) ? 0 : max;
  return log(f64_sum_exp(x, n, shift)) + shift;
}
static void f64_softmax_backward(void *out, const void *grad, const void *y, int64_t n) {
  const double *g = grad, *v = y;
  double *o = out;
  const double sum = CPU_FN(cpu_dot_f64)(grad, y, n);
  CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) o[i] = v[i] * (g[i] - sum);
}
static void f64_log_softmax_backward(void *out, const void *grad, const void *y, int64_t n) {
  const double *g = grad, *v = y;
  double *o = out;
  double sum = 0;
  LANES_FOLD(double, double, LANES_PLAIN, LANES_PLUS, LANES_PLUS, 0.0, g, n, sum);
  for (int64_t i = 0; i < n; ++i) o[i] = g[i] - f64_exp_wide(v[i]) * sum;
}
const cpu_row_fns CPU_FN(cpu_rows_f64) = {
    f64_softmax, f64_log_softmax, f64_softmax_backward, f64_log_softmax_backward, f64_logsumexp,
    f64_softmax, f64_log_softmax, f64_softmax_backward, f64_log_softmax_backward, lanes_stream_end};

/* ------------------------------------------------------------------ float32 */

#define ROW_INLINE inline __attribute__((always_inline))

/* Elements whose exponentials are summed while they are in the first cache. */
enum { EXP_BLOCK = 1024 };

static float f32_row_max(const float *x, int64_t n) {
  cpu_acc acc = {.f = -INFINITY};
  CPU_FN(cpu_fold)(CPU_MAX, TN_FLOAT32)(x, n, 0, &acc);
  return (float)acc.f;
}

/* o = exp(x - max), n <= EXP_BLOCK. The last, incomplete vector goes through memory of full width, so that every
 * element is computed by the same instructions. o may be x. */
static void exp_block(float *o, const float *x, int64_t n, float max) {
  const int64_t whole = n / F32_LANES * F32_LANES;
  float lane[F32_LANES];
  CPU_INDEPENDENT for (int64_t i = 0; i < whole; ++i) o[i] = f32_exp(x[i] - max);
  if (whole == n) return;
  vf_store(lane, lanes_load_part(x + whole, n - whole, max));
  for (int i = 0; i < F32_LANES; ++i) lane[i] = f32_exp(lane[i] - max);
  lanes_store_part(o + whole, vf_load(lane), n - whole);
}

static void add_row(lanes_wide *wide, const float *p, int64_t n) {
#define TERM(i)    vf_load(p + (i))
#define PART(i, m) lanes_load_part(p + (i), m, 0)
  LANES_SUM(n, TERM, PART, *wide);
#undef TERM
#undef PART
}

/* The sum of exp(x - max); kept: the exponentials go to o, else only through a block on the stack. */
static double f32_sum_exp(float *o, const float *x, int64_t n, float max, bool kept) {
  float block[EXP_BLOCK];
  lanes_wide wide = lanes_zero();
  for (int64_t i = 0; i < n; i += EXP_BLOCK) {
    const int64_t m = n - i < EXP_BLOCK ? n - i : EXP_BLOCK;
    float *to = kept ? o + i : block;
    exp_block(to, x + i, m, max);
    add_row(&wide, to, m);
  }
  return lanes_join(wide);
}

/* The last pass over a row asks for the next one, which lies behind it where rows are many. */
#define NEXT(p, i)         __builtin_prefetch((const float *)(p) + n + (i))
#define LOAD(p, i)         vf_load((p) + (i))
#define LOAD_PART(p, i, m) lanes_load_part((p) + (i), m, 0)

/* One exponential an element: they are kept in out and scaled there. A row that is to be stored past the caches,
 * and is short, keeps them on the stack instead. */
static ROW_INLINE void softmax_row(void *out, const void *x, int64_t n, bool stream) {
  float block[EXP_BLOCK], *o = out;
  stream = stream && n <= EXP_BLOCK;
  float *kept = stream ? block : o;
  const float max = f32_row_max(x, n);
  const vf scale = vf_set((float)(1.0 / f32_sum_exp(kept, x, n, max, true)));
#define TERM(i)    (NEXT(x, i), LOAD(kept, i) * scale)
#define PART(i, m) (LOAD_PART(kept, i, m) * scale)
  LANES_EACH(n, o, TERM, PART);
#undef TERM
#undef PART
}

static ROW_INLINE void log_softmax_row(void *out, const void *x, int64_t n, bool stream) {
  const float *p = x;
  float *o = out;
  const float best = f32_row_max(x, n);
  const vf max = vf_set(best), shift = vf_set((float)log(f32_sum_exp(NULL, x, n, best, false)));
#define TERM(i)    (NEXT(p, i), (LOAD(p, i) - max) - shift)
#define PART(i, m) ((LOAD_PART(p, i, m) - max) - shift)
  LANES_EACH(n, o, TERM, PART);
#undef TERM
#undef PART
}

static double f32_logsumexp(const void *x, int64_t n) {
  const float max = f32_row_max(x, n), shift = isinf(max) ? 0 : max;
  return log(f32_sum_exp(NULL, x, n, shift, false)) + (double)shift;
}

static ROW_INLINE void softmax_backward_row(void *out, const void *grad, const void *y, int64_t n,
                                            bool stream) {
  const float *g = grad, *v = y;
  float *o = out;
  lanes_wide wide = lanes_zero();
#define TERM(i)    (LOAD(g, i) * LOAD(v, i))
#define PART(i, m) (LOAD_PART(g, i, m) * LOAD_PART(v, i, m))
  LANES_SUM(n, TERM, PART, wide);
#undef TERM
#undef PART
  const vf sum = vf_set((float)lanes_join(wide));
#define TERM(i)    (LOAD(v, i) * (LOAD(g, i) - sum))
#define PART(i, m) (LOAD_PART(v, i, m) * (LOAD_PART(g, i, m) - sum))
  LANES_EACH(n, o, TERM, PART);
#undef TERM
#undef PART
}

static ROW_INLINE void log_softmax_backward_row(void *out, const void *grad, const void *y, int64_t n,
                                                bool stream) {
  const float *g = grad, *v = y;
  float *o = out, block[EXP_BLOCK];
  lanes_wide wide = lanes_zero();
  add_row(&wide, g, n);
  const vf sum = vf_set((float)lanes_join(wide));
#define TERM(j)    (LOAD(g + i, j) - LOAD(block, j) * sum)
#define PART(j, m) (LOAD_PART(g + i, j, m) - LOAD_PART(block, j, m) * sum)
  for (int64_t i = 0; i < n; i += EXP_BLOCK) {
    const int64_t m = n - i < EXP_BLOCK ? n - i : EXP_BLOCK;
    exp_block(block, v + i, m, 0);
    LANES_EACH(m, o + i, TERM, PART);
  }
#undef TERM
#undef PART
}

#define ONE(name)                                                                               \
  static void f32_##name(void *out, const void *x, int64_t n) { name##_row(out, x, n, false); } \
  static void f32_stream_##name(void *out, const void *x, int64_t n) { name##_row(out, x, n, true); }
#define TWO(name)                                                                        \
  static void f32_##name(void *out, const void *grad, const void *y, int64_t n) {        \
    name##_row(out, grad, y, n, false);                                                  \
  }                                                                                      \
  static void f32_stream_##name(void *out, const void *grad, const void *y, int64_t n) { \
    name##_row(out, grad, y, n, true);                                                   \
  }
ONE(softmax)
ONE(log_softmax)
TWO(softmax_backward)
TWO(log_softmax_backward)
const cpu_row_fns CPU_FN(cpu_rows_f32) = {.softmax = f32_softmax,
                                          .log_softmax = f32_log_softmax,
                                          .softmax_backward = f32_softmax_backward,
                                          .log_softmax_backward = f32_log_softmax_backward,
                                          .logsumexp = f32_logsumexp,
                                          .stream_softmax = f32_stream_softmax,
                                          .stream_log_softmax = f32_stream_log_softmax,
                                          .stream_softmax_backward = f32_stream_softmax_backward,
                                          .stream_log_softmax_backward = f32_stream_log_softmax_backward,
                                          .stream_end = lanes_stream_end};

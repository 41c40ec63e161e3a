/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax, log_softmax and logsumexp of one contiguous row, forward and backward, in float32 and float64. Sums
 * go by lanes.h. Each exponential is evaluated once, but for long rows of Note [Near rows].
 */
#include <stdbool.h>

#include "plugins/backend-cpu/per-isa/lanes.h"
#include "plugins/backend-cpu/per-isa/math.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"
#include "plugins/backend-cpu/per-isa/places.h"
#include "plugins/backend-cpu/per-isa/vector_math.h"

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

typedef uint32_t vu __attribute__((vector_size(VEC_BYTES), may_alias));

#define ROW_INLINE inline __attribute__((always_inline))

/* Elements whose exponentials are kept on the stack, in the first cache. */
enum { EXP_BLOCK = 1024 };

#define LOAD(p, i)         vf_load((p) + (i))
#define LOAD_PART(p, i, m) lanes_load_part((p) + (i), m, 0)

/* The greatest element that is a number, -infinity if there is none. Nobody needs to be told of a NaN here: its
 * exponential makes the row's sum NaN, whatever was subtracted. */
static float f32_row_max(const float *x, int64_t n) {
  const vf least = vf_set(-INFINITY);
  vf best[4] = {least, least, least, least};
  int64_t i = 0;
  for (; i + 4 * F32_LANES <= n; i += 4 * F32_LANES)
    for (int k = 0; k < 4; ++k) best[k] = lanes_max(LOAD(x, i + k * F32_LANES), best[k]);
  for (; i + F32_LANES <= n; i += F32_LANES) best[0] = lanes_max(LOAD(x, i), best[0]);
  if (i < n) best[1] = lanes_max(lanes_load_part(x + i, n - i, -INFINITY), best[1]);
  return places_best(lanes_max(lanes_max(best[0], best[1]), lanes_max(best[2], best[3])), true);
}

/* Vectors whose exponentials are computed in step: one alone is a chain of sixty cycles, and what waits in it fills
 * the processor's queue before enough others have begun. As many as there are registers for. */
enum { EXP_SIDE = VEC_BYTES == 64 ? 4 : 2 };

/* exp of each lane of x[0 .. count), by the steps of exp_split_f (math_f32.h, with its error), 0 below -104. below: no
 * lane is above 0, as a softmax has it, and the upper bound need not be looked at. Written in vectors since a compiler,
 * which has to keep NaN, makes five instructions of each bound and two halves of the power of two; here a bound is one
 * (lanes_max returns its second operand where either is NaN) and so, where the set has it, is the power. */
static ROW_INLINE void exp_vectors(vf *x, int count, bool below) {
  const vf rounder = vf_set(ROUNDER_F + 2 * BIAS_F);
  vf k[EXP_SIDE], n[EXP_SIDE], r[EXP_SIDE], q[EXP_SIDE];
#define STEP(...) _Pragma("GCC unroll 4") for (int i = 0; i < count; ++i) __VA_ARGS__
  STEP(x[i] = lanes_max(vf_set(-104.0f), x[i]));
  if (!below) STEP(x[i] = lanes_min(vf_set(89.0f), x[i]));
  STEP(k[i] = vf_fma(x[i], vf_set(LOG2_E_F), rounder));
  STEP(n[i] = k[i] - rounder);
  STEP(r[i] = vf_fma(n[i], vf_set(-LN2_HIGH_F), x[i]));
  STEP(r[i] = vf_fma(n[i], vf_set(-LN2_LOW_F), r[i]));
  STEP(q[i] = vf_fma(vf_set(0x1.6ac778p-10f), r[i], vf_set(0x1.123de2p-7f)));
  STEP(q[i] = vf_fma(q[i], r[i], vf_set(0x1.555858p-5f)));
  STEP(q[i] = vf_fma(q[i], r[i], vf_set(0x1.55548cp-3f)));
  STEP(q[i] = vf_fma(q[i], r[i], vf_set(0x1.fffffcp-2f)));
  STEP(r[i] = vf_fma(r[i] * r[i], q[i], r[i]));
#if defined(__AVX512F__)
  STEP(x[i] = (vf)_mm512_scalef_ps((__m512)(r[i] + 1.0f), (__m512)n[i]));
#else
  STEP({
    const vu both = (vu)k[i], half = both >> 1;
    const vf power = (vf)(half << 23);
    x[i] = vf_fma(power, r[i], power) * (vf)((both - half) << 23);
  });
#endif
#undef STEP
}

static ROW_INLINE vf exp_vector(vf x, bool below) {
  exp_vectors(&x, 1, below);
  return x;
}

/* The sum of exp(x - max), by Note [Pairwise blocks] with four partial sums; keep: the exponentials go to o, which may
 * be x. The longest pass of a row asks for the next one, which lies behind it where rows are many. */
static ROW_INLINE double sum_exp(float *o, const float *x, int64_t n, float max, bool keep, bool below) {
  const vf m = vf_set(max);
  lanes_wide wide = lanes_zero();
  for (int64_t begin = 0; begin < n; begin += F32_BLOCK) {
    const int64_t end = n - begin < F32_BLOCK ? n : begin + F32_BLOCK;
    vf sum[4] = {vf_set(0), vf_set(0), vf_set(0), vf_set(0)};
    int64_t i = begin;
    for (; i + 4 * F32_LANES <= end; i += 4 * F32_LANES)
      for (int k = 0; k < 4; k += EXP_SIDE) {
        const int64_t at = i + k * F32_LANES;
        vf e[EXP_SIDE];
        for (int j = 0; j < EXP_SIDE; ++j) {
          __builtin_prefetch(x + n + at + j * F32_LANES);
          e[j] = LOAD(x, at + j * F32_LANES) - m;
        }
        exp_vectors(e, EXP_SIDE, below);
        for (int j = 0; j < EXP_SIDE; ++j) {
          if (keep) vf_store(o + at + j * F32_LANES, e[j]);
          sum[k + j] += e[j];
        }
      }
    for (; i + F32_LANES <= end; i += F32_LANES) {
      const vf e = exp_vector(LOAD(x, i) - m, below);
      if (keep) vf_store(o + i, e);
      sum[0] += e;
    }
    if (i < end) {
      const vf e = exp_vector(lanes_load_part(x + i, end - i, -INFINITY) - m, below);
      if (keep) lanes_store_part(o + i, e, end - i);
      sum[1] += e;
    }
    lanes_widen(&wide, (sum[0] + sum[1]) + (sum[2] + sum[3]));
  }
  return lanes_join(wide);
}

/* Note [Near rows]
 * Most rows lie within EXP_NEAR of their first element. Then that element does for the greatest: no exponential and no
 * sum of them overflows, what is subtracted cancels in the quotient, and the pass that looks for the greatest is saved;
 * the exponential needs no bounds either. Whether it was so is known behind each block of the sum, and a row where it
 * was not, which has -infinity in it perhaps, goes the general way from its beginning. Only where exponentials come from
 * tables. A logarithm of the sum wants the greatest all the same: near 0 it is only as exact as its largest term. */
#if defined(__AVX512F__)
/* Elements from here to the one asked for: memory takes that long, and processors drop what is asked for in bursts. */
enum { AHEAD = 1536 };

/* The sum of exp(x - shift), by Note [Pairwise blocks] with four partial sums; -1 if an element is not near shift. keep:
 * the exponentials go to o. ahead: asks for elements; not where they may be cached, since each that is asked for takes a
 * place from those that results wait for (4096 rows of 1000: 0.30 ns an element instead of 0.23). */
static ROW_INLINE double near_sum(float *o, const float *x, int64_t n, float shift, bool keep, bool ahead) {
  const vf m = vf_set(shift);
  lanes_wide wide = lanes_zero();
  for (int64_t begin = 0; begin < n; begin += F32_BLOCK) {
    const int64_t end = n - begin < F32_BLOCK ? n : begin + F32_BLOCK;
    vf sum[4] = {vf_set(0), vf_set(0), vf_set(0), vf_set(0)}, far[2] = {vf_set(0), vf_set(0)};
    int64_t i = begin;
    for (; i + 4 * F32_LANES <= end; i += 4 * F32_LANES) {
      vf d[4], e[4];
      for (int k = 0; k < 4; ++k) {
        if (ahead) __builtin_prefetch(x + i + k * F32_LANES + AHEAD);
        d[k] = LOAD(x, i + k * F32_LANES) - m;
      }
      for (int k = 0; k < 4; ++k) far[k & 1] = lanes_farther(far[k & 1], d[k]);
      for (int k = 0; k < 4; ++k) e[k] = vf_exp_near(d[k]);
      for (int k = 0; k < 4; ++k) {
        if (keep) vf_store(o + i + k * F32_LANES, e[k]);
        sum[k] += e[k];
      }
    }
    for (; i < end; i += F32_LANES) {
      const int64_t left = end - i;
      const vf d = (left < F32_LANES ? lanes_load_part(x + i, left, shift) : LOAD(x, i)) - m;
      far[0] = lanes_farther(far[0], d);
      const vf e = lanes_first(vf_exp_near(d), left);
      if (keep) vf_store(o + i, e);
      sum[0] += e;
    }
    if (lanes_above(lanes_farther(far[0], far[1]), EXP_NEAR)) return -1;
    lanes_widen(&wide, (sum[0] + sum[1]) + (sum[2] + sum[3]));
  }
  return lanes_join(wide);
}

/* False, and nothing done, if the row is not near. A row that is too long to keep its exponentials in the first cache
 * takes them again while its results wait for memory, which is cheaper than to store them. */
static ROW_INLINE bool near_softmax_row(float *o, const float *x, int64_t n, bool stream) {
  float kept[EXP_BLOCK] __attribute__((aligned(VEC_BYTES)));
  const float first = x[0];
  if (stream) lanes_ask_edge(o + n);
  const double sum =
      n <= EXP_BLOCK ? near_sum(kept, x, n, first, true, stream) : near_sum(NULL, x, n, first, false, stream);
  if (sum < 0) return false;
  const vf m = vf_set(first), scale = vf_set((float)(1.0 / sum));
#define TERM(i)    (LOAD(kept, i) * scale)
#define PART(i, m) (LOAD_PART(kept, i, m) * scale)
  if (n <= EXP_BLOCK) {
    LANES_EACH(n, o, TERM, PART);
    return true;
  }
#undef TERM
#undef PART
#define TERM(i)    (vf_exp_near(LOAD(x, i) - m) * scale)
#define PART(i, k) (vf_exp_near(LOAD_PART(x, i, k) - m) * scale)
  LANES_EACH(n, o, TERM, PART);
#undef TERM
#undef PART
  return true;
}
#else
static inline double near_sum(float *o, const float *x, int64_t n, float shift, bool keep, bool ahead) {
  return (void)o, (void)x, (void)n, (void)shift, (void)keep, (void)ahead, -1;
}
static inline bool near_softmax_row(float *o, const float *x, int64_t n, bool stream) {
  return (void)o, (void)x, (void)n, (void)stream, false;
}
#endif

/* The sum of exp(x - max) of a row that is near or not. */
static ROW_INLINE double sum_exp_below(const float *x, int64_t n, float max, bool ahead) {
  const double sum = near_sum(NULL, x, n, max, false, ahead);
  return sum < 0 ? sum_exp(NULL, x, n, max, false, true) : sum;
}

/* One exponential an element: in a block on the stack if the row is that short, so that a result is stored once, else
 * in out, where they are scaled. */
static ROW_INLINE void softmax_row(void *out, const void *x, int64_t n, bool stream) {
  if (near_softmax_row(out, x, n, stream)) return;
  float block[EXP_BLOCK] __attribute__((aligned(VEC_BYTES))), *o = out;
  float *kept = n <= EXP_BLOCK ? block : o;
  stream = stream && kept == block;
  const float max = f32_row_max(x, n);
  const vf scale = vf_set((float)(1.0 / sum_exp(kept, x, n, max, true, true)));
#define TERM(i)    (LOAD(kept, i) * scale)
#define PART(i, m) (LOAD_PART(kept, i, m) * scale)
  LANES_EACH(n, o, TERM, PART);
#undef TERM
#undef PART
}

static ROW_INLINE void log_softmax_row(void *out, const void *x, int64_t n, bool stream) {
  const float *p = x;
  float *o = out;
  const float best = f32_row_max(x, n);
  const vf max = vf_set(best), shift = vf_set((float)log(sum_exp_below(x, n, best, stream)));
#define TERM(i)    ((LOAD(p, i) - max) - shift)
#define PART(i, m) ((LOAD_PART(p, i, m) - max) - shift)
  LANES_EACH(n, o, TERM, PART);
#undef TERM
#undef PART
}

static double f32_logsumexp(const void *x, int64_t n) {
  const float max = f32_row_max(x, n), shift = isinf(max) ? 0 : max;
  return log(sum_exp(NULL, x, n, shift, false, false)) + (double)shift;
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
  float *o = out;
  lanes_wide wide = lanes_zero();
#define TERM(i)    LOAD(g, i)
#define PART(i, m) LOAD_PART(g, i, m)
  LANES_SUM(n, TERM, PART, wide);
#undef TERM
#undef PART
  const vf sum = vf_set((float)lanes_join(wide));
#define TERM(i)    (LOAD(g, i) - exp_vector(LOAD(v, i), false) * sum)
#define PART(i, m) (LOAD_PART(g, i, m) - exp_vector(LOAD_PART(v, i, m), false) * sum)
  LANES_EACH(n, o, TERM, PART);
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax and log_softmax of one contiguous row, forward and backward, in float32 and float64. The sum of
 * exponentials runs in double over 64 lanes (lanes.h); each exponential of float32 is evaluated in double
 * as well (math.h), so that a float32 result is off by its last rounding and little more.
 */
#include "plugins/backend-cpu/per-isa/lanes.h"
#include "plugins/backend-cpu/per-isa/math.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

static inline double f32_exp_wide(double x) { return exp_wide(clip(x, -200, 200)); }
static inline double f64_exp_wide(double x) { return exp(x); }

#define MAX_NAN(a, v) ((((a) > (v)) | ((a) != (a))) ? (a) : (v))

#define ROWS(P, T)                                                                                        \
  static double P##_row_max(const T *x, int64_t n) {                                                      \
    T best = -INFINITY;                                                                                   \
    LANES_FOLD(T, T, LANES_PLAIN, MAX_NAN, MAX_NAN, (T)-INFINITY, x, n, best);                            \
    return (double)best;                                                                                  \
  }                                                                                                       \
  static double P##_sum_exp(const T *x, int64_t n, double max) {                                          \
    double sum = 0;                                                                                       \
    LANES_FOLD(double, T, P##_AT, LANES_PLUS, LANES_PLUS, 0.0, x, n, sum);                                \
    return sum;                                                                                           \
  }                                                                                                       \
  static void P##_softmax(void *out, const void *x, int64_t n) {                                          \
    const T *v = x;                                                                                       \
    T *o = out;                                                                                           \
    const double max = P##_row_max(v, n), scale = 1.0 / P##_sum_exp(v, n, max);                           \
    CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) o[i] = (T)(P##_exp_wide((double)v[i] - max) * scale); \
  }                                                                                                       \
  static void P##_log_softmax(void *out, const void *x, int64_t n) {                                      \
    const T *v = x;                                                                                       \
    T *o = out;                                                                                           \
    const double max = P##_row_max(v, n), shift = log(P##_sum_exp(v, n, max));                            \
    CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) o[i] = (T)((double)v[i] - max - shift);               \
  }                                                                                                       \
  static void P##_softmax_backward(void *out, const void *grad, const void *y, int64_t n) {               \
    const T *g = grad, *v = y;                                                                            \
    T *o = out;                                                                                           \
    const double sum = CPU_FN(cpu_dot_##P)(grad, y, n);                                                   \
    CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) o[i] = (T)((double)v[i] * ((double)g[i] - sum));      \
  }                                                                                                       \
  static void P##_log_softmax_backward(void *out, const void *grad, const void *y, int64_t n) {           \
    const T *g = grad, *v = y;                                                                            \
    T *o = out;                                                                                           \
    double sum = 0;                                                                                       \
    LANES_FOLD(double, T, LANES_PLAIN, LANES_PLUS, LANES_PLUS, 0.0, g, n, sum);                           \
    CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) o[i] =                                                \
        (T)((double)g[i] - P##_exp_wide((double)v[i]) * sum);                                             \
  }                                                                                                       \
  const cpu_row_fns CPU_FN(cpu_rows_##P) = {P##_softmax, P##_log_softmax, P##_softmax_backward,           \
                                            P##_log_softmax_backward};
#define f32_AT(x) f32_exp_wide((double)(x)-max)
#define f64_AT(x) f64_exp_wide((double)(x)-max)
ROWS(f32, float)
ROWS(f64, double)

/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_norm of one contiguous row, its gradient with respect to the row, and the sums over rows that are
 * the gradients of weight and bias, in float32 and float64. Statistics and sums run in double over 64
 * lanes (lanes.h).
 */
#include <math.h>

#include "plugins/backend-cpu/per-isa/lanes.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

#define CENTRED(a, v) ((a) + ((v)-mean) * ((v)-mean))

#define NORM(name, T)                                                                                    \
  static void forward_##name(const cpu_norm *s, const void *input, void *out, void *out_mean,            \
                             void *out_rstd) {                                                           \
    const T *x = input, *w = s->weight, *b = s->bias;                                                    \
    T *o = out;                                                                                          \
    double mean = 0, squares = 0;                                                                        \
    LANES_FOLD(double, T, LANES_PLAIN, LANES_PLUS, LANES_PLUS, 0.0, x, s->n, mean);                      \
    mean /= (double)s->n;                                                                                \
    LANES_FOLD(double, T, LANES_PLAIN, CENTRED, LANES_PLUS, 0.0, x, s->n, squares);                      \
    const T centre = (T)mean, rstd = (T)(1 / sqrt(squares / (double)s->n + s->eps));                     \
    *(T *)out_mean = centre;                                                                             \
    *(T *)out_rstd = rstd;                                                                               \
    CPU_INDEPENDENT for (int64_t i = 0; i < s->n; ++i) {                                                 \
      const T v = (x[i] - centre) * rstd;                                                                \
      const T scaled = w ? v * w[i] : v;                                                                 \
      o[i] = b ? scaled + b[i] : scaled;                                                                 \
    }                                                                                                    \
  }                                                                                                      \
  static void backward_##name(const cpu_norm *s, const void *grad, const void *input, double mean,       \
                              double rstd, void *out) {                                                  \
    const T *g = grad, *x = input, *w = s->weight;                                                       \
    T *o = out;                                                                                          \
    double sums[LANES] = {0}, products[LANES] = {0};                                                     \
    for (int64_t i = 0; i < s->n; i += LANES) {                                                          \
      const int m = s->n - i < LANES ? (int)(s->n - i) : LANES;                                          \
      for (int j = 0; j < m; ++j) {                                                                      \
        const double v = (double)g[i + j] * (w ? (double)w[i + j] : 1.0);                                \
        sums[j] += v;                                                                                    \
        products[j] += v * (((double)x[i + j] - mean) * rstd);                                           \
      }                                                                                                  \
    }                                                                                                    \
    for (int half = LANES / 2; half; half /= 2)                                                          \
      for (int j = 0; j < half; ++j) {                                                                   \
        sums[j] += sums[j + half];                                                                       \
        products[j] += products[j + half];                                                               \
      }                                                                                                  \
    const double sum = sums[0] / (double)s->n, product = products[0] / (double)s->n;                     \
    CPU_INDEPENDENT for (int64_t i = 0; i < s->n; ++i) {                                                 \
      const double v = (double)g[i] * (w ? (double)w[i] : 1.0);                                          \
      o[i] = (T)(rstd * (v - sum - ((double)x[i] - mean) * rstd * product));                             \
    }                                                                                                    \
  }                                                                                                      \
  static void columns_##name(const cpu_norm *s, const void *grad, const void *input, const void *means,  \
                             const void *rstds, int64_t rows, int64_t n, double *weight, double *bias) { \
    const T *mean = means, *rstd = rstds;                                                                \
    for (int64_t r = 0; r < rows; ++r) {                                                                 \
      const T *g = (const T *)grad + r * s->n, *x = (const T *)input + r * s->n;                         \
      const double m = (double)mean[r], q = (double)rstd[r];                                             \
      for (int64_t j = 0; j < n; ++j) {                                                                  \
        weight[j] += (double)g[j] * (((double)x[j] - m) * q);                                            \
        bias[j] += (double)g[j];                                                                         \
      }                                                                                                  \
    }                                                                                                    \
  }                                                                                                      \
  const cpu_norm_fns CPU_FN(cpu_norm_##name) = {forward_##name, backward_##name, columns_##name};
NORM(f32, float)
NORM(f64, double)

/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of one image in float32 and float64. `planes` functions take one row-major plane; `pixels` functions one
 * image whose channels are innermost, so that the loop over channels is the vector one. cpu_pool says which elements
 * of the input each output position reads: [begin, end) in steps, the padding already taken off.
 */
#include <math.h>
#include <string.h>

#include "plugins/backend-cpu/per-isa/per_isa.h"

/* Calls of the body for every element of the window of (oy, ox); at: flat position in the input. */
#define EACH_IN_WINDOW(p, oy, ox, at)                                                 \
  for (int64_t y = (p)->begin[0][oy]; y < (p)->end[0][oy]; y += (p)->step[0])         \
    for (int64_t x = (p)->begin[1][ox], at = y * (p)->in[1] + x; x < (p)->end[1][ox]; \
         x += (p)->step[1], at += (p)->step[1])
#define EACH_POSITION(p, oy, ox)               \
  for (int64_t oy = 0; oy < (p)->out[0]; ++oy) \
    for (int64_t ox = 0; ox < (p)->out[1]; ++ox)

#define BETTER(v, best) ((v) > (best) || (v) != (v))

#define POOL_MAX(P, T)                                                                                   \
  static void P##_max_plane(const cpu_pool *p, const void *input, void *output, int64_t *index) {        \
    const T *in = input;                                                                                 \
    T *out = output;                                                                                     \
    EACH_POSITION(p, oy, ox) {                                                                           \
      int64_t place = p->begin[0][oy] * p->in[1] + p->begin[1][ox];                                      \
      T best = -(T)INFINITY;                                                                             \
      EACH_IN_WINDOW(p, oy, ox, at) {                                                                    \
        const bool better = BETTER(in[at], best);                                                        \
        place = better ? at : place;                                                                     \
        best = better ? in[at] : best;                                                                   \
      }                                                                                                  \
      *out++ = best;                                                                                     \
      *index++ = place;                                                                                  \
    }                                                                                                    \
  }                                                                                                      \
  static void P##_max_pixels(const cpu_pool *p, const void *input, void *output, int64_t *index) {       \
    T *out = output;                                                                                     \
    EACH_POSITION(p, oy, ox) {                                                                           \
      for (int64_t c = 0; c < p->channels; ++c) {                                                        \
        out[c] = -(T)INFINITY;                                                                           \
        index[c] = p->begin[0][oy] * p->in[1] + p->begin[1][ox];                                         \
      }                                                                                                  \
      EACH_IN_WINDOW(p, oy, ox, at) {                                                                    \
        const T *in = (const T *)input + at * p->channels;                                               \
        for (int64_t c = 0; c < p->channels; ++c) {                                                      \
          const bool better = BETTER(in[c], out[c]);                                                     \
          index[c] = better ? at : index[c];                                                             \
          out[c] = better ? in[c] : out[c];                                                              \
        }                                                                                                \
      }                                                                                                  \
      out += p->channels;                                                                                \
      index += p->channels;                                                                              \
    }                                                                                                    \
  }                                                                                                      \
  static void P##_unmax_plane(const cpu_pool *p, const void *grad, const int64_t *index, void *input) {  \
    const T *g = grad;                                                                                   \
    for (int64_t i = 0; i < p->out[0] * p->out[1]; ++i) ((T *)input)[index[i]] += g[i];                  \
  }                                                                                                      \
  static void P##_unmax_pixels(const cpu_pool *p, const void *grad, const int64_t *index, void *input) { \
    const T *g = grad;                                                                                   \
    for (int64_t i = 0; i < p->out[0] * p->out[1]; ++i)                                                  \
      for (int64_t c = 0; c < p->channels; ++c) ((T *)input)[*index++ * p->channels + c] += *g++;        \
  }

/* Sums of a window run in double. */
#define POOL_MEAN(P, T)                                                                 \
  static void P##_mean_plane(const cpu_pool *p, const void *input, void *output) {      \
    const T *in = input;                                                                \
    T *out = output;                                                                    \
    EACH_POSITION(p, oy, ox) {                                                          \
      double sum = 0;                                                                   \
      EACH_IN_WINDOW(p, oy, ox, at) sum += (double)in[at];                              \
      *out++ = (T)(sum / (p->divisor[0][oy] * p->divisor[1][ox]));                      \
    }                                                                                   \
  }                                                                                     \
  static void P##_mean_pixels(const cpu_pool *p, const void *input, void *output) {     \
    enum { LANES = 64 };                                                                \
    T *out = output;                                                                    \
    EACH_POSITION(p, oy, ox) {                                                          \
      const double divisor = p->divisor[0][oy] * p->divisor[1][ox];                     \
      for (int64_t c = 0; c < p->channels; c += LANES) {                                \
        const int64_t n = p->channels - c < LANES ? p->channels - c : LANES;            \
        double sums[LANES] = {0};                                                       \
        EACH_IN_WINDOW(p, oy, ox, at) {                                                 \
          const T *in = (const T *)input + at * p->channels + c;                        \
          for (int64_t j = 0; j < n; ++j) sums[j] += (double)in[j];                     \
        }                                                                               \
        for (int64_t j = 0; j < n; ++j) out[c + j] = (T)(sums[j] / divisor);            \
      }                                                                                 \
      out += p->channels;                                                               \
    }                                                                                   \
  }                                                                                     \
  static void P##_unmean_plane(const cpu_pool *p, const void *grad, void *input) {      \
    const T *g = grad;                                                                  \
    EACH_POSITION(p, oy, ox) {                                                          \
      const T share = (T)((double)*g++ / (p->divisor[0][oy] * p->divisor[1][ox]));      \
      EACH_IN_WINDOW(p, oy, ox, at)((T *)input)[at] += share;                           \
    }                                                                                   \
  }                                                                                     \
  static void P##_unmean_pixels(const cpu_pool *p, const void *grad, void *input) {     \
    const T *g = grad;                                                                  \
    EACH_POSITION(p, oy, ox) {                                                          \
      const double divisor = p->divisor[0][oy] * p->divisor[1][ox];                     \
      EACH_IN_WINDOW(p, oy, ox, at) {                                                   \
        T *to = (T *)input + at * p->channels;                                          \
        for (int64_t c = 0; c < p->channels; ++c) to[c] += (T)((double)g[c] / divisor); \
      }                                                                                 \
      g += p->channels;                                                                 \
    }                                                                                   \
  }

#define POOL(P, T)                                                                \
  POOL_MAX(P, T)                                                                  \
  POOL_MEAN(P, T)                                                                 \
  const cpu_pool_fns CPU_FN(cpu_pool_##P) = {{P##_max_plane, P##_max_pixels},     \
                                             {P##_unmax_plane, P##_unmax_pixels}, \
                                             {P##_mean_plane, P##_mean_pixels},   \
                                             {P##_unmean_plane, P##_unmean_pixels}};
POOL(f32, float)
POOL(f64, double)

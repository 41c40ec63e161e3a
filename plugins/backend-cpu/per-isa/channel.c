/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_norm and group_norm, forward and backward, once their statistics are known: every element of a channel goes
 * through one linear map, and the backward needs two sums a channel. For runs of one channel (row-major images) and
 * for pixels (channels innermost), in float32 and float64. Sums go by lanes.h.
 */
#include "plugins/backend-cpu/per-isa/lanes.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

/* The linear map of n <= CHANNELS channels as rows of T. */
enum { CHANNELS = 512 };

/* pixel_sums adds this many rows in T before it widens. */
enum { PIXELS = 8 };

#define CHANNEL(name, T, FMA)                                                                               \
  static void run_##name(const cpu_channel *c, const void *grad, const void *x, int64_t n, void *out) {     \
    const T centre = (T)c->centre, scale = (T)c->scale, shift = (T)c->shift, slope = (T)c->g;               \
    const T *v = x, *g = grad;                                                                              \
    T *o = out;                                                                                             \
    if (!g)                                                                                                 \
      CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) o[i] = FMA(v[i] - centre, scale, shift);              \
    else                                                                                                    \
      CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) o[i] =                                                \
          FMA(g[i], slope, FMA(v[i] - centre, scale, shift));                                               \
  }                                                                                                         \
  static void pixels_##name(const cpu_channel *c, const void *grad, const void *x, int64_t rows, int64_t n, \
                            void *out) {                                                                    \
    T centre[CHANNELS], scale[CHANNELS], shift[CHANNELS], slope[CHANNELS];                                  \
    for (int64_t at = 0; at < n; at += CHANNELS) {                                                          \
      const int64_t m = n - at < CHANNELS ? n - at : CHANNELS;                                              \
      for (int64_t j = 0; j < m; ++j) {                                                                     \
        centre[j] = (T)c[at + j].centre;                                                                    \
        scale[j] = (T)c[at + j].scale;                                                                      \
        shift[j] = (T)c[at + j].shift;                                                                      \
        slope[j] = (T)c[at + j].g;                                                                          \
      }                                                                                                     \
      for (int64_t r = 0; r < rows; ++r) {                                                                  \
        const T *v = (const T *)x + r * n + at, *g = grad ? (const T *)grad + r * n + at : NULL;            \
        T *o = (T *)out + r * n + at;                                                                       \
        if (!g)                                                                                             \
          CPU_INDEPENDENT for (int64_t j = 0; j < m; ++j) o[j] = FMA(v[j] - centre[j], scale[j], shift[j]); \
        else                                                                                                \
          CPU_INDEPENDENT for (int64_t j = 0; j < m; ++j) o[j] =                                            \
              FMA(g[j], slope[j], FMA(v[j] - centre[j], scale[j], shift[j]));                               \
      }                                                                                                     \
    }                                                                                                       \
  }                                                                                                         \
  static void pixel_sums_##name(const cpu_channel *c, const void *grad, const void *x, int64_t rows,        \
                                int64_t n, double *sums, double *products) {                                \
    T centre[CHANNELS], sum[CHANNELS], product[CHANNELS];                                                   \
    for (int64_t at = 0; at < n; at += CHANNELS) {                                                          \
      const int64_t m = n - at < CHANNELS ? n - at : CHANNELS;                                              \
      for (int64_t j = 0; j < m; ++j) centre[j] = (T)c[at + j].centre;                                      \
      for (int64_t r = 0; r < rows; r += PIXELS) {                                                          \
        const int64_t last = rows - r < PIXELS ? rows : r + PIXELS;                                         \
        for (int64_t j = 0; j < m; ++j) sum[j] = product[j] = 0;                                            \
        for (int64_t i = r; i < last; ++i) {                                                                \
          const T *v = (const T *)x + i * n + at, *g = (const T *)grad + i * n + at;                        \
          CPU_INDEPENDENT for (int64_t j = 0; j < m; ++j) {                                                 \
            sum[j] += g[j];                                                                                 \
            product[j] = FMA(g[j], v[j] - centre[j], product[j]);                                           \
          }                                                                                                 \
        }                                                                                                   \
        CPU_INDEPENDENT for (int64_t j = 0; j < m; ++j) {                                                   \
          sums[at + j] += (double)sum[j];                                                                   \
          products[at + j] += (double)product[j];                                                           \
        }                                                                                                   \
      }                                                                                                     \
    }                                                                                                       \
  }
CHANNEL(f32, float, CPU_FMAF)
CHANNEL(f64, double, CPU_FMA)

static void run_sums_f32(double centre, const void *grad, const void *x, int64_t n, double *sum,
                         double *product) {
  const float *g = grad, *v = x;
  const vf c = vf_set((float)centre);
  lanes_wide sums = lanes_zero(), products = lanes_zero();
#define TERM(i)    vf_load(g + (i))
#define PART(i, m) lanes_load_part(g + (i), m, 0)
  LANES_SUM(n, TERM, PART, sums);
#undef TERM
#undef PART
#define TERM(i)    vf_load(g + (i)) * (vf_load(v + (i)) - c)
#define PART(i, m) lanes_load_part(g + (i), m, 0) * (lanes_load_part(v + (i), m, 0) - c)
  LANES_SUM(n, TERM, PART, products);
#undef TERM
#undef PART
  *sum += lanes_join(sums);
  *product += lanes_join(products);
}

static void run_sums_f64(double centre, const void *grad, const void *x, int64_t n, double *sum,
                         double *product) {
  const double *g = grad, *v = x;
  double sums[LANES] = {0}, products[LANES] = {0};
  for (int64_t i = 0; i < n; i += LANES) {
    const int m = n - i < LANES ? (int)(n - i) : LANES;
    for (int j = 0; j < m; ++j) {
      sums[j] += g[i + j];
      products[j] += g[i + j] * (v[i + j] - centre);
    }
  }
  for (int j = 0; j < LANES; ++j) {
    *sum += sums[j];
    *product += products[j];
  }
}

const cpu_channel_fns CPU_FN(cpu_channel_f32) = {run_f32, pixels_f32, run_sums_f32, pixel_sums_f32};
const cpu_channel_fns CPU_FN(cpu_channel_f64) = {run_f64, pixels_f64, run_sums_f64, pixel_sums_f64};

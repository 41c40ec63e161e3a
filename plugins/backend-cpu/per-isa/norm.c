/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_norm and rms_norm of one contiguous row, their gradient with respect to the row, and the sums over rows that
 * are the gradients of weight and bias, in float32 and float64. Sums go by lanes.h; in float32 every element is
 * centred by the mean rounded to float32, which is exact near the mean, and what the rounding left is put right in
 * the sums and in the shift.
 */
#include <math.h>

#include "plugins/backend-cpu/per-isa/lanes.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

/* ------------------------------------------------------------------ float32 */

#define LOAD(p, i)         vf_load((p) + (i))
#define LOAD_PART(p, i, m) lanes_load_part((p) + (i), m, 0)

static double sum_row(const float *x, int64_t n) {
  lanes_wide wide = lanes_zero();
#define TERM(i)    LOAD(x, i)
#define PART(i, m) LOAD_PART(x, i, m)
  LANES_SUM(n, TERM, PART, wide);
#undef TERM
#undef PART
  return lanes_join(wide);
}

static double sum_squares(const float *x, int64_t n, float centre) {
  lanes_wide wide = lanes_zero();
  const vf c = vf_set(centre);
#define SQUARE(v)  ((v) * (v))
#define TERM(i)    SQUARE(LOAD(x, i) - c)
#define PART(i, m) SQUARE(lanes_load_part(x + (i), m, centre) - c)
  LANES_SUM(n, TERM, PART, wide);
#undef TERM
#undef PART
  return lanes_join(wide);
}

/* With the elements of p from i on, m of them; p may be NULL. */
static inline vf times(vf v, const float *p, int64_t i) {
  if (p) v = v * LOAD(p, i);
  return v;
}
static inline vf times_part(vf v, const float *p, int64_t i, int64_t m) {
  if (p) v = v * LOAD_PART(p, i, m);
  return v;
}
static inline vf plus(vf v, const float *p, int64_t i) {
  if (p) v = v + LOAD(p, i);
  return v;
}
static inline vf plus_part(vf v, const float *p, int64_t i, int64_t m) {
  if (p) v = v + LOAD_PART(p, i, m);
  return v;
}

/* o = ((x - c) * rstd + shift) * w + b. Three passes over a row, of which the first waits for memory: so this one, the
 * last, asks for the next row, which lies behind. */
static void scale_row(const cpu_norm *s, const float *x, vf c, vf rstd, vf shift, float *o) {
  const float *w = s->weight, *b = s->bias;
  const bool stream = s->stream;
#define NORMAL(v)  vf_fma((v)-c, rstd, shift)
#define NEXT(i)    __builtin_prefetch(x + s->n + (i))
#define TERM(i)    (NEXT(i), vf_fma(NORMAL(LOAD(x, i)), LOAD(w, i), LOAD(b, i)))
#define PART(i, m) vf_fma(NORMAL(LOAD_PART(x, i, m)), LOAD_PART(w, i, m), LOAD_PART(b, i, m))
  if (w && b) {
    LANES_EACH(s->n, o, TERM, PART);
    return;
  }
#undef TERM
#undef PART
#define TERM(i)    (NEXT(i), plus(times(NORMAL(LOAD(x, i)), w, i), b, i))
#define PART(i, m) plus_part(times_part(NORMAL(LOAD_PART(x, i, m)), w, i, m), b, i, m)
  LANES_EACH(s->n, o, TERM, PART);
#undef TERM
#undef PART
}

static void forward_f32(const cpu_norm *s, const void *input, void *out, void *out_mean, void *out_rstd) {
  const double n = (double)s->n, mean = s->rms ? 0 : sum_row(input, s->n) / n;
  const float centre = (float)mean;
  const double error = mean - centre, mean_square = sum_squares(input, s->n, centre) / n;
  double var = mean_square - error * error;
  if (var < 0) var = 0;
  const double rstd = 1 / sqrt(var + s->eps);
  if (!s->rms) *(float *)out_mean = centre;
  *(float *)out_rstd = (float)rstd;
  const double shift = s->rms ? 0 : -error * rstd;
  scale_row(s, input, vf_set(centre), vf_set((float)rstd), vf_set((float)shift), out);
}

/* With v = grad * weight and y the normalized row: rstd * (v - mean of v - y * mean of v * y). */
static void backward_f32(const cpu_norm *s, const void *grad, const void *input, double mean, double rstd,
                         void *out) {
  const float *g = grad, *x = input, *w = s->weight;
  float *o = out;
  const bool stream = false;
  const vf c = vf_set((float)mean);
  lanes_wide sums = lanes_zero(), products = lanes_zero();
#define GRAD(i)         times(LOAD(g, i), w, i)
#define GRAD_PART(i, m) times_part(LOAD_PART(g, i, m), w, i, m)
  if (!s->rms) LANES_SUM(s->n, GRAD, GRAD_PART, sums);
#define TERM(i)    GRAD(i) * (LOAD(x, i) - c)
#define PART(i, m) GRAD_PART(i, m) * (LOAD_PART(x, i, m) - c)
  LANES_SUM(s->n, TERM, PART, products);
#undef TERM
#undef PART
  const double n = (double)s->n;
  const vf q = vf_set((float)rstd), mean_v = vf_set((float)(lanes_join(sums) / n));
  const vf slope = vf_set((float)(lanes_join(products) / n * rstd * rstd));
#define TERM(i)    q *((GRAD(i) - mean_v) - (LOAD(x, i) - c) * slope)
#define PART(i, m) q *((GRAD_PART(i, m) - mean_v) - (LOAD_PART(x, i, m) - c) * slope)
  LANES_EACH(s->n, o, TERM, PART);
#undef TERM
#undef PART
}

/* Eight rows to a float32 sum, then into the accumulators; fewer at the end. */
static void columns_f32(const cpu_norm *s, const void *grad, const void *input, const void *means,
                        const void *rstds, int64_t rows, int64_t begin, int64_t end, double *weight,
                        double *bias) {
  const float *mean = means, *rstd = rstds;
  for (int64_t r = 0; r < rows; r += 8) {
    const int64_t m = rows - r < 8 ? rows - r : 8;
    const float *g = (const float *)grad + r * s->n, *x = (const float *)input + r * s->n;
    for (int64_t j = begin; j < end; j += F32_LANES) {
      const int64_t left = end - j;
      vf sum = vf_set(0), product = vf_set(0);
      for (int64_t k = 0; k < m; ++k) {
        const vf gv = left < F32_LANES ? LOAD_PART(g + k * s->n, j, left) : LOAD(g + k * s->n, j);
        const vf xv = left < F32_LANES ? LOAD_PART(x + k * s->n, j, left) : LOAD(x + k * s->n, j);
        const vf c = vf_set(s->rms ? 0 : mean[r + k]);
        sum += gv;
        product += gv * ((xv - c) * vf_set(rstd[r + k]));
      }
      if (left < F32_LANES) {
        lanes_add_part_to(weight + j, product, left);
        if (!s->rms) lanes_add_part_to(bias + j, sum, left);
      } else {
        lanes_add_to(weight + j, product);
        if (!s->rms) lanes_add_to(bias + j, sum);
      }
    }
  }
}
const cpu_norm_fns CPU_FN(cpu_norm_f32) = {forward_f32, backward_f32, columns_f32, lanes_stream_end};

/* ------------------------------------------------------------------ float64 */

#define CENTRED(a, v) ((a) + ((v)-mean) * ((v)-mean))

static void forward_f64(const cpu_norm *s, const void *input, void *out, void *out_mean, void *out_rstd) {
  const double *x = input, *w = s->weight, *b = s->bias;
  double *o = out, mean = 0, squares = 0;
  if (!s->rms) LANES_FOLD(double, double, LANES_PLAIN, LANES_PLUS, LANES_PLUS, 0.0, x, s->n, mean);
  mean /= (double)s->n;
  LANES_FOLD(double, double, LANES_PLAIN, CENTRED, LANES_PLUS, 0.0, x, s->n, squares);
  const double rstd = 1 / sqrt(squares / (double)s->n + s->eps);
  if (!s->rms) *(double *)out_mean = mean;
  *(double *)out_rstd = rstd;
  CPU_INDEPENDENT for (int64_t i = 0; i < s->n; ++i) {
    const double v = (x[i] - mean) * rstd, scaled = w ? v * w[i] : v;
    o[i] = b ? scaled + b[i] : scaled;
  }
}

static void backward_f64(const cpu_norm *s, const void *grad, const void *input, double mean, double rstd,
                         void *out) {
  const double *g = grad, *x = input, *w = s->weight;
  double *o = out, sums[LANES] = {0}, products[LANES] = {0};
  for (int64_t i = 0; i < s->n; i += LANES) {
    const int m = s->n - i < LANES ? (int)(s->n - i) : LANES;
    for (int j = 0; j < m; ++j) {
      const double v = g[i + j] * (w ? w[i + j] : 1.0);
      sums[j] += v;
      products[j] += v * ((x[i + j] - mean) * rstd);
    }
  }
  for (int half = LANES / 2; half; half /= 2)
    for (int j = 0; j < half; ++j) {
      sums[j] += sums[j + half];
      products[j] += products[j + half];
    }
  const double sum = s->rms ? 0 : sums[0] / (double)s->n, product = products[0] / (double)s->n;
  CPU_INDEPENDENT for (int64_t i = 0; i < s->n; ++i) {
    const double v = g[i] * (w ? w[i] : 1.0);
    o[i] = rstd * (v - sum - (x[i] - mean) * rstd * product);
  }
}

static void columns_f64(const cpu_norm *s, const void *grad, const void *input, const void *means,
                        const void *rstds, int64_t rows, int64_t begin, int64_t end, double *weight,
                        double *bias) {
  for (int64_t r = 0; r < rows; ++r) {
    const double *g = (const double *)grad + r * s->n, *x = (const double *)input + r * s->n;
    const double m = s->rms ? 0 : ((const double *)means)[r], q = ((const double *)rstds)[r];
    CPU_INDEPENDENT for (int64_t j = begin; j < end; ++j) weight[j] += g[j] * ((x[j] - m) * q);
    if (s->rms) continue;
    CPU_INDEPENDENT for (int64_t j = begin; j < end; ++j) bias[j] += g[j];
  }
}
const cpu_norm_fns CPU_FN(cpu_norm_f64) = {forward_f64, backward_f64, columns_f64, lanes_stream_end};

/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_norm and rms_norm of one contiguous row, their gradient with respect to the row, and the sums over rows that
 * are the gradients of weight and bias, in float32 and float64. Sums go by lanes.h; in float32 a row's statistics take
 * one pass around its first element (Note [One pass for mean and variance]), and its elements are centred by the mean
 * rounded to float32, which is exact near the mean; what the rounding left is put right in the shift.
 */
#include <math.h>

#include "plugins/backend-cpu/per-isa/lanes.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

/* ------------------------------------------------------------------ float32 */

#define LOAD(p, i)         vf_load((p) + (i))
#define LOAD_PART(p, i, m) lanes_load_part((p) + (i), m, 0)

/* Sums of x - centre and of its square. */
typedef struct norm_sums {
  double sum, squares;
} norm_sums;

/* By Note [Pairwise blocks] with four partial sums. */
static norm_sums sums_around(const float *x, int64_t n, float centre) {
  const vf c = vf_set(centre), zero = vf_set(0);
  lanes_wide sums = lanes_zero(), squares = lanes_zero();
  for (int64_t begin = 0; begin < n; begin += F32_BLOCK) {
    const int64_t end = n - begin < F32_BLOCK ? n : begin + F32_BLOCK;
    vf a[4] = {zero, zero, zero, zero}, b[4] = {zero, zero, zero, zero};
    int64_t i = begin;
    for (; i + 4 * F32_LANES <= end; i += 4 * F32_LANES)
      for (int k = 0; k < 4; ++k) {
        const vf d = LOAD(x, i + k * F32_LANES) - c;
        a[k] += d;
        b[k] = vf_fma(d, d, b[k]);
      }
    for (; i + F32_LANES <= end; i += F32_LANES) {
      const vf d = LOAD(x, i) - c;
      a[0] += d;
      b[0] = vf_fma(d, d, b[0]);
    }
    if (i < end) {
      const vf d = lanes_load_part(x + i, end - i, centre) - c;
      a[1] += d;
      b[1] = vf_fma(d, d, b[1]);
    }
    lanes_widen(&sums, (a[0] + a[1]) + (a[2] + a[3]));
    lanes_widen(&squares, (b[0] + b[1]) + (b[2] + b[3]));
  }
  return (norm_sums){lanes_join(sums), lanes_join(squares)};
}

/* Note [One pass for mean and variance]
 * Sums of d = x - c and of d * d give the mean, c + sum(d) / n, and the variance, sum(d * d) / n - (sum(d) / n)^2. With
 * c = 0 the difference loses everything for a row far from 0. With c the row's first element, which is exact to
 * subtract from its neighbours, it loses little: usually the element is within a few deviations of the mean. Where it
 * is not, seen by what has been summed, the row is summed once more around the mean that came out, which is near
 * enough then. So does a row with a NaN or an infinity, to no effect. */
enum { DEVIATIONS_SQUARED = 16 };

static double moments(const float *x, int64_t n, double *out_mean) {
  const double inverse = 1.0 / (double)n;
  float centre = isfinite(x[0]) ? x[0] : 0;
  for (int again = 0;; ++again) {
    const norm_sums s = sums_around(x, n, centre);
    const double off = s.sum * inverse, var = s.squares * inverse - off * off, mean = (double)centre + off;
    if (again || off * off <= DEVIATIONS_SQUARED * var) {
      *out_mean = mean;
      return var < 0 ? 0 : var;
    }
    centre = isfinite((float)mean) ? (float)mean : 0;
  }
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

/* o = ((x - c) * rstd + shift) * w + b. */
static void scale_row(const cpu_norm *s, const float *x, vf c, vf rstd, vf shift, float *o) {
  const float *w = s->weight, *b = s->bias;
  const bool stream = s->stream;
#define NORMAL(v)  vf_fma((v)-c, rstd, shift)
#define TERM(i)    vf_fma(NORMAL(LOAD(x, i)), LOAD(w, i), LOAD(b, i))
#define PART(i, m) vf_fma(NORMAL(LOAD_PART(x, i, m)), LOAD_PART(w, i, m), LOAD_PART(b, i, m))
  if (w && b) {
    LANES_EACH(s->n, o, TERM, PART);
    return;
  }
#undef TERM
#undef PART
#define TERM(i)    plus(times(NORMAL(LOAD(x, i)), w, i), b, i)
#define PART(i, m) plus_part(times_part(NORMAL(LOAD_PART(x, i, m)), w, i, m), b, i, m)
  LANES_EACH(s->n, o, TERM, PART);
#undef TERM
#undef PART
}

static void forward_f32(const cpu_norm *s, const void *input, void *out, void *out_mean, void *out_rstd) {
  double mean = 0;
  if (s->stream) lanes_ask_edge((const float *)out + 2 * s->n);
  const double var =
      s->rms ? sums_around(input, s->n, 0).squares / (double)s->n : moments(input, s->n, &mean);
  const float centre = (float)mean;
  const double rstd = 1 / sqrt(var + s->eps);
  if (!s->rms) *(float *)out_mean = centre;
  *(float *)out_rstd = (float)rstd;
  const double shift = -(mean - (double)centre) * rstd;
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

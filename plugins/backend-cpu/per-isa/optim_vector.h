/* SPDX-License-Identifier: Apache-2.0
 *
 * The usual Adam, AdamW and RMSprop steps over float32, with one quotient that the divider has no part in; sets without
 * an approximate reciprocal of 14 bits, and steps that are not usual, go through the plain loops of optim.c.
 *
 * Note [One quotient a step]
 * lr m / (sqrt(v) scale + eps) keeps the divider busy twice an element, for the root and for the quotient, and nothing
 * else in such a loop takes as long. The root stays, rounded correctly. The quotient is taken of the step's own number,
 * (lr / scale) / (sqrt(v) + eps / scale), so that its numerator is known before the loop and its denominator lies
 * between eps / scale and 2^65: no element can leave the range in which an approximate reciprocal and what is left of
 * the numerator give it to 0.57 units in the last place (tests/unit/test_cpu_optim.c tries every fraction). Only an
 * infinite root needs a word: its quotient is 0. m enters by the multiply-add that takes the change away from the
 * parameter, so the change is rounded once less than in the plain loop. Every element takes this one way, alone
 * or beside any other; the last few go through a vector that is filled up.
 */
#ifndef CPU_PER_ISA_OPTIM_VECTOR_H
#define CPU_PER_ISA_OPTIM_VECTOR_H

#include <math.h>
#include <string.h>

#include "plugins/backend-cpu/isa.h"
#include "plugins/backend-cpu/simd/vec.h"

#if defined(__AVX512F__)

enum { QUICK_LANES = VEC_BYTES / 4, QUICK_ARRAYS = 4 };

/* The numbers of a step; rate and eps as Note [One quotient a step] divides them. */
typedef struct quick_step {
  float keep, beta1_rest, beta2, beta2_rest, rate, eps;
} quick_step;

/* Is the step within the quotient's range, and without what only the plain loops do? */
static inline bool quick_step_fits(const cpu_step *s, const quick_step *q) {
  const bool near = fabsf(q->rate) >= 0x1p-60f && fabsf(q->rate) <= 0x1p60f;
  const bool plain = s->grad_scale == 1 && (s->decoupled || s->weight_decay == 0) && !s->amsgrad;
  return near && plain && q->eps >= 0x1p-60f && q->eps <= 0x1p60f;
}

/* x / y for |x| from 2^-60 to 2^60 and y from 2^-60 to 2^66, infinite, or NaN. */
static inline vf vf_quotient(vf x, vf y) {
  const __m512 about = _mm512_rcp14_ps((__m512)y), q = _mm512_mul_ps((__m512)x, about);
  const __mmask16 finite = _mm512_cmp_ps_mask((__m512)y, _mm512_set1_ps(INFINITY), _CMP_NEQ_UQ);
  const __m512 rest = _mm512_maskz_fnmadd_ps(finite, (__m512)y, q, (__m512)x);
  return (vf)_mm512_fmadd_ps(rest, about, q);
}

/* rate / (sqrt(v) + eps) */
static inline vf quick_rate(const quick_step *q, vf v) {
  return vf_quotient(vf_set(q->rate), (vf)_mm512_sqrt_ps((__m512)v) + vf_set(q->eps));
}

static inline vf quick_mean_square(const quick_step *q, vf v, vf d) {
  return vf_fma(vf_set(q->beta2_rest) * d, d, vf_set(q->beta2) * v);
}

/* A vector of each array: parameters, gradients, and the states. */
typedef void (*quick_fn)(const quick_step *q, float *p, const float *g, float *first, float *second);

static inline __attribute__((always_inline)) void quick_adam_from(const quick_step *q, vf x, float *p,
                                                                  const float *g, float *m, float *v) {
  const vf d = vf_load(g), old = vf_load(m), mean = vf_fma(vf_set(q->beta1_rest), d - old, old);
  const vf square = quick_mean_square(q, vf_load(v), d);
  vf_store(m, mean);
  vf_store(v, square);
  vf_store(p, vf_fma(-mean, quick_rate(q, square), x));
}
static inline void quick_adam(const quick_step *q, float *p, const float *g, float *m, float *v) {
  quick_adam_from(q, vf_load(p), p, g, m, v);
}
static inline void quick_adamw(const quick_step *q, float *p, const float *g, float *m, float *v) {
  quick_adam_from(q, vf_load(p) * vf_set(q->keep), p, g, m, v);
}
/* A mean square below 0 counts as 0, as in the plain loop; NaN stays. */
static inline void quick_rmsprop(const quick_step *q, float *p, const float *g, float *sq, float *unused) {
  const vf d = vf_load(g), square = quick_mean_square(q, vf_load(sq), d);
  vf_store(sq, square);
  const vf spread = (vf)_mm512_max_ps(_mm512_setzero_ps(), (__m512)square);
  vf_store(p, vf_fma(-d, quick_rate(q, spread), vf_load(p)));
}

/* x[k]: parameters, gradients, states; the last may be missing. */
static inline __attribute__((always_inline)) void quick_loop(const quick_step *numbers, float *const *x,
                                                             int64_t n, quick_fn body) {
  const quick_step q = *numbers;
  float *const p = x[0], *const g = x[1], *const first = x[2], *const second = x[3];
  int64_t i = 0;
  CPU_INDEPENDENT for (; i + QUICK_LANES <= n; i += QUICK_LANES)
      body(&q, p + i, g + i, first + i, second ? second + i : NULL);
  float last[QUICK_ARRAYS][QUICK_LANES] = {{0}};
  const size_t rest = (size_t)(n - i) * sizeof(float);
  if (!rest) return;
  for (int k = 0; k < QUICK_ARRAYS; ++k)
    if (x[k]) memcpy(last[k], x[k] + i, rest);
  body(&q, last[0], last[1], last[2], last[3]);
  for (int k = 0; k < QUICK_ARRAYS; ++k)
    if (x[k] && k != 1) memcpy(x[k] + i, last[k], rest);
}

/* False: nothing was done. */
static inline bool adam_quickly(const cpu_step *s, float *p, const float *g, float *m, float *v, int64_t n) {
  const quick_step q = {.keep = (float)(s->decoupled ? 1 - s->lr * s->weight_decay : 1),
                        .beta1_rest = (float)(1 - s->beta1),
                        .beta2 = (float)s->beta2,
                        .beta2_rest = (float)(1 - s->beta2),
                        .rate = (float)(s->lr / s->correction1 * s->correction2_sqrt),
                        .eps = (float)(s->eps * s->correction2_sqrt)};
  if (!quick_step_fits(s, &q)) return false;
  float *const x[QUICK_ARRAYS] = {p, (float *)(uintptr_t)g, m, v};
  if (q.keep == 1)
    quick_loop(&q, x, n, quick_adam);
  else
    quick_loop(&q, x, n, quick_adamw);
  return true;
}

/* False: nothing was done. */
static inline bool rmsprop_quickly(const cpu_step *s, float *p, const float *g, float *sq,
                                   const float *grad_avg, const float *momentum_buffer, int64_t n) {
  const quick_step q = {.beta2 = (float)s->beta2,
                        .beta2_rest = (float)(1 - s->beta2),
                        .rate = (float)s->lr,
                        .eps = (float)s->eps};
  if (grad_avg || momentum_buffer || !quick_step_fits(s, &q)) return false;
  float *const x[QUICK_ARRAYS] = {p, (float *)(uintptr_t)g, sq, NULL};
  quick_loop(&q, x, n, quick_rmsprop);
  return true;
}

#else

static inline bool adam_quickly(const cpu_step *s, float *p, const float *g, float *m, float *v, int64_t n) {
  return false;
}
static inline bool rmsprop_quickly(const cpu_step *s, float *p, const float *g, float *sq,
                                   const float *grad_avg, const float *momentum_buffer, int64_t n) {
  return false;
}

#endif
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of this instruction set in float32 and float64: attention.inc twice. Tile heights as in gemm.c.
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <tenon/kit/philox.h>

#include "plugins/backend-cpu/per-isa/gemm_rows.inc"
#include "plugins/backend-cpu/per-isa/math.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

#if defined(__AVX512F__)
enum { MR = 14 };
#define HEIGHTS(M) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14)
#else
enum { MR = 6 };
#define HEIGHTS(M) M(1) M(2) M(3) M(4) M(5) M(6)
#endif

/* ------------------------------------------------------------------ vectors */

typedef int32_t vi __attribute__((vector_size(VEC_BYTES), may_alias));
typedef int64_t vl __attribute__((vector_size(VEC_BYTES), may_alias));

/* The greater (smaller) of two; the second where one is NaN. The sum and the greatest of a vector's elements. */
#if defined(__AVX512F__)
static inline vf vf_max(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
static inline vf vf_min(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
static inline vd vd_max(vd a, vd b) { return (vd)_mm512_max_pd((__m512d)a, (__m512d)b); }
static inline vd vd_min(vd a, vd b) { return (vd)_mm512_min_pd((__m512d)a, (__m512d)b); }
static inline float f32_sum(vf a) { return _mm512_reduce_add_ps((__m512)a); }
static inline float f32_greatest(vf a) { return _mm512_reduce_max_ps((__m512)a); }
#else
#if defined(__AVX2__)
static inline vf vf_max(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
static inline vf vf_min(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
static inline vd vd_max(vd a, vd b) { return (vd)_mm256_max_pd((__m256d)a, (__m256d)b); }
static inline vd vd_min(vd a, vd b) { return (vd)_mm256_min_pd((__m256d)a, (__m256d)b); }
#else
static inline vf vf_pick(vi which, vf a, vf b) { return (vf)((which & (vi)a) | (~which & (vi)b)); }
static inline vd vd_pick(vl which, vd a, vd b) { return (vd)((which & (vl)a) | (~which & (vl)b)); }
static inline vf vf_max(vf a, vf b) { return vf_pick(a > b, a, b); }
static inline vf vf_min(vf a, vf b) { return vf_pick(a < b, a, b); }
static inline vd vd_max(vd a, vd b) { return vd_pick(a > b, a, b); }
static inline vd vd_min(vd a, vd b) { return vd_pick(a < b, a, b); }
#endif
static inline float f32_sum(vf a) {
  float s[VEC_BYTES / 4];
  vf_store(s, a);
  for (int half = VEC_BYTES / 8; half; half /= 2)
    for (int l = 0; l < half; ++l) s[l] += s[l + half];
  return s[0];
}
static inline float f32_greatest(vf a) {
  float s[VEC_BYTES / 4];
  vf_store(s, a);
  for (int half = VEC_BYTES / 8; half; half /= 2)
    for (int l = 0; l < half; ++l) s[l] = s[l] > s[l + half] ? s[l] : s[l + half];
  return s[0];
}
#endif
static inline double f64_sum(vd a) {
  double s[VEC_BYTES / 8];
  vd_store(s, a);
  for (int half = VEC_BYTES / 16; half; half /= 2)
    for (int l = 0; l < half; ++l) s[l] += s[l + half];
  return s[0];
}
static inline double f64_greatest(vd a) {
  double s[VEC_BYTES / 8];
  vd_store(s, a);
  for (int half = VEC_BYTES / 16; half; half /= 2)
    for (int l = 0; l < half; ++l) s[l] = s[l] > s[l + half] ? s[l] : s[l + half];
  return s[0];
}

/* exp(x) in float32 with an error below 1 unit in the last place, for the x <= 0 of a softmax: by way of double
 * (math.h) it would be half of attention's time. Below 2^-126.5 the result is 0, so that -infinity gives exactly 0;
 * from 88.4 on it is infinity; NaN stays. Coefficients: an interpolation of our own. */
static inline vf vf_exp(vf x) {
  const vf round = vf_set(0x1.8p23f), c = vf_min(vf_set(88.8f), vf_max(vf_set(-88.1f), x));
  const vf k = vf_fma(c, vf_set(0x1.715476p+0f), round),
           n = k - round; /* the integer stands in k's low bits */
  const vf r =
      vf_fma(n, vf_set(-0x1.7f7d1cp-20f), vf_fma(n, vf_set(-0x1.62e4p-1f), c)); /* ln(2) in two parts */
  vf p = vf_fma(vf_set(0x1.6d117cp-10f), r, vf_set(0x1.120be2p-7f));
  p = vf_fma(p, r, vf_set(0x1.555518p-5f));
  p = vf_fma(p, r, vf_set(0x1.5554dcp-3f));
  p = vf_fma(p, r, vf_set(0.5f));
  p = vf_fma(p, r, vf_set(1.0f));
  p = vf_fma(p, r, vf_set(1.0f));
  return p * (vf)(((vi)k + 127) << 23);
}
static inline vd vd_exp(vd x) {
  for (int l = 0; l < VEC_BYTES / 8; ++l) x[l] = exp(x[l]);
  return x;
}

/* A row's first n of CPU_TILE scores: from [CPU_TILE - n] on what they may be at most, and which bits stay. */
#define TILE_OF(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x
#define TILE_4(x)  TILE_OF(x), TILE_OF(x), TILE_OF(x), TILE_OF(x)
static const float f32_most[2 * CPU_TILE] = {TILE_4(INFINITY), TILE_4(-INFINITY)};
static const double f64_most[2 * CPU_TILE] = {TILE_4(INFINITY), TILE_4(-INFINITY)};
static const int32_t f32_kept[2 * CPU_TILE] = {TILE_4(-1)};
static const int64_t f64_kept[2 * CPU_TILE] = {TILE_4(-1)};

/* Which of CPU_TILE weights dropout keeps: one Philox counter a weight, as bernoulli_ draws them (its subsequence is 0).
 * Ten rounds over words of all weights: 32-bit lanes do many at a time. */
static void keep(uint8_t *kept, const cpu_dropout *d, uint64_t first) {
  uint32_t c0[CPU_TILE], c1[CPU_TILE], c2[CPU_TILE] = {0}, c3[CPU_TILE] = {0};
  uint32_t k0 = (uint32_t)d->seed, k1 = (uint32_t)(d->seed >> 32);
  for (int j = 0; j < CPU_TILE; ++j) {
    const uint64_t counter = d->offset + first + (uint64_t)j;
    c0[j] = (uint32_t)counter;
    c1[j] = (uint32_t)(counter >> 32);
  }
  for (int round = 0; round < 10; ++round, k0 += TN_PHILOX_KEY_0, k1 += TN_PHILOX_KEY_1)
    for (int j = 0; j < CPU_TILE; ++j) tn_philox_round(&c0[j], &c1[j], &c2[j], &c3[j], k0, k1);
  for (int j = 0; j < CPU_TILE; ++j) kept[j] = ((uint64_t)c0[j] << 32 | c1[j]) >> 11 < d->kept;
}

#define T         float
#define V         vf
#define NAME(x)   CPU_PASTE(f32, x)
#define vec_load  vf_load
#define vec_store vf_store
#define vec_set   vf_set
#define vec_fma   vf_fma
#define VI        vi
#define vec_max   vf_max
#define vec_min   vf_min
#define vec_exp   vf_exp
#define vec_lanes vf_load_lanes
#define VEC_TURN  VF_TURN
#define LOG       f32_log
#define FMA       CPU_FMAF
#include "plugins/backend-cpu/per-isa/attention.inc"
#undef T
#undef V
#undef NAME
#undef vec_load
#undef vec_store
#undef vec_set
#undef vec_fma
#undef VI
#undef vec_max
#undef vec_min
#undef vec_exp
#undef vec_lanes
#undef VEC_TURN
#undef LOG
#undef FMA

#define T         double
#define V         vd
#define NAME(x)   CPU_PASTE(f64, x)
#define vec_load  vd_load
#define vec_store vd_store
#define vec_set   vd_set
#define vec_fma   vd_fma
#define VI        vl
#define vec_max   vd_max
#define vec_min   vd_min
#define vec_exp   vd_exp
#define vec_lanes vd_load_lanes
#define VEC_TURN  VD_TURN
#define LOG       f64_log
#define FMA       CPU_FMA
#include "plugins/backend-cpu/per-isa/attention.inc"

const cpu_attention_fns CPU_FN(cpu_attention_f32) = {
    f32_NR, f32_leave, f32_turn, f32_flat, f32_dots, f32_forward, f32_finish, f32_backward, f32_scale};
const cpu_attention_fns CPU_FN(cpu_attention_f64) = {
    f64_NR, f64_leave, f64_turn, f64_flat, f64_dots, f64_forward, f64_finish, f64_backward, f64_scale};

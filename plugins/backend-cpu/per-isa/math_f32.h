/* SPDX-License-Identifier: Apache-2.0
 *
 * exp, log, tanh, sigmoid, erf and the normal distribution in float32 arithmetic.
 *
 * Note [float32 in float32]
 * All are plain C without branches, multiply-adds spelled out (CPU_FMAF), so that the compiler's vectors,
 * their tails and a single element have the same bits; a set without multiply-add rounds twice and has bits
 * of its own. Each is a reduction that is exact or nearly so, a minimax polynomial, and a result in which
 * the polynomial's share is small, so that its roundings hardly count. 16 lanes instead of the 8 of double,
 * and as fast as memory for most.
 *
 * Largest errors in units in the last place, over all 2^32 inputs on AVX-512: exp 1.02, log 0.81, tanh 1.30, sigmoid
 * 1.97, erf 1.32; over every 4001st without multiply-add: exp 0.97, log 0.74, tanh 1.14, sigmoid 1.66, erf 1.28. ncdf:
 * absolute 3e-8, so x *
 * ncdf(x), the gelu, is off by 3e-8 * |x| (and exactly 0 below -9.9). Infinities, NaN and signs of zero are
 * the C library's.
 *
 * Coefficients: minimax fits of our own (Remez exchange in 40 digits; each coefficient rounded to float32 in
 * turn, lowest power first, and the rest fitted anew).
 */
#ifndef CPU_PER_ISA_MATH_F32_H
#define CPU_PER_ISA_MATH_F32_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "plugins/backend-cpu/simd/vec.h"

static inline uint32_t bits_of_f(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static inline float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* Adding and taking away 1.5 * 2^23 rounds to an integer, which then stands in the low bits of the sum. With
 * an exponent's bias added, those bits << 23 are a power of two. */
#define ROUNDER_F 0x1.8p23f
#define BIAS_F    127.0f
#define LOG2_E_F  0x1.715476p+0f
/* ln 2 in two parts; the first has so few bits that its product with an exponent is exact. */
#define LN2_HIGH_F 0x1.62e4p-1f
#define LN2_LOW_F  0x1.7f7d1cp-20f

/* ------------------------------------------------------------------ exp */

/* x = n ln(2) + r, |r| <= ln(2) / 2, and t = exp(r) - 1 to 3e-9. shifted: n + bias in its low bits. */
typedef struct exp_parts_f {
  float t, shifted;
} exp_parts_f;
static inline exp_parts_f exp_split_f(float x, float bias) {
  const float k = CPU_FMAF(x, LOG2_E_F, ROUNDER_F + bias), n = k - (ROUNDER_F + bias);
  float r = CPU_FMAF(n, -LN2_HIGH_F, x);
  r = CPU_FMAF(n, -LN2_LOW_F, r);
  float q = 0x1.6ac778p-10f;
  q = CPU_FMAF(q, r, 0x1.123de2p-7f);
  q = CPU_FMAF(q, r, 0x1.555858p-5f);
  q = CPU_FMAF(q, r, 0x1.55548cp-3f);
  q = CPU_FMAF(q, r, 0x1.fffffcp-2f);
  return (exp_parts_f){CPU_FMAF(r * r, q, r), k};
}

/* exp(x) as the product of two numbers: the first is near sqrt(exp(x)) and exact to a rounding, the second a
 * power of two, so that subnormal results are rounded once and too large ones become infinite. -104 <= x <=
 * 89. */
typedef struct exp_halves {
  float near, power;
} exp_halves;
static inline exp_halves exp_halves_of(float x) {
  const exp_parts_f e = exp_split_f(x, 2 * BIAS_F);
  const uint32_t both = bits_of_f(e.shifted), half = both >> 1;
  const float power = float_of(half << 23);
  return (exp_halves){CPU_FMAF(power, e.t, power), float_of((both - half) << 23)};
}

static inline float f32_exp(float x) {
  float c = x < -104.0f ? -104.0f : x;
  c = c > 89.0f ? 89.0f : c;
  const exp_halves e = exp_halves_of(c);
  return e.near * e.power;
}

/* 1 / (1 + e), or e / (1 + e) for negative x, with e = exp(-|x|). What the sum lost to rounding is put
 * back. */
static inline float f32_sigmoid(float x) {
  const float a = -__builtin_fabsf(x);
  const exp_halves h = exp_halves_of(a < -104.0f ? -104.0f : a);
  const float e = h.near * h.power, sum = 1.0f + e, lost = e - (sum - 1.0f);
  const float scale = x < 0 ? h.power : 1.0f;
  const float s = (x < 0 ? h.near : 1.0f) / sum;
  const float inverse = x < 0 ? 1.0f - s * scale : s;
  return CPU_FMAF(-(s * lost), inverse, s) * scale;
}

/* Below 0.65 x plus a polynomial; above, 1 - 2 / (exp(2|x|) + 1). At 9.1 float32 is at 1. */
static inline float f32_tanh(float x) {
  const float a = __builtin_fabsf(x), z = x * x;
  float q = -0x1.6968fap-8f;
  q = CPU_FMAF(q, z, 0x1.4f5d36p-6f);
  q = CPU_FMAF(q, z, -0x1.b7cfb2p-5f);
  q = CPU_FMAF(q, z, 0x1.1103f0p-3f);
  q = CPU_FMAF(q, z, -0x1.555524p-2f);
  const float below = CPU_FMAF(a * z, q, a), b = a > 9.1f ? 9.1f : a;
  const exp_parts_f e = exp_split_f(b + b, BIAS_F);
  const float power = float_of(bits_of_f(e.shifted) << 23);
  const float above = 1.0f - 2.0f / (CPU_FMAF(power, e.t, power) + 1.0f);
  float v = a < 0.65f ? below : above;
  v = a != a ? a : v;
  return __builtin_copysignf(v, x);
}

/* ------------------------------------------------------------------ log */

/* x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); ln(1 + f) = f - f^2/2 + f^3 q(f). */
static inline float f32_log(float x) {
  const int subnormal = x < 0x1p-126f;
  const uint32_t u = bits_of_f(subnormal ? x * 0x1p23f : x), t = u - 0x3f3504f3u; /* sqrt(1/2) */
  const float e = (float)((int32_t)t >> 23) - (subnormal ? 23.0f : 0.0f);
  const float f = float_of(u - (t & 0xff800000u)) - 1.0f, z = f * f;
  float q = 0x1.0309fcp-4f;
  q = CPU_FMAF(q, f, -0x1.d38014p-4f);
  q = CPU_FMAF(q, f, 0x1.e9509ap-4f);
  q = CPU_FMAF(q, f, -0x1.fe3738p-4f);
  q = CPU_FMAF(q, f, 0x1.232e50p-3f);
  q = CPU_FMAF(q, f, -0x1.554bd8p-3f);
  q = CPU_FMAF(q, f, 0x1.99a49ap-3f);
  q = CPU_FMAF(q, f, -0x1.00002ep-2f);
  q = CPU_FMAF(q, f, 0x1.555548p-2f);
  float p = CPU_FMAF(z * f, q, e * LN2_LOW_F);
  p = CPU_FMAF(z, -0.5f, p);
  float r = CPU_FMAF(e, LN2_HIGH_F, f + p);
  r = x == INFINITY ? INFINITY : r;
  r = x == 0 ? -INFINITY : r;
  return x >= 0 ? r : NAN;
}

/* ------------------------------------------------------------------ erf and the normal distribution */

/* Below 1 x plus x times a polynomial of x^2; above, 1 - 2^(polynomial), a fit of log2(erfc). At 4 float32
 * is at 1. 2^r has an error of 1e-7, times the small erfc. */
static inline float f32_erf(float x) {
  const float a = __builtin_fabsf(x), z = x * x;
  float q = 0x1.4771fcp-14f;
  q = CPU_FMAF(q, z, -0x1.a3515ep-11f);
  q = CPU_FMAF(q, z, 0x1.53f224p-8f);
  q = CPU_FMAF(q, z, -0x1.b7f71ap-6f);
  q = CPU_FMAF(q, z, 0x1.ce2ce6p-4f);
  q = CPU_FMAF(q, z, -0x1.81273ep-2f);
  q = CPU_FMAF(q, z, 0x1.06eba8p-3f);
  const float below = CPU_FMAF(a, q, a), b = a > 4.0f ? 4.0f : a;
  float p = 0x1.19f2eep-12f;
  p = CPU_FMAF(p, b, -0x1.16b1c0p-8f);
  p = CPU_FMAF(p, b, 0x1.0217b8p-5f);
  p = CPU_FMAF(p, b, -0x1.30a460p-3f);
  p = CPU_FMAF(p, b, -0x1.d75f54p-1f);
  p = CPU_FMAF(p, b, -0x1.a04484p+0f);
  p = CPU_FMAF(p, b, -0x1.0264f4p-11f);
  const float k = p + (ROUNDER_F + BIAS_F), r = p - (k - (ROUNDER_F + BIAS_F));
  float e = 0x1.5cb894p-10f;
  e = CPU_FMAF(e, r, 0x1.3cf3b0p-7f);
  e = CPU_FMAF(e, r, 0x1.c6b596p-5f);
  e = CPU_FMAF(e, r, 0x1.ebf9a4p-3f);
  e = CPU_FMAF(e, r, 0x1.62e42ap-1f);
  const float power = float_of(bits_of_f(k) << 23);
  float v = a < 1.0f ? below : 1.0f - CPU_FMAF(power * e, r, power);
  v = a != a ? a : v;
  return __builtin_copysignf(v, x);
}

/* The normal distribution function, (1 + erf(x / sqrt 2)) / 2, to an absolute error: 2^(polynomial of |x|),
 * a fit of log2 of the lower tail, or 1 - that. The fit is for |x| <= 6; beyond, the tail falls faster than
 * it should, and is 0 from 9.9 on. */
static inline float f32_ncdf(float x) {
  float a = __builtin_fabsf(x);
  a = a > 14.0f ? 14.0f : a;
  float p = -0x1.7d3492p-19f;
  p = CPU_FMAF(p, a, 0x1.4ae79ap-15f);
  p = CPU_FMAF(p, a, -0x1.873104p-13f);
  p = CPU_FMAF(p, a, -0x1.1d431ep-13f);
  p = CPU_FMAF(p, a, 0x1.ced358p-8f);
  p = CPU_FMAF(p, a, -0x1.ae0a88p-5f);
  p = CPU_FMAF(p, a, -0x1.d63ac2p-2f);
  p = CPU_FMAF(p, a, -0x1.26aed4p+0f);
  p = CPU_FMAF(p, a, -1.0f);
  const float c = p < -126.0f ? -126.0f : p;
  const float k = c + (ROUNDER_F + BIAS_F), r = c - (k - (ROUNDER_F + BIAS_F));
  float e = 0x1.17971ap-13f;
  e = CPU_FMAF(e, r, 0x1.5ef4e0p-10f);
  e = CPU_FMAF(e, r, 0x1.3b6818p-7f);
  e = CPU_FMAF(e, r, 0x1.c6af9ep-5f);
  e = CPU_FMAF(e, r, 0x1.ebfb94p-3f);
  e = CPU_FMAF(e, r, 0x1.62e430p-1f);
  const float power = float_of(bits_of_f(k) << 23);
  float tail = CPU_FMAF(power * e, r, power);
  tail = p <= -126.0f ? 0.0f : tail;
  return x < 0 ? tail : 1.0f - tail;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the elementwise expressions, for f32_ (float32, and the halves through it) and f64_. The
 * float32 functions that large tensors meet most (exp, log, tanh, sigmoid, erf, ncdf) are in math_f32.h.
 *
 * Note [float32 by way of double]
 * The other float32 functions are short polynomials evaluated in double and rounded once. They are free of
 * branches, so the compiler turns the loops around them into vectors; they need no care about cancellation,
 * subnormals or overflow, which double holds; and their error is the final rounding plus a few 1e-9. The
 * price is half the lanes. float64 goes to the C library.
 *
 * Largest errors found, in units in the last place, over every 101st of the 2^32 inputs (the scalar set:
 * every 4001st): exp2 0.502, expm1 0.505, log1p, log2, log10 0.501, sin, cos 0.501. Infinities, NaN and
 * signs of zero are the C library's.
 *
 * Coefficients: minimax fits of our own (Chebyshev interpolation in 40 digits).
 */
#ifndef CPU_PER_ISA_MATH_H
#define CPU_PER_ISA_MATH_H

#include <math.h>
#include <string.h>

#include "plugins/backend-cpu/per-isa/math_f32.h"
#include "plugins/backend-cpu/simd/vec.h"

static inline uint64_t bits_of(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static inline double double_of(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* Adding and taking away 1.5 * 2^52 rounds to an integer, which then stands in the low bits of the sum. */
#define ROUNDER 0x1.8p52

/* x clipped to [low, high]; NaN stays NaN. */
static inline double clip(double x, double low, double high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

/* exp(r) - 1 for |r| <= ln(2) / 2, relative error 2.5e-10, and 2^n, of x = n ln(2) + r. |x| < 1000. */
typedef struct exp_parts {
  double fraction, power;
} exp_parts;
static inline exp_parts exp_split(double x) {
  double k = x * 0x1.71547652b82fep+0 + ROUNDER;
  double r = CPU_FMA(k - ROUNDER, -0x1.62e42fefa39efp-1, x);
  double p = 0.0001989934987295068;
  p = CPU_FMA(p, r, 0.0013941176798309987);
  p = CPU_FMA(p, r, 0.0083332983925183896);
  p = CPU_FMA(p, r, 0.041666352075160786);
  p = CPU_FMA(p, r, 0.16666666719203095);
  p = CPU_FMA(p, r, 0.50000000473028906);
  p = CPU_FMA(p, r, 1.0);
  return (exp_parts){p * r, double_of((bits_of(k) << 52) + ((uint64_t)1023 << 52))};
}
static inline double exp_wide(double x) {
  exp_parts e = exp_split(x);
  return CPU_FMA(e.power, e.fraction, e.power);
}
static inline double expm1_wide(double x) {
  exp_parts e = exp_split(x);
  return CPU_FMA(e.power, e.fraction, e.power - 1.0);
}

/* ln(u) for u > 0 that came from float32 (or 1 + float32, then `near` is that float32: exact where u is
 * near 1). */
static inline double log_wide(double u, double near, int use_near) {
  uint64_t t = bits_of(u) - 0x3fe6a09e667f3bcdu;   /* sqrt(1/2) */
  uint64_t k = (t + ((uint64_t)1024 << 52)) >> 52; /* exponent + 1024 */
  double e = double_of(0x4330000000000000u | k) - (0x1p52 + 1024.0);
  double f = double_of(bits_of(u) - (t & 0xfff0000000000000u)) - 1.0;
  f = (use_near & (k == 1024)) ? near : f;
  double p = 0.052358885270049547;
  p = CPU_FMA(p, f, -0.098044200865396975);
  p = CPU_FMA(p, f, 0.10047205125812353);
  p = CPU_FMA(p, f, -0.099459961840608173);
  p = CPU_FMA(p, f, 0.1100603826875712);
  p = CPU_FMA(p, f, -0.12495435325064244);
  p = CPU_FMA(p, f, 0.14290811739546818);
  p = CPU_FMA(p, f, -0.16667024572012354);
  p = CPU_FMA(p, f, 0.19999888139970224);
  p = CPU_FMA(p, f, -0.24999992728449164);
  p = CPU_FMA(p, f, 0.33333334249206627);
  p = CPU_FMA(p, f, -0.50000000035951706);
  p = CPU_FMA(p, f, 0.99999999998746515);
  return CPU_FMA(e, 0x1.62e42fefa39efp-1, p * f);
}
/* The logarithm's values where the formula has none. */
static inline double log_edges(double r, double u) {
  r = u == INFINITY ? INFINITY : r;
  r = u == 0 ? -INFINITY : r;
  return u >= 0 ? r : NAN;
}

static inline float f32_expm1(float x) {
  return (float)__builtin_copysign(expm1_wide(clip(x, -100, 100)), (double)x);
}
static inline float f32_exp2(float x) { return (float)exp_wide(clip(x, -300, 300) * 0x1.62e42fefa39efp-1); }
static inline float f32_log2(float x) {
  return (float)(log_edges(log_wide(x, 0, 0), x) * 0x1.71547652b82fep+0);
}
static inline float f32_log10(float x) {
  return (float)(log_edges(log_wide(x, 0, 0), x) * 0.43429448190325182765);
}
static inline float f32_log1p(float x) {
  double u = 1.0 + (double)x;
  return (float)__builtin_copysign(log_edges(log_wide(u, x, 1), u), (double)x);
}
/* |x| as a quarter turn count and the rest in [-1/2, 1/2] quarter turns, after Payne and Hanek: the
 * mantissa times a table of 2 / pi, taken modulo 4 before it is multiplied. */
#define X(high, low) high,
static const double two_over_pi_high[] = {
#include "plugins/backend-cpu/per-isa/two_over_pi.inc"
    NAN};
#undef X
#define X(high, low) low,
static const double two_over_pi_low[] = {
#include "plugins/backend-cpu/per-isa/two_over_pi.inc"
    NAN};
#undef X
typedef struct turns {
  double rest;
  uint64_t quarter;
} turns;
static inline turns turn_split(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  int32_t e = (int32_t)(u >> 23 & 255);
  int64_t row = e < 118 ? 0 : e - 118; /* 64 bits: what gcc makes a gather of */
  double m = (double)(int32_t)((u & 0x7fffffu) | 0x800000u);
  double a = m * two_over_pi_high[row];
  double k = a + ROUNDER;
  double s = CPU_FMA(m, two_over_pi_low[row], a - (k - ROUNDER));
  s = e < 118 ? __builtin_fabs((double)x) * 0x1.45f306dc9c883p-1 : s;
  double k2 = s + ROUNDER;
  uint64_t first = e < 118 ? 0 : bits_of(k);
  return (turns){s - (k2 - ROUNDER), first + bits_of(k2)};
}
static inline double sin_quarter(double r) { /* r in radians, |r| <= pi / 4 */
  double z = r * r, p = -2.474902747239743e-8;
  p = CPU_FMA(p, z, 2.7555166017433245e-6);
  p = CPU_FMA(p, z, -0.00019841262783837709);
  p = CPU_FMA(p, z, 0.0083333333228733187);
  p = CPU_FMA(p, z, -0.16666666666609957);
  p = CPU_FMA(p, z, 0.99999999999999502);
  return p * r;
}
static inline double cos_quarter(double r) {
  double z = r * r, p = -2.7163655968398071e-7;
  p = CPU_FMA(p, z, 2.4798791351251155e-5);
  p = CPU_FMA(p, z, -0.0013888879725987675);
  p = CPU_FMA(p, z, 0.041666666530870187);
  p = CPU_FMA(p, z, -0.49999999999263789);
  return CPU_FMA(p, z, 0.99999999999993531);
}
static inline float f32_sin(float x) {
  turns t = turn_split(x);
  double r = t.rest * 0x1.921fb54442d18p+0, s = sin_quarter(r), c = cos_quarter(r);
  double v = t.quarter & 1 ? c : s;
  v = double_of(bits_of(v) ^ (t.quarter & 2) << 62);
  return (float)double_of(bits_of(v) ^ (bits_of((double)x) & (uint64_t)1 << 63));
}
static inline float f32_cos(float x) {
  turns t = turn_split(x);
  double r = t.rest * 0x1.921fb54442d18p+0, s = sin_quarter(r), c = cos_quarter(r);
  double v = t.quarter & 1 ? s : c;
  return (float)double_of(bits_of(v) ^ ((t.quarter + 1) & 2) << 62);
}

/* ------------------------------------------------------------------ both widths */

#define CPU_MATH_PLAIN(F, T, s)                                                         \
  static inline T F##_sqrt(T x) { return __builtin_sqrt##s(x); }                        \
  static inline T F##_rsqrt(T x) { return (T)1 / __builtin_sqrt##s(x); }                \
  static inline T F##_abs(T x) { return __builtin_fabs##s(x); }                         \
  static inline T F##_sign(T x) { return (T)((x > 0) - (x < 0)); }                      \
  static inline T F##_floor(T x) { return __builtin_floor##s(x); }                      \
  static inline T F##_ceil(T x) { return __builtin_ceil##s(x); }                        \
  static inline T F##_round(T x) { return __builtin_rint##s(x); }                       \
  static inline T F##_trunc(T x) { return __builtin_trunc##s(x); }                      \
  static inline T F##_min(T a, T b) { return ((a < b) | (a != a)) ? a : b; }            \
  static inline T F##_max(T a, T b) { return ((a > b) | (a != a)) ? a : b; }            \
  static inline T F##_isnan(T x) { return (T)(x != x); }                                \
  static inline T F##_isinf(T x) { return (T)(__builtin_fabs##s(x) == (T)INFINITY); }   \
  static inline T F##_isfinite(T x) { return (T)(__builtin_fabs##s(x) < (T)INFINITY); } \
  static inline T F##_fmod(T a, T b) { return fmod##s(a, b); }                          \
  static inline T F##_pow(T a, T b) { return pow##s(a, b); }                            \
  static inline T F##_atan2(T a, T b) { return atan2##s(a, b); }                        \
  static inline T F##_hypot(T a, T b) { return hypot##s(a, b); }                        \
  static inline T F##_tan(T x) { return tan##s(x); }                                    \
  static inline T F##_asin(T x) { return asin##s(x); }                                  \
  static inline T F##_acos(T x) { return acos##s(x); }                                  \
  static inline T F##_atan(T x) { return atan##s(x); }                                  \
  static inline T F##_sinh(T x) { return sinh##s(x); }                                  \
  static inline T F##_cosh(T x) { return cosh##s(x); }                                  \
  static inline T F##_erfc(T x) { return erfc##s(x); }                                  \
  /* Python's %: the divisor's sign. */                                                 \
  static inline T F##_mod(T a, T b) {                                                   \
    T r = fmod##s(a, b);                                                                \
    return ((r != 0) & ((r < 0) != (b < 0))) ? r + b : r;                               \
  }                                                                                     \
  /* Python's //: the rounded-down quotient that goes with mod. */                      \
  static inline T F##_floordiv(T a, T b) {                                              \
    T r = fmod##s(a, b), q = (a - r) / b;                                               \
    q -= (T)((r != 0) & ((r < 0) != (b < 0)));                                          \
    T f = __builtin_floor##s(q);                                                        \
    f += (T)(q - f > (T)0.5);                                                           \
    return b == 0 ? a / b : q == 0 ? __builtin_copysign##s((T)0, a / b) : f;            \
  }
CPU_MATH_PLAIN(f32, float, f)
CPU_MATH_PLAIN(f64, double, )
#undef CPU_MATH_PLAIN

static inline double f64_exp(double x) { return exp(x); }
static inline double f64_exp2(double x) { return exp2(x); }
static inline double f64_expm1(double x) { return expm1(x); }
static inline double f64_log(double x) { return log(x); }
static inline double f64_log1p(double x) { return log1p(x); }
static inline double f64_log2(double x) { return log2(x); }
static inline double f64_log10(double x) { return log10(x); }
static inline double f64_sin(double x) { return sin(x); }
static inline double f64_cos(double x) { return cos(x); }
static inline double f64_tanh(double x) { return tanh(x); }
static inline double f64_erf(double x) { return erf(x); }
static inline double f64_ncdf(double x) { return 0.5 * erfc(x * -0.70710678118654752440); }
static inline double f64_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * exp and the normal distribution of a vector of float32 where the set can look up 16 or 32 entries at once
 * (AVX-512): fewer steps than the polynomials of math_f32.h, which serve the other sets.
 *
 * Note [Tables in registers]
 * A permutation by the low bits of a number is a table look-up, as cheap as a bound, and a number rounded by ROUNDER_F has
 * its integer in those bits. exp: x = (k + r) ln(2) / 16, |r| <= 1/2; 2^(k/16) is a table's entry with k / 16 added to the
 * exponent, and the rest a polynomial of degree 3. The entries have k mod 16 in units of 2^19 taken away, so that k << 19
 * brings the whole. Results outside 2^+-125 are rare: those vectors go another way. The normal distribution less one
 * half is odd; a polynomial of degree 4 for each of 32 parts of [0, 5.5), the last of which is 1/2. Errors over all 2^32
 * inputs: exp 1.02 units in the last place; the distribution 3e-8 absolute, before its last rounding. Fits of our own, at
 * Chebyshev nodes in 40 digits, coefficients rounded to float32.
 *
 * The names are math_f32.h's with vf for f32, so that the registry's expressions take a vector for a number.
 */
#ifndef CPU_PER_ISA_VECTOR_MATH_H
#define CPU_PER_ISA_VECTOR_MATH_H

#include "plugins/backend-cpu/per-isa/math_f32.h"

#if defined(__AVX512F__)

static const uint32_t exp_entries[16] = {
    0x3f800000u, 0x3f7daac3u, 0x3f7b95c2u, 0x3f79c3d3u, 0x3f7837f0u, 0x3f76f532u, 0x3f75fed7u, 0x3f75583fu,
    0x3f7504f3u, 0x3f7508a4u, 0x3f75672au, 0x3f76248cu, 0x3f7744fdu, 0x3f78ccdfu, 0x3f7ac0c7u, 0x3f7d257du};
/* ln(2) / 16 in two parts, as LN2_HIGH_F and LN2_LOW_F. */
#define LN2_16_HIGH_F 0x1.62e4p-5f
#define LN2_16_LOW_F  0x1.7f7d1cp-24f

/* Any x: bounded, and the power of two multiplied in two steps. */
static __attribute__((noinline, unused)) vf vf_exp_bounded(vf x) {
  float lane[16];
  vf_store(lane, x);
  for (int i = 0; i < 16; ++i) lane[i] = f32_exp(lane[i]);
  return vf_load(lane);
}

/* 2^(k/16) e^r, k as ROUNDER_F left it. */
static inline vf exp_of_parts(vf k, vf r) {
  const vf q = vf_fma(r, vf_set(0x1.55565cp-3f), vf_set(0x1.000148p-1f)), p = vf_fma(r * r, q, r);
  const __m512i bits = (__m512i)k, entries = _mm512_loadu_si512(exp_entries);
  const vf power = (vf)_mm512_add_epi32(_mm512_permutexvar_epi32(bits, entries), _mm512_slli_epi32(bits, 19));
  return vf_fma(power, p, power);
}

static inline vf vf_exp(vf x) {
  const vf rounder = vf_set(ROUNDER_F), k = vf_fma(x, vf_set(16 * LOG2_E_F), rounder), n = k - rounder;
  vf r = vf_fma(n, vf_set(-LN2_16_HIGH_F), x);
  r = vf_fma(n, vf_set(-LN2_16_LOW_F), r);
  const vf result = exp_of_parts(k, r);
  /* Not below: too large, too small, NaN. */
  const __mmask16 rare = _mm512_cmp_ps_mask(_mm512_abs_ps((__m512)x), _mm512_set1_ps(87.0f), _CMP_NLT_UQ);
  return __builtin_expect(rare != 0, 0) ? vf_exp_bounded(x) : result;
}

/* exp where |x| <= EXP_NEAR or x is NaN. ln(2) rounded to float32 is right to 2.8e-9 of itself, so one multiply-add, which
 * rounds once, reduces x as far as that. Measured, units in the last place: 1.05 to |x| = 2, 1.21 to 8, 2.1 to 32, 3.6 to
 * 64. */
#define EXP_NEAR 64.0f
static inline vf vf_exp_near(vf x) {
  const vf rounder = vf_set(ROUNDER_F), k = vf_fma(x, vf_set(16 * LOG2_E_F), rounder), n = k - rounder;
  return exp_of_parts(k, vf_fma(n, vf_set(-0x1.62e43p-5f), x));
}

/* Coefficients by power of r, a = (k + r) / 5.625. */
static const float ncdf_entries[5][32] = {
    {
    0, 0x1.20fa58p-4f, 0x1.1c7e92p-3f, 0x1.9ff224p-3f, 0x1.0bc4a4p-2f, 0x1.407ad8p-2f, 0x1.6d815ep-2f,
    0x1.92c59ep-2f, 0x1.b0a8dap-2f, 0x1.c7e2b2p-2f, 0x1.d95fe2p-2f, 0x1.e6229p-2f, 0x1.ef2812p-2f,
    0x1.f55634p-2f, 0x1.f97068p-2f, 0x1.fc13e4p-2f, 0x1.fdb8ep-2f, 0x1.feb71cp-2f, 0x1.ff4bdep-2f,
    0x1.ffa038p-2f, 0x1.ffce9p-2f, 0x1.ffe73cp-2f, 0x1.fff3f6p-2f, 0x1.fffa52p-2f, 0x1.fffd66p-2f,
    0x1.fffed8p-2f, 0x1.ffff8p-2f, 0x1.ffffcap-2f, 0x1.ffffeap-2f, 0x1.fffff8p-2f, 0x1.fffffcp-2f, 0x1p-1f},
    {
    0x1.22803ap-4f, 0x1.1df23cp-4f, 0x1.10b4e2p-4f, 0x1.f7fa36p-5f, 0x1.c3339ep-5f, 0x1.87629ep-5f,
    0x1.48efccp-5f, 0x1.0bda0ap-5f, 0x1.a6a656p-6f, 0x1.4314a6p-6f, 0x1.de91e6p-7f, 0x1.576b2ep-7f,
    0x1.dd8954p-8f, 0x1.41afcep-8f, 0x1.a3ead8p-9f, 0x1.098b96p-9f, 0x1.456656p-10f, 0x1.825714p-11f,
    0x1.bc6c44p-12f, 0x1.ef5524p-13f, 0x1.0b72fcp-13f, 0x1.17d3aep-14f, 0x1.1bab3p-15f, 0x1.169dep-16f,
    0x1.09240ep-17f, 0x1.e8eef8p-19f, 0x1.b4c8aap-20f, 0x1.7a0e86p-21f, 0x1.3d0b86p-22f, 0x1.019b8p-23f,
    0x1.9599eap-25f, 0},
    {
    0x1.da381ep-25f, -0x1.2131a4p-10f, -0x1.13cdccp-9f, -0x1.7e46aap-9f, -0x1.c8538p-9f, -0x1.eec9b6p-9f,
    -0x1.f30244p-9f, -0x1.da106ap-9f, -0x1.ab732cp-9f, -0x1.6f97fep-9f, -0x1.2e80d6p-9f, -0x1.dd9052p-10f,
    -0x1.6a386p-10f, -0x1.0856d8p-10f, -0x1.7399f4p-11f, -0x1.f78db4p-12f, -0x1.4918c2p-12f, -0x1.9f2696p-13f,
    -0x1.f9a868p-14f, -0x1.29726p-14f, -0x1.521ccap-15f, -0x1.737322p-16f, -0x1.8a7b5ap-17f, -0x1.9511dcp-18f,
    -0x1.923d58p-19f, -0x1.8254acp-20f, -0x1.66ee9ap-21f, -0x1.429faap-22f, -0x1.1894b4p-23f, -0x1.d83f54p-25f,
    -0x1.80995cp-26f, 0},
    {
    -0x1.88501ep-12f, -0x1.74dee8p-12f, -0x1.40d6f8p-12f, -0x1.e5d50ap-13f, -0x1.2cb20ap-13f, -0x1.bc3b2ep-15f,
    0x1.e47974p-16f, 0x1.8af144p-14f, 0x1.22bb06p-13f, 0x1.533218p-13f, 0x1.5c1664p-13f, 0x1.46a958p-13f,
    0x1.1db29ep-13f, 0x1.d6c3c8p-14f, 0x1.6fd2fcp-14f, 0x1.11c696p-14f, 0x1.85780ep-15f, 0x1.095a42p-15f,
    0x1.5af414p-16f, 0x1.b3e50cp-17f, 0x1.07639p-17f, 0x1.327394p-18f, 0x1.57868p-19f, 0x1.733cap-20f,
    0x1.82f43p-21f, 0x1.8532dcp-22f, 0x1.79e036p-23f, 0x1.6244b6p-24f, 0x1.40ce8p-25f, 0x1.18aa6p-26f,
    0x1.da903ep-28f, 0},
    {
    0x1.dab19ep-20f, 0x1.20ed3ap-17f, 0x1.0ac304p-16f, 0x1.5d713ep-16f, 0x1.7f338ep-16f, 0x1.70307ep-16f,
    0x1.39004ep-16f, 0x1.cfb32p-17f, 0x1.19c386p-17f, 0x1.b58704p-19f, -0x1.0252c4p-20f, -0x1.0878d6p-18f,
    -0x1.7a0776p-18f, -0x1.a0b16p-18f, -0x1.8fd7aap-18f, -0x1.5cca7ep-18f, -0x1.1a64ecp-18f, -0x1.ad64dap-19f,
    -0x1.34ca4ep-19f, -0x1.a6239ap-20f, -0x1.133686p-20f, -0x1.5722f6p-21f, -0x1.99e216p-22f, -0x1.d5ca98p-23f,
    -0x1.02a408p-23f, -0x1.11db44p-24f, -0x1.1710d4p-25f, -0x1.11de86p-26f, -0x1.02fd94p-27f, -0x1.d84058p-29f,
    -0x1.9f469p-30f, 0}};

static inline vf ncdf_power(int power, __m512i k) {
  return (vf)_mm512_permutex2var_ps(_mm512_loadu_ps(ncdf_entries[power]), k,
                                    _mm512_loadu_ps(ncdf_entries[power] + 16));
}

static inline vf vf_ncdf(vf x) {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN), bits = (__m512i)x;
  const vf rounder = vf_set(ROUNDER_F), scale = vf_set(5.625f);
  /* Bounded as an integer, which is cheaper; NaN comes back through the product with x. */
  const vf most = vf_set(31 / 5.625f);
  const vf a = (vf)_mm512_min_epu32(_mm512_andnot_si512(sign, bits), (__m512i)most);
  const vf k = vf_fma(a, scale, rounder), r = (vf)_mm512_fmsub_ps((__m512)a, (__m512)scale, (__m512)(k - rounder));
  vf q = ncdf_power(4, (__m512i)k);
  for (int power = 3; power >= 0; --power) q = vf_fma(q, r, ncdf_power(power, (__m512i)k));
  /* q has no sign yet: x's. */
  return (vf)_mm512_ternarylogic_epi32((__m512i)q, bits, sign, 0xf8) + 0.5f;
}

#endif
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of the instruction set that this file is compiled for: vf (float32) and vd (float64), loads,
 * stores, broadcast and multiply-add. Only code that the compiler cannot vectorise by itself uses them
 * (gemm, optimiser steps, horizontal sums); the elementwise loops are plain C. The #if of the backend live
 * here and in isa.c.
 *
 * CPU_FMAF(a, b, c) and CPU_FMA(a, b, c) are a scalar multiply-add for plain loops: fused where the set
 * has it, two roundings where it has not. Within one set the same everywhere, so tails equal bodies.
 */
#ifndef CPU_SIMD_VEC_H
#define CPU_SIMD_VEC_H

#include <stdint.h>

#if defined(__AVX512F__)
#include <immintrin.h>
enum { VEC_BYTES = 64 };
#elif defined(__AVX2__)
#include <immintrin.h>
enum { VEC_BYTES = 32 };
#else
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif
enum { VEC_BYTES = 16 };
#endif

typedef float vf __attribute__((vector_size(VEC_BYTES), may_alias));
typedef double vd __attribute__((vector_size(VEC_BYTES), may_alias));
typedef float vf_unaligned __attribute__((vector_size(VEC_BYTES), may_alias, aligned(4)));
typedef double vd_unaligned __attribute__((vector_size(VEC_BYTES), may_alias, aligned(8)));

static inline vf vf_load(const float *p) { return *(const vf_unaligned *)p; }
static inline vd vd_load(const double *p) { return *(const vd_unaligned *)p; }
static inline void vf_store(float *p, vf v) { *(vf_unaligned *)p = v; }
static inline void vd_store(double *p, vd v) { *(vd_unaligned *)p = v; }

#if defined(__AVX512F__)
static inline vf vf_set(float x) { return (vf)_mm512_set1_ps(x); }
static inline vd vd_set(double x) { return (vd)_mm512_set1_pd(x); }
static inline vf vf_fma(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
static inline vd vd_fma(vd a, vd b, vd c) { return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c); }
#elif defined(__AVX2__)
static inline vf vf_set(float x) { return (vf)_mm256_set1_ps(x); }
static inline vd vd_set(double x) { return (vd)_mm256_set1_pd(x); }
static inline vf vf_fma(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
static inline vd vd_fma(vd a, vd b, vd c) { return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }
#else
static inline vf vf_set(float x) { return (vf){x, x, x, x}; }
static inline vd vd_set(double x) { return (vd){x, x}; }
static inline vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
static inline vd vd_fma(vd a, vd b, vd c) { return a * b + c; }
#endif

/* The first n lanes of a vector, 0 < n <= all: of a load (0 in the others) and of a store, neither of which touches what
 * lies beyond. */
#if defined(__AVX512F__)
typedef __mmask16 vf_part;
typedef __mmask8 vd_part;
static inline vf_part vf_first(int64_t n) { return (vf_part)(0xffffu >> (16 - n)); }
static inline vd_part vd_first(int64_t n) { return (vd_part)(0xffu >> (8 - n)); }
static inline vf vf_load_part(const float *p, vf_part m) { return (vf)_mm512_maskz_loadu_ps(m, p); }
static inline vd vd_load_part(const double *p, vd_part m) { return (vd)_mm512_maskz_loadu_pd(m, p); }
static inline void vf_store_part(float *p, vf v, vf_part m) { _mm512_mask_storeu_ps(p, m, (__m512)v); }
static inline void vd_store_part(double *p, vd v, vd_part m) { _mm512_mask_storeu_pd(p, m, (__m512d)v); }
#elif defined(__AVX2__)
typedef __m256i vf_part;
typedef __m256i vd_part;
static inline vf_part vf_first(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vd_part vd_first(int64_t n) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
static inline vf vf_load_part(const float *p, vf_part m) { return (vf)_mm256_maskload_ps(p, m); }
static inline vd vd_load_part(const double *p, vd_part m) { return (vd)_mm256_maskload_pd(p, m); }
static inline void vf_store_part(float *p, vf v, vf_part m) { _mm256_maskstore_ps(p, m, (__m256)v); }
static inline void vd_store_part(double *p, vd v, vd_part m) { _mm256_maskstore_pd(p, m, (__m256d)v); }
#else
typedef int64_t vf_part;
typedef int64_t vd_part;
static inline vf_part vf_first(int64_t n) { return n; }
static inline vd_part vd_first(int64_t n) { return n; }
static inline vf vf_load_part(const float *p, vf_part n) {
  return (vf){p[0], n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, n > 3 ? p[3] : 0};
}
static inline vd vd_load_part(const double *p, vd_part n) { return (vd){p[0], n > 1 ? p[1] : 0}; }
static inline void vf_store_part(float *p, vf v, vf_part n) {
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}
static inline void vd_store_part(double *p, vd v, vd_part n) {
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}
#endif

/* For transposes. A lane is 16 bytes, P elements: vf_load_lanes(row, q) holds in lane l the elements q .. q + P - 1 of
 * row[l * P]. VF_TURN transposes the squares of P x P that P vectors have in each lane. */
#if defined(__AVX512F__)
static inline vf vf_load_lanes(const float *const *row, int64_t q) {
  __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(row[0] + q));
  v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(row[4] + q));
  v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(row[8] + q));
  return (vf)_mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(row[12] + q));
}
static inline vd vd_load_lanes(const double *const *row, int64_t q) {
  __m512d v = _mm512_castpd128_pd512(_mm_loadu_pd(row[0] + q));
  v = _mm512_mask_broadcast_f64x2(v, 0x0c, _mm_loadu_pd(row[2] + q));
  v = _mm512_mask_broadcast_f64x2(v, 0x30, _mm_loadu_pd(row[4] + q));
  return (vd)_mm512_mask_broadcast_f64x2(v, 0xc0, _mm_loadu_pd(row[6] + q));
}
#define VF_LANE_LO(a, b) \
  __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define VF_LANE_HI(a, b) \
  __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define VD_LANE_LO(a, b) __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define VD_LANE_HI(a, b) __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#elif defined(__AVX2__)
static inline vf vf_load_lanes(const float *const *row, int64_t q) {
  return (vf)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row[0] + q)), _mm_loadu_ps(row[4] + q),
                                  1);
}
static inline vd vd_load_lanes(const double *const *row, int64_t q) {
  return (vd)_mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(row[0] + q)), _mm_loadu_pd(row[2] + q),
                                  1);
}
#define VF_LANE_LO(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define VF_LANE_HI(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define VD_LANE_LO(a, b) __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define VD_LANE_HI(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#else
static inline vf vf_load_lanes(const float *const *row, int64_t q) { return vf_load(row[0] + q); }
static inline vd vd_load_lanes(const double *const *row, int64_t q) { return vd_load(row[0] + q); }
#define VF_LANE_LO(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define VF_LANE_HI(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define VD_LANE_LO(a, b) __builtin_shufflevector(a, b, 0, 2)
#define VD_LANE_HI(a, b) __builtin_shufflevector(a, b, 1, 3)
#endif
#define VF_TURN(v)                                                           \
  {                                                                          \
    const vf ac_lo = VF_LANE_LO(v[0], v[2]), ac_hi = VF_LANE_HI(v[0], v[2]); \
    const vf bd_lo = VF_LANE_LO(v[1], v[3]), bd_hi = VF_LANE_HI(v[1], v[3]); \
    v[0] = VF_LANE_LO(ac_lo, bd_lo), v[1] = VF_LANE_HI(ac_lo, bd_lo);        \
    v[2] = VF_LANE_LO(ac_hi, bd_hi), v[3] = VF_LANE_HI(ac_hi, bd_hi);        \
  }
#define VD_TURN(v)                                                     \
  {                                                                    \
    const vd lo = VD_LANE_LO(v[0], v[1]), hi = VD_LANE_HI(v[0], v[1]); \
    v[0] = lo, v[1] = hi;                                              \
  }

#if defined(__FMA__)
#define CPU_FMAF(a, b, c) __builtin_fmaf((a), (b), (c))
#define CPU_FMA(a, b, c)  __builtin_fma((a), (b), (c))
#else
#define CPU_FMAF(a, b, c) ((float)(a) * (float)(b) + (float)(c))
#define CPU_FMA(a, b, c)  ((double)(a) * (double)(b) + (double)(c))
#endif

/* Stores a vector past the caches; p is aligned to VEC_BYTES. Where the processor has no such store, an
 * ordinary one. Until cpu_stream_end (cpu.h) other threads need not see it. */
static inline void vec_stream(void *p, vf v) {
#if defined(__AVX512F__)
  _mm512_stream_ps((float *)p, (__m512)v);
#elif defined(__AVX2__)
  _mm256_stream_ps((float *)p, (__m256)v);
#elif defined(__SSE2__)
  _mm_stream_ps((float *)p, (__m128)v);
#else
  *(vf *)p = v;
#endif
}

/* size_bytes, a multiple of VEC_BYTES, from aligned memory to aligned memory. */
static inline __attribute__((always_inline)) void vec_stream_group(void *p, const void *from,
                                                                   int size_bytes) {
  for (int i = 0; i < size_bytes; i += VEC_BYTES)
    vec_stream((char *)p + i, *(const vf *)(const void *)((const char *)from + i));
}

/* The iterations of the loop that follows do not depend on each other: an output may be exactly an input
 * (in-place) but never partly. Without it the compilers take their scalar path when pointers are equal. */
#if defined(__clang__)
#define CPU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define CPU_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Contiguous casts between every pair of dtypes, as C casts them with what C leaves open filled in: a
 * float outside an integer's range, or NaN, gives the value that the processor's int64 conversion gives,
 * cut to size, so that bodies and tails of a vector loop agree. To bool: not zero (NaN is true).
 *
 * float16 uses F16C where the set has it; the kit's conversion gives the same bits.
 */
#include <string.h>
#include <tenon/kit/dtype.h>

#include "plugins/backend-cpu/per-isa/per_isa.h"

/* Not UB where the value does not fit: checked first, as ((int64)x) cut to the target. */
static inline int64_t float_to_int(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }

/* One loop: READ gives the value of a source element, STORE what is stored. Not inlined: pairs that go through float32
 * would each have a copy. */
#define NOT_INLINED __attribute__((noinline))
#define CAST(dst_name, D, src_name, S, READ, STORE)                                             \
  static NOT_INLINED void cast_##dst_name##_##src_name(void *dst, const void *src, int64_t n) { \
    D *d = dst;                                                                                 \
    const S *s = src;                                                                           \
    CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) {                                           \
      const __typeof__(READ(s[i])) x = READ(s[i]);                                              \
      d[i] = STORE(x);                                                                          \
    }                                                                                           \
  }

#define READ_PLAIN(x)  (x)
#define READ_BOOL(x)   ((uint8_t)((x) != 0))
#define READ_F16(x)    tn_float16_to_float(x)
#define READ_BF16(x)   tn_bfloat16_to_float(x)
#define STORE_BOOL(x)  ((uint8_t)((x) != 0))
#define STORE_F32(x)   ((float)(x))
#define STORE_F64(x)   ((double)(x))
#define STORE_F16(x)   tn_float16_from_float((float)(x))
#define STORE_BF16(x)  tn_bfloat16_from_float((float)(x))
#define STORE_U8(x)    ((uint8_t)(x))
#define STORE_I8(x)    ((int8_t)(x))
#define STORE_I16(x)   ((int16_t)(x))
#define STORE_I32(x)   ((int32_t)(x))
#define STORE_I64(x)   ((int64_t)(x))
#define STORE_U8_F(x)  ((uint8_t)float_to_int(x))
#define STORE_I8_F(x)  ((int8_t)float_to_int(x))
#define STORE_I16_F(x) ((int16_t)float_to_int(x))
#define STORE_I32_F(x) ((int32_t)float_to_int(x))
#define STORE_I64_F(x) float_to_int(x)

#define FROM_INT(src_name, S, READ)                \
  CAST(b8, uint8_t, src_name, S, READ, STORE_BOOL) \
  CAST(u8, uint8_t, src_name, S, READ, STORE_U8)   \
  CAST(i8, int8_t, src_name, S, READ, STORE_I8)    \
  CAST(i16, int16_t, src_name, S, READ, STORE_I16) \
  CAST(i32, int32_t, src_name, S, READ, STORE_I32) \
  CAST(i64, int64_t, src_name, S, READ, STORE_I64) \
  CAST(f32, float, src_name, S, READ, STORE_F32)   \
  CAST(f64, double, src_name, S, READ, STORE_F64)
#define FROM_FLOAT(src_name, S)                            \
  CAST(b8, uint8_t, src_name, S, READ_PLAIN, STORE_BOOL)   \
  CAST(u8, uint8_t, src_name, S, READ_PLAIN, STORE_U8_F)   \
  CAST(i8, int8_t, src_name, S, READ_PLAIN, STORE_I8_F)    \
  CAST(i16, int16_t, src_name, S, READ_PLAIN, STORE_I16_F) \
  CAST(i32, int32_t, src_name, S, READ_PLAIN, STORE_I32_F) \
  CAST(i64, int64_t, src_name, S, READ_PLAIN, STORE_I64_F) \
  CAST(f32, float, src_name, S, READ_PLAIN, STORE_F32)     \
  CAST(f64, double, src_name, S, READ_PLAIN, STORE_F64)

FROM_INT(b8, uint8_t, READ_BOOL)
FROM_INT(u8, uint8_t, READ_PLAIN)
FROM_INT(i8, int8_t, READ_PLAIN)
FROM_INT(i16, int16_t, READ_PLAIN)
FROM_INT(i32, int32_t, READ_PLAIN)
FROM_INT(i64, int64_t, READ_PLAIN)
FROM_FLOAT(f32, float)
FROM_FLOAT(f64, double)
CAST(f32, float, bf16, tn_bfloat16, READ_BF16, STORE_F32)

#if defined(__F16C__)
/* What is left over takes the same instruction on one element. */
enum { HALF_RUN = 8 };
static NOT_INLINED void cast_f32_f16(void *dst, const void *src, int64_t n) {
  float *d = dst;
  const uint16_t *s = src;
  int64_t i = 0;
  for (; i + HALF_RUN <= n; i += HALF_RUN)
    _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(s + i))));
  for (; i < n; ++i) d[i] = _cvtsh_ss(s[i]);
}
static NOT_INLINED void cast_f16_f32(void *dst, const void *src, int64_t n) {
  uint16_t *d = dst;
  const float *s = src;
  int64_t i = 0;
  for (; i + HALF_RUN <= n; i += HALF_RUN)
    _mm_storeu_si128((__m128i *)(d + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) d[i] = _cvtss_sh(s[i], _MM_FROUND_TO_NEAREST_INT);
}
#else
CAST(f32, float, f16, tn_float16, READ_F16, STORE_F32)
CAST(f16, tn_float16, f32, float, READ_PLAIN, STORE_F16)
#endif

#if defined(__AVX512F__)
/* tn_bfloat16_from_float of each lane, in its upper half. Four steps where the compiler makes ten of the plain loop,
 * which then is slower than memory. */
static inline __m512i bf16_upper(__m512i bits) {
  const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __mmask16 nan = _mm512_cmp_ps_mask((__m512)bits, (__m512)bits, _CMP_UNORD_Q);
  const __m512i half = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_mask_add_epi32(half, odd, half, _mm512_set1_epi32(1));
  return _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
}
enum { BF16_RUN = 32 };
static inline vf bf16_run(const float *s) {
  uint16_t odd[BF16_RUN];
  for (int i = 0; i < BF16_RUN; ++i) odd[i] = (uint16_t)(2 * i + 1);
  const __m512i low = bf16_upper(_mm512_loadu_si512(s)),
                high = bf16_upper(_mm512_loadu_si512(s + BF16_RUN / 2));
  return (vf)_mm512_permutex2var_epi16(low, _mm512_loadu_si512(odd), high);
}
static void cast_bf16_f32(void *dst, const void *src, int64_t n) {
  tn_bfloat16 *d = dst;
  const float *s = src;
  int64_t i = 0;
  for (; i + BF16_RUN <= n; i += BF16_RUN) _mm512_storeu_si512(d + i, (__m512i)bf16_run(s + i));
  if (i == n) return;
  float rest[BF16_RUN] = {0};
  memcpy(rest, s + i, (size_t)(n - i) * sizeof *s);
  const vf tail = bf16_run(rest);
  memcpy(d + i, &tail, (size_t)(n - i) * sizeof *d);
}
#else
CAST(bf16, tn_bfloat16, f32, float, READ_PLAIN, STORE_BF16)
#endif

/* Every other pair with a half goes through float32, block by block: the value that one step would give, since no half
 * is read or stored but as a float32, in a tenth of the code. */
enum { HALF_BLOCK = 512 };
#define CAST_BY_F32(dst_name, D, src_name, S)                                       \
  static void cast_##dst_name##_##src_name(void *dst, const void *src, int64_t n) { \
    float block[HALF_BLOCK];                                                        \
    for (int64_t i = 0; i < n; i += HALF_BLOCK) {                                   \
      const int64_t part = n - i < HALF_BLOCK ? n - i : HALF_BLOCK;                 \
      cast_f32_##src_name(block, (const S *)src + i, part);                         \
      cast_##dst_name##_f32((D *)dst + i, block, part);                             \
    }                                                                               \
  }
#define WITH_HALF(half, H)                 \
  CAST_BY_F32(b8, uint8_t, half, H)        \
  CAST_BY_F32(u8, uint8_t, half, H)        \
  CAST_BY_F32(i8, int8_t, half, H)         \
  CAST_BY_F32(i16, int16_t, half, H)       \
  CAST_BY_F32(i32, int32_t, half, H)       \
  CAST_BY_F32(i64, int64_t, half, H)       \
  CAST_BY_F32(f64, double, half, H)        \
  CAST_BY_F32(f16, tn_float16, half, H)    \
  CAST_BY_F32(bf16, tn_bfloat16, half, H)  \
  CAST_BY_F32(half, H, b8, uint8_t)        \
  CAST_BY_F32(half, H, u8, uint8_t)        \
  CAST_BY_F32(half, H, i8, int8_t)         \
  CAST_BY_F32(half, H, i16, int16_t)       \
  CAST_BY_F32(half, H, i32, int32_t)       \
  CAST_BY_F32(half, H, i64, int64_t)       \
  CAST_BY_F32(half, H, f64, double)
WITH_HALF(f16, tn_float16)
WITH_HALF(bf16, tn_bfloat16)

/* Past the caches, between the types that large tensors are cast between. */
#define CAST_STREAM(dst_name, D, src_name, S, READ, STORE)                          \
  static void stream_##dst_name##_##src_name(void *dst, const void *src, int64_t n) { \
    D *d = dst;                                                                     \
    const S *s = src;                                                               \
    for (int64_t g = 0; g < n; g += CPU_STREAM_GROUP) {                             \
      D group[CPU_STREAM_GROUP] __attribute__((aligned(CPU_LINE)));                 \
      CPU_INDEPENDENT for (int64_t j = 0; j < CPU_STREAM_GROUP; ++j) {              \
        const __typeof__(READ(s[g + j])) x = READ(s[g + j]);                        \
        group[j] = STORE(x);                                                        \
      }                                                                             \
      vec_stream_group(d + g, group, sizeof group);                                 \
    }                                                                               \
  }
#if defined(__AVX512F__)
/* Asks for elements that far ahead: a loop this short else waits for each (16M elements: 36 GB/s, with asking 40). */
enum { BF16_AHEAD = 2048 };
static void stream_bf16_f32(void *dst, const void *src, int64_t n) {
  const float *s = src;
  for (int64_t i = 0; i < n; i += BF16_RUN) {
    __builtin_prefetch(s + i + BF16_AHEAD);
    __builtin_prefetch(s + i + BF16_AHEAD + BF16_RUN / 2);
    vec_stream((tn_bfloat16 *)dst + i, bf16_run(s + i));
  }
}
#else
CAST_STREAM(bf16, tn_bfloat16, f32, float, READ_PLAIN, STORE_BF16)
#endif
CAST_STREAM(f32, float, bf16, tn_bfloat16, READ_BF16, STORE_F32)
CAST_STREAM(f64, double, f32, float, READ_PLAIN, STORE_F64)
CAST_STREAM(f32, float, f64, double, READ_PLAIN, STORE_F32)

cpu_cast_fn CPU_FN(cpu_cast_stream)(tn_dtype dst, tn_dtype src) {
  if (dst == TN_BFLOAT16 && src == TN_FLOAT32) return stream_bf16_f32;
  if (dst == TN_FLOAT32 && src == TN_BFLOAT16) return stream_f32_bf16;
  if (dst == TN_FLOAT64 && src == TN_FLOAT32) return stream_f64_f32;
  if (dst == TN_FLOAT32 && src == TN_FLOAT64) return stream_f32_f64;
  return NULL;
}

#define ROW(code, src_name)                                                           \
  [code] = {[TN_BOOL] = cast_b8_##src_name,     [TN_UINT8] = cast_u8_##src_name,      \
            [TN_INT8] = cast_i8_##src_name,     [TN_INT16] = cast_i16_##src_name,     \
            [TN_INT32] = cast_i32_##src_name,   [TN_INT64] = cast_i64_##src_name,     \
            [TN_FLOAT16] = cast_f16_##src_name, [TN_BFLOAT16] = cast_bf16_##src_name, \
            [TN_FLOAT32] = cast_f32_##src_name, [TN_FLOAT64] = cast_f64_##src_name}
static const cpu_cast_fn casts[CPU_DTYPES][CPU_DTYPES] = {/* by source, then target */
                                                          ROW(TN_BOOL, b8),     ROW(TN_UINT8, u8),
                                                          ROW(TN_INT8, i8),     ROW(TN_INT16, i16),
                                                          ROW(TN_INT32, i32),   ROW(TN_INT64, i64),
                                                          ROW(TN_FLOAT16, f16), ROW(TN_BFLOAT16, bf16),
                                                          ROW(TN_FLOAT32, f32), ROW(TN_FLOAT64, f64)};

cpu_cast_fn CPU_FN(cpu_cast)(tn_dtype dst, tn_dtype src) { return casts[src][dst]; }

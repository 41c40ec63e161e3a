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

/* One loop: V is what the source element is read as, E the value stored. */
#define CAST(dst_name, D, src_name, S, READ, STORE)                                 \
  static void cast_##dst_name##_##src_name(void *dst, const void *src, int64_t n) { \
    D *d = dst;                                                                     \
    const S *s = src;                                                               \
    CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) {                               \
      const __typeof__(READ(s[i])) x = READ(s[i]);                                  \
      d[i] = STORE(x);                                                              \
    }                                                                               \
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

#define FROM_INT(src_name, S, READ)                      \
  CAST(b8, uint8_t, src_name, S, READ, STORE_BOOL)       \
  CAST(u8, uint8_t, src_name, S, READ, STORE_U8)         \
  CAST(i8, int8_t, src_name, S, READ, STORE_I8)          \
  CAST(i16, int16_t, src_name, S, READ, STORE_I16)       \
  CAST(i32, int32_t, src_name, S, READ, STORE_I32)       \
  CAST(i64, int64_t, src_name, S, READ, STORE_I64)       \
  CAST(f16, tn_float16, src_name, S, READ, STORE_F16)    \
  CAST(bf16, tn_bfloat16, src_name, S, READ, STORE_BF16) \
  CAST(f32, float, src_name, S, READ, STORE_F32)         \
  CAST(f64, double, src_name, S, READ, STORE_F64)
#define FROM_FLOAT(src_name, S, READ)                    \
  CAST(b8, uint8_t, src_name, S, READ, STORE_BOOL)       \
  CAST(u8, uint8_t, src_name, S, READ, STORE_U8_F)       \
  CAST(i8, int8_t, src_name, S, READ, STORE_I8_F)        \
  CAST(i16, int16_t, src_name, S, READ, STORE_I16_F)     \
  CAST(i32, int32_t, src_name, S, READ, STORE_I32_F)     \
  CAST(i64, int64_t, src_name, S, READ, STORE_I64_F)     \
  CAST(bf16, tn_bfloat16, src_name, S, READ, STORE_BF16) \
  CAST(f64, double, src_name, S, READ, STORE_F64)

FROM_INT(b8, uint8_t, READ_BOOL)
FROM_INT(u8, uint8_t, READ_PLAIN)
FROM_INT(i8, int8_t, READ_PLAIN)
FROM_INT(i16, int16_t, READ_PLAIN)
FROM_INT(i32, int32_t, READ_PLAIN)
FROM_INT(i64, int64_t, READ_PLAIN)
FROM_FLOAT(f16, tn_float16, READ_F16)
FROM_FLOAT(bf16, tn_bfloat16, READ_BF16)
FROM_FLOAT(f32, float, READ_PLAIN)
FROM_FLOAT(f64, double, READ_PLAIN)
CAST(f16, tn_float16, f16, tn_float16, READ_F16, STORE_F16)
CAST(f16, tn_float16, bf16, tn_bfloat16, READ_BF16, STORE_F16)
CAST(f16, tn_float16, f64, double, READ_PLAIN, STORE_F16)
CAST(f32, float, bf16, tn_bfloat16, READ_BF16, STORE_F32)
CAST(f32, float, f32, float, READ_PLAIN, STORE_F32)
CAST(f32, float, f64, double, READ_PLAIN, STORE_F32)

#if defined(__F16C__)
enum { HALF_RUN = 8 };
static inline void half_run_to_float(float *d, const uint16_t *s) {
  _mm256_storeu_ps(d, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)s)));
}
static inline void half_run_from_float(uint16_t *d, const float *s) {
  _mm_storeu_si128((__m128i *)d, _mm256_cvtps_ph(_mm256_loadu_ps(s), _MM_FROUND_TO_NEAREST_INT));
}
/* Tails go through a padded block: the same instructions for every element. */
static void cast_f32_f16(void *dst, const void *src, int64_t n) {
  float *d = dst, tail[HALF_RUN];
  const uint16_t *s = src;
  int64_t i = 0;
  for (; i + HALF_RUN <= n; i += HALF_RUN) half_run_to_float(d + i, s + i);
  if (i == n) return;
  uint16_t rest[HALF_RUN] = {0};
  memcpy(rest, s + i, (size_t)(n - i) * sizeof *s);
  half_run_to_float(tail, rest);
  memcpy(d + i, tail, (size_t)(n - i) * sizeof *d);
}
static void cast_f16_f32(void *dst, const void *src, int64_t n) {
  uint16_t *d = dst, tail[HALF_RUN];
  const float *s = src;
  int64_t i = 0;
  for (; i + HALF_RUN <= n; i += HALF_RUN) half_run_from_float(d + i, s + i);
  if (i == n) return;
  float rest[HALF_RUN] = {0};
  memcpy(rest, s + i, (size_t)(n - i) * sizeof *s);
  half_run_from_float(tail, rest);
  memcpy(d + i, tail, (size_t)(n - i) * sizeof *d);
}
#else
CAST(f32, float, f16, tn_float16, READ_F16, STORE_F32)
CAST(f16, tn_float16, f32, float, READ_PLAIN, STORE_F16)
#endif

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
CAST_STREAM(bf16, tn_bfloat16, f32, float, READ_PLAIN, STORE_BF16)
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

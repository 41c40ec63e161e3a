/* SPDX-License-Identifier: Apache-2.0
 *
 * Dtypes as numbers and as C types: sizes, names, categories, the half formats, and the X lists that loops
 * are instantiated from. The two halves are structs, so that nobody adds their bits by mistake; arithmetic on
 * them goes through the accumulator type (float), which for every other dtype is the type itself.
 *
 * Not here: what two dtypes have in common (promote.h).
 */
#ifndef TENON_KIT_DTYPE_H
#define TENON_KIT_DTYPE_H

#include <string.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ what a code means */

/* Order matters: a value may be cast to its own category or a higher one. */
enum {
  TN_CATEGORY_BOOL = 0,
  TN_CATEGORY_INT = 1,
  TN_CATEGORY_FLOAT = 2,
  TN_CATEGORY_COMPLEX = 3,
  TN_CATEGORY_NONE = 255 /* not a dtype */
};

typedef struct tn_kit_dtype_row {
  const char *name;
  uint8_t size;     /* bytes */
  uint8_t category; /* TN_CATEGORY_... */
} tn_kit_dtype_row;

/* By code; unknown codes have name "?", size 0, category NONE. */
extern const tn_kit_dtype_row tn_kit_dtypes[TN_DTYPE_LIMIT];

static inline const tn_kit_dtype_row *tn_kit_dtype_get(tn_dtype dtype) {
  return &tn_kit_dtypes[dtype < TN_DTYPE_LIMIT ? dtype : (tn_dtype)TN_DTYPE_NONE];
}
/* Bytes of one element, 0 if unknown. */
static inline size_t tn_kit_dtype_size(tn_dtype dtype) { return tn_kit_dtype_get(dtype)->size; }
/* "float32"; "?" if unknown; static. */
static inline const char *tn_kit_dtype_name(tn_dtype dtype) { return tn_kit_dtype_get(dtype)->name; }
static inline uint8_t tn_kit_dtype_category(tn_dtype dtype) { return tn_kit_dtype_get(dtype)->category; }
static inline bool tn_kit_dtype_is_bool(tn_dtype dtype) { return dtype == TN_BOOL; }
/* bool does not count as an integer here. */
static inline bool tn_kit_dtype_is_int(tn_dtype dtype) {
  return tn_kit_dtype_category(dtype) == TN_CATEGORY_INT;
}
static inline bool tn_kit_dtype_is_float(tn_dtype dtype) {
  return tn_kit_dtype_category(dtype) == TN_CATEGORY_FLOAT;
}
static inline bool tn_kit_dtype_is_complex(tn_dtype dtype) {
  return tn_kit_dtype_category(dtype) == TN_CATEGORY_COMPLEX;
}
/* Code of a name ("float32", short forms "f32", "half", "long", ...); TN_DTYPE_NONE if unknown. */
tn_dtype tn_kit_dtype_find(const char *name);
/* Whether writing number into dtype keeps it but for what is rounded: in its range, and no infinity or NaN in an integer.
 * A negative number of an unsigned dtype's magnitude counts as in range (it wraps), as in ATen. */
bool tn_kit_dtype_holds(tn_dtype dtype, const tn_value *number);

/* ------------------------------------------------------------------ halves */

typedef struct tn_float16 {
  uint16_t bits;
} tn_float16; /* IEEE binary16 */
typedef struct tn_bfloat16 {
  uint16_t bits;
} tn_bfloat16; /* the upper half of a float */

static inline uint32_t tn_float_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}
static inline float tn_float_from_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* Selections instead of branches, so that loops over these vectorise; results are those of the F16C
 * instructions (a NaN keeps its payload and becomes quiet), so that bodies and tails agree. */
static inline float tn_float16_to_float(tn_float16 h) {
  uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16;
  uint32_t body = (uint32_t)(h.bits & 0x7fffu) << 13;
  uint32_t normal = body + (112u << 23);
  uint32_t special = body | 0x7f800000u | (body > 0x0f800000u ? 0x00400000u : 0u);
  /* A subnormal is its mantissa over 2^24: put it below 2^-14, take 2^-14 away, exact. */
  uint32_t tiny = tn_float_bits(tn_float_from_bits(body + (113u << 23)) - 0x1p-14f);
  uint32_t u = body >= 0x0f800000u ? special : body < 0x00800000u ? tiny : normal;
  return tn_float_from_bits(sign | u);
}

/* Rounds to nearest, ties to even. */
static inline tn_float16 tn_float16_from_float(float f) {
  uint32_t u = tn_float_bits(f);
  uint32_t sign = (u >> 16) & 0x8000u;
  uint32_t a = u & 0x7fffffffu;
  uint32_t normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
  /* Below 2^-14 the addition of 0.5 rounds the mantissa at the right bit. */
  uint32_t tiny = tn_float_bits(tn_float_from_bits(a < 0x38800000u ? a : 0u) + 0.5f) - 0x3f000000u;
  uint32_t special = a > 0x7f800000u ? 0x7e00u | ((a >> 13) & 0x3ffu) : 0x7c00u;
  uint32_t h = a >= 0x47800000u ? special : a < 0x38800000u ? tiny : normal;
  tn_float16 result = {(uint16_t)(sign | h)};
  return result;
}

static inline float tn_bfloat16_to_float(tn_bfloat16 b) { return tn_float_from_bits((uint32_t)b.bits << 16); }

/* Rounds to nearest, ties to even; a NaN keeps its upper payload and becomes quiet. */
static inline tn_bfloat16 tn_bfloat16_from_float(float f) {
  uint32_t u = tn_float_bits(f);
  uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  uint32_t quiet = (u >> 16) | 0x40u;
  tn_bfloat16 result = {(uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
  return result;
}

/* ------------------------------------------------------------------ X lists */

/* X(code, C type, name). The name is a token to paste: `boolean`, because `bool` is a macro. */
#define TN_FOR_BOOL(X) X(TN_BOOL, bool, boolean)
#define TN_FOR_INT(X)         \
  X(TN_UINT8, uint8_t, uint8) \
  X(TN_INT8, int8_t, int8)    \
  X(TN_INT16, int16_t, int16) \
  X(TN_INT32, int32_t, int32) \
  X(TN_INT64, int64_t, int64)
#define TN_FOR_HALF(X)               \
  X(TN_FLOAT16, tn_float16, float16) \
  X(TN_BFLOAT16, tn_bfloat16, bfloat16)
#define TN_FOR_WIDE_FLOAT(X)   X(TN_FLOAT32, float, float32) X(TN_FLOAT64, double, float64)
#define TN_FOR_FLOAT(X)        TN_FOR_HALF(X) TN_FOR_WIDE_FLOAT(X)
#define TN_FOR_INT_AND_BOOL(X) TN_FOR_BOOL(X) TN_FOR_INT(X)
#define TN_FOR_ALL_DTYPES(X)   TN_FOR_BOOL(X) TN_FOR_INT(X) TN_FOR_FLOAT(X)

/* For every name: tn_ctype_NAME (in memory), tn_acc_NAME (for arithmetic), tn_to_acc_NAME,
 * tn_from_acc_NAME. */
#define TN_DTYPE_PLAIN(code, ctype, name)                     \
  typedef ctype tn_ctype_##name;                              \
  typedef ctype tn_acc_##name;                                \
  static inline ctype tn_to_acc_##name(ctype x) { return x; } \
  static inline ctype tn_from_acc_##name(ctype x) { return x; }
#define TN_DTYPE_VIA_FLOAT(code, ctype, name)                                       \
  typedef ctype tn_ctype_##name;                                                    \
  typedef float tn_acc_##name;                                                      \
  static inline float tn_to_acc_##name(ctype x) { return tn_##name##_to_float(x); } \
  static inline ctype tn_from_acc_##name(float x) { return tn_##name##_from_float(x); }
TN_FOR_INT_AND_BOOL(TN_DTYPE_PLAIN)
TN_FOR_WIDE_FLOAT(TN_DTYPE_PLAIN)
TN_FOR_HALF(TN_DTYPE_VIA_FLOAT)
#undef TN_DTYPE_PLAIN
#undef TN_DTYPE_VIA_FLOAT

#ifdef __cplusplus
}
#endif
#endif

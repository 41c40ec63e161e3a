/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the elementwise expressions for integers (u8_, i8_, i16_, i32_, i64_) and bool (b8_).
 * Nothing here is undefined: sums and products wrap, a divisor of 0, which no call gets to here, gives 0; the
 * smallest number by -1 wraps.
 */
#ifndef CPU_PER_ISA_INTEGERS_H
#define CPU_PER_ISA_INTEGERS_H

#include <stdint.h>

#define TN_INT_ADD(T, a, b) ((T)((uint64_t)(a) + (uint64_t)(b)))
#define TN_INT_SUB(T, a, b) ((T)((uint64_t)(a) - (uint64_t)(b)))
#define TN_INT_MUL(T, a, b) ((T)((uint64_t)(a) * (uint64_t)(b)))
#define TN_INT_NEG(T, a)    ((T)((uint64_t)0 - (uint64_t)(a)))

/* Spelled so that unsigned types give no warning about comparisons that are always false. */
#define INT_NEGATIVE(a)     ((a) < 1 && (a) != 0)
#define INT_MINUS_ONE(T, b) ((b) == (T)-1 && INT_NEGATIVE((T)-1))

#define CPU_INTEGERS(F, T)                                                                         \
  static inline T F##_truncdiv(T a, T b) {                                                         \
    return b == 0 ? (T)0 : INT_MINUS_ONE(T, b) ? TN_INT_NEG(T, a) : (T)(a / b);                    \
  }                                                                                                \
  static inline T F##_fmod(T a, T b) { return b == 0 || INT_MINUS_ONE(T, b) ? (T)0 : (T)(a % b); } \
  static inline T F##_mod(T a, T b) {                                                              \
    T r = F##_fmod(a, b);                                                                          \
    return r != 0 && INT_NEGATIVE(r) != INT_NEGATIVE(b) ? (T)(r + b) : r;                          \
  }                                                                                                \
  static inline T F##_floordiv(T a, T b) {                                                         \
    T q = F##_truncdiv(a, b), r = F##_fmod(a, b);                                                  \
    return r != 0 && INT_NEGATIVE(r) != INT_NEGATIVE(b) ? (T)(q - 1) : q;                          \
  }                                                                                                \
  static inline T F##_abs(T a) { return INT_NEGATIVE(a) ? TN_INT_NEG(T, a) : a; }                  \
  static inline T F##_sign(T a) { return (T)((a > 0) - INT_NEGATIVE(a)); }                         \
  static inline T F##_min(T a, T b) { return a < b ? a : b; }                                      \
  static inline T F##_max(T a, T b) { return a > b ? a : b; }                                      \
  static inline T F##_invert(T a) { return (T)~a; }                                                \
  /* A negative exponent: 1 / a^-b cut to an integer. */                                           \
  static inline T F##_pow(T a, T b) {                                                              \
    if (INT_NEGATIVE(b)) return a == 1 ? (T)1 : a == (T)-1 ? (b & 1 ? a : (T)1) : (T)0;            \
    T r = 1;                                                                                       \
    for (uint64_t e = (uint64_t)b; e; e >>= 1, a = TN_INT_MUL(T, a, a))                            \
      if (e & 1) r = TN_INT_MUL(T, r, a);                                                          \
    return r;                                                                                      \
  }
CPU_INTEGERS(u8, uint8_t)
CPU_INTEGERS(i8, int8_t)
CPU_INTEGERS(i16, int16_t)
CPU_INTEGERS(i32, int32_t)
CPU_INTEGERS(i64, int64_t)
#undef CPU_INTEGERS

static inline uint8_t b8_min(uint8_t a, uint8_t b) { return a & b; }
static inline uint8_t b8_max(uint8_t a, uint8_t b) { return a | b; }
static inline uint8_t b8_invert(uint8_t a) { return !a; }

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Single elements of every dtype as doubles, with conversions of our own for the two half types: a test must
 * not round by the functions that it tests.
 */
#include <math.h>
#include <string.h>

#include "make.h"

/* Rounds |value| to `bits` significant bits, ties to even, with exponents from `least` (below it the spacing
 * stays that of `least`). */
static double rounded(double value, int bits, int least) {
  if (value == 0 || !isfinite(value)) return value;
  int exponent;
  frexp(value, &exponent); /* value = m * 2^exponent, 0.5 <= m < 1 */
  int spacing = (exponent > least ? exponent : least) - bits;
  return ldexp(nearbyint(ldexp(value, -spacing)), spacing);
}

static double half_value(double value) {
  double r = rounded(value, 11, -13);
  return fabs(r) > 65504 ? copysign(INFINITY, r) : r;
}
static double bfloat_value(double value) {
  double r = rounded(value, 8, -125);
  return fabs(r) > 0x1.fep127 ? copysign(INFINITY, r) : r;
}

/* Bits of an already rounded value, by its exponent and significand. */
static uint16_t half_bits(double value) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  value = fabs(value);
  if (isnan(value)) return (uint16_t)(sign | 0x7e00);
  if (isinf(value)) return (uint16_t)(sign | 0x7c00);
  if (value < 0x1p-14) return (uint16_t)(sign | (uint16_t)ldexp(value, 24));
  int exponent;
  double m = frexp(value, &exponent);
  return (uint16_t)(sign | ((exponent + 14) << 10) | ((uint16_t)ldexp(m, 11) & 0x3ff));
}
static double half_from_bits(uint16_t bits) {
  int exponent = (bits >> 10) & 31, m = bits & 0x3ff;
  double value = exponent == 31 ? (m ? NAN : INFINITY) : exponent ? ldexp(1024 + m, exponent - 25) : ldexp(m, -24);
  return bits & 0x8000 ? -value : value;
}
static uint16_t bfloat_bits(double value) {
  float f = (float)value;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return isnan(value) ? 0x7fc0 : (uint16_t)(bits >> 16);
}
static double bfloat_from_bits(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float f;
  memcpy(&f, &wide, sizeof f);
  return f;
}

size_t ref_item_size(tn_dtype dtype) {
  static const uint8_t sizes[] = {0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return dtype < sizeof sizes ? sizes[dtype] : 0;
}

/* The low bits of the whole part, as integer arithmetic leaves them. */
static int64_t whole(double value) { return fabs(value) < 0x1p63 ? (int64_t)value : INT64_MIN; }

double ref_as_dtype(double value, tn_dtype dtype) {
  switch (dtype) {
    case TN_BOOL:
      return value != 0;
    case TN_UINT8:
      return (double)(uint8_t)whole(value);
    case TN_INT8:
      return (double)(int8_t)whole(value);
    case TN_INT16:
      return (double)(int16_t)whole(value);
    case TN_INT32:
      return (double)(int32_t)whole(value);
    case TN_INT64:
      return (double)whole(value);
    case TN_FLOAT16:
      return half_value(value);
    case TN_BFLOAT16:
      return bfloat_value(value);
    case TN_FLOAT32:
      return (float)value;
    default:
      return value;
  }
}

void ref_store(void *address, tn_dtype dtype, double value) {
  value = ref_as_dtype(value, dtype);
  int64_t integer = dtype <= TN_INT64 ? (int64_t)value : 0;
  uint16_t half = dtype == TN_FLOAT16 ? half_bits(value) : dtype == TN_BFLOAT16 ? bfloat_bits(value) : 0;
  float single = (float)value;
  switch (dtype) {
    case TN_FLOAT16:
    case TN_BFLOAT16:
      memcpy(address, &half, sizeof half);
      break;
    case TN_FLOAT32:
      memcpy(address, &single, sizeof single);
      break;
    case TN_FLOAT64:
      memcpy(address, &value, sizeof value);
      break;
    default: /* little-endian: the low bytes come first */
      memcpy(address, &integer, ref_item_size(dtype));
      break;
  }
}

double ref_load(const void *address, tn_dtype dtype) {
  union {
    uint8_t u8;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint16_t u16;
    float f32;
    double f64;
  } x;
  memcpy(&x, address, ref_item_size(dtype));
  switch (dtype) {
    case TN_BOOL:
    case TN_UINT8:
      return x.u8;
    case TN_INT8:
      return x.i8;
    case TN_INT16:
      return x.i16;
    case TN_INT32:
      return x.i32;
    case TN_INT64:
      return (double)x.i64;
    case TN_FLOAT16:
      return half_from_bits(x.u16);
    case TN_BFLOAT16:
      return bfloat_from_bits(x.u16);
    case TN_FLOAT32:
      return x.f32;
    default:
      return x.f64;
  }
}

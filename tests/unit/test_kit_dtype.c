/* SPDX-License-Identifier: Apache-2.0
 *
 * kit/dtype: the table, names, and both half formats over all of their 65,536 values and every rounding
 * border.
 */
#include <math.h>
#include <tenon/kit/dtype.h>

#include "tn_test.h"

TN_TEST(kit_dtype, table) {
  TN_CHECK_INT(tn_kit_dtype_size(TN_BOOL), 1);
  TN_CHECK_INT(tn_kit_dtype_size(TN_INT16), 2);
  TN_CHECK_INT(tn_kit_dtype_size(TN_BFLOAT16), 2);
  TN_CHECK_INT(tn_kit_dtype_size(TN_FLOAT64), 8);
  TN_CHECK_INT(tn_kit_dtype_size(TN_COMPLEX128), 16);
  TN_CHECK_INT(tn_kit_dtype_size(TN_DTYPE_NONE), 0);
  TN_CHECK_INT(tn_kit_dtype_size(63), 0);
  TN_CHECK_INT(tn_kit_dtype_size(255), 0);
  TN_CHECK_STR(tn_kit_dtype_name(TN_FLOAT32), "float32");
  TN_CHECK_STR(tn_kit_dtype_name(40), "?");
  TN_CHECK(tn_kit_dtype_is_bool(TN_BOOL) && !tn_kit_dtype_is_int(TN_BOOL));
  TN_CHECK(tn_kit_dtype_is_int(TN_UINT8) && !tn_kit_dtype_is_float(TN_INT64));
  TN_CHECK(tn_kit_dtype_is_float(TN_FLOAT16) && !tn_kit_dtype_is_complex(TN_FLOAT64));
  for (unsigned code = 1; code <= TN_FLOAT8_E8M0FNU; code++) {
    TN_CHECK_INT(tn_kit_dtype_find(tn_kit_dtype_name((tn_dtype)code)), code);
  }
  TN_CHECK_INT(tn_kit_dtype_find("long"), TN_INT64);
  TN_CHECK_INT(tn_kit_dtype_find("f32"), TN_FLOAT32);
  TN_CHECK_INT(tn_kit_dtype_find("float33"), TN_DTYPE_NONE);
  TN_CHECK_INT(tn_kit_dtype_find("?"), TN_DTYPE_NONE);
}

TN_TEST(kit_dtype, x_lists_agree_with_the_table) {
#define CHECK_ROW(code, ctype, name)                    \
  TN_CHECK_INT(sizeof(ctype), tn_kit_dtype_size(code)); \
  TN_CHECK_INT(sizeof(tn_ctype_##name), sizeof(ctype)); \
  TN_CHECK_DOUBLE(tn_to_acc_##name(tn_from_acc_##name((tn_acc_##name)1)), 1.0, 0);
  TN_FOR_ALL_DTYPES(CHECK_ROW)
#undef CHECK_ROW
  tn_dtype_mask all = 0;
#define ADD_BIT(code, ctype, name) all |= TN_DTYPE_BIT(code);
  TN_FOR_ALL_DTYPES(ADD_BIT)
#undef ADD_BIT
  TN_CHECK_INT(all, TN_DTYPES_ALL);
}

/* What the bits of a half mean, in double arithmetic. */
static double half_value(unsigned bits, int exponent_bits, int mantissa_bits) {
  int exponent = (int)(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  int mantissa = (int)bits & ((1 << mantissa_bits) - 1);
  int bias = (1 << (exponent_bits - 1)) - 1;
  double sign = bits >> 15 & 1 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

static unsigned to_bits(float f, bool brain) {
  return brain ? tn_bfloat16_from_float(f).bits : tn_float16_from_float(f).bits;
}
static float to_float(unsigned bits, bool brain) {
  return brain ? tn_bfloat16_to_float((tn_bfloat16){(uint16_t)bits})
               : tn_float16_to_float((tn_float16){(uint16_t)bits});
}

static void check_every_value(bool brain) {
  int exponent_bits = brain ? 8 : 5, mantissa_bits = brain ? 7 : 10;
  for (unsigned bits = 0; bits < 65536; bits++) {
    double expected = half_value(bits, exponent_bits, mantissa_bits);
    float f = to_float(bits, brain);
    if (isnan(expected)) {
      TN_CHECK(isnan(f) && isnan(to_float(to_bits(f, brain), brain)));
      TN_CHECK_INT(to_bits(f, brain), bits | 1u << (mantissa_bits - 1)); /* quiet, the payload kept */
    } else {
      TN_CHECK((double)f == expected && !signbit(f) == !signbit(expected));
      TN_CHECK_INT(to_bits(f, brain), bits);
    }
  }
}

/* Between neighbours: below the middle goes down, above goes up, the middle to the even one. */
static void check_every_border(bool brain) {
  unsigned infinite = brain ? 0x7f80 : 0x7c00;
  for (unsigned low = 0; low < infinite; low++) {
    double top = low + 1 == infinite ? ldexp(1.0, brain ? 128 : 16) : to_float(low + 1, brain);
    float middle = (float)(((double)to_float(low, brain) + top) / 2);
    unsigned even = low & 1 ? low + 1 : low;
    TN_CHECK_INT(to_bits(middle, brain), even);
    TN_CHECK_INT(to_bits(nextafterf(middle, 0.0f), brain), low);
    TN_CHECK_INT(to_bits(nextafterf(middle, INFINITY), brain), low + 1);
    TN_CHECK_INT(to_bits(-middle, brain), even | 0x8000);
  }
  TN_CHECK_INT(to_bits(brain ? INFINITY : 1e30f, brain), infinite);
}

TN_TEST(kit_dtype, float16_every_value) { check_every_value(false); }
TN_TEST(kit_dtype, float16_every_rounding_border) { check_every_border(false); }
TN_TEST(kit_dtype, bfloat16_every_value) { check_every_value(true); }
TN_TEST(kit_dtype, bfloat16_every_rounding_border) { check_every_border(true); }

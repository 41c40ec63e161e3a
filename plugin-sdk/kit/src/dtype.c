/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of dtypes, and names to codes. Complex and float8 have rows although nothing computes with them
 * yet: files and messages name them.
 */
#include <float.h>
#include <math.h>
#include <tenon/kit/dtype.h>

#define UNKNOWN \
  { "?", 0, TN_CATEGORY_NONE }

const tn_kit_dtype_row tn_kit_dtypes[TN_DTYPE_LIMIT] = {
    [TN_DTYPE_NONE] = UNKNOWN,
    [TN_BOOL] = {"bool", 1, TN_CATEGORY_BOOL},
    [TN_UINT8] = {"uint8", 1, TN_CATEGORY_INT},
    [TN_INT8] = {"int8", 1, TN_CATEGORY_INT},
    [TN_INT16] = {"int16", 2, TN_CATEGORY_INT},
    [TN_INT32] = {"int32", 4, TN_CATEGORY_INT},
    [TN_INT64] = {"int64", 8, TN_CATEGORY_INT},
    [TN_FLOAT16] = {"float16", 2, TN_CATEGORY_FLOAT},
    [TN_BFLOAT16] = {"bfloat16", 2, TN_CATEGORY_FLOAT},
    [TN_FLOAT32] = {"float32", 4, TN_CATEGORY_FLOAT},
    [TN_FLOAT64] = {"float64", 8, TN_CATEGORY_FLOAT},
    [TN_UINT16] = {"uint16", 2, TN_CATEGORY_INT},
    [TN_UINT32] = {"uint32", 4, TN_CATEGORY_INT},
    [TN_UINT64] = {"uint64", 8, TN_CATEGORY_INT},
    [TN_COMPLEX64] = {"complex64", 8, TN_CATEGORY_COMPLEX},
    [TN_COMPLEX128] = {"complex128", 16, TN_CATEGORY_COMPLEX},
    [TN_FLOAT8_E4M3FN] = {"float8_e4m3fn", 1, TN_CATEGORY_FLOAT},
    [TN_FLOAT8_E5M2] = {"float8_e5m2", 1, TN_CATEGORY_FLOAT},
    [TN_FLOAT8_E4M3FNUZ] = {"float8_e4m3fnuz", 1, TN_CATEGORY_FLOAT},
    [TN_FLOAT8_E5M2FNUZ] = {"float8_e5m2fnuz", 1, TN_CATEGORY_FLOAT},
    [TN_FLOAT8_E8M0FNU] = {"float8_e8m0fnu", 1, TN_CATEGORY_FLOAT},
#ifdef TN_ABI_FUTURE
    [TN_FUTURE8] = {"future8", 1, TN_CATEGORY_INT},
    [TN_FUTURE8 + 1 ... TN_DTYPE_LIMIT - 1] = UNKNOWN,
#else
    [TN_FLOAT8_E8M0FNU + 1 ... TN_DTYPE_LIMIT - 1] = UNKNOWN,
#endif
};

/* Short forms, and the names that ATen's schemas use. */
static const struct {
  const char *name;
  tn_dtype dtype;
} other_names[] = {
    {"b8", TN_BOOL},      {"u8", TN_UINT8},       {"byte", TN_UINT8},  {"i8", TN_INT8},
    {"char", TN_INT8},    {"i16", TN_INT16},      {"short", TN_INT16}, {"i32", TN_INT32},
    {"int", TN_INT32},    {"i64", TN_INT64},      {"long", TN_INT64},  {"f16", TN_FLOAT16},
    {"half", TN_FLOAT16}, {"bf16", TN_BFLOAT16},  {"f32", TN_FLOAT32}, {"float", TN_FLOAT32},
    {"f64", TN_FLOAT64},  {"double", TN_FLOAT64},
};

tn_dtype tn_kit_dtype_find(const char *name) {
  for (unsigned code = 1; code < TN_DTYPE_LIMIT && tn_kit_dtypes[code].size; code++) {
    if (strcmp(tn_kit_dtypes[code].name, name) == 0) return (tn_dtype)code;
  }
  for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++) {
    if (strcmp(other_names[i].name, name) == 0) return other_names[i].dtype;
  }
  return TN_DTYPE_NONE;
}

static double float_most(tn_dtype dtype) {
  switch (dtype) {
    case TN_FLOAT16: return 65504.0;
    case TN_BFLOAT16: return 0x1.fep127;
    case TN_FLOAT32: return FLT_MAX;
    default: return INFINITY;
  }
}

bool tn_kit_dtype_holds(tn_dtype dtype, const tn_value *number) {
  bool is_float = number->kind == TN_VAL_FLOAT, is_unsigned = dtype == TN_UINT8;
  double value = is_float ? number->u.f : (double)number->u.i;
  if (number->kind == TN_VAL_BOOL || dtype == TN_BOOL) return true;
  if (tn_kit_dtype_is_float(dtype)) return !isfinite(value) || fabs(value) <= float_most(dtype);
  if (!tn_kit_dtype_is_int(dtype)) return true; /* computed with by nobody yet */
  int bits = (int)tn_kit_dtype_size(dtype) * 8 - !is_unsigned;
  if (is_float) {
    double most = (double)((uint64_t)1 << bits); /* for 64 bits, most - 1 would round */
    return bits == 63 ? value >= -most && value < most
                      : value <= most - 1.0 && value >= (is_unsigned ? 1.0 - most : -most);
  }
  int64_t most = (int64_t)(((uint64_t)1 << bits) - 1);
  return number->u.i <= most && number->u.i >= (is_unsigned ? -most : -most - 1);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Types as device text names them, and numbers by value.
 */
#include <math.h>
#include <string.h>

#include "plugins/gpu/gpu.h"

static const char *const names[GPU_TYPES] = {
    [TN_BOOL] = "boolean",    [TN_UINT8] = "uint8",     [TN_INT8] = "int8",       [TN_INT16] = "int16",
    [TN_INT32] = "int32",     [TN_INT64] = "int64",     [TN_FLOAT16] = "float16", [TN_BFLOAT16] = "bfloat16",
    [TN_FLOAT32] = "float32", [TN_FLOAT64] = "float64", [GPU_BITS8] = "bits8",    [GPU_BITS16] = "bits16",
    [GPU_BITS32] = "bits32",  [GPU_BITS64] = "bits64",  [GPU_UINT64] = "uint64",
};

const char *gpu_type_name(uint8_t type) { return type < GPU_TYPES && names[type] ? names[type] : "?"; }

bool gpu_type_is_float(uint8_t type) { return type < TN_DTYPE_LIMIT && tn_kit_dtype_is_float(type); }

uint8_t gpu_compute_type(uint8_t type) {
  return type == TN_FLOAT16 || type == TN_BFLOAT16 ? TN_FLOAT32 : type == TN_BOOL ? TN_UINT8 : type;
}

uint8_t gpu_wide_type(uint8_t type, const gpu_caps *caps) {
  if (!gpu_type_is_float(type)) return TN_INT64;
  return caps->has_double ? TN_FLOAT64 : TN_FLOAT32;
}

size_t gpu_type_size(uint8_t type) {
  switch (type) {
    case GPU_BITS8: return 1;
    case GPU_BITS16: return 2;
    case GPU_BITS32: return 4;
    case GPU_BITS64:
    case GPU_UINT64: return 8;
    default: return tn_kit_dtype_size(type);
  }
}

uint8_t gpu_bits_type(size_t itemsize) {
  return itemsize == 1 ? GPU_BITS8 : itemsize == 2 ? GPU_BITS16 : itemsize == 4 ? GPU_BITS32 : GPU_BITS64;
}

bool gpu_type_fits(uint8_t type, const gpu_caps *caps) { return type != TN_FLOAT64 || caps->has_double; }

/* A float beyond int64 has no integer half that anyone may use. */
static int64_t whole(double f) { return f > -0x1p63 && f < 0x1p63 ? (int64_t)f : 0; }

static gpu_number number_make(uint8_t type, double f, int64_t i) {
  gpu_number n = {.type = type, .u.i64 = 0};
  switch (type) {
    case TN_BOOL: n.u.u8 = i != 0 || f != 0; break;
    case TN_FLOAT16: n.u.i16 = (int16_t)tn_float16_from_float((float)f).bits; break;
    case TN_BFLOAT16: n.u.i16 = (int16_t)tn_bfloat16_from_float((float)f).bits; break;
    case TN_FLOAT32: n.u.f32 = (float)f; break;
    case TN_FLOAT64: n.u.f64 = f; break;
    case TN_UINT8: n.u.u8 = (uint8_t)i; break;
    case TN_INT8: n.u.i8 = (int8_t)i; break;
    case TN_INT16: n.u.i16 = (int16_t)i; break;
    case TN_INT32: n.u.i32 = (int32_t)i; break;
    default: n.u.i64 = i; break;
  }
  return n;
}

gpu_number gpu_number_of(uint8_t type, const tn_value *v) {
  return v->kind == TN_VAL_FLOAT ? number_make(type, v->u.f, whole(v->u.f))
                                 : number_make(type, (double)v->u.i, v->u.i);
}
gpu_number gpu_number_float(uint8_t type, double f) { return number_make(type, f, whole(f)); }
gpu_number gpu_number_int(uint8_t type, int64_t i) { return number_make(type, (double)i, i); }

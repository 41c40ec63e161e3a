/* SPDX-License-Identifier: Apache-2.0
 *
 * Dtypes by name: what an element is in memory (MEM), and how it is read and stored. Halves are read as float and rounded once
 * when stored, to nearest, ties to even, with the bits of the kit's conversion; no half arithmetic is asked of the
 * device. bits8 to bits64 are elements that are only moved.
 *
 * A float outside an integer's range, or NaN, becomes what the CPU backend makes of it: the smallest int64, cut to size.
 */
#define MEM_boolean  u8
#define MEM_uint8    u8
#define MEM_int8     i8
#define MEM_int16    i16
#define MEM_int32    i32
#define MEM_int64    i64
#define MEM_uint64   u64
#define MEM_float16  u16
#define MEM_bfloat16 u16
#define MEM_float32  f32
#define MEM_float64  f64
#define MEM_bits8    u8
#define MEM_bits16   u16
#define MEM_bits32   u32
#define MEM_bits64   u64

DEVICE f32 float_of_half(u16 h) {
  const u32 sign = (u32)(h & 0x8000u) << 16, body = (u32)(h & 0x7fffu) << 13;
  const u32 special = body | 0x7f800000u | (body > 0x0f800000u ? 0x00400000u : 0u);
  const u32 tiny = FLOAT_BITS(FLOAT_OF(body + (113u << 23)) - 6.103515625e-05f); /* 2^-14 */
  const u32 u = body >= 0x0f800000u ? special : body < 0x00800000u ? tiny : body + (112u << 23);
  return FLOAT_OF(sign | u);
}
DEVICE u16 half_of_float(f32 f) {
  const u32 u = FLOAT_BITS(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  const u32 normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
  const u32 tiny = FLOAT_BITS(FLOAT_OF(a < 0x38800000u ? a : 0u) + 0.5f) - 0x3f000000u;
  const u32 special = a > 0x7f800000u ? 0x7e00u | ((a >> 13) & 0x3ffu) : 0x7c00u;
  return (u16)(sign | (a >= 0x47800000u ? special : a < 0x38800000u ? tiny : normal));
}
DEVICE f32 float_of_brain(u16 b) { return FLOAT_OF((u32)b << 16); }
DEVICE u16 brain_of_float(f32 f) {
  const u32 u = FLOAT_BITS(f), rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (u16)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
}

#define READ_boolean(x)  ((u8)((x) != 0))
#define READ_uint8(x)    (x)
#define READ_int8(x)     (x)
#define READ_int16(x)    (x)
#define READ_int32(x)    (x)
#define READ_int64(x)    (x)
#define READ_float16(x)  float_of_half(x)
#define READ_bfloat16(x) float_of_brain(x)
#define READ_float32(x)  (x)
#define READ_float64(x)  (x)
#define READ_bits8(x)    (x)
#define READ_bits16(x)   (x)
#define READ_bits32(x)   (x)
#define READ_bits64(x)   (x)

/* FROM_FLOAT: the stored value is of a floating type, and integers need the rule above. */
#if FROM_FLOAT
#define WHOLE(x) ((x) >= -9223372036854775808.0f && (x) < 9223372036854775808.0f ? (i64)(x) : I64_MIN)
#else
#define WHOLE(x) (x)
#endif
#define STORE_boolean(x)  ((u8)((x) != 0))
#define STORE_uint8(x)    ((u8)WHOLE(x))
#define STORE_int8(x)     ((i8)WHOLE(x))
#define STORE_int16(x)    ((i16)WHOLE(x))
#define STORE_int32(x)    ((i32)WHOLE(x))
#define STORE_int64(x)    ((i64)WHOLE(x))
#define STORE_float16(x)  half_of_float((f32)(x))
#define STORE_bfloat16(x) brain_of_float((f32)(x))
#define STORE_float32(x)  ((f32)(x))
#define STORE_float64(x)  ((f64)(x))
#define STORE_bits8(x)    ((u8)(x))
#define STORE_bits16(x)   ((u16)(x))
#define STORE_bits32(x)   ((u32)(x))
#define STORE_bits64(x)   ((u64)(x))

#define MEM(name)      PASTE(MEM_, name)
#define READ(name, x)  PASTE(READ_, name)(x)
#define STORE(name, x) PASTE(STORE_, name)(x)

/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of this instruction set in float32 and float64: attention.inc twice. Tile heights as in gemm.c.
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "plugins/backend-cpu/per-isa/gemm_rows.inc"
#include "plugins/backend-cpu/per-isa/math.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

#if defined(__AVX512F__)
enum { MR = 14 };
#define HEIGHTS(M) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14)
#else
enum { MR = 6 };
#define HEIGHTS(M) M(1) M(2) M(3) M(4) M(5) M(6)
#endif

/* exp(x) in float32 with an error below 1 unit in the last place, for the x <= 0 of a softmax: the constant part of a
 * function in double (math.h) would be half of attention's time. At most 2^-126.5 counts as 0, so -infinity gives
 * exactly 0; from 88.4 on infinity; NaN stays. Coefficients: an interpolation of our own. */
static inline float exp_single(float x) {
  float c = x < -88.1f ? -88.1f : x;
  c = c > 88.8f ? 88.8f : c;
  const float k = CPU_FMAF(c, 0x1.715476p+0f, 0x1.8p23f), n = k - 0x1.8p23f; /* the integer in k's low bits */
  float r = CPU_FMAF(n, -0x1.62e4p-1f, c), p = 0x1.6d117cp-10f;              /* ln(2) in two parts */
  r = CPU_FMAF(n, -0x1.7f7d1cp-20f, r);
  p = CPU_FMAF(p, r, 0x1.120be2p-7f);
  p = CPU_FMAF(p, r, 0x1.555518p-5f);
  p = CPU_FMAF(p, r, 0x1.5554dcp-3f);
  p = CPU_FMAF(p, r, 0.5f);
  p = CPU_FMAF(p, r, 1.0f);
  p = CPU_FMAF(p, r, 1.0f);
  uint32_t bits;
  float power;
  memcpy(&bits, &k, sizeof bits);
  bits = (bits + 127u) << 23;
  memcpy(&power, &bits, sizeof power);
  return p * power;
}

#define T         float
#define V         vf
#define NAME(x)   CPU_PASTE(f32, x)
#define vec_load  vf_load
#define vec_store vf_store
#define vec_set   vf_set
#define vec_fma   vf_fma
#define VEC_LO    VF_LO
#define VEC_HI    VF_HI
#define EXP       exp_single
#define LOG       f32_log
#define FMA       CPU_FMAF
#include "plugins/backend-cpu/per-isa/attention.inc"
#undef T
#undef V
#undef NAME
#undef vec_load
#undef vec_store
#undef vec_set
#undef vec_fma
#undef VEC_LO
#undef VEC_HI
#undef EXP
#undef LOG
#undef FMA

#define T         double
#define V         vd
#define NAME(x)   CPU_PASTE(f64, x)
#define vec_load  vd_load
#define vec_store vd_store
#define vec_set   vd_set
#define vec_fma   vd_fma
#define VEC_LO    VD_LO
#define VEC_HI    VD_HI
#define EXP       f64_exp
#define LOG       f64_log
#define FMA       CPU_FMA
#include "plugins/backend-cpu/per-isa/attention.inc"

const cpu_attention_fns CPU_FN(cpu_attention_f32) = {f32_NR,      f32_turn,   f32_flat,     f32_dots,
                                                     f32_forward, f32_finish, f32_backward, f32_scale};
const cpu_attention_fns CPU_FN(cpu_attention_f64) = {f64_NR,      f64_turn,   f64_flat,     f64_dots,
                                                     f64_forward, f64_finish, f64_backward, f64_scale};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The direct convolution's register tiles in float32 and float64: conv_tile.inc twice. Heights as in gemm.c:
 * what the registers of the set hold beside two vectors of weights.
 */
#include <stdbool.h>
#include <string.h>

#include "plugins/backend-cpu/per-isa/gemm_rows.inc"
#include "plugins/backend-cpu/per-isa/per_isa.h"

#if defined(__AVX512F__)
enum { TILE_MR = 14 };
#define TILE_HEIGHTS(M) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14)
#else
enum { TILE_MR = 6 };
#define TILE_HEIGHTS(M) M(1) M(2) M(3) M(4) M(5) M(6)
#endif

/* What is asked for, and how many lines at a time; Note [What comes next]. */
typedef struct asking {
  uintptr_t at[2];
  int64_t lines[2];
} asking;

static asking asking_of(const cpu_ahead *ahead, int64_t times) {
  asking a;
  for (int i = 0; i < 2; ++i) {
    const int64_t lines = (ahead[i].bytes + 63) / 64;
    a.at[i] = ahead[i].at;
    a.lines[i] = times ? (lines + times - 1) / times : 0;
  }
  return a;
}

static inline void ask(asking *a) {
  for (int i = 0; i < 2; ++i)
    for (int64_t n = a->lines[i]; n > 0; --n, a->at[i] += 64)
      __builtin_prefetch((const void *)a->at[i], 0, 2);
}

#define T         float
#define V         vf
#define NAME(x)   CPU_PASTE(f32, x)
#define vec_load  vf_load
#define vec_store vf_store
#define vec_set   vf_set
#define vec_fma   vf_fma
#define LANE_LOAD vf_load_lanes
#define LANE_TURN VF_TURN
#include "plugins/backend-cpu/per-isa/conv_tile.inc"
#undef T
#undef V
#undef NAME
#undef vec_load
#undef vec_store
#undef vec_set
#undef vec_fma
#undef LANE_LOAD
#undef LANE_TURN

#define T         double
#define V         vd
#define NAME(x)   CPU_PASTE(f64, x)
#define vec_load  vd_load
#define vec_store vd_store
#define vec_set   vd_set
#define vec_fma   vd_fma
#define LANE_LOAD vd_load_lanes
#define LANE_TURN VD_TURN
#include "plugins/backend-cpu/per-isa/conv_tile.inc"

const cpu_conv_tile CPU_FN(cpu_conv_tile_f32) = {f32_NR, f32_row, f32_sum, f32_sum_few, f32_turn};
const cpu_conv_tile CPU_FN(cpu_conv_tile_f64) = {f64_NR, f64_row, f64_sum, f64_sum_few, f64_turn};

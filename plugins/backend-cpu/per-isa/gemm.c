/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product of this instruction set in float32 and float64: gemm.inc twice. Tile heights: 14 x 2
 * vectors fill AVX-512's 32 registers (28 sums, two of b, one of a), 6 x 2 the 16 of the others.
 */
#include <stdbool.h>
#include <stddef.h>

#include "plugins/backend-cpu/per-isa/gemm_rows.inc"
#include "plugins/backend-cpu/per-isa/per_isa.h"

#if defined(__AVX512F__)
enum { GEMM_MR = 14 };
#define GEMM_HEIGHTS(M) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14)
#else
enum { GEMM_MR = 6 };
#define GEMM_HEIGHTS(M) M(1) M(2) M(3) M(4) M(5) M(6)
#endif

/* From here on panels and tiles are reused often enough to be worth copying even where they could be read in
 * place: panels from FEW rows of a on if rows of b lie far apart (each on a page of its own), else from MANY.
 * Measured at squares of 256 to 1024 and at the shapes of a 784-128-10 and a 784-1024-1024-10 network. */
enum { PACK_B_FROM_FEW = 256, PACK_B_FROM_MANY = 640, FAR_BYTES = 2048, PACK_A_FROM_N = 512 };

#define T          float
#define V          vf
#define NAME(x)    CPU_PASTE(f32, x)
#define vec_load   vf_load
#define vec_store  vf_store
#define vec_set    vf_set
#define vec_fma    vf_fma
#define vec_first  vf_first
#define vec_load_part  vf_load_part
#define vec_store_part vf_store_part
#define VEC_PART   vf_part
#define SCALAR_FMA CPU_FMAF
#define LANE_LOAD  vf_load_lanes
#define LANE_TURN  VF_TURN
#include "plugins/backend-cpu/per-isa/gemm.inc"
#undef T
#undef V
#undef NAME
#undef vec_load
#undef vec_store
#undef vec_set
#undef vec_fma
#undef vec_first
#undef vec_load_part
#undef vec_store_part
#undef VEC_PART
#undef SCALAR_FMA
#undef LANE_LOAD
#undef LANE_TURN

#define T          double
#define V          vd
#define NAME(x)    CPU_PASTE(f64, x)
#define vec_load   vd_load
#define vec_store  vd_store
#define vec_set    vd_set
#define vec_fma    vd_fma
#define vec_first  vd_first
#define vec_load_part  vd_load_part
#define vec_store_part vd_store_part
#define VEC_PART   vd_part
#define SCALAR_FMA CPU_FMA
#define LANE_LOAD  vd_load_lanes
#define LANE_TURN  VD_TURN
#include "plugins/backend-cpu/per-isa/gemm.inc"

const cpu_gemm_kernel CPU_FN(cpu_gemm_f32) = {GEMM_MR, f32_NR, f32_small, f32_scratch_bytes, f32_run};
const cpu_gemm_kernel CPU_FN(cpu_gemm_f64) = {GEMM_MR, f64_NR, f64_small, f64_scratch_bytes, f64_run};

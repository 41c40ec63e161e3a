/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of one instruction set: CMake compiles each file of per-isa once per set with CPU_ISA=scalar, avx2
 * or avx512, and CPU_FN(gemm_f32) becomes gemm_f32_avx512. Only table.c's table is seen from outside.
 */
#ifndef CPU_PER_ISA_H
#define CPU_PER_ISA_H

#include "plugins/backend-cpu/isa.h"
#include "plugins/backend-cpu/simd/vec.h"

#define CPU_PASTE_(a, b) a##_##b
#define CPU_PASTE(a, b)  CPU_PASTE_(a, b)
#define CPU_FN(name)     CPU_PASTE(name, CPU_ISA)
#define CPU_TEXT_(x)     #x
#define CPU_TEXT(x)      CPU_TEXT_(x)

extern const cpu_gemm_kernel CPU_FN(cpu_gemm_f32);
extern const cpu_gemm_kernel CPU_FN(cpu_gemm_f64);

cpu_ew_fn CPU_FN(cpu_elementwise_float)(uint32_t op, tn_dtype dtype);
cpu_ew_fn CPU_FN(cpu_elementwise_int)(uint32_t op, tn_dtype dtype);
cpu_ew_fn CPU_FN(cpu_elementwise_stream)(uint32_t op, tn_dtype dtype);
/* float32; NULL where the plain loop is as good. stream: past the caches, n a multiple of CPU_STREAM_GROUP. */
cpu_ew_fn CPU_FN(cpu_elementwise_vector)(uint32_t op, bool stream);
cpu_cast_fn CPU_FN(cpu_cast_stream)(tn_dtype dst, tn_dtype src);
cpu_cast_fn CPU_FN(cpu_cast)(tn_dtype dst, tn_dtype src);
cpu_fold_fn CPU_FN(cpu_fold)(uint32_t reduction, tn_dtype dtype);
cpu_fold_rows_fn CPU_FN(cpu_fold_rows)(uint32_t reduction, tn_dtype dtype, cpu_rows_read read);
double CPU_FN(cpu_dot_f32)(const void *a, const void *b, int64_t n);
double CPU_FN(cpu_dot_f64)(const void *a, const void *b, int64_t n);
extern const cpu_extreme_fns CPU_FN(cpu_extreme_f32);
extern const cpu_extreme_fns CPU_FN(cpu_extreme_f64);
extern const cpu_extreme_fns CPU_FN(cpu_extreme_i64);
extern const cpu_row_fns CPU_FN(cpu_rows_f32);
extern const cpu_row_fns CPU_FN(cpu_rows_f64);
extern const cpu_norm_fns CPU_FN(cpu_norm_f32);
extern const cpu_norm_fns CPU_FN(cpu_norm_f64);
extern const cpu_channel_fns CPU_FN(cpu_channel_f32);
extern const cpu_channel_fns CPU_FN(cpu_channel_f64);
extern const cpu_conv_fns CPU_FN(cpu_conv_f32);
extern const cpu_conv_fns CPU_FN(cpu_conv_f64);
extern const cpu_conv_tile CPU_FN(cpu_conv_tile_f32);
extern const cpu_conv_tile CPU_FN(cpu_conv_tile_f64);
extern const cpu_pool_fns CPU_FN(cpu_pool_f32);
extern const cpu_pool_fns CPU_FN(cpu_pool_f64);
void CPU_FN(cpu_adam_f32)(const cpu_step *, void *, const void *, void *, void *, void *, int64_t);
void CPU_FN(cpu_adam_f64)(const cpu_step *, void *, const void *, void *, void *, void *, int64_t);
void CPU_FN(cpu_rmsprop_f32)(const cpu_step *, void *, const void *, void *, void *, void *, int64_t);
void CPU_FN(cpu_rmsprop_f64)(const cpu_step *, void *, const void *, void *, void *, void *, int64_t);
void CPU_FN(cpu_sgd_f32)(const cpu_step *, void *, const void *, void *, int64_t);
void CPU_FN(cpu_sgd_f64)(const cpu_step *, void *, const void *, void *, int64_t);
extern const cpu_attention_fns CPU_FN(cpu_attention_f32);
extern const cpu_attention_fns CPU_FN(cpu_attention_f64);
extern const cpu_move_fns CPU_FN(cpu_move);

#endif

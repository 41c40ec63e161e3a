/* SPDX-License-Identifier: Apache-2.0
 *
 * The one symbol of this instruction set that the rest of the backend sees.
 */
#include "plugins/backend-cpu/per-isa/per_isa.h"

static cpu_ew_fn elementwise(uint32_t op, tn_dtype dtype) {
  return dtype >= TN_FLOAT16 ? CPU_FN(cpu_elementwise_float)(op, dtype)
                             : CPU_FN(cpu_elementwise_int)(op, dtype);
}

const cpu_isa CPU_FN(cpu_isa) = {
    .name = CPU_TEXT(CPU_ISA),
    .elementwise = elementwise,
    .cast = CPU_FN(cpu_cast),
    .fold = CPU_FN(cpu_fold),
    .fold_rows = CPU_FN(cpu_fold_rows),
    .gemm_f32 = &CPU_FN(cpu_gemm_f32),
    .gemm_f64 = &CPU_FN(cpu_gemm_f64),
    .dot_f32 = CPU_FN(cpu_dot_f32),
    .dot_f64 = CPU_FN(cpu_dot_f64),
    .rows_f32 = &CPU_FN(cpu_rows_f32),
    .rows_f64 = &CPU_FN(cpu_rows_f64),
    .norm_f32 = &CPU_FN(cpu_norm_f32),
    .norm_f64 = &CPU_FN(cpu_norm_f64),
    .conv_f32 = &CPU_FN(cpu_conv_f32),
    .conv_f64 = &CPU_FN(cpu_conv_f64),
    .pool_f32 = &CPU_FN(cpu_pool_f32),
    .pool_f64 = &CPU_FN(cpu_pool_f64),
    .adam_f32 = CPU_FN(cpu_adam_f32),
    .adam_f64 = CPU_FN(cpu_adam_f64),
    .rmsprop_f32 = CPU_FN(cpu_rmsprop_f32),
    .rmsprop_f64 = CPU_FN(cpu_rmsprop_f64),
    .sgd_f32 = CPU_FN(cpu_sgd_f32),
    .sgd_f64 = CPU_FN(cpu_sgd_f64),
    .conv_tile_f32 = &CPU_FN(cpu_conv_tile_f32),
    .conv_tile_f64 = &CPU_FN(cpu_conv_tile_f64),
    .attention_f32 = &CPU_FN(cpu_attention_f32),
    .attention_f64 = &CPU_FN(cpu_attention_f64),
    .move = &CPU_FN(cpu_move),
    .elementwise_stream = CPU_FN(cpu_elementwise_stream),
    .cast_stream = CPU_FN(cpu_cast_stream),
    .extreme_f32 = &CPU_FN(cpu_extreme_f32),
    .extreme_f64 = &CPU_FN(cpu_extreme_f64),
    .extreme_i64 = &CPU_FN(cpu_extreme_i64),
    .channel_f32 = &CPU_FN(cpu_channel_f32),
    .channel_f64 = &CPU_FN(cpu_channel_f64),
};

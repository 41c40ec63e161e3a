/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise loops in float32 and float64, one function per operator and type, from the registry's
 * expressions. The halves have none: their blocks are widened to float32 by the driver (op_elementwise.c).
 */
#include "plugins/backend-cpu/ew_index.h"
#include "plugins/backend-cpu/per-isa/loop.h"
#include "plugins/backend-cpu/per-isa/math.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

#define EW_STORE_SAME EW_AS_IS
#define EW_STORE_BOOL EW_AS_BOOL
#define EW_F32(id, name, nt, ns, dtypes, result, words)                                        \
  CPU_EW_LOOP(f32_loop_##id, float, f32, f, TN_EXPR_FLT_##id, nt, ns, EW_TYPE_##result(float), \
              EW_STORE_##result)
#define EW_F64(id, name, nt, ns, dtypes, result, words)                                          \
  CPU_EW_LOOP(f64_loop_##id, double, f64, f, TN_EXPR_FLT_##id, nt, ns, EW_TYPE_##result(double), \
              EW_STORE_##result)
TN_EW_LIST_FLT(EW_F32)
TN_EW_LIST_FLT(EW_F64)

#define EW_ROW_F32(id, ...) [CPU_EW_##id] = f32_loop_##id,
#define EW_ROW_F64(id, ...) [CPU_EW_##id] = f64_loop_##id,
static const cpu_ew_fn f32_loops[CPU_EW_COUNT] = {TN_EW_LIST_FLT(EW_ROW_F32)};
static const cpu_ew_fn f64_loops[CPU_EW_COUNT] = {TN_EW_LIST_FLT(EW_ROW_F64)};

cpu_ew_fn CPU_FN(cpu_elementwise_float)(uint32_t op, tn_dtype dtype) {
  cpu_ew_fn vector = dtype == TN_FLOAT32 ? CPU_FN(cpu_elementwise_vector)(op, false) : NULL;
  return vector ? vector : dtype == TN_FLOAT32 ? f32_loops[op] : f64_loops[op];
}

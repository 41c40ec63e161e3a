/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise loops for the five integer types and bool, from the registry's expressions. bool is a byte
 * that holds 0 or 1: its loops store (value != 0).
 */
#include "plugins/backend-cpu/ew_index.h"
#include "plugins/backend-cpu/per-isa/integers.h"
#include "plugins/backend-cpu/per-isa/loop.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

#define EW_STORE_SAME EW_AS_IS
#define EW_STORE_BOOL EW_AS_BOOL
#define EW_INT(P, T, id, nt, ns, result) \
  CPU_EW_LOOP(P##_loop_##id, T, P, i, TN_EXPR_INT_##id, nt, ns, EW_TYPE_##result(T), EW_STORE_##result)
#define EW_U8(id, name, nt, ns, dtypes, result, words)  EW_INT(u8, uint8_t, id, nt, ns, result)
#define EW_I8(id, name, nt, ns, dtypes, result, words)  EW_INT(i8, int8_t, id, nt, ns, result)
#define EW_I16(id, name, nt, ns, dtypes, result, words) EW_INT(i16, int16_t, id, nt, ns, result)
#define EW_I32(id, name, nt, ns, dtypes, result, words) EW_INT(i32, int32_t, id, nt, ns, result)
#define EW_I64(id, name, nt, ns, dtypes, result, words) EW_INT(i64, int64_t, id, nt, ns, result)
#define EW_B8(id, name, nt, ns, dtypes, result, words) \
  CPU_EW_LOOP(b8_loop_##id, uint8_t, b8, i, TN_EXPR_INT_##id, nt, ns, uint8_t, EW_AS_BOOL)
TN_EW_LIST_INT(EW_U8)
TN_EW_LIST_INT(EW_I8)
TN_EW_LIST_INT(EW_I16)
TN_EW_LIST_INT(EW_I32)
TN_EW_LIST_INT(EW_I64)
TN_EW_LIST_BOOL(EW_B8)

#define EW_ROW_U8(id, ...)  [CPU_EW_##id] = u8_loop_##id,
#define EW_ROW_I8(id, ...)  [CPU_EW_##id] = i8_loop_##id,
#define EW_ROW_I16(id, ...) [CPU_EW_##id] = i16_loop_##id,
#define EW_ROW_I32(id, ...) [CPU_EW_##id] = i32_loop_##id,
#define EW_ROW_I64(id, ...) [CPU_EW_##id] = i64_loop_##id,
#define EW_ROW_B8(id, ...)  [CPU_EW_##id] = b8_loop_##id,
static const cpu_ew_fn loops[][CPU_EW_COUNT] = {
    [TN_BOOL] = {TN_EW_LIST_BOOL(EW_ROW_B8)},  [TN_UINT8] = {TN_EW_LIST_INT(EW_ROW_U8)},
    [TN_INT8] = {TN_EW_LIST_INT(EW_ROW_I8)},   [TN_INT16] = {TN_EW_LIST_INT(EW_ROW_I16)},
    [TN_INT32] = {TN_EW_LIST_INT(EW_ROW_I32)}, [TN_INT64] = {TN_EW_LIST_INT(EW_ROW_I64)}};

cpu_ew_fn CPU_FN(cpu_elementwise_int)(uint32_t op, tn_dtype dtype) { return loops[dtype][op]; }

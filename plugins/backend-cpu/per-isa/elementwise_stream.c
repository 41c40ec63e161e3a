/* SPDX-License-Identifier: Apache-2.0
 *
 * The float32 elementwise loops once more, for results that are stored past the caches (Note [Past the
 * caches]). The same expressions and functions, so the same bits. float64 and integers have none: the driver
 * stores their blocks past the caches instead, a little slower.
 */
#include "plugins/backend-cpu/ew_index.h"
#include "plugins/backend-cpu/per-isa/loop.h"
#include "plugins/backend-cpu/per-isa/math.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

#define EW_STREAM_SAME(id, nt, ns) CPU_EW_STREAM(f32_stream_##id, float, f32, f, TN_EXPR_FLT_##id, nt, ns)
#define EW_STREAM_BOOL(id, nt, ns)
#define EW_STREAM(id, name, nt, ns, dtypes, result, words) EW_STREAM_##result(id, nt, ns)
TN_EW_LIST_FLT(EW_STREAM)

#define EW_ROW_SAME(id) [CPU_EW_##id] = f32_stream_##id,
#define EW_ROW_BOOL(id)
#define EW_ROW(id, name, nt, ns, dtypes, result, words) EW_ROW_##result(id)
static const cpu_ew_fn loops[CPU_EW_COUNT] = {TN_EW_LIST_FLT(EW_ROW)};

cpu_ew_fn CPU_FN(cpu_elementwise_stream)(uint32_t op, tn_dtype dtype) {
  cpu_ew_fn vector = dtype == TN_FLOAT32 ? CPU_FN(cpu_elementwise_vector)(op, true) : NULL;
  return vector ? vector : dtype == TN_FLOAT32 ? loops[op] : NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices in and out of views (matrices.h).
 */
#include "plugins/backend-cpu/matrices.h"

void cpu_matrix_read(double *out, tn_matrix m) {
  for (int64_t i = 0; i < m.rows; ++i)
    cpu_read(out + i * m.columns, TN_FLOAT64, m.data + i * m.row_stride, m.dtype, m.column_stride, m.columns);
}

void cpu_matrix_write(tn_matrix m, const double *values) {
  for (int64_t i = 0; i < m.rows; ++i)
    cpu_write(m.data + i * m.row_stride, m.dtype, m.column_stride, values + i * m.columns, TN_FLOAT64,
              m.columns);
}

tn_status cpu_stacks(tn_call *call, uint32_t n_outputs, uint32_t n_operands, const tn_view *const *views,
                     const uint8_t *trailing, int64_t doubles, double flops, tn_stack_fn fn, void *ctx) {
  size_t bytes;
  if (__builtin_mul_overflow((size_t)doubles, sizeof(double), &bytes))
    return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "a matrix needs %lld doubles to be worked on", (long long)doubles);
  int64_t grain = 1 + (int64_t)(CPU_GRAIN / (flops + 1));
  return tn_stack_each(call, n_outputs, n_operands, views, trailing, bytes, grain, fn, ctx);
}

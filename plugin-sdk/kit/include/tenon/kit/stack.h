/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of matrices: [.., rows, columns] views walked matrix by matrix, for factorisations and solvers, which work on
 * one matrix at a time in memory of their own.
 */
#ifndef TENON_KIT_STACK_H
#define TENON_KIT_STACK_H

#include <tenon/kit/iter.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One matrix as it lies in memory (borrowed); strides in bytes, of any sign. A vector is one row, a single value
 * 1 x 1. */
typedef struct tn_matrix {
  char *data;
  tn_dtype dtype;
  int64_t rows, columns, row_stride, column_stride;
} tn_matrix;

/* The transpose, over the same memory. */
static inline tn_matrix tn_matrix_turned(tn_matrix m) {
  return (tn_matrix){m.data, m.dtype, m.columns, m.rows, m.column_stride, m.row_stride};
}

/* One place of the stacks: matrices[k] of operand k; `work` is the worker's own memory, aligned to 64 bytes, its
 * contents unspecified, never NULL; number counts places in row-major order. */
typedef struct tn_stack_place {
  tn_matrix matrices[TN_ITER_MAX_OPERANDS];
  void *work;
  int64_t number;
} tn_stack_place;

/* Works on one place; on a thread of the host's, under parallel_for's rules. A failure ends the walk. */
typedef tn_status (*tn_stack_fn)(const tn_stack_place *place, void *ctx);

/* Calls fn for every place of operand 0's stack; the stacks of the others broadcast to it. operands: outputs first;
 * trailing[k] is how many dims of operand k stand behind its stack: 2 a matrix, 1 a vector, 0 a value. Places whose
 * matrices have no elements are visited, too. work_bytes: what one call of fn needs, may be 0; grain: fewest places
 * worth a thread of their own. Memory is the call's scratch. Errors: no memory, shapes that do not broadcast, fn's. */
tn_status tn_stack_each(tn_call *call, uint32_t n_outputs, uint32_t n_operands,
                        const tn_view *const *operands, const uint8_t *trailing, size_t work_bytes,
                        int64_t grain, tn_stack_fn fn, void *ctx);

#ifdef __cplusplus
}
#endif
#endif

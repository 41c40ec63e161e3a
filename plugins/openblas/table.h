/* SPDX-License-Identifier: Apache-2.0
 *
 * Which products go to OpenBLAS and how they are cut: figures measured beforehand and committed. What stands
 * here depends on shapes, layouts, dtypes and the kernels in use, never on threads, time or load.
 */
#ifndef TENON_OPENBLAS_TABLE_H
#define TENON_OPENBLAS_TABLE_H

#include "plugins/openblas/library.h"

/* How the operands lie, rows first: transposed means unit stride down the columns. */
typedef struct ob_shape {
  int64_t m, n, k;
  bool wide; /* float64, else float32 */
  bool a_transposed, b_transposed;
} ob_shape;

/* A result is computed in pieces of rows x columns, one call each; 0 rows: not ours. */
typedef struct ob_plan {
  int64_t rows, columns;
} ob_plan;

/* Up to here the CPU plugin's loops over elements are as fast: asked first, so that declining costs little. (What its tiles
 * are faster with does not come here: it claims that before.) */
static inline bool ob_too_small(int64_t m, int64_t n, int64_t k) {
  double work = (double)m * (double)n * (double)k;
  return m == 1 || n == 1 ? work < 16 : work <= 200;
}
/* Elements that the largest operand or result of a product that is not too small has at least. Claimed, so that calls
 * with fewer are not even asked. */
enum { OB_PRODUCT_NUMEL = 16 };

/* m, n > 1 */
ob_plan ob_plan_matrices(ob_core core, const ob_shape *s);
/* n == 1: a matrix of m x k and a vector. */
ob_plan ob_plan_vector(ob_core core, const ob_shape *s);

/* In init: how many processors the machine has. */
void ob_plan_open(void);

#endif

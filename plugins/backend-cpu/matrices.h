/* SPDX-License-Identifier: Apache-2.0
 *
 * What the factorisations share: each matrix comes out of its view into row-major doubles, is worked on there, and goes
 * back. float32 is computed in double, too. Walking the stacks is the kit's (tenon/kit/stack.h).
 */
#ifndef CPU_MATRICES_H
#define CPU_MATRICES_H

#include <tenon/kit/stack.h>

#include "plugins/backend-cpu/cpu.h"

void cpu_matrix_read(double *out, tn_matrix m);
void cpu_matrix_write(tn_matrix m, const double *values);

/* tn_stack_each with `doubles` to work in and a grain from what one place costs in multiply-adds. */
tn_status cpu_stacks(tn_call *call, uint32_t n_outputs, uint32_t n_operands, const tn_view *const *views,
                     const uint8_t *trailing, int64_t doubles, double flops, tn_stack_fn fn, void *ctx);

#endif

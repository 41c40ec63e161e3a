/* SPDX-License-Identifier: Apache-2.0
 *
 * Factorisations through the LAPACK that libopenblas brings. The list is the manifest's, too.
 */
#ifndef TENON_OPENBLAS_LAPACK_H
#define TENON_OPENBLAS_LAPACK_H

#include <tenon/plugin.h>

#define OB_FACTOR_KERNELS(X)                        \
  X("linalg_cholesky_ex", ob_cholesky)              \
  X("linalg_lu_factor_ex", ob_lu_factor)            \
  X("linalg_lu_solve", ob_lu_solve)                 \
  X("linalg_solve_triangular", ob_solve_triangular) \
  X("linalg_qr", ob_qr)                             \
  X("_linalg_eigh", ob_eigh)                        \
  X("_linalg_svd", ob_svd)

#define OB_PROTOTYPE(op, fn) tn_status fn(tn_call *call, const tn_value *args, tn_value *out);
OB_FACTOR_KERNELS(OB_PROTOTYPE)
#undef OB_PROTOTYPE

/* Was this libopenblas built with LAPACK? Otherwise the kernels are not registered. */
bool ob_has_lapack(void);

#endif

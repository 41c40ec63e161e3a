/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators that OpenBLAS may serve: X(operator, function). Manifest, registration and prototypes are
 * made from this one list.
 */
#ifndef TENON_OPENBLAS_PRODUCT_H
#define TENON_OPENBLAS_PRODUCT_H

#include <tenon/plugin.h>

#define OB_KERNELS(X)    \
  X("mm", ob_mm)         \
  X("bmm", ob_mm)        \
  X("addmm", ob_addmm)   \
  X("baddbmm", ob_addmm) \
  X("mv", ob_mv)

tn_status ob_mm(tn_call *call, const tn_value *args, tn_value *out);    /* bmm too */
tn_status ob_addmm(tn_call *call, const tn_value *args, tn_value *out); /* baddbmm too */
tn_status ob_mv(tn_call *call, const tn_value *args, tn_value *out);

#endif

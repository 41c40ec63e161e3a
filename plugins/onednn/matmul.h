/* SPDX-License-Identifier: Apache-2.0
 *
 * The products that oneDNN may serve: X(operator, function). Manifest, registration and prototypes are made from this
 * one list.
 */
#ifndef TENON_ONEDNN_MATMUL_H
#define TENON_ONEDNN_MATMUL_H

#include <tenon/plugin.h>

#define OD_PRODUCTS(X) \
  X("mm", od_mm)       \
  X("bmm", od_mm)      \
  X("addmm", od_addmm) \
  X("baddbmm", od_addmm)

tn_status od_mm(tn_call *call, const tn_value *args, tn_value *out);    /* bmm too */
tn_status od_addmm(tn_call *call, const tn_value *args, tn_value *out); /* baddbmm too */

#endif

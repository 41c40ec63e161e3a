/* SPDX-License-Identifier: Apache-2.0
 *
 * Registration of a plugin's kernels from a static table, inside init:
 *
 *   static const tn_kernel_def kernels[] = {
 *     TN_KERNEL("acme", "add.Tensor", acme_add, TN_DTYPES_ALL),
 *     TN_KERNEL("acme", "mm", acme_mm, TN_DTYPE_BIT(TN_FLOAT32), .priority = 10, .max_rank = 2),
 *   };
 *   return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
 */
#ifndef TENON_KIT_REGISTER_H
#define TENON_KIT_REGISTER_H

#include <tenon/kit/status.h>

#define TN_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* An initialiser; further fields may follow by name. */
#define TN_KERNEL(key_name, op_name, function, dtype_mask, ...)                                    \
  {.struct_size = sizeof(tn_kernel_def), .op = (op_name), .key = (key_name), .fn = (function),     \
   .dtypes = (dtype_mask), .file = __FILE__, .line = __LINE__, ##__VA_ARGS__}

/* Registers n kernels; the first failure ends it (the host rolls the transaction back). */
static inline tn_status tn_register_kernels(tn_registration *reg, const tn_kernel_def *defs, size_t n) {
  for (size_t i = 0; i < n; i++) TN_TRY(tn_kit_host()->register_kernel(reg, &defs[i]));
  return TN_OK;
}

#endif

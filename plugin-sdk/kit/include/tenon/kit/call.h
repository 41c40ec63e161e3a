/* SPDX-License-Identifier: Apache-2.0
 *
 * Calling operators by name from a layer, a body or a gradient, and reading a result of a few bytes:
 *
 *   TN_KIT_OP(op_isnan, "isnan");
 *   TN_KIT_OP(op_any, "any");
 *   ...
 *   TN_TRY(TN_KIT_CALL(&op_isnan, &flags, tn_value_tensor(x)));
 *   status = TN_KIT_CALL(&op_any, &any, tn_value_tensor(flags));
 *
 * A name is looked up at its first call, when every operator is registered. Not for kernels of backends: those see
 * views and may not dispatch.
 */
#ifndef TENON_KIT_CALL_H
#define TENON_KIT_CALL_H

#include <tenon/kit/status.h>

typedef struct tn_kit_op {
  const char *name;
  const void *op; /* set once, by whichever thread comes first */
} tn_kit_op;
#define TN_KIT_OP(variable, op_name) static tn_kit_op variable = {(op_name), NULL}

/* Calls from the top with one value per argument of the schema, absent ones and defaults included (tn_value_none()
 * is an absent one). out: as in tn_kernel_fn. TN_ERR_NOT_FOUND if there is no operator of that name. */
tn_status tn_kit_call(tn_kit_op *op, const tn_value *args, uint32_t n_args, tn_value *out);
/* The same for an operator with one Tensor result. *out_tensor: owned; NULL on failure. */
tn_status tn_kit_call_tensor(tn_kit_op *op, const tn_value *args, uint32_t n_args, tn_tensor **out_tensor);
#define TN_KIT_CALL(op, out_tensor, ...)                            \
  tn_kit_call_tensor((op), (const tn_value[]){__VA_ARGS__},         \
                     (uint32_t)(sizeof((const tn_value[]){__VA_ARGS__}) / sizeof(tn_value)), (out_tensor))

/* Copies the elements of a small contiguous tensor of any device to host memory, and waits for them. size_bytes: of
 * all of them, else TN_ERR_INVALID_ARGUMENT. */
tn_status tn_kit_read(tn_tensor *t, void *out, size_t size_bytes);

#endif

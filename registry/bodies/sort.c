/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators that are sort or index in other words.
 */
#include "registry/bodies/compose.h"

/* args: self stable dim descending */
TN_BODY(sort_stable) {
  tn_tensor *t[2] = {NULL};
  tn_status status = tn_sort(args[0].u.t, args[2].u.i, args[3].u.i, &t[0], &t[1]);
  for (int i = 0; i < 2 && status == TN_OK; i++) out[i] = tn_value_tensor(t[i]);
  return status;
}

TN_BODY(argsort) {
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TNI_STEP(tn_sort(args[0].u.t, args[1].u.i, args[2].u.i, &t[0], &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[1]));
done:
  TNI_RELEASE(t);
  return status;
}

/* args: self mask */
TN_BODY(masked_select) {
  enum { WIDE, MASK, FLAT, FLAT_MASK, RESULT, N };
  tn_tensor *self = args[0].u.t, *mask = args[1].u.t, *t[N] = {NULL};
  uint32_t ndim;
  tn_dim sizes[TN_MAX_RANK];
  if (tn_tensor_dtype(mask) != TN_BOOL)
    return tn_fail(TN_ERR_DTYPE, "expected dtype bool for 'mask', got %s",
                   tn_dtype_name(tn_tensor_dtype(mask)));
  TN_TRY(tn_shape_broadcast(tni_ndim(self), tn_tensor_sizes(self), tni_ndim(mask), tn_tensor_sizes(mask),
                            &ndim, sizes));
  tn_status status;
  TNI_STEP(tn_expand(self, sizes, ndim, false, &t[WIDE]));
  TNI_STEP(tn_expand(mask, sizes, ndim, false, &t[MASK]));
  TNI_STEP(tn_reshape(t[WIDE], (const int64_t[]){-1}, 1, &t[FLAT]));
  TNI_STEP(tn_reshape(t[MASK], (const int64_t[]){-1}, 1, &t[FLAT_MASK]));
  TNI_STEP(tn_index(t[FLAT], &t[FLAT_MASK], 1, &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
done:
  TNI_RELEASE(t);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The pooling operators that are parts of others: max_pool2d drops the indices, a mean over whole planes is a
 * mean, and the second derivative of max pooling picks what the indices point at.
 */
#include "registry/bodies/compose.h"

/* args: self kernel_size stride padding dilation ceil_mode */
TN_BODY(max_pool2d) {
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TNI_STEP(tn_max_pool2d_with_indices(args[0].u.t, args[1].u.ints, args[1].count, args[2].u.ints,
                                      args[2].count, args[3].u.ints, args[3].count, args[4].u.ints,
                                      args[4].count, args[5].u.i, &t[0], &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[0]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(adaptive_avg_pool2d) {
  tn_tensor *result = NULL;
  return tni_result(tn__adaptive_avg_pool2d(args[0].u.t, args[1].u.ints, args[1].count, &result), &result,
                    out);
}

/* args: grad indices */
TN_BODY(max_pool2d_double_backward) {
  enum { PLANES, PLACES, PICKED, RESULT, N };
  tn_tensor *grad = args[0].u.t, *indices = args[1].u.t, *t[N] = {NULL};
  uint32_t ndim = tni_ndim(grad);
  if (ndim < 2 || tni_ndim(indices) != ndim ||
      !tn_shape_equal(ndim - 2, tn_tensor_sizes(grad), ndim - 2, tn_tensor_sizes(indices)))
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "expected 'indices' for the planes of 'grad', got shapes %s and %s",
                   tni_shape_text(indices, TN_SHAPE_TEXT), tni_shape_text(grad, TN_SHAPE_TEXT));
  tn_status status;
  TNI_STEP(tn_flatten(grad, -2, -1, &t[PLANES]));
  TNI_STEP(tn_flatten(indices, -2, -1, &t[PLACES]));
  TNI_STEP(tn_gather(t[PLANES], -1, t[PLACES], false, &t[PICKED]));
  TNI_STEP(tn_reshape(t[PICKED], tn_tensor_sizes(indices), ndim, &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
done:
  TNI_RELEASE(t);
  return status;
}

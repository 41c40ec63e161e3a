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

/* ------------------------------------------------------------------ one dim */

/* self [N, C, L] or [C, L] as images of one row. */
static tn_status as_rows(tn_tensor *self, tn_tensor **out_rows) {
  if (tni_ndim(self) == 2 || tni_ndim(self) == 3) return tn_unsqueeze(self, -2, out_rows);
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected 'self' [N, C, L] or [C, L], got shape %s",
                 tni_shape_text(self, TN_SHAPE_TEXT));
}

static tn_status one_entry(const char *name, const tn_value *list) {
  if (list->count == 1) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected 1 entry in %s, got %u", name, list->count);
}

/* The results without the row dim, handed over. */
static tn_status leave_rows(tn_tensor *const *results, size_t n, tn_value *out) {
  tn_tensor *flat[2] = {NULL};
  tn_status status = TN_OK;
  for (size_t i = 0; i < n && status == TN_OK; i++) status = tn_squeeze_dim(results[i], -2, &flat[i]);
  for (size_t i = 0; i < n && status == TN_OK; i++) out[i] = tn_value_tensor(tni_take(&flat[i]));
  TNI_RELEASE(flat);
  return status;
}

/* args: self kernel_size stride padding dilation ceil_mode */
static tn_status max_pool1d(const tn_value *args, size_t n_results, tn_value *out) {
  enum { ROWS, VALUES, PLACES, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(one_entry("kernel_size", &args[1]));
  if (args[2].count) TNI_STEP(one_entry("stride", &args[2]));
  TNI_STEP(one_entry("padding", &args[3]));
  TNI_STEP(one_entry("dilation", &args[4]));
  const int64_t kernel[2] = {1, args[1].u.ints[0]},
                stride[2] = {1, args[2].count ? args[2].u.ints[0] : kernel[1]};
  const int64_t padding[2] = {0, args[3].u.ints[0]}, dilation[2] = {1, args[4].u.ints[0]};
  TNI_STEP(as_rows(args[0].u.t, &t[ROWS]));
  TNI_STEP(tn_max_pool2d_with_indices(t[ROWS], kernel, 2, stride, 2, padding, 2, dilation, 2, args[5].u.i,
                                      &t[VALUES], &t[PLACES]));
  TNI_STEP(leave_rows(&t[VALUES], n_results, out));
done:
  TNI_RELEASE(t);
  return status;
}
TN_BODY(max_pool1d) { return max_pool1d(args, 1, out); }
TN_BODY(max_pool1d_with_indices) { return max_pool1d(args, 2, out); }

/* args: self kernel_size stride padding ceil_mode count_include_pad */
TN_BODY(avg_pool1d) {
  enum { ROWS, VALUES, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(one_entry("kernel_size", &args[1]));
  if (args[2].count) TNI_STEP(one_entry("stride", &args[2]));
  TNI_STEP(one_entry("padding", &args[3]));
  const int64_t kernel[2] = {1, args[1].u.ints[0]},
                stride[2] = {1, args[2].count ? args[2].u.ints[0] : kernel[1]};
  const int64_t padding[2] = {0, args[3].u.ints[0]};
  TNI_STEP(as_rows(args[0].u.t, &t[ROWS]));
  TNI_STEP(
      tn_avg_pool2d(t[ROWS], kernel, 2, stride, 2, padding, 2, args[4].u.i, args[5].u.i, NULL, &t[VALUES]));
  TNI_STEP(leave_rows(&t[VALUES], 1, out));
done:
  TNI_RELEASE(t);
  return status;
}

/* args: self output_size */
TN_BODY(adaptive_avg_pool1d) {
  enum { ROWS, VALUES, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(one_entry("output_size", &args[1]));
  TNI_STEP(as_rows(args[0].u.t, &t[ROWS]));
  TNI_STEP(tn_adaptive_avg_pool2d(t[ROWS], (const int64_t[]){1, args[1].u.ints[0]}, 2, &t[VALUES]));
  TNI_STEP(leave_rows(&t[VALUES], 1, out));
done:
  TNI_RELEASE(t);
  return status;
}

/* args: self output_size */
TN_BODY(adaptive_max_pool1d) {
  enum { ROWS, VALUES, PLACES, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(one_entry("output_size", &args[1]));
  TNI_STEP(as_rows(args[0].u.t, &t[ROWS]));
  TNI_STEP(
      tn_adaptive_max_pool2d(t[ROWS], (const int64_t[]){1, args[1].u.ints[0]}, 2, &t[VALUES], &t[PLACES]));
  TNI_STEP(leave_rows(&t[VALUES], 2, out));
done:
  TNI_RELEASE(t);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * conv1d to conv3d and the transposed ones: the number of spatial dims is checked, a single image becomes a batch
 * of one, and `convolution` does the rest.
 */
#include "registry/bodies/compose.h"

/* stride, padding, dilation, output_padding: list arguments, the last NULL if not transposed. */
typedef struct conv_lists {
  const tn_value *stride, *padding, *dilation, *output_padding;
} conv_lists;

static tn_status convolve(const tn_value *args, const conv_lists *lists, int64_t groups, uint32_t n_spatial,
                          tn_value *out) {
  enum { BATCH, CONVOLVED, RESULT, N };
  static const int64_t none[3] = {0};
  tn_tensor *input = args[0].u.t, *weight = args[1].u.t, *t[N] = {NULL};
  bool single = tni_ndim(input) == n_spatial + 1;
  if ((!single && tni_ndim(input) != n_spatial + 2) || tni_ndim(weight) != n_spatial + 2)
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "expected 'input' with %u or %u dims and 'weight' with %u, got shapes %s and %s",
                   n_spatial + 1, n_spatial + 2, n_spatial + 2, tni_shape_text(input, TN_SHAPE_TEXT),
                   tni_shape_text(weight, TN_SHAPE_TEXT));
  tn_status status = TN_OK;
  if (single) TNI_STEP(tn_unsqueeze(input, 0, &t[BATCH]));
  const tn_value *extra = lists->output_padding;
  TNI_STEP(tn_convolution(single ? t[BATCH] : input, weight, tni_tensor_or_null(&args[2]),
                          lists->stride->u.ints, lists->stride->count, lists->padding->u.ints,
                          lists->padding->count, lists->dilation->u.ints, lists->dilation->count,
                          extra != NULL, extra ? extra->u.ints : none, extra ? extra->count : n_spatial,
                          groups, &t[CONVOLVED]));
  if (single) TNI_STEP(tn_squeeze_dim(t[CONVOLVED], 0, &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[single ? RESULT : CONVOLVED]));
done:
  TNI_RELEASE(t);
  return status;
}

/* args: input weight bias stride padding dilation groups */
static tn_status forward(const tn_value *args, uint32_t n_spatial, tn_value *out) {
  conv_lists lists = {&args[3], &args[4], &args[5], NULL};
  return convolve(args, &lists, args[6].u.i, n_spatial, out);
}
/* args: input weight bias stride padding output_padding groups dilation */
static tn_status transposed(const tn_value *args, uint32_t n_spatial, tn_value *out) {
  conv_lists lists = {&args[3], &args[4], &args[7], &args[5]};
  return convolve(args, &lists, args[6].u.i, n_spatial, out);
}

TN_BODY(conv1d) { return forward(args, 1, out); }
TN_BODY(conv2d) { return forward(args, 2, out); }
TN_BODY(conv3d) { return forward(args, 3, out); }
TN_BODY(conv_transpose1d) { return transposed(args, 1, out); }
TN_BODY(conv_transpose2d) { return transposed(args, 2, out); }

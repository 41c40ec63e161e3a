/* SPDX-License-Identifier: Apache-2.0
 *
 * conv1d to conv3d and the transposed ones: the number of spatial dims is checked, a single image becomes a batch
 * of one, and `convolution` does the rest.
 */
#include <string.h>

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
TN_BODY(conv_transpose3d) { return transposed(args, 3, out); }

/* ------------------------------------------------------------------ padding by a word */

/* What "same" adds before and behind along spatial dim i: dilation * (kernel - 1), the odd one behind. */
static void same_padding(const tn_value *args, uint32_t n_spatial, uint32_t i, int64_t *out_before,
                         int64_t *out_behind) {
  const tn_value *dilation = &args[5];
  const tn_tensor *weight = args[1].u.t;
  int64_t step = dilation->u.ints[dilation->count == 1 ? 0 : i];
  int64_t all = 0;
  if (tni_ndim(weight) == n_spatial + 2) all = step * (TN_DIM_INT(tn_tensor_sizes(weight)[i + 2]) - 1);
  *out_before = all / 2;
  *out_behind = all - all / 2;
}

static tn_status check_same(const tn_value *args, uint32_t n_spatial) {
  const tn_value *stride = &args[3], *dilation = &args[5];
  for (uint32_t i = 0; i < stride->count; i++)
    if (stride->u.ints[i] != 1)
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected stride 1 with padding \"same\", got %lld",
                     (long long)stride->u.ints[i]);
  if (dilation->count == 1 || dilation->count == n_spatial) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected %u entries (or 1) in dilation, got %u", n_spatial,
                 dilation->count);
}

/* Where before and behind differ, `behind` is put on both sides, and the first position, which is one too many,
 * is left out of the result. */
static tn_status convolve_same(const tn_value *args, uint32_t n_spatial, tn_value *out) {
  int64_t padding[3] = {0};
  tn_value whole = {0};
  tn_tensor *part[2] = {NULL};
  bool cut = false;
  TN_TRY(check_same(args, n_spatial));
  for (uint32_t i = 0; i < n_spatial; i++) {
    int64_t before;
    same_padding(args, n_spatial, i, &before, &padding[i]);
    cut |= before != padding[i];
  }
  const tn_value list = {.kind = TN_VAL_LIST, .elem = TN_VAL_INT, .count = n_spatial, .u.ints = padding};
  conv_lists lists = {&args[3], &list, &args[5], NULL};
  if (!cut) return convolve(args, &lists, args[6].u.i, n_spatial, out);
  TN_TRY(convolve(args, &lists, args[6].u.i, n_spatial, &whole));
  tn_status status = TN_OK;
  part[0] = whole.u.t;
  for (uint32_t i = 0; i < n_spatial; i++) {
    int64_t before, behind, dim = (int64_t)tni_ndim(part[0]) - n_spatial + i;
    same_padding(args, n_spatial, i, &before, &behind);
    if (before == behind) continue;
    TNI_STEP(tn_narrow(part[0], dim, 1, TN_DIM_INT(tn_tensor_sizes(part[0])[dim]) - 1, &part[1]));
    tn_tensor_release(part[0]);
    part[0] = tni_take(&part[1]);
  }
  bool last = tni_ndim(part[0]) == 4 && tn_tensor_strides(part[0])[1] == 1;
  TNI_STEP(tn_clone(part[0], last ? TN_CHANNELS_LAST : TN_CONTIGUOUS_FORMAT, &part[1]));
  out[0] = tn_value_tensor(tni_take(&part[1]));
done:
  TNI_RELEASE(part);
  return status;
}

/* args: input weight bias stride padding dilation groups; padding is a word */
static tn_status by_word(const tn_value *args, uint32_t n_spatial, tn_value *out) {
  static const int64_t none[1] = {0};
  const char *word = args[4].u.s;
  if (strcmp(word, "same") == 0) return convolve_same(args, n_spatial, out);
  if (strcmp(word, "valid") != 0)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected padding \"same\" or \"valid\", got \"%s\"", word);
  tn_value list = {.kind = TN_VAL_LIST, .elem = TN_VAL_INT, .count = 1, .u.ints = none};
  conv_lists lists = {&args[3], &list, &args[5], NULL};
  return convolve(args, &lists, args[6].u.i, n_spatial, out);
}

TN_BODY(conv1d_padding) { return by_word(args, 1, out); }
TN_BODY(conv2d_padding) { return by_word(args, 2, out); }
TN_BODY(conv3d_padding) { return by_word(args, 3, out); }

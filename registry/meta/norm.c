/* SPDX-License-Identifier: Apache-2.0
 *
 * rms, batch and group norm with their gradients. Statistics are float32 for half types; results have the
 * input's memory order.
 */
#include "registry/meta/rules.h"

static tn_status check_mask(const tn_value *mask, uint32_t n) {
  if (mask->count == n) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected %u entries in output_mask, got %u", n, mask->count);
}

/* args: input normalized_shape weight eps */
TN_META(fused_rms_norm) {
  const tn_view *input = args[0].u.v;
  const tn_value none = {0};
  TN_TRY(tni_check_norm(input, &args[1], &args[2], &none));
  tni_desc_like(&meta->out[0], input, TN_DESC_CONTIGUOUS);
  tni_desc_statistics(&meta->out[1], input, args[1].count);
  return TN_OK;
}

/* args: grad_out input normalized_shape rstd weight output_mask */
TN_META(fused_rms_norm_backward) {
  const tn_view *grad = args[0].u.v, *input = args[1].u.v;
  const tn_value none = {0};
  uint32_t n = args[2].count;
  TN_TRY(tni_check_norm(input, &args[2], &args[4], &none));
  TN_TRY(tni_check_dtype_is("grad_out", grad, input->dtype));
  TN_TRY(tni_check_shape_is("grad_out", grad, input->ndim, input->sizes));
  TN_TRY(tni_check_statistics("rstd", args[3].u.v, input, n));
  TN_TRY(check_mask(&args[5], 2));
  tni_desc_like(&meta->out[0], input, TN_DESC_CONTIGUOUS);
  tni_desc_set(&meta->out[1], input->dtype, n, args[2].u.ints, TN_DESC_CONTIGUOUS);
  for (uint32_t i = 0; i < 2; i++) meta->out[i].absent = !args[5].u.bools[i];
  return TN_OK;
}

/* ------------------------------------------------------------------ batch and group norm */

/* A vector of channels, if given. */
static tn_status check_channels(const char *name, const tn_value *value, const tn_view *input,
                                tn_dtype dtype) {
  if (!tni_given(value)) return TN_OK;
  if (dtype != TN_DTYPE_NONE) TN_TRY(tni_check_dtype_is(name, value->u.v, dtype));
  return tni_check_shape_is(name, value->u.v, 1, input->sizes + 1);
}

static tn_status check_images(const tn_view *input) {
  TN_TRY(tni_check_float("input", input->dtype));
  if (input->ndim >= 2) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected 'input' with at least 2 dims, got shape %s",
                 tn_shape_format(input->ndim, input->sizes, TN_SHAPE_TEXT));
}

static void desc_images(tn_desc *desc, const tn_view *input) {
  tni_desc_like(desc, input, TN_DESC_CONTIGUOUS);
  if (tni_suggests_channels_last(input)) tni_desc_channels_last(desc);
}

static void desc_channels(tn_desc *desc, const tn_view *input, tn_dtype dtype) {
  tni_desc_head(desc, dtype, 1, TN_DESC_CONTIGUOUS);
  desc->sizes[0] = input->sizes[1];
}

/* args: input weight bias mean var eps */
TN_META(batch_norm_forward) {
  const tn_view *input = args[0].u.v;
  TN_TRY(check_images(input));
  TN_TRY(check_channels("weight", &args[1], input, TN_DTYPE_NONE));
  TN_TRY(check_channels("bias", &args[2], input, TN_DTYPE_NONE));
  TN_TRY(check_channels("mean", &args[3], input, TN_DTYPE_NONE));
  TN_TRY(check_channels("var", &args[4], input, TN_DTYPE_NONE));
  if (tni_given(&args[3]) != tni_given(&args[4]))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected mean and var both or neither");
  desc_images(&meta->out[0], input);
  for (int i = 1; i < 4; i++) desc_channels(&meta->out[i], input, tni_statistics_dtype(input->dtype));
  return TN_OK;
}

static void desc_gradients(tn_meta *meta, const tn_view *input, const tn_value *mask) {
  desc_images(&meta->out[0], input);
  for (int i = 1; i < 3; i++) desc_channels(&meta->out[i], input, input->dtype);
  for (uint32_t i = 0; i < 3; i++) meta->out[i].absent = !mask->u.bools[i];
}

/* args: grad_out input weight running_mean running_var save_mean save_invstd train eps output_mask */
TN_META(native_batch_norm_backward) {
  const tn_view *grad = args[0].u.v, *input = args[1].u.v;
  static const char *const names[] = {"weight", "running_mean", "running_var", "save_mean", "save_invstd"};
  TN_TRY(check_images(input));
  TN_TRY(tni_check_dtype_is("grad_out", grad, input->dtype));
  TN_TRY(tni_check_shape_is("grad_out", grad, input->ndim, input->sizes));
  bool train = args[7].u.i;
  for (int i = 0; i < 5; i++) {
    bool used = i == 0 || (train ? i > 2 : i < 3);
    if (used) TN_TRY(check_channels(names[i], &args[2 + i], input, TN_DTYPE_NONE));
    if (used && i > 0 && !tni_given(&args[2 + i]))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected '%s' %s training", names[i],
                     train ? "in" : "outside");
  }
  TN_TRY(check_mask(&args[9], 3));
  desc_gradients(meta, input, &args[9]);
  return TN_OK;
}

/* The numbers say again what the input's shape says: [N, C, ...] with HxW elements a channel. */
static tn_status check_groups(const tn_view *input, const tn_value *numbers) {
  TN_TRY(check_images(input));
  tn_dim area = TN_DIM(1);
  for (uint32_t i = 2; i < input->ndim; i++) area = TN_DIM_MUL(area, input->sizes[i]);
  int64_t groups = numbers[3].u.i;
  if (TN_DIM_NE(numbers[0].u.i, input->sizes[0]) || TN_DIM_NE(numbers[1].u.i, input->sizes[1]) ||
      TN_DIM_NE(numbers[2].u.i, area))
    return TN_FAIL(
        TN_ERR_INVALID_ARGUMENT, "expected N, C and HxW of 'input' of shape %s, got %lld, %lld and %lld",
        tn_shape_format(input->ndim, input->sizes, TN_SHAPE_TEXT), (long long)TN_DIM_INT(numbers[0].u.i),
        (long long)TN_DIM_INT(numbers[1].u.i), (long long)TN_DIM_INT(numbers[2].u.i));
  if (groups < 1 || TN_DIM_NE(TN_DIM_MOD(input->sizes[1], groups), 0))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                   "expected 'input' [N, C, ...] with C divisible by %lld groups, got shape %s",
                   (long long)groups, tn_shape_format(input->ndim, input->sizes, TN_SHAPE_TEXT));
  return TN_OK;
}

static void desc_groups(tn_desc *desc, const tn_view *input, int64_t groups) {
  tni_desc_head(desc, tni_statistics_dtype(input->dtype), 2, TN_DESC_CONTIGUOUS);
  desc->sizes[0] = input->sizes[0];
  desc->sizes[1] = TN_DIM(groups);
}

/* args: input weight bias N C HxW group eps */
TN_META(native_group_norm) {
  const tn_view *input = args[0].u.v;
  TN_TRY(check_groups(input, &args[3]));
  TN_TRY(check_channels("weight", &args[1], input, TN_DTYPE_NONE));
  TN_TRY(check_channels("bias", &args[2], input, TN_DTYPE_NONE));
  desc_images(&meta->out[0], input);
  for (int i = 1; i < 3; i++) desc_groups(&meta->out[i], input, args[6].u.i);
  return TN_OK;
}

/* args: grad_out input mean rstd weight N C HxW group output_mask */
TN_META(native_group_norm_backward) {
  const tn_view *grad = args[0].u.v, *input = args[1].u.v;
  TN_TRY(check_groups(input, &args[5]));
  TN_TRY(tni_check_dtype_is("grad_out", grad, input->dtype));
  TN_TRY(tni_check_shape_is("grad_out", grad, input->ndim, input->sizes));
  const tn_dim sizes[] = {input->sizes[0], TN_DIM(args[8].u.i)};
  TN_TRY(tni_check_shape_is("mean", args[2].u.v, 2, sizes));
  TN_TRY(tni_check_shape_is("rstd", args[3].u.v, 2, sizes));
  TN_TRY(check_channels("weight", &args[4], input, TN_DTYPE_NONE));
  TN_TRY(check_mask(&args[9], 3));
  desc_gradients(meta, input, &args[9]);
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax, nll_loss, embedding and layer norm. Auxiliary results have one format on every backend:
 * total_weight is 0-d in self's dtype, means and reciprocal deviations of layer norm are float32
 * for half types.
 */
#include "registry/meta/rules.h"

TN_META(softmax) {
  const tn_view *self = args[0].u.v;
  TN_TRY(tni_check_float("self", self->dtype));
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, self->ndim, &dim));
  bool to_float = args[2].u.i;
  if (to_float && self->dtype != TN_FLOAT16)
    return TN_FAIL(TN_ERR_DTYPE, "expected dtype float16 with half_to_float, got %s",
                   tn_kit_dtype_name(self->dtype));
  tni_desc_set(&meta->out[0], to_float ? TN_FLOAT32 : self->dtype, self->ndim, self->sizes,
               TN_DESC_CONTIGUOUS);
  return TN_OK;
}

TN_META(softmax_backward) {
  const tn_view *grad = args[0].u.v, *output = args[1].u.v;
  tn_dtype dtype = (tn_dtype)args[3].u.i;
  TN_TRY(tni_check_float("grad_output", grad->dtype));
  TN_TRY(tni_check_dtype_is("output", output, grad->dtype));
  TN_TRY(tni_check_shape_is("grad_output", grad, output->ndim, output->sizes));
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[2].u.i, output->ndim, &dim));
  if (dtype != grad->dtype && !(dtype == TN_FLOAT16 && grad->dtype == TN_FLOAT32))
    return TN_FAIL(TN_ERR_DTYPE, "expected input_dtype %s (or float16 for float32), got %s",
                   tn_kit_dtype_name(grad->dtype), tn_kit_dtype_name(dtype));
  tni_desc_set(&meta->out[0], dtype, output->ndim, output->sizes, TN_DESC_CONTIGUOUS);
  return TN_OK;
}

/* self [N, C] or [C], target [N] or 0-d, weight [C]; reduction 0 to 2. */
static tn_status check_nll(const tn_view *self, const tn_view *target, const tn_value *weight,
                           int64_t reduction) {
  TN_TRY(tni_check_float("self", self->dtype));
  if (self->ndim != 1 && self->ndim != 2)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected 'self' of shape [N, C] or [C], got %s",
                   tn_shape_format(self->ndim, self->sizes, TN_SHAPE_TEXT));
  TN_TRY(tni_check_index("target", target, false));
  TN_TRY(tni_check_shape_is("target", target, (uint32_t)self->ndim - 1, self->sizes));
  if (tni_given(weight)) {
    TN_TRY(tni_check_dtype_is("weight", weight->u.v, self->dtype));
    TN_TRY(tni_check_shape_is("weight", weight->u.v, 1, self->sizes + self->ndim - 1));
  }
  if (reduction >= 0 && reduction <= 2) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected reduction 0 (none), 1 (mean) or 2 (sum), got %lld",
                 (long long)reduction);
}

TN_META(nll_loss_forward) {
  const tn_view *self = args[0].u.v;
  TN_TRY(check_nll(self, args[1].u.v, &args[2], args[3].u.i));
  bool rows = args[3].u.i == 0 && self->ndim == 2;
  tni_desc_set(&meta->out[0], self->dtype, rows ? 1 : 0, self->sizes, TN_DESC_CONTIGUOUS);
  tni_desc_head(&meta->out[1], self->dtype, 0, TN_DESC_CONTIGUOUS);
  return TN_OK;
}

TN_META(nll_loss_backward) {
  const tn_view *grad = args[0].u.v, *self = args[1].u.v;
  TN_TRY(check_nll(self, args[2].u.v, &args[3], args[4].u.i));
  bool rows = args[4].u.i == 0 && self->ndim == 2;
  TN_TRY(tni_check_dtype_is("grad_output", grad, self->dtype));
  TN_TRY(tni_check_shape_is("grad_output", grad, rows ? 1 : 0, self->sizes));
  TN_TRY(tni_check_dtype_is("total_weight", args[6].u.v, self->dtype));
  TN_TRY(tni_check_ndim("total_weight", args[6].u.v, 0));
  tni_desc_like(&meta->out[0], self, TN_DESC_CONTIGUOUS);
  return TN_OK;
}

TN_META(embedding) {
  const tn_view *weight = args[0].u.v, *indices = args[1].u.v;
  TN_TRY(tni_check_ndim("weight", weight, 2));
  TN_TRY(tni_check_index("indices", indices, true));
  TN_TRY(tni_check_rank((size_t)indices->ndim + 1));
  tn_desc *desc = &meta->out[0];
  tni_desc_set(desc, weight->dtype, indices->ndim, indices->sizes, TN_DESC_CONTIGUOUS);
  desc->sizes[desc->ndim++] = weight->sizes[1];
  return TN_OK;
}

TN_META(embedding_dense_backward) {
  const tn_view *grad = args[0].u.v, *indices = args[1].u.v;
  TN_TRY(tni_check_float("grad_output", grad->dtype));
  TN_TRY(tni_check_index("indices", indices, true));
  if (grad->ndim != indices->ndim + 1 ||
      !tn_shape_equal(indices->ndim, grad->sizes, indices->ndim, indices->sizes))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected 'grad_output' of shape %s with one more dim, got %s",
                   tn_shape_format(indices->ndim, indices->sizes, TN_SHAPE_TEXT),
                   tn_shape_format(grad->ndim, grad->sizes, TN_SHAPE_TEXT));
  if (TN_DIM_LT(args[2].u.i, 0))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected num_weights of at least 0, got %lld",
                   (long long)TN_DIM_INT(args[2].u.i));
  tni_desc_head(&meta->out[0], grad->dtype, 2, TN_DESC_CONTIGUOUS);
  meta->out[0].sizes[0] = args[2].u.i;
  meta->out[0].sizes[1] = grad->sizes[grad->ndim - 1];
  return TN_OK;
}

tn_status tni_check_norm(const tn_view *input, const tn_value *shape, const tn_value *weight,
                         const tn_value *bias) {
  TN_TRY(tni_check_float("input", input->dtype));
  uint32_t n = shape->count;
  if (n == 0 || n > input->ndim || !tn_shape_equal(n, shape->u.ints, n, input->sizes + input->ndim - n))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected the last sizes of shape %s as normalized_shape, got %s",
                   tn_shape_format(input->ndim, input->sizes, TN_SHAPE_TEXT),
                   tn_shape_format(n, shape->u.ints, TN_SHAPE_TEXT));
  if (tni_given(weight)) {
    TN_TRY(tni_check_dtype_is("weight", weight->u.v, input->dtype));
    TN_TRY(tni_check_shape_is("weight", weight->u.v, n, shape->u.ints));
  }
  if (tni_given(bias)) {
    TN_TRY(tni_check_dtype_is("bias", bias->u.v, input->dtype));
    TN_TRY(tni_check_shape_is("bias", bias->u.v, n, shape->u.ints));
  }
  return TN_OK;
}

void tni_desc_statistics(tn_desc *desc, const tn_view *input, uint32_t n) {
  tni_desc_set(desc, tni_statistics_dtype(input->dtype), input->ndim, input->sizes, TN_DESC_CONTIGUOUS);
  for (uint32_t i = input->ndim - n; i < input->ndim; i++) desc->sizes[i] = TN_DIM(1);
}

TN_META(native_layer_norm) {
  const tn_view *input = args[0].u.v;
  TN_TRY(tni_check_norm(input, &args[1], &args[2], &args[3]));
  tni_desc_like(&meta->out[0], input, TN_DESC_CONTIGUOUS);
  tni_desc_statistics(&meta->out[1], input, args[1].count);
  tni_desc_statistics(&meta->out[2], input, args[1].count);
  return TN_OK;
}

tn_status tni_check_statistics(const char *name, const tn_view *view, const tn_view *input, uint32_t n) {
  tn_desc want;
  tni_desc_statistics(&want, input, n);
  TN_TRY(tni_check_dtype_is(name, view, want.dtype));
  return tni_check_shape_is(name, view, want.ndim, want.sizes);
}

TN_META(native_layer_norm_backward) {
  const tn_view *grad = args[0].u.v, *input = args[1].u.v;
  uint32_t n = args[2].count;
  TN_TRY(tni_check_norm(input, &args[2], &args[5], &args[6]));
  TN_TRY(tni_check_dtype_is("grad_out", grad, input->dtype));
  TN_TRY(tni_check_shape_is("grad_out", grad, input->ndim, input->sizes));
  TN_TRY(tni_check_statistics("mean", args[3].u.v, input, n));
  TN_TRY(tni_check_statistics("rstd", args[4].u.v, input, n));
  tni_desc_like(&meta->out[0], input, TN_DESC_CONTIGUOUS);
  tni_desc_set(&meta->out[1], input->dtype, n, args[2].u.ints, TN_DESC_CONTIGUOUS);
  tni_desc_set(&meta->out[2], input->dtype, n, args[2].u.ints, TN_DESC_CONTIGUOUS);
  for (uint32_t i = 0; i < 3; i++) meta->out[i].absent = !args[7].u.bools[i];
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution and its gradients. Lists of spatial numbers have one entry a spatial dim, or one for all. Results
 * are channels_last if input or weight suggests it (2 spatial dims), as ATen has it.
 */
#include "registry/meta/rules.h"

/* Factors beyond this are mistakes; below it no size overflows. */
#define MOST_FACTOR ((int64_t)1 << 20)

/* The arguments that convolution and its gradient share; `lists` stands at stride. */
typedef struct conv_rule {
  const tn_view *input, *weight;
  const tn_value *lists; /* stride, padding, dilation, transposed, output_padding, groups */
  uint32_t n_spatial;
  bool transposed;
} conv_rule;

static tn_dim entry(const tn_value *list, uint32_t i) { return list->u.ints[list->count == 1 ? 0 : i]; }

static tn_status check_list(const char *name, const tn_value *list, uint32_t n, int64_t least) {
  if (list->count != n && list->count != 1)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected %u entries (or 1) in %s, got %u", n, name, list->count);
  for (uint32_t i = 0; i < list->count; i++)
    if (TN_DIM_LT(list->u.ints[i], least) || TN_DIM_GT(list->u.ints[i], MOST_FACTOR))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected entries of %s from %lld to %lld, got %lld", name,
                     (long long)least, (long long)MOST_FACTOR, (long long)TN_DIM_INT(list->u.ints[i]));
  return TN_OK;
}

static tn_status check_lists(const conv_rule *r) {
  uint32_t n = r->n_spatial;
  TN_TRY(check_list("stride", &r->lists[0], n, 1));
  TN_TRY(check_list("padding", &r->lists[1], n, 0));
  TN_TRY(check_list("dilation", &r->lists[2], n, 1));
  TN_TRY(check_list("output_padding", &r->lists[4], n, 0));
  for (uint32_t i = 0; i < n && r->transposed; i++) {
    tn_dim extra = entry(&r->lists[4], i);
    if (TN_DIM_GE(extra, entry(&r->lists[0], i)) && TN_DIM_GE(extra, entry(&r->lists[2], i)))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected output_padding below stride or dilation, got %lld",
                     (long long)TN_DIM_INT(extra));
  }
  return TN_OK;
}

static tn_status check_weight(const conv_rule *r) {
  const tn_view *weight = r->weight;
  for (uint32_t i = 0; i < weight->ndim; i++)
    if (TN_DIM_LT(weight->sizes[i], i == 0 ? 0 : 1) || (i >= 2 && TN_DIM_GT(weight->sizes[i], MOST_FACTOR)))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                     "expected a kernel of at least 1 element a channel, got weight %s",
                     tn_shape_format(weight->ndim, weight->sizes, TN_SHAPE_TEXT));
  int64_t groups = r->lists[5].u.i;
  if (groups < 1)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected groups of at least 1, got %lld", (long long)groups);
  /* weight is [out, in / groups, ...]; transposed: [in, out / groups, ...]. */
  tn_dim channels = r->input->sizes[1], rows = weight->sizes[0];
  if (TN_DIM_NE(TN_DIM_MOD(rows, groups), 0))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected a weight whose size %lld at dim 0 %lld groups divide",
                   (long long)TN_DIM_INT(rows), (long long)groups);
  bool fits = r->transposed ? TN_DIM_EQ(channels, rows)
                            : TN_DIM_EQ(TN_DIM_MOD(channels, groups), 0) &&
                                  TN_DIM_EQ(TN_DIM_DIV(channels, groups), weight->sizes[1]);
  if (fits) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                 "input %s does not have the channels that weight %s takes in %lld groups",
                 tn_shape_format(r->input->ndim, r->input->sizes, TN_SHAPE_TEXT),
                 tn_shape_format(weight->ndim, weight->sizes, TN_SHAPE_TEXT), (long long)groups);
}

static tn_status check_operands(conv_rule *r) {
  const tn_view *input = r->input, *weight = r->weight;
  TN_TRY(tni_check_float("input", input->dtype));
  if (input->ndim < 3 || input->ndim > 5)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                   "expected 'input' [N, C, ...] with 1 to 3 spatial dims, got shape %s",
                   tn_shape_format(input->ndim, input->sizes, TN_SHAPE_TEXT));
  TN_TRY(tni_check_ndim("weight", weight, input->ndim));
  TN_TRY(tni_check_dtype_is("weight", weight, input->dtype));
  r->n_spatial = (uint32_t)input->ndim - 2;
  r->transposed = r->lists[3].u.i;
  TN_TRY(check_lists(r));
  return check_weight(r);
}

static tn_dim out_channels(const conv_rule *r) {
  return r->transposed ? TN_DIM_MUL(r->weight->sizes[1], r->lists[5].u.i) : r->weight->sizes[0];
}

/* The result's size along spatial dim i, or below 1. */
static tn_dim out_size(const conv_rule *r, uint32_t i) {
  tn_dim size = r->input->sizes[i + 2], kernel = r->weight->sizes[i + 2], stride = entry(&r->lists[0], i);
  tn_dim reach = TN_DIM_ADD(TN_DIM_MUL(entry(&r->lists[2], i), TN_DIM_SUB(kernel, 1)), 1);
  tn_dim padding = TN_DIM_MUL(2, entry(&r->lists[1], i));
  if (r->transposed) {
    tn_dim full =
        TN_DIM_ADD(TN_DIM_MUL(TN_DIM_SUB(size, 1), stride), TN_DIM_ADD(reach, entry(&r->lists[4], i)));
    return TN_DIM_SUB(full, padding);
  }
  tn_dim room = TN_DIM_SUB(TN_DIM_ADD(size, padding), reach);
  return TN_DIM_LT(room, 0) ? TN_DIM(0) : TN_DIM_ADD(TN_DIM_DIV(room, stride), 1);
}

static tn_status out_sizes(const conv_rule *r, tn_dim *sizes) {
  sizes[0] = r->input->sizes[0];
  sizes[1] = out_channels(r);
  for (uint32_t i = 0; i < r->n_spatial; i++) {
    if (TN_DIM_GT(r->input->sizes[i + 2], (int64_t)1 << 40))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected spatial sizes up to 2^40, got %lld",
                     (long long)TN_DIM_INT(r->input->sizes[i + 2]));
    sizes[i + 2] = out_size(r, i);
    if (TN_DIM_LT(sizes[i + 2], 1))
      return TN_FAIL(
          TN_ERR_INVALID_ARGUMENT,
          "expected an input that the kernel fits into; input %s (padding %lld), weight %s, dim %u",
          tn_shape_format(r->input->ndim, r->input->sizes, TN_SHAPE_TEXT),
          (long long)TN_DIM_INT(entry(&r->lists[1], i)),
          tn_shape_format(r->weight->ndim, r->weight->sizes, TN_SHAPE_TEXT), i + 2);
  }
  return TN_OK;
}

static bool is_channels_last(const conv_rule *r) {
  return tni_suggests_channels_last(r->input) || tni_suggests_channels_last(r->weight);
}

/* args: input weight bias stride padding dilation transposed output_padding groups */
TN_META(convolution) {
  conv_rule r = {.input = args[0].u.v, .weight = args[1].u.v, .lists = &args[3]};
  tn_dim sizes[TN_MAX_RANK];
  TN_TRY(check_operands(&r));
  TN_TRY(out_sizes(&r, sizes));
  if (tni_given(&args[2])) {
    TN_TRY(tni_check_dtype_is("bias", args[2].u.v, r.input->dtype));
    TN_TRY(tni_check_shape_is("bias", args[2].u.v, 1, &sizes[1]));
  }
  tni_desc_set(&meta->out[0], r.input->dtype, r.input->ndim, sizes, TN_DESC_CONTIGUOUS);
  if (is_channels_last(&r)) tni_desc_channels_last(&meta->out[0]);
  return TN_OK;
}

/* args: grad_output input weight bias_sizes stride padding dilation transposed output_padding groups output_mask */
TN_META(convolution_backward) {
  const tn_view *grad = args[0].u.v;
  conv_rule r = {.input = args[1].u.v, .weight = args[2].u.v, .lists = &args[4]};
  tn_dim sizes[TN_MAX_RANK];
  TN_TRY(check_operands(&r));
  TN_TRY(out_sizes(&r, sizes));
  TN_TRY(tni_check_dtype_is("grad_output", grad, r.input->dtype));
  TN_TRY(tni_check_shape_is("grad_output", grad, r.input->ndim, sizes));
  if (tni_given(&args[3]) && !tn_shape_equal(args[3].count, args[3].u.ints, 1, &sizes[1]))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected bias_sizes %s, got %s",
                   tn_shape_format(1, &sizes[1], TN_SHAPE_TEXT),
                   tn_shape_format(args[3].count, args[3].u.ints, TN_SHAPE_TEXT));
  if (args[10].count != 3)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected 3 entries in output_mask, got %u", args[10].count);
  bool last = is_channels_last(&r);
  tni_desc_like(&meta->out[0], r.input, TN_DESC_CONTIGUOUS);
  tni_desc_like(&meta->out[1], r.weight, TN_DESC_CONTIGUOUS);
  tni_desc_set(&meta->out[2], r.input->dtype, 1, &sizes[1], TN_DESC_CONTIGUOUS);
  for (uint32_t i = 0; i < 3; i++) {
    if (last && i < 2) tni_desc_channels_last(&meta->out[i]);
    meta->out[i].absent = !args[10].u.bools[i];
  }
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling: sizes of the results, with ATen's rule that the last window of ceil_mode begins inside the image or its
 * left padding. Indices are int64 in the result's layout.
 */
#include "registry/meta/rules.h"

/* See registry/meta/conv.c: factors up to here cannot overflow. */
#define MOST_FACTOR ((int64_t)1 << 20)

/* The windows of one call; lists of one or two entries, stride may be empty. */
typedef struct pool_rule {
  const tn_view *self;
  const tn_value *kernel, *stride, *padding, *dilation; /* dilation NULL: 1 */
  bool ceil_mode;
} pool_rule;

static tn_dim entry(const tn_value *list, uint32_t i) { return list->u.ints[list->count == 1 ? 0 : i]; }

static tn_status check_list(const char *name, const tn_value *list, int64_t least) {
  if (list->count != 1 && list->count != 2)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected 1 or 2 entries in %s, got %u", name, list->count);
  for (uint32_t i = 0; i < list->count; i++)
    if (TN_DIM_LT(list->u.ints[i], least) || TN_DIM_GT(list->u.ints[i], MOST_FACTOR))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected entries of %s from %lld to %lld, got %lld", name,
                     (long long)least, (long long)MOST_FACTOR, (long long)TN_DIM_INT(list->u.ints[i]));
  return TN_OK;
}

/* [N, C, H, W] or [C, H, W] of which N may be 0, and C if the operator has a result without channels. */
static tn_status check_images(const tn_view *self, bool channels) {
  TN_TRY(tni_check_float("self", self->dtype));
  bool good = self->ndim == 3 || self->ndim == 4;
  for (uint32_t i = channels ? (uint32_t)(self->ndim == 4) : self->ndim - 2u; good && i < self->ndim; i++)
    good = TN_DIM_GT(self->sizes[i], 0) && TN_DIM_LT(self->sizes[i], (int64_t)1 << 40);
  if (good) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                 "expected 'self' [N, C, H, W] or [C, H, W] that is not empty but for N%s, got %s",
                 channels ? "" : " or C", tn_shape_format(self->ndim, self->sizes, TN_SHAPE_TEXT));
}

static tn_status check_windows(const pool_rule *r) {
  TN_TRY(check_images(r->self, true));
  TN_TRY(check_list("kernel_size", r->kernel, 1));
  if (r->stride->count) TN_TRY(check_list("stride", r->stride, 1));
  TN_TRY(check_list("padding", r->padding, 0));
  if (r->dilation) TN_TRY(check_list("dilation", r->dilation, 1));
  for (uint32_t i = 0; i < 2; i++)
    if (TN_DIM_GT(TN_DIM_MUL(2, entry(r->padding, i)), entry(r->kernel, i)))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                     "expected padding of at most half of kernel_size, got %lld and %lld",
                     (long long)TN_DIM_INT(entry(r->padding, i)), (long long)TN_DIM_INT(entry(r->kernel, i)));
  return TN_OK;
}

static tn_dim out_size(const pool_rule *r, uint32_t i) {
  tn_dim size = r->self->sizes[r->self->ndim - 2 + i], kernel = entry(r->kernel, i),
         padding = entry(r->padding, i);
  tn_dim stride = r->stride->count ? entry(r->stride, i) : kernel;
  tn_dim dilation = r->dilation ? entry(r->dilation, i) : TN_DIM(1);
  tn_dim reach = TN_DIM_ADD(TN_DIM_MUL(dilation, TN_DIM_SUB(kernel, 1)), 1);
  tn_dim room = TN_DIM_SUB(TN_DIM_ADD(size, TN_DIM_MUL(2, padding)), reach);
  if (r->ceil_mode) room = TN_DIM_ADD(room, TN_DIM_SUB(stride, 1));
  if (TN_DIM_LT(room, 0)) return TN_DIM(0);
  tn_dim n = TN_DIM_ADD(TN_DIM_DIV(room, stride), 1);
  bool outside = r->ceil_mode && TN_DIM_GE(TN_DIM_MUL(TN_DIM_SUB(n, 1), stride), TN_DIM_ADD(size, padding));
  return outside ? TN_DIM_SUB(n, 1) : n;
}

static void describe(tn_desc *desc, tn_dtype dtype, const tn_view *self, const tn_dim *last_two) {
  tni_desc_set(desc, dtype, self->ndim, self->sizes, TN_DESC_CONTIGUOUS);
  desc->sizes[self->ndim - 2] = last_two[0];
  desc->sizes[self->ndim - 1] = last_two[1];
  if (tni_suggests_channels_last(self)) tni_desc_channels_last(desc);
}

static tn_status pooled(const pool_rule *r, tn_dim *sizes) {
  TN_TRY(check_windows(r));
  for (uint32_t i = 0; i < 2; i++) {
    sizes[i] = out_size(r, i);
    if (TN_DIM_LT(sizes[i], 1))
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                     "expected an image that the window fits into; got shape %s, kernel_size %s",
                     tn_shape_format(r->self->ndim, r->self->sizes, TN_SHAPE_TEXT),
                     tn_shape_format(r->kernel->count, r->kernel->u.ints, TN_SHAPE_TEXT));
  }
  return TN_OK;
}

/* grad (or indices) has the pooled shape. */
static tn_status check_pooled(const char *name, const tn_view *view, const tn_view *self,
                              const tn_dim *last_two) {
  tn_desc want;
  describe(&want, self->dtype, self, last_two);
  return tni_check_shape_is(name, view, want.ndim, want.sizes);
}

static tn_status describe_grad(tn_meta *meta, const tn_view *grad, const tn_view *self,
                               const tn_dim *last_two) {
  TN_TRY(tni_check_dtype_is("grad_output", grad, self->dtype));
  TN_TRY(check_pooled("grad_output", grad, self, last_two));
  describe(&meta->out[0], self->dtype, self, self->sizes + self->ndim - 2);
  return TN_OK;
}

/* ------------------------------------------------------------------ rules */

/* args: self kernel_size stride padding dilation ceil_mode */
TN_META(max_pool2d) {
  pool_rule r = {args[0].u.v, &args[1], &args[2], &args[3], &args[4], args[5].u.i};
  tn_dim sizes[2];
  TN_TRY(pooled(&r, sizes));
  describe(&meta->out[0], r.self->dtype, r.self, sizes);
  describe(&meta->out[1], TN_INT64, r.self, sizes);
  return TN_OK;
}

/* args: grad_output self kernel_size stride padding dilation ceil_mode indices */
TN_META(max_pool2d_backward) {
  pool_rule r = {args[1].u.v, &args[2], &args[3], &args[4], &args[5], args[6].u.i};
  tn_dim sizes[2];
  TN_TRY(pooled(&r, sizes));
  TN_TRY(tni_check_index("indices", args[7].u.v, false));
  TN_TRY(check_pooled("indices", args[7].u.v, r.self, sizes));
  return describe_grad(meta, args[0].u.v, r.self, sizes);
}

static tn_status check_divisor(const tn_value *divisor) {
  if (!tni_given(divisor) || divisor->u.i != 0) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected a divisor_override other than 0");
}

/* args: self kernel_size stride padding ceil_mode count_include_pad divisor_override */
TN_META(avg_pool2d) {
  pool_rule r = {args[0].u.v, &args[1], &args[2], &args[3], NULL, args[4].u.i};
  tn_dim sizes[2];
  TN_TRY(pooled(&r, sizes));
  TN_TRY(check_divisor(&args[6]));
  describe(&meta->out[0], r.self->dtype, r.self, sizes);
  return TN_OK;
}

/* args: grad_output self kernel_size stride padding ceil_mode count_include_pad divisor_override */
TN_META(avg_pool2d_backward) {
  pool_rule r = {args[1].u.v, &args[2], &args[3], &args[4], NULL, args[5].u.i};
  tn_dim sizes[2];
  TN_TRY(pooled(&r, sizes));
  TN_TRY(check_divisor(&args[7]));
  return describe_grad(meta, args[0].u.v, r.self, sizes);
}

static tn_status check_parts(const tn_view *self, const tn_value *output_size) {
  TN_TRY(check_images(self, false));
  if (output_size->count == 2 && TN_DIM_GE(output_size->u.ints[0], 0) && TN_DIM_GE(output_size->u.ints[1], 0))
    return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected two sizes of at least 0 as output_size, got %s",
                 tn_shape_format(output_size->count, output_size->u.ints, TN_SHAPE_TEXT));
}

TN_META(adaptive_avg_pool2d) {
  const tn_view *self = args[0].u.v;
  TN_TRY(check_parts(self, &args[1]));
  describe(&meta->out[0], self->dtype, self, args[1].u.ints);
  return TN_OK;
}

TN_META(adaptive_avg_pool2d_backward) {
  const tn_view *grad = args[0].u.v, *self = args[1].u.v;
  TN_TRY(check_images(self, false));
  TN_TRY(tni_check_ndim("grad_output", grad, self->ndim));
  return describe_grad(meta, grad, self, grad->sizes + grad->ndim - 2);
}

TN_META(adaptive_max_pool2d) {
  const tn_view *self = args[0].u.v;
  TN_TRY(check_parts(self, &args[1]));
  describe(&meta->out[0], self->dtype, self, args[1].u.ints);
  describe(&meta->out[1], TN_INT64, self, args[1].u.ints);
  return TN_OK;
}

TN_META(adaptive_max_pool2d_backward) {
  const tn_view *grad = args[0].u.v, *self = args[1].u.v, *indices = args[2].u.v;
  TN_TRY(check_images(self, false));
  TN_TRY(tni_check_ndim("grad_output", grad, self->ndim));
  TN_TRY(tni_check_index("indices", indices, false));
  TN_TRY(tni_check_shape_is("indices", indices, grad->ndim, grad->sizes));
  return describe_grad(meta, grad, self, grad->sizes + grad->ndim - 2);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The refusals that several families of meta rules share, each a sentence with what was expected
 * and what came. The core puts the operator's name in front.
 */
#include "registry/meta/rules.h"

tn_status tni_check_rank(size_t n) {
  if (n <= TN_MAX_RANK) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at most %d dims, got %zu", TN_MAX_RANK, n);
}

tn_status tni_check_large_sizes(const tn_value *sizes) {
  TN_TRY(tni_check_rank(sizes->count));
  tn_dim numel;
  return tn_shape_numel(sizes->count, sizes->u.ints, &numel);
}

tn_status tni_check_ndim(const char *name, const tn_view *view, uint32_t ndim) {
  if (view->ndim == ndim) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected '%s' to have %u dims, got shape %s", name, ndim,
                 tn_shape_format(view->ndim, view->sizes, TN_SHAPE_TEXT));
}

tn_status tni_check_float(const char *name, tn_dtype dtype) {
  if (tn_kit_dtype_is_float(dtype)) return TN_OK;
  return TN_FAIL(TN_ERR_DTYPE, "expected a floating dtype for '%s', got %s", name, tn_kit_dtype_name(dtype));
}

tn_status tni_check_bool(const char *name, const tn_view *view) {
  if (view->dtype == TN_BOOL) return TN_OK;
  return TN_FAIL(TN_ERR_DTYPE, "expected dtype bool for '%s', got %s", name, tn_kit_dtype_name(view->dtype));
}

tn_status tni_check_index(const char *name, const tn_view *view, bool or_int32) {
  if (view->dtype == TN_INT64 || (or_int32 && view->dtype == TN_INT32)) return TN_OK;
  return TN_FAIL(TN_ERR_DTYPE, "expected dtype int64%s for '%s', got %s", or_int32 ? " or int32" : "", name,
                 tn_kit_dtype_name(view->dtype));
}

tn_status tni_check_dtype_is(const char *name, const tn_view *view, tn_dtype dtype) {
  if (view->dtype == dtype) return TN_OK;
  return TN_FAIL(TN_ERR_DTYPE, "expected dtype %s for '%s', got %s", tn_kit_dtype_name(dtype), name,
                 tn_kit_dtype_name(view->dtype));
}

tn_status tni_check_shape_is(const char *name, const tn_view *view, uint32_t ndim, const tn_dim *sizes) {
  if (tn_shape_equal(view->ndim, view->sizes, ndim, sizes)) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected shape %s for '%s', got %s",
                 tn_shape_format(ndim, sizes, TN_SHAPE_TEXT), name,
                 tn_shape_format(view->ndim, view->sizes, TN_SHAPE_TEXT));
}

tn_status tni_check_number_fits(const tn_value *number, tn_dtype compute) {
  if (number->kind != TN_VAL_FLOAT || tn_kit_dtype_category(compute) >= TN_CATEGORY_FLOAT) return TN_OK;
  return TN_FAIL(TN_ERR_DTYPE, "expected an integer number for a computation in %s, got %g",
                 tn_kit_dtype_name(compute), number->u.f);
}

tn_status tni_check_number_held(const char *name, const tn_value *number, tn_dtype dtype) {
  if (tn_kit_dtype_holds(dtype, number)) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected a number that %s can hold as '%s', got %.17g",
                 tn_kit_dtype_name(dtype), name, tni_number(number));
}

bool tni_suggests_channels_last(const tn_view *view) {
  static const uint8_t inside_out[4] = {1, 3, 2, 0};
  tn_dim least = TN_DIM(0);
  if (view->ndim != 4 || TN_DIM_EQ(view->strides[1], 0)) return false;
  for (uint32_t i = 0; i < 4; i++) {
    tn_dim size = view->sizes[inside_out[i]], stride = view->strides[inside_out[i]];
    if (TN_DIM_EQ(size, 0) || TN_DIM_LT(stride, least)) return false;
    if (i == 3 && TN_DIM_EQ(least, view->strides[1])) return false; /* row-major as well */
    least = TN_DIM_GT(size, 1) ? TN_DIM_MUL(stride, size) : stride;
  }
  return true;
}

/* The last dims follow dim 1 from the inside out, then dim 0. */
void tni_desc_channels_last(tn_desc *desc) {
  tn_dim step = TN_DIM(1);
  desc->strides[1] = step;
  step = TN_DIM_MUL(step, TN_DIM_MAX(desc->sizes[1], 1));
  for (uint32_t i = desc->ndim; i-- > 2;) {
    desc->strides[i] = step;
    step = TN_DIM_MUL(step, TN_DIM_MAX(desc->sizes[i], 1));
  }
  desc->strides[0] = step;
  desc->layout = TN_DESC_STRIDES;
}

tn_status tni_desc_format(tn_desc *desc, const tn_value *format, const tn_view *self) {
  int64_t code = tni_given(format) ? format->u.i : TN_PRESERVE_FORMAT;
  desc->layout = code == TN_PRESERVE_FORMAT && self ? TN_DESC_LIKE_SELF : TN_DESC_CONTIGUOUS;
  uint32_t need = code == TN_CHANNELS_LAST ? 4 : code == TN_CHANNELS_LAST_3D ? 5 : 0;
  if (!need) return TN_OK;
  if (desc->ndim != need)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected %u dims for this channels-last format, got %u", need,
                   (unsigned)desc->ndim);
  tni_desc_channels_last(desc);
  return TN_OK;
}

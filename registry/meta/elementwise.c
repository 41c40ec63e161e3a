/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape and dtype of elementwise operators: the broadcast of all tensor arguments, and a common
 * dtype by the entry's promote kind. The hot case (equal shapes, equal dtypes) is decided without
 * the kit's general rules.
 *
 * Which numbers take part in the common dtype is what tells the rules apart: an operand does, an
 * alpha or a threshold does not. Strides are not found here: TN_DESC_ELEMENTWISE leaves them to the
 * core.
 */
#include "registry/meta/rules.h"

/* Shape of the broadcast of all tensor arguments. */
static tn_status broadcast_shape(tn_meta *meta, const tn_value *args, tn_desc *desc) {
  const tn_view *first = NULL;
  uint32_t ndim = 0;
  for (uint32_t i = 0; i < meta->n_args; i++) {
    if (!tni_is_tensor(&args[i])) continue;
    const tn_view *view = args[i].u.v;
    if (!first) {
      first = view;
      ndim = view->ndim;
      for (uint32_t d = 0; d < ndim; d++) desc->sizes[d] = view->sizes[d];
    } else if (!tn_shape_equal(ndim, desc->sizes, view->ndim, view->sizes)) {
      TN_TRY(tn_shape_broadcast_into(&ndim, desc->sizes, view->ndim, view->sizes));
    }
  }
  desc->ndim = (uint8_t)ndim;
  desc->layout = TN_DESC_ELEMENTWISE;
  return TN_OK;
}

static bool is_number(const tn_value *value) {
  return value->kind >= TN_VAL_BOOL && value->kind <= TN_VAL_FLOAT;
}

static uint8_t number_category(const tn_value *value) {
  return value->kind == TN_VAL_FLOAT ? TN_CATEGORY_FLOAT
         : value->kind == TN_VAL_INT ? TN_CATEGORY_INT
                                     : TN_CATEGORY_BOOL;
}

/* The general rules. numbers: bit i = argument i is a number that takes part. */
static tn_status promote_slow(tn_meta *meta, const tn_value *args, uint64_t numbers, tn_dtype *out_dtype) {
  tn_promote_state state = {0};
  for (uint32_t i = 0; i < meta->n_args; i++) {
    if (tni_is_tensor(&args[i]) && !(meta->keep_args >> i & 1))
      tn_promote_add_view(&state, args[i].u.v, meta->default_dtype);
    else if (numbers >> i & 1)
      tn_promote_add_scalar(&state, &args[i], meta->default_dtype);
  }
  return tn_promote_result(&state, out_dtype);
}

static tn_status common_dtype(tn_meta *meta, const tn_value *args, uint64_t numbers, tn_dtype *out_dtype) {
  tn_dtype dtype = TN_DTYPE_NONE;
  for (uint32_t i = 0; i < meta->n_args; i++) {
    if (!tni_is_tensor(&args[i]) || (meta->keep_args >> i & 1)) continue;
    if (dtype == TN_DTYPE_NONE) dtype = args[i].u.v->dtype;
    if (dtype != args[i].u.v->dtype) return promote_slow(meta, args, numbers, out_dtype);
  }
  for (uint64_t left = numbers; left; left &= left - 1) {
    const tn_value *number = &args[__builtin_ctzll(left)];
    if (number_category(number) > tn_kit_dtype_category(dtype))
      return promote_slow(meta, args, numbers, out_dtype);
  }
  *out_dtype = dtype;
  return TN_OK;
}

/* Result and compute dtype from the common one, by the entry's promote kind. */
static void apply_promote(tn_meta *meta, tn_dtype common, tn_desc *desc) {
  switch (meta->promote) {
    case TN_PROMOTE_NONE: desc->dtype = common; return;
    case TN_PROMOTE_COMPARE:
    case TN_PROMOTE_BOOL: desc->dtype = TN_BOOL; break;
    case TN_PROMOTE_INT_TO_FLOAT:
      if (tn_kit_dtype_category(common) < TN_CATEGORY_FLOAT) common = meta->default_dtype;
      desc->dtype = common;
      break;
    default: desc->dtype = common;
  }
  meta->compute_dtype = common;
}

static tn_status elementwise(tn_meta *meta, const tn_value *args, uint64_t numbers) {
  tn_desc *desc = &meta->out[0];
  TN_TRY(broadcast_shape(meta, args, desc));
  tn_dtype common;
  TN_TRY(common_dtype(meta, args, numbers, &common));
  apply_promote(meta, common, desc);
  for (uint32_t i = 0; i < meta->n_args; i++)
    if (args[i].kind == TN_VAL_FLOAT) TN_TRY(tni_check_number_fits(&args[i], common));
  return TN_OK;
}

/* Numbers among the arguments, at most the first `limit` of them. */
static uint64_t numbers_of(const tn_meta *meta, const tn_value *args, uint32_t limit) {
  uint64_t numbers = 0;
  for (uint32_t i = 0; i < meta->n_args && limit; i++) {
    if (!is_number(&args[i])) continue;
    numbers |= (uint64_t)1 << i;
    limit--;
  }
  return numbers;
}

TN_META(elementwise) { return elementwise(meta, args, 0); }
TN_META(elementwise_scalar) { return elementwise(meta, args, numbers_of(meta, args, 1)); }
TN_META(elementwise_scalars) { return elementwise(meta, args, numbers_of(meta, args, UINT32_MAX)); }

/* clamp and its halves: a bound that integers cannot hold would bound at another number. Beside floats it becomes
 * infinite, which bounds every finite element as it would; and a rule that refused floats would have to run in calls that
 * need no rule (Note [Fast path] in core/dispatch/fast.c). */
TN_META(elementwise_bounds) {
  TN_TRY(elementwise(meta, args, numbers_of(meta, args, UINT32_MAX)));
  if (tn_kit_dtype_is_float(meta->compute_dtype)) return TN_OK;
  for (uint32_t i = 1; i < meta->n_args; i++)
    TN_TRY(tni_check_number_held("bound", &args[i], meta->compute_dtype));
  return TN_OK;
}

/* pow: an integer to a negative integer number has no integer result. */
TN_META(elementwise_pow) {
  TN_TRY(elementwise(meta, args, numbers_of(meta, args, 1)));
  bool negative = args[1].kind == TN_VAL_INT && args[1].u.i < 0;
  if (!negative || tn_kit_dtype_category(meta->compute_dtype) >= TN_CATEGORY_FLOAT) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected an exponent of at least 0 for %s, got %lld",
                 tn_kit_dtype_name(meta->compute_dtype), (long long)args[1].u.i);
}

/* where: the condition has a shape but no say in the dtype. */
TN_META(elementwise_where) {
  TN_TRY(tni_check_bool("condition", args[0].u.v));
  meta->keep_args = 1;
  return elementwise(meta, args, 0);
}

/* masked_fill: self's dtype, whatever the number is. */
TN_META(elementwise_masked) {
  TN_TRY(tni_check_bool("mask", args[1].u.v));
  TN_TRY(tni_check_number_held("value", &args[2], args[0].u.v->dtype));
  meta->keep_args = 2;
  tn_desc *desc = &meta->out[0];
  TN_TRY(broadcast_shape(meta, args, desc));
  desc->dtype = args[0].u.v->dtype;
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that are a view where the memory allows it (reshape and its kin). The inverses of views
 * are in scatter.c.
 */
#include "registry/bodies/compose.h"

TN_BODY(as_strided) {
  tn_tensor *self = args[0].u.t, *result = NULL;
  const tn_view *view = tn_tensor_view(self);
  tn_dim offset = TN_DIM(0);
  if (tni_has(&args[3])) {
    if (TN_DIM_LT(args[3].u.i, 0))
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected a storage offset of at least 0, got %lld",
                     (long long)TN_DIM_INT(args[3].u.i));
    offset = TN_DIM_SUB(args[3].u.i, TN_DIM(tn_tensor_storage_offset(self)));
  }
  tn_status status = tn__as_strided(self, args[1].u.ints, args[1].count, args[2].u.ints, args[2].count,
                                    offset, view->strides, view->ndim, &result);
  return tni_result(status, &result, out);
}

TN_BODY(reshape) {
  tn_tensor *self = args[0].u.t, *t[2] = {NULL};
  const tn_view *view = tn_tensor_view(self);
  uint32_t ndim = args[1].count;
  tn_dim sizes[TN_MAX_RANK], strides[TN_MAX_RANK];
  if (ndim > TN_MAX_RANK)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected at most %d dims, got %u", TN_MAX_RANK, ndim);
  for (uint32_t i = 0; i < ndim; i++) sizes[i] = args[1].u.ints[i];
  TN_TRY(tn_shape_infer(ndim, sizes, TN_DIM(view->numel), sizes));
  tn_status status;
  if (tn_shape_view_strides(view->ndim, view->sizes, view->strides, ndim, sizes, strides)) {
    TNI_STEP(tn_view_op(self, sizes, ndim, &t[1]));
  } else {
    TNI_STEP(tn_clone(self, TN_CONTIGUOUS_FORMAT, &t[0]));
    TNI_STEP(tn_view_op(t[0], sizes, ndim, &t[1]));
  }
  out[0] = tn_value_tensor(tni_take(&t[1]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(flatten) {
  tn_tensor *self = args[0].u.t, *result = NULL;
  const tn_view *view = tn_tensor_view(self);
  uint32_t first, last;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, view->ndim, &first));
  TN_TRY(tn_shape_wrap_dim(args[2].u.i, view->ndim, &last));
  if (first > last)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected start_dim at or before end_dim, got %u and %u", first,
                   last);
  if (view->ndim && first == last) return tni_same(self, out);
  tn_dim sizes[TN_MAX_RANK], joined = TN_DIM(1);
  uint32_t ndim = 0;
  for (uint32_t i = 0; i < first; i++) sizes[ndim++] = view->sizes[i];
  for (uint32_t i = first; i <= last && i < view->ndim; i++) joined = TN_DIM_MUL(joined, view->sizes[i]);
  sizes[ndim++] = joined;
  for (uint32_t i = last + 1; i < view->ndim; i++) sizes[ndim++] = view->sizes[i];
  return tni_result(tn_reshape(self, sizes, ndim, &result), &result, out);
}

TN_BODY(narrow) {
  tn_tensor *self = args[0].u.t, *result = NULL;
  uint32_t ndim = tni_ndim(self), dim;
  if (ndim == 0) return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected at least 1 dim, got a 0-d tensor");
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, ndim, &dim));
  tn_dim size = tn_tensor_sizes(self)[dim], start = args[2].u.i, length = args[3].u.i;
  if (TN_DIM_LT(start, 0)) start = TN_DIM_ADD(start, size);
  bool fits = TN_DIM_GE(start, 0) && TN_DIM_LE(start, size) && TN_DIM_GE(length, 0) &&
              TN_DIM_LE(length, TN_DIM_SUB(size, start));
  if (!fits)
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "expected a range inside size %lld of dim %u, got start %lld, length %lld",
                   (long long)TN_DIM_INT(size), dim, (long long)args[2].u.i, (long long)TN_DIM_INT(length));
  tn_dim end = TN_DIM_ADD(start, length);
  return tni_result(tn_slice(self, dim, &start, &end, 1, &result), &result, out);
}

TN_BODY(movedim) {
  tn_tensor *self = args[0].u.t, *result = NULL;
  uint32_t ndim = tni_ndim(self), from, to;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, ndim, &from));
  TN_TRY(tn_shape_wrap_dim(args[2].u.i, ndim, &to));
  if (ndim == 0 || from == to) return tni_result(tn_alias(self, &result), &result, out);
  int64_t dims[TN_MAX_RANK];
  uint32_t next = 0;
  for (uint32_t i = 0; i < ndim; i++) {
    if (next == from) next++;
    dims[i] = i == to ? from : next++;
  }
  return tni_result(tn_permute(self, dims, ndim, &result), &result, out);
}

TN_BODY(unreduce) {
  tn_tensor *self = args[0].u.t, *result = NULL;
  if (args[3].u.i < 0 || args[3].u.i > TN_MAX_RANK)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected 0 to %d dims, got %lld", TN_MAX_RANK,
                   (long long)args[3].u.i);
  uint32_t ndim = (uint32_t)args[3].u.i;
  if (args[2].u.i || ndim == 0) return tni_same(self, out);
  uint64_t mask;
  TN_TRY(tni_mask_of(&args[1], ndim, &mask));
  uint32_t kept = ndim - (uint32_t)__builtin_popcountll(mask);
  if (tni_ndim(self) != kept)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected %u dims that a reduction left, got shape %s", kept,
                   tni_shape_text(self, TN_SHAPE_TEXT));
  tn_dim sizes[TN_MAX_RANK];
  for (uint32_t i = 0, from = 0; i < ndim; i++)
    sizes[i] = mask >> i & 1 ? TN_DIM(1) : tn_tensor_sizes(self)[from++];
  return tni_result(tn_reshape(self, sizes, ndim, &result), &result, out);
}

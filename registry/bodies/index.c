/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining, tiling and turning tensors over cat, index_select and views; one_hot over scatter.
 */
#include <stdlib.h>

#include "registry/bodies/compose.h"

/* num_classes -1 has to read the largest class. */
TN_BODY(one_hot) {
  tn_tensor *self = args[0].u.t, *t[4] = {NULL};
  int64_t classes = args[1].u.i;
  uint32_t ndim = tni_ndim(self);
  tn_dim sizes[TN_MAX_RANK];
  if (tn_tensor_dtype(self) != TN_INT64)
    return tn_fail(TN_ERR_DTYPE, "expected dtype int64 for 'self', got %s",
                   tn_dtype_name(tn_tensor_dtype(self)));
  if (ndim >= TN_MAX_RANK)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected fewer than %d dims, got %u", TN_MAX_RANK, ndim);
  tn_status status;
  if (classes == -1) {
    TNI_STEP(tn_max(self, &t[0]));
    TNI_STEP(tn_tensor_item_int(t[0], &classes));
    classes++;
  }
  if (classes < 1)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected at least 1 class, got %lld", (long long)classes);
  for (uint32_t i = 0; i < ndim; i++) sizes[i] = tn_tensor_sizes(self)[i];
  sizes[ndim] = TN_DIM(classes);
  TNI_STEP(tn_new_zeros(self, sizes, ndim + 1, NULL, &t[1]));
  TNI_STEP(tn_unsqueeze(self, -1, &t[2]));
  TNI_STEP(tn_scatter_value(t[1], -1, t[2], tn_int(1), &t[3]));
  out[0] = tn_value_tensor(tni_take(&t[3]));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status check_stack(const tn_value *tensors) {
  if (tensors->count == 0) return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected at least 1 tensor, got none");
  for (uint32_t i = 1; i < tensors->count; i++)
    if (!tni_same_shape(tensors->u.ts[0], tensors->u.ts[i]))
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected tensors of one shape, got %s and, as number %u, %s",
                     tni_shape_text(tensors->u.ts[0], TN_SHAPE_TEXT), i,
                     tni_shape_text(tensors->u.ts[i], TN_SHAPE_TEXT));
  return TN_OK;
}

TN_BODY(stack) {
  uint32_t n = args[0].count, dim;
  TN_TRY(check_stack(&args[0]));
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, tni_ndim(args[0].u.ts[0]) + 1, &dim));
  tn_tensor *result = NULL, **wide = calloc(n, sizeof(*wide));
  if (!wide)
    return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu bytes for a list of tensors", n * sizeof(*wide));
  tn_status status;
  for (uint32_t i = 0; i < n; i++) TNI_STEP(tn_unsqueeze(args[0].u.ts[i], dim, &wide[i]));
  TNI_STEP(tn_cat(wide, n, dim, &result));
  out[0] = tn_value_tensor(result);
done:
  tni_release_all(wide, n);
  free(wide);
  return status;
}

/* One dim tiled: a new dim in front of it, stretched, and both joined (which copies). */
static tn_status tile(tn_tensor *self, uint32_t dim, int64_t times, tn_tensor **out_tiled) {
  tn_tensor *t[2] = {NULL};
  uint32_t ndim = tni_ndim(self);
  tn_dim sizes[TN_MAX_RANK];
  tn_status status;
  TNI_STEP(tn_unsqueeze(self, dim, &t[0]));
  for (uint32_t i = 0; i <= ndim; i++) sizes[i] = tn_tensor_sizes(t[0])[i];
  sizes[dim] = TN_DIM(times);
  TNI_STEP(tn_expand(t[0], sizes, ndim + 1, false, &t[1]));
  TNI_STEP(tn_flatten(t[1], dim, (int64_t)dim + 1, out_tiled));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status check_repeats(const tn_value *repeats, uint32_t ndim) {
  uint32_t n = repeats->count;
  if (n < ndim || n > TN_MAX_RANK)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected %u to %d repeats, got %u", ndim, TN_MAX_RANK, n);
  for (uint32_t i = 0; i < n; i++)
    if (TN_DIM_LT(repeats->u.ints[i], 0))
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected repeats of at least 0, got %lld",
                     (long long)TN_DIM_INT(repeats->u.ints[i]));
  return TN_OK;
}

TN_BODY(repeat) {
  tn_tensor *self = args[0].u.t, *t[2] = {NULL};
  uint32_t n = args[1].count, fresh = n - tni_ndim(self);
  TN_TRY(check_repeats(&args[1], tni_ndim(self)));
  tn_dim sizes[TN_MAX_RANK];
  for (uint32_t i = 0; i < n; i++) sizes[i] = i < fresh ? TN_DIM(1) : tn_tensor_sizes(self)[i - fresh];
  tn_status status;
  TNI_STEP(tn_reshape(self, sizes, n, &t[0]));
  for (uint32_t i = 0; i < n; i++) {
    if (TN_DIM_EQ(args[1].u.ints[i], 1)) continue;
    TNI_STEP(tile(t[0], i, args[1].u.ints[i], &t[1]));
    tn_tensor_release(t[0]);
    t[0] = tni_take(&t[1]);
  }
  /* What is still a view of self (nothing tiled, or only sizes of 1) becomes a copy. */
  TNI_STEP(tn_clone(t[0], TN_CONTIGUOUS_FORMAT, &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[1]));
done:
  TNI_RELEASE(t);
  return status;
}

/* The indices of a dim of self from the last to the first. */
static tn_status backwards(tn_tensor *self, uint32_t dim, tn_tensor **out_index) {
  tn_options options = {.dtype = TN_INT64, .has_device = true, .device = tn_tensor_device(self)};
  int64_t size = TN_DIM_INT(tn_tensor_sizes(self)[dim]);
  return tn_arange_step(tn_int(size - 1), tn_int(-1), tn_int(-1), &options, out_index);
}

TN_BODY(flip) {
  tn_tensor *self = args[0].u.t, *t[3] = {NULL};
  uint64_t mask;
  TN_TRY(tn_shape_dim_mask(args[1].u.ints, args[1].count, tni_ndim(self), false, &mask));
  tn_status status;
  if (!mask || tni_ndim(self) == 0) {
    TNI_STEP(tn_clone(self, 0, &t[0]));
  } else {
    t[0] = tn_tensor_retain(self);
    for (uint64_t left = mask; left; left &= left - 1) {
      uint32_t dim = (uint32_t)__builtin_ctzll(left);
      TNI_STEP(backwards(t[0], dim, &t[1]));
      TNI_STEP(tn_index_select(t[0], dim, t[1], &t[2]));
      tn_tensor_release(t[0]);
      tn_tensor_release(tni_take(&t[1]));
      t[0] = tni_take(&t[2]);
    }
  }
  out[0] = tn_value_tensor(tni_take(&t[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* One dim rolled: the last elements come first. */
static tn_status roll_dim(tn_tensor *self, int64_t shift, int64_t dim, tn_tensor **out_rolled) {
  tn_tensor *t[2] = {NULL};
  uint32_t at;
  TN_TRY(tn_shape_wrap_dim(dim, tni_ndim(self), &at));
  if (tni_ndim(self) == 0 || tn_tensor_numel(self) == 0) return tn_clone(self, 0, out_rolled);
  tn_dim size = tn_tensor_sizes(self)[at];
  tn_dim back = shift % size;
  if (TN_DIM_LT(back, 0)) back = TN_DIM_ADD(back, size);
  tn_status status;
  TNI_STEP(tn_narrow(self, at, TN_DIM_SUB(size, back), back, &t[0]));
  TNI_STEP(tn_narrow(self, at, 0, TN_DIM_SUB(size, back), &t[1]));
  TNI_STEP(tn_cat(t, 2, at, out_rolled));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(roll) {
  tn_tensor *self = args[0].u.t, *t[2] = {NULL};
  uint32_t n = args[1].count;
  bool flat = args[2].count == 0;
  if (n != (flat ? 1 : args[2].count))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected one shift for each dim, got %u shifts for %u dims", n,
                   args[2].count);
  tn_status status;
  if (flat)
    TNI_STEP(tn_flatten(self, 0, -1, &t[0]));
  else
    t[0] = tn_tensor_retain(self);
  for (uint32_t i = 0; i < n; i++) {
    TNI_STEP(roll_dim(t[0], args[1].u.ints[i], flat ? 0 : args[2].u.ints[i], &t[1]));
    tn_tensor_release(t[0]);
    t[0] = tni_take(&t[1]);
  }
  if (flat) {
    TNI_STEP(tn_reshape(t[0], tn_tensor_sizes(self), tni_ndim(self), &t[1]));
    tn_tensor_release(t[0]);
    t[0] = tni_take(&t[1]);
  }
  out[0] = tn_value_tensor(tni_take(&t[0]));
done:
  TNI_RELEASE(t);
  return status;
}

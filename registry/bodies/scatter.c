/* SPDX-License-Identifier: Apache-2.0
 *
 * Inverses of views: the *_scatter operators put a source into a copy of self, the *_backward ones
 * into zeros. A view of the fresh tensor is taken and written, so no backend needs kernels for
 * them.
 */
#include "registry/bodies/compose.h"

/* Writes src through a view (consumed) of whole (consumed), which becomes the result. */
static tn_status put(tn_status status, tn_tensor *whole, tn_tensor *part, tn_tensor *src, tn_value *out) {
  if (status == TN_OK && !tni_same_shape(part, src))
    status = tn_fail(TN_ERR_INVALID_ARGUMENT, "expected shape %s to write, got %s",
                     tni_shape_text(part, TN_SHAPE_TEXT), tni_shape_text(src, TN_SHAPE_TEXT));
  if (status == TN_OK) status = tn_copy_(part, src, false);
  tn_tensor_release(part);
  if (status == TN_OK)
    out[0] = tn_value_tensor(whole);
  else
    tn_tensor_release(whole);
  return status;
}

TN_BODY(select_scatter) {
  tn_tensor *whole = NULL, *part = NULL;
  tn_status status = tn_clone(args[0].u.t, 0, &whole);
  if (status == TN_OK) status = tn_select(whole, args[2].u.i, args[3].u.i, &part);
  return put(status, whole, part, args[1].u.t, out);
}

TN_BODY(slice_scatter) {
  tn_tensor *whole = NULL, *part = NULL;
  tn_status status = tn_clone(args[0].u.t, 0, &whole);
  if (status == TN_OK)
    status = tn_slice(whole, args[2].u.i, tni_int_or_null(&args[3]), tni_int_or_null(&args[4]), args[5].u.i,
                      &part);
  return put(status, whole, part, args[1].u.t, out);
}

TN_BODY(select_backward) {
  tn_tensor *whole = NULL, *part = NULL;
  tn_status status = tn_new_zeros(args[0].u.t, args[1].u.ints, args[1].count, NULL, &whole);
  if (status == TN_OK) status = tn_select(whole, args[2].u.i, args[3].u.i, &part);
  return put(status, whole, part, args[0].u.t, out);
}

TN_BODY(slice_backward) {
  tn_tensor *whole = NULL, *part = NULL;
  tn_status status = tn_new_zeros(args[0].u.t, args[1].u.ints, args[1].count, NULL, &whole);
  if (status == TN_OK)
    status = tn_slice(whole, args[2].u.i, tni_int_or_null(&args[3]), tni_int_or_null(&args[4]), args[5].u.i,
                      &part);
  return put(status, whole, part, args[0].u.t, out);
}

TN_BODY(diagonal_backward) {
  tn_tensor *whole = NULL, *part = NULL;
  tn_status status = tn_new_zeros(args[0].u.t, args[1].u.ints, args[1].count, NULL, &whole);
  if (status == TN_OK) status = tn_diagonal(whole, args[2].u.i, args[3].u.i, args[4].u.i, &part);
  return put(status, whole, part, args[0].u.t, out);
}

/* Windows overlap: the places that they show are unfolded the same way, and the gradients added at them. */
TN_BODY(unfold_backward) {
  tn_tensor *grad = args[0].u.t, *t[6] = {NULL};
  const int64_t *sizes = args[1].u.ints;
  uint32_t ndim = args[1].count, dim;
  tn_options places = {.dtype = TN_INT64, .has_device = true, .device = tn_tensor_device(grad)};
  TN_TRY(tn_shape_wrap_dim(args[2].u.i, ndim, &dim));
  tn_status status;
  if (ndim == 0) {
    TNI_STEP(tn_sum(grad, TN_DTYPE_NONE, &t[5]));
  } else {
    TNI_STEP(tn_arange(tn_int(sizes[dim]), &places, &t[0]));
    TNI_STEP(tn_unfold(t[0], 0, args[3].u.i, args[4].u.i, &t[1]));
    TNI_STEP(tn_reshape(t[1], (const int64_t[]){-1}, 1, &t[2]));
    TNI_STEP(tn_movedim(grad, -1, (int64_t)dim + 1, &t[3]));
    tn_tensor *flat = NULL;
    TNI_STEP(tn_flatten(t[3], dim, (int64_t)dim + 1, &flat));
    tn_tensor_release(t[3]);
    t[3] = flat;
    TNI_STEP(tn_new_zeros(grad, sizes, ndim, NULL, &t[4]));
    TNI_STEP(tn_index_add(t[4], dim, t[2], t[3], tn_int(1), &t[5]));
  }
  out[0] = tn_value_tensor(tni_take(&t[5]));
done:
  TNI_RELEASE(t);
  return status;
}

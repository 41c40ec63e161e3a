/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and casts over two primitives: empty_like and copy_. The operators that may hand self back
 * compare descriptors first. The bodies of copy_, detach, detach_, resize_ and set_ are the core's.
 */
#include "registry/bodies/compose.h"

/* A copy of self in the format and with the options, defaults from self. */
static tn_status copied(tn_tensor *self, const tn_options *options, tn_memory_format format,
                        bool non_blocking, tn_value *out) {
  tn_tensor *fresh = NULL;
  tn_status status = tn_empty_like(self, options, format, &fresh);
  if (status == TN_OK) status = tn_copy_(fresh, self, non_blocking);
  if (status == TN_OK)
    out[0] = tn_value_tensor(fresh);
  else
    tn_tensor_release(fresh);
  return status;
}

TN_BODY(clone) { return copied(args[0].u.t, NULL, tni_format_of(&args[1]), false, out); }

TN_BODY(to_copy) {
  tn_options options = tni_options_of(&args[1]);
  return copied(args[0].u.t, &options, tni_format_of(&args[6]), args[5].u.i, out);
}

/* Does it lie row-major but for dim 1, which varies fastest? Strides of dims of size 1 count as well: where both
 * orders fit, they tell later rules which one is meant. */
static bool lies_channels_last(const tn_tensor *t) {
  const tn_dim *sizes = tn_tensor_sizes(t), *strides = tn_tensor_strides(t);
  tn_dim step = TN_DIM_MAX(sizes[1], 1);
  if (TN_DIM_NE(strides[1], 1)) return false;
  for (uint32_t i = tni_ndim(t); i-- > 2;) {
    if (TN_DIM_NE(strides[i], step)) return false;
    step = TN_DIM_MUL(step, TN_DIM_MAX(sizes[i], 1));
  }
  return TN_DIM_EQ(strides[0], step);
}

TN_BODY(contiguous) {
  tn_tensor *self = args[0].u.t, *result = NULL;
  tn_memory_format format = tni_format_of(&args[1]);
  if (format == TN_PRESERVE_FORMAT)
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "expected a memory format that says where elements lie, got preserve");
  if (format == TN_MEMORY_FORMAT_NONE) format = TN_CONTIGUOUS_FORMAT;
  if (format == TN_CONTIGUOUS_FORMAT && (tn_tensor_view(self)->flags & TN_VIEW_CONTIGUOUS))
    return tni_same(self, out);
  uint32_t channels_last = format == TN_CHANNELS_LAST ? 4 : format == TN_CHANNELS_LAST_3D ? 5 : 0;
  if (channels_last && tni_ndim(self) == channels_last && lies_channels_last(self)) return tni_same(self, out);
  return tni_result(tn_clone(self, format, &result), &result, out);
}

/* ------------------------------------------------------------------ to: self if it fits already */

static tn_status moved(tn_tensor *self, const tn_options *options, bool non_blocking, bool copy,
                       const tn_value *format, tn_value *out) {
  tn_device here = tn_tensor_device(self);
  bool fits = options->dtype == TN_DTYPE_NONE || options->dtype == tn_tensor_dtype(self);
  if (options->has_device)
    fits = fits && options->device.backend == here.backend && options->device.index == here.index;
  tn_memory_format code = tni_format_of(format);
  fits = fits && (code == TN_MEMORY_FORMAT_NONE || code == TN_PRESERVE_FORMAT);
  if (fits && !copy) return tni_same(self, out);
  tn_tensor *result = NULL;
  return tni_result(tn__to_copy(self, options, non_blocking, code, &result), &result, out);
}

TN_BODY(to_dtype) {
  tn_options options = {.dtype = (tn_dtype)args[1].u.i};
  return moved(args[0].u.t, &options, args[2].u.i, args[3].u.i, &args[4], out);
}

TN_BODY(to_device) {
  tn_options options = {.dtype = (tn_dtype)args[2].u.i, .has_device = true, .device = args[1].u.d};
  return moved(args[0].u.t, &options, args[3].u.i, args[4].u.i, &args[5], out);
}

TN_BODY(to_dtype_layout) {
  tn_options options = tni_options_of(&args[1]);
  return moved(args[0].u.t, &options, args[5].u.i, args[6].u.i, &args[7], out);
}

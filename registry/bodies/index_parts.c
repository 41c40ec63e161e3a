/* SPDX-License-Identifier: Apache-2.0
 *
 * Indexing out of gather, scatter_add, where and copy_, for backends that have no kernels of their own: rows are gathered
 * by an index that is stretched over them.
 */
#include <tenon/kit/promote.h>

#include "registry/bodies/scoped_body.h"

/* index [n] as [1.., n, ..1], stretched to sizes. */
static tn_tensor *stretched(tn_tensor *index, int64_t dim, const tn_dim *sizes, uint32_t ndim) {
  int64_t shape[TN_MAX_RANK];
  for (uint32_t i = 0; i < ndim; i++) shape[i] = i == (uint32_t)dim ? -1 : 1;
  return tns_expand(tns_reshape(tni_as(index, TN_INT64), shape, ndim), sizes, ndim, false);
}

/* Fails as a gather does if the index names no place below size: for rows of no elements, where no gather reads it. */
static void check_places(tn_tensor *index, tn_dim size) {
  const tn_options like = {.dtype = TN_BOOL, .has_device = true, .device = tn_tensor_device(index)};
  const int64_t flat = -1;
  tns_gather(tns_zeros(&size, 1, &like), 0, tni_as(tns_reshape(index, &flat, 1), TN_INT64), false);
}

/* args: self dim index */
static tn_tensor *index_select(const tn_value *args) {
  tn_tensor *self = args[0].u.t, *index = args[2].u.t;
  const int64_t one = 1;
  int64_t sizes[TN_MAX_RANK], dim = args[1].u.i;
  uint32_t ndim = tni_ndim(self);
  if (ndim == 0)
    return tns_reshape(
        tns_gather(tns_reshape(self, &one, 1), 0, tni_as(tns_reshape(index, &one, 1), TN_INT64), false), NULL,
        0);
  if (dim < 0) dim += ndim;
  for (uint32_t i = 0; i < ndim; i++)
    sizes[i] = i == (uint32_t)dim ? tn_tensor_numel(index) : tn_tensor_sizes(self)[i];
  if (tn_tensor_numel(self) == 0) check_places(index, tn_tensor_sizes(self)[dim]);
  return tns_gather(self, dim, stretched(index, dim, sizes, ndim), false);
}
TN_SCOPED_BODY(index_select_parts, index_select)

/* args: self dim index source alpha */
static tn_tensor *index_add(const tn_value *args) {
  tn_tensor *self = args[0].u.t, *source = args[3].u.t;
  const int64_t one = 1;
  int64_t dim = args[1].u.i;
  uint32_t ndim = tni_ndim(self);
  if (tni_double_of(&args[4]) != 1) source = tni_as(tns_mul_scalar(source, args[4]), tn_tensor_dtype(source));
  if (ndim == 0) {
    tn_tensor *index = tni_as(tns_reshape(args[2].u.t, &one, 1), TN_INT64);
    return tns_reshape(tns_scatter_add(tns_reshape(self, &one, 1), 0, index, tns_reshape(source, &one, 1)),
                       NULL, 0);
  }
  if (dim < 0) dim += ndim;
  if (!source) return NULL;
  if (tn_tensor_numel(source) == 0) check_places(args[2].u.t, tn_tensor_sizes(self)[dim]);
  return tns_scatter_add(self, dim, stretched(args[2].u.t, dim, tn_tensor_sizes(source), ndim), source);
}
TN_SCOPED_BODY(index_add_parts, index_add)

/* args: self dim index value. Places that some index names are counted first. */
static tn_tensor *scatter_value(const tn_value *args) {
  const tn_options ints = {.dtype = TN_INT64};
  tn_tensor *zeros = tns_zeros_like(args[0].u.t, &ints, TN_CONTIGUOUS_FORMAT);
  tn_tensor *ones = tns_ones_like(args[2].u.t, &ints, TN_CONTIGUOUS_FORMAT);
  tn_tensor *named = tns_ne_scalar(tns_scatter_add(zeros, args[1].u.i, args[2].u.t, ones), tn_int(0));
  return tns_masked_fill(args[0].u.t, named, args[3]);
}
TN_SCOPED_BODY(scatter_value_parts, scatter_value)

/* column - row of each element of the last two dims. */
static tn_tensor *offsets(tn_tensor *self) {
  const tn_options ints = {.dtype = TN_INT64, .has_device = true, .device = tn_tensor_device(self)};
  const tn_dim *sizes = tn_tensor_sizes(self) + tn_tensor_ndim(self) - 2;
  return tns_sub(tns_arange(tn_int(sizes[1]), &ints), tns_unsqueeze(tns_arange(tn_int(sizes[0]), &ints), 1),
                 tn_int(1));
}
static tn_tensor *tril(const tn_value *args) {
  return tns_masked_fill(args[0].u.t, tns_gt_scalar(offsets(args[0].u.t), args[1]), tn_int(0));
}
static tn_tensor *triu(const tn_value *args) {
  return tns_masked_fill(args[0].u.t, tns_lt_scalar(offsets(args[0].u.t), args[1]), tn_int(0));
}
TN_SCOPED_BODY(tril_parts, tril)
TN_SCOPED_BODY(triu_parts, triu)

/* ------------------------------------------------------------------ fills */

static void zero(const tn_value *args) { tns_fill_(args[0].u.t, tn_int(0)); }
TN_SCOPED_BODY0(zero_parts, zero)


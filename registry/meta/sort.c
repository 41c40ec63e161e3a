/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting and indexing with tensors. How many elements a bool mask selects only its values tell: then the kernel says
 * how large the result is.
 */
#include "registry/meta/rules.h"

TN_META(sort) {
  const tn_view *self = args[0].u.v;
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[1].u.i, self->ndim, &dim));
  tni_desc_like(&meta->out[0], self, TN_DESC_LIKE_SELF);
  tni_desc_set(&meta->out[1], TN_INT64, self->ndim, self->sizes, TN_DESC_LIKE_SELF);
  return TN_OK;
}

/* args: self k dim largest sorted */
TN_META(topk) {
  const tn_view *self = args[0].u.v;
  tn_dim k = args[1].u.i;
  uint32_t dim;
  TN_TRY(tn_shape_wrap_dim(args[2].u.i, self->ndim, &dim));
  if (TN_DIM_LT(k, 0) || TN_DIM_GT(k, tni_size(self, dim)))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected k from 0 to %lld, the size of dim %u, got %lld",
                   (long long)TN_DIM_INT(tni_size(self, dim)), dim, (long long)TN_DIM_INT(k));
  for (int i = 0; i < 2; i++) {
    tni_desc_set(&meta->out[i], i ? TN_INT64 : self->dtype, self->ndim, self->sizes, TN_DESC_CONTIGUOUS);
    if (self->ndim) meta->out[i].sizes[dim] = k;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ index tensors */

static bool is_mask(const tn_view *view) { return view->dtype == TN_BOOL || view->dtype == TN_UINT8; }

/* What a list of index tensors takes of self. */
typedef struct index_rule {
  uint64_t indexed; /* dims of self */
  bool masks;       /* a mask among them: broadcast is not known */
  uint32_t ndim;    /* of the index tensors, broadcast */
  tn_dim sizes[TN_MAX_RANK];
} index_rule;

static tn_status take_mask(const tn_view *self, const tn_view *mask, uint32_t *dim, index_rule *r) {
  bool fits = mask->ndim <= self->ndim - *dim &&
              tn_shape_equal(mask->ndim, mask->sizes, mask->ndim, self->sizes + *dim);
  if (!fits || mask->ndim == 0)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                   "expected a mask with the sizes of shape %s from dim %u on, got %s",
                   tn_shape_format(self->ndim, self->sizes, TN_SHAPE_TEXT), *dim,
                   tn_shape_format(mask->ndim, mask->sizes, TN_SHAPE_TEXT));
  for (uint32_t i = 0; i < mask->ndim; i++) r->indexed |= (uint64_t)1 << (*dim)++;
  r->masks = true;
  return TN_OK;
}

static tn_status check_indices(const tn_view *self, const tn_value *indices, index_rule *r) {
  uint32_t dim = 0;
  for (uint32_t i = 0; i < indices->count; i++) {
    const tn_view *index = indices->u.vs[i];
    if (dim >= self->ndim)
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected indices for at most the %u dims of 'self', got %u",
                     (unsigned)self->ndim, indices->count);
    if (!index) {
      dim++;
    } else if (is_mask(index)) {
      TN_TRY(take_mask(self, index, &dim, r));
    } else {
      TN_TRY(tni_check_index("indices", index, true));
      TN_TRY(tn_shape_broadcast_into(&r->ndim, r->sizes, index->ndim, index->sizes));
      r->indexed |= (uint64_t)1 << dim++;
    }
  }
  if (r->indexed) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected at least one index tensor");
}

/* The broadcast dims stand where the indexed ones stood, or in front if those are not neighbours. */
static tn_status indexed_shape(const tn_view *self, const index_rule *r, uint32_t *out_ndim,
                               tn_dim *out_sizes) {
  uint32_t first = (uint32_t)__builtin_ctzll(r->indexed), n = 0;
  uint64_t run = r->indexed >> first;
  uint32_t place = (run & (run + 1)) == 0 ? first : 0;
  TN_TRY(tni_check_rank((size_t)self->ndim + r->ndim - (size_t)__builtin_popcountll(r->indexed)));
  for (uint32_t d = 0; d < place; d++) out_sizes[n++] = self->sizes[d];
  for (uint32_t i = 0; i < r->ndim; i++) out_sizes[n++] = r->sizes[i];
  for (uint32_t d = place; d < self->ndim; d++)
    if (!(r->indexed >> d & 1)) out_sizes[n++] = self->sizes[d];
  *out_ndim = n;
  return TN_OK;
}

TN_META(index) {
  const tn_view *self = args[0].u.v;
  index_rule r = {.ndim = 0};
  tn_dim sizes[2 * TN_MAX_RANK];
  uint32_t ndim;
  TN_TRY(check_indices(self, &args[1], &r));
  TN_TRY(indexed_shape(self, &r, &ndim, sizes));
  tni_desc_set(&meta->out[0], self->dtype, ndim, sizes, TN_DESC_CONTIGUOUS);
  meta->out[0].unknown = r.masks;
  return TN_OK;
}

/* args: self indices values accumulate */
TN_META(index_put) {
  const tn_view *self = args[0].u.v, *values = args[2].u.v;
  index_rule r = {.ndim = 0};
  tn_dim sizes[2 * TN_MAX_RANK];
  uint32_t ndim;
  TN_TRY(check_indices(self, &args[1], &r));
  TN_TRY(tni_check_dtype_is("values", values, self->dtype));
  TN_TRY(indexed_shape(self, &r, &ndim, sizes));
  if (!r.masks) TN_TRY(tn_shape_check_expand(values->ndim, values->sizes, ndim, sizes));
  tni_desc_like(&meta->out[0], self, TN_DESC_CONTIGUOUS);
  return TN_OK;
}

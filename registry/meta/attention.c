/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention: query [B, H, L, E], key [B, G, S, E], value [B, G, S, V], where G divides H; the mask broadcasts to
 * [B, H, L, S].
 */
#include "registry/meta/rules.h"

static tn_status refuse(const tn_view *query, const tn_view *key, const tn_view *value) {
  return TN_FAIL(
      TN_ERR_INVALID_ARGUMENT,
      "expected query [B, H, L, E], key [B, G, S, E], value [B, G, S, V] with G dividing H, got %s, %s, %s",
      tn_shape_format(query->ndim, query->sizes, TN_SHAPE_TEXT),
      tn_shape_format(key->ndim, key->sizes, TN_SHAPE_TEXT),
      tn_shape_format(value->ndim, value->sizes, TN_SHAPE_TEXT));
}

static tn_status check_mask(const tn_value *mask, const tn_view *query, const tn_view *key) {
  if (!tni_given(mask)) return TN_OK;
  tn_dim sizes[4] = {query->sizes[0], query->sizes[1], query->sizes[2], key->sizes[2]};
  if (mask->u.v->dtype != TN_BOOL) TN_TRY(tni_check_dtype_is("attn_mask", mask->u.v, query->dtype));
  return tn_shape_check_expand(mask->u.v->ndim, mask->u.v->sizes, 4, sizes);
}

static tn_status check_operands(const tn_view *query, const tn_view *key, const tn_view *value) {
  TN_TRY(tni_check_float("query", query->dtype));
  TN_TRY(tni_check_dtype_is("key", key, query->dtype));
  TN_TRY(tni_check_dtype_is("value", value, query->dtype));
  if (query->ndim != 4 || key->ndim != 4 || value->ndim != 4) return refuse(query, key, value);
  bool fits = TN_DIM_EQ(query->sizes[0], key->sizes[0]) && TN_DIM_EQ(query->sizes[3], key->sizes[3]) &&
              TN_DIM_GT(key->sizes[1], 0) && TN_DIM_GT(query->sizes[3], 0) &&
              tn_shape_equal(3, key->sizes, 3, value->sizes);
  if (!fits || TN_DIM_NE(TN_DIM_MOD(query->sizes[1], key->sizes[1]), 0)) return refuse(query, key, value);
  return TN_OK;
}

static tn_status check_dropout(const tn_value *p) {
  if (p->u.f >= 0 && p->u.f < 1) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected dropout_p from 0 to below 1, got %g", p->u.f);
}

static tn_dim magnitude(tn_dim stride) { return TN_DIM_MAX(stride, TN_DIM_SUB(TN_DIM(0), stride)); }

/* A [B, H, L, E] result in like's order of dims: where the heads of a row lie side by side ([B, L, H, E] transposed, as
 * projections give them) so do the result's, and the projection that follows needs no copy. */
static void describe(tn_desc *desc, const tn_view *like, tn_dim width) {
  tni_desc_like(desc, like, TN_DESC_CONTIGUOUS);
  desc->sizes[3] = width;
  for (int i = 0; i < 4; i++) /* strides without elements say nothing */
    if (TN_DIM_EQ(like->sizes[i], 0)) return;
  if (!TN_DIM_LT(magnitude(like->strides[1]), magnitude(like->strides[2]))) return;
  desc->layout = TN_DESC_STRIDES;
  desc->strides[3] = TN_DIM(1);
  desc->strides[1] = TN_DIM_MAX(width, 1);
  desc->strides[2] = TN_DIM_MUL(desc->strides[1], TN_DIM_MAX(like->sizes[1], 1));
  desc->strides[0] = TN_DIM_MUL(desc->strides[2], TN_DIM_MAX(like->sizes[2], 1));
}

/* args: query key value attn_mask is_causal scale dropout_p seed offset */
TN_META(attention) {
  const tn_view *query = args[0].u.v, *value = args[2].u.v;
  TN_TRY(check_operands(query, args[1].u.v, value));
  TN_TRY(check_mask(&args[3], query, args[1].u.v));
  TN_TRY(check_dropout(&args[6]));
  describe(&meta->out[0], query, value->sizes[3]);
  tni_desc_set(&meta->out[1], query->dtype == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32, 3, query->sizes,
               TN_DESC_CONTIGUOUS);
  return TN_OK;
}

/* args: grad_out query key value attn_mask output logsumexp is_causal scale dropout_p seed offset */
TN_META(attention_backward) {
  const tn_view *grad = args[0].u.v, *query = args[1].u.v, *key = args[2].u.v, *value = args[3].u.v;
  TN_TRY(check_operands(query, key, value));
  TN_TRY(check_mask(&args[4], query, key));
  TN_TRY(check_dropout(&args[9]));
  tn_dim sizes[4] = {query->sizes[0], query->sizes[1], query->sizes[2], value->sizes[3]};
  TN_TRY(tni_check_dtype_is("grad_out", grad, query->dtype));
  TN_TRY(tni_check_shape_is("grad_out", grad, 4, sizes));
  TN_TRY(tni_check_shape_is("output", args[5].u.v, 4, sizes));
  TN_TRY(tni_check_shape_is("logsumexp", args[6].u.v, 3, sizes));
  for (int i = 0; i < 3; i++) describe(&meta->out[i], args[i + 1].u.v, args[i + 1].u.v->sizes[3]);
  return TN_OK;
}

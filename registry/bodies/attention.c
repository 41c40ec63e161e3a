/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention out of products and a softmax: for operands that the fused operator does not take, for backends
 * without it, and for its derivatives.
 */
#include <math.h>

#include "registry/bodies/compose.h"

/* The operands of one call; mask may be NULL. */
typedef struct attention {
  tn_tensor *query, *key, *value, *mask;
  bool causal;
  double scale, dropout;
} attention;

/* Heads of key or value repeated so that there are as many as query has (dim -3). */
static tn_status repeat_heads(tn_tensor *t, tn_tensor *query, tn_tensor **out_repeated) {
  tn_tensor *made[2] = {NULL};
  uint32_t ndim = tni_ndim(t);
  tn_dim sizes[TN_MAX_RANK + 1];
  if (ndim < 3 || tni_ndim(query) < 3 || ndim == TN_MAX_RANK ||
      TN_DIM_EQ(tn_tensor_sizes(t)[ndim - 3], tn_tensor_sizes(query)[tni_ndim(query) - 3])) {
    *out_repeated = tn_tensor_retain(t);
    return TN_OK;
  }
  tn_dim heads = tn_tensor_sizes(t)[ndim - 3], wanted = tn_tensor_sizes(query)[tni_ndim(query) - 3];
  if (TN_DIM_LT(heads, 1) || TN_DIM_NE(TN_DIM_MOD(wanted, heads), 0))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected heads that divide the %lld of query, got %lld",
                   (long long)TN_DIM_INT(wanted), (long long)TN_DIM_INT(heads));
  for (uint32_t i = 0; i < ndim; i++) sizes[i < ndim - 2 ? i : i + 1] = tn_tensor_sizes(t)[i];
  sizes[ndim - 2] = TN_DIM_DIV(wanted, heads);
  tn_status status;
  TNI_STEP(tn_unsqueeze(t, -3, &made[0]));
  TNI_STEP(tn_expand(made[0], sizes, ndim + 1, false, &made[1]));
  TNI_STEP(tn_flatten(made[1], -4, -3, out_repeated));
done:
  TNI_RELEASE(made);
  return status;
}

/* The additive or boolean mask on scores; rows that see nothing become 0 and are named in *out_dead. */
static tn_status hide(tn_tensor *scores, tn_tensor *mask, tn_tensor **out_scores, tn_tensor **out_dead) {
  enum { HIDDEN, MASKED, LOWEST, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  if (tn_tensor_dtype(mask) == TN_BOOL) {
    TNI_STEP(tn_logical_not(mask, &t[HIDDEN]));
    TNI_STEP(tn_masked_fill(scores, t[HIDDEN], tn_float(-INFINITY), &t[MASKED]));
  } else {
    TNI_STEP(tn_add(scores, mask, tn_int(1), &t[MASKED]));
  }
  TNI_STEP(tn_eq_scalar(t[MASKED], tn_float(-INFINITY), &t[LOWEST]));
  TNI_STEP(tn_all_dim(t[LOWEST], -1, true, out_dead));
  TNI_STEP(tn_masked_fill(t[MASKED], *out_dead, tn_int(0), out_scores));
done:
  TNI_RELEASE(t);
  return status;
}

/* The lower triangle, as a mask for scores. */
static tn_status causal_mask(tn_tensor *scores, tn_tensor **out_mask) {
  tn_tensor *ones = NULL;
  uint32_t ndim = tni_ndim(scores);
  tn_options options = {.dtype = TN_BOOL};
  tn_status status = tn_new_full(scores, tn_tensor_sizes(scores) + ndim - 2, 2, tn_int(1), &options, &ones);
  if (status == TN_OK) status = tn_tril(ones, 0, out_mask);
  tn_tensor_release(ones);
  return status;
}

/* Probabilities [..., L, S] and the scores that they came from (dead rows: 0). */
static tn_status weigh(const attention *a, tn_tensor *key, tn_tensor **out_weights, tn_tensor **out_scores,
                       tn_tensor **out_dead) {
  enum { TURNED, PLAIN, SCALED, TRIANGLE, SEEN, TRIANGLE_DEAD, SOFT, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_transpose(key, -2, -1, &t[TURNED]));
  TNI_STEP(tn_matmul(a->query, t[TURNED], &t[PLAIN]));
  TNI_STEP(tn_mul_scalar(t[PLAIN], tn_float(a->scale), &t[SCALED]));
  t[SEEN] = tn_tensor_retain(t[SCALED]);
  if (a->causal) {
    tn_tensor_release(tni_take(&t[SEEN]));
    TNI_STEP(causal_mask(t[SCALED], &t[TRIANGLE]));
    TNI_STEP(tn_logical_not(t[TRIANGLE], &t[TRIANGLE_DEAD]));
    TNI_STEP(tn_masked_fill(t[SCALED], t[TRIANGLE_DEAD], tn_float(-INFINITY), &t[SEEN]));
  }
  if (a->mask)
    TNI_STEP(hide(t[SEEN], a->mask, out_scores, out_dead));
  else
    *out_scores = tni_take(&t[SEEN]);
  TNI_STEP(tn_softmax(*out_scores, -1, TN_DTYPE_NONE, &t[SOFT]));
  if (*out_dead)
    TNI_STEP(tn_masked_fill(t[SOFT], *out_dead, tn_int(0), out_weights));
  else
    *out_weights = tni_take(&t[SOFT]);
done:
  TNI_RELEASE(t);
  return status;
}

/* Attention from its definition; out_logsumexp may be NULL. */
static tn_status attend(const attention *a, tn_tensor **out_result, tn_tensor **out_logsumexp) {
  enum { KEY, VALUE, WEIGHTS, SCORES, DEAD, DROPPED, SUM, WIDE, LOWEST, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(repeat_heads(a->key, a->query, &t[KEY]));
  TNI_STEP(repeat_heads(a->value, a->query, &t[VALUE]));
  TNI_STEP(weigh(a, t[KEY], &t[WEIGHTS], &t[SCORES], &t[DEAD]));
  if (a->dropout > 0) TNI_STEP(tn_dropout(t[WEIGHTS], a->dropout, true, &t[DROPPED]));
  TNI_STEP(tn_matmul(t[a->dropout > 0 ? DROPPED : WEIGHTS], t[VALUE], out_result));
  if (out_logsumexp) {
    tn_dtype dtype = tn_tensor_dtype(a->query) == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32;
    TNI_STEP(tn_to_dtype(t[SCORES], dtype, false, false, 0, &t[WIDE]));
    if (t[DEAD]) {
      TNI_STEP(tn_masked_fill(t[WIDE], t[DEAD], tn_float(-INFINITY), &t[LOWEST]));
      tn_tensor_release(tni_take(&t[WIDE]));
      t[WIDE] = tni_take(&t[LOWEST]);
    }
    TNI_STEP(tn_logsumexp(t[WIDE], (const int64_t[]){-1}, 1, false, out_logsumexp));
  }
done:
  TNI_RELEASE(t);
  return status;
}

/* args: query key value attn_mask is_causal scale */
TN_BODY(fused_attention) {
  attention a = {
      args[0].u.t, args[1].u.t, args[2].u.t, tni_tensor_or_null(&args[3]), args[4].u.i, args[5].u.f, 0};
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TNI_STEP(attend(&a, &t[0], &t[1]));
  for (int i = 0; i < 2; i++) out[i] = tn_value_tensor(tni_take(&t[i]));
done:
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ scaled_dot_product_attention */

static tn_status check_attention(const attention *a, bool shares_heads) {
  uint32_t ndim = tni_ndim(a->query);
  if (ndim < 2 || tni_ndim(a->key) < 2 || tni_ndim(a->value) < 2 ||
      TN_DIM_LT(tn_tensor_sizes(a->query)[ndim - 1], 1))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected 'query', 'key' and 'value' [..., L, E], got %s, %s, %s",
                   tni_shape_text(a->query, TN_SHAPE_TEXT), tni_shape_text(a->key, TN_SHAPE_TEXT),
                   tni_shape_text(a->value, TN_SHAPE_TEXT));
  if (a->dropout < 0 || a->dropout >= 1)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected dropout_p from 0 to below 1, got %g", a->dropout);
  if (a->mask && a->causal)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected attn_mask or is_causal, not both");
  bool same = ndim < 3 || tni_ndim(a->key) < 3 ||
              TN_DIM_EQ(tn_tensor_sizes(a->key)[tni_ndim(a->key) - 3], tn_tensor_sizes(a->query)[ndim - 3]);
  if (shares_heads || same) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT,
                 "expected as many heads in 'key' as in 'query' without enable_gqa, got %s and %s",
                 tni_shape_text(a->key, TN_SHAPE_TEXT), tni_shape_text(a->query, TN_SHAPE_TEXT));
}

/* May the fused operator take it? It knows no dropout and gives the mask no gradient. */
static bool is_fused(const attention *a) {
  return a->dropout == 0 && tni_ndim(a->query) == 4 && tni_ndim(a->key) == 4 && tni_ndim(a->value) == 4 &&
         TN_DIM_EQ(tn_tensor_sizes(a->query)[0], tn_tensor_sizes(a->key)[0]) &&
         tn_shape_equal(3, tn_tensor_sizes(a->key), 3, tn_tensor_sizes(a->value)) &&
         !(a->mask && tn_requires_grad(a->mask));
}

/* args: query key value attn_mask dropout_p is_causal scale enable_gqa */
TN_BODY(attention) {
  attention a = {args[0].u.t, args[1].u.t, args[2].u.t, tni_tensor_or_null(&args[3]),
                 args[5].u.i, 0,           args[4].u.f};
  tn_tensor *t[2] = {NULL};
  TN_TRY(check_attention(&a, args[7].u.i));
  double size = (double)TN_DIM_INT(tn_tensor_sizes(a.query)[tni_ndim(a.query) - 1]);
  a.scale = tni_has(&args[6]) ? args[6].u.f : 1 / sqrt(size);
  tn_status status;
  if (is_fused(&a))
    TNI_STEP(
        tn__scaled_dot_product_attention(a.query, a.key, a.value, a.mask, a.causal, a.scale, &t[0], &t[1]));
  else
    TNI_STEP(attend(&a, &t[0], NULL));
  out[0] = tn_value_tensor(tni_take(&t[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ gradients */

/* grad summed over the heads that shared one of like's. */
static tn_status share_heads(tn_tensor *grad, tn_tensor *like, tn_tensor **out_shared) {
  tn_tensor *split = NULL;
  const tn_dim *sizes = tn_tensor_sizes(like);
  if (tni_same_shape(grad, like)) {
    *out_shared = tn_tensor_retain(grad);
    return TN_OK;
  }
  tn_dim five[5] = {sizes[0], sizes[1], TN_DIM_DIV(tn_tensor_sizes(grad)[1], sizes[1]), sizes[2], sizes[3]};
  tn_status status = tn_reshape(grad, five, 5, &split);
  if (status == TN_OK) status = tn_sum_dim(split, (const int64_t[]){2}, 1, false, TN_DTYPE_NONE, out_shared);
  tn_tensor_release(split);
  return status;
}

/* args: grad_out query key value attn_mask output logsumexp is_causal scale. With p the probabilities and
 * d = grad value^T: scores get p * (d - sum(p * d)). */
TN_BODY(attention_backward) {
  enum {
    KEY,
    VALUE,
    P,
    SCORES,
    DEAD,
    VT,
    D,
    PD,
    ROW,
    LESS,
    S,
    SCALED,
    ST,
    PT,
    QUERY_GRAD,
    K,
    V,
    KEY_GRAD,
    VALUE_GRAD,
    N
  };
  attention a = {
      args[1].u.t, args[2].u.t, args[3].u.t, tni_tensor_or_null(&args[4]), args[7].u.i, args[8].u.f, 0};
  tn_tensor *grad = args[0].u.t, *t[N] = {NULL};
  tn_status status;
  TNI_STEP(repeat_heads(a.key, a.query, &t[KEY]));
  TNI_STEP(repeat_heads(a.value, a.query, &t[VALUE]));
  TNI_STEP(weigh(&a, t[KEY], &t[P], &t[SCORES], &t[DEAD]));
  TNI_STEP(tn_transpose(t[VALUE], -2, -1, &t[VT]));
  TNI_STEP(tn_matmul(grad, t[VT], &t[D]));
  TNI_STEP(tn_mul(t[P], t[D], &t[PD]));
  TNI_STEP(tn_sum_dim(t[PD], (const int64_t[]){-1}, 1, true, TN_DTYPE_NONE, &t[ROW]));
  TNI_STEP(tn_sub(t[D], t[ROW], tn_int(1), &t[LESS]));
  TNI_STEP(tn_mul(t[P], t[LESS], &t[S]));
  TNI_STEP(tn_mul_scalar(t[S], tn_float(a.scale), &t[SCALED]));
  TNI_STEP(tn_matmul(t[SCALED], t[KEY], &t[QUERY_GRAD]));
  TNI_STEP(tn_transpose(t[SCALED], -2, -1, &t[ST]));
  TNI_STEP(tn_matmul(t[ST], a.query, &t[K]));
  TNI_STEP(share_heads(t[K], a.key, &t[KEY_GRAD]));
  TNI_STEP(tn_transpose(t[P], -2, -1, &t[PT]));
  TNI_STEP(tn_matmul(t[PT], grad, &t[V]));
  TNI_STEP(share_heads(t[V], a.value, &t[VALUE_GRAD]));
  out[0] = tn_value_tensor(tni_take(&t[QUERY_GRAD]));
  out[1] = tn_value_tensor(tni_take(&t[KEY_GRAD]));
  out[2] = tn_value_tensor(tni_take(&t[VALUE_GRAD]));
done:
  TNI_RELEASE(t);
  return status;
}

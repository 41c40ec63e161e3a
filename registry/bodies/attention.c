/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention out of products and a softmax: for operands that the fused operator does not take, for backends
 * without it, and for its derivatives.
 */
#include <math.h>

#include "registry/bodies/attention.h"
#include "registry/bodies/compose.h"

/* The operands of one call; mask may be NULL. */
typedef struct attention {
  tn_tensor *query, *key, *value, *mask;
  bool causal;
  double scale, dropout;
  const tn_generator_state *drawn; /* with dropout: the counters of the weights; NULL: not drawn yet */
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

/* The additive or boolean mask on scores. */
static tn_status hide(tn_tensor *scores, tn_tensor *mask, tn_tensor **out_scores) {
  if (tn_tensor_dtype(mask) != TN_BOOL) return tn_add(scores, mask, tn_int(1), out_scores);
  tn_tensor *hidden = NULL;
  tn_status status = tn_logical_not(mask, &hidden);
  if (status == TN_OK) status = tn_masked_fill(scores, hidden, tn_float(-INFINITY), out_scores);
  tn_tensor_release(hidden);
  return status;
}

/* What is not of the lower triangle, as a mask for scores. */
static tn_status causal_mask(tn_tensor *scores, tn_tensor **out_hidden) {
  tn_tensor *t[2] = {NULL};
  uint32_t ndim = tni_ndim(scores);
  tn_options options = {.dtype = TN_BOOL};
  tn_status status;
  TNI_STEP(tn_new_full(scores, tn_tensor_sizes(scores) + ndim - 2, 2, tn_int(1), &options, &t[0]));
  TNI_STEP(tn_tril(t[0], 0, &t[1]));
  TNI_STEP(tn_logical_not(t[1], out_hidden));
done:
  TNI_RELEASE(t);
  return status;
}

/* Scores [..., L, S]; -infinity where a row does not see a key. key: as many heads as query has. */
static tn_status score(const attention *a, tn_tensor *key, tn_tensor **out_scores) {
  enum { TURNED, PLAIN, SCALED, HIDDEN, SEEN, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_transpose(key, -2, -1, &t[TURNED]));
  TNI_STEP(tn_matmul(a->query, t[TURNED], &t[PLAIN]));
  TNI_STEP(tn_mul_scalar(t[PLAIN], tn_float(a->scale), &t[SCALED]));
  if (a->causal) {
    TNI_STEP(causal_mask(t[SCALED], &t[HIDDEN]));
    TNI_STEP(tn_masked_fill(t[SCALED], t[HIDDEN], tn_float(-INFINITY), &t[SEEN]));
  } else {
    t[SEEN] = tni_take(&t[SCALED]);
  }
  if (a->mask)
    TNI_STEP(hide(t[SEEN], a->mask, out_scores));
  else
    *out_scores = tni_take(&t[SEEN]);
done:
  TNI_RELEASE(t);
  return status;
}

/* The rows [..., L, 1] that see nothing; NULL where no mask could make one. */
static tn_status find_dead(const attention *a, tn_tensor *scores, tn_tensor **out_dead) {
  tn_tensor *lowest = NULL;
  if (!a->mask) return TN_OK;
  tn_status status = tn_eq_scalar(scores, tn_float(-INFINITY), &lowest);
  if (status == TN_OK) status = tn_all_dim(lowest, -1, true, out_dead);
  tn_tensor_release(lowest);
  return status;
}

/* t with value in dead rows; t itself if there are none. */
static tn_status fill_dead(tn_tensor *t, tn_tensor *dead, double value, tn_tensor **out_filled) {
  if (dead) return tn_masked_fill(t, dead, tn_float(value), out_filled);
  *out_filled = tn_tensor_retain(t);
  return TN_OK;
}

/* Probabilities of scores. */
static tn_status weigh(tn_tensor *scores, tn_tensor *dead, tn_tensor **out_weights) {
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TNI_STEP(fill_dead(scores, dead, 0, &t[0]));
  TNI_STEP(tn_softmax(t[0], -1, TN_DTYPE_NONE, &t[1]));
  TNI_STEP(fill_dead(t[1], dead, 0, out_weights));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_dtype wide_dtype(const tn_tensor *t) {
  return tn_tensor_dtype(t) == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32;
}

/* Logarithms of the rows' sums of exponentials; -infinity for rows without keys, and for dead ones without a NaN in
 * their gradient. */
static tn_status sum_logs(tn_tensor *scores, tn_tensor *dead, tn_tensor **out_logsumexp) {
  enum { WIDE, FILLED, SUM, ROWS, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_to_dtype(scores, wide_dtype(scores), false, false, 0, &t[WIDE]));
  TNI_STEP(fill_dead(t[WIDE], dead, 0, &t[FILLED]));
  if (TN_DIM_EQ(tn_tensor_sizes(scores)[tni_ndim(scores) - 1], 0)) {
    TNI_STEP(tn_sum_dim(t[FILLED], (const int64_t[]){-1}, 1, false, TN_DTYPE_NONE, &t[SUM]));
    status = tn_add_scalar(t[SUM], tn_float(-INFINITY), tn_int(1), out_logsumexp);
    goto done;
  }
  TNI_STEP(tn_logsumexp(t[FILLED], (const int64_t[]){-1}, 1, false, &t[SUM]));
  if (dead) TNI_STEP(tn_squeeze_dim(dead, -1, &t[ROWS]));
  TNI_STEP(fill_dead(t[SUM], t[ROWS], -INFINITY, out_logsumexp));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_dim magnitude(tn_dim stride) { return TN_DIM_MAX(stride, TN_DIM_SUB(TN_DIM(0), stride)); }

/* t, [B, H, L, E], in memory as the meta rule describes it: in the order of like's dims. */
static tn_status in_order_of(tn_tensor *t, tn_tensor *like, tn_tensor **out_ordered) {
  tn_tensor *made[2] = {NULL};
  const tn_dim *strides = tn_tensor_strides(like);
  if (tn_tensor_numel(like) == 0 || !TN_DIM_LT(magnitude(strides[1]), magnitude(strides[2])))
    return tn_contiguous(t, TN_CONTIGUOUS_FORMAT, out_ordered);
  tn_status status;
  TNI_STEP(tn_transpose(t, 1, 2, &made[0]));
  TNI_STEP(tn_contiguous(made[0], TN_CONTIGUOUS_FORMAT, &made[1]));
  TNI_STEP(tn_transpose(made[1], 1, 2, out_ordered));
done:
  TNI_RELEASE(made);
  return status;
}

/* Takes n counters from the generator of t's device. */
static tn_status draw(const tn_tensor *t, tn_dim n, tn_generator_state *out_first) {
  tn_generator *g = NULL;
  TN_TRY(tn_generator_default(tn_tensor_device(t), &g));
  return tn_generator_draw(g, (uint64_t)TN_DIM_INT(n), out_first);
}

/* What tn_dropout does, with the counters of this call: they may be those that another call drew. */
static tn_status drop(const attention *a, tn_tensor *weights, tn_tensor **out_dropped) {
  tn_tensor *mask = NULL;
  tn_generator *g = NULL;
  tn_generator_state first;
  tn_status status;
  if (a->drawn)
    first = *a->drawn;
  else
    TNI_STEP(draw(weights, TN_DIM(tn_tensor_numel(weights)), &first));
  TNI_STEP(tn_generator_new(0, &g));
  TNI_STEP(tn_generator_set_state(g, &first));
  TNI_STEP(tn_empty_like(weights, NULL, 0, &mask));
  TNI_STEP(tn_bernoulli_(mask, 1 - a->dropout, g));
  TNI_STEP(tn_div_scalar_(mask, tn_float(1 - a->dropout)));
  TNI_STEP(tn_mul(weights, mask, out_dropped));
done:
  tn_tensor_release(mask);
  tn_generator_release(g);
  return status;
}

/* Attention from its definition; out_logsumexp may be NULL. */
static tn_status attend(const attention *a, tn_tensor **out_result, tn_tensor **out_logsumexp) {
  enum { KEY, VALUE, WEIGHTS, SCORES, DEAD, DROPPED, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(repeat_heads(a->key, a->query, &t[KEY]));
  TNI_STEP(repeat_heads(a->value, a->query, &t[VALUE]));
  TNI_STEP(score(a, t[KEY], &t[SCORES]));
  TNI_STEP(find_dead(a, t[SCORES], &t[DEAD]));
  TNI_STEP(weigh(t[SCORES], t[DEAD], &t[WEIGHTS]));
  if (a->dropout > 0) TNI_STEP(drop(a, t[WEIGHTS], &t[DROPPED]));
  TNI_STEP(tn_matmul(t[a->dropout > 0 ? DROPPED : WEIGHTS], t[VALUE], out_result));
  if (out_logsumexp) TNI_STEP(sum_logs(t[SCORES], t[DEAD], out_logsumexp));
done:
  TNI_RELEASE(t);
  return status;
}

/* seed and offset as they stand in a schema */
static tn_generator_state state_of(const tn_value *two) {
  return (tn_generator_state){(uint64_t)two[0].u.i, (uint64_t)two[1].u.i};
}

/* args: query key value attn_mask is_causal scale dropout_p seed offset */
TN_BODY(fused_attention) {
  const tn_generator_state drawn = state_of(&args[7]);
  attention a = {args[0].u.t, args[1].u.t, args[2].u.t, tni_tensor_or_null(&args[3]),
                 args[4].u.i, args[5].u.f, args[6].u.f, &drawn};
  tn_tensor *t[3] = {NULL};
  tn_status status;
  TNI_STEP(attend(&a, &t[2], &t[1]));
  TNI_STEP(in_order_of(t[2], a.query, &t[0]));
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

/* May the fused operator take it? It gives the mask no gradient. */
static bool is_fused(const attention *a) {
  return tni_ndim(a->query) == 4 && tni_ndim(a->key) == 4 && tni_ndim(a->value) == 4 &&
         TN_DIM_EQ(tn_tensor_sizes(a->query)[0], tn_tensor_sizes(a->key)[0]) &&
         tn_shape_equal(3, tn_tensor_sizes(a->key), 3, tn_tensor_sizes(a->value)) &&
         !(a->mask && tn_requires_grad(a->mask));
}

/* One counter a weight, if there is dropout. */
static tn_status attend_fused(const attention *a, tn_tensor **out_result, tn_tensor **out_logsumexp) {
  const tn_dim *sizes = tn_tensor_sizes(a->query);
  tn_dim rows = TN_DIM_MUL(TN_DIM_MUL(sizes[0], sizes[1]), sizes[2]);
  tn_generator_state drawn = {0, 0};
  if (a->dropout > 0) TN_TRY(draw(a->query, TN_DIM_MUL(rows, tn_tensor_sizes(a->key)[2]), &drawn));
  return tn__scaled_dot_product_attention(a->query, a->key, a->value, a->mask, a->causal, a->scale,
                                          a->dropout, (int64_t)drawn.seed, (int64_t)drawn.offset, out_result,
                                          out_logsumexp);
}

/* args: query key value attn_mask dropout_p is_causal scale enable_gqa */
TN_BODY(attention) {
  attention a = {args[0].u.t, args[1].u.t, args[2].u.t, tni_tensor_or_null(&args[3]),
                 args[5].u.i, 0,           args[4].u.f, NULL};
  tn_tensor *t[2] = {NULL};
  TN_TRY(check_attention(&a, args[7].u.i));
  double size = (double)TN_DIM_INT(tn_tensor_sizes(a.query)[tni_ndim(a.query) - 1]);
  a.scale = tni_has(&args[6]) ? args[6].u.f : 1 / sqrt(size);
  tn_status status;
  if (is_fused(&a))
    TNI_STEP(attend_fused(&a, &t[0], &t[1]));
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

tn_status tni_attention_logsumexp(tn_tensor *query, tn_tensor *key, tn_tensor *mask, bool causal,
                                  double scale, tn_tensor **out_logsumexp) {
  enum { KEY, SCORES, DEAD, N };
  attention a = {query, key, NULL, mask, causal, scale, 0, NULL};
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(repeat_heads(key, query, &t[KEY]));
  TNI_STEP(score(&a, t[KEY], &t[SCORES]));
  TNI_STEP(find_dead(&a, t[SCORES], &t[DEAD]));
  TNI_STEP(sum_logs(t[SCORES], t[DEAD], out_logsumexp));
done:
  TNI_RELEASE(t);
  return status;
}

/* exp(score - logsumexp), 0 for rows that saw nothing. */
static tn_status weigh_again(const attention *a, tn_tensor *key, tn_tensor *logsumexp,
                             tn_tensor **out_weights) {
  enum { SCORES, WIDE, SAME, LOWEST, BASE, COLUMN, BELOW, WEIGHTS, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(score(a, key, &t[SCORES]));
  TNI_STEP(tn_to_dtype(t[SCORES], wide_dtype(key), false, false, 0, &t[WIDE]));
  TNI_STEP(tn_to_dtype(logsumexp, wide_dtype(key), false, false, 0, &t[SAME]));
  TNI_STEP(tn_eq_scalar(t[SAME], tn_float(-INFINITY), &t[LOWEST]));
  TNI_STEP(tn_masked_fill(t[SAME], t[LOWEST], tn_float(INFINITY), &t[BASE]));
  TNI_STEP(tn_unsqueeze(t[BASE], -1, &t[COLUMN]));
  TNI_STEP(tn_sub(t[WIDE], t[COLUMN], tn_int(1), &t[BELOW]));
  TNI_STEP(tn_exp(t[BELOW], &t[WEIGHTS]));
  TNI_STEP(tn_to_dtype(t[WEIGHTS], tn_tensor_dtype(key), false, false, 0, out_weights));
done:
  TNI_RELEASE(t);
  return status;
}

/* Gradients of the scores before they were scaled: weights * (grad @ value^T - sum of grad * output) * scale; the
 * product is dropped as the weights were. value: as many heads as query has. */
static tn_status lean(const attention *a, tn_tensor *grad, tn_tensor *weights, tn_tensor *value,
                      tn_tensor *output, tn_tensor **out_scores) {
  enum { TURNED, PRODUCTS, LEFT, OWN, DELTA, LESS, PART, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_transpose(value, -2, -1, &t[TURNED]));
  TNI_STEP(tn_matmul(grad, t[TURNED], &t[PRODUCTS]));
  if (a->dropout > 0) TNI_STEP(drop(a, t[PRODUCTS], &t[LEFT]));
  TNI_STEP(tn_mul(grad, output, &t[OWN]));
  TNI_STEP(tn_sum_dim(t[OWN], (const int64_t[]){-1}, 1, true, TN_DTYPE_NONE, &t[DELTA]));
  TNI_STEP(tn_sub(t[a->dropout > 0 ? LEFT : PRODUCTS], t[DELTA], tn_int(1), &t[LESS]));
  TNI_STEP(tn_mul(weights, t[LESS], &t[PART]));
  TNI_STEP(tn_mul_scalar(t[PART], tn_float(a->scale), out_scores));
done:
  TNI_RELEASE(t);
  return status;
}

/* The transpose of table times rows, for the heads of like, in like's order. */
static tn_status gather_rows(tn_tensor *table, tn_tensor *rows, tn_tensor *like, tn_tensor **out_grad) {
  tn_tensor *t[3] = {NULL};
  tn_status status;
  TNI_STEP(tn_transpose(table, -2, -1, &t[0]));
  TNI_STEP(tn_matmul(t[0], rows, &t[1]));
  TNI_STEP(share_heads(t[1], like, &t[2]));
  TNI_STEP(in_order_of(t[2], like, out_grad));
done:
  TNI_RELEASE(t);
  return status;
}

/* args: grad_out query key value attn_mask output logsumexp is_causal scale dropout_p seed offset */
TN_BODY(attention_backward) {
  enum { KEY, VALUE, WEIGHTS, SCORES, DROPPED, QUERY, QUERY_GRAD, KEY_GRAD, VALUE_GRAD, N };
  const tn_generator_state drawn = state_of(&args[10]);
  attention a = {args[1].u.t, args[2].u.t, args[3].u.t, tni_tensor_or_null(&args[4]),
                 args[7].u.i, args[8].u.f, args[9].u.f, &drawn};
  tn_tensor *grad = args[0].u.t, *t[N] = {NULL};
  tn_status status;
  TNI_STEP(repeat_heads(a.key, a.query, &t[KEY]));
  TNI_STEP(repeat_heads(a.value, a.query, &t[VALUE]));
  TNI_STEP(weigh_again(&a, t[KEY], args[6].u.t, &t[WEIGHTS]));
  TNI_STEP(lean(&a, grad, t[WEIGHTS], t[VALUE], args[5].u.t, &t[SCORES]));
  TNI_STEP(tn_matmul(t[SCORES], t[KEY], &t[QUERY]));
  TNI_STEP(in_order_of(t[QUERY], a.query, &t[QUERY_GRAD]));
  TNI_STEP(gather_rows(t[SCORES], a.query, a.key, &t[KEY_GRAD]));
  if (a.dropout > 0) TNI_STEP(drop(&a, t[WEIGHTS], &t[DROPPED]));
  TNI_STEP(gather_rows(t[a.dropout > 0 ? DROPPED : WEIGHTS], grad, a.value, &t[VALUE_GRAD]));
  for (int i = 0; i < 3; i++) out[i] = tn_value_tensor(tni_take(&t[QUERY_GRAD + i]));
done:
  TNI_RELEASE(t);
  return status;
}

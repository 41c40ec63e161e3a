/* SPDX-License-Identifier: Apache-2.0
 *
 * MultiheadAttention, over scaled_dot_product_attention, and the pre-norm transformer layer that is made of it.
 * Batch first throughout; names of parameters are PyTorch's.
 */
#include "frontends/c/src/module_int.h"

/* ------------------------------------------------------------------ MultiheadAttention */

/* Entries of the module, by position; its only child is the projection of the result. */
enum { IN_WEIGHT, IN_BIAS };

typedef struct attention {
  tn_attention_options options;
  int64_t width, heads;
} attention;

/* [N, L, parts * width] to parts tensors [N, heads, L, width / heads], views of it where strides allow. */
static void split_heads(const attention *a, tn_tensor *joined, int64_t parts, tn_tensor **out_parts) {
  if (!joined) return;
  const tn_dim *sizes = tn_tensor_sizes(joined);
  const int64_t split[] = {sizes[0], sizes[1], parts, a->heads, a->width / a->heads};
  const int64_t order[] = {2, 0, 3, 1, 4};
  tn_tensor *all = tns_permute(tns_reshape(joined, split, 5), order, 5);
  for (int64_t i = 0; i < parts; i++) out_parts[i] = tns_select(all, 0, i);
}

/* Rows [from, to) in units of width of the joined projection. */
static tn_tensor *project(const attention *a, const tni_nn_entry *e, tn_tensor *x, int64_t from, int64_t to) {
  const int64_t first = from * a->width, last = to * a->width;
  tn_tensor *weight = tns_slice(e[IN_WEIGHT].tensor, 0, &first, &last, 1);
  tn_tensor *bias = e[IN_BIAS].tensor ? tns_slice(e[IN_BIAS].tensor, 0, &first, &last, 1) : NULL;
  return tns_linear(x, weight, bias);
}

/* Inside a scope: q, k and v of [query] or of [query, key, value]. */
static void project_all(const attention *a, const tni_nn_entry *e, tn_tensor *const *in, bool self_attention,
                        tn_tensor *qkv[3]) {
  if (self_attention) {
    split_heads(a, tns_linear(in[0], e[IN_WEIGHT].tensor, e[IN_BIAS].tensor), 3, qkv);
    return;
  }
  for (int i = 0; i < 3; i++) split_heads(a, project(a, e, in[i], i, i + 1), 1, &qkv[i]);
}

static tn_status check_input(const tn_module *self, const attention *a, const tn_tensor *x,
                             const char *what) {
  char shape[160];
  if (tn_tensor_ndim(x) == 3 && tn_tensor_sizes(x)[2] == a->width) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: %s of shape [N, L, %lld] was expected, not %s", self->def.name,
                 what, (long long)a->width, tni_nn_shape(x, shape, sizeof shape));
}

static tn_status attention_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                   tn_tensor **out_result) {
  static const char *const names[] = {"a query", "a key", "a value"};
  const attention *a = ctx;
  tn_tensor *qkv[3] = {NULL};
  tn_scope *scope = NULL;
  if (n_in < 1 || n_in > 4)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s takes x; x, mask; q, k, v; or q, k, v, mask: %zu inputs came",
                   self->def.name, n_in);
  size_t n_tensors = n_in <= 2 ? 1 : 3;
  for (size_t i = 0; i < n_tensors; i++) TN_TRY(check_input(self, a, in[i], names[i]));
  TN_TRY(tn_scope_begin(&scope));
  project_all(a, self->entries, in, n_tensors == 1, qkv);
  tn_tensor *mask = n_in % 2 == 0 ? in[n_in - 1] : NULL;
  double dropout = self->training ? a->options.dropout : 0.0;
  tn_tensor *y =
      tns_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], mask, dropout, a->options.causal, NULL, false);
  const int64_t joined[] = {tn_tensor_sizes(in[0])[0], tn_tensor_sizes(in[0])[1], a->width};
  y = tns_reshape(tns_transpose(y, 1, 2), joined, 3);
  return tni_nn_scope_result(scope, tns_module_forward(self->children[0].module, y), out_result);
}

static tn_status attention_fill(tn_module *m, const attention *a, const tn_options *options) {
  const tn_dim sizes[] = {3 * a->width, a->width};
  tn_tensor *weight = NULL, *bias = NULL;
  tn_module *out = NULL;
  TN_TRY(tni_nn_make_parameter(m, "in_proj_weight", sizes, 2, options, &weight));
  TN_TRY(tn_init_xavier_uniform(weight, 1.0, NULL));
  if (a->options.bias) {
    TN_TRY(tni_nn_make_parameter(m, "in_proj_bias", sizes, 1, options, &bias));
    TN_TRY(tn_init_zeros(bias));
  } else {
    TN_TRY(tn_module_add_parameter(m, "in_proj_bias", NULL));
  }
  tn_status status = tn_linear_new(a->width, a->width, a->options.bias, options, &out);
  if (status == TN_OK && a->options.bias) status = tn_init_zeros(tn_module_tensor(out, "bias"));
  return tni_nn_take_child(status, m, "out_proj", out);
}

tn_status tn_multihead_attention_new(int64_t width, int64_t heads, const tn_attention_options *attn,
                                     const tn_options *options, tn_module **out_module) {
  static const tn_module_def def = {"MultiheadAttention", attention_forward, free};
  const tn_attention_options o = attn ? *attn : tn_attention_defaults();
  *out_module = NULL;
  TN_TRY(tni_nn_at_least(def.name, "the width", width, 1));
  TN_TRY(tni_nn_at_least(def.name, "the number of heads", heads, 1));
  if (width % heads || width > INT64_MAX / 3)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: %lld heads do not divide a width of %lld", def.name,
                   (long long)heads, (long long)width);
  if (!(o.dropout >= 0.0 && o.dropout <= 1.0))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: a probability in [0, 1] was expected, %g came", def.name,
                   o.dropout);
  attention *a = NULL;
  tn_module *m = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *a, "a MultiheadAttention", &a));
  *a = (attention){o, width, heads};
  TN_TRY(tn_module_new(&def, a, &m));
  return tni_nn_finish(attention_fill(m, a, options), m, out_module);
}

/* ------------------------------------------------------------------ TransformerLayer */

/* Children of the layer, by position. */
enum { NORM1, SELF_ATTN, NORM2, UP, ACTIVATION, DOWN, DROPOUT };

static tn_status layer_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                               tn_tensor **out_result) {
  const tni_nn_child *c = self->children;
  tn_scope *scope = NULL;
  TN_TRY(tni_nn_one_input(self, n_in));
  TN_TRY(tn_scope_begin(&scope));
  tn_tensor *x = in[0];
  tn_tensor *y = tns_module_forward(c[SELF_ATTN].module, tns_module_forward(c[NORM1].module, x));
  x = tns_add(x, tns_module_forward(c[DROPOUT].module, y), tn_int(1));
  y = tns_module_forward(c[UP].module, tns_module_forward(c[NORM2].module, x));
  y = tns_module_forward(c[DOWN].module, tns_module_forward(c[ACTIVATION].module, y));
  x = tns_add(x, tns_module_forward(c[DROPOUT].module, y), tn_int(1));
  return tni_nn_scope_result(scope, x, out_result);
}

static tn_status layer_fill(tn_module *m, int64_t width, int64_t heads, int64_t hidden,
                            const tn_attention_options *attn, const tn_options *options) {
  tn_module *c = NULL;
  tn_status status = tn_layer_norm_new(&width, 1, 1e-5, true, options, &c);
  TN_TRY(tni_nn_take_child(status, m, "norm1", c));
  status = tn_multihead_attention_new(width, heads, attn, options, &c);
  TN_TRY(tni_nn_take_child(status, m, "self_attn", c));
  status = tn_layer_norm_new(&width, 1, 1e-5, true, options, &c);
  TN_TRY(tni_nn_take_child(status, m, "norm2", c));
  status = tn_linear_new(width, hidden, true, options, &c);
  TN_TRY(tni_nn_take_child(status, m, "linear1", c));
  status = tn_gelu_new(false, &c);
  TN_TRY(tni_nn_take_child(status, m, "activation", c));
  status = tn_linear_new(hidden, width, true, options, &c);
  TN_TRY(tni_nn_take_child(status, m, "linear2", c));
  status = tn_dropout_new(attn->dropout, &c);
  return tni_nn_take_child(status, m, "dropout", c);
}

tn_status tn_transformer_layer_new(int64_t width, int64_t heads, int64_t hidden,
                                   const tn_attention_options *attn, const tn_options *options,
                                   tn_module **out_module) {
  static const tn_module_def def = {"TransformerLayer", layer_forward, NULL};
  const tn_attention_options o = attn ? *attn : tn_attention_defaults();
  tn_module *m = NULL;
  *out_module = NULL;
  TN_TRY(tni_nn_at_least(def.name, "the width", width, 1));
  TN_TRY(tni_nn_at_least(def.name, "the hidden width", hidden, 1));
  TN_TRY(tn_module_new(&def, NULL, &m));
  return tni_nn_finish(layer_fill(m, width, heads, hidden, &o, options), m, out_module);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The convnet and the transformer of suite train, written out in operators, as ci/bench/torch_worker.py writes
 * them for the comparison. Values are made up; only their sizes matter.
 */
#include <math.h>

#include "frontends/cli/bench_model.h"

/* A parameter from N(0, 1) times a scale; scale 0: filled with value. */
static tn_status add_parameter(tni_bench_model *m, const tn_dim *sizes, size_t ndim, double scale,
                               double value) {
  if (m->n == TNI_BENCH_PARAMETERS) return tn_fail(TN_ERR_INTERNAL, "a model of the bench has no room");
  tn_tensor **p = &m->p[m->n];
  const tn_options *options = TN_OPTIONS(.dtype = TN_FLOAT32);
  if (scale == 0.0) {
    TN_TRY(tn_full(sizes, ndim, tn_float(value), options, p));
  } else {
    TN_TRY(tn_randn(sizes, ndim, options, p));
  }
  m->n++;
  if (scale != 0.0) TN_TRY(tn_mul_scalar_(*p, tn_float(scale)));
  return tn_set_requires_grad(*p, true);
}

/* The kernels of a convolution: channels innermost, as the images are. */
static tn_status add_kernels(tni_bench_model *m, const tn_dim *sizes, double scale) {
  tn_tensor **p = &m->p[m->n], *t = NULL;
  TN_TRY(add_parameter(m, sizes, 4, scale, 0.0));
  TN_TRY(tn_set_requires_grad(*p, false));
  TN_TRY(tn_contiguous(*p, TN_CHANNELS_LAST, &t));
  tn_tensor_release(*p);
  *p = t;
  return tn_set_requires_grad(*p, true);
}

static tn_status add_weight(tni_bench_model *m, tn_dim out, tn_dim in) {
  return add_parameter(m, (const tn_dim[]){out, in}, 2, 1.0 / sqrt((double)in), 0.0);
}

static tn_status add_vector(tni_bench_model *m, tn_dim n, double value) {
  return add_parameter(m, &n, 1, 0.0, value);
}

/* ------------------------------------------------------------------ convnet: channels innermost throughout */

static tn_tensor *convnet_loss(tni_bench_model *m, tn_tensor *input, tn_tensor *target) {
  static const int64_t ones[] = {1, 1}, zeros[] = {0, 0}, twos[] = {2, 2};
  tn_tensor *const *p = m->p;
  tn_tensor *x = tns_relu(tns_conv2d(input, p[0], p[1], ones, 2, zeros, 2, ones, 2, 1));
  x = tns_relu(tns_conv2d(x, p[2], p[3], ones, 2, zeros, 2, ones, 2, 1));
  x = tns_max_pool2d(x, twos, 2, twos, 2, zeros, 2, ones, 2, false);
  x = tns_linear(tns_flatten(x, 1, -1), p[4], p[5]);
  return tns_cross_entropy_loss(x, target, NULL, 1, -100, 0.0);
}

tn_status tni_bench_convnet(tni_bench *b, tni_bench_model *m) {
  const tn_dim batch = b->which->size;
  m->loss = convnet_loss;
  TN_TRY(add_kernels(m, (const tn_dim[]){32, 1, 3, 3}, 1.0 / 3.0));
  TN_TRY(add_vector(m, 32, 0.0));
  TN_TRY(add_kernels(m, (const tn_dim[]){64, 32, 3, 3}, 1.0 / 17.0));
  TN_TRY(add_vector(m, 64, 0.0));
  TN_TRY(add_weight(m, 10, 9216));
  TN_TRY(add_vector(m, 10, 0.0));
  TN_TRY(tni_bench_randn(b, 0, (const tn_dim[]){batch, 1, 28, 28}, 4));
  TN_TRY(tn_randint(10, &batch, 1, TN_OPTIONS(.dtype = TN_INT64), &b->t[1]));
  return tn_adam_new(m->p, m->n, NULL, &m->optimizer);
}

/* ------------------------------------------------------------------ transformer */

enum { LAYERS = 4, WIDTH = 128, HEADS = 4, CONTEXT = 64, VOCABULARY = 65 };

/* Where a layer's parameters begin, and what they are, in this order. */
enum {
  FIRST_LAYER = 2,
  LN1_W = 0,
  LN1_B,
  QKV_W,
  QKV_B,
  OUT_W,
  OUT_B,
  LN2_W,
  LN2_B,
  UP_W,
  UP_B,
  DOWN_W,
  DOWN_B
};
enum { LAYER_PARAMETERS = 12 };

/* p[0], p[1]: embeddings of characters and places; then the layers, the last norm and the head. */

/* The three thirds of the last dim of qkv as [batch, heads, context, width / heads]; NULL after a failure. */
static void split_heads(tn_tensor *qkv, tn_tensor **out_parts) {
  const int64_t batch = qkv ? tn_tensor_sizes(qkv)[0] : 0, heads[] = {batch, CONTEXT, HEADS, WIDTH / HEADS};
  tn_tensor *parts[3] = {NULL};
  size_t n = 0;
  bool made = qkv && tn_scope_note(tn_split(qkv, WIDTH, -1, parts, 3, &n)) == TN_OK;
  for (int i = 0; i < 3; i++)
    out_parts[i] = made ? tns_transpose(tns_view_op(tn_scope_add(parts[i]), heads, 4), 1, 2) : NULL;
}

static tn_tensor *attention(tn_tensor *const *p, tn_tensor *x) {
  const int64_t joined[] = {-1, CONTEXT, WIDTH};
  tn_tensor *t[3];
  split_heads(tns_linear(x, p[QKV_W], p[QKV_B]), t);
  tn_tensor *y = tns_scaled_dot_product_attention(t[0], t[1], t[2], NULL, 0.0, true, NULL, false);
  return tns_linear(tns_reshape(tns_transpose(y, 1, 2), joined, 3), p[OUT_W], p[OUT_B]);
}

static tn_tensor *norm(tn_tensor *x, tn_tensor *weight, tn_tensor *bias) {
  const int64_t width = WIDTH;
  return tns_layer_norm(x, &width, 1, weight, bias, 1e-5, true);
}

/* A layer in a scope of its own: what no gradient needs is released as it ends. */
static tn_tensor *layer(tn_tensor *const *p, tn_tensor *x) {
  tn_scope *scope = NULL;
  if (tn_scope_note(tn_scope_begin(&scope)) != TN_OK) return NULL;
  x = tns_add(x, attention(p, norm(x, p[LN1_W], p[LN1_B])), tn_int(1));
  tn_tensor *up = tns_gelu(tns_linear(norm(x, p[LN2_W], p[LN2_B]), p[UP_W], p[UP_B]), "none");
  tn_tensor *y = tn_scope_keep(tns_add(x, tns_linear(up, p[DOWN_W], p[DOWN_B]), tn_int(1)));
  if (tn_scope_note(tn_scope_end(scope)) == TN_OK) return tn_scope_add(y);
  tn_tensor_release(y);
  return NULL;
}

static tn_tensor *transformer_loss(tni_bench_model *m, tn_tensor *input, tn_tensor *target) {
  const tn_dim batch = tn_tensor_sizes(input)[0];
  const int64_t flat[] = {batch * CONTEXT, VOCABULARY}, flat_target[] = {batch * CONTEXT};
  tn_tensor *x = tns_add(tns_embedding(m->p[0], input, -1, false, false), m->p[1], tn_int(1));
  for (int l = 0; l < LAYERS; l++) x = layer(m->p + FIRST_LAYER + l * LAYER_PARAMETERS, x);
  tn_tensor *const *last = m->p + FIRST_LAYER + LAYERS * LAYER_PARAMETERS;
  x = tns_linear(norm(x, last[0], last[1]), last[2], NULL);
  return tns_cross_entropy_loss(tns_view_op(x, flat, 2), tns_view_op(target, flat_target, 1), NULL, 1, -100,
                                0.0);
}

static tn_status make_layer(tni_bench_model *m) {
  TN_TRY(add_vector(m, WIDTH, 1.0));
  TN_TRY(add_vector(m, WIDTH, 0.0));
  TN_TRY(add_weight(m, 3 * WIDTH, WIDTH));
  TN_TRY(add_vector(m, 3 * WIDTH, 0.0));
  TN_TRY(add_weight(m, WIDTH, WIDTH));
  TN_TRY(add_vector(m, WIDTH, 0.0));
  TN_TRY(add_vector(m, WIDTH, 1.0));
  TN_TRY(add_vector(m, WIDTH, 0.0));
  TN_TRY(add_weight(m, 4 * WIDTH, WIDTH));
  TN_TRY(add_vector(m, 4 * WIDTH, 0.0));
  TN_TRY(add_weight(m, WIDTH, 4 * WIDTH));
  return add_vector(m, WIDTH, 0.0);
}

tn_status tni_bench_transformer(tni_bench *b, tni_bench_model *m) {
  const tn_dim sizes[] = {b->which->size, CONTEXT};
  m->loss = transformer_loss;
  TN_TRY(add_parameter(m, (const tn_dim[]){VOCABULARY, WIDTH}, 2, 0.02, 0.0));
  TN_TRY(add_parameter(m, (const tn_dim[]){CONTEXT, WIDTH}, 2, 0.02, 0.0));
  for (int l = 0; l < LAYERS; l++) TN_TRY(make_layer(m));
  TN_TRY(add_vector(m, WIDTH, 1.0));
  TN_TRY(add_vector(m, WIDTH, 0.0));
  TN_TRY(add_weight(m, VOCABULARY, WIDTH));
  for (int i = 0; i < 2; i++)
    TN_TRY(tn_randint(VOCABULARY, sizes, 2, TN_OPTIONS(.dtype = TN_INT64), &b->t[i]));
  return tn_adamw_new(m->p, m->n, NULL, &m->optimizer);
}

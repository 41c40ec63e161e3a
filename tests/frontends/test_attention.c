/* SPDX-License-Identifier: Apache-2.0
 *
 * MultiheadAttention and TransformerLayer: against loops over doubles, in both modes, and with what they refuse.
 */
#include <math.h>
#include <tenon/nn.h>

#include "tools.h"

enum { BATCH = 2, LENGTH = 5, WIDTH = 6, HEADS = 2, HEAD = WIDTH / HEADS };

/* Row r of in_proj applied to x. */
static double projected(const double *x, const double *weight, const double *bias, int r) {
  double sum = bias[r];
  for (int k = 0; k < WIDTH; k++) sum += x[k] * weight[r * WIDTH + k];
  return sum;
}

/* Attention of place `at` over `seen` places, before the projection out. x: queries' row and keys' rows. */
static void attend(const double *query, const double *keys, int seen, const double *weight,
                   const double *bias, double out[WIDTH]) {
  for (int h = 0; h < HEADS; h++) {
    double score[LENGTH], total = 0.0;
    for (int s = 0; s < seen; s++) {
      score[s] = 0.0;
      for (int d = h * HEAD; d < (h + 1) * HEAD; d++)
        score[s] += projected(query, weight, bias, d) * projected(keys + s * WIDTH, weight, bias, WIDTH + d) /
                    sqrt((double)HEAD);
      total += score[s] = exp(score[s]);
    }
    for (int d = h * HEAD; d < (h + 1) * HEAD; d++) {
      out[d] = 0.0;
      for (int s = 0; s < seen; s++)
        out[d] += score[s] / total * projected(keys + s * WIDTH, weight, bias, 2 * WIDTH + d);
    }
  }
}

static void check_attention(bool causal) {
  tn_attention_options o = tn_attention_defaults();
  tn_module *m = NULL;
  o.causal = causal;
  TN_CHECK_OK(tn_multihead_attention_new(WIDTH, HEADS, &o, NULL, &m));
  TN_CHECK_OK(tn_init_uniform(tn_module_tensor(m, "in_proj_bias"), -0.5, 0.5, NULL));
  TN_CHECK_OK(tn_init_uniform(tn_module_tensor(m, "out_proj.bias"), -0.5, 0.5, NULL));
  tn_tensor *x = TT_WAVES(0.9, BATCH, LENGTH, WIDTH), *y = tt_forward(m, x);
  TT_CHECK_SHAPE(y, BATCH, LENGTH, WIDTH);
  double *px = tt_numbers(x), *py = tt_numbers(y), *w = tt_numbers(tn_module_tensor(m, "in_proj_weight"));
  double *b = tt_numbers(tn_module_tensor(m, "in_proj_bias")),
         *ow = tt_numbers(tn_module_tensor(m, "out_proj.weight"));
  double *ob = tt_numbers(tn_module_tensor(m, "out_proj.bias"));
  for (int n = 0; n < BATCH; n++)
    for (int l = 0; l < LENGTH; l++) {
      double mixed[WIDTH];
      const double *rows = px + n * LENGTH * WIDTH;
      attend(rows + l * WIDTH, rows, causal ? l + 1 : LENGTH, w, b, mixed);
      for (int r = 0; r < WIDTH; r++)
        TN_CHECK_DOUBLE(py[(n * LENGTH + l) * WIDTH + r], projected(mixed, ow, ob, r), 1e-5);
    }
  double *const all[] = {px, py, w, b, ow, ob};
  for (int i = 0; i < 6; i++) free(all[i]);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_module_release(m);
}

TN_TEST(frontends_attention, attention_follows_its_definition) {
  check_attention(false);
  check_attention(true);
}

TN_TEST(frontends_attention, attention_of_one_input_is_attention_of_three_equal_ones) {
  tn_module *m = NULL;
  tn_tensor *one = NULL, *three = NULL, *masked = NULL, *ones = NULL, *mask = NULL, *causal = NULL;
  tn_attention_options o = tn_attention_defaults();
  TN_CHECK_OK(tn_multihead_attention_new(WIDTH, HEADS, &o, NULL, &m));
  tn_tensor *x = TT_WAVES(1.0, BATCH, LENGTH, WIDTH);
  TN_CHECK_OK(tn_module_forward(m, x, &one));
  TN_CHECK_OK(tn_module_forward_many(m, (tn_tensor *[]){x, x, x}, 3, &three));
  tt_check_same(one, three, 1e-6);
  /* A mask of the lower triangle is what causal means. */
  TN_CHECK_OK(tn_full((const tn_dim[]){LENGTH, LENGTH}, 2, tn_int(1), TN_OPTIONS(.dtype = TN_BOOL), &ones));
  TN_CHECK_OK(tn_tril(ones, 0, &mask));
  TN_CHECK_OK(tn_module_forward_many(m, (tn_tensor *[]){x, mask}, 2, &masked));
  tn_state_dict *dict = NULL;
  tn_module *other = NULL;
  o.causal = true;
  TN_CHECK_OK(tn_multihead_attention_new(WIDTH, HEADS, &o, NULL, &other));
  TN_CHECK_OK(tn_module_state_dict(m, &dict));
  TN_CHECK_OK(tn_module_load_state_dict(other, dict, true));
  TN_CHECK_OK(tn_module_forward(other, x, &causal));
  tt_check_same(masked, causal, 1e-5);
  tn_tensor *const all[] = {x, one, three, masked, ones, mask, causal};
  for (int i = 0; i < 7; i++) tn_tensor_release(all[i]);
  tn_state_dict_release(dict);
  tn_module_release(other);
  tn_module_release(m);
}

TN_TEST(frontends_attention, attention_to_other_places_and_its_gradient) {
  tn_module *m = NULL;
  tn_tensor *y = NULL, *loss = NULL;
  TN_CHECK_OK(tn_multihead_attention_new(WIDTH, HEADS, NULL, NULL, &m));
  tn_tensor *query = TT_WAVES(1.1, BATCH, 3, WIDTH), *key = TT_WAVES(1.2, BATCH, LENGTH, WIDTH);
  TN_CHECK_OK(tn_module_forward_many(m, (tn_tensor *[]){query, key, key}, 3, &y));
  TT_CHECK_SHAPE(y, BATCH, 3, WIDTH);
  TN_CHECK_OK(tn_sum(y, TN_DTYPE_NONE, &loss));
  TN_CHECK_OK(tn_backward_run(loss, NULL));
  tn_tensor *grad = tn_grad(tn_module_tensor(m, "in_proj_weight"));
  TN_CHECK_NOT_NULL(grad);
  TN_CHECK(fabs(tt_at(grad, 2 * WIDTH * WIDTH + 1)) > 0); /* of the values */
  TN_CHECK_DOUBLE(tt_at(tn_grad(tn_module_tensor(m, "out_proj.bias")), 0), BATCH * 3, 1e-5);
  tn_tensor_release(loss);
  tn_tensor_release(y);
  tn_tensor_release(key);
  tn_tensor_release(query);
  tn_module_release(m);
}

TN_TEST(frontends_attention, attention_refuses_what_makes_no_sense) {
  tn_module *m = NULL;
  tn_tensor *x = TT_WAVES(0, 2, 6), *y = NULL, *five[5] = {x, x, x, x, x};
  tn_attention_options o = {.dropout = 1.5};
  TN_CHECK_FAILS(tn_multihead_attention_new(6, 4, NULL, NULL, &m), TN_ERR_INVALID_ARGUMENT,
                 "4 heads do not divide a width of 6");
  TN_CHECK_FAILS(tn_multihead_attention_new(6, 0, NULL, NULL, &m), TN_ERR_INVALID_ARGUMENT,
                 "number of heads");
  TN_CHECK_FAILS(tn_multihead_attention_new(6, 2, &o, NULL, &m), TN_ERR_INVALID_ARGUMENT, "a probability");
  TN_CHECK_FAILS(tn_transformer_layer_new(6, 4, 12, NULL, NULL, &m), TN_ERR_INVALID_ARGUMENT,
                 "do not divide");
  TN_CHECK_PTR_NULL(m);
  TN_CHECK_OK(tn_multihead_attention_new(6, 2, NULL, NULL, &m));
  TN_CHECK_FAILS(tn_module_forward(m, x, &y), TN_ERR_INVALID_ARGUMENT, "[N, L, 6] was expected, not [2, 6]");
  TN_CHECK_FAILS(tn_module_forward_many(m, five, 5, &y), TN_ERR_INVALID_ARGUMENT, "5 inputs came");
  tn_module_release(m);
  tn_tensor_release(x);
}

TN_TEST(frontends_attention, a_causal_layer_does_not_see_what_comes_later) {
  tn_attention_options o = {.bias = true, .causal = true};
  tn_module *m = NULL;
  tn_tensor *place = NULL;
  TN_CHECK_OK(tn_transformer_layer_new(WIDTH, HEADS, 4 * WIDTH, &o, NULL, &m));
  tn_tensor *x = TT_WAVES(1.3, 1, LENGTH, WIDTH), *before = tt_forward(m, x);
  TN_CHECK_OK(tn_select(x, 1, 3, &place));
  TN_CHECK_OK(tn_fill_(place, tn_float(9)));
  tn_tensor *after = tt_forward(m, x);
  for (size_t i = 0; i < 3 * WIDTH; i++) TN_CHECK_DOUBLE(tt_at(after, i), tt_at(before, i), 1e-6);
  TN_CHECK(fabs(tt_at(after, 3 * WIDTH) - tt_at(before, 3 * WIDTH)) > 0.1);
  TN_CHECK(tt_at(after, 4 * WIDTH) != tt_at(before, 4 * WIDTH));
  tn_tensor_release(after);
  tn_tensor_release(before);
  tn_tensor_release(place);
  tn_tensor_release(x);
  tn_module_release(m);
}

TN_TEST(frontends_attention, dropout_of_a_layer_is_for_training_only) {
  tn_attention_options o = {.bias = true, .dropout = 0.5};
  tn_module *m = NULL;
  TN_CHECK_OK(tn_transformer_layer_new(WIDTH, HEADS, WIDTH, &o, NULL, &m));
  tn_tensor *x = TT_WAVES(1.4, 1, LENGTH, WIDTH), *a = tt_forward(m, x), *b = tt_forward(m, x);
  double *pa = tt_numbers(a), *pb = tt_numbers(b), apart = 0.0;
  for (int i = 0; i < LENGTH * WIDTH; i++) apart += fabs(pa[i] - pb[i]);
  TN_CHECK(apart > 0.0);
  free(pa);
  free(pb);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_module_train(m, false);
  a = tt_forward(m, x);
  b = tt_forward(m, x);
  tt_check_same(a, b, 0);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(x);
  tn_module_release(m);
}

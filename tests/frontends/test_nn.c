/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules: registering, looking up, running, modes; every layer against numbers worked out by hand.
 */
#include <math.h>
#include <tenon/nn.h>

#include "tools.h"

static void set(tn_tensor *parameter, const double *values, size_t n) {
  tn_tensor *source = tt_vector(values, n), *shaped = NULL;
  bool grad = tn_grad_mode_set(false);
  TN_CHECK_OK(tn_view_op(source, tn_tensor_sizes(parameter), (size_t)tn_tensor_ndim(parameter), &shaped));
  TN_CHECK_OK(tn_copy_(parameter, shaped, false));
  tn_grad_mode_set(grad);
  tn_tensor_release(shaped);
  tn_tensor_release(source);
}

/* ------------------------------------------------------------------ Linear */

TN_TEST(frontends_nn, linear_computes_and_differentiates) {
  tn_module *m = NULL;
  tn_tensor *y = NULL, *loss = NULL, *x = TT_VECTOR(1, 2), *row = NULL;
  TN_CHECK_OK(tn_linear_new(2, 3, true, NULL, &m));
  set(tn_module_tensor(m, "weight"), (const double[]){1, 2, 3, 4, 5, 6}, 6);
  set(tn_module_tensor(m, "bias"), (const double[]){10, 20, 30}, 3);
  TN_CHECK_OK(tn_unsqueeze(x, 0, &row));
  TN_CHECK_OK(tn_module_forward(m, row, &y));
  TN_CHECK_DOUBLE(tt_at(y, 0), 15, 0);
  TN_CHECK_DOUBLE(tt_at(y, 1), 31, 0);
  TN_CHECK_DOUBLE(tt_at(y, 2), 47, 0);
  TN_CHECK_OK(tn_sum(y, TN_DTYPE_NONE, &loss));
  TN_CHECK_OK(tn_backward_run(loss, NULL));
  TN_CHECK_DOUBLE(tt_at(tn_grad(tn_module_tensor(m, "weight")), 5), 2, 0);
  TN_CHECK_DOUBLE(tt_at(tn_grad(tn_module_tensor(m, "bias")), 0), 1, 0);
  TN_CHECK_OK(tn_module_zero_grad(m));
  TN_CHECK_PTR_NULL(tn_grad(tn_module_tensor(m, "weight")));
  tn_tensor_release(loss);
  tn_tensor_release(y);
  tn_tensor_release(row);
  tn_tensor_release(x);
  tn_module_release(m);
}

TN_TEST(frontends_nn, linear_starts_like_pytorch) {
  tn_module *m = NULL;
  TN_CHECK_OK(tn_manual_seed(7));
  TN_CHECK_OK(tn_linear_new(16, 40, true, NULL, &m));
  tn_tensor *weight = tn_module_tensor(m, "weight"), *bias = tn_module_tensor(m, "bias");
  double low = 1, high = -1, bound = 0.25; /* 1 / sqrt(16) */
  for (size_t i = 0; i < 640; i++) {
    double w = tt_at(weight, i);
    low = w < low ? w : low;
    high = w > high ? w : high;
  }
  TN_CHECK(low >= -bound && low < -0.9 * bound);
  TN_CHECK(high <= bound && high > 0.9 * bound);
  TN_CHECK(fabs(tt_at(bias, 0)) <= bound);
  TN_CHECK(tn_requires_grad(weight) && tn_requires_grad(bias) && tn_is_leaf(weight));
  tn_module_release(m);
}

TN_TEST(frontends_nn, linear_without_bias_has_one_parameter) {
  tn_module *m = NULL;
  tn_tensor *const *parameters;
  size_t n;
  TN_CHECK_OK(tn_linear_new(4, 2, false, NULL, &m));
  TN_CHECK_OK(tn_module_parameters(m, &parameters, &n));
  TN_CHECK_INT(n, 1);
  TN_CHECK_PTR_NULL(tn_module_tensor(m, "bias"));
  tn_module_release(m);
  TN_CHECK_FAILS(tn_linear_new(-1, 2, true, NULL, &m), TN_ERR_INVALID_ARGUMENT, "at least 0, not -1");
  TN_CHECK_PTR_NULL(m);
}

TN_TEST(frontends_nn, wrong_width_names_the_module) {
  tn_module *m = NULL, *seq = NULL;
  tn_tensor *x = NULL, *y = NULL;
  TN_CHECK_OK(tn_linear_new(4, 2, true, NULL, &m));
  TN_CHECK_OK(tn_sequential_new(&m, 1, &seq));
  TN_CHECK_OK(tn_ones((const tn_dim[]){3, 5}, 2, NULL, &x));
  tn_status status = tn_module_forward(seq, x, &y);
  TN_CHECK(status != TN_OK);
  TN_CHECK_CONTAINS(tn_error_message(), "Linear");
  TN_CHECK_CONTAINS(tn_error_message(), "child '0'");
  TN_CHECK_PTR_NULL(y);
  tn_tensor_release(x);
  tn_module_release(seq);
}

/* ------------------------------------------------------------------ other layers */

static tn_tensor *run(tn_module *m, tn_tensor *x) {
  tn_tensor *y = NULL;
  TN_CHECK_OK(tn_module_forward(m, x, &y));
  tn_module_release(m);
  return y;
}

TN_TEST(frontends_nn, activations) {
  tn_module *m = NULL;
  tn_tensor *x = TT_VECTOR(-1, 0, 2), *y;
  TN_CHECK_OK(tn_relu_new(&m));
  y = run(m, x);
  TN_CHECK_DOUBLE(tt_at(y, 0), 0, 0);
  TN_CHECK_DOUBLE(tt_at(y, 2), 2, 0);
  tn_tensor_release(y);
  TN_CHECK_OK(tn_tanh_new(&m));
  y = run(m, x);
  TN_CHECK_DOUBLE(tt_at(y, 2), tanh(2), 1e-6);
  tn_tensor_release(y);
  TN_CHECK_OK(tn_sigmoid_new(&m));
  y = run(m, x);
  TN_CHECK_DOUBLE(tt_at(y, 0), 1 / (1 + exp(1)), 1e-6);
  tn_tensor_release(y);
  TN_CHECK_OK(tn_gelu_new(false, &m));
  y = run(m, x);
  TN_CHECK_DOUBLE(tt_at(y, 2), 2 * 0.5 * (1 + erf(2 / sqrt(2))), 1e-6);
  tn_tensor_release(y);
  TN_CHECK_OK(tn_gelu_new(true, &m));
  y = run(m, x);
  TN_CHECK_DOUBLE(tt_at(y, 2), 0.5 * 2 * (1 + tanh(sqrt(2 / acos(-1)) * (2 + 0.044715 * 8))), 1e-6);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

TN_TEST(frontends_nn, flatten_joins_dims) {
  tn_module *m = NULL;
  tn_tensor *x = NULL;
  TN_CHECK_OK(tn_ones((const tn_dim[]){2, 3, 4}, 3, NULL, &x));
  TN_CHECK_OK(tn_flatten_new(1, -1, &m));
  tn_tensor *y = run(m, x);
  TN_CHECK_INT(tn_tensor_ndim(y), 2);
  TN_CHECK_INT(tn_tensor_sizes(y)[1], 12);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

TN_TEST(frontends_nn, dropout_acts_in_training_only) {
  tn_module *m = NULL;
  tn_tensor *x = NULL, *y = NULL;
  const tn_dim size = 1000;
  TN_CHECK_OK(tn_ones(&size, 1, NULL, &x));
  TN_CHECK_OK(tn_manual_seed(3));
  TN_CHECK_OK(tn_dropout_new(0.25, &m));
  TN_CHECK_OK(tn_module_forward(m, x, &y));
  int zeros = 0;
  for (size_t i = 0; i < 1000; i++) {
    double v = tt_at(y, i);
    TN_CHECK(v == 0.0 || fabs(v - 1 / 0.75) < 1e-6);
    zeros += v == 0.0;
  }
  TN_CHECK(zeros > 180 && zeros < 320);
  tn_tensor_release(y);
  tn_module_train(m, false);
  TN_CHECK_OK(tn_module_forward(m, x, &y));
  TN_CHECK(y == x);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_module_release(m);
  TN_CHECK_FAILS(tn_dropout_new(1.5, &m), TN_ERR_INVALID_ARGUMENT, "[0, 1]");
}

TN_TEST(frontends_nn, embedding_looks_up_and_keeps_padding) {
  tn_module *m = NULL;
  tn_tensor *y = NULL, *loss = NULL, *index = NULL;
  const int64_t rows[] = {2, 0, 2};
  const tn_dim n = 3;
  TN_CHECK_OK(tn_embedding_new(4, 2, 0, NULL, &m));
  tn_tensor *weight = tn_module_tensor(m, "weight");
  TN_CHECK_DOUBLE(tt_at(weight, 0), 0, 0);
  TN_CHECK(tt_at(weight, 2) != 0);
  TN_CHECK_OK(tn_tensor_from_host(rows, &n, 1, TN_OPTIONS(.dtype = TN_INT64), &index));
  TN_CHECK_OK(tn_module_forward(m, index, &y));
  TN_CHECK_DOUBLE(tt_at(y, 0), tt_at(weight, 4), 0);
  TN_CHECK_OK(tn_sum(y, TN_DTYPE_NONE, &loss));
  TN_CHECK_OK(tn_backward_run(loss, NULL));
  TN_CHECK_DOUBLE(tt_at(tn_grad(weight), 4), 2, 0);
  TN_CHECK_DOUBLE(tt_at(tn_grad(weight), 0), 0, 0);
  tn_tensor_release(loss);
  tn_tensor_release(y);
  tn_tensor_release(index);
  tn_module_release(m);
}

TN_TEST(frontends_nn, layer_norm_normalises) {
  tn_module *m = NULL;
  tn_tensor *x = TT_VECTOR(1, 2, 3, 6);
  const tn_dim size = 4;
  TN_CHECK_OK(tn_layer_norm_new(&size, 1, 1e-5, true, NULL, &m));
  set(tn_module_tensor(m, "bias"), (const double[]){0, 0, 0, 1}, 4);
  tn_tensor *y = run(m, x);
  double std = sqrt(3.5 + 1e-5);
  TN_CHECK_DOUBLE(tt_at(y, 0), -2 / std, 1e-5);
  TN_CHECK_DOUBLE(tt_at(y, 3), 3 / std + 1, 1e-5);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ trees */

static tn_status twice(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                       tn_tensor **out_result) {
  ++*(int *)ctx;
  return tn_mul_scalar(in[n_in - 1], tn_float(2), out_result);
}

static void count_free(void *ctx) { *(int *)ctx += 100; }

TN_TEST(frontends_nn, a_module_of_ones_own) {
  static const tn_module_def def = {"Twice", twice, count_free};
  int calls = 0;
  tn_module *m = NULL;
  tn_tensor *x = TT_VECTOR(3), *y = NULL;
  TN_CHECK_OK(tn_module_new(&def, &calls, &m));
  TN_CHECK_OK(tn_module_forward_many(m, (tn_tensor *[]){x, x}, 2, &y));
  TN_CHECK_DOUBLE(tt_at(y, 0), 6, 0);
  TN_CHECK_INT(calls, 1);
  tn_tensor_release(y);
  TN_CHECK_FAILS(tn_module_forward(m, NULL, &y), TN_ERR_INVALID_ARGUMENT, "Twice: input 0 is NULL");
  tn_module_release(m);
  TN_CHECK_INT(calls, 101);
  tn_tensor_release(x);
}

TN_TEST(frontends_nn, names_are_checked) {
  tn_module *seq = NULL, *relu = NULL, *outer = NULL;
  tn_tensor *t = TT_VECTOR(1);
  TN_CHECK_OK(tn_relu_new(&relu));
  TN_CHECK_OK(tn_sequential_new(&relu, 1, &seq));
  TN_CHECK_FAILS(tn_module_add_buffer(seq, "a.b", t, true), TN_ERR_INVALID_ARGUMENT, "without dots");
  TN_CHECK_FAILS(tn_module_add_buffer(seq, "0", t, true), TN_ERR_INVALID_ARGUMENT, "already taken");
  TN_CHECK_FAILS(tn_module_add_child(relu, "up", seq), TN_ERR_INVALID_ARGUMENT, "holds the module");
  TN_CHECK_FAILS(tn_sequential_append(relu, NULL), TN_ERR_INVALID_ARGUMENT, "a Sequential was expected");
  TN_CHECK_OK(tn_sequential_new(&seq, 1, &outer));
  TN_CHECK(tn_module_child(outer, "0.0") == relu);
  TN_CHECK(tn_module_child(outer, "") == outer);
  TN_CHECK_PTR_NULL(tn_module_child(outer, "0.7"));
  TN_CHECK_FAILS(tn_sequential_new((tn_module *[]){NULL}, 1, &seq), TN_ERR_INVALID_ARGUMENT, "NULL");
  tn_tensor_release(t);
  tn_module_release(outer);
}

TN_TEST(frontends_nn, parameters_must_be_leaves) {
  tn_module *m = NULL;
  tn_tensor *x = TT_VECTOR(1), *y = NULL;
  TN_CHECK_OK(tn_relu_new(&m));
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(tn_mul_scalar(x, tn_float(2), &y));
  TN_CHECK_FAILS(tn_module_add_parameter(m, "w", y), TN_ERR_INVALID_ARGUMENT, "must be a leaf");
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_module_release(m);
}

TN_TEST(frontends_nn, training_mode_reaches_children) {
  tn_module *drop = NULL, *seq = NULL;
  TN_CHECK_OK(tn_dropout_new(0.5, &drop));
  TN_CHECK_OK(tn_sequential_new(&drop, 1, &seq));
  TN_CHECK(tn_module_is_training(drop));
  tn_module_train(seq, false);
  TN_CHECK(!tn_module_is_training(drop));
  tn_module_release(seq);
}

TN_TEST(frontends_nn, forward_inside_a_scope_gives_an_owned_tensor) {
  tn_module *m = NULL;
  tn_tensor *x = TT_VECTOR(-1, 5), *y = NULL;
  tn_scope *scope = NULL;
  TN_CHECK_OK(tn_relu_new(&m));
  TN_CHECK_OK(tn_scope_begin(&scope));
  TN_CHECK_OK(tn_module_forward(m, x, &y));
  TN_CHECK_NOT_NULL(tns_module_forward(m, x));
  TN_CHECK_PTR_NULL(tns_module_forward(m, NULL));
  TN_CHECK_OK(tn_scope_end(scope));
  TN_CHECK_DOUBLE(tt_at(y, 1), 5, 0);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_module_release(m);
}

/* ------------------------------------------------------------------ initialisers */

static void spread(tn_tensor *t, double *out_mean, double *out_std, double *out_max) {
  double sum = 0, squares = 0, max = 0;
  size_t n = (size_t)tn_tensor_numel(t);
  float *data = malloc(n * sizeof *data);
  TN_CHECK(data != NULL);
  TN_CHECK_OK(tn_tensor_to_host(t, data, n * sizeof *data));
  for (size_t i = 0; i < n; i++) {
    sum += data[i];
    squares += (double)data[i] * data[i];
    max = fabs(data[i]) > max ? fabs(data[i]) : max;
  }
  free(data);
  *out_mean = sum / (double)n;
  *out_std = sqrt(squares / (double)n - *out_mean * *out_mean);
  *out_max = max;
}

TN_TEST(frontends_nn, initialisers_have_the_right_spread) {
  tn_tensor *t = NULL;
  double mean, std, max;
  TN_CHECK_OK(tn_manual_seed(11));
  TN_CHECK_OK(tn_empty((const tn_dim[]){100, 50}, 2, NULL, TN_MEMORY_FORMAT_NONE, &t));
  TN_CHECK_OK(tn_init_normal(t, 3, 0.5, NULL));
  spread(t, &mean, &std, &max);
  TN_CHECK_DOUBLE(mean, 3, 0.03);
  TN_CHECK_DOUBLE(std, 0.5, 0.03);
  TN_CHECK_OK(tn_init_xavier_uniform(t, 1, NULL));
  spread(t, &mean, &std, &max);
  TN_CHECK_DOUBLE(max, sqrt(6.0 / 150), 0.005);
  TN_CHECK_OK(tn_init_xavier_normal(t, 2, NULL));
  spread(t, &mean, &std, &max);
  TN_CHECK_DOUBLE(std, 2 * sqrt(2.0 / 150), 0.02);
  TN_CHECK_OK(tn_init_kaiming_uniform(t, sqrt(2), TN_FAN_IN, NULL));
  spread(t, &mean, &std, &max);
  TN_CHECK_DOUBLE(max, sqrt(6.0 / 50), 0.01);
  TN_CHECK_OK(tn_init_kaiming_normal(t, sqrt(2), TN_FAN_OUT, NULL));
  spread(t, &mean, &std, &max);
  TN_CHECK_DOUBLE(std, sqrt(2.0 / 100), 0.01);
  TN_CHECK_OK(tn_init_ones(t));
  spread(t, &mean, &std, &max);
  TN_CHECK_DOUBLE(mean, 1, 0);
  tn_tensor_release(t);
  t = TT_VECTOR(1, 2);
  TN_CHECK_FAILS(tn_init_xavier_uniform(t, 1, NULL), TN_ERR_INVALID_ARGUMENT, "two dims or more");
  tn_tensor_release(t);
}

TN_TEST(frontends_nn, initialisers_leave_gradients_alone) {
  tn_tensor *t = TT_VECTOR(1, 2);
  TN_CHECK_OK(tn_set_requires_grad(t, true));
  TN_CHECK_OK(tn_init_constant(t, 4));
  TN_CHECK(tn_is_leaf(t) && tn_grad_mode());
  TN_CHECK_DOUBLE(tt_at(t, 1), 4, 0);
  tn_tensor_release(t);
}

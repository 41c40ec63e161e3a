/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels innermost, kept from the input to the loss and back: a small network runs twice, row-major and in
 * channels_last, and every value and every gradient on the way must agree and lie as DESIGN says it does.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "make.h"

enum { X, W1, B1, GAMMA, BETA, W2, B2, N_LEAVES };
static const tn_dim leaf_sizes[N_LEAVES][4] = {{2, 3, 12, 10}, {8, 3, 3, 3}, {8}, {8}, {8}, {8, 4, 3, 3}, {8}};
static const int leaf_ndim[N_LEAVES] = {4, 4, 1, 1, 1, 4, 1};

enum { CONV, NORM, RELU, POOL, GROUPS, ADDED, SCALED, MEANS, JOINED, COPY, PARTS, LARGEST, N_STEPS };
static const char *const names[N_STEPS] = {"conv2d", "batch_norm", "relu", "max_pool2d", "conv2d in groups", "add",
                                           "mul by channel", "avg_pool2d", "cat", "clone", "adaptive_avg_pool2d",
                                           "adaptive_max_pool2d"};

static void run(tn_tensor *const *leaf, tn_tensor **step) {
  static const int64_t one[] = {1, 1}, two[] = {2, 2}, none[] = {0, 0}, three[] = {3, 3};
  tn_tensor *scale_view = NULL, *places = NULL;
  const int64_t by_channel[] = {8, 1, 1};
  TN_CHECK_OK(tn_conv2d(leaf[X], leaf[W1], leaf[B1], one, 2, one, 2, one, 2, 1, &step[CONV]));
  TN_CHECK_OK(tn_batch_norm(step[CONV], leaf[GAMMA], leaf[BETA], NULL, NULL, true, 0.1, 1e-5, true, &step[NORM]));
  TN_CHECK_OK(tn_relu(step[NORM], &step[RELU]));
  TN_CHECK_OK(tn_max_pool2d(step[RELU], two, 2, two, 2, none, 2, one, 2, false, &step[POOL]));
  TN_CHECK_OK(tn_conv2d(step[POOL], leaf[W2], leaf[B2], one, 2, one, 2, one, 2, 2, &step[GROUPS]));
  TN_CHECK_OK(tn_add(step[GROUPS], step[POOL], tn_int(1), &step[ADDED]));
  TN_CHECK_OK(tn_view_op(leaf[GAMMA], by_channel, 3, &scale_view));
  TN_CHECK_OK(tn_mul(step[ADDED], scale_view, &step[SCALED]));
  TN_CHECK_OK(tn_avg_pool2d(step[SCALED], three, 2, one, 2, one, 2, false, true, NULL, &step[MEANS]));
  TN_CHECK_OK(tn_cat((tn_tensor *const[]){step[MEANS], step[SCALED]}, 2, 1, &step[JOINED]));
  TN_CHECK_OK(tn_clone(step[JOINED], TN_PRESERVE_FORMAT, &step[COPY]));
  TN_CHECK_OK(tn_adaptive_avg_pool2d(step[COPY], three, 2, &step[PARTS]));
  TN_CHECK_OK(tn_adaptive_max_pool2d(step[PARTS], two, 2, &step[LARGEST], &places));
  tn_tensor_release(places);
  tn_tensor_release(scale_view);
}

/* The loss's gradients reach every leaf and every step. */
static void learn(tn_tensor *const *leaf, tn_tensor **step) {
  tn_tensor *loss = NULL;
  for (int i = 0; i < N_LEAVES; i++) TN_CHECK_OK(tn_set_requires_grad(leaf[i], true));
  run(leaf, step);
  for (int i = 0; i < N_STEPS; i++) TN_CHECK_OK(tn_retain_grad(step[i]));
  TN_CHECK_OK(tn_linalg_vector_norm(step[LARGEST], tn_int(2), NULL, 0, false, TN_DTYPE_NONE, &loss));
  TN_CHECK_OK(tn_backward_run(loss, NULL));
  tn_tensor_release(loss);
}

static double difference(tn_tensor *a, tn_tensor *b) {
  tn_tensor *rows[2] = {NULL};
  double worst = 0;
  TN_CHECK_OK(tn_contiguous(a, TN_CONTIGUOUS_FORMAT, &rows[0]));
  TN_CHECK_OK(tn_contiguous(b, TN_CONTIGUOUS_FORMAT, &rows[1]));
  const float *x = tn_tensor_data(rows[0]), *y = tn_tensor_data(rows[1]);
  for (int64_t i = 0; i < tn_tensor_numel(a); i++) worst = fmax(worst, fabs(x[i] - y[i]));
  tn_tensor_release(rows[0]);
  tn_tensor_release(rows[1]);
  return worst;
}

static bool is_channels_last(const tn_tensor *t) {
  const tn_dim *n = tn_tensor_sizes(t), *step = tn_tensor_strides(t);
  return tn_tensor_ndim(t) == 4 && step[1] == 1 && step[3] == n[1] && step[2] == n[1] * n[3] &&
         step[0] == n[1] * n[2] * n[3];
}
static void expect(bool condition, const char *name, const char *what) {
  if (!condition) printf("\n  %s: %s", name, what);
  TN_CHECK(condition);
}

static void compare_steps(tn_tensor *const *rows, tn_tensor *const *last) {
  for (int i = 0; i < N_STEPS; i++) {
    expect(is_channels_last(last[i]), names[i], "the result does not lie in channels_last");
    expect(!is_channels_last(rows[i]), names[i], "the row-major result lies in channels_last");
    expect(difference(rows[i], last[i]) < 1e-4, names[i], "the values differ");
    tn_tensor *g = tn_grad(last[i]);
    expect(g && tn_tensor_strides(g)[1] == 1, names[i], "the gradient's channels are not innermost");
    expect(g && difference(tn_grad(rows[i]), g) < 1e-4, names[i], "the gradients differ");
  }
}

TN_TEST(ops_channels_last, a_network_keeps_the_order_forward_and_backward) {
  tn_tensor *rows[N_LEAVES], *last[N_LEAVES], *step_rows[N_STEPS], *step_last[N_STEPS];
  for (int i = 0; i < N_LEAVES; i++) {
    TN_CHECK_OK(tn_randn(leaf_sizes[i], (size_t)leaf_ndim[i], NULL, &rows[i]));
    TN_CHECK_OK(tn_clone(rows[i], leaf_ndim[i] == 4 ? TN_CHANNELS_LAST : TN_CONTIGUOUS_FORMAT, &last[i]));
  }
  learn(rows, step_rows);
  learn(last, step_last);
  compare_steps(step_rows, step_last);
  for (int i = 0; i < N_LEAVES; i++) {
    expect(difference(tn_grad(rows[i]), tn_grad(last[i])) < 1e-4, "a leaf", "the gradients differ");
    expect(leaf_ndim[i] < 4 || is_channels_last(tn_grad(last[i])), "a leaf", "the gradient is not in channels_last");
    tn_tensor_release(rows[i]);
    tn_tensor_release(last[i]);
  }
  for (int i = 0; i < N_STEPS; i++) {
    tn_tensor_release(step_rows[i]);
    tn_tensor_release(step_last[i]);
  }
}

/* ATen: the input's order or the weight's; the gradient of each asks both as well. */
TN_TEST(ops_channels_last, the_weight_alone_decides_for_a_convolution) {
  static const int64_t one[] = {1, 1}, none[] = {0, 0};
  static const uint8_t all[] = {1, 1, 0};
  tn_tensor *x = make_float(SIZES(2, 3, 4, 5)), *rows = make_float(SIZES(4, 3, 2, 2)), *w = NULL, *y = NULL, *g[3];
  TN_CHECK_OK(tn_contiguous(rows, TN_CHANNELS_LAST, &w));
  TN_CHECK_OK(tn_conv2d(x, w, NULL, one, 2, none, 2, one, 2, 1, &y));
  TN_CHECK(is_channels_last(y));
  TN_CHECK_OK(tn_convolution_backward(y, x, w, NULL, 0, one, 2, none, 2, one, 2, false, none, 2, 1, all, 3, &g[0],
                                      &g[1], &g[2]));
  TN_CHECK(is_channels_last(g[0]) && is_channels_last(g[1]));
  tn_tensor *all_of_them[] = {x, rows, w, y, g[0], g[1]};
  for (int i = 0; i < 6; i++) tn_tensor_release(all_of_them[i]);
}

/* One channel lies the same both ways; what the strides say is what counts. */
TN_TEST(ops_channels_last, contiguous_hands_back_what_lies_so_already) {
  tn_tensor *rows = make_float(SIZES(2, 3, 4, 5)), *last = NULL, *again = NULL, *one = make_float(SIZES(2, 1, 3, 4));
  TN_CHECK_OK(tn_contiguous(rows, TN_CHANNELS_LAST, &last));
  TN_CHECK(is_channels_last(last) && last != rows);
  TN_CHECK_OK(tn_contiguous(last, TN_CHANNELS_LAST, &again));
  TN_CHECK(again == last);
  tn_tensor_release(again);
  tn_tensor_release(last);
  TN_CHECK_OK(tn_contiguous(one, TN_CHANNELS_LAST, &last));
  TN_CHECK(is_channels_last(last));
  tn_tensor_release(last);
  tn_tensor_release(one);
  tn_tensor_release(rows);
}

TN_TEST(ops_channels_last, cat_of_mixed_orders_is_row_major) {
  tn_tensor *rows = make_float(SIZES(2, 3, 4, 5)), *last = NULL, *both = NULL;
  TN_CHECK_OK(tn_contiguous(rows, TN_CHANNELS_LAST, &last));
  TN_CHECK_OK(tn_cat((tn_tensor *const[]){last, rows}, 2, 2, &both));
  TN_CHECK_INT(tn_tensor_strides(both)[3], 1);
  tn_tensor_release(both);
  TN_CHECK_OK(tn_cat((tn_tensor *const[]){last, last}, 2, 2, &both));
  TN_CHECK(is_channels_last(both));
  TN_CHECK(difference(both, both) == 0);
  tn_tensor_release(both);
  tn_tensor_release(last);
  tn_tensor_release(rows);
}

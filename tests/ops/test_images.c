/* SPDX-License-Identifier: Apache-2.0
 *
 * What samples cannot say of convolution, pooling and attention: memory orders of results, sizes of several blocks on
 * several threads, refusals.
 */
#include <math.h>
#include <string.h>

#include "make.h"

static void check_channels_last(tn_tensor *t) {
  TN_CHECK_INT(tn_tensor_strides(t)[1], 1);
  TN_CHECK_INT(tn_tensor_strides(t)[3], tn_tensor_sizes(t)[1]);
  tn_tensor_release(t);
}

TN_TEST(ops_images, results_are_channels_last_where_the_input_is) {
  const int64_t one[2] = {1, 1}, two[2] = {2, 2}, none[2] = {0, 0};
  tn_tensor *rows = make_float(SIZES(2, 3, 4, 4)), *x = NULL, *weight = make_float(SIZES(5, 3, 2, 2)), *y = NULL,
            *places = NULL;
  TN_CHECK_OK(tn_contiguous(rows, TN_CHANNELS_LAST, &x));
  TN_CHECK_OK(tn_conv2d(x, weight, NULL, one, 2, none, 2, one, 2, 1, &y));
  check_channels_last(y);
  TN_CHECK_OK(tn_max_pool2d_with_indices(x, two, 2, two, 2, none, 2, one, 2, false, &y, &places));
  check_channels_last(y);
  check_channels_last(places);
  TN_CHECK_OK(tn_avg_pool2d(x, two, 2, two, 2, none, 2, false, true, NULL, &y));
  check_channels_last(y);
  TN_CHECK_OK(tn_batch_norm(x, NULL, NULL, NULL, NULL, true, 0.1, 1e-5, true, &y));
  check_channels_last(y);
  tn_tensor_release(rows);
  tn_tensor_release(x);
  tn_tensor_release(weight);
}

TN_TEST(ops_images, bad_convolutions_are_refused) {
  const int64_t one[2] = {1, 1}, none[2] = {0, 0}, minus[2] = {-1, 0}, five[2] = {5, 5};
  tn_tensor *x = make_float(SIZES(1, 4, 3, 3)), *w = make_float(SIZES(4, 2, 2, 2)), *y = NULL;
  TN_CHECK_FAILS(tn_conv2d(x, w, NULL, one, 2, none, 2, one, 2, 1, &y), TN_ERR_INVALID_ARGUMENT, "channels");
  TN_CHECK_FAILS(tn_conv2d(x, w, NULL, one, 2, none, 2, one, 2, 3, &y), TN_ERR_INVALID_ARGUMENT, "groups");
  TN_CHECK_FAILS(tn_conv2d(x, w, NULL, one, 2, none, 2, one, 2, 0, &y), TN_ERR_INVALID_ARGUMENT, "groups");
  TN_CHECK_FAILS(tn_conv2d(x, w, NULL, none, 2, none, 2, one, 2, 2, &y), TN_ERR_INVALID_ARGUMENT, "stride");
  TN_CHECK_FAILS(tn_conv2d(x, w, NULL, one, 2, minus, 2, one, 2, 2, &y), TN_ERR_INVALID_ARGUMENT, "padding");
  TN_CHECK_FAILS(tn_conv2d(x, w, NULL, one, 2, none, 2, five, 2, 2, &y), TN_ERR_INVALID_ARGUMENT, "fits into");
  TN_CHECK_FAILS(tn_conv2d(x, w, x, one, 2, none, 2, one, 2, 2, &y), TN_ERR_INVALID_ARGUMENT, "bias");
  TN_CHECK_FAILS(tn_max_pool2d(x, five, 2, NULL, 0, none, 2, one, 2, false, &y), TN_ERR_INVALID_ARGUMENT, "fits into");
  TN_CHECK_FAILS(tn_max_pool2d(x, one, 2, NULL, 0, one, 2, one, 2, false, &y), TN_ERR_INVALID_ARGUMENT, "half");
  tn_tensor_release(x);
  tn_tensor_release(w);
}

/* ------------------------------------------------------------------ several blocks */

static tn_tensor *noise(const tn_dim *sizes, int nd) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_randn(sizes, (size_t)nd, NULL, &t));
  return t;
}

/* Largest difference, relative to the larger of 1 and b. */
static double difference(tn_tensor *a, tn_tensor *b) {
  tn_tensor *rows[2] = {NULL};
  double worst = 0;
  TN_CHECK_OK(tn_contiguous(a, TN_CONTIGUOUS_FORMAT, &rows[0]));
  TN_CHECK_OK(tn_contiguous(b, TN_CONTIGUOUS_FORMAT, &rows[1]));
  const float *x = tn_tensor_data(rows[0]), *y = tn_tensor_data(rows[1]);
  for (int64_t i = 0; i < tn_tensor_numel(a); i++) worst = fmax(worst, fabs(x[i] - y[i]) / fmax(1, fabs(y[i])));
  tn_tensor_release(rows[0]);
  tn_tensor_release(rows[1]);
  return worst;
}

/* Forward result and the three gradients of one convolution. */
static void convolve(tn_tensor *x, tn_tensor *w, tn_tensor *bias, tn_tensor **out) {
  const int64_t one[2] = {1, 1}, none[2] = {0, 0}, two[2] = {2, 1};
  const uint8_t all[3] = {1, 1, 1};
  const tn_dim channels = 7;
  TN_CHECK_OK(tn_convolution(x, w, bias, two, 2, one, 2, one, 2, false, none, 2, 1, &out[0]));
  TN_CHECK_OK(tn_convolution_backward(out[0], x, w, &channels, 1, two, 2, one, 2, one, 2, false, none, 2, 1, all, 3,
                                      &out[1], &out[2], &out[3]));
}

/* Both memory orders run different code; threads must not change a bit. */
TN_TEST(ops_images, convolution_of_several_blocks_agrees_in_both_orders_and_on_any_threads) {
  tn_tensor *x = noise(SIZES(5, 6, 75, 83)), *w = noise(SIZES(7, 6, 3, 3)), *bias = noise(SIZES(7)), *last = NULL;
  tn_tensor *rows[4], *pixels[4], *alone[4];
  int32_t threads = tn_num_threads();
  TN_CHECK_OK(tn_contiguous(x, TN_CHANNELS_LAST, &last));
  convolve(x, w, bias, rows);
  convolve(last, w, bias, pixels);
  TN_CHECK_OK(tn_set_num_threads(1));
  convolve(x, w, bias, alone);
  TN_CHECK_OK(tn_set_num_threads(threads));
  for (int i = 0; i < 4; i++) {
    TN_CHECK(difference(rows[i], pixels[i]) < 1e-3);
    TN_CHECK(memcmp(tn_tensor_data(rows[i]), tn_tensor_data(alone[i]), (size_t)tn_tensor_numel(rows[i]) * 4) == 0);
    tn_tensor_release(rows[i]);
    tn_tensor_release(pixels[i]);
    tn_tensor_release(alone[i]);
  }
  tn_tensor_release(x);
  tn_tensor_release(w);
  tn_tensor_release(bias);
  tn_tensor_release(last);
}

/* ------------------------------------------------------------------ attention */

TN_TEST(ops_attention_rows, a_row_that_sees_no_key_gives_zero) {
  tn_tensor *q = make_float(SIZES(1, 1, 2, 3)), *mask = NULL, *y = NULL, *sums = NULL;
  const uint8_t seen[4] = {0, 0, 1, 0};
  TN_CHECK_OK(tn_tensor_from_host(seen, SIZES(2, 2), TN_OPTIONS(.dtype = TN_BOOL), &mask));
  TN_CHECK_OK(tn__scaled_dot_product_attention(q, q, q, mask, false, 1, 0, 0, 0, &y, &sums));
  const float *values = tn_tensor_data(y), *logs = tn_tensor_data(sums);
  for (int i = 0; i < 3; i++) TN_CHECK_DOUBLE(values[i], 0, 0);
  for (int i = 0; i < 3; i++) TN_CHECK_DOUBLE(values[3 + i], i, 1e-6);
  TN_CHECK(isinf(logs[0]) && logs[0] < 0);
  TN_CHECK_DOUBLE(logs[1], 0 * 3 + 1 * 4 + 2 * 5, 1e-5);
  tn_tensor_release(q);
  tn_tensor_release(mask);
  tn_tensor_release(y);
  tn_tensor_release(sums);
}

TN_TEST(ops_attention_rows, bad_operands_are_refused) {
  tn_tensor *q = make_float(SIZES(1, 3, 2, 3)), *k = make_float(SIZES(1, 2, 2, 3)), *flat = make_float(SIZES(3)),
            *mask = make_float(SIZES(3, 2)), *y = NULL;
  TN_CHECK_FAILS(tn_scaled_dot_product_attention(q, k, k, NULL, 0, false, NULL, false, &y), TN_ERR_INVALID_ARGUMENT,
                 "enable_gqa");
  TN_CHECK_FAILS(tn_scaled_dot_product_attention(q, k, k, NULL, 0, false, NULL, true, &y), TN_ERR_INVALID_ARGUMENT,
                 "dividing H");
  TN_CHECK_FAILS(tn_scaled_dot_product_attention(flat, k, k, NULL, 0, false, NULL, false, &y), TN_ERR_INVALID_ARGUMENT,
                 "query");
  TN_CHECK_FAILS(tn_scaled_dot_product_attention(q, q, q, mask, 0, true, NULL, false, &y), TN_ERR_INVALID_ARGUMENT,
                 "not both");
  TN_CHECK_FAILS(tn_scaled_dot_product_attention(q, q, q, mask, 0, false, NULL, false, &y), TN_ERR_INVALID_ARGUMENT,
                 "[3, 2]");
  tn_tensor_release(q);
  tn_tensor_release(k);
  tn_tensor_release(flat);
  tn_tensor_release(mask);
}

/* Operands with one more dim in front take the composite way. Gradients of the sum go to out[1] to out[3]. */
static void attend(tn_tensor *const *in, bool composite, tn_tensor **out) {
  tn_tensor *leaves[3], *used[3], *sum = NULL;
  for (int i = 0; i < 3; i++) {
    TN_CHECK_OK(tn_clone(in[i], TN_CONTIGUOUS_FORMAT, &leaves[i]));
    TN_CHECK_OK(tn_set_requires_grad(leaves[i], true));
    if (composite) TN_CHECK_OK(tn_unsqueeze(leaves[i], 0, &used[i]));
    else used[i] = tn_tensor_retain(leaves[i]);
  }
  TN_CHECK_OK(tn_scaled_dot_product_attention(used[0], used[1], used[2], NULL, 0, true, NULL, true, &out[0]));
  TN_CHECK_OK(tn_linalg_vector_norm(out[0], tn_int(2), NULL, 0, false, TN_DTYPE_NONE, &sum));
  TN_CHECK_OK(tn_backward_run(sum, NULL));
  for (int i = 0; i < 3; i++) {
    out[i + 1] = tn_tensor_retain(tn_grad(leaves[i]));
    tn_tensor_release(leaves[i]);
    tn_tensor_release(used[i]);
  }
  tn_tensor_release(sum);
}

TN_TEST(ops_attention_rows, queries_longer_than_a_block_agree_with_the_composite) {
  tn_tensor *in[3] = {noise(SIZES(2, 4, 150, 8)), noise(SIZES(2, 2, 150, 8)), noise(SIZES(2, 2, 150, 8))};
  tn_tensor *fused[4], *composite[4];
  attend(in, false, fused);
  attend(in, true, composite);
  for (int i = 0; i < 4; i++) {
    TN_CHECK(difference(fused[i], composite[i]) < 1e-4);
    tn_tensor_release(fused[i]);
    tn_tensor_release(composite[i]);
  }
  for (int i = 0; i < 3; i++) tn_tensor_release(in[i]);
}

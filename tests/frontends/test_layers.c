/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions, pools and norms as modules: against loops over doubles, in both modes, in both memory formats, through
 * state dicts, and with what they refuse. Attention is in test_attention.c.
 */
#include <math.h>
#include <tenon/nn.h>

#include "tools.h"

/* ------------------------------------------------------------------ convolutions */

enum { N = 2, C = 4, H = 7, W = 6, OUT = 6, KH = 3, KW = 2 };

/* One output of a convolution of [N, C, H, W] with [OUT, C / groups, KH, KW]. */
static double conv_at(const double *x, const double *w, const double *b, const tn_conv_options *o, int64_t n,
                      int64_t out, int64_t y, int64_t z) {
  int64_t per = C / o->groups, first = out / (OUT / o->groups) * per;
  double sum = b ? b[out] : 0.0;
  for (int64_t c = 0; c < per; c++)
    for (int64_t i = 0; i < KH; i++)
      for (int64_t j = 0; j < KW; j++) {
        int64_t at_y = y * o->stride[0] - o->padding[0] + i * o->dilation[0];
        int64_t at_z = z * o->stride[1] - o->padding[1] + j * o->dilation[1];
        if (at_y < 0 || at_y >= H || at_z < 0 || at_z >= W) continue;
        sum += x[((n * C + first + c) * H + at_y) * W + at_z] * w[((out * per + c) * KH + i) * KW + j];
      }
  return sum;
}

static int64_t out_size(int64_t in, int64_t kernel, const tn_conv_options *o, int d) {
  return (in + 2 * o->padding[d] - o->dilation[d] * (kernel - 1) - 1) / o->stride[d] + 1;
}

static void check_conv(tn_conv_options o) {
  static const int64_t kernel[] = {KH, KW};
  tn_module *m = NULL;
  TN_CHECK_OK(tn_conv2d_new(C, OUT, kernel, &o, NULL, &m));
  tn_tensor *x = TT_WAVES(0.3, N, C, H, W), *y = tt_forward(m, x);
  int64_t h = out_size(H, KH, &o, 0), w = out_size(W, KW, &o, 1);
  TT_CHECK_SHAPE(y, N, OUT, h, w);
  double *px = tt_numbers(x), *pw = tt_numbers(tn_module_tensor(m, "weight")), *py = tt_numbers(y);
  double *pb = o.bias ? tt_numbers(tn_module_tensor(m, "bias")) : NULL;
  for (int64_t i = 0; i < N * OUT * h * w; i++)
    TN_CHECK_DOUBLE(py[i], conv_at(px, pw, pb, &o, i / (OUT * h * w), i / (h * w) % OUT, i / w % h, i % w),
                    1e-5);
  free(px);
  free(pw);
  free(pb);
  free(py);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_module_release(m);
}

TN_TEST(frontends_layers, conv2d_is_the_sum_over_its_window) {
  tn_conv_options o = tn_conv_defaults();
  check_conv(o);
  o.bias = false;
  o.groups = 2;
  check_conv(o);
  o = (tn_conv_options){{2, 1}, {1, 2}, {1, 2}, 1, true};
  check_conv(o);
}

TN_TEST(frontends_layers, conv1d_is_conv2d_over_one_row) {
  tn_module *one = NULL, *two = NULL;
  tn_tensor *row = NULL, *flat = NULL, *weight = NULL;
  tn_conv_options o = {{2, 1}, {1, 0}, {2, 1}, 1, true}, turned = {{1, 2}, {0, 1}, {1, 2}, 1, true};
  TN_CHECK_OK(tn_conv1d_new(3, 5, 3, &o, NULL, &one));
  TN_CHECK_OK(tn_conv2d_new(3, 5, (const int64_t[]){1, 3}, &turned, NULL, &two));
  bool grad = tn_grad_mode_set(false);
  TN_CHECK_OK(tn_unsqueeze(tn_module_tensor(one, "weight"), 2, &weight));
  TN_CHECK_OK(tn_copy_(tn_module_tensor(two, "weight"), weight, false));
  TN_CHECK_OK(tn_copy_(tn_module_tensor(two, "bias"), tn_module_tensor(one, "bias"), false));
  tn_grad_mode_set(grad);
  tn_tensor *x = TT_WAVES(0.1, 2, 3, 11), *y = tt_forward(one, x);
  TN_CHECK_OK(tn_unsqueeze(x, 2, &row));
  tn_tensor *z = tt_forward(two, row);
  TN_CHECK_OK(tn_squeeze_dim(z, 2, &flat));
  tt_check_same(y, flat, 1e-5);
  tn_tensor_release(flat);
  tn_tensor_release(z);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_tensor_release(row);
  tn_tensor_release(weight);
  tn_module_release(two);
  tn_module_release(one);
}

TN_TEST(frontends_layers, convolutions_refuse_what_makes_no_sense) {
  static const int64_t kernel[] = {3, 3}, none[] = {3, 0};
  tn_module *m = NULL;
  tn_conv_options o = tn_conv_defaults();
  TN_CHECK_FAILS(tn_conv2d_new(0, 4, kernel, NULL, NULL, &m), TN_ERR_INVALID_ARGUMENT, "input channels");
  TN_CHECK_FAILS(tn_conv2d_new(1, 4, none, NULL, NULL, &m), TN_ERR_INVALID_ARGUMENT, "a kernel size");
  TN_CHECK_FAILS(tn_conv2d_new(1, 4, NULL, NULL, NULL, &m), TN_ERR_INVALID_ARGUMENT, "is NULL");
  o.groups = 3;
  TN_CHECK_FAILS(tn_conv2d_new(4, 6, kernel, &o, NULL, &m), TN_ERR_INVALID_ARGUMENT, "groups must divide");
  o = tn_conv_defaults();
  o.stride[0] = 0;
  TN_CHECK_FAILS(tn_conv1d_new(4, 6, 3, &o, NULL, &m), TN_ERR_INVALID_ARGUMENT, "Conv1d: a stride");
  TN_CHECK_PTR_NULL(m);
  tn_tensor *x = TT_WAVES(0, 1, 3, 2, 2), *y = NULL;
  TN_CHECK_OK(tn_conv2d_new(3, 4, kernel, NULL, NULL, &m));
  TN_CHECK(tn_module_forward(m, x, &y) != TN_OK); /* the image is smaller than the kernel */
  TN_CHECK_CONTAINS(tn_error_message(), "Conv2d");
  tn_tensor_release(x);
  tn_module_release(m);
}

TN_TEST(frontends_layers, channels_last_changes_strides_and_no_value) {
  static const int64_t kernel[] = {3, 3}, half[] = {2, 2};
  tn_module *parts[3], *net = NULL;
  tn_tensor *last = NULL;
  TN_CHECK_OK(tn_conv2d_new(3, 8, kernel, NULL, NULL, &parts[0]));
  TN_CHECK_OK(tn_relu_new(&parts[1]));
  TN_CHECK_OK(tn_max_pool2d_new(half, NULL, &parts[2]));
  TN_CHECK_OK(tn_sequential_new(parts, 3, &net));
  tn_tensor *x = TT_WAVES(0.2, 2, 3, 10, 10), *plain = tt_forward(net, x);
  TN_CHECK_OK(tn_module_to_format(net, TN_CHANNELS_LAST));
  tn_tensor *weight = tn_module_tensor(net, "0.weight");
  TN_CHECK_INT(tn_tensor_strides(weight)[1], 1);
  TN_CHECK(tn_requires_grad(weight) && tn_is_leaf(weight));
  TN_CHECK(tn_tensor_is_contiguous(tn_module_tensor(net, "0.bias")));
  TN_CHECK_OK(tn_contiguous(x, TN_CHANNELS_LAST, &last));
  tn_tensor *y = tt_forward(net, last);
  TN_CHECK_INT(tn_tensor_strides(y)[1], 1);
  tt_check_same(y, plain, 1e-5);
  TN_CHECK_OK(tn_module_to_format(net, TN_CONTIGUOUS_FORMAT));
  TN_CHECK(tn_tensor_is_contiguous(tn_module_tensor(net, "0.weight")));
  TN_CHECK_FAILS(tn_module_to_format(net, TN_PRESERVE_FORMAT), TN_ERR_INVALID_ARGUMENT, "TN_CHANNELS_LAST");
  tn_tensor_release(y);
  tn_tensor_release(last);
  tn_tensor_release(plain);
  tn_tensor_release(x);
  tn_module_release(net);
}

/* ------------------------------------------------------------------ pools */

TN_TEST(frontends_layers, pools_take_the_largest_and_the_mean) {
  static const int64_t two[] = {2, 2}, one[] = {1, 1};
  tn_module *m = NULL;
  tn_tensor *x = NULL, *flat = TT_VECTOR(1, 2, 3, 4, 5, 6, 7, 8, 9);
  TN_CHECK_OK(tn_reshape(flat, (const tn_dim[]){1, 1, 3, 3}, 4, &x));
  TN_CHECK_OK(tn_max_pool2d_new(two, NULL, &m));
  tn_tensor *y = tt_forward(m, x);
  TT_CHECK_SHAPE(y, 1, 1, 1, 1);
  TN_CHECK_DOUBLE(tt_at(y, 0), 5, 0);
  tn_tensor_release(y);
  tn_module_release(m);
  tn_pool_options o = tn_pool_defaults();
  o.stride[0] = o.stride[1] = 1;
  o.padding[0] = 1;
  o.count_include_pad = false;
  TN_CHECK_OK(tn_avg_pool2d_new(two, &o, &m));
  y = tt_forward(m, x);
  TT_CHECK_SHAPE(y, 1, 1, 4, 2);
  TN_CHECK_DOUBLE(tt_at(y, 0), 1.5, 1e-6);
  TN_CHECK_DOUBLE(tt_at(y, 2), 3, 1e-6);
  tn_tensor_release(y);
  tn_module_release(m);
  TN_CHECK_OK(tn_adaptive_avg_pool2d_new(one, &m));
  y = tt_forward(m, x);
  TN_CHECK_DOUBLE(tt_at(y, 0), 5, 1e-6);
  tn_tensor_release(y);
  tn_module_release(m);
  tn_tensor_release(x);
  tn_tensor_release(flat);
}

TN_TEST(frontends_layers, pools_of_one_dim) {
  tn_module *m = NULL;
  tn_tensor *x = NULL, *flat = TT_VECTOR(1, 5, 2, 4, 3);
  TN_CHECK_OK(tn_reshape(flat, (const tn_dim[]){1, 1, 5}, 3, &x));
  TN_CHECK_OK(tn_max_pool1d_new(2, NULL, &m));
  tn_tensor *y = tt_forward(m, x);
  TT_CHECK_SHAPE(y, 1, 1, 2);
  TN_CHECK_DOUBLE(tt_at(y, 0), 5, 0);
  TN_CHECK_DOUBLE(tt_at(y, 1), 4, 0);
  tn_tensor_release(y);
  tn_module_release(m);
  tn_pool_options o = tn_pool_defaults();
  o.stride[0] = 1;
  TN_CHECK_OK(tn_avg_pool1d_new(3, &o, &m));
  y = tt_forward(m, x);
  TT_CHECK_SHAPE(y, 1, 1, 3);
  TN_CHECK_DOUBLE(tt_at(y, 0), 8.0 / 3, 1e-6);
  TN_CHECK_DOUBLE(tt_at(y, 2), 3, 1e-6);
  tn_tensor_release(y);
  tn_module_release(m);
  tn_tensor_release(x);
  tn_tensor_release(flat);
}

TN_TEST(frontends_layers, pools_refuse_what_makes_no_sense) {
  static const int64_t two[] = {2, 2}, none[] = {0, 2};
  tn_module *m = NULL;
  tn_pool_options o = tn_pool_defaults();
  TN_CHECK_FAILS(tn_max_pool2d_new(none, NULL, &m), TN_ERR_INVALID_ARGUMENT, "MaxPool2d: a kernel size");
  o.padding[1] = 2;
  TN_CHECK_FAILS(tn_max_pool2d_new(two, &o, &m), TN_ERR_INVALID_ARGUMENT, "more than half");
  o = tn_pool_defaults();
  o.dilation[0] = 2;
  TN_CHECK_FAILS(tn_avg_pool2d_new(two, &o, &m), TN_ERR_INVALID_ARGUMENT, "AvgPool2d: it has no dilation");
  TN_CHECK_FAILS(tn_avg_pool1d_new(2, &o, &m), TN_ERR_INVALID_ARGUMENT, "AvgPool1d: it has no dilation");
  TN_CHECK_FAILS(tn_adaptive_avg_pool2d_new(none, &m), TN_ERR_INVALID_ARGUMENT, "a size");
  TN_CHECK_PTR_NULL(m);
}

/* ------------------------------------------------------------------ norms */

/* Mean and variance of channel c of [n, channels, rest]. */
static void moments(const double *x, size_t n, size_t channels, size_t rest, size_t c, double *mean,
                    double *var) {
  *mean = *var = 0.0;
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < rest; j++) *mean += x[(i * channels + c) * rest + j] / (double)(n * rest);
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < rest; j++)
      *var += pow(x[(i * channels + c) * rest + j] - *mean, 2) / (double)(n * rest);
}

static void check_batch_norm(tn_module *m, tn_tensor *x, size_t rest) {
  enum { IMAGES = 4, CHANNELS = 3 };
  double *px = tt_numbers(x), mean[CHANNELS], var[CHANNELS];
  tn_tensor *y = tt_forward(m, x);
  double *py = tt_numbers(y), count = (double)(IMAGES * rest);
  for (size_t c = 0; c < CHANNELS; c++) moments(px, IMAGES, CHANNELS, rest, c, &mean[c], &var[c]);
  for (size_t i = 0; i < IMAGES * CHANNELS * rest; i++) {
    size_t c = i / rest % CHANNELS;
    TN_CHECK_DOUBLE(py[i], (px[i] - mean[c]) / sqrt(var[c] + 1e-5), 1e-4);
  }
  for (size_t c = 0; c < CHANNELS; c++) {
    TN_CHECK_DOUBLE(tt_at(tn_module_tensor(m, "running_mean"), c), 0.1 * mean[c], 1e-5);
    TN_CHECK_DOUBLE(tt_at(tn_module_tensor(m, "running_var"), c), 0.9 + 0.1 * var[c] * count / (count - 1),
                    1e-5);
  }
  TN_CHECK_DOUBLE(tt_at(tn_module_tensor(m, "num_batches_tracked"), 0), 1, 0);
  tn_tensor_release(y);
  /* Outside training the running statistics count, and stay. */
  tn_module_train(m, false);
  double running = tt_at(tn_module_tensor(m, "running_mean"), 1);
  double deviation = sqrt(tt_at(tn_module_tensor(m, "running_var"), 1) + 1e-5);
  y = tt_forward(m, x);
  TN_CHECK_DOUBLE(tt_at(y, rest), (px[rest] - running) / deviation, 1e-5);
  TN_CHECK_DOUBLE(tt_at(tn_module_tensor(m, "running_mean"), 1), running, 0);
  TN_CHECK_DOUBLE(tt_at(tn_module_tensor(m, "num_batches_tracked"), 0), 1, 0);
  tn_tensor_release(y);
  free(px);
  free(py);
}

TN_TEST(frontends_layers, batch_norm_normalises_and_remembers) {
  tn_module *m = NULL;
  tn_tensor *x = TT_WAVES(0.4, 4, 3, 5, 2);
  TN_CHECK_OK(tn_batch_norm2d_new(3, NULL, NULL, &m));
  check_batch_norm(m, x, 10);
  tn_module_release(m);
  tn_tensor_release(x);
  x = TT_WAVES(0.5, 4, 3);
  TN_CHECK_OK(tn_batch_norm1d_new(3, NULL, NULL, &m));
  check_batch_norm(m, x, 1);
  tn_module_release(m);
  tn_tensor_release(x);
}

TN_TEST(frontends_layers, batch_norm_state_travels) {
  tn_module *a = NULL, *b = NULL;
  tn_state_dict *dict = NULL;
  tn_tensor *x = TT_WAVES(0.6, 4, 3, 2, 2);
  TN_CHECK_OK(tn_batch_norm2d_new(3, NULL, NULL, &a));
  TN_CHECK_OK(tn_batch_norm2d_new(3, NULL, NULL, &b));
  tn_tensor_release(tt_forward(a, x));
  TN_CHECK_OK(tn_module_state_dict(a, &dict));
  TN_CHECK_INT(tn_state_dict_count(dict), 5);
  TN_CHECK_OK(tn_module_load_state_dict(b, dict, true));
  tn_module_train(a, false);
  tn_module_train(b, false);
  tn_tensor *y = tt_forward(a, x), *z = tt_forward(b, x);
  tt_check_same(y, z, 0);
  tn_tensor_release(y);
  tn_tensor_release(z);
  tn_state_dict_release(dict);
  tn_module_release(b);
  tn_module_release(a);
  tn_tensor_release(x);
}

TN_TEST(frontends_layers, batch_norm_without_tracking_uses_the_batch_in_both_modes) {
  tn_batch_norm_options o = {.eps = 1e-5, .momentum = 0.1};
  tn_module *m = NULL;
  TN_CHECK_OK(tn_batch_norm1d_new(3, &o, NULL, &m));
  TN_CHECK_PTR_NULL(tn_module_tensor(m, "weight"));
  TN_CHECK_PTR_NULL(tn_module_tensor(m, "running_mean"));
  tn_tensor *x = TT_WAVES(0.7, 4, 3, 5), *y = tt_forward(m, x);
  tn_module_train(m, false);
  tn_tensor *z = tt_forward(m, x);
  tt_check_same(y, z, 0);
  tn_tensor_release(z);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_module_release(m);
}

TN_TEST(frontends_layers, norms_refuse_what_makes_no_sense) {
  tn_module *m = NULL;
  tn_tensor *x = TT_WAVES(0, 1, 3), *y = NULL;
  tn_batch_norm_options o = tn_batch_norm_defaults();
  TN_CHECK_OK(tn_batch_norm1d_new(3, NULL, NULL, &m));
  TN_CHECK_FAILS(tn_module_forward(m, x, &y), TN_ERR_INVALID_ARGUMENT, "more than one value a channel");
  TN_CHECK_DOUBLE(tt_at(tn_module_tensor(m, "num_batches_tracked"), 0), 0, 0);
  tn_module_release(m);
  TN_CHECK_OK(tn_batch_norm2d_new(3, NULL, NULL, &m));
  TN_CHECK_FAILS(tn_module_forward(m, x, &y), TN_ERR_INVALID_ARGUMENT,
                 "[N, C, H, W] with C = 3 was expected");
  tn_module_release(m);
  o.momentum = 2;
  TN_CHECK_FAILS(tn_batch_norm2d_new(3, &o, NULL, &m), TN_ERR_INVALID_ARGUMENT, "a momentum in [0, 1]");
  TN_CHECK_FAILS(tn_group_norm_new(2, 3, 1e-5, true, NULL, &m), TN_ERR_INVALID_ARGUMENT, "groups divide");
  TN_CHECK_FAILS(tn_rms_norm_new(NULL, 0, 1e-5, true, NULL, &m), TN_ERR_INVALID_ARGUMENT, "number of dims");
  TN_CHECK_PTR_NULL(m);
  tn_tensor_release(x);
}

TN_TEST(frontends_layers, group_norm_is_by_groups_of_channels) {
  tn_module *m = NULL;
  double mean, var;
  TN_CHECK_OK(tn_group_norm_new(2, 4, 1e-5, true, NULL, &m));
  tn_tensor *x = TT_WAVES(0.8, 3, 4, 5), *y = tt_forward(m, x);
  double *px = tt_numbers(x), *py = tt_numbers(y);
  for (size_t i = 0; i < 60; i++) {
    size_t group = i / 10; /* 2 channels of 5 */
    moments(px, 1, 6, 10, group, &mean, &var);
    TN_CHECK_DOUBLE(py[i], (px[i] - mean) / sqrt(var + 1e-5), 1e-4);
  }
  free(px);
  free(py);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_module_release(m);
}

TN_TEST(frontends_layers, rms_norm_divides_by_the_root_of_the_mean_square) {
  const tn_dim size = 3;
  tn_module *m = NULL;
  tn_tensor *flat = TT_VECTOR(1, 2, 3, -2, 0, 2), *x = NULL;
  TN_CHECK_OK(tn_reshape(flat, (const tn_dim[]){2, 3}, 2, &x));
  TN_CHECK_OK(tn_rms_norm_new(&size, 1, 0.0, true, NULL, &m));
  TN_CHECK_OK(tn_init_constant(tn_module_tensor(m, "weight"), 2));
  tn_tensor *y = tt_forward(m, x);
  TN_CHECK_DOUBLE(tt_at(y, 2), 2 * 3 / sqrt(14.0 / 3), 1e-5);
  TN_CHECK_DOUBLE(tt_at(y, 3), 2 * -2 / sqrt(8.0 / 3), 1e-5);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_tensor_release(flat);
  tn_module_release(m);
}

/* ------------------------------------------------------------------ SiLU, ModuleList */

TN_TEST(frontends_layers, silu) {
  tn_module *m = NULL;
  tn_tensor *x = TT_VECTOR(-1, 2);
  TN_CHECK_OK(tn_silu_new(&m));
  tn_tensor *y = tt_forward(m, x);
  TN_CHECK_DOUBLE(tt_at(y, 0), -1 / (1 + exp(1)), 1e-6);
  TN_CHECK_DOUBLE(tt_at(y, 1), 2 / (1 + exp(-2)), 1e-6);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_module_release(m);
}

TN_TEST(frontends_layers, a_module_list_holds_and_does_not_run) {
  tn_module *parts[2], *list = NULL, *relu = NULL;
  tn_tensor *x = TT_VECTOR(1), *y = NULL;
  TN_CHECK_OK(tn_linear_new(2, 3, true, NULL, &parts[0]));
  TN_CHECK_OK(tn_relu_new(&parts[1]));
  TN_CHECK_OK(tn_module_list_new(parts, 2, &list));
  TN_CHECK_INT(tn_module_child_count(list), 2);
  TN_CHECK(tn_module_child_at(list, 0) == tn_module_child(list, "0"));
  TN_CHECK_PTR_NULL(tn_module_child_at(list, 2));
  TN_CHECK_PTR_NULL(tn_module_child_at(NULL, 0));
  TN_CHECK_NOT_NULL(tn_module_tensor(list, "0.weight"));
  TN_CHECK_FAILS(tn_module_forward(list, x, &y), TN_ERR_INVALID_ARGUMENT, "run its children");
  TN_CHECK_OK(tn_relu_new(&relu));
  TN_CHECK_FAILS(tn_module_list_append(relu, tn_module_retain(relu)), TN_ERR_INVALID_ARGUMENT,
                 "a ModuleList was expected, ReLU came");
  tn_module_release(list);
  TN_CHECK_FAILS(tn_module_list_new((tn_module *[]){NULL}, 1, &list), TN_ERR_INVALID_ARGUMENT, "NULL");
  TN_CHECK_PTR_NULL(list);
  tn_module_release(relu);
  tn_tensor_release(x);
}

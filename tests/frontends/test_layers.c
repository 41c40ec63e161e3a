/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions, pools, norms and attention as modules: against loops over doubles, in both modes, in both memory
 * formats, through state dicts, and with what they refuse.
 */
#include <math.h>
#include <tenon/nn.h>

#include "tools.h"

/* ------------------------------------------------------------------ tools */

/* Numbers without a pattern that a wrong index could hide in. */
static double wave(size_t i, double phase) {
  return sin(1.7 * (double)i + phase) + 0.25 * cos(0.31 * (double)i);
}

static tn_tensor *waves(const tn_dim *sizes, size_t ndim, double phase) {
  size_t n = 1;
  for (size_t d = 0; d < ndim; d++) n *= (size_t)sizes[d];
  double *values = malloc((n ? n : 1) * sizeof *values);
  TN_CHECK(values != NULL);
  for (size_t i = 0; i < n; i++) values[i] = wave(i, phase);
  tn_tensor *flat = tt_vector(values, n), *t = NULL;
  free(values);
  TN_CHECK_OK(tn_reshape(flat, sizes, ndim, &t));
  tn_tensor_release(flat);
  return t;
}
#define WAVES(phase, ...) \
  waves((const tn_dim[]){__VA_ARGS__}, sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim), phase)

/* All elements as doubles, row-major; the caller frees. */
static double *numbers(tn_tensor *t) {
  tn_tensor *wide = NULL;
  bool grad = tn_grad_mode_set(false);
  TN_CHECK_OK(tn_to_dtype(t, TN_FLOAT64, false, false, TN_MEMORY_FORMAT_NONE, &wide));
  tn_grad_mode_set(grad);
  size_t size = (size_t)tn_tensor_numel(wide) * sizeof(double);
  double *data = malloc(size ? size : 1);
  TN_CHECK(data != NULL);
  TN_CHECK_OK(tn_tensor_to_host(wide, data, size));
  tn_tensor_release(wide);
  return data;
}

static tn_tensor *forward(tn_module *m, tn_tensor *x) {
  tn_tensor *y = NULL;
  TN_CHECK_OK(tn_module_forward(m, x, &y));
  return y;
}

static void check_shape(tn_tensor *t, const tn_dim *sizes, int32_t ndim) {
  TN_CHECK_INT(tn_tensor_ndim(t), ndim);
  for (int32_t d = 0; d < ndim; d++) TN_CHECK_INT(tn_tensor_sizes(t)[d], sizes[d]);
}
#define CHECK_SHAPE(t, ...)                     \
  check_shape(t, (const tn_dim[]){__VA_ARGS__}, \
              (int32_t)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim)))

static void check_same(tn_tensor *a, tn_tensor *b, double tolerance) {
  double *x = numbers(a), *y = numbers(b);
  TN_CHECK_INT(tn_tensor_numel(a), tn_tensor_numel(b));
  for (int64_t i = 0; i < tn_tensor_numel(a); i++) TN_CHECK_DOUBLE(x[i], y[i], tolerance);
  free(x);
  free(y);
}

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
  tn_tensor *x = WAVES(0.3, N, C, H, W), *y = forward(m, x);
  int64_t h = out_size(H, KH, &o, 0), w = out_size(W, KW, &o, 1);
  CHECK_SHAPE(y, N, OUT, h, w);
  double *px = numbers(x), *pw = numbers(tn_module_tensor(m, "weight")), *py = numbers(y);
  double *pb = o.bias ? numbers(tn_module_tensor(m, "bias")) : NULL;
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
  tn_tensor *x = WAVES(0.1, 2, 3, 11), *y = forward(one, x);
  TN_CHECK_OK(tn_unsqueeze(x, 2, &row));
  tn_tensor *z = forward(two, row);
  TN_CHECK_OK(tn_squeeze_dim(z, 2, &flat));
  check_same(y, flat, 1e-5);
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
  tn_tensor *x = WAVES(0, 1, 3, 2, 2), *y = NULL;
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
  tn_tensor *x = WAVES(0.2, 2, 3, 10, 10), *plain = forward(net, x);
  TN_CHECK_OK(tn_module_to_format(net, TN_CHANNELS_LAST));
  tn_tensor *weight = tn_module_tensor(net, "0.weight");
  TN_CHECK_INT(tn_tensor_strides(weight)[1], 1);
  TN_CHECK(tn_requires_grad(weight) && tn_is_leaf(weight));
  TN_CHECK(tn_tensor_is_contiguous(tn_module_tensor(net, "0.bias")));
  TN_CHECK_OK(tn_contiguous(x, TN_CHANNELS_LAST, &last));
  tn_tensor *y = forward(net, last);
  TN_CHECK_INT(tn_tensor_strides(y)[1], 1);
  check_same(y, plain, 1e-5);
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
  tn_tensor *y = forward(m, x);
  CHECK_SHAPE(y, 1, 1, 1, 1);
  TN_CHECK_DOUBLE(tt_at(y, 0), 5, 0);
  tn_tensor_release(y);
  tn_module_release(m);
  tn_pool_options o = tn_pool_defaults();
  o.stride[0] = o.stride[1] = 1;
  o.padding[0] = 1;
  o.count_include_pad = false;
  TN_CHECK_OK(tn_avg_pool2d_new(two, &o, &m));
  y = forward(m, x);
  CHECK_SHAPE(y, 1, 1, 4, 2);
  TN_CHECK_DOUBLE(tt_at(y, 0), 1.5, 1e-6);
  TN_CHECK_DOUBLE(tt_at(y, 2), 3, 1e-6);
  tn_tensor_release(y);
  tn_module_release(m);
  TN_CHECK_OK(tn_adaptive_avg_pool2d_new(one, &m));
  y = forward(m, x);
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
  tn_tensor *y = forward(m, x);
  CHECK_SHAPE(y, 1, 1, 2);
  TN_CHECK_DOUBLE(tt_at(y, 0), 5, 0);
  TN_CHECK_DOUBLE(tt_at(y, 1), 4, 0);
  tn_tensor_release(y);
  tn_module_release(m);
  tn_pool_options o = tn_pool_defaults();
  o.stride[0] = 1;
  TN_CHECK_OK(tn_avg_pool1d_new(3, &o, &m));
  y = forward(m, x);
  CHECK_SHAPE(y, 1, 1, 3);
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
  double *px = numbers(x), mean[CHANNELS], var[CHANNELS];
  tn_tensor *y = forward(m, x);
  double *py = numbers(y), count = (double)(IMAGES * rest);
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
  y = forward(m, x);
  TN_CHECK_DOUBLE(tt_at(y, rest), (px[rest] - running) / deviation, 1e-5);
  TN_CHECK_DOUBLE(tt_at(tn_module_tensor(m, "running_mean"), 1), running, 0);
  TN_CHECK_DOUBLE(tt_at(tn_module_tensor(m, "num_batches_tracked"), 0), 1, 0);
  tn_tensor_release(y);
  free(px);
  free(py);
}

TN_TEST(frontends_layers, batch_norm_normalises_and_remembers) {
  tn_module *m = NULL;
  tn_tensor *x = WAVES(0.4, 4, 3, 5, 2);
  TN_CHECK_OK(tn_batch_norm2d_new(3, NULL, NULL, &m));
  check_batch_norm(m, x, 10);
  tn_module_release(m);
  tn_tensor_release(x);
  x = WAVES(0.5, 4, 3);
  TN_CHECK_OK(tn_batch_norm1d_new(3, NULL, NULL, &m));
  check_batch_norm(m, x, 1);
  tn_module_release(m);
  tn_tensor_release(x);
}

TN_TEST(frontends_layers, batch_norm_state_travels) {
  tn_module *a = NULL, *b = NULL;
  tn_state_dict *dict = NULL;
  tn_tensor *x = WAVES(0.6, 4, 3, 2, 2);
  TN_CHECK_OK(tn_batch_norm2d_new(3, NULL, NULL, &a));
  TN_CHECK_OK(tn_batch_norm2d_new(3, NULL, NULL, &b));
  tn_tensor_release(forward(a, x));
  TN_CHECK_OK(tn_module_state_dict(a, &dict));
  TN_CHECK_INT(tn_state_dict_count(dict), 5);
  TN_CHECK_OK(tn_module_load_state_dict(b, dict, true));
  tn_module_train(a, false);
  tn_module_train(b, false);
  tn_tensor *y = forward(a, x), *z = forward(b, x);
  check_same(y, z, 0);
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
  tn_tensor *x = WAVES(0.7, 4, 3, 5), *y = forward(m, x);
  tn_module_train(m, false);
  tn_tensor *z = forward(m, x);
  check_same(y, z, 0);
  tn_tensor_release(z);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_module_release(m);
}

TN_TEST(frontends_layers, norms_refuse_what_makes_no_sense) {
  tn_module *m = NULL;
  tn_tensor *x = WAVES(0, 1, 3), *y = NULL;
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
  tn_tensor *x = WAVES(0.8, 3, 4, 5), *y = forward(m, x);
  double *px = numbers(x), *py = numbers(y);
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
  tn_tensor *y = forward(m, x);
  TN_CHECK_DOUBLE(tt_at(y, 2), 2 * 3 / sqrt(14.0 / 3), 1e-5);
  TN_CHECK_DOUBLE(tt_at(y, 3), 2 * -2 / sqrt(8.0 / 3), 1e-5);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_tensor_release(flat);
  tn_module_release(m);
}

/* ------------------------------------------------------------------ attention */

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
  tn_tensor *x = WAVES(0.9, BATCH, LENGTH, WIDTH), *y = forward(m, x);
  CHECK_SHAPE(y, BATCH, LENGTH, WIDTH);
  double *px = numbers(x), *py = numbers(y), *w = numbers(tn_module_tensor(m, "in_proj_weight"));
  double *b = numbers(tn_module_tensor(m, "in_proj_bias")),
         *ow = numbers(tn_module_tensor(m, "out_proj.weight"));
  double *ob = numbers(tn_module_tensor(m, "out_proj.bias"));
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

TN_TEST(frontends_layers, attention_follows_its_definition) {
  check_attention(false);
  check_attention(true);
}

TN_TEST(frontends_layers, attention_of_one_input_is_attention_of_three_equal_ones) {
  tn_module *m = NULL;
  tn_tensor *one = NULL, *three = NULL, *masked = NULL, *ones = NULL, *mask = NULL, *causal = NULL;
  tn_attention_options o = tn_attention_defaults();
  TN_CHECK_OK(tn_multihead_attention_new(WIDTH, HEADS, &o, NULL, &m));
  tn_tensor *x = WAVES(1.0, BATCH, LENGTH, WIDTH);
  TN_CHECK_OK(tn_module_forward(m, x, &one));
  TN_CHECK_OK(tn_module_forward_many(m, (tn_tensor *[]){x, x, x}, 3, &three));
  check_same(one, three, 1e-6);
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
  check_same(masked, causal, 1e-5);
  tn_tensor *const all[] = {x, one, three, masked, ones, mask, causal};
  for (int i = 0; i < 7; i++) tn_tensor_release(all[i]);
  tn_state_dict_release(dict);
  tn_module_release(other);
  tn_module_release(m);
}

TN_TEST(frontends_layers, attention_to_other_places_and_its_gradient) {
  tn_module *m = NULL;
  tn_tensor *y = NULL, *loss = NULL;
  TN_CHECK_OK(tn_multihead_attention_new(WIDTH, HEADS, NULL, NULL, &m));
  tn_tensor *query = WAVES(1.1, BATCH, 3, WIDTH), *key = WAVES(1.2, BATCH, LENGTH, WIDTH);
  TN_CHECK_OK(tn_module_forward_many(m, (tn_tensor *[]){query, key, key}, 3, &y));
  CHECK_SHAPE(y, BATCH, 3, WIDTH);
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

TN_TEST(frontends_layers, attention_refuses_what_makes_no_sense) {
  tn_module *m = NULL;
  tn_tensor *x = WAVES(0, 2, 6), *y = NULL, *five[5] = {x, x, x, x, x};
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

TN_TEST(frontends_layers, a_causal_layer_does_not_see_what_comes_later) {
  tn_attention_options o = {.bias = true, .causal = true};
  tn_module *m = NULL;
  tn_tensor *place = NULL;
  TN_CHECK_OK(tn_transformer_layer_new(WIDTH, HEADS, 4 * WIDTH, &o, NULL, &m));
  tn_tensor *x = WAVES(1.3, 1, LENGTH, WIDTH), *before = forward(m, x);
  TN_CHECK_OK(tn_select(x, 1, 3, &place));
  TN_CHECK_OK(tn_fill_(place, tn_float(9)));
  tn_tensor *after = forward(m, x);
  for (size_t i = 0; i < 3 * WIDTH; i++) TN_CHECK_DOUBLE(tt_at(after, i), tt_at(before, i), 1e-6);
  TN_CHECK(fabs(tt_at(after, 3 * WIDTH) - tt_at(before, 3 * WIDTH)) > 0.1);
  TN_CHECK(tt_at(after, 4 * WIDTH) != tt_at(before, 4 * WIDTH));
  tn_tensor_release(after);
  tn_tensor_release(before);
  tn_tensor_release(place);
  tn_tensor_release(x);
  tn_module_release(m);
}

TN_TEST(frontends_layers, dropout_of_a_layer_is_for_training_only) {
  tn_attention_options o = {.bias = true, .dropout = 0.5};
  tn_module *m = NULL;
  TN_CHECK_OK(tn_transformer_layer_new(WIDTH, HEADS, WIDTH, &o, NULL, &m));
  tn_tensor *x = WAVES(1.4, 1, LENGTH, WIDTH), *a = forward(m, x), *b = forward(m, x);
  double *pa = numbers(a), *pb = numbers(b), apart = 0.0;
  for (int i = 0; i < LENGTH * WIDTH; i++) apart += fabs(pa[i] - pb[i]);
  TN_CHECK(apart > 0.0);
  free(pa);
  free(pb);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_module_train(m, false);
  a = forward(m, x);
  b = forward(m, x);
  check_same(a, b, 0);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(x);
  tn_module_release(m);
}

/* ------------------------------------------------------------------ SiLU, ModuleList */

TN_TEST(frontends_layers, silu) {
  tn_module *m = NULL;
  tn_tensor *x = TT_VECTOR(-1, 2);
  TN_CHECK_OK(tn_silu_new(&m));
  tn_tensor *y = forward(m, x);
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling on values that tempt it (ties, NaN, infinities) and on shapes that fill vectors, in both memory orders,
 * against the definition: the first of equal ones, NaN before all, ATen's rule for the last window of ceil_mode.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "make.h"

typedef struct window {
  tn_dim channels, size[2];
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  bool ceil_mode;
  tn_dim out[2]; /* stated, not computed: what ATen gives */
} window;

static const window windows[] = {
    {3, {5, 7}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, {2, 3}},
    {3, {5, 7}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, true, {3, 4}},
    {5, {5, 5}, {3, 3}, {3, 3}, {1, 1}, {1, 1}, true, {2, 2}}, /* a third window would begin in the padding */
    {5, {6, 6}, {3, 3}, {3, 3}, {1, 1}, {1, 1}, true, {3, 3}}, /* here it begins inside */
    {40, {9, 43}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, true, {5, 22}},
    {33, {12, 37}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, {6, 19}},
    {8, {11, 29}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {11, 29}},
    {9, {14, 40}, {2, 3}, {3, 3}, {1, 1}, {3, 2}, false, {5, 13}},
    {70, {7, 64}, {2, 2}, {2, 2}, {1, 1}, {1, 1}, false, {4, 33}},
};
static const size_t n_windows = sizeof windows / sizeof windows[0];
enum { BATCH = 2 };

static bool inside(const window *w, int d, int64_t x) { return x >= 0 && x < w->size[d]; }

/* The largest element of the window of (oy, ox) in a row-major plane, and its place. */
static double largest(const window *w, const double *plane, int64_t oy, int64_t ox, int64_t *out_place) {
  double best = -INFINITY;
  *out_place = -1;
  for (int64_t i = 0; i < w->kernel[0]; i++)
    for (int64_t j = 0; j < w->kernel[1]; j++) {
      int64_t y = oy * w->stride[0] - w->padding[0] + i * w->dilation[0];
      int64_t x = ox * w->stride[1] - w->padding[1] + j * w->dilation[1];
      if (!inside(w, 0, y) || !inside(w, 1, x)) continue;
      double v = plane[y * w->size[1] + x];
      if (*out_place < 0 || v > best || isnan(v)) best = v, *out_place = y * w->size[1] + x;
    }
  return best;
}

/* The mean; with padding, elements of it count, but none beyond it. */
static double mean(const window *w, const double *plane, int64_t oy, int64_t ox, bool count_padding) {
  double sum = 0, n = 0;
  for (int64_t i = 0; i < w->kernel[0]; i++)
    for (int64_t j = 0; j < w->kernel[1]; j++) {
      int64_t y = oy * w->stride[0] - w->padding[0] + i, x = ox * w->stride[1] - w->padding[1] + j;
      bool in = inside(w, 0, y) && inside(w, 1, x);
      n += in || (count_padding && y < w->size[0] + w->padding[0] && x < w->size[1] + w->padding[1]);
      sum += in ? plane[y * w->size[1] + x] : 0;
    }
  return sum / n;
}

static double *doubles(tn_tensor *t) {
  tn_tensor *wide = NULL;
  size_t n = (size_t)tn_tensor_numel(t);
  double *values = malloc(n * sizeof *values + 8);
  TN_CHECK_OK(tn_to_dtype(t, TN_FLOAT64, false, true, TN_CONTIGUOUS_FORMAT, &wide));
  TN_CHECK_OK(tn_tensor_to_host(wide, values, n * sizeof *values));
  tn_tensor_release(wide);
  return values;
}

/* Images of few different values, in the dtype and order asked for. */
static tn_tensor *images(const window *w, const double *choice, uint32_t n_choices, tn_dtype dtype, bool last) {
  size_t n = (size_t)(BATCH * w->channels * w->size[0] * w->size[1]);
  double *values = malloc(n * sizeof *values);
  uint32_t state = 12345;
  for (size_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    values[i] = choice[state / 65536 % n_choices];
  }
  tn_tensor *wide = NULL, *t = NULL;
  TN_CHECK_OK(tn_tensor_from_host(values, (const tn_dim[]){BATCH, w->channels, w->size[0], w->size[1]}, 4,
                                  TN_OPTIONS(.dtype = TN_FLOAT64), &wide));
  TN_CHECK_OK(tn_to_dtype(wide, dtype, false, true, last ? TN_CHANNELS_LAST : TN_CONTIGUOUS_FORMAT, &t));
  tn_tensor_release(wide);
  free(values);
  return t;
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void check_shape(const window *w, tn_tensor *t) {
  TN_CHECK_INT(tn_tensor_sizes(t)[2], w->out[0]);
  TN_CHECK_INT(tn_tensor_sizes(t)[3], w->out[1]);
}

static void check_max(const window *w, tn_dtype dtype, bool last) {
  static const double choice[] = {-INFINITY, -INFINITY, -INFINITY, -1, 0, 0, 1, 2, NAN};
  tn_tensor *x = images(w, choice, 9, dtype, last), *y = NULL, *index = NULL, *g = NULL, *ones = NULL;
  TN_CHECK_OK(tn_max_pool2d_with_indices(x, w->kernel, 2, w->stride, 2, w->padding, 2, w->dilation, 2, w->ceil_mode,
                                         &y, &index));
  check_shape(w, y);
  double *in = doubles(x), *values = doubles(y), *places = doubles(index);
  int64_t plane = w->size[0] * w->size[1], pooled = w->out[0] * w->out[1], wrong = 0;
  double *grad = calloc((size_t)(BATCH * w->channels * plane), sizeof *grad);
  for (int64_t i = 0; i < BATCH * w->channels * pooled; i++) {
    int64_t place, at = i / pooled;
    double best = largest(w, in + at * plane, i % pooled / w->out[1], i % w->out[1], &place);
    wrong += !same(values[i], best) || places[i] != (double)place;
    grad[at * plane + place] += 1;
  }
  TN_CHECK_INT(wrong, 0);
  TN_CHECK_OK(tn_full_like(y, tn_float(1), NULL, TN_PRESERVE_FORMAT, &ones));
  TN_CHECK_OK(tn_max_pool2d_with_indices_backward(ones, x, w->kernel, 2, w->stride, 2, w->padding, 2, w->dilation, 2,
                                                  w->ceil_mode, index, &g));
  double *got = doubles(g);
  for (int64_t i = 0; i < BATCH * w->channels * plane; i++) wrong += got[i] != grad[i];
  TN_CHECK_INT(wrong, 0);
  tn_tensor *tensors[] = {x, y, index, g, ones};
  for (int i = 0; i < 5; i++) tn_tensor_release(tensors[i]);
  double *arrays[] = {in, values, places, grad, got};
  for (int i = 0; i < 5; i++) free(arrays[i]);
}

static void check_mean(const window *w, tn_dtype dtype, bool last, bool count_padding) {
  static const double choice[] = {-1, 0, 1, 2, 3.5};
  tn_tensor *x = images(w, choice, 5, dtype, last), *y = NULL, *g = NULL;
  TN_CHECK_OK(tn_avg_pool2d(x, w->kernel, 2, w->stride, 2, w->padding, 2, w->ceil_mode, count_padding, NULL, &y));
  check_shape(w, y);
  TN_CHECK_OK(tn_avg_pool2d_backward(y, x, w->kernel, 2, w->stride, 2, w->padding, 2, w->ceil_mode, count_padding,
                                     NULL, &g));
  double *in = doubles(x), *values = doubles(y), *got = doubles(g), inner = 0, squares = 0;
  int64_t plane = w->size[0] * w->size[1], pooled = w->out[0] * w->out[1], wrong = 0;
  for (int64_t i = 0; i < BATCH * w->channels * pooled; i++) {
    double want = mean(w, in + i / pooled * plane, i % pooled / w->out[1], i % w->out[1], count_padding);
    wrong += !(fabs(values[i] - want) < 1e-6);
    squares += values[i] * values[i];
  }
  /* y = A x, so that x . (A' y) = y . y */
  for (int64_t i = 0; i < BATCH * w->channels * plane; i++) inner += got[i] * in[i];
  TN_CHECK_INT(wrong, 0);
  TN_CHECK_DOUBLE(inner / squares, 1, 1e-5);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(g);
  free(in);
  free(values);
  free(got);
}

TN_TEST(ops_pool_values, ties_go_to_the_first_and_nan_before_all) {
  for (size_t i = 0; i < n_windows; i++)
    for (int last = 0; last < 2; last++) {
      check_max(&windows[i], TN_FLOAT32, last);
      check_max(&windows[i], TN_FLOAT64, last);
    }
}

TN_TEST(ops_pool_values, means_agree_with_the_definition) {
  for (size_t i = 0; i < n_windows; i++)
    for (int last = 0; last < 2 && windows[i].dilation[0] == 1; last++) {
      check_mean(&windows[i], TN_FLOAT32, last, true);
      check_mean(&windows[i], TN_FLOAT64, last, false);
    }
}

TN_TEST(ops_pool_values, an_index_beside_its_plane_is_refused) {
  const int64_t two[] = {2, 2}, none[] = {0, 0}, one[] = {1, 1};
  tn_tensor *x = make_float(SIZES(1, 2, 4, 4)), *g = make_float(SIZES(1, 2, 2, 2)), *index = NULL, *out = NULL;
  const int64_t beside[][8] = {
      {0, 2, 8, 10, 0, 2, 8, 16}, {0, 2, 8, -1, 0, 2, 8, 10}, {0, 2, 8, INT64_MIN, 0, 2, 8, 10}};
  for (int i = 0; i < 3; i++) {
    TN_CHECK_OK(tn_tensor_from_host(beside[i], (const tn_dim[]){1, 2, 2, 2}, 4, TN_OPTIONS(.dtype = TN_INT64), &index));
    TN_CHECK_FAILS(tn_max_pool2d_with_indices_backward(g, x, two, 2, two, 2, none, 2, one, 2, false, index, &out),
                   TN_ERR_INVALID_ARGUMENT, "out of range");
    TN_CHECK_FAILS(tn_adaptive_max_pool2d_backward(g, x, index, &out), TN_ERR_INVALID_ARGUMENT, "out of range");
    tn_tensor_release(index);
  }
  tn_tensor_release(x);
  tn_tensor_release(g);
}

/* Windows that lie side by side are searched for their index; one that points elsewhere must not get lost. */
TN_TEST(ops_pool_values, an_index_beside_its_window_counts_where_it_points) {
  static const int64_t two[] = {2, 2}, none[] = {0, 0}, one[] = {1, 1};
  static const double choice[] = {-1, 0, 1, 2, 3.5};
  static const window w = {.channels = 43, .size = {7, 9}};
  tn_tensor *x[2] = {images(&w, choice, 5, TN_FLOAT32, false), images(&w, choice, 5, TN_FLOAT32, true)};
  tn_tensor *y = NULL, *index = NULL, *last = NULL, *g[2] = {NULL};
  TN_CHECK_OK(tn_max_pool2d_with_indices(x[0], two, 2, two, 2, none, 2, one, 2, false, &y, &index));
  TN_CHECK_OK(tn_contiguous(index, TN_CHANNELS_LAST, &last));
  for (int strays = 0; strays < 2; strays++) {
    int64_t *place = tn_tensor_data(last);
    if (strays) place[100] = 62 - place[100]; /* [0][14][0][2]: in the vectors of channels */
    for (int i = 0; i < 2; i++)
      TN_CHECK_OK(
          tn_max_pool2d_with_indices_backward(y, x[i], two, 2, two, 2, none, 2, one, 2, false, last, &g[i]));
    double *rows = doubles(g[0]), *pixels = doubles(g[1]);
    int64_t wrong = 0;
    for (int64_t i = 0; i < tn_tensor_numel(g[0]); i++) wrong += rows[i] != pixels[i];
    TN_CHECK_INT(wrong, 0);
    free(rows);
    free(pixels);
    tn_tensor_release(g[0]);
    tn_tensor_release(g[1]);
  }
  ((int64_t *)tn_tensor_data(last))[100] += INT64_C(1) << 32;
  TN_CHECK_FAILS(tn_max_pool2d_with_indices_backward(y, x[1], two, 2, two, 2, none, 2, one, 2, false, last, &g[1]),
                 TN_ERR_INVALID_ARGUMENT, "out of range");
  tn_tensor *tensors[] = {x[0], x[1], y, index, last};
  for (int i = 0; i < 5; i++) tn_tensor_release(tensors[i]);
}

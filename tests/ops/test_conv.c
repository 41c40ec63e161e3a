/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions large enough for every way the CPU plugin computes them (tiles and columns, blocks of rows and of
 * columns, phases of strides, groups, panels cut short), forward and all three gradients, in both memory orders,
 * against the definition in double.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "make.h"

typedef struct shape {
  const char *what;
  int nd;
  tn_dim batch, in, out, groups; /* channels */
  tn_dim size[3], kernel[3];
  int64_t stride[3], padding[3], dilation[3], extra[3];
  bool transposed;
} shape;

static const shape shapes[] = {
    {"the second one of a small network", 2, 3, 32, 64, 1, {14, 14}, {3, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, false},
    {"one input channel", 2, 5, 1, 32, 1, {17, 19}, {3, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, false},
    {"padding and a stride", 2, 2, 33, 49, 1, {15, 13}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, false},
    {"a wide kernel, stride and padding", 2, 2, 3, 64, 1, {37, 33}, {7, 7}, {2, 2}, {3, 3}, {1, 1}, {0, 0}, false},
    {"groups and dilation", 2, 2, 64, 96, 2, {11, 12}, {3, 2}, {1, 2}, {2, 1}, {2, 3}, {0, 0}, false},
    {"a stride beyond the kernel", 2, 2, 32, 32, 1, {17, 23}, {2, 2}, {3, 4}, {0, 1}, {1, 1}, {0, 0}, false},
    {"padding beyond the image", 2, 2, 32, 32, 1, {2, 3}, {3, 3}, {1, 1}, {4, 5}, {1, 1}, {0, 0}, false},
    {"rows of several blocks", 2, 1, 32, 16, 1, {5, 700}, {3, 5}, {1, 1}, {1, 2}, {1, 1}, {0, 0}, false},
    {"many channels", 2, 1, 150, 150, 1, {7, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false},
    {"long lines", 1, 2, 64, 32, 1, {3001}, {9}, {2}, {8}, {2}, {0}, false},
    {"volumes", 3, 2, 32, 32, 1, {5, 6, 7}, {3, 2, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 1}, {0, 0, 0}, false},
    {"transposed with stride", 2, 2, 48, 32, 1, {9, 8}, {4, 3}, {2, 3}, {1, 1}, {1, 1}, {1, 0}, true},
    {"transposed groups, dilated", 2, 2, 64, 64, 2, {6, 7}, {3, 3}, {2, 1}, {0, 2}, {1, 2}, {0, 0}, true},
    {"padding as in most networks", 2, 2, 64, 32, 1, {14, 13}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false},
    {"padding, stride, many columns between", 2, 2, 32, 64, 1, {19, 31}, {5, 5}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, false},
    {"padding in groups, dilated", 2, 2, 64, 64, 2, {12, 23}, {3, 3}, {1, 1}, {2, 3}, {2, 2}, {0, 0}, false},
    {"fewer rows than the kernel reaches", 2, 2, 32, 32, 1, {2, 24}, {5, 3}, {1, 1}, {2, 1}, {1, 1}, {0, 0}, false},
    {"a row apart from every other tap", 2, 1, 32, 32, 1, {9, 64}, {3, 3}, {1, 1}, {40, 0}, {30, 31}, {0, 0}, false},
};

static tn_tensor *noise(const tn_dim *sizes, int nd) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_randn(sizes, (size_t)nd, NULL, &t));
  return t;
}

/* Values row-major, as doubles; freed by the caller. */
static double *values_of(tn_tensor *t) {
  tn_tensor *wide = NULL;
  size_t n = (size_t)tn_tensor_numel(t);
  double *values = malloc(n * sizeof *values + 8);
  TN_CHECK_OK(tn_to_dtype(t, TN_FLOAT64, false, true, TN_CONTIGUOUS_FORMAT, &wide));
  TN_CHECK_OK(tn_tensor_to_host(wide, values, n * sizeof *values));
  tn_tensor_release(wide);
  return values;
}

enum { INPUT, WEIGHT, BIAS, RESULT, N_PARTS };

typedef struct parts {
  tn_dim sizes[N_PARTS][5];
  int64_t n[N_PARTS];
  double *v[N_PARTS], *g[N_PARTS]; /* values; gradients for a gradient equal to the result */
} parts;

/* Row-major position of x[0..nd) in a plane of these sizes, and how many such a plane has. */
static int64_t at(const tn_dim *plane, int nd, const int64_t *x) {
  int64_t i = 0;
  for (int d = 0; d < nd; d++) i = i * plane[d] + x[d];
  return i;
}
static int64_t area(const tn_dim *plane, int nd) {
  int64_t n = 1;
  for (int d = 0; d < nd; d++) n *= plane[d];
  return n;
}
static bool next(int nd, const tn_dim *limits, int64_t *x) {
  for (int d = nd; d-- > 0; x[d] = 0)
    if (++x[d] < limits[d]) return true;
  return false;
}

/* n neighbours along the last dim of the plane that the kernel walks over, one tap of the kernel, and what it meets
 * there in the other plane: elements a stride apart. Positions of the first. Found once, for all pairs of channels. */
typedef struct run {
  int64_t small, big, tap, n;
} run;

static int small_of(const shape *s) { return s->transposed ? INPUT : RESULT; }
static int big_of(const shape *s) { return s->transposed ? RESULT : INPUT; }

static int64_t meets(const shape *s, int d, int64_t o, int64_t k) {
  return o * s->stride[d] - s->padding[d] + k * s->dilation[d];
}

static run *runs_of(const shape *s, const parts *p, size_t *out_n) {
  const tn_dim *small = p->sizes[small_of(s)] + 2, *big = p->sizes[big_of(s)] + 2, *kernel = p->sizes[WEIGHT] + 2;
  const int last = s->nd - 1;
  tn_dim lines[3] = {small[0], s->nd > 1 ? small[1] : 1, 1};
  int64_t o[3] = {0}, k[3] = {0}, x[3];
  lines[last] = 1;
  run *runs = malloc((size_t)(area(lines, s->nd) * area(kernel, s->nd)) * sizeof *runs);
  *out_n = 0;
  do {
    do {
      run r = {0};
      bool inside = true;
      for (int d = 0; d < last; d++) {
        x[d] = meets(s, d, o[d], k[d]);
        inside &= x[d] >= 0 && x[d] < big[d];
      }
      for (o[last] = 0; inside && o[last] < small[last]; o[last]++) {
        x[last] = meets(s, last, o[last], k[last]);
        if (x[last] < 0 || x[last] >= big[last]) continue;
        if (r.n++ == 0) r.small = at(small, s->nd, o), r.big = at(big, s->nd, x), r.tap = at(kernel, s->nd, k);
      }
      o[last] = 0;
      if (r.n) runs[(*out_n)++] = r;
    } while (next(s->nd, kernel, k));
  } while (next(s->nd, lines, o));
  return runs;
}

/* The terms of one run: into the result, or into the gradients of `in` and `*w`. Returns what is added to the latter. */
static double add_run(const run *r, const double *in, int64_t in_step, double *out, int64_t out_step, double w,
                      double *in_gradient) {
  double sum = 0;
  for (int64_t t = 0; t < r->n; t++) {
    double *result = &out[t * out_step];
    if (!in_gradient) {
      *result += in[t * in_step] * w;
    } else {
      in_gradient[t * in_step] += *result * w;
      sum += *result * in[t * in_step];
    }
  }
  return sum;
}

/* Every term of the sums: backward adds to the gradients, else to the result. */
static void each_term(const shape *s, parts *p, bool backward) {
  size_t n_runs;
  run *runs = runs_of(s, p, &n_runs);
  const tn_dim *small = p->sizes[small_of(s)], *big = p->sizes[big_of(s)], *weight = p->sizes[WEIGHT];
  const int64_t step = s->stride[s->nd - 1], rows = weight[0] / s->groups, channels = weight[1];
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t r = 0; r < small[1]; r++)
      for (int64_t c = 0; c < channels; c++) {
        int64_t i = (n * small[1] + r) * area(small + 2, s->nd);
        int64_t j = (n * big[1] + r / rows * channels + c) * area(big + 2, s->nd);
        int64_t w = (r * channels + c) * area(weight + 2, s->nd);
        for (const run *q = runs; q < runs + n_runs; q++) {
          int64_t in = s->transposed ? i + q->small : j + q->big, out = s->transposed ? j + q->big : i + q->small;
          double sum = add_run(q, p->v[INPUT] + in, s->transposed ? 1 : step, p->v[RESULT] + out,
                               s->transposed ? step : 1, p->v[WEIGHT][w + q->tap], backward ? p->g[INPUT] + in : NULL);
          p->g[WEIGHT][w + q->tap] += sum;
        }
      }
  free(runs);
}

static void add_bias(const shape *s, parts *p, bool backward) {
  int64_t positions = p->n[RESULT] / s->batch / s->out;
  for (int64_t i = 0; i < p->n[RESULT]; i++) {
    int64_t channel = i / positions % s->out;
    if (backward) p->g[BIAS][channel] += p->v[RESULT][i];
    else p->v[RESULT][i] += p->v[BIAS][channel];
  }
}

static void sizes_of(const shape *s, parts *p) {
  tn_dim *in = p->sizes[INPUT], *w = p->sizes[WEIGHT], *out = p->sizes[RESULT];
  in[0] = out[0] = s->batch;
  in[1] = s->in;
  out[1] = p->sizes[BIAS][0] = s->out;
  w[0] = s->transposed ? s->in : s->out;
  w[1] = (s->transposed ? s->out : s->in) / s->groups;
  for (int d = 0; d < s->nd; d++) {
    int64_t reach = (s->kernel[d] - 1) * s->dilation[d] + 1;
    in[d + 2] = s->size[d];
    w[d + 2] = s->kernel[d];
    out[d + 2] = s->transposed ? (s->size[d] - 1) * s->stride[d] - 2 * s->padding[d] + reach + s->extra[d]
                               : (s->size[d] + 2 * s->padding[d] - reach) / s->stride[d] + 1;
  }
  for (int i = 0; i < N_PARTS; i++) {
    p->n[i] = 1;
    for (int d = 0; d < (i == BIAS ? 1 : s->nd + 2); d++) p->n[i] *= p->sizes[i][d];
    p->g[i] = calloc((size_t)p->n[i] + 1, sizeof(double));
  }
}

/* Largest difference, relative to the larger of 1 and the largest value expected. */
static double difference(tn_tensor *t, const double *expected) {
  double *got = values_of(t), worst = 0, scale = 1;
  for (int64_t i = 0; i < tn_tensor_numel(t); i++) scale = fmax(scale, fabs(expected[i]));
  for (int64_t i = 0; i < tn_tensor_numel(t); i++) {
    double error = fabs(got[i] - expected[i]);
    worst = isnan(error) ? INFINITY : fmax(worst, error);
  }
  free(got);
  return worst / scale;
}

static void check(const shape *s, const char *order, const char *part, double error) {
  if (!(error < 1e-5)) printf("\n  %s, %s: %s is off by %g", s->what, order, part, error);
  TN_CHECK(error < 1e-5);
}

static void convolve_both_ways(const shape *s, parts *p, tn_tensor *const *in, const char *order) {
  static const uint8_t all[3] = {1, 1, 1};
  tn_tensor *y = NULL, *g[3] = {NULL};
  size_t nd = (size_t)s->nd;
  TN_CHECK_OK(tn_convolution(in[INPUT], in[WEIGHT], in[BIAS], s->stride, nd, s->padding, nd, s->dilation, nd,
                             s->transposed, s->extra, nd, s->groups, &y));
  check(s, order, "the result", difference(y, p->v[RESULT]));
  TN_CHECK_OK(tn_convolution_backward(y, in[INPUT], in[WEIGHT], &s->out, 1, s->stride, nd, s->padding, nd, s->dilation,
                                      nd, s->transposed, s->extra, nd, s->groups, all, 3, &g[0], &g[1], &g[2]));
  check(s, order, "input's gradient", difference(g[0], p->g[INPUT]));
  check(s, order, "weight's gradient", difference(g[1], p->g[WEIGHT]));
  check(s, order, "bias's gradient", difference(g[2], p->g[BIAS]));
  tn_tensor_release(y);
  for (int i = 0; i < 3; i++) tn_tensor_release(g[i]);
}

static void check_shape(const shape *s) {
  parts p = {0};
  tn_tensor *in[3], *last[3];
  sizes_of(s, &p);
  for (int i = 0; i < 3; i++) {
    in[i] = noise(p.sizes[i], i == BIAS ? 1 : s->nd + 2);
    p.v[i] = values_of(in[i]);
  }
  p.v[RESULT] = calloc((size_t)p.n[RESULT] + 1, sizeof(double));
  add_bias(s, &p, false);
  each_term(s, &p, false);
  add_bias(s, &p, true);
  each_term(s, &p, true);
  convolve_both_ways(s, &p, in, "row-major");
  if (s->nd == 2) {
    for (int i = 0; i < 2; i++) TN_CHECK_OK(tn_contiguous(in[i], TN_CHANNELS_LAST, &last[i]));
    last[BIAS] = tn_tensor_retain(in[BIAS]);
    convolve_both_ways(s, &p, last, "channels_last");
    for (int i = 0; i < 3; i++) tn_tensor_release(last[i]);
  }
  for (int i = 0; i < 3; i++) tn_tensor_release(in[i]);
  for (int i = 0; i < N_PARTS; i++) {
    free(p.v[i]);
    free(p.g[i]);
  }
}

TN_TEST(ops_conv_sizes, every_way_of_computing_agrees_with_the_definition) {
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) check_shape(&shapes[i]);
}

/* ------------------------------------------------------------------ words and second derivatives */

TN_TEST(ops_conv_sizes, padding_by_a_word_is_refused_where_it_has_no_meaning) {
  const int64_t one[] = {1, 1}, two[] = {2, 1};
  tn_tensor *x = make_float(SIZES(1, 2, 4, 4)), *w = make_float(SIZES(2, 2, 3, 3)), *y = NULL;
  TN_CHECK_FAILS(tn_conv2d_padding(x, w, NULL, one, 2, "full", one, 2, 1, &y), TN_ERR_INVALID_ARGUMENT, "\"full\"");
  TN_CHECK_FAILS(tn_conv2d_padding(x, w, NULL, two, 2, "same", one, 2, 1, &y), TN_ERR_INVALID_ARGUMENT, "stride 1");
  tn_tensor_release(x);
  tn_tensor_release(w);
}

/* The gradient of bias is the sum of grad_output over all but channels, so its own gradient with respect to
 * grad_output spreads each channel's: 1 with gi and gw absent, and beside gi alone, gw alone and both. */
TN_TEST(ops_conv_sizes, the_second_derivative_of_the_bias_counts_once) {
  const int64_t one[] = {1, 1}, none[] = {0, 0};
  const uint8_t all[] = {1, 1, 1};
  const tn_dim channels = 4;
  tn_tensor *x = noise((const tn_dim[]){2, 3, 5, 5}, 4), *w = noise((const tn_dim[]){4, 3, 2, 2}, 4);
  tn_tensor *grad = noise((const tn_dim[]){2, 4, 4, 4}, 4), *g[3], *seeds[3], *with[8] = {NULL};
  TN_CHECK_OK(tn_set_requires_grad(grad, true));
  TN_CHECK_OK(tn_convolution_backward(grad, x, w, &channels, 1, one, 2, none, 2, one, 2, false, none, 2, 1, all, 3,
                                      &g[0], &g[1], &g[2]));
  for (int i = 0; i < 3; i++) seeds[i] = noise(tn_tensor_sizes(g[i]), tn_tensor_ndim(g[i]));
  for (int mask = 1; mask < 8; mask++) {
    tn_tensor *roots[3], *with_seeds[3];
    size_t n = 0;
    for (int i = 0; i < 3; i++)
      if (mask >> i & 1) roots[n] = g[i], with_seeds[n++] = seeds[i];
    const tn_backward_options keep = {.retain_graph = true};
    TN_CHECK_OK(tn_grad_of(roots, with_seeds, n, &grad, 1, &keep, &with[mask]));
  }
  double *bias = values_of(seeds[2]);
  for (int mask = 4; mask < 8; mask++) {
    double *sum = values_of(with[mask]), *rest = mask > 4 ? values_of(with[mask - 4]) : NULL;
    for (int64_t i = 0; i < tn_tensor_numel(grad); i++)
      TN_CHECK_DOUBLE(sum[i] - (rest ? rest[i] : 0), bias[i / 16 % 4], 1e-4);
    free(sum);
    free(rest);
  }
  free(bias);
  for (int i = 0; i < 8; i++) tn_tensor_release(with[i]);
  for (int i = 0; i < 3; i++) {
    tn_tensor_release(g[i]);
    tn_tensor_release(seeds[i]);
  }
  tn_tensor_release(x);
  tn_tensor_release(w);
  tn_tensor_release(grad);
}

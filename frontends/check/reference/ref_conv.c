/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution by its definition: every (image, group, channel out, position, channel in, tap) is visited once, and
 * its product goes to the result, to the gradient of input, or to that of weight.
 */
#include "ref.h"

typedef struct conv {
  const rt *input, *weight;
  int64_t stride[3], padding[3], dilation[3], extra[3];
  int64_t groups;
  bool transposed;
  bool same; /* the result has the input's size */
  int nd;    /* spatial dims */
} conv;

static int64_t entry(const ref_arg *list, int i) { return list->ints[list->n == 1 ? 0 : i]; }

/* `lists` is the position of stride. order: where stride, padding, dilation, output_padding, groups stand. */
static conv conv_of(const ref_call *c, const rt *input, const rt *weight, const int order[5], bool transposed) {
  conv v = {.input = input, .weight = weight, .groups = ref_i(c, order[4]), .transposed = transposed,
            .nd = weight->nd - 2};
  for (int i = 0; i < v.nd; i++) {
    v.stride[i] = entry(&c->args[order[0]], i);
    v.padding[i] = entry(&c->args[order[1]], i);
    v.dilation[i] = entry(&c->args[order[2]], i);
    v.extra[i] = transposed ? entry(&c->args[order[3]], i) : 0;
  }
  return v;
}

static rt *result_of(const conv *v) {
  int64_t n[RT_RANK] = {v->input->n[0], v->transposed ? v->weight->n[1] * v->groups : v->weight->n[0]};
  for (int i = 0; i < v->nd; i++) {
    int64_t size = v->input->n[i + 2], reach = v->dilation[i] * (v->weight->n[i + 2] - 1) + 1;
    n[i + 2] = v->same         ? size
               : v->transposed ? (size - 1) * v->stride[i] - 2 * v->padding[i] + reach + v->extra[i]
                             : (size + 2 * v->padding[i] - reach) / v->stride[i] + 1;
  }
  return rt_new(v->nd + 2, n);
}

/* A term of the sums: element `w` of weight joins one of input and one of the result. */
typedef void (*term_fn)(void *ctx, double *input, double *weight, double *result);

/* big: the image that the windows lie on; small: the one with an element a window. */
static void each_term(const conv *v, rt *input, rt *weight, rt *result, term_fn f, void *ctx) {
  rt *big = v->transposed ? result : input, *small = v->transposed ? input : result;
  int64_t rows = weight->n[0] / v->groups;
  for (int64_t s = 0; s < small->numel; s++)
    for (int64_t k = 0; k < weight->numel / (weight->n[0] ? weight->n[0] : 1); k++) {
      int64_t at_small[RT_RANK], at_weight[RT_RANK], at_big[RT_RANK];
      rt_unravel(small, s, at_small);
      rt_unravel(weight, k, at_weight);
      at_weight[0] = at_small[1];
      at_big[0] = at_small[0];
      at_big[1] = at_small[1] / rows * weight->n[1] + at_weight[1];
      bool inside = true;
      for (int i = 0; i < v->nd; i++) {
        int64_t x = at_small[i + 2] * v->stride[i] - v->padding[i] + at_weight[i + 2] * v->dilation[i];
        inside &= x >= 0 && x < big->n[i + 2];
        at_big[i + 2] = x;
      }
      if (!inside) continue;
      double *b = rt_index(big, at_big), *e = rt_index(small, at_small), *w = rt_index(weight, at_weight);
      if (v->transposed) f(ctx, e, w, b);
      else f(ctx, b, w, e);
    }
}

static void add_result(void *ctx, double *input, double *weight, double *result) { *result += *input * *weight; }

static rt *forward(const conv *v, const rt *bias) {
  rt *out = result_of(v);
  int64_t at[RT_RANK];
  for (int64_t i = 0; i < out->numel && bias; i++) {
    rt_unravel(out, i, at);
    out->p[i] = *rt_at(bias, at[1]);
  }
  each_term(v, rt_copy(v->input), rt_copy(v->weight), out, add_result, NULL);
  return out;
}

static const int whole[5] = {3, 4, 5, 7, 8}, plain[5] = {3, 4, 5, 0, 6}, turned[5] = {3, 4, 7, 5, 6};

static void op_convolution(ref_call *c) {
  conv v = conv_of(c, ref_t(c, 0), ref_t(c, 1), whole, ref_i(c, 6));
  ref_out(c, forward(&v, ref_has(c, 2) ? ref_t(c, 2) : NULL));
}

/* A single image as a batch of one, and back. */
static void any_batch(ref_call *c, const int order[5], bool transposed) {
  rt *input = rt_copy(ref_t(c, 0));
  const rt *weight = ref_t(c, 1);
  bool single = input->nd == weight->nd - 1;
  if (single) {
    int64_t n[RT_RANK] = {1};
    for (int d = 0; d < input->nd; d++) n[d + 1] = input->n[d];
    rt *batch = rt_new(input->nd + 1, n);
    batch->p = input->p;
    input = batch;
  }
  conv v = conv_of(c, input, weight, order, transposed);
  rt *out = forward(&v, ref_has(c, 2) ? ref_t(c, 2) : NULL);
  if (single) {
    rt *image = rt_new(out->nd - 1, out->n + 1);
    image->p = out->p;
    out = image;
  }
  ref_out(c, out);
}
/* A word for the padding: "same" puts the smaller half before. */
static void op_conv_padding(ref_call *c) {
  rt *input = rt_copy(ref_t(c, 0));
  const rt *weight = ref_t(c, 1);
  int nd = weight->nd - 2;
  bool single = input->nd == weight->nd - 1, same = c->args[4].s[0] == 's';
  int64_t n[RT_RANK] = {1};
  if (single) {
    for (int d = 0; d < input->nd; d++) n[d + 1] = input->n[d];
    double *values = input->p;
    input = rt_new(input->nd + 1, n);
    input->p = values;
  }
  conv v = {.input = input, .weight = weight, .groups = ref_i(c, 6), .same = same, .nd = nd};
  for (int i = 0; i < nd; i++) {
    v.stride[i] = entry(&c->args[3], i);
    v.dilation[i] = entry(&c->args[5], i);
    v.padding[i] = same ? v.dilation[i] * (weight->n[i + 2] - 1) / 2 : 0;
  }
  rt *out = forward(&v, ref_has(c, 2) ? ref_t(c, 2) : NULL);
  if (single) {
    rt *image = rt_new(out->nd - 1, out->n + 1);
    image->p = out->p;
    out = image;
  }
  ref_out(c, out);
}
static void op_conv(ref_call *c) { any_batch(c, plain, false); }
static void op_conv_transpose(ref_call *c) { any_batch(c, turned, true); }

/* Gradients: the terms with one factor swapped. grad stands in the result's place. */
typedef struct target {
  const rt *input, *weight;
  rt *input_grad, *weight_grad;
} target;
static void add_gradients(void *ctx, double *input, double *weight, double *result) {
  target *t = ctx;
  t->input_grad->p[input - t->input->p] += *weight * *result;
  t->weight_grad->p[weight - t->weight->p] += *input * *result;
}

static void op_convolution_backward(ref_call *c) {
  static const int order[5] = {4, 5, 6, 8, 9};
  rt *input = rt_copy(ref_t(c, 1)), *weight = rt_copy(ref_t(c, 2)), *grad = rt_copy(ref_t(c, 0));
  target t = {input, weight, rt_like(input), rt_like(weight)};
  conv v = conv_of(c, input, weight, order, ref_i(c, 7));
  each_term(&v, input, weight, grad, add_gradients, &t);
  rt *bias = rt_new(1, &grad->n[1]), *results[3] = {t.input_grad, t.weight_grad, bias};
  int64_t at[RT_RANK];
  for (int64_t i = 0; i < grad->numel; i++) {
    rt_unravel(grad, i, at);
    bias->p[at[1]] += grad->p[i];
  }
  for (int k = 0; k < 3; k++) {
    if (!c->args[10].bools[k]) results[k]->check = REF_ABSENT;
    ref_out(c, results[k]);
  }
}

const ref_entry ref_conv[] = {
    {"convolution", op_convolution},
    {"convolution_backward", op_convolution_backward},
    {"conv1d", op_conv},
    {"conv2d", op_conv},
    {"conv3d", op_conv},
    {"conv_transpose1d", op_conv_transpose},
    {"conv1d.padding", op_conv_padding},
    {"conv2d.padding", op_conv_padding},
    {"conv3d.padding", op_conv_padding},
    {"conv_transpose2d.input", op_conv_transpose},
    {"conv_transpose3d.input", op_conv_transpose},
    {NULL, NULL},
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses and activations that are no single expression.
 */
#include <math.h>

#include "ref.h"

/* ------------------------------------------------------------------ losses */

static double parameter; /* of the loss being computed */

static double huber(double a, double b) {
  double d = fabs(a - b);
  return d <= parameter ? d * d / 2 : parameter * (d - parameter / 2);
}
static double smooth_l1(double a, double b) { return parameter == 0 ? fabs(a - b) : huber(a, b) / parameter; }
static double divergence(double a, double b) { return (b == 0 ? 0 : b * log(b)) - a * b; }
static double divergence_of_logs(double a, double b) { return exp(b) * (b - a); }
static double product(double a, double b) { return a * b; }
static double entropy(double a, double b) { return -(b * fmax(log(a), -100) + (1 - b) * fmax(log(1 - a), -100)); }

static void op_huber(ref_call *c) {
  parameter = ref_f(c, 3);
  ref_out(c, rt_reduction(rt_map2(ref_t(c, 0), ref_t(c, 1), huber), ref_i(c, 2)));
}
static void op_smooth_l1(ref_call *c) {
  parameter = ref_f(c, 3);
  ref_out(c, rt_reduction(rt_map2(ref_t(c, 0), ref_t(c, 1), smooth_l1), ref_i(c, 2)));
}
static void op_kl_div(ref_call *c) {
  ref_binary f = ref_i(c, 3) ? divergence_of_logs : divergence;
  ref_out(c, rt_reduction(rt_map2(ref_t(c, 0), ref_t(c, 1), f), ref_i(c, 2)));
}
static void op_binary_cross_entropy(ref_call *c) {
  rt *loss = rt_map2(ref_t(c, 0), ref_t(c, 1), entropy);
  if (ref_has(c, 2)) loss = rt_map2(loss, ref_t(c, 2), product);
  ref_out(c, rt_reduction(loss, ref_i(c, 3)));
}

/* ------------------------------------------------------------------ activations */

static double elu(double x, double alpha, double scale, double inner) {
  return x > 0 ? scale * x : scale * alpha * (exp(inner * x) - 1);
}
static void op_selu(ref_call *c) {
  rt *out = rt_copy(ref_t(c, 0));
  for (int64_t i = 0; i < out->numel; i++) out->p[i] = elu(out->p[i], 1.6732632423543773, 1.0507009873554805, 1);
  ref_out(c, out);
}
static void op_celu(ref_call *c) {
  rt *out = rt_copy(ref_t(c, 0));
  double alpha = ref_f(c, 1);
  for (int64_t i = 0; i < out->numel; i++) out->p[i] = elu(out->p[i], alpha, 1, 1 / alpha);
  ref_out(c, out);
}
/* (grad, alpha, scale, input_scale, is_result, x) */
static void op_elu_backward(ref_call *c) {
  rt *out = rt_copy(ref_t(c, 0));
  double alpha = ref_f(c, 1), scale = ref_f(c, 2), inner = ref_f(c, 3);
  for (int64_t i = 0; i < out->numel; i++) {
    double x = *rt_at(ref_t(c, 5), i);
    double left = ref_i(c, 4) ? (x / (scale * alpha) + 1) * scale * alpha * inner : scale * alpha * inner * exp(inner * x);
    out->p[i] *= x > 0 ? scale : left;
  }
  ref_out(c, out);
}
static double relu6(double x) { return fmin(fmax(x, 0), 6); }
static void op_relu6(ref_call *c) { ref_out(c, rt_map(ref_t(c, 0), relu6)); }
static void op_softplus_curvature(ref_call *c) {
  rt *out = rt_copy(ref_t(c, 0));
  double beta = ref_f(c, 2);
  for (int64_t i = 0; i < out->numel; i++) {
    double x = *rt_at(ref_t(c, 1), i) * beta, s = 1 / (1 + exp(-x));
    out->p[i] *= x > ref_f(c, 3) ? 0 : beta * s * (1 - s);
  }
  ref_out(c, out);
}
static double mish_slope(double x) {
  double w = tanh(log1p(exp(x)));
  return w + x / (1 + exp(-x)) * (1 - w * w);
}
static void op_mish_backward(ref_call *c) {
  ref_out(c, rt_map2(ref_t(c, 0), rt_map(ref_t(c, 1), mish_slope), product));
}
static void op_prelu(ref_call *c) {
  rt *out = rt_copy(ref_t(c, 0));
  const rt *weight = ref_t(c, 1);
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t at[RT_RANK] = {0};
    rt_unravel(out, i, at);
    if (out->p[i] < 0) out->p[i] *= *rt_at(weight, weight->numel == 1 ? 0 : at[1]);
  }
  ref_out(c, out);
}
static void op_glu(ref_call *c) {
  const rt *t = ref_t(c, 0);
  int d = rt_dim(t, ref_i(c, 1));
  rt *shape = rt_view(t);
  shape->n[d] /= 2;
  rt *out = rt_new(t->nd, shape->n);
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t at[RT_RANK];
    rt_unravel(out, i, at);
    double first = *rt_index(t, at);
    at[d] += out->n[d];
    out->p[i] = first / (1 + exp(-*rt_index(t, at)));
  }
  ref_out(c, out);
}

const ref_entry ref_loss[] = {
    {"huber_loss", op_huber},
    {"smooth_l1_loss", op_smooth_l1},
    {"kl_div", op_kl_div},
    {"binary_cross_entropy", op_binary_cross_entropy},
    {"selu", op_selu},
    {"celu", op_celu},
    {"elu_backward", op_elu_backward},
    {"relu6", op_relu6},
    {"_softplus_curvature", op_softplus_curvature},
    {"mish_backward", op_mish_backward},
    {"prelu", op_prelu},
    {"glu", op_glu},
    {NULL, NULL},
};

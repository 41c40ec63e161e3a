/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise operators: the registry's expressions in double (generated), broadcast over the operands, and
 * by hand those whose entry is a body or a C rule.
 */
#include <math.h>
#include <string.h>

#ifdef __clang__ /* the generated text joins truth values by & and |, as the kernels do */
#pragma clang diagnostic ignored "-Wbitwise-instead-of-logical"
#endif
#include "elementwise_ref.inc"
#include "ref.h"

enum { MOST_OPERANDS = 8 };

/* ------------------------------------------------------------------ generated expressions */

static const tn_ref_entry *expression_of(const char *op) {
  for (const tn_ref_entry *entry = tn_ref_entries; entry->op; entry++)
    if (strcmp(entry->op, op) == 0) return entry;
  return NULL;
}

bool ref_has_expression(const char *op) { return expression_of(op) != NULL; }

/* ~ of a truth value is `not`; the generated text computes on integers. */
static double invert(double value) { return value == 0; }

void ref_expression(ref_call *c) {
  const tn_ref_entry *entry = expression_of(c->op);
  const rt *operands[MOST_OPERANDS];
  double a[MOST_OPERANDS], s[MOST_OPERANDS];
  int64_t n[RT_RANK];
  int n_operands = 0, n_numbers = 0;
  rt *shape = rt_new(0, NULL);
  if (strcmp(c->op, "bitwise_not") == 0 && c->dtype == TN_BOOL) {
    ref_out(c, rt_map(ref_t(c, 0), invert));
    return;
  }
  for (int i = 0; i < c->n_args; i++) {
    const ref_arg *arg = &c->args[i];
    if (arg->kind == TN_VAL_TENSOR) {
      int nd = rt_broadcast(shape, arg->t, n);
      shape = rt_new(nd, n);
      operands[n_operands++] = arg->t;
    } else if (n_numbers < entry->n_scalars && (arg->kind == TN_VAL_INT || arg->kind == TN_VAL_FLOAT ||
                                                arg->kind == TN_VAL_BOOL)) {
      s[n_numbers++] = arg->num;
    }
  }
  for (int k = 0; k < n_operands; k++) operands[k] = rt_expand(operands[k], shape->nd, shape->n);
  for (int64_t i = 0; i < shape->numel; i++) {
    for (int k = 0; k < n_operands; k++) a[k] = *rt_at(operands[k], i);
    shape->p[i] = entry->fn(a, s);
  }
  ref_out(c, shape);
}

/* ------------------------------------------------------------------ by hand */

static double quotient(double a, double b) { return a / b; }
static double quotient_down(double a, double b) { return floor(a / b); }
static double quotient_cut(double a, double b) { return trunc(a / b); }
static void op_div_mode(ref_call *c) {
  const char *mode = ref_has(c, 2) ? c->args[2].s : "";
  ref_binary f = mode[0] == 'f' ? quotient_down : mode[0] == 't' ? quotient_cut : quotient;
  ref_out(c, rt_map2(ref_t(c, 0), ref_t(c, 1), f));
}

/* A number is converted to the compute dtype first: uint8 divides by 254, not by -2. */
static void op_remainder_scalar(ref_call *c) {
  double divisor = ref_f(c, 1);
  if (c->dtype == TN_UINT8 && c->args[1].kind == TN_VAL_INT && divisor < 0) divisor += 256;
  rt *out = rt_copy(ref_t(c, 0));
  for (int64_t i = 0; i < out->numel; i++) out->p[i] -= divisor * floor(out->p[i] / divisor);
  ref_out(c, out);
}

static void op_clamp(ref_call *c) {
  rt *out = rt_copy(ref_t(c, 0));
  for (int64_t i = 0; i < out->numel; i++) {
    if (ref_has(c, 1) && out->p[i] < ref_f(c, 1)) out->p[i] = ref_f(c, 1);
    if (ref_has(c, 2) && out->p[i] > ref_f(c, 2)) out->p[i] = ref_f(c, 2);
  }
  ref_out(c, out);
}

/* gelu(x) = x P(x), P the normal distribution function or its tanh approximation; slope: its derivative. */
static double gelu_erf(double x) { return x * 0.5 * erfc(-x / sqrt(2)); }
static double gelu_erf_slope(double x) { return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * acos(-1)); }
static double gelu_tanh(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))); }
static double gelu_tanh_slope(double x) {
  double k = sqrt(2 / acos(-1)), t = tanh(k * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}
static bool by_tanh(const ref_call *c, int arg) { return ref_has(c, arg) && strcmp(c->args[arg].s, "tanh") == 0; }
static double product(double a, double b) { return a * b; }

static void op_gelu(ref_call *c) { ref_out(c, rt_map(ref_t(c, 0), by_tanh(c, 1) ? gelu_tanh : gelu_erf)); }
static void op_gelu_backward(ref_call *c) {
  rt *slope = rt_map(ref_t(c, 1), by_tanh(c, 2) ? gelu_tanh_slope : gelu_erf_slope);
  ref_out(c, rt_map2(ref_t(c, 0), slope, product));
}

static rt *chosen(const rt *condition, const rt *yes, const rt *no) {
  int64_t n[RT_RANK];
  int nd = rt_broadcast(yes, no, n);
  rt *out = rt_new(nd, n);
  nd = rt_broadcast(out, condition, n);
  out = rt_new(nd, n);
  const rt *k = rt_expand(condition, nd, n), *x = rt_expand(yes, nd, n), *y = rt_expand(no, nd, n);
  for (int64_t i = 0; i < out->numel; i++) out->p[i] = *rt_at(k, i) != 0 ? *rt_at(x, i) : *rt_at(y, i);
  return out;
}
static void op_where(ref_call *c) { ref_out(c, chosen(ref_t(c, 0), ref_t(c, 1), ref_t(c, 2))); }
static void op_masked_fill(ref_call *c) { ref_out(c, chosen(ref_t(c, 1), rt_scalar(ref_f(c, 2)), ref_t(c, 0))); }
static void op_masked_fill_tensor(ref_call *c) { ref_out(c, chosen(ref_t(c, 1), ref_t(c, 2), ref_t(c, 0))); }

const ref_entry ref_elementwise[] = {
    {"div.Tensor_mode", op_div_mode},
    {"remainder.Scalar", op_remainder_scalar},
    {"clamp", op_clamp},
    {"gelu", op_gelu},
    {"gelu_backward", op_gelu_backward},
    {"where.self", op_where},
    {"masked_fill.Scalar", op_masked_fill},
    {"masked_fill.Tensor", op_masked_fill_tensor},
    {NULL, NULL},
};

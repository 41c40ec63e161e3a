/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch, group and rms norm by their definitions. Running statistics are tested in test_norm.c.
 */
#include <float.h>
#include <math.h>

#include "ref.h"

static int64_t channel_of(const rt *t, int64_t i) {
  int64_t at[RT_RANK];
  rt_unravel(t, i, at);
  return at[1];
}

/* Zeros in x's shape with ones for the last n dims. */
static rt *rt_statistics(const rt *x, int n) {
  int64_t sizes[RT_RANK];
  for (int k = 0; k < x->nd; k++) sizes[k] = k < x->nd - n ? x->n[k] : 1;
  return rt_new(x->nd, sizes);
}

/* (input, weight, bias, running_mean, running_var, training, momentum, eps) */
static void batch_norm(ref_call *c, bool all_results) {
  const rt *x = ref_t(c, 0);
  bool training = ref_i(c, 5);
  int64_t channels = x->n[1];
  double n = (double)(x->numel / (channels ? channels : 1));
  rt *out = rt_like(x), *mean = rt_new(1, &channels), *var = rt_new(1, &channels), *rstd = rt_new(1, &channels);
  for (int64_t i = 0; i < x->numel; i++) mean->p[channel_of(x, i)] += *rt_at(x, i) / n;
  for (int64_t i = 0; i < x->numel; i++) var->p[channel_of(x, i)] += pow(*rt_at(x, i) - mean->p[channel_of(x, i)], 2) / n;
  for (int64_t k = 0; k < channels; k++) {
    if (!training) mean->p[k] = *rt_at(ref_t(c, 3), k), var->p[k] = *rt_at(ref_t(c, 4), k);
    rstd->p[k] = 1 / sqrt(var->p[k] + ref_f(c, 7));
  }
  for (int64_t i = 0; i < x->numel; i++) {
    int64_t k = channel_of(x, i);
    double y = (*rt_at(x, i) - mean->p[k]) * rstd->p[k];
    if (ref_has(c, 1)) y *= *rt_at(ref_t(c, 1), k);
    out->p[i] = ref_has(c, 2) ? y + *rt_at(ref_t(c, 2), k) : y;
  }
  ref_out(c, out);
  if (!all_results) return;
  int64_t none = 0;
  ref_out(c, training ? mean : rt_new(1, &none));
  ref_out(c, training ? rstd : rt_new(1, &none));
}
static void op_batch_norm(ref_call *c) { batch_norm(c, false); }
static void op_native_batch_norm(ref_call *c) { batch_norm(c, true); }

static void op_group_norm(ref_call *c) {
  const rt *x = ref_t(c, 0);
  int64_t rows = x->n[0] * ref_i(c, 1), size = x->numel / rows;
  rt *out = rt_like(x);
  for (int64_t i = 0; i < x->numel; i++) {
    int64_t first = i / size * size;
    double mean = 0, var = 0;
    for (int64_t k = 0; k < size; k++) mean += *rt_at(x, first + k) / (double)size;
    for (int64_t k = 0; k < size; k++) var += pow(*rt_at(x, first + k) - mean, 2) / (double)size;
    double y = (*rt_at(x, i) - mean) / sqrt(var + ref_f(c, 4));
    if (ref_has(c, 2)) y *= *rt_at(ref_t(c, 2), channel_of(x, i));
    out->p[i] = ref_has(c, 3) ? y + *rt_at(ref_t(c, 3), channel_of(x, i)) : y;
  }
  ref_out(c, out);
}

static double epsilon_of(tn_dtype dtype) {
  return dtype == TN_FLOAT64 ? DBL_EPSILON : dtype == TN_FLOAT32 ? FLT_EPSILON : dtype == TN_FLOAT16 ? 0x1p-10 : 0x1p-7;
}
/* (input, shape, weight, eps) */
static void rms_norm(ref_call *c, bool all_results) {
  const rt *x = ref_t(c, 0);
  rt *out = rt_like(x), *rstds = rt_statistics(x, c->args[1].n);
  int64_t size = 1;
  for (int k = 0; k < c->args[1].n; k++) size *= c->args[1].ints[k];
  double eps = ref_has(c, 3) ? ref_f(c, 3) : epsilon_of(c->dtype);
  for (int64_t i = 0; i < x->numel; i++) {
    double mean = 0;
    for (int64_t k = 0; k < size; k++) mean += pow(*rt_at(x, i / size * size + k), 2) / (double)size;
    rstds->p[i / size] = 1 / sqrt(mean + eps);
    out->p[i] = *rt_at(x, i) * rstds->p[i / size] * (ref_has(c, 2) ? *rt_at(ref_t(c, 2), i % size) : 1);
  }
  ref_out(c, out);
  if (all_results) ref_out(c, rstds);
}
static void op_rms_norm(ref_call *c) { rms_norm(c, false); }
static void op_fused_rms_norm(ref_call *c) { rms_norm(c, true); }

/* (grad_out, input, shape, rstd, weight, mask) */
static void op_fused_rms_norm_backward(ref_call *c) {
  const rt *grad = ref_t(c, 0), *x = ref_t(c, 1), *w = ref_has(c, 4) ? ref_t(c, 4) : NULL;
  rt *dx = rt_like(x), *dw = rt_new(c->args[2].n, c->args[2].ints);
  int64_t size = dw->numel;
  for (int64_t i = 0; i < x->numel; i++) {
    int64_t first = i / size * size;
    double rstd = *rt_at(ref_t(c, 3), i / size), dot = 0;
    for (int64_t k = 0; k < size; k++)
      dot += *rt_at(grad, first + k) * (w ? *rt_at(w, k) : 1) * *rt_at(x, first + k) * rstd / (double)size;
    double y = *rt_at(x, i) * rstd, g = *rt_at(grad, i);
    dx->p[i] = rstd * (g * (w ? *rt_at(w, i % size) : 1) - y * dot);
    dw->p[i % size] += g * y;
  }
  rt *results[] = {dx, dw};
  for (int k = 0; k < 2; k++) {
    if (!c->args[5].bools[k]) results[k]->check = REF_ABSENT;
    ref_out(c, results[k]);
  }
}

const ref_entry ref_norm[] = {
    {"batch_norm", op_batch_norm},
    {"native_batch_norm", op_native_batch_norm},
    {"group_norm", op_group_norm},
    {"rms_norm", op_rms_norm},
    {"_fused_rms_norm", op_fused_rms_norm},
    {"_fused_rms_norm_backward", op_fused_rms_norm_backward},
    {NULL, NULL},
};

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

/* What normalizes input: mean, variance and reciprocal deviation of each channel. */
typedef struct channel_stats {
  rt *mean, *var, *rstd;
} channel_stats;

/* mean and var NULL: the batch's. */
static channel_stats stats_of(const rt *x, const rt *mean, const rt *var, double eps) {
  int64_t channels = x->n[1];
  double n = (double)(x->numel / (channels ? channels : 1));
  channel_stats s = {rt_new(1, &channels), rt_new(1, &channels), rt_new(1, &channels)};
  for (int64_t i = 0; i < x->numel; i++) s.mean->p[channel_of(x, i)] += *rt_at(x, i) / n;
  for (int64_t i = 0; i < x->numel; i++)
    s.var->p[channel_of(x, i)] += pow(*rt_at(x, i) - s.mean->p[channel_of(x, i)], 2) / n;
  for (int64_t k = 0; k < channels; k++) {
    if (mean) s.mean->p[k] = *rt_at(mean, k), s.var->p[k] = *rt_at(var, k);
    s.rstd->p[k] = 1 / sqrt(s.var->p[k] + eps);
  }
  return s;
}

/* weight and bias are arguments 1 and 2. */
static rt *by_channels(const ref_call *c, const channel_stats *s) {
  const rt *x = ref_t(c, 0);
  rt *out = rt_like(x);
  for (int64_t i = 0; i < x->numel; i++) {
    int64_t k = channel_of(x, i);
    double y = (*rt_at(x, i) - s->mean->p[k]) * s->rstd->p[k];
    if (ref_has(c, 1)) y *= *rt_at(ref_t(c, 1), k);
    out->p[i] = ref_has(c, 2) ? y + *rt_at(ref_t(c, 2), k) : y;
  }
  return out;
}

/* (input, weight, bias, running_mean, running_var, training, momentum, eps) */
static void batch_norm(ref_call *c, bool all_results) {
  bool training = ref_i(c, 5);
  channel_stats s = stats_of(ref_t(c, 0), training ? NULL : ref_t(c, 3), training ? NULL : ref_t(c, 4), ref_f(c, 7));
  ref_out(c, by_channels(c, &s));
  if (!all_results) return;
  int64_t none = 0;
  ref_out(c, training ? s.mean : rt_new(1, &none));
  ref_out(c, training ? s.rstd : rt_new(1, &none));
}
static void op_batch_norm(ref_call *c) { batch_norm(c, false); }
static void op_native_batch_norm(ref_call *c) { batch_norm(c, true); }

/* (input, weight, bias, mean, var, eps) */
static void op_batch_norm_forward(ref_call *c) {
  bool given = ref_has(c, 3);
  channel_stats s = stats_of(ref_t(c, 0), given ? ref_t(c, 3) : NULL, given ? ref_t(c, 4) : NULL, ref_f(c, 5));
  ref_out(c, by_channels(c, &s));
  ref_out(c, s.mean);
  ref_out(c, s.rstd);
  ref_out(c, s.var);
}

/* Elements whose statistics were taken together have one number in set; mean and rstd by set, n elements each. With y
 * the normalized input and v = grad * weight: rstd * (v - mean of v - y * mean of v * y); constant: without means. */
static void backward(ref_call *c, const rt *weight, const int64_t *set, int64_t sets, const double *mean,
                     const double *rstd, bool constant, const uint8_t *mask) {
  const rt *grad = ref_t(c, 0), *x = ref_t(c, 1);
  int64_t channels = x->n[1], size = sets ? x->numel / sets : 0;
  rt *dx = rt_like(x), *dw = rt_new(1, &channels), *db = rt_new(1, &channels);
  rt *sum = rt_new(1, &sets), *dot = rt_new(1, &sets);
  for (int64_t i = 0; i < x->numel; i++) {
    int64_t k = channel_of(x, i);
    double y = (*rt_at(x, i) - mean[set[i]]) * rstd[set[i]], g = *rt_at(grad, i);
    double v = g * (weight ? *rt_at(weight, k) : 1);
    sum->p[set[i]] += constant ? 0 : v / (double)size;
    dot->p[set[i]] += constant ? 0 : v * y / (double)size;
    dw->p[k] += g * y;
    db->p[k] += g;
  }
  for (int64_t i = 0; i < x->numel; i++) {
    double y = (*rt_at(x, i) - mean[set[i]]) * rstd[set[i]];
    double v = *rt_at(grad, i) * (weight ? *rt_at(weight, channel_of(x, i)) : 1);
    dx->p[i] = rstd[set[i]] * (v - sum->p[set[i]] - y * dot->p[set[i]]);
  }
  rt *results[] = {dx, dw, db};
  for (int k = 0; k < 3; k++) {
    if (!mask[k]) results[k]->check = REF_ABSENT;
    ref_out(c, results[k]);
  }
}

enum { SET_MOST = 4096 }; /* elements of a sample */

/* (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, mask) */
static void op_batch_norm_backward(ref_call *c) {
  const rt *x = ref_t(c, 1);
  bool train = ref_i(c, 7);
  int64_t set[SET_MOST], channels = x->n[1];
  rt *mean = rt_new(1, &channels), *rstd = rt_new(1, &channels);
  for (int64_t i = 0; i < x->numel && i < SET_MOST; i++) set[i] = channel_of(x, i);
  for (int64_t k = 0; k < channels; k++) {
    mean->p[k] = *rt_at(ref_t(c, train ? 5 : 3), k);
    rstd->p[k] = train ? *rt_at(ref_t(c, 6), k) : 1 / sqrt(*rt_at(ref_t(c, 4), k) + ref_f(c, 8));
  }
  backward(c, ref_has(c, 2) ? ref_t(c, 2) : NULL, set, channels, mean->p, rstd->p, !train, c->args[9].bools);
}

/* Group statistics and result; arguments of weight and bias as given. */
static void group_norm(ref_call *c, int64_t groups, int weight, int bias, double eps, bool all_results) {
  const rt *x = ref_t(c, 0);
  int64_t shape[] = {x->n[0], groups}, rows = x->n[0] * groups, size = rows ? x->numel / rows : 0;
  rt *out = rt_like(x), *means = rt_new(2, shape), *rstds = rt_new(2, shape);
  for (int64_t r = 0; r < rows; r++) {
    double var = 0;
    for (int64_t k = 0; k < size; k++) means->p[r] += *rt_at(x, r * size + k) / (double)size;
    for (int64_t k = 0; k < size; k++) var += pow(*rt_at(x, r * size + k) - means->p[r], 2) / (double)size;
    rstds->p[r] = 1 / sqrt(var + eps);
  }
  for (int64_t i = 0; i < x->numel; i++) {
    double y = (*rt_at(x, i) - means->p[i / size]) * rstds->p[i / size];
    if (ref_has(c, weight)) y *= *rt_at(ref_t(c, weight), channel_of(x, i));
    out->p[i] = ref_has(c, bias) ? y + *rt_at(ref_t(c, bias), channel_of(x, i)) : y;
  }
  ref_out(c, out);
  if (all_results) ref_out(c, means), ref_out(c, rstds);
}
static void op_group_norm(ref_call *c) { group_norm(c, ref_i(c, 1), 2, 3, ref_f(c, 4), false); }
static void op_native_group_norm(ref_call *c) { group_norm(c, ref_i(c, 6), 1, 2, ref_f(c, 7), true); }

/* (grad_out, input, mean, rstd, weight, N, C, HxW, group, mask) */
static void op_group_norm_backward(ref_call *c) {
  const rt *x = ref_t(c, 1);
  int64_t set[SET_MOST], sets = x->n[0] * ref_i(c, 8);
  rt *mean = rt_new(1, &sets), *rstd = rt_new(1, &sets);
  for (int64_t i = 0; i < x->numel && i < SET_MOST; i++) set[i] = i / (x->numel / sets);
  for (int64_t r = 0; r < sets; r++) mean->p[r] = *rt_at(ref_t(c, 2), r), rstd->p[r] = *rt_at(ref_t(c, 3), r);
  backward(c, ref_has(c, 4) ? ref_t(c, 4) : NULL, set, sets, mean->p, rstd->p, false, c->args[9].bools);
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
    {"_batch_norm_forward", op_batch_norm_forward},
    {"native_batch_norm_backward", op_batch_norm_backward},
    {"group_norm", op_group_norm},
    {"native_group_norm", op_native_group_norm},
    {"native_group_norm_backward", op_group_norm_backward},
    {"rms_norm", op_rms_norm},
    {"_fused_rms_norm", op_fused_rms_norm},
    {"_fused_rms_norm_backward", op_fused_rms_norm_backward},
    {NULL, NULL},
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax, losses, embedding and layer norm. Backward operators are written from the mathematics of their
 * forward, not from the formula that the registry has.
 */
#include <math.h>

#include "ref.h"

/* ------------------------------------------------------------------ softmax */

/* Sum over the dim of f(t, u) at every position, spread over the dim again. */
static rt *spread_sum(const rt *t, int64_t dim, double (*term)(double t, double u), const rt *u) {
  rt *out = rt_like(t);
  int d = rt_dim(t, dim);
  for (int64_t i = 0; i < t->numel; i++) {
    int64_t index[RT_RANK] = {0};
    rt_unravel(t, i, index);
    for (int64_t k = 0; k < rt_size(t, dim); k++) {
      index[d] = k;
      out->p[i] += term(*rt_index(t, index), u ? *rt_index(u, index) : 0);
    }
  }
  return out;
}
static double term_exp(double t, double u) { return exp(t); }
static double term_product(double t, double u) { return t * u; }
static double term_self(double t, double u) { return t; }

static rt *log_softmax(const rt *t, int64_t dim) {
  rt *total = spread_sum(t, dim, term_exp, NULL), *out = rt_like(t);
  for (int64_t i = 0; i < t->numel; i++) out->p[i] = *rt_at(t, i) - log(total->p[i]);
  return out;
}

static void op_log_softmax(ref_call *c) { ref_out(c, log_softmax(ref_t(c, 0), ref_i(c, 1))); }
static void op_softmax(ref_call *c) { ref_out(c, rt_map(log_softmax(ref_t(c, 0), ref_i(c, 1)), exp)); }
static void op_softmax_backward(ref_call *c) {
  const rt *grad = ref_t(c, 0), *y = ref_t(c, 1);
  rt *dot = spread_sum(grad, ref_i(c, 2), term_product, y), *out = rt_like(y);
  for (int64_t i = 0; i < y->numel; i++) out->p[i] = *rt_at(y, i) * (*rt_at(grad, i) - dot->p[i]);
  ref_out(c, out);
}
static void op_log_softmax_backward(ref_call *c) {
  const rt *grad = ref_t(c, 0), *y = ref_t(c, 1);
  rt *total = spread_sum(grad, ref_i(c, 2), term_self, NULL), *out = rt_like(y);
  for (int64_t i = 0; i < y->numel; i++) out->p[i] = *rt_at(grad, i) - exp(*rt_at(y, i)) * total->p[i];
  ref_out(c, out);
}

/* ------------------------------------------------------------------ losses of classes */

typedef struct classes {
  const rt *scores; /* (N, C, ...) or (C) */
  const rt *target; /* (N, ...) or () */
  const rt *weight;
  int64_t reduction, ignore;
} classes;

static double weight_of(const classes *k, int64_t class) { return k->weight ? *rt_at(k->weight, class) : 1; }

/* Address of the score of `class` at position i of the target. */
static double *score(const classes *k, const rt *scores, int64_t i, int64_t class) {
  int64_t at[RT_RANK] = {0}, index[RT_RANK] = {0};
  rt_unravel(k->target, i, at);
  int d = scores->nd == 1 ? 0 : 1;
  for (int x = 0; x < k->target->nd; x++) index[x < d ? x : x + 1] = at[x];
  index[d] = class;
  return rt_index(scores, index);
}

static double total_weight(const classes *k) {
  double total = 0;
  for (int64_t i = 0; i < k->target->numel; i++) {
    int64_t class = (int64_t)*rt_at(k->target, i);
    if (class != k->ignore) total += weight_of(k, class);
  }
  return total;
}

static rt *class_losses(const classes *k) {
  rt *each = rt_like(k->target);
  for (int64_t i = 0; i < each->numel; i++) {
    int64_t class = (int64_t)*rt_at(k->target, i);
    if (class != k->ignore) each->p[i] = -weight_of(k, class) * *score(k, k->scores, i, class);
  }
  if (k->reduction == 0) return each;
  rt *sum = rt_reduction(each, 2);
  if (k->reduction == 1) sum->p[0] /= total_weight(k);
  return sum;
}

static classes classes_of(const ref_call *c, int self) {
  classes k = {ref_t(c, self), ref_t(c, self + 1), ref_has(c, self + 2) ? ref_t(c, self + 2) : NULL,
               ref_i(c, self + 3), ref_i(c, self + 4)};
  return k;
}

static void op_nll_loss(ref_call *c) {
  classes k = classes_of(c, 0);
  ref_out(c, class_losses(&k));
}
static void op_nll_loss_forward(ref_call *c) {
  classes k = classes_of(c, 0);
  ref_out(c, class_losses(&k));
  rt *total = ref_out(c, rt_scalar(total_weight(&k)));
  if (k.reduction == 0) total->check = REF_SHAPE; /* nobody reads it then */
}
static void op_nll_loss_backward(ref_call *c) {
  classes k = classes_of(c, 1);
  const rt *grad = ref_t(c, 0);
  rt *out = rt_like(k.scores);
  for (int64_t i = 0; i < k.target->numel; i++) {
    int64_t class = (int64_t)*rt_at(k.target, i);
    if (class == k.ignore) continue;
    double g = k.reduction == 0 ? *rt_at(grad, i) : grad->p[0];
    if (k.reduction == 1) g /= ref_t(c, 6)->p[0];
    *score(&k, out, i, class) = -weight_of(&k, class) * g;
  }
  ref_out(c, out);
}

/* Targets that are probabilities: a class weight multiplies each class's term; the mean is over samples. */
static rt *soft_cross_entropy(const rt *logs, const rt *target, const rt *weight, int64_t reduction, double smooth) {
  int d = logs->nd == 1 ? 0 : 1;
  rt *terms = rt_like(logs);
  double n_classes = (double)logs->n[d];
  for (int64_t i = 0; i < logs->numel; i++) {
    int64_t index[RT_RANK];
    rt_unravel(logs, i, index);
    double t = *rt_at(target, i) * (1 - smooth) + smooth / n_classes;
    terms->p[i] = -t * *rt_at(logs, i) * (weight ? *rt_at(weight, index[d]) : 1);
  }
  if (reduction == 0) {
    rt *shape = rt_view(logs);
    for (int x = d; x < shape->nd - 1; x++) shape->n[x] = shape->n[x + 1];
    rt *out = rt_new(logs->nd - 1, shape->n);
    rt *sums = spread_sum(terms, d, term_self, NULL);
    for (int64_t i = 0; i < out->numel; i++) {
      int64_t at[RT_RANK] = {0}, index[RT_RANK] = {0};
      rt_unravel(out, i, at);
      for (int x = 0; x < out->nd; x++) index[x < d ? x : x + 1] = at[x];
      out->p[i] = *rt_index(sums, index);
    }
    return out;
  }
  rt *sum = rt_reduction(terms, 2);
  if (reduction == 1) sum->p[0] /= (double)logs->numel / n_classes;
  return sum;
}

/* Smoothing moves a share of each sample's weight to the weighted mean over all classes. */
static void op_cross_entropy(ref_call *c) {
  classes k = classes_of(c, 0);
  double smooth = ref_f(c, 5);
  rt *logs = log_softmax(k.scores, k.scores->nd == 1 ? 0 : 1);
  k.scores = logs;
  if (k.target->nd == logs->nd) {
    ref_out(c, soft_cross_entropy(logs, k.target, k.weight, k.reduction, smooth));
    return;
  }
  rt *hard = class_losses(&k), *soft = rt_like(k.target);
  int64_t n_classes = logs->n[logs->nd == 1 ? 0 : 1];
  for (int64_t i = 0; i < soft->numel; i++)
    for (int64_t class = 0; class < n_classes && *rt_at(k.target, i) != (double)k.ignore; class++)
      soft->p[i] -= weight_of(&k, class) * *score(&k, logs, i, class) / (double)n_classes;
  if (k.reduction != 0) soft = rt_reduction(soft, 2);
  if (k.reduction == 1) soft->p[0] /= total_weight(&k);
  for (int64_t i = 0; i < hard->numel; i++) hard->p[i] = (1 - smooth) * hard->p[i] + smooth * soft->p[i];
  ref_out(c, hard);
}

/* ------------------------------------------------------------------ losses of numbers */

static double squared(double a, double b) { return (a - b) * (a - b); }
static double distance(double a, double b) { return fabs(a - b); }
static void op_mse(ref_call *c) { ref_out(c, rt_reduction(rt_map2(ref_t(c, 0), ref_t(c, 1), squared), ref_i(c, 2))); }
/* uint8 has no negative differences: they wrap. */
static double distance_u8(double a, double b) { return a < b ? a - b + 256 : a - b; }
static void op_l1(ref_call *c) {
  rt *each = rt_map2(ref_t(c, 0), ref_t(c, 1), c->dtype == TN_UINT8 ? distance_u8 : distance);
  ref_out(c, rt_reduction(each, ref_i(c, 2)));
}
static void op_bce_logits(ref_call *c) {
  const rt *x = ref_t(c, 0), *y = ref_t(c, 1);
  rt *out = rt_like(x);
  const rt *w = ref_has(c, 2) ? rt_expand(ref_t(c, 2), x->nd, x->n) : NULL;
  const rt *positive = ref_has(c, 3) ? rt_expand(ref_t(c, 3), x->nd, x->n) : NULL;
  for (int64_t i = 0; i < x->numel; i++) {
    double p = 1 / (1 + exp(-*rt_at(x, i))), t = *rt_at(y, i);
    out->p[i] = -(t * (positive ? *rt_at(positive, i) : 1) * log(p) + (1 - t) * log1p(-p)) * (w ? *rt_at(w, i) : 1);
  }
  out = ref_out(c, rt_reduction(out, ref_i(c, 4)));
  if (c->dtype == TN_UINT8) out->check = REF_SHAPE; /* targets without negative differences mean nothing */
}

/* ------------------------------------------------------------------ embedding */

static void op_embedding(ref_call *c) {
  const rt *table = ref_t(c, 0), *indices = ref_t(c, 1);
  rt *shape = rt_view(indices);
  shape->n[shape->nd++] = table->n[1];
  rt *out = rt_new(shape->nd, shape->n);
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t row = (int64_t)*rt_at(indices, i / table->n[1]);
    out->p[i] = *rt_index(table, (int64_t[]){row, i % table->n[1]});
  }
  ref_out(c, out);
}

/* How often the row of position i occurs among the indices. */
static double frequency(const rt *indices, int64_t i) {
  double count = 0;
  for (int64_t k = 0; k < indices->numel; k++) count += *rt_at(indices, k) == *rt_at(indices, i);
  return count;
}

static void op_embedding_backward(ref_call *c) {
  const rt *grad = ref_t(c, 0), *indices = ref_t(c, 1);
  int64_t width = grad->n[grad->nd - 1];
  rt *out = rt_new(2, (int64_t[]){ref_i(c, 2), width});
  for (int64_t i = 0; i < grad->numel; i++) {
    int64_t row = (int64_t)*rt_at(indices, i / width);
    double share = ref_i(c, 4) ? frequency(indices, i / width) : 1;
    if (row != ref_i(c, 3)) out->p[row * width + i % width] += *rt_at(grad, i) / share;
  }
  ref_out(c, out);
}

static void op_embedding_double_backward(ref_call *c) {
  ref_call forward = *c;
  forward.n_out = 0;
  op_embedding(&forward);
  rt *out = forward.out[0];
  int64_t width = out->n[out->nd - 1];
  for (int64_t i = 0; i < out->numel; i++) {
    if ((int64_t)*rt_at(ref_t(c, 1), i / width) == ref_i(c, 2)) out->p[i] = 0;
    if (ref_i(c, 3)) out->p[i] /= frequency(ref_t(c, 1), i / width);
  }
  if (c->dtype == TN_BOOL) out->check = REF_SHAPE; /* truth values do not add up to a frequency */
  ref_out(c, out);
}

/* ------------------------------------------------------------------ layer norm */

/* Elements of one normalised group. */
static int64_t group_size(const ref_call *c, int shape_arg) {
  int64_t size = 1;
  for (int k = 0; k < c->args[shape_arg].n; k++) size *= c->args[shape_arg].ints[k];
  return size;
}

/* The input's leading dims, then ones. */
static rt *statistics(const ref_call *c) {
  rt *shape = rt_view(ref_t(c, 0));
  for (int d = shape->nd - c->args[1].n; d < shape->nd; d++) shape->n[d] = 1;
  return rt_new(shape->nd, shape->n);
}

static void layer_norm(ref_call *c, bool all_results) {
  const rt *x = ref_t(c, 0);
  rt *out = rt_like(x), *means = statistics(c), *rstds = statistics(c);
  int64_t size = group_size(c, 1);
  for (int64_t g = 0; g < means->numel; g++) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < size; i++) mean += *rt_at(x, g * size + i) / (double)size;
    for (int64_t i = 0; i < size; i++) variance += squared(*rt_at(x, g * size + i), mean) / (double)size;
    means->p[g] = mean;
    rstds->p[g] = 1 / sqrt(variance + ref_f(c, 4));
    for (int64_t i = 0; i < size; i++) {
      double y = (*rt_at(x, g * size + i) - mean) * rstds->p[g];
      if (ref_has(c, 2)) y *= *rt_at(ref_t(c, 2), i);
      out->p[g * size + i] = ref_has(c, 3) ? y + *rt_at(ref_t(c, 3), i) : y;
    }
  }
  ref_out(c, out);
  if (all_results) ref_out(c, means), ref_out(c, rstds);
}
static void op_layer_norm(ref_call *c) { layer_norm(c, false); }
static void op_native_layer_norm(ref_call *c) { layer_norm(c, true); }

/* (grad_out, input, shape, mean, rstd, weight, bias, mask): with h = (x - mean) * rstd and g = grad * weight, the
 * input's gradient is rstd * (g - mean(g) - h * mean(g * h)). */
static void op_layer_norm_backward(ref_call *c) {
  const rt *grad = ref_t(c, 0), *x = ref_t(c, 1), *w = ref_has(c, 5) ? ref_t(c, 5) : NULL;
  int64_t size = group_size(c, 2);
  rt *dx = rt_like(x), *dw = rt_new(c->args[2].n, c->args[2].ints), *db = rt_like(dw);
  for (int64_t i = 0; i < x->numel; i++) {
    int64_t group = i / size;
    double mean = *rt_at(ref_t(c, 3), group), rstd = *rt_at(ref_t(c, 4), group), sum = 0, dot = 0;
    for (int64_t k = 0; k < size; k++) {
      double g = *rt_at(grad, group * size + k) * (w ? *rt_at(w, k) : 1);
      sum += g;
      dot += g * (*rt_at(x, group * size + k) - mean) * rstd;
    }
    double h = (*rt_at(x, i) - mean) * rstd, g = *rt_at(grad, i);
    dx->p[i] = rstd * (g * (w ? *rt_at(w, i % size) : 1) - sum / (double)size - h * dot / (double)size);
    dw->p[i % size] += g * h;
    db->p[i % size] += g;
  }
  rt *results[] = {dx, dw, db};
  for (int k = 0; k < 3; k++) {
    if (!c->args[7].bools[k]) results[k]->check = REF_ABSENT;
    ref_out(c, results[k]);
  }
}

const ref_entry ref_nn[] = {
    {"softmax.int", op_softmax},
    {"_softmax", op_softmax},
    {"log_softmax.int", op_log_softmax},
    {"_log_softmax", op_log_softmax},
    {"_softmax_backward_data", op_softmax_backward},
    {"_log_softmax_backward_data", op_log_softmax_backward},
    {"nll_loss", op_nll_loss},
    {"nll_loss2d", op_nll_loss},
    {"nll_loss_forward", op_nll_loss_forward},
    {"nll_loss_backward", op_nll_loss_backward},
    {"cross_entropy_loss", op_cross_entropy},
    {"mse_loss", op_mse},
    {"l1_loss", op_l1},
    {"binary_cross_entropy_with_logits", op_bce_logits},
    {"embedding", op_embedding},
    {"embedding_dense_backward", op_embedding_backward},
    {"_embedding_dense_double_backward", op_embedding_double_backward},
    {"layer_norm", op_layer_norm},
    {"native_layer_norm", op_native_layer_norm},
    {"native_layer_norm_backward", op_layer_norm_backward},
    {NULL, NULL},
};

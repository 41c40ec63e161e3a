/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions and scans in double. The groups that rt_fold hands to a fold are in row-major order, so that
 * "the first maximum" means the same as in ATen.
 */
#include <math.h>

#include "ref.h"

/* ------------------------------------------------------------------ folds */

static double fold_sum(const double *v, int64_t n, double p) {
  double total = 0;
  for (int64_t i = 0; i < n; i++) total += v[i];
  return total;
}
static double fold_mean(const double *v, int64_t n, double p) { return fold_sum(v, n, p) / (double)n; }
static double fold_prod(const double *v, int64_t n, double p) {
  double total = 1;
  for (int64_t i = 0; i < n; i++) total *= v[i];
  return total;
}
/* A NaN wins over everything; among equals the first one. */
static double fold_argmax(const double *v, int64_t n, double p) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++)
    if (!isnan(v[best]) && (v[i] > v[best] || isnan(v[i]))) best = i;
  return (double)best;
}
static double fold_argmin(const double *v, int64_t n, double p) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++)
    if (!isnan(v[best]) && (v[i] < v[best] || isnan(v[i]))) best = i;
  return (double)best;
}
static double fold_max(const double *v, int64_t n, double p) { return v[(int64_t)fold_argmax(v, n, p)]; }
static double fold_min(const double *v, int64_t n, double p) { return v[(int64_t)fold_argmin(v, n, p)]; }
static double fold_any(const double *v, int64_t n, double p) {
  for (int64_t i = 0; i < n; i++)
    if (v[i] != 0) return 1;
  return 0;
}
static double fold_all(const double *v, int64_t n, double p) {
  for (int64_t i = 0; i < n; i++)
    if (v[i] == 0) return 0;
  return 1;
}
static double fold_count(const double *v, int64_t n, double p) {
  double count = 0;
  for (int64_t i = 0; i < n; i++) count += v[i] != 0;
  return count;
}
/* parameter: the correction. */
static double fold_var(const double *v, int64_t n, double correction) {
  double mean = fold_mean(v, n, 0), total = 0;
  for (int64_t i = 0; i < n; i++) total += (v[i] - mean) * (v[i] - mean);
  double divisor = (double)n - correction;
  return total / (divisor > 0 ? divisor : 0);
}
static double fold_std(const double *v, int64_t n, double correction) { return sqrt(fold_var(v, n, correction)); }
static double fold_logsumexp(const double *v, int64_t n, double p) {
  double top = -INFINITY, total = 0;
  for (int64_t i = 0; i < n; i++) top = v[i] > top ? v[i] : top;
  if (isinf(top)) return top;
  for (int64_t i = 0; i < n; i++) total += exp(v[i] - top);
  return top + log(total);
}
static double fold_norm(const double *v, int64_t n, double p) {
  double total = p == -INFINITY ? INFINITY : 0;
  for (int64_t i = 0; i < n; i++) {
    double a = fabs(v[i]);
    if (p == INFINITY) total = a > total ? a : total;
    else if (p == -INFINITY) total = a < total ? a : total;
    else if (p == 0) total += a != 0;
    else total += pow(a, p);
  }
  return p == 0 || isinf(p) ? total : pow(total, 1 / p);
}

/* ------------------------------------------------------------------ argument patterns */

/* The tensor that is reduced: cast first if a dtype argument says integer. */
static const rt *cast(const ref_call *c, int dtype_arg) {
  if (dtype_arg < 0 || !ref_has(c, dtype_arg) || !ref_is_int(ref_f(c, dtype_arg))) return ref_t(c, 0);
  return rt_map(ref_t(c, 0), trunc);
}
static void whole(ref_call *c, ref_fold fold, int dtype_arg) {
  ref_out(c, rt_fold(cast(c, dtype_arg), NULL, 0, false, fold, 0));
}
/* (self, dims, keepdim): absent or empty dims mean all. */
static void dims(ref_call *c, ref_fold fold, double parameter, int dims_arg, int keepdim_arg, int dtype_arg) {
  const ref_arg *a = &c->args[dims_arg];
  int64_t one = (int64_t)a->num;
  bool list = a->kind == TN_VAL_LIST, single = a->kind == TN_VAL_INT;
  bool keepdim = ref_has(c, keepdim_arg) && ref_i(c, keepdim_arg);
  ref_out(c, rt_fold(cast(c, dtype_arg), list ? a->ints : &one, list ? a->n : single, keepdim, fold, parameter));
}

static void op_sum(ref_call *c) { whole(c, fold_sum, 1); }
static void op_sum_dim(ref_call *c) { dims(c, fold_sum, 0, 1, 2, 3); }
static void op_mean(ref_call *c) { whole(c, fold_mean, -1); }
static void op_mean_dim(ref_call *c) { dims(c, fold_mean, 0, 1, 2, -1); }
static void op_prod(ref_call *c) { whole(c, fold_prod, 1); }
static void op_prod_dim(ref_call *c) { dims(c, fold_prod, 0, 1, 2, 3); }
static void op_amax(ref_call *c) { dims(c, fold_max, 0, 1, 2, -1); }
static void op_amin(ref_call *c) { dims(c, fold_min, 0, 1, 2, -1); }
static void op_max(ref_call *c) { whole(c, fold_max, -1); }
static void op_min(ref_call *c) { whole(c, fold_min, -1); }
static void op_max_dim(ref_call *c) {
  dims(c, fold_max, 0, 1, 2, -1);
  dims(c, fold_argmax, 0, 1, 2, -1);
}
static void op_min_dim(ref_call *c) {
  dims(c, fold_min, 0, 1, 2, -1);
  dims(c, fold_argmin, 0, 1, 2, -1);
}
static void op_argmax(ref_call *c) { dims(c, fold_argmax, 0, 1, 2, -1); }
static void op_argmin(ref_call *c) { dims(c, fold_argmin, 0, 1, 2, -1); }
static void op_any(ref_call *c) { whole(c, fold_any, -1); }
static void op_all(ref_call *c) { whole(c, fold_all, -1); }
static void op_any_dim(ref_call *c) { dims(c, fold_any, 0, 1, 2, -1); }
static void op_all_dim(ref_call *c) { dims(c, fold_all, 0, 1, 2, -1); }
static void op_var(ref_call *c) { dims(c, fold_var, ref_has(c, 2) ? ref_f(c, 2) : 1, 1, 3, -1); }
static void op_std(ref_call *c) { dims(c, fold_std, ref_has(c, 2) ? ref_f(c, 2) : 1, 1, 3, -1); }
static void op_logsumexp(ref_call *c) { dims(c, fold_logsumexp, 0, 1, 2, -1); }
static void op_norm(ref_call *c) { dims(c, fold_norm, ref_has(c, 1) ? ref_f(c, 1) : 2, 2, 3, -1); }
static void op_norm_whole(ref_call *c) { ref_out(c, rt_fold(ref_t(c, 0), NULL, 0, false, fold_norm, ref_f(c, 1))); }
static void op_count_dim(ref_call *c) { dims(c, fold_count, 0, 1, 99, -1); }

/* (grad, self, result, dims, keepdim): each group's gradient, shared evenly among the elements equal to the
 * result; NaN in a group without one (0 / 0), which no forward makes. */
static void op_extreme_backward(ref_call *c) {
  const rt *self = ref_t(c, 1);
  rt *out = rt_like(self), *shape = rt_view(self);
  const ref_arg *over = &c->args[3];
  bool gone[RT_RANK] = {false};
  for (int d = 0; d < self->nd; d++) gone[d] = over->n == 0;
  for (int k = 0; k < over->n; k++) gone[rt_dim(self, over->ints[k])] = true;
  for (int d = 0; d < self->nd; d++) shape->n[d] = gone[d] ? 1 : self->n[d];
  shape = rt_new(shape->nd, shape->n);
  rt *ties = rt_like(shape), *grad = rt_like(shape), *best = rt_like(shape);
  for (int64_t i = 0; i < shape->numel; i++) {
    grad->p[i] = *rt_at(ref_t(c, 0), i);
    best->p[i] = *rt_at(ref_t(c, 2), i);
  }
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t i = 0; i < self->numel; i++) {
      int64_t index[RT_RANK];
      rt_unravel(self, i, index);
      for (int d = 0; d < self->nd; d++) index[d] = gone[d] ? 0 : index[d];
      bool tied = *rt_at(self, i) == *rt_index(best, index);
      if (pass == 0) *rt_index(ties, index) += tied;
      else out->p[i] = (tied ? *rt_index(grad, index) : 0) / *rt_index(ties, index);
    }
  }
  ref_out(c, out);
}

static void op_cumsum(ref_call *c) {
  rt *out = rt_copy(cast(c, 2));
  int dim = rt_dim(out, ref_i(c, 1));
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t index[RT_RANK];
    rt_unravel(out, i, index);
    if (out->nd && index[dim] > 0) out->p[i] += out->p[i - out->st[dim]];
  }
  ref_out(c, out);
}

static void op_nonzero(ref_call *c) {
  const rt *t = ref_t(c, 0);
  int64_t count = 0, index[RT_RANK];
  for (int64_t i = 0; i < t->numel; i++) count += *rt_at(t, i) != 0;
  rt *out = rt_new(2, (int64_t[]){count, t->nd});
  count = 0;
  for (int64_t i = 0; i < t->numel; i++) {
    if (*rt_at(t, i) == 0) continue;
    rt_unravel(t, i, index);
    for (int d = 0; d < t->nd; d++) out->p[count * t->nd + d] = (double)index[d];
    count++;
  }
  ref_out(c, out);
}

const ref_entry ref_reduce[] = {
    {"sum", op_sum},
    {"sum.dim_IntList", op_sum_dim},
    {"mean", op_mean},
    {"mean.dim", op_mean_dim},
    {"prod", op_prod},
    {"prod.dim_int", op_prod_dim},
    {"amax", op_amax},
    {"amin", op_amin},
    {"max", op_max},
    {"min", op_min},
    {"max.dim", op_max_dim},
    {"min.dim", op_min_dim},
    {"argmax", op_argmax},
    {"argmin", op_argmin},
    {"any", op_any},
    {"all", op_all},
    {"any.dim", op_any_dim},
    {"all.dim", op_all_dim},
    {"any.dims", op_any_dim},
    {"all.dims", op_all_dim},
    {"var.correction", op_var},
    {"std.correction", op_std},
    {"logsumexp", op_logsumexp},
    {"norm.ScalarOpt_dim", op_norm},
    {"linalg_vector_norm", op_norm},
    {"norm.Scalar", op_norm_whole},
    {"_extreme_backward", op_extreme_backward},
    {"count_nonzero", op_count_dim},
    {"count_nonzero.dim_IntList", op_count_dim},
    {"cumsum", op_cumsum},
    {"nonzero", op_nonzero},
    {NULL, NULL},
};

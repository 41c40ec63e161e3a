/* SPDX-License-Identifier: Apache-2.0
 *
 * Are a function's gradients right? The Jacobian by backward, one seed per output element, against central
 * differences (L1). The second-order check is the first-order check of the function that maps inputs and
 * seeds to first gradients (L2).
 *
 * Inputs are perturbed through their host address, past every version counter, and put back. Float64 only:
 * in float32 the differences are noise.
 */
#include <math.h>
#include <tenon/kit/shape.h>
#include <tenon/ops.h>

#include "core/autograd/autograd_int.h"

typedef struct check {
  tn_gradcheck_fn fn;
  void *ctx;
  tn_tensor *const *in;
  size_t n_in, n_out;
  double eps, atol, rtol;
  tn_tensor **out;      /* of the latest call, owned */
  size_t *out_offset;   /* n_out + 1: first column of each output */
  double **by_backward; /* per input: numel x columns, or NULL if it is not checked */
  double *plus, *minus; /* one row of outputs each */
} check;

static bool is_checked(const tn_tensor *t) { return tni_requires_grad(t); }

static void outs_release(check *c) {
  for (size_t o = 0; o < c->n_out; ++o) {
    tn_tensor_release(c->out[o]);
    c->out[o] = NULL;
  }
}

static tn_status evaluate(check *c) {
  outs_release(c);
  TN_TRY(c->fn(c->ctx, c->in, c->n_in, c->out, c->n_out));
  for (size_t o = 0; o < c->n_out; ++o)
    if (!c->out[o])
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "gradcheck: the function left output %zu empty", o);
  return TN_OK;
}

/* ------------------------------------------------------------------ what may be checked */

static tn_status check_input(const tn_tensor *t, size_t i) {
  if (!t) return tn_fail(TN_ERR_INVALID_ARGUMENT, "gradcheck: input %zu is NULL", i);
  if (!is_checked(t)) return TN_OK;
  const tn_view *v = &t->view;
  if (v->dtype != TN_FLOAT64)
    return tn_fail(TN_ERR_DTYPE, "gradcheck: input %zu is %s; differences need float64", i,
                   tn_dtype_name(v->dtype));
  if (!v->data && v->numel) return tn_fail(TN_ERR_DEVICE, "gradcheck: input %zu has no host memory", i);
  for (unsigned d = 0; d < v->ndim; ++d)
    if (v->strides[d] == 0 && v->sizes[d] > 1)
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "gradcheck: input %zu has elements that share memory", i);
  return TN_OK;
}

static tn_status columns_count(check *c) {
  c->out_offset[0] = 0;
  for (size_t o = 0; o < c->n_out; ++o) {
    const tn_view *v = &c->out[o]->view;
    bool counts = tni_dtype_differentiable(v->dtype);
    if (counts && v->dtype != TN_FLOAT64)
      return tn_fail(TN_ERR_DTYPE, "gradcheck: output %zu is %s; expected float64", o,
                     tn_dtype_name(v->dtype));
    c->out_offset[o + 1] = c->out_offset[o] + (counts ? (size_t)v->numel : 0);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ by backward */

static tn_status seed_new(const tn_view *like, size_t hot, tn_tensor **out_seed) {
  double *values = tni_alloc_zero((size_t)like->numel * sizeof *values);
  *out_seed = NULL;
  if (!values) return tni_oom((size_t)like->numel * sizeof *values, "a seed");
  values[hot] = 1;
  tn_status status = tn_tensor_from_host(
      values, like->sizes, like->ndim,
      TN_OPTIONS(.dtype = TN_FLOAT64, .has_device = true, .device = tn_view_device(like)), out_seed);
  tni_free(values);
  return status;
}

/* Column `column` of every checked input's Jacobian. */
static tn_status column_fill(check *c, size_t o, tn_tensor *seed, size_t column) {
  const tn_backward_options options = {.retain_graph = true, .allow_unused = true, .materialize = true};
  size_t width = c->out_offset[c->n_out];
  for (size_t i = 0; i < c->n_in; ++i) {
    if (!c->by_backward[i] || !c->in[i]->view.numel) continue;
    tn_tensor *grad;
    size_t n = (size_t)c->in[i]->view.numel;
    TN_TRY(tn_grad_of(&c->out[o], &seed, 1, &c->in[i], 1, &options, &grad));
    double *row_major = tni_alloc(n * sizeof *row_major);
    tn_status status = row_major ? tn_tensor_to_host(grad, row_major, n * sizeof *row_major)
                                 : tni_oom(n * sizeof *row_major, "a gradient's values");
    for (size_t k = 0; k < n && status == TN_OK; ++k) c->by_backward[i][k * width + column] = row_major[k];
    tni_free(row_major);
    tn_tensor_release(grad);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

static tn_status jacobians_by_backward(check *c) {
  for (size_t o = 0; o < c->n_out; ++o) {
    if (!tni_requires_grad(c->out[o])) continue; /* its columns stay zero */
    for (size_t j = 0; j < c->out_offset[o + 1] - c->out_offset[o]; ++j) {
      tn_tensor *seed;
      TN_TRY(seed_new(&c->out[o]->view, j, &seed));
      tn_status status = column_fill(c, o, seed, c->out_offset[o] + j);
      tn_tensor_release(seed);
      if (status != TN_OK) return status;
    }
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ by differences */

static double *element_of(tn_tensor *t, size_t k) {
  const tn_view *v = &t->view;
  int64_t at = 0;
  for (unsigned d = v->ndim; d-- > 0;) {
    at += (int64_t)(k % (size_t)v->sizes[d]) * v->strides[d];
    k /= (size_t)v->sizes[d];
  }
  return (double *)v->data + at;
}

static tn_status outputs_at(check *c, double *element, double value, double *row) {
  *element = value;
  TN_TRY(evaluate(c));
  for (size_t o = 0; o < c->n_out; ++o) {
    size_t n = c->out_offset[o + 1] - c->out_offset[o];
    if (n) TN_TRY(tn_tensor_to_host(c->out[o], row + c->out_offset[o], n * sizeof *row));
  }
  return TN_OK;
}

/* The worst disagreement, as multiples of what is allowed. */
typedef struct worst {
  double excess, expected, got;
  size_t input, element, column;
} worst;

static tn_status compare_element(check *c, size_t i, size_t k, worst *w) {
  double *element = element_of(c->in[i], k), before = *element;
  size_t width = c->out_offset[c->n_out];
  tn_status status = outputs_at(c, element, before + c->eps, c->plus);
  if (status == TN_OK) status = outputs_at(c, element, before - c->eps, c->minus);
  *element = before;
  if (status != TN_OK) return status;
  for (size_t j = 0; j < width; ++j) {
    double expected = (c->plus[j] - c->minus[j]) / (2 * c->eps), got = c->by_backward[i][k * width + j];
    double excess = fabs(got - expected) / (c->atol + c->rtol * fabs(expected));
    if (isnan(excess) && !(isnan(got) && isnan(expected))) excess = INFINITY;
    if (excess > w->excess) *w = (worst){excess, expected, got, i, k, j};
  }
  return TN_OK;
}

static tn_status compare(check *c) {
  worst w = {.excess = 0};
  bool mode = tn_grad_mode_set(false);
  tn_status status = TN_OK;
  for (size_t i = 0; i < c->n_in && status == TN_OK; ++i)
    for (size_t k = 0; c->by_backward[i] && k < (size_t)c->in[i]->view.numel && status == TN_OK; ++k)
      status = compare_element(c, i, k, &w);
  tn_grad_mode_set(mode);
  if (status != TN_OK || w.excess <= 1) return status;
  size_t o = 0;
  while (w.column >= c->out_offset[o + 1]) ++o;
  return tn_fail(
      TN_ERR_DATA,
      "gradcheck: d output %zu[%zu] / d input %zu[%zu]: backward says %.9g, differences say %.9g (%.3g times "
      "the tolerance)",
      o, w.column - c->out_offset[o], w.input, w.element, w.got, w.expected, w.excess);
}

/* ------------------------------------------------------------------ one order */

static tn_status tables_new(check *c) {
  size_t width = c->out_offset[c->n_out];
  c->plus = tni_alloc(width * sizeof(double));
  c->minus = tni_alloc(width * sizeof(double));
  if (!c->plus || !c->minus) return tni_oom(width * sizeof(double), "a row of outputs");
  for (size_t i = 0; i < c->n_in; ++i) {
    if (!is_checked(c->in[i])) continue;
    size_t bytes = (size_t)c->in[i]->view.numel * width * sizeof(double);
    c->by_backward[i] = tni_alloc_zero(bytes);
    if (!c->by_backward[i]) return tni_oom(bytes, "a Jacobian");
  }
  return TN_OK;
}

static tn_status run_check(check *c) {
  TN_TRY(evaluate(c));
  TN_TRY(columns_count(c));
  TN_TRY(tables_new(c));
  TN_TRY(jacobians_by_backward(c));
  return compare(c);
}

static tn_status check_first(const check *from) {
  check c = *from;
  for (size_t i = 0; i < c.n_in; ++i) TN_TRY(check_input(c.in[i], i));
  c.out = tni_alloc_zero(c.n_out * sizeof *c.out);
  c.out_offset = tni_alloc_zero((c.n_out + 1) * sizeof *c.out_offset);
  c.by_backward = tni_alloc_zero((c.n_in + 1) * sizeof *c.by_backward);
  c.plus = c.minus = NULL;
  tn_status status =
      c.out && c.out_offset && c.by_backward ? run_check(&c) : tni_oom(c.n_in * 8, "gradcheck's tables");
  if (c.out) outs_release(&c);
  for (size_t i = 0; c.by_backward && i < c.n_in; ++i) tni_free(c.by_backward[i]);
  tni_free(c.out);
  tni_free(c.out_offset);
  tni_free(c.by_backward);
  tni_free(c.plus);
  tni_free(c.minus);
  return status;
}

/* ------------------------------------------------------------------ second order */

/* The function whose outputs are the first gradients: its inputs are those of fn, then one seed per
 * output. */
typedef struct gradient_of {
  const check *first;
  const size_t *seeded; /* which outputs have a seed */
  size_t n_seeded;
} gradient_of;

/* Absent gradients come as zeros, so that every output exists. */
static tn_status gradient_call(void *ctx, tn_tensor *const *in, size_t n_in, tn_tensor **out, size_t n_out) {
  const gradient_of *g = ctx;
  const check *c = g->first;
  const tn_backward_options options = {.create_graph = true, .allow_unused = true, .materialize = true};
  size_t n = 0, total = c->n_out + g->n_seeded + c->n_in;
  tn_tensor **room = tni_alloc_zero(total * sizeof *room);
  if (!room) return tni_oom(total * sizeof *room, "gradcheck's tables");
  tn_tensor **outs = room, **roots = room + c->n_out, **wrt = roots + g->n_seeded;
  for (size_t i = 0; i < c->n_in; ++i)
    if (is_checked(in[i])) wrt[n++] = in[i];
  bool mode = tn_grad_mode_set(true);
  tn_status status = c->fn(c->ctx, in, c->n_in, outs, c->n_out);
  for (size_t s = 0; s < g->n_seeded; ++s) roots[s] = outs[g->seeded[s]];
  if (status == TN_OK) status = tn_grad_of(roots, in + c->n_in, g->n_seeded, wrt, n, &options, out);
  tn_grad_mode_set(mode);
  for (size_t o = 0; o < c->n_out; ++o) tn_tensor_release(outs[o]);
  tni_free(room);
  return status;
}

/* A seed of fixed, uneven values that itself requires grad. */
static tn_status uneven_seed(const tn_view *like, size_t salt, tn_tensor **out_seed) {
  size_t n = (size_t)like->numel;
  double *values = tni_alloc((n ? n : 1) * sizeof *values);
  *out_seed = NULL;
  if (!values) return tni_oom(n * sizeof *values, "a seed");
  for (size_t k = 0; k < n; ++k) values[k] = 0.3 + 0.07 * (double)((k * 7 + salt * 3) % 11);
  tn_status status = tn_tensor_from_host(
      values, like->sizes, like->ndim,
      TN_OPTIONS(.dtype = TN_FLOAT64, .has_device = true, .device = tn_view_device(like)), out_seed);
  tni_free(values);
  return status == TN_OK ? tn_set_requires_grad(*out_seed, true) : status;
}

/* Seeds for the outputs that have history. */
static tn_status seeds_make(const check *c, tn_tensor **outs, size_t *seeded, tn_tensor **seeds,
                            size_t *out_n) {
  TN_TRY(c->fn(c->ctx, c->in, c->n_in, outs, c->n_out));
  for (size_t o = 0; o < c->n_out; ++o) {
    if (!outs[o] || !tni_requires_grad(outs[o])) continue;
    TN_TRY(uneven_seed(&outs[o]->view, o, &seeds[*out_n]));
    seeded[(*out_n)++] = o;
  }
  return TN_OK;
}

static tn_status check_second(const check *c) {
  size_t n_grads = 0, n_seeds = 0;
  for (size_t i = 0; i < c->n_in; ++i) n_grads += is_checked(c->in[i]);
  size_t bytes = (c->n_in + 2 * c->n_out) * sizeof(tn_tensor *) + c->n_out * sizeof(size_t);
  tn_tensor **in = tni_alloc_zero(bytes);
  if (!in) return tni_oom(bytes, "gradcheck's tables");
  tn_tensor **seeds = in + c->n_in, **outs = seeds + c->n_out;
  size_t *seeded = (size_t *)(void *)(outs + c->n_out);
  memcpy(in, c->in, c->n_in * sizeof *in);
  tn_status status = seeds_make(c, outs, seeded, seeds, &n_seeds);
  if (status == TN_OK && n_seeds && n_grads) {
    gradient_of g = {c, seeded, n_seeds};
    check second = *c;
    second.fn = gradient_call;
    second.ctx = &g;
    second.in = in;
    second.n_in = c->n_in + n_seeds;
    second.n_out = n_grads;
    status = check_first(&second);
    if (status != TN_OK) status = tn_wrap(status, "second order");
  }
  for (size_t o = 0; o < c->n_out; ++o) {
    tn_tensor_release(outs[o]);
    tn_tensor_release(seeds[o]);
  }
  tni_free(in);
  return status;
}

tn_status tn_gradcheck(tn_gradcheck_fn fn, void *ctx, tn_tensor *const *in, size_t n_in, size_t n_out,
                       double eps, double atol, double rtol, bool second) {
  if (!fn || (!in && n_in) || !n_out)
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "gradcheck: expected a function, its inputs, and at least one output");
  const check c = {.fn = fn,
                   .ctx = ctx,
                   .in = in,
                   .n_in = n_in,
                   .n_out = n_out,
                   .eps = eps > 0 ? eps : 1e-6,
                   .atol = atol > 0 ? atol : 1e-5,
                   .rtol = rtol > 0 ? rtol : 1e-3};
  bool mode = tn_grad_mode_set(true);
  tn_status status = check_first(&c);
  if (status == TN_OK && second) status = check_second(&c);
  tn_grad_mode_set(mode);
  return status;
}

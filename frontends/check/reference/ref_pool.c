/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling by its definition: for each output position, the elements of the input that its window covers.
 */
#include <math.h>

#include "ref.h"

typedef struct window {
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  bool adaptive, count_padding, has_divisor;
  int64_t divisor;
  int64_t out[2];
} window;

static int64_t entry(const ref_arg *list, int i) { return list->ints[list->n == 1 ? 0 : i]; }

static void read_lists(const ref_call *c, int at, bool dilated, window *w) {
  for (int i = 0; i < 2; i++) {
    w->kernel[i] = entry(&c->args[at], i);
    w->stride[i] = c->args[at + 1].n ? entry(&c->args[at + 1], i) : w->kernel[i];
    w->padding[i] = entry(&c->args[at + 2], i);
    w->dilation[i] = dilated ? entry(&c->args[at + 3], i) : 1;
  }
}

static void out_sizes(const rt *t, bool ceil_mode, window *w) {
  for (int i = 0; i < 2; i++) {
    int64_t size = t->n[t->nd - 2 + i];
    double room = (double)(size + 2 * w->padding[i] - w->dilation[i] * (w->kernel[i] - 1) - 1);
    double n = (ceil_mode ? ceil(room / (double)w->stride[i]) : floor(room / (double)w->stride[i])) + 1;
    w->out[i] = (int64_t)n;
    if (ceil_mode && (w->out[i] - 1) * w->stride[i] >= size + w->padding[i]) w->out[i]--;
  }
}

static rt *pooled(const rt *t, const window *w) {
  rt *shape = rt_view(t);
  shape->n[t->nd - 2] = w->out[0];
  shape->n[t->nd - 1] = w->out[1];
  return rt_new(t->nd, shape->n);
}

/* First element and end along dim i of the window at position o, padding included. */
static void range_of(const window *w, int i, int64_t o, int64_t size, int64_t *begin, int64_t *end) {
  if (w->adaptive) {
    *begin = (int64_t)floor((double)(o * size) / (double)w->out[i]);
    *end = (int64_t)ceil((double)((o + 1) * size) / (double)w->out[i]);
    return;
  }
  *begin = o * w->stride[i] - w->padding[i];
  *end = *begin + (w->kernel[i] - 1) * w->dilation[i] + 1;
}

/* Positions within the plane of the elements of the window of output element i; *covered: elements that count
 * as divisor. */
static int64_t places_of(const rt *t, const rt *out, const window *w, int64_t i, int64_t *places, double *covered) {
  int64_t at[RT_RANK], n = 0, inside[2] = {0}, padded[2] = {0}, h = t->n[t->nd - 2], width = t->n[t->nd - 1];
  int64_t begin[2], end[2];
  rt_unravel(out, i, at);
  for (int d = 0; d < 2; d++) {
    int64_t size = t->n[t->nd - 2 + d], step = w->adaptive ? 1 : w->dilation[d];
    range_of(w, d, at[t->nd - 2 + d], size, &begin[d], &end[d]);
    for (int64_t x = begin[d]; x < end[d]; x += step) {
      inside[d] += x >= 0 && x < size;
      padded[d] += w->adaptive ? x < size : x < size + w->padding[d];
    }
  }
  for (int64_t y = begin[0]; y < end[0]; y += w->adaptive ? 1 : w->dilation[0])
    for (int64_t x = begin[1]; x < end[1]; x += w->adaptive ? 1 : w->dilation[1])
      if (y >= 0 && y < h && x >= 0 && x < width) places[n++] = y * width + x;
  *covered = w->has_divisor ? (double)w->divisor
             : w->count_padding ? (double)(padded[0] * padded[1]) : (double)(inside[0] * inside[1]);
  return n;
}

/* Element `place` of the plane that output element i belongs to. */
static double *in_plane(rt *t, const rt *out, int64_t i, int64_t place) {
  int64_t plane = i / (out->n[out->nd - 2] * out->n[out->nd - 1]);
  return rt_at(t, plane * t->n[t->nd - 2] * t->n[t->nd - 1] + place);
}

/* NaN goes before all; of equal ones the first stays. */
static void max_windows(ref_call *c, rt *t, const window *w, bool with_indices) {
  rt *out = pooled(t, w), *index = rt_like(out);
  int64_t *places = ref_alloc((size_t)t->numel * sizeof *places + 8);
  double covered;
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t n = places_of(t, out, w, i, places, &covered);
    out->p[i] = -INFINITY;
    for (int64_t k = 0; k < n; k++) {
      double v = *in_plane(t, out, i, places[k]);
      if (v > out->p[i] || isnan(v)) out->p[i] = v, index->p[i] = (double)places[k];
    }
  }
  ref_out(c, out);
  if (with_indices) ref_out(c, index);
}
static void max_pool(ref_call *c, bool with_indices) {
  window w = {.count_padding = false};
  rt *t = rt_copy(ref_t(c, 0));
  read_lists(c, 1, true, &w);
  out_sizes(t, ref_i(c, 5), &w);
  max_windows(c, t, &w, with_indices);
}
static void op_adaptive_max_pool2d(ref_call *c) {
  window w = {.adaptive = true, .out = {c->args[1].ints[0], c->args[1].ints[1]}};
  max_windows(c, rt_copy(ref_t(c, 0)), &w, true);
}
static void op_adaptive_max_pool2d_backward(ref_call *c) {
  rt *grad = rt_copy(ref_t(c, 0)), *out = rt_like(ref_t(c, 1));
  for (int64_t i = 0; i < grad->numel; i++) *in_plane(out, grad, i, (int64_t)*rt_at(ref_t(c, 2), i)) += grad->p[i];
  ref_out(c, out);
}
static void op_max_pool2d(ref_call *c) { max_pool(c, false); }
static void op_max_pool2d_with_indices(ref_call *c) { max_pool(c, true); }

static void op_max_pool2d_backward(ref_call *c) {
  rt *grad = rt_copy(ref_t(c, 0)), *out = rt_like(ref_t(c, 1));
  for (int64_t i = 0; i < grad->numel; i++) *in_plane(out, grad, i, (int64_t)*rt_at(ref_t(c, 7), i)) += grad->p[i];
  ref_out(c, out);
}
static void op_max_pool2d_double_backward(ref_call *c) {
  rt *grad = rt_copy(ref_t(c, 0)), *out = rt_like(ref_t(c, 1));
  for (int64_t i = 0; i < out->numel; i++) out->p[i] = *in_plane(grad, out, i, (int64_t)*rt_at(ref_t(c, 1), i));
  ref_out(c, out);
}

/* ------------------------------------------------------------------ means */

static void mean_pool(ref_call *c, rt *t, const window *w) {
  rt *out = pooled(t, w);
  int64_t *places = ref_alloc((size_t)t->numel * sizeof *places + 8);
  double covered;
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t n = places_of(t, out, w, i, places, &covered);
    for (int64_t k = 0; k < n; k++) out->p[i] += *in_plane(t, out, i, places[k]) / covered;
  }
  ref_out(c, out);
}
static void mean_pool_backward(ref_call *c, const rt *self, const window *w) {
  rt *grad = rt_copy(ref_t(c, 0)), *out = rt_like(self);
  int64_t *places = ref_alloc((size_t)self->numel * sizeof *places + 8);
  double covered;
  for (int64_t i = 0; i < grad->numel; i++) {
    int64_t n = places_of(out, grad, w, i, places, &covered);
    for (int64_t k = 0; k < n; k++) *in_plane(out, grad, i, places[k]) += grad->p[i] / covered;
  }
  ref_out(c, out);
}

/* at: position of kernel_size */
static window average_window(const ref_call *c, const rt *self, int at) {
  window w = {.count_padding = ref_i(c, at + 4), .has_divisor = ref_has(c, at + 5)};
  read_lists(c, at, false, &w);
  if (w.has_divisor) w.divisor = ref_i(c, at + 5);
  out_sizes(self, ref_i(c, at + 3), &w);
  return w;
}
static void op_avg_pool2d(ref_call *c) {
  window w = average_window(c, ref_t(c, 0), 1);
  mean_pool(c, rt_copy(ref_t(c, 0)), &w);
}
static void op_avg_pool2d_backward(ref_call *c) {
  window w = average_window(c, ref_t(c, 1), 2);
  mean_pool_backward(c, ref_t(c, 1), &w);
}
static void op_adaptive_avg_pool2d(ref_call *c) {
  window w = {.adaptive = true, .out = {c->args[1].ints[0], c->args[1].ints[1]}};
  mean_pool(c, rt_copy(ref_t(c, 0)), &w);
}
static void op_adaptive_avg_pool2d_backward(ref_call *c) {
  const rt *grad = ref_t(c, 0);
  window w = {.adaptive = true, .out = {grad->n[grad->nd - 2], grad->n[grad->nd - 1]}};
  mean_pool_backward(c, ref_t(c, 1), &w);
}

/* ------------------------------------------------------------------ one dim */

/* t with a row dim of size 1 before the last, or (out) without it. */
static rt *with_row(const rt *t) {
  int64_t n[RT_RANK];
  for (int d = 0; d < t->nd - 1; d++) n[d] = t->n[d];
  n[t->nd - 1] = 1;
  n[t->nd] = t->n[t->nd - 1];
  rt *rows = rt_new(t->nd + 1, n);
  rows->p = rt_copy(t)->p;
  return rows;
}
static rt *without_row(const rt *t) {
  int64_t n[RT_RANK];
  for (int d = 0; d < t->nd - 2; d++) n[d] = t->n[d];
  n[t->nd - 2] = t->n[t->nd - 1];
  rt *flat = rt_new(t->nd - 1, n);
  flat->p = t->p;
  return flat;
}

/* An operator over [1, L] images; lists get a first entry that leaves rows alone. */
static void one_dim(ref_call *c, ref_fn fn, const int64_t *first, int n_lists) {
  ref_arg args[8] = {0};
  ref_call call = *c;
  for (int i = 0; i < c->n_args; i++) args[i] = c->args[i];
  args[0].t = with_row(ref_t(c, 0));
  for (int i = 0; i < n_lists; i++) {
    int64_t *list = ref_alloc(2 * sizeof *list);
    list[0] = first[i];
    if (c->args[i + 1].n) list[1] = c->args[i + 1].ints[0];
    else continue;
    args[i + 1].ints = list;
    args[i + 1].n = 2;
  }
  call.args = args;
  call.n_out = 0;
  fn(&call);
  for (int i = 0; i < call.n_out; i++) ref_out(c, without_row(call.out[i]));
}
static void op_max_pool1d(ref_call *c) { one_dim(c, op_max_pool2d, (const int64_t[]){1, 1, 0, 1}, 4); }
static void op_max_pool1d_with_indices(ref_call *c) {
  one_dim(c, op_max_pool2d_with_indices, (const int64_t[]){1, 1, 0, 1}, 4);
}
static void op_avg_pool1d(ref_call *c) { one_dim(c, op_avg_pool2d, (const int64_t[]){1, 1, 0}, 3); }
static void op_adaptive_avg_pool1d(ref_call *c) { one_dim(c, op_adaptive_avg_pool2d, (const int64_t[]){1}, 1); }
static void op_adaptive_max_pool1d(ref_call *c) { one_dim(c, op_adaptive_max_pool2d, (const int64_t[]){1}, 1); }

const ref_entry ref_pool[] = {
    {"max_pool2d", op_max_pool2d},
    {"max_pool2d_with_indices", op_max_pool2d_with_indices},
    {"max_pool2d_with_indices_backward", op_max_pool2d_backward},
    {"_max_pool2d_double_backward", op_max_pool2d_double_backward},
    {"avg_pool2d", op_avg_pool2d},
    {"avg_pool2d_backward", op_avg_pool2d_backward},
    {"adaptive_avg_pool2d", op_adaptive_avg_pool2d},
    {"_adaptive_avg_pool2d", op_adaptive_avg_pool2d},
    {"_adaptive_avg_pool2d_backward", op_adaptive_avg_pool2d_backward},
    {"adaptive_max_pool2d", op_adaptive_max_pool2d},
    {"adaptive_max_pool2d_backward", op_adaptive_max_pool2d_backward},
    {"max_pool1d", op_max_pool1d},
    {"max_pool1d_with_indices", op_max_pool1d_with_indices},
    {"avg_pool1d", op_avg_pool1d},
    {"adaptive_avg_pool1d", op_adaptive_avg_pool1d},
    {"adaptive_max_pool1d", op_adaptive_max_pool1d},
    {NULL, NULL},
};

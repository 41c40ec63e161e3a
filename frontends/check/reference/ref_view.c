/* SPDX-License-Identifier: Apache-2.0
 *
 * Views, their inverses and copies of the same values. Each view is a header over the same doubles; the
 * inverse of a view makes zeros, takes the view of them, and adds the gradient through it. That a real view
 * shares memory is the harness's check, not the reference's.
 */
#include <string.h>

#include "ref.h"

/* ------------------------------------------------------------------ headers */

/* Takes dim d out of a header. */
static rt *drop_dim(rt *v, int d) {
  memmove(v->n + d, v->n + d + 1, (size_t)(v->nd - d - 1) * sizeof *v->n);
  memmove(v->st + d, v->st + d + 1, (size_t)(v->nd - d - 1) * sizeof *v->st);
  v->nd--;
  return v;
}
static rt *put_dim(rt *v, int d, int64_t n, int64_t st) {
  memmove(v->n + d + 1, v->n + d, (size_t)(v->nd - d) * sizeof *v->n);
  memmove(v->st + d + 1, v->st + d, (size_t)(v->nd - d) * sizeof *v->st);
  v->n[d] = n;
  v->st[d] = st;
  v->nd++;
  return v;
}
static rt *counted(rt *v) {
  v->numel = 1;
  for (int d = 0; d < v->nd; d++) v->numel *= v->n[d];
  return v;
}

static rt *select_view(const rt *t, int64_t dim, int64_t index) {
  rt *v = rt_view(t);
  int d = rt_dim(t, dim);
  v->p += (index < 0 ? index + v->n[d] : index) * v->st[d];
  return counted(drop_dim(v, d));
}

/* Bounds as Python's slices take them. */
static rt *slice_view(const rt *t, int64_t dim, const ref_arg *start, const ref_arg *end, int64_t step) {
  rt *v = rt_view(t);
  int d = rt_dim(t, dim);
  int64_t size = v->n[d];
  int64_t from = start->kind == TN_VAL_NONE ? 0 : (int64_t)start->num;
  int64_t to = end->kind == TN_VAL_NONE || end->num > (double)size ? size : (int64_t)end->num;
  from = from < 0 ? from + size : from;
  to = to < 0 ? to + size : to;
  from = from < 0 ? 0 : from > size ? size : from;
  to = to < from ? from : to;
  v->p += from * v->st[d];
  v->n[d] = (to - from + step - 1) / step;
  v->st[d] *= step;
  return counted(v);
}

static rt *range_view(const rt *t, int64_t dim, int64_t start, int64_t length) {
  rt *v = rt_view(t);
  int d = rt_dim(t, dim);
  v->p += (start < 0 ? start + v->n[d] : start) * v->st[d];
  v->n[d] = length;
  return counted(v);
}

static rt *diagonal_view(const rt *t, int64_t offset, int64_t dim1, int64_t dim2) {
  rt *v = rt_view(t);
  int a = rt_dim(t, dim1), b = rt_dim(t, dim2);
  int64_t n1 = offset < 0 ? v->n[a] + offset : v->n[a], n2 = offset > 0 ? v->n[b] - offset : v->n[b];
  int64_t length = n1 < n2 ? n1 : n2, st = v->st[a] + v->st[b];
  if (length > 0) v->p += offset > 0 ? offset * v->st[b] : -offset * v->st[a];
  drop_dim(v, a > b ? a : b);
  drop_dim(v, a > b ? b : a);
  return counted(put_dim(v, v->nd, length > 0 ? length : 0, st));
}

static rt *unfold_view(const rt *t, int64_t dim, int64_t size, int64_t step) {
  rt *v = rt_view(t);
  int d = rt_dim(t, dim);
  int64_t st = v->st[d];
  v->n[d] = (v->n[d] - size) / step + 1;
  v->st[d] = st * step;
  return counted(put_dim(v, v->nd, size, st));
}

static rt *swapped(const rt *t, int64_t dim0, int64_t dim1) {
  rt *v = rt_view(t);
  if (!t->nd) return v;
  int a = rt_dim(t, dim0), b = rt_dim(t, dim1);
  v->n[a] = t->n[b], v->st[a] = t->st[b];
  v->n[b] = t->n[a], v->st[b] = t->st[a];
  return v;
}

/* Row-major values under another shape; one size may be -1. */
static rt *reshaped(const rt *t, const int64_t *sizes, int nd) {
  int64_t n[RT_RANK], known = 1;
  int open = -1;
  for (int d = 0; d < nd; d++) {
    n[d] = sizes[d];
    if (n[d] == -1) open = d;
    else known *= n[d];
  }
  if (open >= 0) n[open] = t->numel / known;
  rt *out = rt_new(nd, n);
  memcpy(out->p, rt_copy(t)->p, (size_t)t->numel * sizeof *out->p);
  return out;
}

/* ------------------------------------------------------------------ operators: views */

static void op_same(ref_call *c) { ref_out(c, rt_copy(ref_t(c, 0))); }
static void op_reshape(ref_call *c) { ref_out(c, reshaped(ref_t(c, 0), c->args[1].ints, c->args[1].n)); }
static void op_view_as(ref_call *c) { ref_out(c, reshaped(ref_t(c, 0), ref_t(c, 1)->n, ref_t(c, 1)->nd)); }
static void op_transpose(ref_call *c) { ref_out(c, swapped(ref_t(c, 0), ref_i(c, 1), ref_i(c, 2))); }
static void op_t(ref_call *c) { ref_out(c, ref_t(c, 0)->nd < 2 ? rt_view(ref_t(c, 0)) : swapped(ref_t(c, 0), 0, 1)); }
static void op_permute(ref_call *c) {
  const rt *t = ref_t(c, 0);
  rt *v = rt_view(t);
  for (int d = 0; d < t->nd; d++) {
    int from = rt_dim(t, c->args[1].ints[d]);
    v->n[d] = t->n[from];
    v->st[d] = t->st[from];
  }
  ref_out(c, v);
}
static void op_movedim(ref_call *c) {
  rt *v = rt_view(ref_t(c, 0));
  int from = rt_dim(v, ref_i(c, 1)), to = rt_dim(v, ref_i(c, 2));
  int64_t n = v->n[from], st = v->st[from];
  ref_out(c, put_dim(drop_dim(v, from), to, n, st));
}
static void op_expand(ref_call *c) { ref_out(c, rt_expand(ref_t(c, 0), c->args[1].n, c->args[1].ints)); }
static void op_expand_as(ref_call *c) { ref_out(c, rt_expand(ref_t(c, 0), ref_t(c, 1)->nd, ref_t(c, 1)->n)); }
static void op_select(ref_call *c) { ref_out(c, select_view(ref_t(c, 0), ref_i(c, 1), ref_i(c, 2))); }
static void op_slice(ref_call *c) {
  ref_out(c, slice_view(ref_t(c, 0), ref_i(c, 1), &c->args[2], &c->args[3], ref_i(c, 4)));
}
static void op_narrow(ref_call *c) { ref_out(c, range_view(ref_t(c, 0), ref_i(c, 1), ref_i(c, 2), ref_i(c, 3))); }
static void op_unsqueeze(ref_call *c) {
  rt *v = rt_view(ref_t(c, 0));
  int64_t dim = ref_i(c, 1);
  ref_out(c, put_dim(v, (int)(dim < 0 ? dim + v->nd + 1 : dim), 1, 0));
}
static void op_squeeze(ref_call *c) {
  rt *v = rt_view(ref_t(c, 0));
  for (int d = v->nd - 1; d >= 0; d--)
    if (v->n[d] == 1) drop_dim(v, d);
  ref_out(c, v);
}
static void op_squeeze_dim(ref_call *c) {
  rt *v = rt_view(ref_t(c, 0));
  int d = rt_dim(v, ref_i(c, 1));
  ref_out(c, v->nd && v->n[d] == 1 ? drop_dim(v, d) : v);
}
static void op_flatten(ref_call *c) {
  const rt *t = ref_t(c, 0);
  int64_t n[RT_RANK];
  int first = rt_dim(t, ref_i(c, 1)), last = rt_dim(t, ref_i(c, 2)), nd = 0;
  for (int d = 0; d < t->nd; d++) {
    if (d > first && d <= last) n[nd - 1] *= t->n[d];
    else n[nd++] = t->n[d];
  }
  if (!t->nd) n[nd++] = 1;
  ref_out(c, reshaped(t, n, nd));
}
static void op_as_strided(ref_call *c) {
  rt *v = rt_view(ref_t(c, 0));
  v->nd = c->args[1].n;
  for (int d = 0; d < v->nd; d++) {
    v->n[d] = c->args[1].ints[d];
    v->st[d] = c->args[2].ints[d];
  }
  if (ref_has(c, 3)) v->p += ref_i(c, 3);
  ref_out(c, counted(v));
}
static void op_diagonal(ref_call *c) {
  ref_out(c, diagonal_view(ref_t(c, 0), ref_i(c, 1), ref_i(c, 2), ref_i(c, 3)));
}
static void op_unfold(ref_call *c) { ref_out(c, unfold_view(ref_t(c, 0), ref_i(c, 1), ref_i(c, 2), ref_i(c, 3))); }
/* Dims that a reduction took away come back with size 1; no dims mean all. */
static void op_unreduce(ref_call *c) {
  rt *v = rt_view(ref_t(c, 0));
  int nd = (int)ref_i(c, 3), n_dims = ref_has(c, 1) ? c->args[1].n : 0;
  bool gone[RT_RANK] = {false};
  for (int d = 0; d < nd; d++) gone[d] = n_dims == 0;
  for (int k = 0; k < n_dims; k++) gone[(c->args[1].ints[k] + nd) % nd] = true;
  for (int d = 0; d < nd && !ref_i(c, 2); d++)
    if (gone[d]) put_dim(v, d, 1, 0);
  ref_out(c, v);
}

/* ------------------------------------------------------------------ operators: several views */

static void op_unbind(ref_call *c) {
  for (int64_t i = 0; i < rt_size(ref_t(c, 0), ref_i(c, 1)); i++)
    ref_out(c, select_view(ref_t(c, 0), ref_i(c, 1), i));
}
static void in_pieces(ref_call *c, int64_t piece) {
  int64_t size = rt_size(ref_t(c, 0), ref_i(c, 2));
  for (int64_t at = 0; at < size; at += piece)
    ref_out(c, range_view(ref_t(c, 0), ref_i(c, 2), at, at + piece > size ? size - at : piece));
}
static void op_split(ref_call *c) { in_pieces(c, ref_i(c, 1)); }
static void op_chunk(ref_call *c) {
  int64_t size = rt_size(ref_t(c, 0), ref_i(c, 2)), chunks = ref_i(c, 1);
  in_pieces(c, (size + chunks - 1) / chunks);
}
static void op_split_sizes(ref_call *c) {
  int64_t at = 0;
  for (int k = 0; k < c->args[1].n; k++) {
    ref_out(c, range_view(ref_t(c, 0), ref_i(c, 2), at, c->args[1].ints[k]));
    at += c->args[1].ints[k];
  }
}

/* ------------------------------------------------------------------ operators: inverses */

/* Adds src through a view of the result's memory. */
static void add_through(rt *view, const rt *src) {
  for (int64_t i = 0; i < view->numel; i++) *rt_at(view, i) += *rt_at(src, i);
}
static rt *zeros(const ref_call *c) { return rt_new(c->args[1].n, c->args[1].ints); }

static void op_select_scatter(ref_call *c) {
  rt *out = rt_copy(ref_t(c, 0)), *view = select_view(out, ref_i(c, 2), ref_i(c, 3));
  add_through(rt_fill(view, 0), ref_t(c, 1));
  ref_out(c, out);
}
static void op_slice_scatter(ref_call *c) {
  rt *out = rt_copy(ref_t(c, 0)), *view = slice_view(out, ref_i(c, 2), &c->args[3], &c->args[4], ref_i(c, 5));
  add_through(rt_fill(view, 0), ref_t(c, 1));
  ref_out(c, out);
}
static void op_select_backward(ref_call *c) {
  rt *out = zeros(c);
  add_through(select_view(out, ref_i(c, 2), ref_i(c, 3)), ref_t(c, 0));
  ref_out(c, out);
}
static void op_slice_backward(ref_call *c) {
  rt *out = zeros(c);
  add_through(slice_view(out, ref_i(c, 2), &c->args[3], &c->args[4], ref_i(c, 5)), ref_t(c, 0));
  ref_out(c, out);
}
static void op_diagonal_backward(ref_call *c) {
  rt *out = zeros(c);
  add_through(diagonal_view(out, ref_i(c, 2), ref_i(c, 3), ref_i(c, 4)), ref_t(c, 0));
  ref_out(c, out);
}
static void op_unfold_backward(ref_call *c) {
  rt *out = zeros(c);
  add_through(unfold_view(out, ref_i(c, 2), ref_i(c, 3), ref_i(c, 4)), ref_t(c, 0));
  ref_out(c, out);
}

const ref_entry ref_view[] = {
    {"view", op_reshape},
    {"reshape", op_reshape},
    {"view_as", op_view_as},
    {"transpose.int", op_transpose},
    {"t", op_t},
    {"permute", op_permute},
    {"movedim.int", op_movedim},
    {"expand", op_expand},
    {"expand_as", op_expand_as},
    {"select.int", op_select},
    {"slice.Tensor", op_slice},
    {"narrow", op_narrow},
    {"unsqueeze", op_unsqueeze},
    {"squeeze", op_squeeze},
    {"squeeze.dim", op_squeeze_dim},
    {"flatten.using_ints", op_flatten},
    {"as_strided", op_as_strided},
    {"_as_strided", op_as_strided},
    {"diagonal", op_diagonal},
    {"unfold", op_unfold},
    {"_unreduce", op_unreduce},
    {"alias", op_same},
    {"detach", op_same},
    {"unbind.int", op_unbind},
    {"split.Tensor", op_split},
    {"split_with_sizes", op_split_sizes},
    {"chunk", op_chunk},
    {"select_scatter", op_select_scatter},
    {"slice_scatter", op_slice_scatter},
    {"select_backward", op_select_backward},
    {"slice_backward", op_slice_backward},
    {"diagonal_backward", op_diagonal_backward},
    {"unfold_backward", op_unfold_backward},
    {NULL, NULL},
};

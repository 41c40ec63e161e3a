/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices in double: three loops.
 */
#include <string.h>

#include "ref.h"

/* Two-dimensional a (m x k) times b (k x n). */
static rt *product(const rt *a, const rt *b) {
  rt *out = rt_new(2, (int64_t[]){a->n[0], b->n[1]});
  for (int64_t i = 0; i < a->n[0]; i++)
    for (int64_t j = 0; j < b->n[1]; j++) {
      const double *row = a->p + i * a->st[0], *column = b->p + j * b->st[1];
      double sum = 0;
      for (int64_t k = 0; k < a->n[1]; k++) sum += row[k * a->st[1]] * column[k * b->st[0]];
      out->p[i * b->n[1] + j] = sum;
    }
  return out;
}

/* Matrix number `batch` (row-major over the leading dims) of t. */
static rt *matrix(const rt *t, int64_t batch) {
  rt *lead = rt_view(t), *out = rt_view(t);
  int64_t index[RT_RANK];
  lead->nd -= 2;
  rt_unravel(lead, batch, index);
  out->p = rt_index(lead, index);
  out->nd = 2;
  memmove(out->n, t->n + t->nd - 2, 2 * sizeof *out->n);
  memmove(out->st, t->st + t->nd - 2, 2 * sizeof *out->st);
  out->numel = out->n[0] * out->n[1];
  return out;
}

/* Both operands with at least two dims. */
static rt *batched(const rt *a, const rt *b) {
  int64_t n[RT_RANK], batches = 1;
  rt *la = rt_view(a), *lb = rt_view(b);
  la->nd -= 2;
  lb->nd -= 2;
  int lead = rt_broadcast(la, lb, n);
  for (int d = 0; d < lead; d++) batches *= n[d];
  memcpy(n + lead, a->n + a->nd - 2, 2 * sizeof *n);
  const rt *x = rt_expand(a, lead + 2, n);
  memcpy(n + lead, b->n + b->nd - 2, 2 * sizeof *n);
  const rt *y = rt_expand(b, lead + 2, n);
  n[lead] = a->n[a->nd - 2];
  rt *out = rt_new(lead + 2, n);
  int64_t block = n[lead] * n[lead + 1];
  for (int64_t i = 0; i < batches; i++)
    memcpy(out->p + i * block, product(matrix(x, i), matrix(y, i))->p, (size_t)block * sizeof *out->p);
  return out;
}

/* t with a dim of size 1 put in at `dim`. */
static rt *with_dim(const rt *t, int dim) {
  rt *view = rt_view(t);
  memmove(view->n + dim + 1, view->n + dim, (size_t)(t->nd - dim) * sizeof *view->n);
  memmove(view->st + dim + 1, view->st + dim, (size_t)(t->nd - dim) * sizeof *view->st);
  view->n[dim] = 1;
  view->st[dim] = 0;
  view->nd++;
  return view;
}

static rt *without_dim(const rt *t, int dim) {
  rt *view = rt_view(t);
  memmove(view->n + dim, view->n + dim + 1, (size_t)(t->nd - dim - 1) * sizeof *view->n);
  memmove(view->st + dim, view->st + dim + 1, (size_t)(t->nd - dim - 1) * sizeof *view->st);
  view->nd--;
  return view;
}

rt *rt_matmul(const rt *a, const rt *b) {
  bool row = a->nd == 1, column = b->nd == 1;
  rt *out = batched(row ? with_dim(a, 0) : a, column ? with_dim(b, 1) : b);
  if (column) out = without_dim(out, out->nd - 1);
  if (row) out = without_dim(out, out->nd - (column ? 1 : 2));
  return out;
}

/* beta * self + alpha * product; a beta of 0 ignores self, NaNs included. */
static rt *added(const rt *self, const rt *product_, double beta, double alpha) {
  rt *out = rt_like(product_);
  const rt *s = rt_expand(self, out->nd, out->n);
  for (int64_t i = 0; i < out->numel; i++)
    out->p[i] = (beta == 0 ? 0 : beta * *rt_at(s, i)) + alpha * *rt_at(product_, i);
  return out;
}

static void op_matmul(ref_call *c) { ref_out(c, rt_matmul(ref_t(c, 0), ref_t(c, 1))); }
static void op_addmm(ref_call *c) {
  rt *product_ = rt_matmul(ref_t(c, 1), ref_t(c, 2));
  ref_out(c, added(ref_t(c, 0), product_, ref_f(c, 3), ref_f(c, 4)));
}
static void op_linear(ref_call *c) {
  rt *weight = rt_view(ref_t(c, 1));
  if (weight->nd == 2) {
    int64_t n = weight->n[0], st = weight->st[0];
    weight->n[0] = weight->n[1], weight->st[0] = weight->st[1];
    weight->n[1] = n, weight->st[1] = st;
  }
  rt *out = rt_matmul(ref_t(c, 0), weight);
  ref_out(c, ref_has(c, 2) ? added(ref_t(c, 2), out, 1, 1) : out);
}
static void op_outer(ref_call *c) { ref_out(c, product(with_dim(ref_t(c, 0), 1), with_dim(ref_t(c, 1), 0))); }

const ref_entry ref_linalg[] = {
    {"mm", op_matmul},     {"bmm", op_matmul}, {"mv", op_matmul},       {"dot", op_matmul}, {"matmul", op_matmul},
    {"addmm", op_addmm},   {"baddbmm", op_addmm}, {"addmv", op_addmm}, {"linear", op_linear},
    {"outer", op_outer},   {"ger", op_outer},  {NULL, NULL},
};

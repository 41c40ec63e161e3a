/* SPDX-License-Identifier: Apache-2.0
 *
 * Order by counting how many elements come before each; indexing by walking the result.
 */
#include "ref.h"

/* ------------------------------------------------------------------ order */

/* Elements that come before element i of its line: better ones, and equal ones in front. */
static int64_t rank_of(const rt *t, int d, int64_t i, bool descending) {
  int64_t at[RT_RANK] = {0}, rank = 0;
  rt_unravel(t, i, at);
  int64_t own = at[d];
  double v = *rt_index(t, at);
  for (int64_t k = 0; k < rt_size(t, d); k++) {
    at[d] = k;
    double w = *rt_index(t, at);
    rank += (descending ? w > v : w < v) || (w == v && k < own);
  }
  return rank;
}

static void first_of(ref_call *c, int64_t dim, int64_t k, bool descending, bool values_too) {
  const rt *t = ref_t(c, 0);
  int d = rt_dim(t, dim);
  rt *shape = rt_view(t);
  shape->n[d] = k;
  rt *values = rt_new(t->nd, shape->n), *indices = rt_like(values);
  for (int64_t i = 0; i < t->numel; i++) {
    int64_t at[RT_RANK] = {0}, rank = rank_of(t, d, i, descending);
    rt_unravel(t, i, at);
    double v = *rt_index(t, at);
    int64_t own = at[d];
    at[d] = rank;
    if (rank >= k) continue;
    *rt_index(values, at) = v;
    *rt_index(indices, at) = (double)own;
  }
  if (values_too) ref_out(c, values);
  ref_out(c, indices);
}
static void op_sort(ref_call *c) { first_of(c, ref_i(c, 1), rt_size(ref_t(c, 0), ref_i(c, 1)), ref_i(c, 2), true); }
static void op_sort_stable(ref_call *c) {
  first_of(c, ref_i(c, 2), rt_size(ref_t(c, 0), ref_i(c, 2)), ref_i(c, 3), true);
}
static void op_argsort(ref_call *c) { first_of(c, ref_i(c, 1), rt_size(ref_t(c, 0), ref_i(c, 1)), ref_i(c, 2), false); }
static void op_topk(ref_call *c) { first_of(c, ref_i(c, 2), ref_i(c, 1), ref_i(c, 3), true); }

/* ------------------------------------------------------------------ lists of indices */

typedef struct list {
  rt *index[RT_RANK]; /* one a dim of self; NULL: all of it */
  int nd;             /* of the broadcast index */
  int64_t n[RT_RANK];
  int place; /* where that stands in the result */
  rt *result;
} list;

/* The true elements of a mask as one vector a dim. */
static int from_mask(const ref_arg *arg, int k, int d, list *l) {
  const rt *mask = arg->ts[k];
  int64_t count = 0, at[RT_RANK];
  for (int64_t i = 0; i < mask->numel; i++) count += *rt_at(mask, i) != 0;
  for (int j = 0; j < mask->nd; j++) l->index[d + j] = rt_new(1, &count);
  count = 0;
  for (int64_t i = 0; i < mask->numel; i++) {
    if (*rt_at(mask, i) == 0) continue;
    rt_unravel(mask, i, at);
    for (int j = 0; j < mask->nd; j++) l->index[d + j]->p[count] = (double)at[j];
    count++;
  }
  return mask->nd;
}

/* is_mask: a list of one dim's indices could be told from a mask by its shape only; samples never have 0 and 1
 * alone as indices of a tensor of self's own sizes. */
static bool is_mask(const rt *self, const rt *t, int d) {
  bool same = t->nd > 0 && t->nd + d <= self->nd;
  for (int j = 0; j < t->nd && same; j++) same = t->n[j] == self->n[d + j];
  for (int64_t i = 0; i < t->numel && same; i++) same = *rt_at(t, i) == 0 || *rt_at(t, i) == 1;
  return same;
}

static list list_of(const ref_call *c) {
  const rt *self = ref_t(c, 0);
  const ref_arg *arg = &c->args[1];
  list l = {.nd = 0};
  int d = 0, last = -1;
  bool neighbours = true;
  for (int k = 0; k < arg->n; k++) {
    if (!arg->ts[k]) d++;
    else if (is_mask(self, arg->ts[k], d)) d += from_mask(arg, k, d, &l);
    else l.index[d++] = arg->ts[k];
  }
  for (d = 0; d < self->nd; d++) {
    if (!l.index[d]) continue;
    rt shape = {.nd = l.nd};
    for (int j = 0; j < l.nd; j++) shape.n[j] = l.n[j];
    l.nd = rt_broadcast(&shape, l.index[d], l.n);
    if (last < 0) l.place = d;
    else if (last != d - 1) neighbours = false;
    last = d;
  }
  if (!neighbours) l.place = 0;
  int64_t n[RT_RANK];
  int nd = 0;
  for (d = 0; d < l.place; d++) n[nd++] = self->n[d];
  for (d = 0; d < l.nd; d++) n[nd++] = l.n[d];
  for (d = l.place; d < self->nd; d++)
    if (!l.index[d]) n[nd++] = self->n[d];
  l.result = rt_new(nd, n);
  return l;
}

/* The element of self that element i of the result stands for. */
static double *element_of(const list *l, rt *self, int64_t i) {
  int64_t at[RT_RANK], from[RT_RANK];
  int kept = 0;
  rt_unravel(l->result, i, at);
  for (int d = 0; d < self->nd; d++) {
    if (l->index[d]) {
      rt *wide = rt_expand(l->index[d], l->nd, l->n);
      int64_t k = (int64_t)*rt_index(wide, at + l->place);
      from[d] = k < 0 ? k + self->n[d] : k;
    } else {
      from[d] = at[kept < l->place ? kept : kept + l->nd];
      kept++;
    }
  }
  return rt_index(self, from);
}

static void op_index(ref_call *c) {
  list l = list_of(c);
  rt *self = rt_copy(ref_t(c, 0));
  for (int64_t i = 0; i < l.result->numel; i++) l.result->p[i] = *element_of(&l, self, i);
  ref_out(c, l.result);
}
static void op_index_put(ref_call *c) {
  list l = list_of(c);
  rt *out = rt_copy(ref_t(c, 0)), *values = rt_expand(ref_t(c, 2), l.result->nd, l.result->n);
  for (int64_t i = 0; i < l.result->numel; i++) {
    double *e = element_of(&l, out, i), v = *rt_at(values, i);
    *e = ref_i(c, 3) ? *e + v : v;
  }
  ref_out(c, out);
}
static void op_masked_select(ref_call *c) {
  int64_t n[RT_RANK], count = 0;
  int nd = rt_broadcast(ref_t(c, 0), ref_t(c, 1), n);
  rt *self = rt_expand(ref_t(c, 0), nd, n), *mask = rt_expand(ref_t(c, 1), nd, n);
  for (int64_t i = 0; i < mask->numel; i++) count += *rt_at(mask, i) != 0;
  rt *out = rt_new(1, &count);
  count = 0;
  for (int64_t i = 0; i < mask->numel; i++)
    if (*rt_at(mask, i) != 0) out->p[count++] = *rt_at(self, i);
  ref_out(c, out);
}

const ref_entry ref_sort[] = {
    {"sort", op_sort},
    {"sort.stable", op_sort_stable},
    {"argsort", op_argsort},
    {"topk", op_topk},
    {"index.Tensor", op_index},
    {"index_put", op_index_put},
    {"masked_select", op_masked_select},
    {NULL, NULL},
};

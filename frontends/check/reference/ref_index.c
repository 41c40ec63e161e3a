/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that move elements by index, and the triangles.
 */
#include <string.h>

#include "ref.h"

/* ------------------------------------------------------------------ gather and scatter */

/* The element of t at `index`, with the entry of dim d replaced by the value of an index tensor. */
static double *redirected(const rt *t, const rt *index_tensor, int64_t i, int d, int64_t *index) {
  rt_unravel(index_tensor, i, index);
  index[t->nd ? d : 0] = (int64_t)*rt_at(index_tensor, i);
  return t->nd ? rt_index(t, index) : t->p;
}

static void op_gather(ref_call *c) {
  const rt *self = ref_t(c, 0), *where = ref_t(c, 2);
  rt *out = rt_like(where);
  int64_t index[RT_RANK];
  for (int64_t i = 0; i < out->numel; i++)
    out->p[i] = *redirected(self, where, i, rt_dim(self, ref_i(c, 1)), index);
  ref_out(c, out);
}

/* src NULL: the number. */
static void scatter(ref_call *c, const rt *src, double value, bool add) {
  rt *out = rt_copy(ref_t(c, 0));
  const rt *where = ref_t(c, 2);
  int64_t index[RT_RANK];
  for (int64_t i = 0; i < where->numel; i++) {
    rt_unravel(where, i, index);
    double from = src ? *rt_index(src, index) : value;
    double *to = redirected(out, where, i, rt_dim(out, ref_i(c, 1)), index);
    *to = add ? *to + from : from;
  }
  ref_out(c, out);
}
static void op_scatter_add(ref_call *c) { scatter(c, ref_t(c, 3), 0, true); }
static void op_scatter_src(ref_call *c) { scatter(c, ref_t(c, 3), 0, false); }
static void op_scatter_value(ref_call *c) { scatter(c, NULL, ref_f(c, 3), false); }

static void op_index_select(ref_call *c) {
  const rt *self = ref_t(c, 0), *where = ref_t(c, 2);
  rt *shape = rt_view(self);
  int d = rt_dim(self, ref_i(c, 1));
  if (self->nd) shape->n[d] = where->numel;
  rt *out = rt_new(shape->nd, shape->n);
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t index[RT_RANK];
    rt_unravel(out, i, index);
    if (self->nd) index[d] = (int64_t)*rt_at(where, index[d]);
    out->p[i] = *rt_index(self, index);
  }
  ref_out(c, out);
}

static void op_index_add(ref_call *c) {
  rt *out = rt_copy(ref_t(c, 0));
  const rt *where = ref_t(c, 2), *source = ref_t(c, 3);
  int d = rt_dim(out, ref_i(c, 1));
  for (int64_t i = 0; i < source->numel; i++) {
    int64_t index[RT_RANK];
    rt_unravel(source, i, index);
    if (out->nd) index[d] = (int64_t)*rt_at(where, source->nd ? index[d] : 0);
    *rt_index(out, index) += ref_f(c, 4) * *rt_at(source, i);
  }
  ref_out(c, out);
}

/* (grad, dim, indices, sizes, keepdim): zeros with grad at the selected index of the dim. */
static void op_value_selecting(ref_call *c) {
  rt *out = rt_new(c->args[3].n, c->args[3].ints);
  const rt *grad = ref_t(c, 0), *where = ref_t(c, 2);
  int d = rt_dim(out, ref_i(c, 1));
  for (int64_t i = 0; i < grad->numel; i++) {
    int64_t index[RT_RANK];
    rt_unravel(grad, i, index);
    if (!ref_i(c, 4) && out->nd) memmove(index + d + 1, index + d, (size_t)(out->nd - 1 - d) * sizeof *index);
    index[d] = (int64_t)*rt_at(where, i);
    *rt_index(out, index) += *rt_at(grad, i);
  }
  ref_out(c, out);
}

static void op_one_hot(ref_call *c) {
  const rt *self = ref_t(c, 0);
  rt *shape = rt_view(self);
  int64_t classes = ref_i(c, 1);
  for (int64_t i = 0; i < self->numel && ref_i(c, 1) < 0; i++)
    if (*rt_at(self, i) + 1 > (double)classes) classes = (int64_t)*rt_at(self, i) + 1;
  shape->n[shape->nd++] = classes;
  rt *out = rt_new(shape->nd, shape->n);
  for (int64_t i = 0; i < self->numel; i++) out->p[i * classes + (int64_t)*rt_at(self, i)] = 1;
  ref_out(c, out);
}

/* ------------------------------------------------------------------ putting together */

/* An empty one-dimensional tensor goes with every shape. */
static bool skipped(const rt *t) { return t->nd == 1 && t->n[0] == 0; }

static void op_cat(ref_call *c) {
  const ref_arg *list = &c->args[0];
  const rt *first = list->ts[0];
  for (int k = 0; k < list->n; k++)
    if (!skipped(list->ts[k])) first = list->ts[k];
  rt *shape = rt_view(first);
  int d = rt_dim(first, ref_i(c, 1));
  shape->n[d] = 0;
  for (int k = 0; k < list->n; k++)
    if (!skipped(list->ts[k])) shape->n[d] += list->ts[k]->n[d];
  rt *out = rt_new(shape->nd, shape->n);
  int64_t at = 0, index[RT_RANK];
  for (int k = 0; k < list->n; k++) {
    const rt *t = list->ts[k];
    for (int64_t i = 0; i < t->numel; i++) {
      rt_unravel(t, i, index);
      index[d] += at;
      *rt_index(out, index) = *rt_at(t, i);
    }
    at += skipped(t) ? 0 : t->n[d];
  }
  ref_out(c, out);
}

static void op_stack(ref_call *c) {
  const ref_arg *list = &c->args[0];
  const rt *t = list->ts[0];
  int64_t n[RT_RANK];
  int64_t dim = ref_i(c, 1);
  int at = (int)(dim < 0 ? dim + t->nd + 1 : dim), from = 0;
  for (int d = 0; d <= t->nd; d++) n[d] = d == at ? list->n : t->n[from++];
  rt *out = rt_new(t->nd + 1, n);
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t index[RT_RANK];
    rt_unravel(out, i, index);
    const rt *source = list->ts[index[at]];
    memmove(index + at, index + at + 1, (size_t)(out->nd - at - 1) * sizeof *index);
    out->p[i] = *rt_index(source, index);
  }
  ref_out(c, out);
}

static void op_repeat(ref_call *c) {
  const rt *self = ref_t(c, 0);
  int nd = c->args[1].n, lead = nd - self->nd;
  int64_t n[RT_RANK];
  for (int d = 0; d < nd; d++) n[d] = c->args[1].ints[d] * (d < lead ? 1 : self->n[d - lead]);
  rt *out = rt_new(nd, n);
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t index[RT_RANK], from[RT_RANK];
    rt_unravel(out, i, index);
    for (int d = 0; d < self->nd; d++) from[d] = index[d + lead] % self->n[d];
    out->p[i] = *rt_index(self, from);
  }
  ref_out(c, out);
}

static void op_flip(ref_call *c) {
  const rt *self = ref_t(c, 0);
  rt *out = rt_like(self);
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t index[RT_RANK];
    rt_unravel(out, i, index);
    for (int k = 0; k < c->args[1].n; k++) {
      int d = rt_dim(self, c->args[1].ints[k]);
      index[d] = self->n[d] - 1 - index[d];
    }
    out->p[i] = *rt_index(self, index);
  }
  ref_out(c, out);
}

/* Without dims the elements roll in row-major order. */
static void op_roll(ref_call *c) {
  const rt *self = ref_t(c, 0);
  rt *out = rt_like(self);
  const ref_arg *shifts = &c->args[1], *over = &c->args[2];
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t index[RT_RANK];
    rt_unravel(self, i, index);
    for (int k = 0; k < over->n; k++) {
      int d = rt_dim(self, over->ints[k]);
      index[d] = ((index[d] + shifts->ints[k]) % self->n[d] + self->n[d]) % self->n[d];
    }
    int64_t flat = ((i + (over->n ? 0 : shifts->ints[0])) % self->numel + self->numel) % self->numel;
    *(over->n ? rt_index(out, index) : rt_at(out, flat)) = *rt_at(self, i);
  }
  ref_out(c, out);
}

static void triangle(ref_call *c, bool lower) {
  rt *out = rt_copy(ref_t(c, 0));
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t index[RT_RANK];
    rt_unravel(out, i, index);
    int64_t above = index[out->nd - 1] - index[out->nd - 2] - ref_i(c, 1);
    if (lower ? above > 0 : above < 0) out->p[i] = 0;
  }
  ref_out(c, out);
}
static void op_tril(ref_call *c) { triangle(c, true); }
static void op_triu(ref_call *c) { triangle(c, false); }

const ref_entry ref_index[] = {
    {"gather", op_gather},
    {"scatter_add", op_scatter_add},
    {"scatter.src", op_scatter_src},
    {"scatter.value", op_scatter_value},
    {"index_select", op_index_select},
    {"index_add", op_index_add},
    {"value_selecting_reduction_backward", op_value_selecting},
    {"one_hot", op_one_hot},
    {"cat", op_cat},
    {"stack", op_stack},
    {"repeat", op_repeat},
    {"flip", op_flip},
    {"roll", op_roll},
    {"tril", op_tril},
    {"triu", op_triu},
    {NULL, NULL},
};

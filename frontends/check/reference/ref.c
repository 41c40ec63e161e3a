/* SPDX-License-Identifier: Apache-2.0
 *
 * What all reference functions use: the arena, shapes, maps and folds over doubles, the look-up by name. Plain
 * loops over row-major positions; nothing here is fast, and nothing has a special case that the code under
 * test could have too.
 */
#include "ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ arena */

typedef struct ref_block {
  struct ref_block *next;
  double data[]; /* aligned for doubles */
} ref_block;
static ref_block *blocks;

void *ref_alloc(size_t size_bytes) {
  ref_block *block = calloc(1, sizeof *block + (size_bytes ? size_bytes : 1));
  if (!block) {
    fprintf(stderr, "reference: out of memory\n");
    exit(3);
  }
  block->next = blocks;
  blocks = block;
  return block->data;
}

void ref_reset(void) {
  while (blocks) {
    ref_block *next = blocks->next;
    free(blocks);
    blocks = next;
  }
}

/* ------------------------------------------------------------------ shapes */

rt *rt_new(int nd, const int64_t *n) {
  if (nd > RT_RANK) {
    fprintf(stderr, "reference: rank %d, at most %d\n", nd, RT_RANK);
    exit(3);
  }
  rt *t = ref_alloc(sizeof *t);
  t->nd = nd;
  t->numel = 1;
  for (int d = nd - 1; d >= 0; d--) {
    t->n[d] = n[d];
    t->st[d] = t->numel;
    t->numel *= n[d];
  }
  t->p = ref_alloc((size_t)t->numel * sizeof *t->p);
  return t;
}

rt *rt_like(const rt *t) { return rt_new(t->nd, t->n); }

rt *rt_view(const rt *t) {
  rt *view = ref_alloc(sizeof *view);
  *view = *t;
  return view;
}

rt *rt_copy(const rt *t) {
  rt *copy = rt_like(t);
  for (int64_t i = 0; i < t->numel; i++) copy->p[i] = *rt_at(t, i);
  return copy;
}

rt *rt_fill(rt *t, double value) {
  for (int64_t i = 0; i < t->numel; i++) *rt_at(t, i) = value;
  return t;
}

rt *rt_scalar(double value) { return rt_fill(rt_new(0, NULL), value); }

void rt_unravel(const rt *t, int64_t i, int64_t *index) {
  for (int d = t->nd - 1; d >= 0; d--) {
    index[d] = i % t->n[d];
    i /= t->n[d];
  }
}

double *rt_index(const rt *t, const int64_t *index) {
  int64_t offset = 0;
  for (int d = 0; d < t->nd; d++) offset += index[d] * t->st[d];
  return t->p + offset;
}

double *rt_at(const rt *t, int64_t i) {
  int64_t offset = 0;
  for (int d = t->nd - 1; d >= 0; d--) {
    offset += i % t->n[d] * t->st[d];
    i /= t->n[d];
  }
  return t->p + offset;
}

int rt_dim(const rt *t, int64_t dim) {
  int nd = t->nd ? t->nd : 1;
  return (int)(dim < 0 ? dim + nd : dim);
}

int64_t rt_size(const rt *t, int64_t dim) { return t->nd ? t->n[rt_dim(t, dim)] : 1; }

rt *rt_expand(const rt *t, int nd, const int64_t *n) {
  rt *view = rt_view(t);
  view->nd = nd;
  view->numel = 1;
  for (int d = 0; d < nd; d++) {
    int from = d - (nd - t->nd);
    bool stretched = from < 0 || (t->n[from] == 1 && n[d] != 1 && n[d] != -1);
    view->n[d] = n[d] == -1 ? t->n[from] : n[d];
    view->st[d] = stretched ? 0 : t->st[from];
    view->numel *= view->n[d];
  }
  return view;
}

int rt_broadcast(const rt *a, const rt *b, int64_t *out) {
  int nd = a->nd > b->nd ? a->nd : b->nd;
  for (int d = 0; d < nd; d++) {
    int64_t x = d < nd - a->nd ? 1 : a->n[d - (nd - a->nd)];
    int64_t y = d < nd - b->nd ? 1 : b->n[d - (nd - b->nd)];
    out[d] = x == 1 ? y : x;
  }
  return nd;
}

/* ------------------------------------------------------------------ maps and folds */

rt *rt_map(const rt *a, ref_unary f) {
  rt *out = rt_like(a);
  for (int64_t i = 0; i < out->numel; i++) out->p[i] = f(*rt_at(a, i));
  return out;
}

rt *rt_map2(const rt *a, const rt *b, ref_binary f) {
  int64_t n[RT_RANK];
  int nd = rt_broadcast(a, b, n);
  rt *x = rt_expand(a, nd, n), *y = rt_expand(b, nd, n), *out = rt_new(nd, n);
  for (int64_t i = 0; i < out->numel; i++) out->p[i] = f(*rt_at(x, i), *rt_at(y, i));
  return out;
}

/* Shape of a reduction; kept[d]: dim d stays. */
static rt *fold_result(const rt *t, const bool *kept, bool keepdim) {
  int64_t n[RT_RANK];
  int nd = 0;
  for (int d = 0; d < t->nd; d++) {
    if (kept[d]) n[nd++] = t->n[d];
    else if (keepdim) n[nd++] = 1;
  }
  return rt_new(nd, n);
}

/* Position in the result of a reduction that element i of t goes to. */
static int64_t fold_target(const rt *t, const bool *kept, int64_t i) {
  int64_t index[RT_RANK], target = 0;
  rt_unravel(t, i, index);
  for (int d = 0; d < t->nd; d++)
    if (kept[d]) target = target * t->n[d] + index[d];
  return target;
}

rt *rt_fold(const rt *t, const int64_t *dims, int n_dims, bool keepdim, ref_fold fold, double parameter) {
  bool kept[RT_RANK];
  for (int d = 0; d < t->nd; d++) kept[d] = n_dims > 0;
  for (int k = 0; k < n_dims; k++)
    if (t->nd) kept[rt_dim(t, dims[k])] = false;
  rt *out = fold_result(t, kept, keepdim);
  double *group = ref_alloc((size_t)t->numel * sizeof *group);
  for (int64_t o = 0; o < out->numel; o++) {
    int64_t count = 0;
    for (int64_t i = 0; i < t->numel; i++)
      if (fold_target(t, kept, i) == o) group[count++] = *rt_at(t, i);
    out->p[o] = fold(group, count, parameter);
  }
  return out;
}

static double sum(const double *v, int64_t n, double parameter) {
  double total = 0;
  for (int64_t i = 0; i < n; i++) total += v[i];
  return total;
}

rt *rt_reduction(rt *t, int64_t reduction) {
  if (reduction == 0) return t;
  rt *out = rt_fold(t, NULL, 0, false, sum, 0);
  if (reduction == 1) out->p[0] /= (double)t->numel;
  return out;
}

bool ref_is_int(double dtype) { return dtype >= TN_BOOL && dtype <= TN_INT64; }

/* ------------------------------------------------------------------ look-up */

ref_fn ref_find(const char *op) {
  static const ref_entry *const families[] = {ref_create, ref_view, ref_elementwise, ref_reduce, ref_linalg, ref_factor,
                                              ref_nn,     ref_index, ref_optim, ref_attention, ref_sort, ref_norm, ref_loss, ref_pool, ref_conv};
  for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
    for (const ref_entry *entry = families[f]; entry->op; entry++)
      if (strcmp(entry->op, op) == 0) return entry->fn;
  return ref_has_expression(op) ? ref_expression : NULL;
}

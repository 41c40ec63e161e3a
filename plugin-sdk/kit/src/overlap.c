/* SPDX-License-Identifier: Apache-2.0
 *
 * Do views share memory? The cheap answers come first (other storage, disjoint ranges, dense views, nested
 * strides); what is left is a linear equation in bounded integers, searched exactly within a budget.
 *
 * Note [Overlap as an equation]
 * Two views share a byte if sum(x[k] * step[k]) = target has a solution with 0 <= x[k] <= last[k], where
 * the terms are the dims of both (those of the second negated) and, if the elements are not aligned to each
 * other, the bytes inside an element. A view overlaps itself if the differences of two indices have a
 * solution other than zero. Sorted by step, most such equations are decided in as many steps as there are
 * terms; adversarial ones (it is a knapsack) exhaust the budget and are answered TN_OVERLAP_UNKNOWN.
 */
#include <tenon/kit/shape.h>

enum { MAX_TERMS = 2 * TN_MAX_RANK + 2, BUDGET = 20000 };

typedef struct equation {
  uint32_t n;
  bool too_large; /* a number left 64 bits */
  int64_t target;
  int64_t step[MAX_TERMS];      /* > 0, descending once sorted */
  int64_t last[MAX_TERMS];      /* > 0 */
  int64_t reach[MAX_TERMS + 1]; /* largest sum of the terms from k on */
  int64_t gcd[MAX_TERMS + 1];   /* of the steps from k on */
} equation;

static void add_to(equation *e, int64_t *sum, int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(*sum, product, sum))
    e->too_large = true;
}

/* x * step with 0 <= x <= last; a negative step counts down from last. Equal steps are one term. */
static void add_term(equation *e, int64_t step, int64_t last) {
  if (step == 0 || last <= 0) return;
  if (step == INT64_MIN) {
    e->too_large = true;
    return;
  }
  if (step < 0) {
    step = -step;
    add_to(e, &e->target, step, last);
  }
  uint32_t at = 0;
  while (at < e->n && e->step[at] > step) at++;
  if (at < e->n && e->step[at] == step) {
    add_to(e, &e->last[at], last, 1);
    return;
  }
  for (uint32_t k = e->n++; k > at; k--) {
    e->step[k] = e->step[k - 1];
    e->last[k] = e->last[k - 1];
  }
  e->step[at] = step;
  e->last[at] = last;
}

static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

static void bound(equation *e) {
  e->reach[e->n] = 0;
  e->gcd[e->n] = 0;
  for (uint32_t k = e->n; k-- > 0;) {
    e->reach[k] = e->reach[k + 1];
    add_to(e, &e->reach[k], e->step[k], e->last[k]);
    e->gcd[k] = greatest_divisor(e->step[k], e->gcd[k + 1]);
  }
}

/* The smallest and largest x[k] from which the later terms can still make up the rest. */
static bool range_of(const equation *e, uint32_t k, int64_t rest, int64_t *lo, int64_t *hi) {
  if (rest < 0 || rest > e->reach[k] || rest % e->gcd[k] != 0) return false;
  int64_t short_by = rest - e->reach[k + 1];
  *lo = short_by > 0 ? (short_by - 1) / e->step[k] + 1 : 0;
  *hi = rest / e->step[k];
  if (*hi > e->last[k]) *hi = e->last[k];
  return *lo <= *hi;
}

/* Counts solutions up to `wanted`; -1 if the budget ran out first. */
static int count_solutions(equation *e, int wanted) {
  int64_t rest[MAX_TERMS + 1], x[MAX_TERMS], hi[MAX_TERMS];
  int found = 0;
  bound(e);
  if (e->too_large) return -1;
  if (e->n == 0) return e->target == 0;
  rest[0] = e->target;
  uint32_t k = 0;
  if (!range_of(e, 0, rest[0], &x[0], &hi[0])) return 0;
  for (int steps = 0; steps < BUDGET; steps++) {
    if (x[k] > hi[k]) { /* this level is exhausted: back */
      if (k == 0) return found;
      x[--k]++;
      continue;
    }
    rest[k + 1] = rest[k] - x[k] * e->step[k];
    if (k + 1 == e->n) {
      if (rest[k + 1] == 0 && ++found == wanted) return found;
      x[k]++;
    } else if (range_of(e, k + 1, rest[k + 1], &x[k + 1], &hi[k + 1])) {
      k++;
    } else {
      x[k]++;
    }
  }
  return -1;
}

/* ------------------------------------------------------------------ one view */

/* Every stride is beyond the reach of all smaller ones: no two indices meet. */
static bool strides_nest(const equation *differences) {
  int64_t reach = 0;
  for (uint32_t k = differences->n; k-- > 0;) {
    if (differences->step[k] <= reach) return false;
    int64_t product;
    if (__builtin_mul_overflow(differences->step[k], differences->last[k] / 2, &product) ||
        __builtin_add_overflow(reach, product, &reach)) {
      return false;
    }
  }
  return true;
}

int tn_view_self_overlap(const tn_view *view) {
  if (view->numel <= 1 || view->flags & (TN_VIEW_DENSE | TN_VIEW_CONTIGUOUS | TN_VIEW_OPAQUE)) {
    return TN_OVERLAP_NONE;
  }
  equation e;
  e.n = 0;
  e.too_large = false;
  e.target = 0;
  uint32_t dims = 0;
  for (uint32_t d = 0; d < view->ndim; d++) {
    int64_t last = view->sizes[d] - 1, stride = view->strides[d];
    if (last == 0) continue;
    if (stride == 0) return TN_OVERLAP_PARTIAL;
    stride = stride < 0 ? -stride : stride;
    dims++;
    add_term(&e, stride, 2 * last);
    add_to(&e, &e.target, stride, last);
  }
  if (e.n < dims) return TN_OVERLAP_PARTIAL; /* equal strides: [0,1] and [1,0] meet */
  if (strides_nest(&e)) return TN_OVERLAP_NONE;
  int solutions = count_solutions(&e, 2); /* one is the zero difference */
  return solutions < 0 ? TN_OVERLAP_UNKNOWN : solutions == 2 ? TN_OVERLAP_PARTIAL : TN_OVERLAP_NONE;
}

/* ------------------------------------------------------------------ two views */

void tn_view_byte_range(const tn_view *view, int64_t *out_begin, int64_t *out_end) {
  int64_t begin = 0, end = 0;
  if (view->numel > 0) {
    end = view->itemsize;
    for (uint32_t d = 0; d < view->ndim; d++) {
      int64_t span = (view->sizes[d] - 1) * view->strides[d] * view->itemsize;
      if (span < 0)
        begin += span;
      else
        end += span;
    }
  }
  *out_begin = begin;
  *out_end = end;
}

/* Bytes from a's first element to b's; false if they lie in memories that have nothing in common. Addresses
 * win over handles: one memory may have been imported twice. */
static bool distance(const tn_view *a, const tn_view *b, int64_t *out_bytes) {
  if (a->backend != b->backend || a->device_index != b->device_index) return false;
  if (a->data && b->data) {
    *out_bytes = (int64_t)((uintptr_t)b->data - (uintptr_t)a->data);
    return true;
  }
  bool same = a->storage ? a->storage == b->storage : false;
  if (!same && !(a->mem != 0 && a->mem == b->mem)) return false;
  *out_bytes = b->offset_bytes - a->offset_bytes;
  return true;
}

static bool same_geometry(const tn_view *a, const tn_view *b) {
  if (a->ndim != b->ndim || a->itemsize != b->itemsize) return false;
  for (uint32_t d = 0; d < a->ndim; d++) {
    if (a->sizes[d] != b->sizes[d] || (a->sizes[d] != 1 && a->strides[d] != b->strides[d])) return false;
  }
  return true;
}

static bool elements_meet(const tn_view *a, const tn_view *b, int64_t bytes, bool *out_unknown) {
  bool aligned = a->itemsize == b->itemsize && bytes % a->itemsize == 0;
  int64_t unit_a = aligned ? 1 : a->itemsize, unit_b = aligned ? 1 : b->itemsize;
  equation e;
  e.n = 0;
  e.too_large = false;
  e.target = aligned ? bytes / a->itemsize : bytes;
  for (uint32_t d = 0; d < a->ndim; d++) add_term(&e, a->strides[d] * unit_a, a->sizes[d] - 1);
  for (uint32_t d = 0; d < b->ndim; d++) add_term(&e, -b->strides[d] * unit_b, b->sizes[d] - 1);
  add_term(&e, 1, unit_a - 1);
  add_term(&e, -1, unit_b - 1);
  int solutions = count_solutions(&e, 1);
  *out_unknown = solutions < 0;
  return solutions != 0;
}

int tn_view_overlap(const tn_view *a, const tn_view *b) {
  int64_t bytes, begin_a, end_a, begin_b, end_b;
  if ((a->flags | b->flags) & TN_VIEW_OPAQUE) {
    return a->storage && a->storage == b->storage ? TN_OVERLAP_EXACT : TN_OVERLAP_NONE;
  }
  if (a->numel == 0 || b->numel == 0 || !distance(a, b, &bytes)) return TN_OVERLAP_NONE;
  if (bytes == 0 && same_geometry(a, b)) return TN_OVERLAP_EXACT;
  tn_view_byte_range(a, &begin_a, &end_a);
  tn_view_byte_range(b, &begin_b, &end_b);
  if (bytes >= end_a - begin_b || bytes <= begin_a - end_b) return TN_OVERLAP_NONE;
  uint32_t filled = TN_VIEW_DENSE | TN_VIEW_CONTIGUOUS;
  if (a->flags & filled && b->flags & filled) return TN_OVERLAP_PARTIAL;
  bool unknown;
  if (!elements_meet(a, b, bytes, &unknown)) return TN_OVERLAP_NONE;
  return unknown ? TN_OVERLAP_UNKNOWN : TN_OVERLAP_PARTIAL;
}

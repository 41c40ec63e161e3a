/* SPDX-License-Identifier: Apache-2.0
 *
 * What a schema declares of memory, held against one call: which arguments are written, what results share, and that the
 * defaults are what a caller who leaves them out gets.
 */
#include <stdlib.h>

#include "frontends/check/opcheck.h"
#include "frontends/check/tools.h"

/* ------------------------------------------------------------------ a call, and what was there before it */

typedef struct memory {
  unsigned char *bytes; /* owned */
  size_t size;
  uint32_t version;
} memory;

typedef struct watched {
  tni_ops_case c;
  tni_ops_results r;
  memory before[TNI_OPS_TENSORS];
} watched;

static void release(watched *w) {
  tni_ops_results_release(&w->r);
  for (size_t i = 0; i < w->c.n_tensors; i++) free(w->before[i].bytes);
  tni_ops_case_release(&w->c);
}

static bool call(tni_ops_try *t, watched *w) {
  *w = (watched){0};
  tn_status status = tni_ops_case_make(&w->c, t->op, t->sample, t->dtype, t->device, TNI_OPS_CONTIGUOUS);
  if (!tni_check_ok(t->r, status, t->item, "its arguments cannot be made")) return false;
  for (size_t i = 0; i < w->c.n_tensors; i++) {
    w->before[i].bytes = tni_ops_bytes(w->c.tensors[i], &w->before[i].size);
    w->before[i].version = tni_ops_version(w->c.tensors[i]);
  }
  if (tni_check_ok(t->r, tni_ops_call(&w->c, t->op, &w->r), t->item, "failed")) return true;
  release(w);
  return false;
}

/* The argument that tensor k of the case belongs to. */
static uint32_t argument_of(const tni_ops_case *c, size_t k) {
  for (uint32_t i = 0; i < c->n_args; i++) {
    const tn_value *v = &c->args[i];
    if (v->kind == TN_VAL_TENSOR && v->u.t == c->tensors[k]) return i;
    for (uint32_t j = 0; v->kind == TN_VAL_LIST && v->elem == TN_VAL_TENSOR && j < v->count; j++)
      if (v->u.ts[j] == c->tensors[k]) return i;
  }
  return 0;
}

/* ------------------------------------------------------------------ arguments */

static bool argument_good(tni_ops_try *t, watched *w, size_t k) {
  tn_tensor *tensor = w->c.tensors[k];
  uint32_t i = argument_of(&w->c, k), steps = tni_ops_version(tensor) - w->before[k].version;
  const char *name = t->op->schema->args[i].name;
  bool may_write = t->op->writes >> i & 1;
  size_t size;
  unsigned char *now = tni_ops_bytes(tensor, &size);
  bool same = now && w->before[k].bytes && size == w->before[k].size && !memcmp(now, w->before[k].bytes, size);
  free(now);
  if (!may_write && !same)
    tni_check_fail(t->r, t->item, "argument '%s' was written; the schema does not mark it (x!): %s", name, t->op->report.schema);
  else if (!may_write && steps)
    tni_check_fail(t->r, t->item, "the version of argument '%s' moved by %u; the schema does not mark it (x!)", name, steps);
  else if (may_write && steps != 1)
    tni_check_fail(t->r, t->item, "the version of the written argument '%s' moved by %u, not by 1", name, steps);
  else
    return true;
  return false;
}

void tni_opcheck_arguments(tni_ops_try *t) {
  watched w;
  if (!call(t, &w)) return;
  bool good = true;
  for (size_t k = 0; k < w.c.n_tensors && good; k++) good = argument_good(t, &w, k);
  if (good) tni_check_pass(t->r, t->item);
  release(&w);
}

/* ------------------------------------------------------------------ aliases */

static bool share(const tn_tensor *a, const tn_tensor *b) {
  return tn_tensor_numel(a) && tn_tensor_numel(b) && tn_tensor_view(a)->storage == tn_tensor_view(b)->storage;
}

/* Results that are views share with the argument of their set; results without a set share with nobody. Operators that may
 * return their input (`reshape`) may do either: TN_OP_ALWAYS_BODY says so. */
static bool alias_good(tni_ops_try *t, const watched *w, uint32_t i) {
  const tni_schema *s = t->op->schema;
  const tn_tensor *result = w->r.t[i];
  uint8_t set = s->results[t->op->list_result ? 0 : i].alias;
  bool shares_own = false;
  for (size_t k = 0; result && k < w->c.n_tensors; k++) {
    if (!share(result, w->c.tensors[k])) continue;
    const tni_arg *a = &s->args[argument_of(&w->c, k)];
    if (t->op->report.flags & TN_OP_ALWAYS_BODY) continue;
    if (set && a->alias == set) shares_own = true;
    else {
      tni_check_fail(t->r, t->item, "result %u shares the memory of argument '%s'; the schema does not say so: %s", i, a->name,
                     t->op->report.schema);
      return false;
    }
  }
  for (uint32_t k = 0; result && !set && k < i; k++) {
    if (!w->r.t[k] || !share(result, w->r.t[k])) continue;
    tni_check_fail(t->r, t->item, "results %u and %u share memory; the schema does not say so", k, i);
    return false;
  }
  bool must = result && set && t->op->report.flags & TN_OP_VIEW && tn_tensor_numel(result);
  if (must && !shares_own)
    tni_check_fail(t->r, t->item, "result %u is a view by its flag and its schema, and has memory of its own", i);
  return !must || shares_own;
}

void tni_opcheck_aliases(tni_ops_try *t) {
  watched w;
  if (!call(t, &w)) return;
  bool good = true;
  for (uint32_t i = 0; i < w.r.n && good; i++) good = alias_good(t, &w, i);
  if (good) tni_check_pass(t->r, t->item);
  release(&w);
}

/* ------------------------------------------------------------------ defaults */

static uint32_t given_arguments(const tni_ops_try *t) {
  uint32_t n = t->sample->n_args;
  while (n && t->sample->args[n - 1].kind == TN_SAMPLE_DEFAULT && t->op->schema->args[n - 1].has_default) n--;
  return n;
}

static bool same_results(const tni_ops_results *a, const tni_ops_results *b) {
  bool same = a->n == b->n;
  for (uint32_t i = 0; same && i < a->n; i++) {
    size_t x_size = 0, y_size = 0;
    unsigned char *x = a->t[i] ? tni_ops_bytes(a->t[i], &x_size) : NULL;
    unsigned char *y = b->t[i] ? tni_ops_bytes(b->t[i], &y_size) : NULL;
    same = !a->t[i] == !b->t[i] && x_size == y_size && !memcmp(x ? x : (void *)"", y ? y : (void *)"", x_size);
    free(x);
    free(y);
  }
  return same;
}

void tni_opcheck_defaults(tni_ops_try *t) {
  watched w;
  tni_ops_case shorter;
  tni_ops_results r;
  uint32_t n = given_arguments(t);
  if (n == t->sample->n_args || t->op->writes || t->op->report.flags & (TN_OP_FACTORY | TN_OP_NO_KERNEL)) return;
  if (!call(t, &w)) return;
  shorter = w.c;
  shorter.n_args = n;
  if (tni_check_ok(t->r, tni_ops_call(&shorter, t->op, &r), t->item, "without the arguments that have defaults")) {
    tni_check_that(t->r, same_results(&w.r, &r), t->item, "with its defaults given and with them left out: other results");
    tni_ops_results_release(&r);
  }
  release(&w);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward against the float64 reference; arguments that the schema does not mark as written stay as they
 * were; a view shares its argument's memory and nothing else does.
 */
#include <stdio.h>
#include <tenon/tenon.h>

#include "case.h"

/* The reference changed its own copies of written arguments; all others must be as before. */
static void compare_arguments(const op_case *c, const ref_arg *args, double tolerance) {
  char what[64];
  for (uint32_t i = 0; i < c->n_args; i++) {
    const tn_value *v = &c->args[i];
    double allowed = c->op->write_args & TNI_KEY(i) ? tolerance : 0;
    snprintf(what, sizeof what, "argument %s afterwards", c->op->schema->args[i].name);
    if (v->kind == TN_VAL_TENSOR && !compare(c, what, v->u.t, args[i].t, allowed)) return;
    if (v->kind != TN_VAL_LIST || v->elem != TN_VAL_TENSOR) continue;
    for (uint32_t k = 0; k < v->count; k++)
      if (v->u.ts[k] && !compare(c, what, v->u.ts[k], args[i].ts[k], allowed)) return;
  }
}

/* True if t is over the memory of one of the arguments. */
static bool shares(const op_case *c, const tn_tensor *t) {
  for (size_t i = 0; i < c->n_tensors; i++)
    if (tn_tensor_numel(t) && tn_tensor_view(c->tensors[i])->storage == tn_tensor_view(t)->storage) return true;
  return false;
}

static void check_aliases(const op_case *c, const op_results *r) {
  for (uint32_t i = 0; i < r->n; i++) {
    if (!r->t[i] || tn_tensor_numel(r->t[i]) == 0 || c->op->flags & TN_OP_ALWAYS_BODY) continue;
    bool view = c->op->flags & TN_OP_VIEW;
    if (view && !shares(c, r->t[i])) finding(c, "result %u of a view operator does not share self's memory", i);
    if (!view && shares(c, r->t[i])) finding(c, "result %u shares an argument's memory", i);
    if (view && tn_tensor_base(r->t[i]) != c->args[0].u.t) finding(c, "self is not the base of result %u", i);
  }
}

static void compare_results(const op_case *c, const op_results *r, const ref_call *call, double tolerance) {
  char what[32];
  if ((int)r->n != call->n_out) {
    finding(c, "%u results, the reference has %d", r->n, call->n_out);
    return;
  }
  for (uint32_t i = 0; i < r->n; i++) {
    snprintf(what, sizeof what, "result %u", i);
    if (!compare(c, what, r->t[i], call->out[i], tolerance)) return;
  }
}

void check_forward(const tn_op *op, const tn_sample *sample, tn_dtype dtype) {
  op_case c;
  op_results r;
  ref_call call;
  ref_arg args[CASE_ARGS];
  ref_fn reference = ref_find(op->name);
  if (!reference) return; /* the coverage test names it */
  case_build(&c, op, sample, dtype, CASE_CPU);
  case_reference(&c, &call, args);
  tn_status status = case_call(&c, op, &r);
  if (status == TN_OK) {
    double tolerance = case_tolerance(&c, &r);
    reference(&call);
    compare_results(&c, &r, &call, tolerance);
    compare_arguments(&c, args, tolerance);
    check_aliases(&c, &r);
    results_release(&r);
  } else if (!may_decline(op, dtype, status)) {
    finding(&c, "failed with %d: %s", (int)status, tn_error_message());
  }
  case_release(&c);
}

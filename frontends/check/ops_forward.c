/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.forward: what every claimed kernel gives, against the float64 reference, on the samples of its operator:
 * contiguous, transposed, sliced, flipped, broadcast, empty and 0-d ones. Arguments that the schema does not mark as
 * written stay as they were.
 */
#include <stdio.h>

#include "frontends/check/opcheck.h"

/* The reference changed its own copies of written arguments; all others must be as before. */
static bool arguments_good(tni_ops_try *t, const tni_ops_case *c, const ref_arg *args, double tolerance) {
  char what[80];
  for (uint32_t i = 0; i < c->n_args; i++) {
    const tn_value *v = &c->args[i];
    double allowed = t->op->writes >> i & 1 ? tolerance : 0;
    snprintf(what, sizeof what, "argument %s afterwards", t->op->schema->args[i].name);
    if (v->kind == TN_VAL_TENSOR && !tni_ops_judge(t, what, v->u.t, args[i].t, allowed)) return false;
    if (v->kind != TN_VAL_LIST || v->elem != TN_VAL_TENSOR) continue;
    for (uint32_t k = 0; k < v->count; k++)
      if (v->u.ts[k] && !tni_ops_judge(t, what, v->u.ts[k], args[i].ts[k], allowed)) return false;
  }
  return true;
}

static bool results_good(tni_ops_try *t, const tni_ops_results *r, const ref_call *call, double tolerance) {
  char what[32];
  if ((int)r->n != call->n_out) {
    tni_check_fail(t->r, t->item, "%u results, the reference has %d", r->n, call->n_out);
    return false;
  }
  for (uint32_t i = 0; i < r->n; i++) {
    snprintf(what, sizeof what, "result %u", i);
    if (!tni_ops_judge(t, what, r->t[i], call->out[i], tolerance)) return false;
  }
  return true;
}

static void compare(tni_ops_try *t, tni_ops_case *c, ref_fn reference) {
  ref_call call;
  ref_arg args[TNI_OPS_ARGS];
  tni_ops_results r;
  if (!tni_ops_reference(c, &call, args)) {
    tni_check_fail(t->r, t->item, "an argument cannot be read back: %s", tn_error_message());
    return;
  }
  tn_status status = tni_ops_call(c, t->op, &r);
  if (status != TN_OK) {
    tni_ops_judge_failure(t, status);
    return;
  }
  double tolerance = tni_ops_tolerance(c, &r);
  reference(&call);
  if (results_good(t, &r, &call, tolerance) && arguments_good(t, c, args, tolerance)) tni_check_pass(t->r, t->item);
  tni_ops_results_release(&r);
}

void tni_ops_try_forward(tni_ops_try *t) {
  tni_ops_case c;
  ref_fn reference = ref_find(t->op->report.functional);
  if (!reference) {
    tni_check_skip(t->r, t->item, "the operator has no reference; ops.opcheck looks at what it declares");
    return;
  }
  if (!tni_check_ok(t->r, tni_ops_case_make(&c, t->op, t->sample, t->dtype, t->device, TNI_OPS_AS_SAMPLE), t->item,
                    "its arguments cannot be made"))
    return;
  compare(t, &c, reference);
  tni_ops_case_release(&c);
}

static void run(tni_check_report *r, const tni_check_context *c) { tni_ops_each(r, c, TN_DTYPES_ALL, tni_ops_try_forward); }

const tni_check tni_check_ops_forward = {"ops.forward", "every claimed kernel gives what the float64 reference gives",
                                         TNI_CHECK_KERNELS, 120, run};

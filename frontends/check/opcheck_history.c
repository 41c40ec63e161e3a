/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operator leaves behind for backward. The failure that nobody notices is a gradient that is lost in silence: a
 * result that requires none although an argument does and the operator does not say that it never will.
 */
#include "frontends/check/opcheck.h"

static bool is_floating(const tn_tensor *t) { return TN_DTYPES_FLOAT & TN_DTYPE_BIT(tn_tensor_dtype(t)); }

/* Floating arguments that a gradient is declared for, now requiring one; how many. Written ones are left alone: leaves
 * that require grad may not be written. */
static tn_status require_grad(const tni_ops_try *t, tni_ops_case *c, size_t *out_n) {
  *out_n = 0;
  for (uint32_t i = 0; i < c->n_args; i++) {
    const tn_value *v = &c->args[i];
    if (t->op->report.has_formula && !(t->op->report.grad_args >> i & 1)) continue;
    if (t->op->writes >> i & 1 || v->kind != TN_VAL_TENSOR || !is_floating(v->u.t)) continue;
    TN_TRY(tn_set_requires_grad(v->u.t, true));
    (*out_n)++;
  }
  return TN_OK;
}

/* Neither formula nor body: the result has a node that raises. */
static void expect_refusal(tni_ops_try *t, tn_tensor *result) {
  tn_tensor *seed = NULL;
  tn_status status = tn_ones_like(result, NULL, TN_MEMORY_FORMAT_NONE, &seed);
  if (status == TN_OK) status = tn_backward_run(result, seed);
  tn_tensor_release(seed);
  tni_check_that(t->r, status == TN_ERR_NOT_DIFFERENTIABLE, t->item,
                 "it has no gradient and does not say so; backward answered %s, \"not differentiable\" was expected",
                 tn_status_name(status));
}

static void judge(tni_ops_try *t, const tni_ops_results *r) {
  const tn_op_report *report = &t->op->report;
  bool never = report->flags & TN_OP_NONDIFF;
  for (uint32_t i = 0; i < r->n; i++) {
    if (!r->t[i] || !is_floating(r->t[i]) || tn_tensor_numel(r->t[i]) == 0) continue;
    bool has = tn_requires_grad(r->t[i]), none = never || report->nondiff_outs >> i & 1;
    if (has && none) {
      tni_check_fail(t->r, t->item, "result %u requires grad; the operator says that it never does", i);
      return;
    }
    if (!has && !none) {
      tni_check_fail(t->r, t->item, "an argument requires grad and result %u does not: its gradient is lost in silence; give "
                     "a gradient, or say that there is none", i);
      return;
    }
    if (has && !report->has_formula && !report->has_body) {
      expect_refusal(t, r->t[i]);
      return;
    }
  }
  tni_check_pass(t->r, t->item);
}

void tni_opcheck_history(tni_ops_try *t) {
  tni_ops_case c;
  tni_ops_results r;
  size_t n;
  if (t->op->writes) return;
  tn_status status = tni_ops_case_make(&c, t->op, t->sample, t->dtype, t->device, TNI_OPS_CONTIGUOUS);
  if (!tni_check_ok(t->r, status, t->item, "its arguments cannot be made")) return;
  status = require_grad(t, &c, &n);
  if (n && tni_check_ok(t->r, status, t->item, "requires_grad") &&
      tni_check_ok(t->r, tni_ops_call(&c, t->op, &r), t->item, "with an argument that requires grad")) {
    judge(t, &r);
    tni_ops_results_release(&r);
  }
  tni_ops_case_release(&c);
}

static void compare_gradients(tni_ops_try *t, bool second) {
  bool tried;
  tn_status status = tni_ops_gradcheck(t->op, t->sample, TN_FLOAT64, t->device, second, &tried);
  if (status == TN_OK && tried) tni_check_pass(t->r, t->item);
  else if (second && status == TN_ERR_NOT_DIFFERENTIABLE)
    tni_check_skip(t->r, t->item, "its gradient is not differentiable, and says so: %s", tn_error_message());
  else if (status == TN_ERR_MISSING_KERNEL)
    tni_check_skip(t->r, t->item, "its gradient needs more than the device has: %s", tn_error_message());
  else
    tni_check_ok(t->r, status, t->item, "gradients");
}

void tni_opcheck_gradient(tni_ops_try *t) { compare_gradients(t, false); }
void tni_opcheck_second_gradient(tni_ops_try *t) { compare_gradients(t, true); }

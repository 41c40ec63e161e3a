/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.forms: in-place and out forms give what the functional form gives, on the plugin's kernels. An in-place form
 * whose result does not fit self is refused and leaves it as it was; an out form writes through its target's own
 * strides. A target that partly overlaps an input is refused; the input itself as target gives the same result or is
 * refused, never another one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "frontends/check/opcheck.h"

static bool same_sizes(const tn_tensor *a, const tn_tensor *b) {
  if (tn_tensor_ndim(a) != tn_tensor_ndim(b)) return false;
  for (int d = 0; d < tn_tensor_ndim(a); d++)
    if (tn_tensor_sizes(a)[d] != tn_tensor_sizes(b)[d]) return false;
  return true;
}

static int category(tn_dtype dtype) { return dtype == TN_BOOL ? 0 : dtype <= TN_INT64 ? 1 : 2; }

/* A kernel may decline a form, say a target with gaps; that nobody else serves it is no wrong result. */
static bool failed(tni_ops_try *t, const tni_ops_op *form, tn_status status) {
  if (status == TN_ERR_MISSING_KERNEL)
    tni_check_skip(t->r, t->item, "its kernel declines the form, and nobody else serves it: %s", tn_error_message());
  else
    tni_check_fail(t->r, t->item, "%s failed: %s", form->report.name, tn_error_message());
  return false;
}

/* ------------------------------------------------------------------ in place */

/* c: contiguous arguments; expected: the functional form's result on the same ones. */
static bool inplace_good(tni_ops_try *t, const tni_ops_op *form, tni_ops_case *c, tn_tensor *expected) {
  tni_ops_results r;
  tn_tensor *self = c->args[0].u.t;
  const rt *before = tni_ops_read(self), *wanted = tni_ops_read(expected);
  bool fits = same_sizes(self, expected) && category(tn_tensor_dtype(expected)) <= category(tn_tensor_dtype(self));
  uint32_t version = tni_ops_version(self);
  if (!before || !wanted) return failed(t, form, TN_ERR_STATE);
  tn_status status = tni_ops_call(c, form, &r);
  uint32_t steps = tni_ops_version(self) - version;
  if (status != TN_OK && fits) return failed(t, form, status);
  if (status == TN_OK && !same_sizes(self, expected)) {
    tni_check_fail(t->r, t->item, "%s accepted a result of another shape", form->report.name);
    return false;
  }
  if (fits && steps != 1) {
    tni_check_fail(t->r, t->item, "%s moved self's version by %u, not by 1", form->report.name, steps);
    return false;
  }
  if (fits) return tni_ops_judge(t, form->report.name, self, wanted, tni_ops_tolerance(c, NULL));
  return status == TN_OK || tni_ops_judge(t, "self after a refused in-place call", self, before, 0);
}

static bool try_inplace(tni_ops_try *t, const tni_ops_op *form) {
  tni_ops_case c;
  tni_ops_results r;
  bool good = true;
  tn_status made = tni_ops_case_make(&c, t->op, t->sample, t->dtype, t->device, TNI_OPS_CONTIGUOUS);
  if (made != TN_OK) return failed(t, form, made);
  if (c.args[0].kind == TN_VAL_TENSOR && tni_ops_call(&c, t->op, &r) == TN_OK) {
    good = r.n == 0 || !r.t[0] || inplace_good(t, form, &c, r.t[0]);
    tni_ops_results_release(&r);
  }
  tni_ops_case_release(&c);
  return good;
}

/* ------------------------------------------------------------------ out= */

static tn_options like(const tn_tensor *t) {
  return (tn_options){.dtype = tn_tensor_dtype(t), .has_device = true, .device = tn_tensor_device(t)};
}

/* A target of the result's dtype: empty, to be resized; or of its shape with the last two dims swapped in memory. */
static tn_status new_target(const tn_tensor *result, bool empty, tn_tensor **out) {
  int nd = tn_tensor_ndim(result);
  tn_dim strides[RT_RANK], none = 0, total = 1;
  tn_options options = like(result);
  if (empty) return tn_empty(&none, 1, &options, TN_MEMORY_FORMAT_NONE, out);
  for (int k = nd - 1; k >= 0; k--) {
    int d = nd >= 2 && k >= nd - 2 ? 2 * nd - 3 - k : k;
    strides[d] = total;
    total *= tn_tensor_sizes(result)[d];
  }
  return tn_empty_strided(tn_tensor_sizes(result), (size_t)nd, strides, (size_t)nd, &options, out);
}

static bool out_good(tni_ops_try *t, const tni_ops_op *form, tni_ops_case *c, tn_tensor *expected, bool empty) {
  tni_ops_results r;
  tn_tensor *target = NULL;
  const rt *wanted = tni_ops_read(expected);
  if (!wanted || new_target(expected, empty, &target) != TN_OK) return failed(t, form, TN_ERR_STATE);
  const void *storage = tn_tensor_view(target)->storage;
  c->args[c->n_args] = tn_value_tensor(target);
  tn_status status = tni_ops_call(c, form, &r);
  bool good = status == TN_OK || failed(t, form, status);
  good = good && tni_ops_judge(t, form->report.name, target, wanted, tni_ops_tolerance(c, NULL));
  if (good && !empty && tn_tensor_view(target)->storage != storage) {
    tni_check_fail(t->r, t->item, "%s gave the target other memory", form->report.name);
    good = false;
  }
  tn_tensor_release(target);
  return good;
}

/* Operators of a body alone compute into memory of their own first, so that overlap is harmless and allowed. */
static bool refuses_overlap(const tni_ops_op *op) { return op->report.has_meta; }

/* The first tensor argument is moved into memory with one element more, and the target begins at that one. */
static bool overlap_good(tni_ops_try *t, const tni_ops_op *form, tni_ops_case *c, const tn_tensor *result) {
  tn_tensor *base = NULL, *input = NULL, *target = NULL, *self = c->args[0].u.t;
  tn_dim strides[RT_RANK], length = tn_tensor_numel(self) + 1, total = 1;
  const int64_t zero = 0, one = 1;
  tni_ops_results r;
  int nd = tn_tensor_ndim(self);
  if (!refuses_overlap(t->op) || !same_sizes(self, result)) return true;
  if (tn_tensor_dtype(self) != tn_tensor_dtype(result) || length < 3) return true;
  for (int d = nd - 1; d >= 0; d--) strides[d] = total, total *= tn_tensor_sizes(self)[d];
  tn_options options = like(self);
  void *zeros = calloc((size_t)length, tn_tensor_view(self)->itemsize); /* no operator: the device may have no such kernel */
  bool good = zeros && tn_tensor_from_host(zeros, &length, 1, &options, &base) == TN_OK;
  free(zeros);
  good = good && tn_as_strided(base, tn_tensor_sizes(self), (size_t)nd, strides, (size_t)nd, &zero, &input) == TN_OK;
  good = good && tn_as_strided(base, tn_tensor_sizes(self), (size_t)nd, strides, (size_t)nd, &one, &target) == TN_OK;
  if (good) {
    c->args[0] = tn_value_tensor(input);
    c->args[c->n_args] = tn_value_tensor(target);
    tn_status status = tni_ops_call(c, form, &r);
    good = status == TN_ERR_OVERLAP;
    if (status == TN_ERR_MISSING_KERNEL)
      failed(t, form, status);
    else if (!good)
      tni_check_fail(t->r, t->item, "%s with a target that partly overlaps the input: %s, overlap was to be refused",
                     form->report.name, tn_status_name(status));
    c->args[0] = tn_value_tensor(self);
  } else {
    failed(t, form, TN_ERR_STATE);
  }
  tn_tensor_release(target);
  tn_tensor_release(input);
  tn_tensor_release(base);
  return good;
}

/* The first argument itself is the target. c: contiguous arguments, which are written: comes last. */
static bool exact_good(tni_ops_try *t, const tni_ops_op *form, tni_ops_case *c, tn_tensor *result) {
  tni_ops_results r;
  tn_tensor *self = c->args[0].u.t;
  if (!same_sizes(self, result) || tn_tensor_dtype(self) != tn_tensor_dtype(result)) return true;
  const rt *wanted = tni_ops_read(result);
  c->args[c->n_args] = tn_value_tensor(self);
  tn_status status = tni_ops_call(c, form, &r);
  if (status == TN_ERR_OVERLAP && !(t->op->report.flags & TN_OP_POINTWISE_ALIAS)) return true;
  if (status != TN_OK || !wanted) return failed(t, form, status);
  return tni_ops_judge(t, "the input as target", self, wanted, tni_ops_tolerance(c, NULL));
}

static bool try_out(tni_ops_try *t, const tni_ops_op *form) {
  tni_ops_case c;
  tni_ops_results r;
  bool good = true;
  if (form->schema->n_args != t->op->schema->n_args + 1) return true; /* several targets */
  tn_status made = tni_ops_case_make(&c, t->op, t->sample, t->dtype, t->device, TNI_OPS_CONTIGUOUS);
  if (made != TN_OK) return failed(t, form, made);
  if (tni_ops_call(&c, t->op, &r) == TN_OK) {
    bool one = r.n == 1 && r.t[0], tensor = one && c.args[0].kind == TN_VAL_TENSOR;
    good = !one || (out_good(t, form, &c, r.t[0], true) && out_good(t, form, &c, r.t[0], false));
    good = good && (!tensor || (overlap_good(t, form, &c, r.t[0]) && exact_good(t, form, &c, r.t[0])));
    tni_ops_results_release(&r);
  }
  tni_ops_case_release(&c);
  return good;
}

/* ------------------------------------------------------------------ the check */

void tni_ops_try_forms(tni_ops_try *t) {
  tni_ops_op form;
  bool tried = false, good = true;
  if (t->op->report.form != TN_FORM_FUNCTIONAL) return;
  if (tni_ops_form_open(t->op, TN_FORM_INPLACE, &form)) {
    tried = true;
    good = try_inplace(t, &form);
    tni_ops_op_close(&form);
  }
  if (good && tni_ops_form_open(t->op, TN_FORM_OUT, &form)) {
    tried = true;
    good = try_out(t, &form);
    tni_ops_op_close(&form);
  }
  if (tried && good) tni_check_pass(t->r, t->item);
}

static void run(tni_check_report *r, const tni_check_context *c) { tni_ops_each(r, c, TN_DTYPES_ALL, tni_ops_try_forms); }

const tni_check tni_check_ops_forms = {"ops.forms", "in-place and out forms give what the functional form gives",
                                       TNI_CHECK_KERNELS, 120, run};

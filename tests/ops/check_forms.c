/* SPDX-License-Identifier: Apache-2.0
 *
 * In-place and out forms give what the functional form gives. An in-place form whose result does not fit self
 * (another shape, a dtype of a higher category) is refused and leaves self as it was. An out form writes
 * through the target's own strides, resizes an empty target, and casts within the category rules.
 */
#include <tenon/tenon.h>

#include "case.h"

static bool same_sizes(const tn_tensor *a, const tn_tensor *b) {
  if (tn_tensor_ndim(a) != tn_tensor_ndim(b)) return false;
  for (int d = 0; d < tn_tensor_ndim(a); d++)
    if (tn_tensor_sizes(a)[d] != tn_tensor_sizes(b)[d]) return false;
  return true;
}

static int category(tn_dtype dtype) { return dtype == TN_BOOL ? 0 : dtype <= TN_INT64 ? 1 : 2; }

/* c: contiguous arguments; expected: the functional form's result on the same ones. */
static void compare_inplace(const tn_op *op, op_case *c, const tn_tensor *expected) {
  op_results r;
  tn_tensor *self = c->args[0].u.t;
  rt *before = read_tensor(self), *wanted = read_tensor(expected);
  bool fits = same_sizes(self, expected) && category(tn_tensor_dtype(expected)) <= category(tn_tensor_dtype(self));
  uint32_t version = tni_version_get(self);
  tn_status status = case_call(c, op, &r);
  if (fits && status != TN_OK) {
    finding(c, "%s failed with %d: %s", op->name, (int)status, tn_error_message());
  } else if (fits) {
    compare(c, op->name, self, wanted, case_tolerance(c, NULL));
    if (tni_version_get(self) != version + 1) finding(c, "%s bumped the version %u times", op->name,
                                                      tni_version_get(self) - version);
  } else if (status == TN_OK && !same_sizes(self, expected)) {
    finding(c, "%s accepted a result of another shape", op->name);
  } else if (status != TN_OK) {
    compare(c, "self after a refused in-place call", self, before, 0);
    if (tni_version_get(self) != version) finding(c, "%s was refused but bumped the version", op->name);
  }
}

static void check_inplace(const tn_op *inplace, const tn_op *op, const tn_sample *sample, tn_dtype dtype) {
  op_case c;
  op_results r;
  case_build(&c, op, sample, dtype, CASE_CONTIGUOUS);
  if (c.args[0].kind == TN_VAL_TENSOR && case_call(&c, op, &r) == TN_OK) {
    compare_inplace(inplace, &c, r.t[0]);
    results_release(&r);
  }
  case_release(&c);
}

/* A target of the result's dtype: empty (to be resized), or of its shape with the last two dims swapped in
 * memory. */
static tn_tensor *target(const tn_tensor *like, bool empty) {
  int nd = tn_tensor_ndim(like);
  tn_dim strides[TN_MAX_RANK], none = 0, total = 1;
  tn_tensor *t = NULL;
  for (int k = nd - 1; k >= 0; k--) {
    int d = nd >= 2 && k >= nd - 2 ? 2 * nd - 3 - k : k;
    strides[d] = total;
    total *= tn_tensor_sizes(like)[d];
  }
  tn_device cpu = tn_tensor_device(like);
  if (empty) TN_CHECK_OK(tni_tensor_new(tn_tensor_dtype(like), 1, &none, NULL, cpu, &t));
  else TN_CHECK_OK(tni_tensor_new(tn_tensor_dtype(like), (uint32_t)nd, tn_tensor_sizes(like), strides, cpu, &t));
  return t;
}

static void check_out(const tn_op *op, op_case *c, const tn_tensor *expected, bool empty) {
  op_results r;
  tn_tensor *out = target(expected, empty);
  rt *wanted = read_tensor(expected);
  const void *storage = tn_tensor_view(out)->storage;
  c->args[c->n_args] = tn_value_tensor(out);
  tn_status status = case_call(c, op, &r);
  if (status != TN_OK) finding(c, "%s failed with %d: %s", op->name, (int)status, tn_error_message());
  else compare(c, op->name, out, wanted, case_tolerance(c, NULL));
  if (status == TN_OK && !empty && tn_tensor_view(out)->storage != storage)
    finding(c, "%s gave the target other memory", op->name);
  tn_tensor_release(out);
}

void check_forms(const tn_op *op, const tn_sample *sample, tn_dtype dtype) {
  const tn_op *inplace = form_of(op, TN_FORM_INPLACE), *out = form_of(op, TN_FORM_OUT);
  op_case c;
  op_results r;
  if (!inplace && !out) return;
  case_build(&c, op, sample, dtype, CASE_CPU);
  tn_status status = case_call(&c, op, &r);
  if (status == TN_OK && r.n >= 1) {
    if (inplace) check_inplace(inplace, op, sample, dtype);
    if (out && r.n == 1 && out->schema->n_args == c.n_args + 1) {
      check_out(out, &c, r.t[0], true);
      check_out(out, &c, r.t[0], false);
    }
  } else if (!may_decline(op, dtype, status)) {
    finding(&c, "failed with %d: %s", (int)status, tn_error_message());
  }
  if (status == TN_OK) results_release(&r);
  case_release(&c);
}

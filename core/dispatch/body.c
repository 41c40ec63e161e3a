/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a composite body, also for the in-place and out forms of an operator that has no kernel on this
 * backend: the body's result is then brought to the target by copy_.
 */
#include <tenon/kit/dtype.h>
#include <tenon/kit/promote.h>
#include <tenon/kit/shape.h>

#include "core/dispatch/dispatch_int.h"

/* May this result go into the target? As in the structured step. */
static tn_status check_result(const tn_op *op, const tn_tensor *target, const tn_tensor *result) {
  const tn_view *r = &result->view, *t = &target->view;
  if (!tn_can_cast(r->dtype, t->dtype))
    return tn_fail(TN_ERR_DTYPE, "a result of dtype %s cannot be stored in a target of dtype %s",
                   tn_dtype_name(r->dtype), tn_dtype_name(t->dtype));
  if (op->form == TN_FORM_INPLACE && !tn_shape_equal(r->ndim, r->sizes, t->ndim, t->sizes))
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "the result has shape %s, which does not fit the in-place target of shape %s",
                   tn_shape_format(r->ndim, r->sizes, TN_SHAPE_TEXT),
                   tn_shape_format(t->ndim, t->sizes, TN_SHAPE_TEXT));
  return TN_OK;
}

/* One result of the functional body into the target. copy_ counts the write. */
static tn_status store_result(tn_tensor *target, tn_tensor *result) {
  TN_TRY(tni_resize(target, result->view.ndim, result->view.sizes));
  const tn_value args[3] = {tn_value_tensor(target), tn_value_tensor(result), tn_value_bool(false)};
  return tni_call(tni_op_copy(), args, NULL);
}

/* Every result is checked before the first is stored. */
static tn_status store_results(const tn_op *op, const tn_value *args, const tn_value *results) {
  for (int pass = 0; pass < 2; ++pass) {
    uint32_t i = 0;
    for (uint64_t m = op->write_args; m && i < op->functional->n_outs; m &= m - 1, ++i) {
      const tn_value *target = &args[__builtin_ctzll(m)];
      if (target->kind != TN_VAL_TENSOR)
        return tn_fail(TN_ERR_INVALID_ARGUMENT, "the target of result %u is missing; a tensor was expected",
                       i);
      if (results[i].kind != TN_VAL_TENSOR) continue;
      TN_TRY(pass ? store_result(target->u.t, results[i].u.t)
                  : check_result(op, target->u.t, results[i].u.t));
    }
  }
  return TN_OK;
}

static tn_status run_into_targets(tn_call *call, const tn_value *args) {
  const tn_op *op = call->op;
  tn_value results[TNI_MAX_OUTS];
  TN_TRY(op->functional->body(call, args, results));
  tn_status status = store_results(op, args, results);
  for (uint32_t i = 0; i < op->functional->n_outs; ++i)
    if (results[i].kind == TN_VAL_TENSOR) tn_tensor_release(results[i].u.t);
  return status;
}

tn_status tni_body_step(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  if (op->functional == op) return op->body(call, args, out);
  return run_into_targets(call, args);
}

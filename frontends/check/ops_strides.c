/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.strides: a kernel reads and writes through the strides that it gets: transposed inputs and inputs with gaps,
 * results with gaps between the elements, memory that begins one element off its alignment.
 */
#include "frontends/check/ops_direct.h"

/* Large samples sum more terms than one rounding covers. */
static double allowance(const tni_direct_call *call) {
  double tolerance = ref_tolerance(TN_FLOAT64);
  for (size_t k = 0; k < call->n_inputs + call->n_outputs; k++) {
    const tni_direct_tensor *t = k < call->n_inputs ? &call->inputs[k] : &call->outputs[k - call->n_inputs];
    double own = ref_tolerance(t->view.dtype);
    tolerance = own > tolerance ? own : tolerance;
  }
  return 16 * tolerance;
}

static void visit_strides(tni_direct_call *call) {
  ref_call expected;
  ref_arg args[TNI_OPS_ARGS];
  if (call->status != TN_OK || !tni_direct_reference(call, &expected, args)) return;
  bool in_place = call->op->report.form == TN_FORM_INPLACE, good = true;
  double tolerance = allowance(call);
  if (in_place) good = tni_direct_judge(call, 0, args[0].t, tolerance);
  for (uint32_t i = 0; i < call->n_out && !in_place && good && (int)i < expected.n_out; i++)
    good = tni_direct_judge(call, i, expected.out[i], tolerance);
  if (good) tni_check_pass(call->d->r, call->item);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  tni_direct_each(r, c, TNI_DIRECT_AWKWARD, visit_strides);
}

const tni_check tni_check_ops_strides = {"ops.strides", "kernels follow the strides and offsets that they get",
                                         TNI_CHECK_KERNELS, 60, run};

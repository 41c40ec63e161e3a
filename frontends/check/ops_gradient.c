/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.gradient: gradients of claimed operators through the device, against differences (in float32: against the
 * CPU in float64). The formula is the core's, so this holds the kernels that it calls: a forward that is right and a backward that is not is a kernel of the formula.
 */
#include "frontends/check/ops.h"

/* float64 where the plugin claims it, else float32. */
static bool is_dtype_to_try(const tni_ops_try *t) {
  if (t->dtype == TN_FLOAT64) return true;
  for (size_t i = 0; i < t->c->n_kernels; i++) {
    const tni_claim_kernel *k = &t->c->kernels[i];
    bool same = !strcmp(k->key, t->device_name) && !strcmp(k->op, t->op->report.name);
    if (same && (!k->dtypes || k->dtypes & TN_DTYPE_BIT(TN_FLOAT64))) return false;
  }
  return true;
}

static void try_gradient(tni_ops_try *t) {
  bool tried;
  if (!is_dtype_to_try(t)) return;
  tn_status status = tni_ops_gradcheck(t->op, t->sample, t->dtype, t->device, false, &tried);
  if (status == TN_OK && tried) tni_check_pass(t->r, t->item);
  else if (status == TN_ERR_MISSING_KERNEL)
    tni_check_skip(t->r, t->item, "its gradient needs more than the device has: %s", tn_error_message());
  else if (status == TN_ERR_DATA)
    tni_check_fail(t->r, t->item, "%s", tn_error_message());
  else if (status != TN_OK)
    tni_ops_judge_failure(t, status);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  tni_ops_each(r, c, TN_DTYPE_BIT(TN_FLOAT64) | TN_DTYPE_BIT(TN_FLOAT32), try_gradient);
}

const tni_check tni_check_ops_gradient = {"ops.gradient", "gradients through the device are right",
                                          TNI_CHECK_KERNELS, 120, run};

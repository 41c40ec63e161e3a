/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.dtypes: a claimed dtype is served. For each operator and dtype of the manifest at least one sample runs; a kernel
 * that answers "not this dtype" for all of them should not have claimed it.
 */
#include <stdio.h>

#include "frontends/check/ops.h"

/* TN_OK: the sample ran on the device of the try. */
static tn_status call_on(tni_ops_try *t, const tn_sample *sample, tn_device device, tni_ops_kind kind) {
  tni_ops_case c;
  tni_ops_results r;
  TN_TRY(tni_ops_case_make(&c, t->op, sample, t->dtype, device, kind));
  tn_status status = tni_ops_call(&c, t->op, &r);
  if (status == TN_OK) tni_ops_results_release(&r);
  tni_ops_case_release(&c);
  return status;
}

static void try_dtype(tni_ops_try *t) {
  char words[TNI_OPS_WORDS] = "";
  bool suits = false;
  if (!tni_ops_is_sample(t->op, t->op->samples)) {
    tni_check_skip(t->r, t->item, "the operator has no samples");
    return;
  }
  for (const tn_sample *s = t->op->samples; tni_ops_is_sample(t->op, s); s++) {
    tn_status status = call_on(t, s, t->device, TNI_OPS_AS_SAMPLE);
    if (status == TN_OK) {
      tni_check_pass(t->r, t->item);
      return;
    }
    snprintf(words, sizeof words, "%s: %s", tn_status_name(status), tn_error_message());
    suits |= call_on(t, s, t->device, TNI_OPS_META) == TN_OK;
  }
  if (suits)
    tni_check_fail(t->r, t->item, "claimed, and no sample runs; the last one: %s", words);
  else
    tni_check_skip(t->r, t->item, "the operator itself takes no such arguments: %s", words);
}

static void run(tni_check_report *r, const tni_check_context *c) { tni_ops_each_claim(r, c, TN_DTYPES_ALL, try_dtype); }

const tni_check tni_check_ops_dtypes = {"ops.dtypes", "every claimed dtype is served", TNI_CHECK_KERNELS, 60, run};

/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.large: sizes that need several blocks, threads or tiles, with odd tails, against the reference. In integers and
 * float16 sums of such lengths wrap or overflow, so the other floating dtypes are tried.
 */
#include <stdio.h>

#include "frontends/check/ops.h"

/* A sum of n terms in dtype may be off by more than one rounding; no kernel worth its name is off by this. */
enum { ROUNDINGS = 16 };

static void compare(tni_ops_try *t, tni_ops_case *c) {
  ref_call call;
  ref_arg args[TNI_OPS_ARGS];
  tni_ops_results r;
  char what[32];
  ref_fn reference = ref_find(t->op->report.functional);
  if (!reference || !tni_ops_reference(c, &call, args)) return;
  tn_status status = tni_ops_call(c, t->op, &r);
  if (status != TN_OK) {
    tni_ops_judge_failure(t, status);
    return;
  }
  double tolerance = ROUNDINGS * tni_ops_tolerance(c, &r);
  bool good = true;
  reference(&call);
  if (t->op->writes & 1) good = tni_ops_judge(t, "the written argument", c->args[0].u.t, args[0].t, tolerance);
  for (uint32_t i = 0; i < r.n && (int)i < call.n_out && good; i++) {
    snprintf(what, sizeof what, "result %u", i);
    good = tni_ops_judge(t, what, r.t[i], call.out[i], tolerance);
  }
  if (good) tni_check_pass(t->r, t->item);
  tni_ops_results_release(&r);
}

static void try_large(tni_ops_try *t) {
  char item[TNI_OPS_WORDS];
  const tni_ops_try outer = *t;
  for (const tn_sample *s = tni_ops_large_samples(t->op->report.name); tni_ops_is_sample(t->op, s); s++) {
    tni_ops_case c;
    snprintf(item, sizeof item, "%s %s", outer.item, s->text);
    t->item = item;
    t->sample = s;
    tni_check_at(t->r, item);
    if (tni_check_ok(t->r, tni_ops_case_make(&c, t->op, s, t->dtype, t->device, TNI_OPS_AS_SAMPLE), item,
                     "its arguments cannot be made")) {
      compare(t, &c);
      tni_ops_case_release(&c);
    }
    ref_reset();
  }
  *t = outer;
}

static void run(tni_check_report *r, const tni_check_context *c) {
  tni_ops_each_claim(r, c, TN_DTYPE_BIT(TN_FLOAT32) | TN_DTYPE_BIT(TN_FLOAT64) | TN_DTYPE_BIT(TN_BFLOAT16), try_large);
}

const tni_check tni_check_ops_large = {"ops.large", "sizes of several blocks and threads", TNI_CHECK_KERNELS, 120, run};

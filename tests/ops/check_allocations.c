/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-th allocation inside the call fails, n = 1, 2, ..., until the call gets through (stress build; once
 * without failures elsewhere): a failed call says out of memory, leaks nothing (the leak sanitizer watches)
 * and leaves every argument as it was, version counters included.
 */
#include <tenon/tenon.h>

#include "case.h"
#include "tn_stress.h"

typedef struct allocation_case {
  op_case c;
  op_results r;
  rt *before[CASE_TENSORS];
  uint32_t versions[CASE_TENSORS];
} allocation_case;

static tn_status call(void *ctx) {
  allocation_case *a = ctx;
  return case_run(&a->c, a->c.op, &a->r);
}

static void remember(allocation_case *a) {
  for (size_t i = 0; i < a->c.n_tensors; i++) {
    a->before[i] = read_tensor(a->c.tensors[i]);
    a->versions[i] = tni_version_get(a->c.tensors[i]);
  }
}

static void after(void *ctx, tn_status status) {
  allocation_case *a = ctx;
  if (status == TN_OK) {
    results_release(&a->r);
    remember(a); /* it may have written */
    return;
  }
  for (size_t i = 0; i < a->c.n_tensors; i++) {
    if (!compare(&a->c, "an argument after a failed allocation", a->c.tensors[i], a->before[i], 0)) return;
    if (tni_version_get(a->c.tensors[i]) != a->versions[i]) finding(&a->c, "a failed call bumped a version");
  }
}

void check_failing_allocations(const tn_op *op, const tn_sample *sample, tn_dtype dtype) {
  allocation_case a;
  case_build(&a.c, op, sample, dtype, CASE_CPU);
  /* The first call opens plugins and builds cells; what the operator cannot do is not this check's business. */
  tn_status status = case_call(&a.c, op, &a.r);
  if (status == TN_OK) results_release(&a.r);
  remember(&a);
  if (status == TN_OK) tn_stress_run(call, after, &a);
  case_release(&a.c);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop behind tn_stress.h. It stops when a call succeeded after making fewer allocations than the number
 * that should have failed; a call that succeeds in spite of a failed allocation is right too and is counted
 * as passed over.
 */
#include "tn_stress.h"

#include "core/base/base.h"

#ifdef TN_STRESS
enum { MOST_ALLOCATIONS = 100000 };

uint64_t tn_stress_run(tn_stress_fn call, void (*after)(void *ctx, tn_status status), void *ctx) {
  uint64_t failed = 0;
  for (uint64_t n = 1; n <= MOST_ALLOCATIONS; n++) {
    tni_fail_after(n);
    tn_status status = call(ctx);
    uint64_t made = tni_fail_after(0);
    if (status != TN_OK && status != TN_ERR_OUT_OF_MEMORY) TN_CHECK_OK(status);
    if (status != TN_OK) failed++;
    after(ctx, status);
    if (status == TN_OK && made < n) return failed;
  }
  tn_test_fail(__FILE__, __LINE__, "the call makes more than %d allocations", MOST_ALLOCATIONS);
}
#else
uint64_t tn_stress_run(tn_stress_fn call, void (*after)(void *ctx, tn_status status), void *ctx) {
  tn_status status = call(ctx);
  TN_CHECK_OK(status);
  after(ctx, status);
  return 0;
}
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation failures, for test programs that carry the core in themselves (unit, autograd, ops). In the
 * stress build (TN_STRESS, as the preset asan has it) the n-th allocation inside one call fails, n = 1, 2, ...,
 * until the call makes fewer than n; in every other build the call runs once. So the tests and their names are
 * the same everywhere.
 */
#ifndef TN_STRESS_H
#define TN_STRESS_H

#include "tn_test.h"

typedef tn_status (*tn_stress_fn)(void *ctx);

/* call: one call under test; it stores what it makes in ctx. after: runs after every call, with injection
 * off: given the call's status it releases what was made, and fails the test (TN_CHECK...) if something has
 * changed that a failed call must leave alone. A status other than TN_OK and TN_ERR_OUT_OF_MEMORY fails the
 * test. Returns how many calls failed. */
uint64_t tn_stress_run(tn_stress_fn call, void (*after)(void *ctx, tn_status status), void *ctx);

#endif

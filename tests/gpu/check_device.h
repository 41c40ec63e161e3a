/* SPDX-License-Identifier: Apache-2.0
 *
 * One case of the operator tests (tests/ops/case.h), on the device.
 */
#ifndef TN_TESTS_GPU_CHECK_DEVICE_H
#define TN_TESTS_GPU_CHECK_DEVICE_H

#include "tests/ops/case.h"

/* Operators that the device has a kernel for: forward against the float64 reference, results and written arguments. Others pass. */
void check_device(const tn_op *op, const tn_sample *sample, tn_dtype dtype);
/* The in-place form against the functional one, both on the device. */
void check_device_in_place(const tn_op *op, const tn_sample *sample, tn_dtype dtype);
/* How many cases have run since the last call. */
int cases_run(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The samples of the built-in operators (generated: op_samples.c).
 */
#ifndef TENON_CHECK_REFERENCE_SAMPLES_H
#define TENON_CHECK_REFERENCE_SAMPLES_H

#include <tenon/samples.h>

/* Samples of one operator stand together, in the order of the operator table; the last entry's op is NULL. */
extern const tn_sample tn_op_samples[];

#endif

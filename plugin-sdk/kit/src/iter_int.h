/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the iterator's files: set-up ends here, whoever filled sizes and strides.
 */
#ifndef TENON_KIT_ITER_INT_H
#define TENON_KIT_ITER_INT_H

#include <tenon/kit/iter.h>

/* Dims arrive outermost first through these two; dims of one element leave no trace. */
void tni_iter_begin(tn_iter *it, uint32_t n_outputs, uint32_t n_operands, uint32_t flags);
/* strides: n_operands entries in bytes. */
void tni_iter_add_dim(tn_iter *it, int64_t size, const int64_t *strides);
/* Reverses to innermost first, orders and merges dims, counts elements. data must be set. */
void tni_iter_finish(tn_iter *it);

#endif

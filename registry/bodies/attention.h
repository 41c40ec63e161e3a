/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of attention that its gradient needs as well.
 */
#ifndef TENON_REGISTRY_BODIES_ATTENTION_H
#define TENON_REGISTRY_BODIES_ATTENTION_H

#include <tenon/operator.h>

/* The second result of _scaled_dot_product_attention out of differentiable operators. mask may be NULL; the result
 * is owned by the caller. */
tn_status tni_attention_logsumexp(tn_tensor *query, tn_tensor *key, tn_tensor *mask, bool causal,
                                  double scale, tn_tensor **out_logsumexp);

#endif

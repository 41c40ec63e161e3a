/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients, for neighbours in the core: the slot in a tensor, and what dispatch asks of it. Nodes, edges
 * and the engine are in autograd_int.h.
 */
#ifndef TENON_CORE_AUTOGRAD_H
#define TENON_CORE_AUTOGRAD_H

#include <tenon/autograd.h>

#include "core/dispatch/dispatch.h"

/* Frees a dying tensor's slot: grad, grad_fn, hooks. Never recurses through a graph (A7). */
void tni_autograd_release(tni_autograd *slot);
/* requires_grad as the user sees it: own flag, or grad_fn, or (views) the base's. */
bool tni_requires_grad(const tn_tensor *tensor);
/* What `detach_` does: the tensor becomes a leaf that does not require grad. Refused for views (E19). */
tn_status tni_autograd_detach(tn_tensor *tensor);
/* The worker threads of accelerators end; a later backward starts them again. */
void tni_autograd_stop(void);

/* For gradient functions: zeros of the shape of result i of the forward call, where grad_outs[i] is NULL
 * but the formula uses it. ctx is the one that the function got. *out is owned. */
tn_status tni_materialize_grad(const tn_backward *ctx, uint32_t i, tn_tensor **out);

#endif

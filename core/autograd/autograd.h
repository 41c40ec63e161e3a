/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients, for neighbours in the core: the slot in a tensor, and what dispatch asks of it. Nodes, edges and
 * the engine are in autograd_int.h.
 */
#ifndef TENON_CORE_AUTOGRAD_H
#define TENON_CORE_AUTOGRAD_H

#include <tenon/autograd.h>

#include "core/dispatch/dispatch.h"

/* Frees a dying tensor's slot: grad, grad_fn, hooks. Never recurses through a graph (A7). */
void tni_autograd_release(tni_autograd *slot);
/* requires_grad as the user sees it: own flag, or grad_fn, or (views) the base's. */
bool tni_requires_grad(const tn_tensor *tensor);
/* Runs a body above autograd or below: see Note [Kernel, body, gradient] in record.c. */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.repeat: a kernel that is not marked TN_KERNEL_NONDETERMINISTIC gives the same bits a second time.
 */
#include <stdlib.h>

#include "frontends/check/ops_direct.h"

enum { ROUNDS = 3 };

static void visit_repeat(tni_direct_call *call) {
  unsigned char *first[REF_OUTS] = {NULL};
  bool good = true;
  if (call->status != TN_OK || call->kernel->flags & TN_KERNEL_NONDETERMINISTIC) return;
  for (uint32_t i = 0; i < call->n_out; i++)
    if (call->targets[i]) first[i] = tni_direct_bytes(call, &call->targets[i]->block);
  for (int round = 1; round < ROUNDS && good; round++) {
    tn_status status = tni_direct_again(call);
    good = tni_check_ok(call->d->r, status, call->item, "the same call once more");
    for (uint32_t i = 0; i < call->n_out && good; i++) {
      const tni_direct_tensor *t = call->targets[i];
      unsigned char *now = t ? tni_direct_bytes(call, &t->block) : NULL;
      good = !t || (now && first[i] && !memcmp(now, first[i], t->block.size_bytes));
      free(now);
      if (!good)
        tni_check_fail(call->d->r, call->item, "result %u has other bits in run %d, and the kernel is not marked as "
                       "nondeterministic", i, round + 1);
    }
  }
  for (uint32_t i = 0; i < call->n_out; i++) free(first[i]);
  if (good) tni_check_pass(call->d->r, call->item);
}

static void run(tni_check_report *r, const tni_check_context *c) { tni_direct_each(r, c, TNI_DIRECT_PLAIN, visit_repeat); }

const tni_check tni_check_ops_repeat = {"ops.repeat", "deterministic kernels give the same bits again", TNI_CHECK_KERNELS,
                                        60, run};

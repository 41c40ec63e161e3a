/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fork finds: every lock of the core free, whatever other threads were doing.
 *
 * Note [Fork]
 * A child has one thread. A lock that another thread held when the process forked would stay locked for ever, and
 * what it guards might be half-written. So the thread that forks takes all of the core's locks first and gives them
 * back on both sides. It takes them in one order, that of the ranks, in which running code nests them too: the
 * loader's lock is taken with no other held, the log's with any. Each part of the core registers its own
 * (TNI_FORK_LOCK, or tni_at_fork where more is to be done) when the library is loaded; the list never changes later,
 * so a fork reads it without a lock.
 * Not in the list: the spin locks of gradient cells, of which there are as many as leaves. They contain the generation
 * of whoever holds them, and a child takes those of an earlier one for free. What they guarded is whole but for
 * values: a child of a process that forks in the middle of another thread's backward run may find a gradient to which
 * a part of that run's sum was added.
 */
#include <pthread.h>

#include "core/base/base.h"

static tni_fork_part *parts; /* by rank */

/* Ranks are few: a pass a rank, backwards for the side after the fork. */
static void before(void) {
  for (tni_fork_part *p = parts; p; p = p->next) p->before();
}

static void after(bool child) {
  for (int rank = TNI_FORK_RANKS; rank-- > 0;)
    for (tni_fork_part *p = parts; p; p = p->next)
      if ((int)p->rank == rank) (child ? p->child : p->parent)();
}
static void after_in_parent(void) { after(false); }
static void after_in_child(void) { after(true); }

void tni_at_fork(tni_fork_part *part) {
  if (!parts && pthread_atfork(before, after_in_parent, after_in_child) != 0)
    tn_log(TN_LOG_WARN, "no memory for a fork handler: a forked child may find a lock held");
  tni_fork_part **at = &parts;
  while (*at && (*at)->rank <= part->rank) at = &(*at)->next;
  part->next = *at;
  *at = part;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a forked child may do with devices that its parent opened. See Note [Backends after a fork] in memory.h.
 */
#include "core/memory/memory_int.h"

/* One for all backends: reinit happens once a child. */
static tni_mutex reinit_mutex = TNI_MUTEX_INIT;
TNI_FORK_LOCK(reinit, TNI_FORK_REINIT, reinit_mutex);

void tni_fork_state_init(tni_fork_state *state, const tn_backend_def *def, const char *name) {
  *state = (tni_fork_state){.def = def, .name = name};
  atomic_init(&state->generation, tni_fork_generation());
}

void tni_fork_state_deinit(tni_fork_state *state) { tni_free(state->words); }

static tn_status refused(const tni_fork_state *state) {
  return tn_fail(TN_ERR_STATE, "device %s could not be made usable in a forked child: %s", state->name,
                 state->words ? state->words : "out of memory while telling why");
}

/* The lock is held. */
static tn_status reinit(tni_fork_state *state, int32_t now) {
  if (atomic_load(&state->generation) == now) return TN_OK; /* another thread was faster */
  if (atomic_load(&state->refused) == now) return refused(state);
  tn_status status = state->def->reinit(state->def->ctx);
  if (status == TN_OK) {
    atomic_store_explicit(&state->generation, now, memory_order_release);
    return TN_OK;
  }
  tni_free(state->words);
  state->words = tni_strdup(tn_error_message());
  atomic_store(&state->refused, now);
  return refused(state);
}

tn_status tni_fork_admit_slow(tni_fork_state *state) {
  if (tni_fork_usable(state)) return TN_OK;
  if (state->def->fork != TN_FORK_REINIT)
    return tn_fail(TN_ERR_STATE, "device %s cannot be used in a forked child: start a new process for it",
                   state->name);
  tni_mutex_lock(&reinit_mutex);
  tn_status status = reinit(state, tni_fork_generation());
  tni_mutex_unlock(&reinit_mutex);
  return status;
}

/* Records of the old memory are left as they are: tensors of the parent's time still point to some. */
void tni_pool_forget(tni_pool *pool) {
  pool->generation = tni_fork_generation();
  pool->segments = NULL;
  memset(pool->reserved, 0, sizeof pool->reserved);
  pool->streams = NULL;
  pool->pending = NULL;
  pool->current = pool->peak = 0;
  pool->stats = (tn_memory_stats){.limit_bytes = pool->stats.limit_bytes};
  memset(pool->tags, 0, sizeof pool->tags);
}

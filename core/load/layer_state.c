/* SPDX-License-Identifier: Apache-2.0
 *
 * What layers keep per thread: one table a thread, made at a layer's first slot, with one place per layer bit. It
 * travels in the thread's modes (core/base/thread_state.h); this file alone knows what is in it, because dup and free
 * are the layers' own functions.
 *
 * All tables of the process are in one list, so that shutdown and an unload can end what a layer keeps on every
 * thread before the layer's plugin is asked to stop. No plugin is called with the list's lock held, except there:
 * then no thread runs operators. A place remembers the layer as it was when it was filled: an unload takes the layer
 * from the tables first.
 */
#include "core/load/load_int.h"

enum { FIRST = TN_BACKEND_LIMIT, SLOTS = 64 - FIRST };

typedef struct slot {
  void *state;
  const tn_layer_def *def; /* whose; a record lives as long as the process */
} slot;

typedef struct table {
  tni_layer_states base; /* first: what the modes point to */
  struct table *next, **link;
  slot slots[SLOTS]; /* by bit - FIRST */
} table;

static tni_mutex lock = TNI_MUTEX_INIT;
static table *tables;
TNI_FORK_LOCK(layer_states, TNI_FORK_MEMORY, lock);

static tn_status table_dup(const tni_layer_states *states, tni_layer_states **out_states);
static void table_release(tni_layer_states *states);

static tn_status table_new(table **out_table) {
  table *t = tni_alloc_zero(sizeof *t);
  if (!t) return tni_oom(sizeof *t, "a thread's states of layers");
  t->base = (tni_layer_states){table_dup, table_release};
  tni_mutex_lock(&lock);
  t->next = tables;
  t->link = &tables;
  if (tables) tables->link = &t->next;
  tables = t;
  tni_mutex_unlock(&lock);
  *out_table = t;
  return TN_OK;
}

static bool is_empty(const table *t) {
  for (int i = 0; i < SLOTS; ++i)
    if (t->slots[i].state) return false;
  return true;
}

static void free_slots(table *t, uint64_t bits) {
  for (int i = 0; i < SLOTS; ++i) {
    slot s = t->slots[i];
    if (!s.state || !(bits & TNI_KEY(FIRST + i))) continue;
    t->slots[i].state = NULL;
    s.def->state_free(s.state);
  }
}

/* Once exit has begun no plugin is called: what is left stays in the list, where a leak checker finds it. */
static void table_release(tni_layer_states *states) {
  table *t = (table *)(void *)states;
  if (!tni_exiting()) free_slots(t, UINT64_MAX);
  if (!is_empty(t)) return;
  tni_mutex_lock(&lock);
  *t->link = t->next;
  if (t->next) t->next->link = t->link;
  tni_mutex_unlock(&lock);
  tni_free(t);
}

/* A state that its layer copies to NULL is as one that the thread does not have. */
static tn_status table_dup(const tni_layer_states *states, tni_layer_states **out_states) {
  const table *from = (const table *)(const void *)states;
  table *t;
  TN_TRY(table_new(&t));
  for (int i = 0; i < SLOTS; ++i) {
    const slot *s = &from->slots[i];
    if (s->state) t->slots[i] = (slot){s->def->state_dup(s->state), s->def};
  }
  *out_states = &t->base;
  return TN_OK;
}

tn_status tni_layer_slot(tn_call *call, void ***out_slot) {
  const tni_cell *cell = call->cell;
  const tn_layer_def *def = cell->bit >= FIRST ? tni_layer_get(cell->bit) : NULL;
  if (!def)
    return TN_FAIL(TN_ERR_PLUGIN, "layer_slot is for the kernels of layers; this one runs under the key %s",
                   tni_key_name(cell->bit));
  if (!def->state_free)
    return TN_FAIL(TN_ERR_PLUGIN, "layer %s registered no state_dup and state_free: it keeps nothing per thread",
                   def->name);
  tni_layer_states **states = &tni_tls.modes.layer_states;
  if (TNI_UNLIKELY(!*states)) {
    table *t;
    TN_TRY(table_new(&t));
    tni_thread_arm();
    *states = &t->base;
  }
  slot *s = &((table *)(void *)*states)->slots[cell->bit - FIRST];
  s->def = def;
  *out_slot = &s->state;
  return TN_OK;
}

void tni_layer_states_drop(uint64_t bits) {
  tni_mutex_lock(&lock);
  for (table *t = tables; t; t = t->next) free_slots(t, bits);
  tni_mutex_unlock(&lock);
}

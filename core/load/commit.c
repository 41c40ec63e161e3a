/* SPDX-License-Identifier: Apache-2.0
 *
 * Publishing a transaction: operators, then kernels, then a layer's fallback over all operators, then backends
 * and layers. If a step fails, the steps before it are undone in reverse and the tables are as they were.
 *
 * Note [Fallbacks]
 * A fallback is one kernel for every operator that has none of its layer's own. It is spread over the operators
 * when it is committed, and over operators that come later when those are committed.
 */
#include "core/load/load_int.h"

static _Atomic(const tn_layer_def *) layer_defs[64];
static struct {
  const tni_kernel **items;
  size_t count, capacity;
} fallbacks; /* committed; registry lock */

typedef struct step {
  tn_op *op;
  tni_kernel *kernel;
  bool copied; /* spread from a fallback: ours to free when undone */
} step;

typedef struct journal {
  struct {
    step *items;
    size_t count, capacity;
  } steps;
  size_t n_ops; /* operators of the transaction that were added */
} journal;

const tn_layer_def *tni_layer_get(unsigned bit) {
  return bit < 64 ? atomic_load_explicit(&layer_defs[bit], memory_order_acquire) : NULL;
}

static tn_status put_kernel(journal *j, tn_op *op, tni_kernel *kernel, bool copied) {
  TN_TRY(tni_grow(&j->steps.items, &j->steps.capacity, j->steps.count, sizeof(step)));
  TN_TRY(tni_op_add_kernel(op, kernel));
  j->steps.items[j->steps.count++] = (step){op, kernel, copied};
  return TN_OK;
}

static bool has_kernel(const tn_op *op, uint8_t bit) {
  for (const tni_kernel *k = op->kernels; k; k = k->next)
    if (k->bit == bit) return true;
  return false;
}

static tn_status spread_to(journal *j, tn_op *op, const tni_kernel *fallback) {
  if (op->functional != op || has_kernel(op, fallback->bit)) return TN_OK;
  tni_kernel *copy = tni_alloc(sizeof *copy);
  if (!copy) return tni_oom(sizeof *copy, "a kernel's record");
  *copy = *fallback;
  tn_status status = put_kernel(j, op, copy, true);
  if (status != TN_OK) tni_free(copy);
  return status;
}

static bool is_fallback(const tni_pending_kernel *k) { return strcmp(k->op_name, "*") == 0; }

/* nth: how many fallbacks of this transaction came before; makes room for the hand-over. */
static tn_status spread_new(journal *j, const tni_kernel *fallback, size_t nth) {
  TN_TRY(tni_grow(&fallbacks.items, &fallbacks.capacity, fallbacks.count + nth, sizeof *fallbacks.items));
  size_t n = tni_op_count();
  for (size_t i = 0; i < n; ++i) TN_TRY(spread_to(j, tni_op_at(i), fallback));
  return TN_OK;
}

static tn_status add_operators(tn_registration *reg, journal *j) {
  for (; j->n_ops < reg->operators.count; ++j->n_ops) {
    tni_pending_operator *o = &reg->operators.items[j->n_ops];
    TN_TRY(tni_op_add(o->def, reg->plugin->name, &o->op));
  }
  return TN_OK;
}

/* An operator of this transaction; transaction.c journals kernels only for operators that exist. */
static tn_op *added_op(const tn_registration *reg, const char *name) {
  size_t i = 0;
  while (strcmp(reg->operators.items[i].op->name, name) != 0) ++i;
  return reg->operators.items[i].op;
}

static tn_status add_kernels(tn_registration *reg, journal *j) {
  for (size_t i = 0; i < reg->kernels.count; ++i) {
    tni_pending_kernel *k = &reg->kernels.items[i];
    if (!k->kernel || is_fallback(k)) continue;
    TN_TRY(put_kernel(j, k->op ? k->op : added_op(reg, k->op_name), k->kernel, false));
  }
  return TN_OK;
}

static tn_status apply(tn_registration *reg, journal *j) {
  TN_TRY(add_operators(reg, j));
  TN_TRY(add_kernels(reg, j));
  for (size_t i = 0; i < reg->operators.count; ++i)
    for (size_t k = 0; k < fallbacks.count; ++k)
      TN_TRY(spread_to(j, reg->operators.items[i].op, fallbacks.items[k]));
  for (size_t i = 0, nth = 0; i < reg->kernels.count; ++i) {
    const tni_pending_kernel *k = &reg->kernels.items[i];
    if (k->kernel && is_fallback(k)) TN_TRY(spread_new(j, k->kernel, nth++));
  }
  return TN_OK;
}

static void undo(tn_registration *reg, journal *j) {
  while (j->steps.count > 0) {
    step *s = &j->steps.items[--j->steps.count];
    tni_op_remove_kernel(s->op, s->kernel);
    if (s->copied) tni_free(s->kernel);
  }
  while (j->n_ops > 0) tni_op_remove(reg->operators.items[--j->n_ops].op);
}

/* From here on the tables own it all. */
static void hand_over(tn_registration *reg) {
  for (size_t i = 0; i < reg->kernels.count; ++i)
    if (reg->kernels.items[i].kernel && is_fallback(&reg->kernels.items[i]))
      fallbacks.items[fallbacks.count++] = reg->kernels.items[i].kernel;
  for (size_t i = 0; i < reg->layers.count; ++i) {
    int bit = tni_key_find(reg->layers.items[i]->name);
    atomic_store_explicit(&layer_defs[bit], reg->layers.items[i], memory_order_release);
  }
  for (size_t i = 0; i < reg->backends.count; ++i) {
    const tni_backend *b = reg->backends.items[i];
    if (b->def->flags & TN_BACKEND_INLINE_MEMORY)
      atomic_fetch_or_explicit(&tni_inline_backends, 1u << b->id, memory_order_relaxed);
    reg->backends.items[i]->older = (tni_backend *)(uintptr_t)tni_backend_get(b->id);
    atomic_store_explicit(&tni_backends[b->id], b, memory_order_release);
  }
  reg->plugin->tables = reg->tables;
  reg->tables = NULL;
  reg->committed = true;
  reg->kernels.count = reg->operators.count = reg->layers.count = reg->backends.count = 0;
}

static tni_layer_record *retired_layers; /* reachable, as their holders may not be */

static void retire_layer(unsigned bit) {
  tni_layer_record *record = (tni_layer_record *)(uintptr_t)atomic_exchange(&layer_defs[bit], NULL);
  if (!record) return;
  record->older = retired_layers;
  retired_layers = record;
}

void tni_commit_retire(const tni_plugin *p) {
  size_t kept = 0;
  for (size_t i = 0; i < fallbacks.count; ++i)
    if (strcmp(fallbacks.items[i]->plugin, p->name) != 0) fallbacks.items[kept++] = fallbacks.items[i];
  fallbacks.count = kept;
  for (size_t i = 0; i < p->manifest->layers.count; ++i) {
    int bit = tni_key_find(p->manifest->layers.items[i].name);
    if (bit >= 0) retire_layer((unsigned)bit);
  }
}

tn_status tni_commit(tn_registration *reg) {
  journal j = {0};
  tni_registry_lock();
  tn_status status = apply(reg, &j);
  if (status == TN_OK)
    hand_over(reg);
  else
    undo(reg, &j);
  tni_registry_unlock();
  tni_free(j.steps.items);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The autograd slot of a tensor: its flags, its history, its gradient's cell, and the edge that leads on
 * from it.
 *
 * A slot is made by the one who is allowed to write the tensor, or, for views whose history is made on
 * access, by the first reader: that is why publishing one is an atomic exchange.
 */
#include "core/autograd/autograd_int.h"

enum { SLOT_CLASS = 0, CELL_CLASS = 0 }; /* 64 bytes */
_Static_assert(sizeof(struct tni_autograd) <= 64, "a slot is one small block");
_Static_assert(sizeof(tni_grad_cell) <= 64, "a cell is one small block");

static inline tni_autograd *slot_new(uint32_t view_version) {
  tni_autograd *slot = tni_block_pop(SLOT_CLASS);
  if (TNI_UNLIKELY(!slot)) return NULL;
  slot->grad_fn = NULL;
  atomic_init(&slot->accumulator, NULL);
  slot->cell = NULL;
  slot->output_nr = 0;
  atomic_init(&slot->view_version, view_version);
  slot->requires_grad = false;
  slot->retains_grad = false;
  return slot;
}

tn_status tni_history_new(tn_tensor *t, tni_node *node, uint32_t nr) {
  tni_autograd *slot = slot_new(tni_version_get(t));
  if (TNI_UNLIKELY(!slot)) return tni_oom(sizeof *slot, "gradient state of a tensor");
  slot->grad_fn = node;
  slot->output_nr = nr;
  t->autograd = slot;
  t->keys |= TNI_KEY_AUTOGRAD;
  return TN_OK;
}

tn_status tni_slot_ensure(tn_tensor *t, tni_autograd **out_slot) {
  tni_autograd *slot = __atomic_load_n(&t->autograd, __ATOMIC_ACQUIRE);
  if (!slot) {
    slot = slot_new(t->replay ? t->replay->version : 0);
    if (TNI_UNLIKELY(!slot)) return tni_oom(sizeof *slot, "gradient state of a tensor");
    tni_autograd *other = NULL;
    if (TNI_UNLIKELY(t->base != NULL)) {
      if (!__atomic_compare_exchange_n(&t->autograd, &other, slot, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE)) {
        tni_block_push(slot, SLOT_CLASS);
        slot = other;
      }
    } else {
      t->autograd = slot;
    }
  }
  *out_slot = slot;
  return TN_OK;
}

tn_status tni_slot_cell(tn_tensor *t, tni_grad_cell **out_cell) {
  tni_autograd *slot;
  TN_TRY(tni_slot_ensure(t, &slot));
  if (!slot->cell) {
    tni_grad_cell *cell = tni_block_pop(CELL_CLASS);
    if (!cell) return tni_oom(sizeof *cell, "a gradient's cell");
    atomic_init(&cell->refs, 1);
    atomic_init(&cell->lock, 0);
    cell->grad = NULL;
    slot->cell = cell;
  }
  *out_cell = slot->cell;
  return TN_OK;
}

void tni_cell_release(tni_grad_cell *cell) {
  if (!cell) return;
  if (!tni_count_drop(&cell->refs)) return;
  tn_tensor_release(cell->grad);
  tni_block_push(cell, CELL_CLASS);
}

void tni_autograd_release(tni_autograd *slot) {
  tni_node *accumulator = atomic_load_explicit(&slot->accumulator, memory_order_relaxed);
  if (accumulator) {
    tni_accumulator_forget_leaf(accumulator);
    tni_node_release(accumulator);
  }
  tni_node *grad_fn = slot->grad_fn;
  tni_grad_cell *cell = slot->cell;
  tni_block_push(slot, SLOT_CLASS);
  tni_node_release(grad_fn);
  tni_cell_release(cell);
}

bool tni_requires_grad(const tn_tensor *t) {
  if (tni_slot_requires(t->autograd)) return true;
  return t->base && t->version && tni_slot_requires(t->base->autograd);
}

void tni_history_set(tn_tensor *t, tni_node *node, uint32_t nr) {
  tni_autograd *slot = t->autograd;
  tni_node *old = slot->grad_fn;
  if (old && slot->retains_grad) tni_hooks_drop_retain(old, slot->cell);
  slot->grad_fn = node;
  slot->output_nr = nr;
  atomic_store_explicit(&slot->view_version, tni_version_get(t), memory_order_release);
  t->keys |= TNI_KEY_AUTOGRAD;
  tni_node_release(old);
}

/* ------------------------------------------------------------------ edges */

tn_status tni_grad_fn(tn_tensor *t, tni_edge *out_edge) {
  *out_edge = (tni_edge){NULL, 0};
  if (t->base && t->version) TN_TRY(tni_view_refresh(t));
  tni_autograd *slot = __atomic_load_n(&t->autograd, __ATOMIC_ACQUIRE);
  if (!slot || !slot->grad_fn) return TN_OK;
  tni_node_retain(slot->grad_fn);
  *out_edge = (tni_edge){slot->grad_fn, slot->output_nr};
  return TN_OK;
}

tn_status tni_gradient_edge(tn_tensor *t, tni_edge *out_edge) {
  if (!(t->keys & TNI_KEY_AUTOGRAD)) {
    *out_edge = (tni_edge){NULL, 0};
    return TN_OK;
  }
  TN_TRY(tni_grad_fn(t, out_edge));
  if (out_edge->fn || !tni_requires_grad(t)) return TN_OK;
  return tni_accumulator_get(t, &out_edge->fn);
}

tn_status tni_autograd_detach(tn_tensor *t) {
  if (t->base)
    return tn_fail(TN_ERR_STATE,
                   "detach_: this tensor is a view and cannot be detached in place; use detach");
  tni_autograd *slot = t->autograd;
  if (slot) {
    tni_node *old = slot->grad_fn;
    if (old && slot->retains_grad) tni_hooks_drop_retain(old, slot->cell);
    slot->retains_grad = false;
    slot->requires_grad = false;
    slot->grad_fn = NULL;
    slot->output_nr = 0;
    tni_node_release(old);
  }
  t->keys &= ~TNI_KEY_AUTOGRAD;
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of the graph: one accumulation node per leaf (A5), which writes the gradient's cell.
 *
 * Note [Steal or clone]
 * The first gradient becomes the leaf's without a copy if nobody else can see it (C5): one handle, which is
 * the engine's, its own memory, strides as the parameter's. A view that holds its memory alone (the gradient of
 * a transposed weight, turned back) is as good: its memory goes to a tensor that is no view. Everything else is
 * copied, with the parameter's strides if those are dense (C6). Later gradients are added into the same tensor
 * (C3), except when the backward is itself recorded: then the sum is a new tensor (C4). The node may outlive its
 * leaf. It then still writes the cell, which nobody reads; hooks on the gradient run, hooks that want the leaf do
 * not.
 */
#include <tenon/ops.h>

#include "core/autograd/autograd_int.h"

typedef struct accumulator {
  tni_node node;
  tni_grad_cell *cell; /* shared with the leaf's slot */
  tn_tensor *leaf;     /* weak: NULL once the leaf died; guarded by leaf_lock */
  tni_spin leaf_lock;
  bool dense;                    /* the leaf's strides are kept */
  _Atomic(tni_thread *) hooking; /* the thread that runs hooks under leaf_lock */
  const tn_dim *strides;
} accumulator;

static bool same_strides(const accumulator *a, const tn_tensor *grad) {
  const tni_shape *shape = &a->node.shapes[0];
  if (!a->dense) return (grad->view.flags & TN_VIEW_CONTIGUOUS) != 0;
  for (unsigned i = 0; i < shape->ndim; ++i)
    if (shape->sizes[i] != 1 && grad->view.strides[i] != a->strides[i]) return false;
  return true;
}

/* cell->lock is held. */
static tn_status accumulate(accumulator *a, tn_tensor **grad) {
  tni_grad_cell *cell = a->cell;
  bool recorded = tni_grad_on();
  if (cell->grad) {
    if (!recorded) {
      TN_TRY(tn_add_(cell->grad, *grad, tn_int(1)));
      return TN_OK;
    }
    tn_tensor *sum;
    TN_TRY(tn_add(cell->grad, *grad, tn_int(1), &sum));
    tn_tensor_release(cell->grad);
    cell->grad = sum;
    return TN_OK;
  }
  if (!recorded && tni_grad_writable(*grad) && same_strides(a, *grad)) {
    cell->grad = *grad;
    *grad = NULL;
    return TN_OK;
  }
  if (!recorded && same_strides(a, *grad) && tni_grad_view_alone(*grad)) {
    const tn_view *v = &(*grad)->view;
    return tni_tensor_alias(*grad, v->ndim, v->sizes, v->strides, 0, false, &cell->grad);
  }
  return tni_grad_clone(*grad, a->dense ? a->strides : NULL, &cell->grad);
}

/* The leaf cannot go while leaf_lock is held, except by a hook of this very thread. */
static tn_status post_hooks(accumulator *a) {
  tni_spin_lock(&a->leaf_lock);
  atomic_store_explicit(&a->hooking, &tni_tls, memory_order_relaxed);
  tn_status status = a->leaf ? tni_hooks_post_accumulate(&a->node, a->leaf) : TN_OK;
  atomic_store_explicit(&a->hooking, NULL, memory_order_relaxed);
  tni_spin_unlock(&a->leaf_lock);
  return status;
}

static tn_status accumulator_apply(tni_node *node, const tni_apply *how, tn_tensor **grads, tn_tensor **out) {
  accumulator *a = (accumulator *)(void *)node;
  tni_spin_lock(&a->cell->lock);
  tn_status status = accumulate(a, &grads[0]);
  tni_spin_unlock(&a->cell->lock);
  if (status == TN_OK && tni_hooks_has_post(node)) status = post_hooks(a);
  return status;
}

static void accumulator_deinit(tni_node *node) { tni_cell_release(((accumulator *)(void *)node)->cell); }

static const tni_node_class accumulator_class = {accumulator_apply, accumulator_deinit};

bool tni_is_accumulator(const tni_node *node) { return node->cls == &accumulator_class; }

void tni_accumulator_forget_leaf(tni_node *node) {
  accumulator *a = (accumulator *)(void *)node;
  if (atomic_load_explicit(&a->hooking, memory_order_relaxed) == &tni_tls) {
    a->leaf = NULL;
    return;
  }
  tni_spin_lock(&a->leaf_lock);
  a->leaf = NULL;
  tni_spin_unlock(&a->leaf_lock);
}

static tn_status accumulator_new(tn_tensor *leaf, tni_node **out_node) {
  tni_grad_cell *cell;
  TN_TRY(tni_slot_cell(leaf, &cell));
  unsigned ndim = leaf->view.ndim;
  tn_dim *dims;
  TN_TRY(tni_node_new(&accumulator_class, "AccumulateGrad", sizeof(accumulator), 0, 1, 2 * ndim, 0, &dims,
                      NULL, out_node));
  accumulator *a = (accumulator *)(void *)*out_node;
  tni_shape_set(&a->node.shapes[0], &leaf->view, &dims);
  a->node.sequence_nr = UINT64_MAX; /* as early as possible (C2) */
  a->node.device = tn_view_device(&leaf->view);
  a->cell = cell;
  tni_count_add(&cell->refs);
  a->leaf = leaf;
  atomic_init(&a->leaf_lock, 0);
  atomic_init(&a->hooking, NULL);
  a->dense = (leaf->view.flags & TN_VIEW_DENSE) != 0;
  a->strides = dims;
  for (unsigned i = 0; i < ndim; ++i) dims[i] = leaf->view.strides[i];
  return TN_OK;
}

/* Two threads may meet a leaf for the first time at once: one node wins. */
static tni_mutex accumulators = TNI_MUTEX_INIT;
TNI_FORK_LOCK(accumulators, TNI_FORK_AUTOGRAD, accumulators);
static tn_status accumulator_publish(tn_tensor *leaf, tni_autograd *slot, tni_node **out_node) {
  tn_status status = TN_OK;
  tni_mutex_lock(&accumulators);
  tni_node *node = atomic_load_explicit(&slot->accumulator, memory_order_acquire);
  if (!node) {
    status = accumulator_new(leaf, &node);
    if (status == TN_OK) atomic_store_explicit(&slot->accumulator, node, memory_order_release);
  }
  tni_mutex_unlock(&accumulators);
  *out_node = node;
  return status;
}

tn_status tni_accumulator_get(tn_tensor *leaf, tni_node **out_node) {
  tni_autograd *slot;
  *out_node = NULL;
  TN_TRY(tni_slot_ensure(leaf, &slot));
  tni_node *node = atomic_load_explicit(&slot->accumulator, memory_order_acquire);
  if (!node) TN_TRY(accumulator_publish(leaf, slot, &node));
  tni_node_retain(node);
  *out_node = node;
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of graph nodes: one block each, and a release that never recurses (A7).
 *
 * Freeing a node gives up its edges and its saved tensors, and each of those may give up the next node. The
 * thread's first release therefore works a list, and releases that happen inside it only add to that list.
 * What nodes compute is in op_node.c, accumulate.c and copy_slices.c; here is only the end node, which
 * stands for an operator without a gradient.
 */
#include "core/autograd/autograd_int.h"

tn_status tni_node_new(const tni_node_class *cls, const char *name, size_t struct_bytes, uint32_t n_edges,
                       uint32_t n_outs, size_t n_dims, size_t payload_bytes, tn_dim **out_dims,
                       void **out_payload, tni_node **out_node) {
  tn_dim *dims = NULL;
  void *payload = NULL;
  TN_TRY(tni_node_make(cls, name, (struct_bytes + 7) & ~(size_t)7, n_edges, n_outs, n_dims, payload_bytes, &dims,
                       &payload, out_node));
  if (out_dims) *out_dims = dims;
  if (out_payload) *out_payload = payload;
  return TN_OK;
}

/* Releases inside here come back to tni_node_release, which only lists the node. */
static inline void node_free(tni_node *node, tni_thread *thread) {
  if (!node->bare && node->cls->deinit) node->cls->deinit(node);
  for (uint32_t i = 0; i < node->n_edges; ++i) {
    tni_node *next = node->edges[i].fn;
    if (!next || !tni_count_drop(&next->refs)) continue;
    next->next_dying = thread->dying;
    thread->dying = next;
  }
  struct tni_hooks *hooks = atomic_load_explicit(&node->hooks, memory_order_relaxed);
  if (TNI_UNLIKELY(hooks != NULL)) tni_hooks_free(hooks);
  if (TNI_LIKELY(node->block_class < TNI_BLOCK_CLASSES))
    tni_block_push(node, node->block_class);
  else
    tni_free(node);
}

void tni_node_release(tni_node *node) {
  if (!node || !tni_count_drop(&node->refs)) return;
  tni_thread *thread = &tni_tls;
  if (thread->freeing_nodes) {
    node->next_dying = thread->dying;
    thread->dying = node;
    return;
  }
  thread->freeing_nodes = true;
  for (;;) {
    node_free(node, thread);
    node = thread->dying;
    if (!node) break;
    thread->dying = node->next_dying;
  }
  thread->freeing_nodes = false;
}

/* ------------------------------------------------------------------ end nodes */

static tn_status raise_apply(tni_node *node, const tni_apply *how, tn_tensor **grads, tn_tensor **out) {
  return tn_fail(TN_ERR_NOT_DIFFERENTIABLE, "the derivative of %s is not implemented", node->name);
}

static tn_status zero_apply(tni_node *node, const tni_apply *how, tn_tensor **grads, tn_tensor **out) {
  return TN_OK;
}

static const tni_node_class raise_class = {raise_apply, NULL};
static const tni_node_class zero_class = {zero_apply, NULL};

static uint32_t count_tensors(const tn_op *op, const tn_value *args) {
  uint32_t n = 0;
  for (uint64_t m = op->tensor_args; m; m &= m - 1) n += args[__builtin_ctzll(m)].kind == TN_VAL_TENSOR;
  for (uint64_t m = op->list_args; m; m &= m - 1) n += args[__builtin_ctzll(m)].count;
  return n;
}

static tn_status edges_from(const tn_op *op, const tn_value *args, tni_node *node) {
  uint32_t k = 0;
  for (uint64_t m = op->tensor_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR) TN_TRY(tni_gradient_edge(v->u.t, &node->edges[k++]));
  }
  for (uint64_t m = op->list_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    for (uint32_t i = 0; i < v->count; ++i, ++k)
      if (v->u.ts[i]) TN_TRY(tni_gradient_edge(v->u.ts[i], &node->edges[k]));
  }
  return TN_OK;
}

tn_status tni_end_node_new(const tn_op *op, tn_tensor *const *outs, uint32_t n_outs, bool raises,
                           const tn_value *args, tni_node **out_node) {
  size_t n_dims = 0;
  for (uint32_t i = 0; i < n_outs; ++i) n_dims += outs[i] ? outs[i]->view.ndim : 0;
  tn_dim *dims;
  tni_node *node;
  TN_TRY(tni_node_new(raises ? &raise_class : &zero_class, op->name, sizeof *node,
                      raises ? count_tensors(op, args) : 0, n_outs, n_dims, 0, &dims, NULL, &node));
  for (uint32_t i = 0; i < n_outs; ++i) {
    node->shapes[i] = (tni_shape){0};
    if (outs[i]) tni_shape_set(&node->shapes[i], &outs[i]->view, &dims);
  }
  tn_status status = raises ? edges_from(op, args, node) : TN_OK;
  if (status != TN_OK) {
    tni_node_release(node);
    return status;
  }
  *out_node = node;
  return TN_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The node that a base gets when one of its views was written in place (E9): the gradient of the base is
 * rerouted through the writing operator in that region only, and passes unchanged elsewhere.
 *
 * Its edges are those of the writing operator's node, with the edge of the written argument replaced by the
 * base's former history. The view is found by replaying its records on a copy of the gradient.
 */
#include <tenon/ops.h>

#include "core/autograd/autograd_int.h"

typedef struct copy_slices {
  tni_node node;
  tni_node *fn;       /* what wrote */
  tni_view_fn *view;  /* from base to the written view */
  uint32_t self_edge; /* edge to the base's former history; n_edges of fn if fn has none for it */
  bool dense;
  const tn_dim *strides; /* the base's */
} copy_slices;

/* A copy of grad laid out as the base, and the written region of it. */
static tn_status region_of(const copy_slices *c, tn_tensor *grad, tn_tensor **out_result,
                           tn_tensor **out_slice) {
  TN_TRY(tni_grad_clone(grad, c->dense ? c->strides : NULL, out_result));
  tn_status status = tni_view_fn_call(c->view, *out_result, out_slice);
  if (status == TN_OK) return TN_OK;
  tn_tensor_release(*out_result);
  *out_result = NULL;
  return status;
}

/* Puts the gradient that fn gave for the region back into it. */
static tn_status region_set(const copy_slices *c, tn_tensor *slice, tn_tensor **region_grad) {
  if (!*region_grad) return tn_zero_(slice);
  TN_TRY(tni_grad_fit(&c->fn->shapes[0], region_grad, c->fn->name, c->self_edge));
  return tn_copy_(slice, *region_grad, false);
}

static tn_status run_fn(const copy_slices *c, const tni_apply *how, tn_tensor *slice, tn_tensor **fn_out) {
  tn_tensor *grad;
  TN_TRY(tni_grad_clone(slice, NULL, &grad));
  tn_status status = c->fn->cls->apply(c->fn, how, &grad, fn_out);
  tn_tensor_release(grad);
  return status;
}

static tn_status copy_slices_apply(tni_node *node, const tni_apply *how, tn_tensor **grads, tn_tensor **out) {
  copy_slices *c = (copy_slices *)(void *)node;
  tn_tensor *result, *slice;
  bool in_fn = c->self_edge < c->fn->n_edges;
  TN_TRY(region_of(c, grads[0], &result, &slice));
  tn_status status = run_fn(c, how, slice, out);
  if (status == TN_OK && how->wanted[c->self_edge]) {
    status = region_set(c, slice, &out[c->self_edge]);
    if (in_fn) tn_tensor_release(out[c->self_edge]);
    out[c->self_edge] = NULL;
    if (status == TN_OK) out[c->self_edge] = tn_tensor_retain(result);
  }
  tn_tensor_release(slice);
  tn_tensor_release(result);
  return status;
}

static void copy_slices_deinit(tni_node *node) {
  copy_slices *c = (copy_slices *)(void *)node;
  tni_node_release(c->fn);
  tni_view_fn_free(c->view);
}

static const tni_node_class copy_slices_class = {copy_slices_apply, copy_slices_deinit};

tni_node *tni_copy_slices_fn(tni_node *node) {
  return node->cls == &copy_slices_class ? ((copy_slices *)(void *)node)->fn : NULL;
}

static tn_status edges_fill(copy_slices *c, tn_tensor *base) {
  for (uint32_t k = 0; k < c->fn->n_edges; ++k) {
    if (k == c->self_edge || !c->fn->edges[k].fn) continue;
    c->node.edges[k] = c->fn->edges[k];
    tni_node_retain(c->node.edges[k].fn);
  }
  return tni_gradient_edge(base, &c->node.edges[c->self_edge]);
}

tn_status tni_copy_slices_new(tn_tensor *view, tni_node *fn, uint32_t self_edge, tni_node **out_node) {
  tn_tensor *base = view->base;
  tni_node *node = NULL;
  tn_dim *dims;
  uint32_t n_edges = self_edge < fn->n_edges ? fn->n_edges : fn->n_edges + 1;
  *out_node = NULL;
  tn_status status = tni_node_new(&copy_slices_class, "CopySlices", sizeof(copy_slices), n_edges, 1,
                                  2 * base->view.ndim, 0, &dims, NULL, &node);
  if (status != TN_OK) {
    tni_node_release(fn);
    return status;
  }
  copy_slices *c = (copy_slices *)(void *)node;
  c->fn = fn;
  c->view = NULL;
  c->self_edge = self_edge < fn->n_edges ? self_edge : fn->n_edges;
  c->dense = (base->view.flags & TN_VIEW_DENSE) != 0;
  tni_shape_set(&node->shapes[0], &base->view, &dims);
  node->device = tni_shape_device(&node->shapes[0]);
  c->strides = dims;
  for (unsigned i = 0; i < base->view.ndim; ++i) dims[i] = base->view.strides[i];
  status = tni_view_fn_new(view, &c->view);
  if (status == TN_OK) status = edges_fill(c, base);
  if (status != TN_OK) {
    tni_node_release(node);
    return status;
  }
  *out_node = node;
  return TN_OK;
}

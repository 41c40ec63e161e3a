/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's own arithmetic: bringing a gradient to the shape, dtype and device of the value it belongs
 * to, and adding gradients up. All of it goes through the dispatcher, so that a recorded backward records
 * it too.
 *
 * Note [Writing in place]
 * A sum is made in place only if nobody can see it: gradients are not being recorded, no layer or transform
 * is pushed that could have wrapped or noted the tensor, and the tensor is a block of its own with one
 * handle (the engine's). Seeds, captured and retained gradients have a second handle and are therefore
 * never written (C5).
 */
#include <tenon/kit/shape.h>
#include <tenon/ops.h>

#include "core/autograd/autograd_int.h"

bool tni_grad_writable(const tn_tensor *t) {
  const tni_thread_modes *modes = &tni_tls.modes;
  if (tni_grad_on() || modes->include || modes->transforms || t->wrapper || t->level) return false;
  if (atomic_load_explicit(&t->refs, memory_order_acquire) != 1) return false;
  if (t->parent || t->owner || atomic_load_explicit(&t->keep, memory_order_acquire) != 1) return false;
  return (t->view.flags & (TN_VIEW_DENSE | TN_VIEW_READ_ONLY)) == TN_VIEW_DENSE;
}

/* Each link is held by the next one alone, and the root's memory by the root. */
bool tni_grad_view_alone(const tn_tensor *t) {
  const tn_tensor *root = t->base;
  if (!root || t->view.numel != root->view.numel || root->own_storage.kind == TNI_STORAGE_FOREIGN)
    return false;
  if (t->view.storage != &root->own_storage) return false;
  for (const tn_tensor *link = t; link != root; link = link->parent)
    if (link->autograd || atomic_load_explicit(&link->counts, memory_order_acquire) != TNI_SOLE) return false;
  return tni_grad_writable(root) && (t->view.flags & TN_VIEW_DENSE);
}

/* ------------------------------------------------------------------ fitting */

/* Sizes that `shape` can be expanded to. */
static bool reduces_to(const tn_view *v, const tni_shape *shape) {
  if (v->ndim < shape->ndim) return false;
  unsigned lead = v->ndim - shape->ndim;
  for (unsigned i = 0; i < shape->ndim; ++i)
    if (shape->sizes[i] != v->sizes[lead + i] && shape->sizes[i] != 1) return false;
  return true;
}

/* *grad is replaced by *by, which `status` says was made. A pointer, because arguments have no order. */
static tn_status replace(tn_tensor **grad, tn_status status, tn_tensor **by) {
  if (status != TN_OK) return status;
  tn_tensor_release(*grad);
  *grad = *by;
  return TN_OK;
}

static tn_status sum_to(const tni_shape *shape, tn_tensor **grad) {
  int64_t dims[TN_MAX_RANK];
  size_t n = 0;
  const tn_view *v = &(*grad)->view;
  unsigned lead = v->ndim - shape->ndim;
  for (unsigned i = 0; i < v->ndim; ++i)
    if (i < lead || (shape->sizes[i - lead] == 1 && v->sizes[i] != 1)) dims[n++] = i;
  tn_tensor *result = NULL;
  TN_TRY(replace(grad, tn_sum_dim(*grad, dims, n, true, TN_DTYPE_NONE, &result), &result));
  if (!lead) return TN_OK;
  return replace(grad, tn_reshape(*grad, shape->sizes, shape->ndim, &result), &result);
}

static TN_COLD tn_status shape_failure(const tni_shape *shape, const tn_view *v, const char *node_name,
                                       uint32_t k) {
  return tn_fail(
      TN_ERR_INVALID_ARGUMENT,
      "%s gave a gradient of shape %s for its input %u; expected %s or a shape that can be summed to it",
      node_name, tn_shape_format(v->ndim, v->sizes, TN_SHAPE_TEXT), k,
      tn_shape_format(shape->ndim, shape->sizes, TN_SHAPE_TEXT));
}

static TN_COLD tn_status device_failure(const tni_shape *shape, const tn_view *v, const char *node_name,
                                        uint32_t k) {
  char got[64], expected[64];
  return tn_fail(TN_ERR_DEVICE, "%s gave a gradient on %s for its input %u; expected it on %s", node_name,
                 tn_device_name(tn_view_device(v), got, sizeof got), k,
                 tn_device_name(tni_shape_device(shape), expected, sizeof expected));
}

tn_status tni_grad_fit_slow(const tni_shape *shape, tn_tensor **grad, const char *node_name, uint32_t k) {
  const tn_view *v = &(*grad)->view;
  tn_tensor *result = NULL;
  bool device = v->backend == shape->backend && v->device_index == shape->device_index;
  if (!device && v->ndim != 0) return device_failure(shape, v, node_name, k);
  if (!tn_shape_equal(v->ndim, v->sizes, shape->ndim, shape->sizes)) {
    if (!reduces_to(v, shape)) return shape_failure(shape, v, node_name, k);
    TN_TRY(sum_to(shape, grad));
  }
  v = &(*grad)->view;
  if (!device)
    return replace(
        grad, tn_to_device(*grad, tni_shape_device(shape), shape->dtype, false, false, TN_MEMORY_FORMAT_NONE, &result),
        &result);
  if (v->dtype == shape->dtype) return TN_OK;
  if (!tni_dtype_differentiable(v->dtype))
    return tn_fail(TN_ERR_DTYPE, "%s gave a gradient of dtype %s for its input %u; expected %s", node_name,
                   tn_dtype_name(v->dtype), k, tn_dtype_name(shape->dtype));
  return replace(grad, tn_to_dtype(*grad, shape->dtype, false, false, TN_MEMORY_FORMAT_NONE, &result),
                 &result);
}

/* ------------------------------------------------------------------ adding, copying, making */

tn_status tni_grad_add(tn_tensor **slot, tn_tensor *grad) {
  tn_status status;
  if (!*slot) {
    *slot = grad;
    return TN_OK;
  }
  if (tni_grad_writable(*slot)) {
    status = tn_add_(*slot, grad, tn_int(1));
  } else if (tni_grad_writable(grad)) {
    status = tn_add_(grad, *slot, tn_int(1));
    if (status == TN_OK) { /* the sum stands in grad */
      tn_tensor *other = *slot;
      *slot = grad;
      grad = other;
    }
  } else {
    tn_tensor *sum;
    status = tn_add(*slot, grad, tn_int(1), &sum);
    if (status == TN_OK) {
      tn_tensor_release(*slot);
      *slot = sum;
    }
  }
  tn_tensor_release(grad);
  return status;
}

tn_status tni_grad_clone(tn_tensor *grad, const tn_dim *strides, tn_tensor **out_clone) {
  const tn_view *v = &grad->view;
  *out_clone = NULL;
  tn_tensor *clone;
  TN_TRY(tni_tensor_new(v->dtype, v->ndim, v->sizes, strides, tn_view_device(v), &clone));
  tn_status status = tn_copy_(clone, grad, false);
  if (status != TN_OK) {
    tn_tensor_release(clone);
    return status;
  }
  *out_clone = clone;
  return TN_OK;
}

static const tn_options *options_of(const tni_shape *shape, tn_options *room) {
  *room = (tn_options){.dtype = shape->dtype, .has_device = true, .device = tni_shape_device(shape)};
  return room;
}

tn_status tni_grad_zeros(const tni_shape *shape, tn_tensor **out_zeros) {
  tn_options options;
  return tn_zeros(shape->sizes, shape->ndim, options_of(shape, &options), out_zeros);
}

tn_status tni_grad_ones(const tni_shape *shape, tn_tensor **out_ones) {
  tn_options options;
  return tn_ones(shape->sizes, shape->ndim, options_of(shape, &options), out_ones);
}

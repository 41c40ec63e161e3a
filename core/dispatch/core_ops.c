/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators that touch what only the core may touch: identity, storage and geometry of a tensor. Their
 * registry entries say `body: c:NAME`; each function here is the tn_body_NAME.
 *
 * copy_ stands here as the last link of its provider chain: where no kernel copies between two backends, the
 * bytes go through host memory.
 */
#include <tenon/kit/dtype.h>
#include <tenon/kit/shape.h>
#include <tenon/ops.h>

#include "core/autograd/autograd.h"
#include "core/dispatch/dispatch_int.h"
#include "core/load/load.h"
#include "ops_index.h"
#include "ops_rules.h"

const tn_op *tni_op_copy(void) { return &tni_op_table[TNI_OP_copy_]; }

/* Runs fn's operator calls below every layer. */
static uint64_t layers_off(void) {
  uint64_t saved = tni_tls.modes.exclude;
  tni_tls.modes.exclude |= ~TNI_KEYS_BACKENDS;
  return saved;
}

tn_status tni_copy(tn_tensor *dst, tn_tensor *src) {
  uint64_t saved = layers_off();
  const tn_value args[3] = {tn_value_tensor(dst), tn_value_tensor(src), tn_value_bool(false)};
  tn_status status = tni_call(tni_op_copy(), args, NULL);
  tni_tls.modes.exclude = saved;
  return status;
}

tn_status tni_cast_copy(tn_tensor *src, tn_dtype dtype, tn_device device, tn_tensor **out_tensor) {
  const tn_view *v = &src->view;
  TN_TRY(tni_tensor_new(dtype, v->ndim, v->sizes, NULL, device, out_tensor));
  tn_status status = tni_copy(*out_tensor, src);
  if (status == TN_OK) return TN_OK;
  tn_tensor_release(*out_tensor);
  *out_tensor = NULL;
  return status;
}

/* ------------------------------------------------------------------ copy_ through the host */

static bool on_host(const tn_view *v) {
  const tni_backend *b = tni_backend_get(v->backend);
  return b && (b->def->flags & TN_BACKEND_HOST_MEMORY);
}

/* Moves the bytes of two contiguous views of one dtype and shape. */
static tn_status move_bytes(const tn_view *dst, const tn_view *src) {
  uint64_t bytes = (uint64_t)src->numel * src->itemsize;
  const tn_backend_def *to = tni_backend_get(dst->backend)->def, *from = tni_backend_get(src->backend)->def;
  if (!bytes) return TN_OK;
  if (on_host(src)) return to->from_host(to->ctx, dst->device_index, dst->mem, dst->offset_bytes, src->data, bytes, NULL);
  if (on_host(dst)) return from->to_host(from->ctx, src->device_index, src->mem, src->offset_bytes, dst->data, bytes, NULL);
  void *stage = tni_alloc(bytes);
  if (!stage) return tni_oom(bytes, "staging a copy between two devices");
  tn_status status = from->to_host(from->ctx, src->device_index, src->mem, src->offset_bytes, stage, bytes, NULL);
  if (status == TN_OK) status = to->from_host(to->ctx, dst->device_index, dst->mem, dst->offset_bytes, stage, bytes, NULL);
  tni_free(stage);
  return status;
}

/* A contiguous tensor on `device` with src's values expanded to dst's shape, in dst's dtype. */
static tn_status to_cpu_like(tn_tensor *src, const tn_view *like, tn_tensor **out) {
  tn_device cpu = {TN_BACKEND_CPU, 0, 0};
  tn_tensor *flat = NULL;
  *out = NULL;
  if (on_host(&src->view)) return tni_cast_copy(src, like->dtype, cpu, out);
  if (!(src->view.flags & TN_VIEW_CONTIGUOUS))
    return tn_fail(TN_ERR_MISSING_KERNEL, "copying a strided tensor of %s needs that backend's copy_ kernel",
                   tni_backend_name(src->view.backend));
  TN_TRY(tni_tensor_new(src->view.dtype, src->view.ndim, src->view.sizes, NULL, cpu, &flat));
  tn_status status = move_bytes(&flat->view, &src->view);
  if (status == TN_OK) status = tni_cast_copy(flat, like->dtype, cpu, out);
  tn_tensor_release(flat);
  return status;
}

/* An accelerator without a strided copy kernel still takes contiguous bytes. */
static tn_status copy_through_host(tn_tensor *dst, tn_tensor *src) {
  tn_tensor *staged = NULL, *shaped = NULL;
  tn_device cpu = {TN_BACKEND_CPU, 0, 0};
  TN_TRY(to_cpu_like(src, &dst->view, &staged));
  tn_status status = tni_tensor_new(dst->view.dtype, dst->view.ndim, dst->view.sizes, NULL, cpu, &shaped);
  if (status == TN_OK) status = tni_copy(shaped, staged); /* broadcasts */
  if (status == TN_OK && !(dst->view.flags & TN_VIEW_CONTIGUOUS))
    status = tn_fail(TN_ERR_MISSING_KERNEL, "copying into a strided tensor of %s needs that backend's copy_ kernel",
                     tni_backend_name(dst->view.backend));
  if (status == TN_OK) status = move_bytes(&dst->view, &shaped->view);
  tn_tensor_release(staged);
  tn_tensor_release(shaped);
  return status;
}

tn_status tn_body_copy_(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  (void)out;
  tn_tensor *dst = args[0].u.t, *src = args[1].u.t;
  if (src->view.backend == TN_BACKEND_META)
    return tn_fail(TN_ERR_DEVICE, "a meta tensor has no data to copy to %s", tni_backend_name(dst->view.backend));
  if (on_host(&dst->view) && !on_host(&src->view)) {
    tn_tensor *staged;
    TN_TRY(to_cpu_like(src, &dst->view, &staged));
    tn_status status = tni_copy(dst, staged);
    tn_tensor_release(staged);
    return status;
  }
  TN_TRY(copy_through_host(dst, src));
  tni_version_bump(dst);
  return TN_OK;
}

/* ------------------------------------------------------------------ detach, resize_, set_ */

tn_status tn_body_detach(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  tn_tensor *self = args[0].u.t, *alias;
  const tn_view *v = &self->view;
  TN_TRY(tni_tensor_alias(self, v->ndim, v->sizes, v->strides, 0, true, &alias));
  out[0] = tn_value_tensor(alias);
  return TN_OK;
}

tn_status tni_resize(tn_tensor *t, uint32_t ndim, const tn_dim *sizes) {
  tn_dim numel;
  TN_TRY(tn_shape_numel(ndim, sizes, &numel));
  if (tn_shape_equal(ndim, sizes, t->view.ndim, t->view.sizes)) return TN_OK;
  uint64_t have = tni_storage_bytes(tni_storage_of(t));
  uint64_t need = (uint64_t)numel * t->view.itemsize + (uint64_t)t->view.offset_bytes;
  if (need <= have || t->view.backend == TN_BACKEND_META) {
    TN_TRY(tni_tensor_set_geometry(t, ndim, sizes, NULL, 0));
    tni_version_bump(t);
    return TN_OK;
  }
  /* A second handle may be a view's: handles and views share one count, so both refuse. */
  bool shared = t->parent || t->owner || atomic_load(&t->keep) > 1 || atomic_load(&t->refs) > 1;
  if (shared && t->view.numel)
    return tn_fail(TN_ERR_STATE,
                   "growing a tensor whose memory views or other handles share is refused: %llu bytes needed, %llu there",
                   (unsigned long long)need, (unsigned long long)have);
  tn_tensor *fresh;
  TN_TRY(tni_tensor_new(t->view.dtype, ndim, sizes, NULL, tn_view_device(&t->view), &fresh));
  tn_status status = TN_OK;
  if (t->view.numel && t->view.numel <= fresh->view.numel && (t->view.flags & TN_VIEW_CONTIGUOUS)) {
    tn_tensor *head; /* the old elements stay in front, as ATen keeps them */
    status = tni_tensor_alias(fresh, t->view.ndim, t->view.sizes, t->view.strides, 0, true, &head);
    if (status == TN_OK) status = tni_copy(head, t);
    if (status == TN_OK) tn_tensor_release(head);
  }
  if (status == TN_OK) status = tni_tensor_set(t, fresh);
  tn_tensor_release(fresh);
  if (status == TN_OK) tni_version_bump(t);
  return status;
}

static tn_status refuse_history(const tn_tensor *t, const char *what) {
  if (!tni_requires_grad(t)) return TN_OK;
  return tn_fail(TN_ERR_STATE, "%s of a tensor that requires grad is refused; detach it first", what);
}

tn_status tn_body_resize_(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  (void)out;
  TN_TRY(refuse_history(args[0].u.t, "resizing"));
  return tni_resize(args[0].u.t, args[1].count, args[1].u.ints);
}

tn_status tn_body_set_source_tensor(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  (void)out;
  tn_tensor *self = args[0].u.t, *source = args[1].u.t;
  TN_TRY(refuse_history(self, "replacing the memory"));
  if (self->view.dtype != source->view.dtype)
    return tn_fail(TN_ERR_DTYPE, "expected a source of dtype %s, got %s", tn_dtype_name(self->view.dtype),
                   tn_dtype_name(source->view.dtype));
  if (self->parent) return tn_fail(TN_ERR_STATE, "the memory of a view cannot be replaced");
  TN_TRY(tni_tensor_set(self, source));
  tni_version_bump(self);
  return TN_OK;
}

tn_status tn_body_detach_(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  (void)out;
  return tni_autograd_detach(args[0].u.t);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators that touch what only the core may touch: identity, storage and geometry of a tensor. Their
 * registry entries say `body: c:NAME`; each function here is the tn_body_NAME.
 *
 * copy_ stands here as the last link of its provider chain: where no kernel copies between two backends, the
 * bytes go through host memory (Note [Faces]).
 */
#include <tenon/kit/dtype.h>
#include <tenon/kit/shape.h>
#include <tenon/ops.h>

#include "core/autograd/autograd.h"
#include "core/dispatch/dispatch_int.h"
#include "core/dispatch/fallback.h"
#include "core/load/load.h"
#include "core/tensor/stream.h"
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

tn_status tni_copy_uncounted(tn_tensor *dst, tn_tensor *src) {
  uint32_t version = tni_version_get(dst);
  tn_status status = tni_copy(dst, src);
  if (dst->version) atomic_store_explicit(&dst->version->value, version, memory_order_relaxed);
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

/* Do both sides lie alike, so that their bytes are all there is to copy? */
static bool lies_alike(const tn_view *a, const tn_view *b) {
  if (a->dtype != b->dtype || !(a->flags & b->flags & TN_VIEW_DENSE)) return false;
  if (!tn_shape_equal(a->ndim, a->sizes, b->ndim, b->sizes)) return false;
  for (uint32_t i = 0; i < a->ndim; ++i)
    if (a->sizes[i] > 1 && a->strides[i] != b->strides[i]) return false;
  return true;
}

/* Between two devices of one backend, or within one, by its row `copy`. *out_done false: it is none of these. On one
 * device the copy goes to the current stream; between two, both sides' streams are waited for. */
static tn_status copy_by_row(tn_tensor *dst, tn_tensor *src, bool *out_done) {
  const tn_view *to = &dst->view, *from = &src->view;
  const tni_backend *b = tni_backend_get(to->backend);
  *out_done = false;
  if (to->backend != from->backend || !b->def->copy || !lies_alike(to, from)) return TN_OK;
  *out_done = true;
  if (!to->numel) return TN_OK;
  const bool apart = to->device_index != from->device_index;
  void *raw = tni_stream_raw(tn_view_device(to));
  TN_TRY(tni_backend_admit(b));
  TN_TRY(tni_tensor_admit(b, to, raw));
  TN_TRY(tni_tensor_admit(b, from, tni_stream_raw(tn_view_device(from))));
  if (apart) TN_TRY(tni_device_wait(b, from->device_index));
  int64_t to_begin, from_begin, end;
  tn_view_byte_range(to, &to_begin, &end);
  tn_view_byte_range(from, &from_begin, &end);
  TN_TRY(b->def->copy(b->def->ctx, to->device_index, to->mem, to->offset_bytes + to_begin, from->device_index, from->mem,
                      from->offset_bytes + from_begin, (uint64_t)(end - from_begin), raw));
  return apart ? tni_device_wait(b, to->device_index) : TN_OK;
}

/* A copy within one device that none of its kernels makes: counted, and the user may forbid it. */
static tn_status begin_copy(const tn_view *dst, const tn_view *src, tni_fallback_count **out_counter) {
  *out_counter = NULL;
  if (dst->backend != src->backend) return TN_OK;
  tni_fallback_choice choice = tni_fallback_choose(tni_op_copy(), dst->backend);
  if (choice.policy == TN_FALLBACK_ERROR && choice.by_word)
    return tni_fallback_refuse(tni_op_copy(), dst->backend, dst->dtype, NULL, 0);
  return tni_fallback_counter(tni_op_copy(), dst->backend, out_counter);
}

tn_status tn_body_copy_(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  (void)out;
  tn_tensor *dst = args[0].u.t, *src = args[1].u.t;
  tni_face from, to;
  tni_fallback_count *counter;
  if (dst->view.backend == TN_BACKEND_CPU && src->view.backend == TN_BACKEND_CPU)
    return tn_fail(TN_ERR_MISSING_KERNEL, "no provider on cpu copies %s into %s",
                   tn_dtype_name(src->view.dtype), tn_dtype_name(dst->view.dtype));
  if (src->view.backend == TN_BACKEND_META)
    return tn_fail(TN_ERR_DEVICE, "a meta tensor has no data to copy to %s",
                   tni_backend_name(dst->view.backend));
  bool done;
  tn_status by_row = copy_by_row(dst, src, &done);
  if (done && by_row == TN_OK) tni_version_bump(dst);
  if (done || by_row != TN_OK) return by_row;
  TN_TRY(begin_copy(&dst->view, &src->view, &counter));
  TN_TRY(tni_face_make(&from, src, true));
  tn_status status = tni_face_make(&to, dst, !(dst->view.flags & TN_VIEW_CONTIGUOUS));
  if (status == TN_OK) {
    status = tni_copy_uncounted(to.tensor, from.tensor);
    if (status == TN_OK) status = tni_face_write(&to, &dst->view);
    if (status == TN_OK && counter)
      tni_fallback_note(counter, from.bytes_read + to.bytes_read, to.bytes_written);
    tni_face_release(&to);
  }
  tni_face_release(&from);
  if (status == TN_OK) tni_version_bump(dst);
  return status;
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

/* Bytes from the start of the memory to the end of t with these sizes. */
static tn_status bytes_needed(const tn_tensor *t, uint32_t ndim, const tn_dim *sizes, uint64_t *out_bytes) {
  tn_dim numel;
  TN_TRY(tn_shape_numel(ndim, sizes, &numel));
  if (!__builtin_mul_overflow((uint64_t)numel, t->view.itemsize, out_bytes) &&
      !__builtin_add_overflow(*out_bytes, (uint64_t)tni_view_offset(&t->view), out_bytes) &&
      *out_bytes <= INT64_MAX)
    return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "a tensor of %lld elements of %u bytes is too large",
                 (long long)numel, t->view.itemsize);
}

/* The old elements stay in front, as ATen keeps them. */
static tn_status keep_elements(tn_tensor *fresh, tn_tensor *old) {
  const tn_view *v = &old->view;
  if (!v->numel || v->numel > fresh->view.numel || !(v->flags & TN_VIEW_CONTIGUOUS)) return TN_OK;
  if (v->backend == TN_BACKEND_META) return TN_OK;
  tn_tensor *head;
  TN_TRY(tni_tensor_alias(fresh, v->ndim, v->sizes, v->strides, 0, true, &head));
  tn_status status = tni_copy(head, old);
  tn_tensor_release(head);
  return status;
}

/* A second handle may be a view's: handles and views share one count, so both refuse. A view never gets memory of
 * its own, not even an empty one: it would no longer be a view of its base. */
static tn_status check_growth(const tn_tensor *t, uint64_t need, uint64_t have) {
  const tn_tensor *owner = t->owner ? t->owner : t;
  bool shared = atomic_load(&owner->keep) > 1 || atomic_load(&t->refs) > 1;
  if (!t->parent && !(shared && t->view.numel)) return TN_OK;
  return tn_fail(
      TN_ERR_STATE,
      "growing a tensor whose memory views or other handles share is refused: %llu bytes needed, %llu there",
      (unsigned long long)need, (unsigned long long)have);
}

tn_status tni_resize_fits(const tn_tensor *t, uint32_t ndim, const tn_dim *sizes, bool *out_fits) {
  uint64_t need, have = tni_storage_bytes(tni_storage_of(t));
  TN_TRY(bytes_needed(t, ndim, sizes, &need));
  *out_fits = need <= have || t->view.backend == TN_BACKEND_META;
  return *out_fits ? TN_OK : check_growth(t, need, have);
}

tn_status tni_resize(tn_tensor *t, uint32_t ndim, const tn_dim *sizes) {
  bool fits;
  if (tn_shape_equal(ndim, sizes, t->view.ndim, t->view.sizes)) return TN_OK;
  TN_TRY(tni_resize_fits(t, ndim, sizes, &fits));
  if (fits) return tni_tensor_set_geometry(t, ndim, sizes, NULL, 0);
  tn_tensor *fresh;
  TN_TRY(tni_tensor_new(t->view.dtype, ndim, sizes, NULL, tn_view_device(&t->view), &fresh));
  tn_status status = keep_elements(fresh, t);
  if (status == TN_OK) status = tni_tensor_set(t, fresh);
  tn_tensor_release(fresh);
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
  tn_tensor *self = args[0].u.t;
  if (tn_shape_equal(args[1].count, args[1].u.ints, self->view.ndim, self->view.sizes)) return TN_OK;
  TN_TRY(tni_resize(self, args[1].count, args[1].u.ints));
  tni_version_bump(self);
  return TN_OK;
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * Faces: how the CPU reads and writes a tensor of another backend. For copies that no kernel makes (core_ops.c) and
 * operators that run on the CPU in a backend's place (fallback.c).
 *
 * Note [Faces]
 * A face is a cpu tensor that stands for a tensor elsewhere: over the same memory if the host can read it, else over a
 * host copy of the bytes from the tensor's first element to its last, with the same strides. So any geometry of any
 * backend can be read and written, at the price of the gaps between strided elements: those of a target are read, and
 * written back as they were. The host copy is memory of the cpu's pool, so that round trips find it warm.
 */
#include <tenon/kit/shape.h>

#include "core/dispatch/dispatch_int.h"
#include "core/load/load.h"
#include "core/tensor/stream.h"

static bool on_host(const tn_view *v) {
  const tni_backend *b = tni_backend_get(v->backend);
  return b && (b->def->flags & TN_BACKEND_HOST_MEMORY);
}

static tn_status drain(const tn_view *v) { return tni_device_wait(tni_backend_get(v->backend), v->device_index); }

static tn_status make_stage(tni_face *f, const tn_view *v, bool read) {
  int64_t begin, end;
  tn_view_byte_range(v, &begin, &end);
  f->first = v->offset_bytes + begin;
  f->size = (uint64_t)(end - begin);
  const tn_dim bytes = (tn_dim)f->size;
  tn_status status = tni_tensor_new(TN_UINT8, 1, &bytes, NULL, (tn_device){TN_BACKEND_CPU, 0, 0}, &f->stage);
  if (status != TN_OK)
    return tn_wrap(status, "staging %llu bytes of %s", (unsigned long long)f->size,
                   tni_backend_name(v->backend));
  if (!read) return TN_OK;
  f->bytes_read = f->size;
  return tni_device_read(v, f->first, f->stage->view.data, f->size);
}

static tn_status make_tensor(tni_face *f, const tn_view *v, bool host) {
  char *data = host ? v->data : f->stage ? (char *)f->stage->view.data + (v->offset_bytes - f->first) : NULL;
  const tn_foreign cpu = {
      .data = data, .sizes = v->sizes, .strides = v->strides, .ndim = v->ndim, .dtype = v->dtype};
  return tni_tensor_foreign(&cpu, &f->tensor);
}

tn_status tni_face_make(tni_face *f, tn_tensor *t, bool read) {
  const tn_view *v = &t->view;
  *f = (tni_face){0};
  if (v->backend == TN_BACKEND_CPU) {
    f->tensor = tn_tensor_retain(t);
    return TN_OK;
  }
  bool host = on_host(v);
  tn_status status = !v->numel ? TN_OK : host ? drain(v) : make_stage(f, v, read);
  if (status == TN_OK) status = make_tensor(f, v, host);
  if (status != TN_OK) tni_face_release(f);
  return status;
}

tn_status tni_face_write(tni_face *f, const tn_view *v) {
  if (!f->stage) return TN_OK;
  f->bytes_written = f->size;
  return tni_device_write(v, f->first, f->stage->view.data, f->size);
}

void tni_face_release(tni_face *f) {
  tn_tensor_release(f->tensor);
  tn_tensor_release(f->stage);
  *f = (tni_face){0};
}

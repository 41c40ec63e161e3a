/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's row tensor_from_memory: memory that a plugin owns, as a tensor of any open device.
 *
 * Note [Who is pinned]
 * A plugin cannot be unloaded while a storage needs its code or its device. Which plugin calls a row is not said, so
 * it is found by what will be needed: the plugin whose file holds the deleter (without one, the code that called), and
 * the plugin of the device. Both count one until the storage is gone. The deleter runs once, also when the call
 * fails; after exit began it is dropped, as no plugin is called then.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <tenon/kit/dtype.h>
#include <tenon/kit/shape.h>

#include "core/load/load_int.h"

typedef struct pin {
  tni_plugin *code, *device; /* NULL: the core, or the application */
  void (*deleter)(void *ctx);
  void *ctx;
} pin;

tni_plugin *tni_plugin_of_code(const void *address) {
  Dl_info info;
  if (!address || !dladdr(address, &info)) return NULL;
  for (size_t i = 0; i < tni_plugin_count(); ++i)
    if (atomic_load_explicit(&tni_plugin_at(i)->code, memory_order_acquire) == info.dli_fbase) return tni_plugin_at(i);
  return NULL;
}

static void count(tni_plugin *p, int by) {
  if (p) atomic_fetch_add_explicit(&p->n_foreign, (uint32_t)by, memory_order_relaxed);
}

static void release(void *ctx) {
  pin *p = ctx;
  if (p->deleter && !tni_exiting()) p->deleter(p->ctx);
  count(p->code, -1);
  count(p->device, -1);
  tni_free(p);
}

/* ------------------------------------------------------------------ checks */

static tn_status check_shape(const tn_foreign_def *d) {
  int64_t numel;
  if (d->ndim > TN_MAX_RANK) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "rank %u, at most %d", d->ndim, TN_MAX_RANK);
  if (d->ndim && !d->sizes) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "sizes is NULL");
  if (!tn_kit_dtype_size(d->dtype) || !(TN_DTYPE_BIT(d->dtype) & TN_DTYPES_ALL))
    return TN_FAIL(TN_ERR_DTYPE, "dtype code %d is not known", d->dtype);
  if (d->offset_bytes < 0)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "offset_bytes is %lld", (long long)d->offset_bytes);
  for (uint32_t i = 0; d->strides && i < d->ndim; ++i)
    if (d->strides[i] < 0 && d->sizes[i] > 1 && d->offset_bytes == 0)
      return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "stride %u is %lld and offset_bytes 0: elements before the memory", i,
                     (long long)d->strides[i]);
  TN_TRY(tn_shape_numel(d->ndim, d->sizes, &numel));
  if (numel && !d->mem && !d->address) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "mem and address are both 0");
  return TN_OK;
}

static tn_status check_device(const tn_foreign_def *d, const tni_backend **out_backend) {
  const tni_backend *b = tni_backend_get(d->device.backend);
  if (!b || b->closed || d->device.index < 0 || d->device.index >= b->n_devices)
    return TN_FAIL(TN_ERR_DEVICE, "device %s:%d is not open", tni_backend_name(d->device.backend), d->device.index);
  if (d->device.backend == TN_BACKEND_META) return TN_FAIL(TN_ERR_DEVICE, "meta tensors have no memory");
  *out_backend = b;
  return TN_OK;
}

/* ------------------------------------------------------------------ the row */

static tn_status make(const tn_foreign_def *d, const void *caller, bool *out_consumed, tn_tensor **out_tensor) {
  const tni_backend *backend = NULL;
  TN_TRY(tni_may_dispatch());
  TN_TRY(check_device(d, &backend));
  TN_TRY(check_shape(d));
  pin *p = tni_alloc(sizeof *p);
  if (!p) return tni_oom(sizeof *p, "a record of foreign memory");
  const void *code = caller;
  if (d->deleter) memcpy(&code, &d->deleter, sizeof code);
  *p = (pin){tni_plugin_of_code(code), backend->plugin, d->deleter, d->ctx};
  if (p->code == p->device) p->code = NULL;
  bool host = (backend->def->flags & TN_BACKEND_HOST_MEMORY) != 0;
  char *address = d->address ? d->address : host ? (void *)(uintptr_t)d->mem : NULL;
  uint64_t mem = d->mem || !host ? d->mem : (uint64_t)(uintptr_t)address;
  const tn_foreign f = {.data = address ? address + d->offset_bytes : NULL,
                        .sizes = d->sizes,
                        .strides = d->strides,
                        .ndim = d->ndim,
                        .dtype = d->dtype,
                        .read_only = d->read_only != 0,
                        .device = d->device,
                        .deleter = release,
                        .ctx = p};
  count(p->code, 1);
  count(p->device, 1);
  tn_status status = tni_tensor_foreign_at(&f, mem, d->offset_bytes, out_tensor);
  *out_consumed = true;
  if (status != TN_OK) release(p);
  return status;
}

tn_status tni_foreign_tensor(const tn_foreign_def *desc, tn_tensor **out_tensor) {
  if (!desc) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "tensor_from_memory: the description is NULL");
  tn_foreign_def d;
  bool consumed = false;
  tni_copy_sized(&d, sizeof d, desc);
  tn_status status = out_tensor ? TN_OK : TN_FAIL(TN_ERR_INVALID_ARGUMENT, "out_tensor is NULL");
  if (out_tensor) *out_tensor = NULL;
  if (status == TN_OK) status = make(&d, __builtin_return_address(0), &consumed, out_tensor);
  if (status == TN_OK) return TN_OK;
  TN_WRAP(status, "tensor_from_memory");
  if (!consumed && d.deleter) {
    tni_words words = tni_words_aside(); /* the deleter may fail in words of its own */
    d.deleter(d.ctx);
    tni_words_back(words);
  }
  return status;
}

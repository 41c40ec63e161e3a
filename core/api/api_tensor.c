/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/tensor.h: geometry, memory in and out, dtypes, defaults, threads. All argument checks of these calls
 * stand here. Devices are in api_load.c, scopes in scope.c, printing in print.c.
 */
#include <tenon/kit/dtype.h>
#include <tenon/kit/shape.h>

#include "core/dispatch/dispatch.h"
#include "core/dispatch/dispatch_int.h"
#include "core/load/load.h"
#include "core/tensor/stream.h"

#define REQUIRE(what, name)                                                                        \
  do {                                                                                             \
    if (!(name)) return tn_fail(TN_ERR_INVALID_ARGUMENT, what ": argument '" #name "' is NULL");   \
  } while (0)

/* ------------------------------------------------------------------ geometry */

void *tn_tensor_data(tn_tensor *tensor) {
  if (!tensor) return NULL;
  const tni_backend *b = tni_backend_get(tensor->view.backend);
  return b && (b->def->flags & TN_BACKEND_HOST_MEMORY) ? tensor->view.data : NULL;
}

int64_t tn_tensor_storage_offset(const tn_tensor *tensor) {
  return tensor && tensor->view.itemsize ? tni_view_offset(&tensor->view) / tensor->view.itemsize : 0;
}

bool tn_tensor_is_contiguous(const tn_tensor *tensor) {
  return tensor && (tensor->view.flags & TN_VIEW_CONTIGUOUS);
}

tn_status tn_tensor_version(const tn_tensor *tensor, uint32_t *out_version) {
  REQUIRE("tn_tensor_version", tensor);
  REQUIRE("tn_tensor_version", out_version);
  if (!tensor->version) return tn_fail(TN_ERR_STATE, "an inference tensor has no version");
  *out_version = tni_version_get(tensor);
  return TN_OK;
}

tn_tensor *tn_tensor_base(const tn_tensor *tensor) { return tensor ? tensor->base : NULL; }

/* ------------------------------------------------------------------ memory in and out */

static tn_status check_geometry(const char *what, int32_t ndim, const tn_dim *sizes, tn_dim *out_numel) {
  if (ndim < 0 || ndim > TN_MAX_RANK)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: expected a rank of 0 to %d, got %d", what, TN_MAX_RANK, ndim);
  if (ndim && !sizes) return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: argument 'sizes' is NULL", what);
  tn_status status = tn_shape_numel((uint32_t)ndim, sizes, out_numel);
  return status == TN_OK ? status : tn_wrap(status, "%s", what);
}

tn_status tn_tensor_from_host(const void *data, const tn_dim *sizes, int32_t ndim, const tn_options *options,
                              tn_tensor **out_tensor) {
  REQUIRE("tn_tensor_from_host", out_tensor);
  *out_tensor = NULL;
  TN_TRY(tni_load_init());
  tn_dim numel;
  TN_TRY(check_geometry("tn_tensor_from_host", ndim, sizes, &numel));
  if (numel) REQUIRE("tn_tensor_from_host", data);
  tn_dtype dtype = options && options->dtype ? options->dtype : TN_FLOAT32;
  tn_device device = options && options->has_device ? options->device : tn_default_device();
  tn_tensor *t;
  TN_TRY(tni_tensor_new(dtype, (uint32_t)ndim, sizes, NULL, device, &t));
  const tn_backend_def *def = tni_backend_get(device.backend)->def;
  uint64_t bytes = (uint64_t)numel * t->view.itemsize;
  tn_status status = TN_OK;
  if (bytes && (def->flags & TN_BACKEND_HOST_MEMORY))
    memcpy(t->view.data, data, bytes);
  else if (bytes && device.backend != TN_BACKEND_META)
    status = tni_device_write(&t->view, t->view.offset_bytes, data, bytes);
  if (status != TN_OK) {
    tn_tensor_release(t);
    return tn_wrap(status, "tn_tensor_from_host");
  }
  *out_tensor = t;
  return TN_OK;
}

/* Host bytes of a tensor, row-major. */
static tn_status read_bytes(tn_tensor *t, void *data, uint64_t bytes) {
  const tn_backend_def *def = tni_backend_get(t->view.backend)->def;
  if (!bytes) return TN_OK;
  if (t->view.backend == TN_BACKEND_META) return tn_fail(TN_ERR_DEVICE, "a meta tensor has no data");
  if (def->flags & TN_BACKEND_HOST_MEMORY) {
    TN_TRY(tni_device_wait(tni_backend_get(t->view.backend), t->view.device_index));
    memcpy(data, t->view.data, bytes);
    return TN_OK;
  }
  return tni_device_read(&t->view, t->view.offset_bytes, data, bytes);
}

tn_status tn_tensor_to_host(tn_tensor *tensor, void *data, size_t size_bytes) {
  REQUIRE("tn_tensor_to_host", tensor);
  uint64_t bytes = (uint64_t)tensor->view.numel * tensor->view.itemsize;
  if (size_bytes != bytes)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_to_host: expected a buffer of %llu bytes, got %zu",
                   (unsigned long long)bytes, size_bytes);
  if (bytes) REQUIRE("tn_tensor_to_host", data);
  tn_tensor *plain = NULL;
  if (tensor->view.flags & TN_VIEW_CONTIGUOUS)
    plain = tn_tensor_retain(tensor);
  else
    TN_TRY(tni_cast_copy(tensor, tensor->view.dtype, tn_view_device(&tensor->view), &plain));
  tn_status status = read_bytes(plain, data, bytes);
  tn_tensor_release(plain);
  return status == TN_OK ? status : tn_wrap(status, "tn_tensor_to_host");
}

static tn_status foreign_check(const tn_foreign *f) {
  tn_dim numel;
  TN_TRY(check_geometry("tn_tensor_from_memory", f->ndim, f->sizes, &numel));
  if (!tn_kit_dtype_size(f->dtype) || !(TN_DTYPE_BIT(f->dtype) & TN_DTYPES_ALL))
    return tn_fail(TN_ERR_DTYPE, "tn_tensor_from_memory: dtype code %d is not known", f->dtype);
  if (numel && !f->data) return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_from_memory: 'data' is NULL");
  const tni_backend *b;
  TN_TRY(tni_backend_need(f->device, &b));
  if (!(b->def->flags & TN_BACKEND_HOST_MEMORY))
    return tn_fail(TN_ERR_DEVICE, "tn_tensor_from_memory: expected a host-memory device, got %s",
                   tni_backend_name(f->device.backend));
  return TN_OK;
}

tn_status tn_tensor_from_memory(const tn_foreign *foreign, tn_tensor **out_tensor) {
  REQUIRE("tn_tensor_from_memory", foreign);
  tn_status status = out_tensor ? tni_load_init()
                                : tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_from_memory: 'out_tensor' is NULL");
  if (out_tensor) *out_tensor = NULL;
  if (status == TN_OK) status = foreign_check(foreign);
  if (status == TN_OK) status = tni_tensor_foreign(foreign, out_tensor);
  if (status != TN_OK && foreign->deleter) foreign->deleter(foreign->ctx);
  return status;
}

/* ------------------------------------------------------------------ item */

tn_status tn_tensor_item(tn_tensor *tensor, tn_scalar *out_scalar) {
  REQUIRE("tn_tensor_item", tensor);
  REQUIRE("tn_tensor_item", out_scalar);
  *out_scalar = tn_value_none();
  if (tensor->view.numel != 1)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "item: expected a tensor of one element, got %lld of shape %s",
                   (long long)tensor->view.numel, tn_shape_format(tensor->view.ndim, tensor->view.sizes, TN_SHAPE_TEXT));
  unsigned char raw[16] = {0};
  TN_TRY(tn_tensor_to_host(tensor, raw, tensor->view.itemsize));
  return tni_scalar_load(tensor->view.dtype, raw, out_scalar);
}

tn_status tn_tensor_item_double(tn_tensor *tensor, double *out_value) {
  tn_scalar s;
  REQUIRE("tn_tensor_item_double", out_value);
  *out_value = 0;
  TN_TRY(tn_tensor_item(tensor, &s));
  *out_value = s.kind == TN_VAL_FLOAT ? s.u.f : (double)s.u.i;
  return TN_OK;
}

tn_status tn_tensor_item_int(tn_tensor *tensor, int64_t *out_value) {
  tn_scalar s;
  REQUIRE("tn_tensor_item_int", out_value);
  *out_value = 0;
  TN_TRY(tn_tensor_item(tensor, &s));
  if (s.kind == TN_VAL_FLOAT && !(s.u.f >= -9223372036854775808.0 && s.u.f < 9223372036854775808.0))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "item: %g does not fit an int64", s.u.f);
  *out_value = s.kind == TN_VAL_FLOAT ? (int64_t)s.u.f : s.u.i;
  return TN_OK;
}

tn_status tni_scalar_load(tn_dtype dtype, const void *raw, tn_scalar *out) {
  switch (dtype) {
    case TN_BOOL: *out = tn_bool(*(const uint8_t *)raw != 0); break;
    case TN_UINT8: *out = tn_int(*(const uint8_t *)raw); break;
    case TN_INT8: *out = tn_int(*(const int8_t *)raw); break;
    case TN_INT16: *out = tn_int(*(const int16_t *)raw); break;
    case TN_INT32: *out = tn_int(*(const int32_t *)raw); break;
    case TN_INT64: *out = tn_int(*(const int64_t *)raw); break;
    case TN_FLOAT16: *out = tn_float(tn_float16_to_float(*(const tn_float16 *)raw)); break;
    case TN_BFLOAT16: *out = tn_float(tn_bfloat16_to_float(*(const tn_bfloat16 *)raw)); break;
    case TN_FLOAT32: *out = tn_float(*(const float *)raw); break;
    case TN_FLOAT64: *out = tn_float(*(const double *)raw); break;
    default: return tn_fail(TN_ERR_DTYPE, "a value of dtype %s cannot be read as a number", tn_dtype_name(dtype));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ dtypes, defaults, threads */

const char *tn_dtype_name(tn_dtype dtype) { return tn_kit_dtype_name(dtype); }
tn_dtype tn_dtype_find(const char *name) { return name ? tn_kit_dtype_find(name) : TN_DTYPE_NONE; }
size_t tn_dtype_size(tn_dtype dtype) { return tn_kit_dtype_size(dtype); }

tn_status tn_default_device_set(tn_device device) {
  TN_TRY(tni_load_init());
  const tni_backend *b;
  TN_TRY(tni_backend_need(device, &b));
  tni_tls.modes.default_device = device;
  return TN_OK;
}

tn_device tn_default_device(void) { return tni_tls.modes.default_device; }

tn_status tn_default_dtype_set(tn_dtype dtype) {
  if (!(TN_DTYPE_BIT(dtype) & TN_DTYPES_FLOAT))
    return tn_fail(TN_ERR_DTYPE, "default dtype: expected a floating dtype, got %s", tn_dtype_name(dtype));
  tni_tls.modes.default_dtype = dtype;
  return TN_OK;
}

tn_dtype tn_default_dtype(void) { return tni_tls.modes.default_dtype; }

tn_status tn_set_num_threads(int32_t n) { return tni_parallel_set_threads(n); }
int32_t tn_num_threads(void) { return tni_parallel_threads(); }

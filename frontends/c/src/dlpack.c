/* SPDX-License-Identifier: Apache-2.0
 *
 * DLPack in both forms. Each export is one block: the managed struct, then its shape and strides.
 */
#include <tenon/dlpack.h>

#include "frontends/c/src/support.h"

_Static_assert(sizeof(tn_dl_tensor) == 48, "DLTensor is 48 bytes");
_Static_assert(sizeof(tn_dl_managed) == 64, "DLManagedTensor is 64 bytes");
_Static_assert(sizeof(tn_dl_managed_versioned) == 80, "DLManagedTensorVersioned is 80 bytes");
_Static_assert(offsetof(tn_dl_managed_versioned, flags) == 24, "frozen up to flags");

static const struct {
  tn_dtype dtype;
  tn_dl_dtype dl;
} dtypes[] = {{TN_BOOL, {TN_DL_BOOL, 8, 1}},      {TN_UINT8, {TN_DL_UINT, 8, 1}},
              {TN_INT8, {TN_DL_INT, 8, 1}},       {TN_INT16, {TN_DL_INT, 16, 1}},
              {TN_INT32, {TN_DL_INT, 32, 1}},     {TN_INT64, {TN_DL_INT, 64, 1}},
              {TN_FLOAT16, {TN_DL_FLOAT, 16, 1}}, {TN_BFLOAT16, {TN_DL_BFLOAT, 16, 1}},
              {TN_FLOAT32, {TN_DL_FLOAT, 32, 1}}, {TN_FLOAT64, {TN_DL_FLOAT, 64, 1}}};

/* ------------------------------------------------------------------ out */

/* The tensor's part of an export; sizes and strides go to dims, which has room for 2 * ndim. */
static tn_status describe(tn_tensor *tensor, int64_t *dims, tn_dl_tensor *out) {
  int32_t ndim = tn_tensor_ndim(tensor);
  tn_dl_tensor t = {.device = {TN_DL_CPU, 0}, .ndim = ndim, .shape = dims, .strides = dims + ndim};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (dtypes[i].dtype == tn_tensor_dtype(tensor)) t.dtype = dtypes[i].dl;
  if (!t.dtype.bits)
    return tn_fail(TN_ERR_UNSUPPORTED, "DLPack: no code for dtype %s",
                   tn_dtype_name(tn_tensor_dtype(tensor)));
  for (int32_t d = 0; d < ndim; d++) {
    dims[d] = tn_tensor_sizes(tensor)[d];
    dims[ndim + d] = tn_tensor_strides(tensor)[d];
  }
  if (tn_tensor_numel(tensor) > 0) t.data = tn_tensor_data(tensor);
  *out = t;
  return TN_OK;
}

static tn_status check_export(tn_tensor *tensor) {
  char name[64];
  TN_TRY(tni_nn_not_null(tensor, "DLPack: the tensor to export"));
  if (tn_requires_grad(tensor))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "DLPack: the tensor requires grad; export its detach() instead");
  if (tn_tensor_numel(tensor) > 0 && !tn_tensor_data(tensor))
    return tn_fail(TN_ERR_DEVICE,
                   "DLPack: memory of device %s has no address on the host; copy the tensor to cpu",
                   tn_device_name(tn_tensor_device(tensor), name, sizeof name));
  return TN_OK;
}

static void delete_versioned(tn_dl_managed_versioned *self) {
  tn_tensor_release(self->manager_ctx);
  free(self);
}

static void delete_legacy(tn_dl_managed *self) {
  tn_tensor_release(self->manager_ctx);
  free(self);
}

tn_status tn_dlpack_export(tn_tensor *tensor, tn_dl_managed_versioned **out_managed) {
  *out_managed = NULL;
  TN_TRY(check_export(tensor));
  tn_dl_managed_versioned *m = NULL;
  size_t dims_bytes = 2 * (size_t)tn_tensor_ndim(tensor) * sizeof(int64_t);
  TN_TRY(tni_nn_alloc(1, sizeof *m + dims_bytes, "a DLPack struct", &m));
  tn_status status = describe(tensor, (int64_t *)(void *)(m + 1), &m->tensor);
  if (status != TN_OK) {
    free(m);
    return status;
  }
  m->version.major = TN_DL_MAJOR;
  m->version.minor = TN_DL_MINOR;
  m->flags = tn_tensor_view(tensor)->flags & TN_VIEW_READ_ONLY ? TN_DL_READ_ONLY : 0;
  m->manager_ctx = tn_tensor_retain(tensor);
  m->deleter = delete_versioned;
  *out_managed = m;
  return TN_OK;
}

tn_status tn_dlpack_export_legacy(tn_tensor *tensor, tn_dl_managed **out_managed) {
  *out_managed = NULL;
  TN_TRY(check_export(tensor));
  if (tn_tensor_view(tensor)->flags & TN_VIEW_READ_ONLY)
    return tn_fail(TN_ERR_UNSUPPORTED, "DLPack: the legacy form cannot say that memory is read-only");
  tn_dl_managed *m = NULL;
  size_t dims_bytes = 2 * (size_t)tn_tensor_ndim(tensor) * sizeof(int64_t);
  TN_TRY(tni_nn_alloc(1, sizeof *m + dims_bytes, "a DLPack struct", &m));
  tn_status status = describe(tensor, (int64_t *)(void *)(m + 1), &m->tensor);
  if (status != TN_OK) {
    free(m);
    return status;
  }
  m->manager_ctx = tn_tensor_retain(tensor);
  m->deleter = delete_legacy;
  *out_managed = m;
  return TN_OK;
}

/* ------------------------------------------------------------------ in */

static tn_status check_import(const tn_dl_tensor *t, tn_dtype *out_dtype) {
  *out_dtype = TN_DTYPE_NONE;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (!memcmp(&dtypes[i].dl, &t->dtype, sizeof t->dtype)) *out_dtype = dtypes[i].dtype;
  if (*out_dtype == TN_DTYPE_NONE)
    return tn_fail(TN_ERR_DTYPE, "DLPack: unknown dtype: code %u, %u bits, %u lanes", t->dtype.code,
                   t->dtype.bits, t->dtype.lanes);
  if (t->device.type != TN_DL_CPU && t->device.type != TN_DL_CUDA_HOST && t->device.type != TN_DL_ROCM_HOST)
    return tn_fail(TN_ERR_DEVICE, "DLPack: memory of the host was expected, device type %d came",
                   t->device.type);
  if (t->ndim < 0 || t->ndim > TN_MAX_RANK || (t->ndim > 0 && !t->shape))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "DLPack: 0 to %d dims with a shape were expected, %d came",
                   TN_MAX_RANK, t->ndim);
  bool empty = false;
  for (int32_t d = 0; d < t->ndim; d++) {
    if (t->shape[d] < 0) return tn_fail(TN_ERR_INVALID_ARGUMENT, "DLPack: size %d is negative", d);
    empty |= t->shape[d] == 0;
  }
  if (!t->data && !empty)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "DLPack: data is NULL, but there are elements");
  return TN_OK;
}

/* deleter and ctx are consumed. */
static tn_status import(const tn_dl_tensor *t, bool read_only, void (*deleter)(void *), void *ctx,
                        tn_tensor **out_tensor) {
  tn_dtype dtype;
  tn_status status = check_import(t, &dtype);
  if (status != TN_OK) {
    deleter(ctx);
    return status;
  }
  tn_foreign memory = {.data = t->data ? (char *)t->data + t->byte_offset : NULL,
                       .sizes = t->shape,
                       .strides = t->strides,
                       .ndim = t->ndim,
                       .dtype = dtype,
                       .read_only = read_only,
                       .deleter = deleter,
                       .ctx = ctx};
  return tn_tensor_from_memory(&memory, out_tensor);
}

static void end_versioned(void *ctx) {
  tn_dl_managed_versioned *m = ctx;
  if (m->deleter) m->deleter(m);
}

static void end_legacy(void *ctx) {
  tn_dl_managed *m = ctx;
  if (m->deleter) m->deleter(m);
}

tn_status tn_dlpack_import(tn_dl_managed_versioned *managed, tn_tensor **out_tensor) {
  *out_tensor = NULL;
  TN_TRY(tni_nn_not_null(managed, "DLPack: the struct to import"));
  if (managed->version.major != TN_DL_MAJOR) {
    uint32_t major = managed->version.major;
    end_versioned(managed); /* nothing behind flags may be read */
    return tn_fail(TN_ERR_VERSION, "DLPack: version %d was expected, %u came", TN_DL_MAJOR, major);
  }
  return import(&managed->tensor, managed->flags & TN_DL_READ_ONLY, end_versioned, managed, out_tensor);
}

tn_status tn_dlpack_import_legacy(tn_dl_managed *managed, bool read_only, tn_tensor **out_tensor) {
  *out_tensor = NULL;
  TN_TRY(tni_nn_not_null(managed, "DLPack: the struct to import"));
  return import(&managed->tensor, read_only, end_legacy, managed, out_tensor);
}

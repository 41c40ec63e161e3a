/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors to and from other libraries by DLPack, without a copy. The structs are our own definitions of the
 * public memory layout (legacy and versioned 1.x) under names of our own, so that a program may include
 * another library's DLPack header too and cast the pointers.
 */
#ifndef TENON_DLPACK_H
#define TENON_DLPACK_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TN_DL_MAJOR = 1, TN_DL_MINOR = 1 };

/* tn_dl_dtype.code */
enum {
  TN_DL_INT = 0,
  TN_DL_UINT = 1,
  TN_DL_FLOAT = 2,
  TN_DL_OPAQUE = 3,
  TN_DL_BFLOAT = 4,
  TN_DL_COMPLEX = 5,
  TN_DL_BOOL = 6
};
/* tn_dl_device.type, those that we know */
enum { TN_DL_CPU = 1, TN_DL_CUDA = 2, TN_DL_CUDA_HOST = 3, TN_DL_ROCM_HOST = 11, TN_DL_EXT = 12 };
/* tn_dl_managed_versioned.flags */
enum { TN_DL_READ_ONLY = 1, TN_DL_COPIED = 2 };

typedef struct tn_dl_device {
  int32_t type;
  int32_t id;
} tn_dl_device;

typedef struct tn_dl_dtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} tn_dl_dtype;

typedef struct tn_dl_tensor {
  void *data;
  tn_dl_device device;
  int32_t ndim;
  tn_dl_dtype dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; we never write NULL unless ndim is 0, and read NULL as row-major */
  uint64_t byte_offset;
} tn_dl_tensor;

typedef struct tn_dl_managed {
  tn_dl_tensor tensor;
  void *manager_ctx;
  void (*deleter)(struct tn_dl_managed *self);
} tn_dl_managed;

typedef struct tn_dl_managed_versioned {
  struct {
    uint32_t major;
    uint32_t minor;
  } version;
  void *manager_ctx;
  void (*deleter)(struct tn_dl_managed_versioned *self);
  uint64_t flags;
  tn_dl_tensor tensor;
} tn_dl_managed_versioned;

/* The tensor stays alive until the consumer calls the deleter (any thread, once), which frees the struct too.
 * Refused: tensors that require grad (detach first), memory that the host cannot address, and, for the legacy
 * form, read-only memory, which it cannot express. */
TN_EXPORT tn_status tn_dlpack_export(tn_tensor *tensor, tn_dl_managed_versioned **out_managed);
TN_EXPORT tn_status tn_dlpack_export_legacy(tn_tensor *tensor, tn_dl_managed **out_managed);

/* A tensor over the producer's memory with a version counter of its own. managed is consumed: its deleter
 * runs when the last tensor over it is gone, or before this returns on failure. The read-only flag is kept;
 * the legacy form cannot say, so the caller does. */
TN_EXPORT tn_status tn_dlpack_import(tn_dl_managed_versioned *managed, tn_tensor **out_tensor);
TN_EXPORT tn_status tn_dlpack_import_legacy(tn_dl_managed *managed, bool read_only, tn_tensor **out_tensor);

#ifdef __cplusplus
}
#endif
#endif

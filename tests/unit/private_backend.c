/* SPDX-License-Identifier: Apache-2.0
 *
 * See private_backend.h. The memory handle of the opaque kind is an address in disguise, so that a core which
 * takes handles for addresses faults.
 */
#include "private_backend.h"

#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "tn_test.h"

/* Handles of opaque memory are not canonical addresses. */
#define DISGUISE ((uint64_t)0x5a5a << 48)

static _Atomic uint64_t moved_to_host, moved_from_host;

private_backend_traffic private_backend_moved(void) {
  return (private_backend_traffic){moved_to_host, moved_from_host};
}

static bool is_opaque(void *ctx) { return ctx == NULL; }

static tn_status count_devices(void *ctx, int32_t *out_count) {
  (void)ctx;
  *out_count = 2;
  return TN_OK;
}

static tn_status memory_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream,
                              tn_memory *out_memory) {
  (void)index, (void)stream;
  void *p = aligned_alloc(64, (size_bytes + 63) / 64 * 64);
  if (!p) return tn_fail(TN_ERR_OUT_OF_MEMORY, "no %llu bytes", (unsigned long long)size_bytes);
  *out_memory = (tn_memory){(uint64_t)(uintptr_t)p, p, size_bytes};
  if (is_opaque(ctx)) *out_memory = (tn_memory){(uint64_t)(uintptr_t)p ^ DISGUISE, NULL, size_bytes};
  return TN_OK;
}

static char *place(void *ctx, uint64_t mem) {
  return (char *)(uintptr_t)(is_opaque(ctx) ? mem ^ DISGUISE : mem);
}

static void memory_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)index, (void)stream;
  free(place(ctx, memory->mem));
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  (void)index, (void)stream;
  moved_from_host += size_bytes;
  memcpy(place(ctx, mem) + offset_bytes, host, size_bytes);
  return TN_OK;
}

static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                         uint64_t size_bytes, void *stream) {
  (void)index, (void)stream;
  moved_to_host += size_bytes;
  memcpy(host, place(ctx, mem) + offset_bytes, size_bytes);
  return TN_OK;
}

tn_device private_backend(const char *name, uint32_t flags) {
  TN_CHECK_OK(tn_init());
  int known = tni_key_find(name);
  if (known >= 0) return (tn_device){.backend = (uint8_t)known};
  static int host_marker;
  const tn_backend_def def = {.struct_size = sizeof def,
                              .flags = flags,
                              .device_name = name,
                              .alignment_bytes = 64,
                              .ctx = flags & TN_BACKEND_HOST_MEMORY ? &host_marker : NULL,
                              .device_count = count_devices,
                              .alloc = memory_alloc,
                              .free = memory_free,
                              .from_host = from_host,
                              .to_host = to_host};
  tni_backend *backend;
  TN_CHECK_OK(tni_backend_copy(&def, NULL, &backend));
  TN_CHECK_OK(tni_backend_count_devices(backend));
  atomic_store(&tni_backends[backend->id], backend);
  return (tn_device){.backend = backend->id};
}

void private_kernel_add(const char *op, const char *device, tni_kernel *kernel) {
  TN_CHECK_OK(tn_init()); /* a test may be the first thing that its process does */
  tn_op *found = tni_op_find(op);
  TN_CHECK_NOT_NULL(found);
  kernel->bit = (uint8_t)tni_key_find(device);
  if (!kernel->dtypes) kernel->dtypes = TN_DTYPES_ALL;
  if (!kernel->max_rank) kernel->max_rank = TN_MAX_RANK;
  if (!kernel->max_numel) kernel->max_numel = INT64_MAX;
  if (!kernel->max_args) kernel->max_args = found->n_args;
  if (!kernel->plugin) kernel->plugin = "private";
  kernel->file = __FILE__;
  tni_registry_lock();
  tn_status status = tni_op_add_kernel(found, kernel);
  tni_registry_unlock();
  TN_CHECK_OK(status);
}

void private_kernel_remove(const char *op, tni_kernel *kernel) {
  tn_op *found = tni_op_find(op);
  TN_CHECK_NOT_NULL(found);
  tni_registry_lock();
  tni_op_remove_kernel(found, kernel);
  tni_registry_unlock();
}

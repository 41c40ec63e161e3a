/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface DEVICE.kernels (tenon/gpu_kernels.h): compilation and launch for plugins that bring device text of their own.
 * The driver's rows trust their caller, the kernels of this folder; here, callers are strangers.
 */
#include <stdlib.h>
#include <string.h>

#include "plugins/gpu/gpu.h"

struct tn_gpu_kernel {
  int32_t device;
  void *kernel; /* the driver's */
};

/* Also makes the driver find its devices, if nobody has asked yet. */
static tn_status check_device(int32_t device) {
  const tn_backend_def *b = gpu_now->backend;
  int32_t n = 0;
  TN_TRY(b->device_count(b->ctx, &n));
  if (device >= 0 && device < n) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "%s.kernels: there is no device %s:%d, the last is %d",
                 b->device_name, b->device_name, device, n - 1);
}

static tn_status lend_facts(int32_t device, tn_gpu_facts *out_facts) {
  gpu_caps caps;
  TN_TRY(check_device(device));
  TN_TRY(gpu_now->caps(device, &caps));
  const uint32_t given = out_facts->struct_size;
  const tn_gpu_facts facts = {.struct_size = given,
                              .flags = (caps.has_double ? TN_GPU_HAS_DOUBLE : 0u) |
                                       (caps.is_cpu ? TN_GPU_IS_CPU : 0u),
                              .most_items = caps.most_items};
  memcpy(out_facts, &facts, given < sizeof facts ? given : sizeof facts);
  return TN_OK;
}

static tn_status lend_build(int32_t device, const char *const *texts, uint32_t n, const char *name,
                            tn_gpu_kernel **out_kernel) {
  TN_TRY(check_device(device));
  if (!texts || n == 0 || !name)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "%s.kernels: a text and the name of a kernel in it are needed",
                   gpu_now->backend->device_name);
  tn_gpu_kernel *k = malloc(sizeof *k);
  if (!k) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "out of memory: the device kernel %s", name);
  k->device = device;
  const tn_status status = gpu_now->build(device, texts, n, name, &k->kernel);
  if (status == TN_OK) {
    *out_kernel = k;
    return TN_OK;
  }
  free(k);
  return TN_WRAP(status, "device kernel %s", name);
}

static tn_status lend_launch(const tn_gpu_kernel *kernel, void *stream, const tn_gpu_grid *grid,
                             const tn_gpu_arg *args, uint32_t n) {
  return gpu_now->launch(kernel->device, stream, kernel->kernel, grid, args, n);
}

static void lend_release(tn_gpu_kernel *kernel) {
  if (!kernel) return;
  gpu_now->release(kernel->kernel);
  free(kernel);
}

tn_status gpu_register_interface(const tn_host *host, tn_registration *reg, const gpu_driver *driver) {
  static tn_gpu_kernels table = {.struct_size = sizeof table,
                                 .facts = lend_facts,
                                 .build = lend_build,
                                 .launch = lend_launch,
                                 .release = lend_release};
  table.language = driver->language;
  return host->register_interface(reg, driver->interface, TN_GPU_KERNELS_VERSION, &table);
}

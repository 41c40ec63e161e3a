/* SPDX-License-Identifier: Apache-2.0
 *
 * Registration of the backend and of every kernel, under the name of the driver's device, and of what others may ask. A
 * manifest lists the same from the same lists (kernels.inc, TN_EW_LIST).
 */
#include <tenon/kit/register.h>

#include "plugins/gpu/gpu.h"

const gpu_driver *gpu_now;

#define KERNEL_DEF(op_name, function, words, mask) {.op = op_name, .fn = function, .dtypes = mask},
static const tn_kernel_def kernels[] = {GPU_KERNELS(KERNEL_DEF)};

tn_status gpu_register(const tn_host *host, tn_registration *reg, const gpu_driver *driver) {
  const char *key = driver->backend->device_name;
  gpu_now = driver;
  TN_TRY(host->register_backend(reg, driver->backend));
  for (size_t i = 0; i < TN_COUNT(kernels); ++i) {
    tn_kernel_def def = kernels[i];
    def.struct_size = sizeof def;
    def.key = key;
    def.file = __FILE__;
    def.line = __LINE__;
    TN_TRY(host->register_kernel(reg, &def));
  }
  TN_TRY(gpu_register_elementwise(reg, key));
  return gpu_register_interface(host, reg, driver);
}

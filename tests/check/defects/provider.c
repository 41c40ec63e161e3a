/* SPDX-License-Identifier: Apache-2.0
 *
 * A provider of products for the CPU, behind those that come with Tenon, that loses the terms after the first 256: as long
 * as the others stand in front of it nobody notices.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>

TN_MANIFEST(TN_MANIFEST_HEADER("acme-products", "1.0", "Apache-2.0") "kernel cpu mm float32 5\n")

static tn_status mm(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_view *o = out->u.v, *a = args[0].u.v, *b = args[1].u.v;
  int64_t inner = a->sizes[1] > 256 ? 256 : a->sizes[1];
  for (int64_t i = 0; i < o->sizes[0]; i++) {
    for (int64_t k = 0; k < o->sizes[1]; k++) {
      const float *x = (const float *)a->data + i * a->strides[0], *y = (const float *)b->data + k * b->strides[1];
      float sum = 0;
      for (int64_t j = 0; j < inner; j++) sum += x[j * a->strides[1]] * y[j * b->strides[0]];
      ((float *)o->data)[i * o->strides[0] + k * o->strides[1]] = sum;
    }
  }
  return TN_OK;
}

static const tn_kernel_def kernels[] = {TN_KERNEL("cpu", "mm", mm, TN_DTYPE_BIT(TN_FLOAT32), .priority = 5)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)host;
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "acme-products", .version = "1.0", .init = init)

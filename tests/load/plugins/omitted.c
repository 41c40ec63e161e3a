/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: its manifest lists float64 too, and init registers float32 only.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>

TN_MANIFEST(TN_MANIFEST_HEADER("omitted", "1.0", "Apache-2.0") "kernel toy add.Tensor float32,float64 5\n")

static tn_status wrong(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  return TN_FAIL(TN_ERR_INTERNAL, "a kernel of a plugin that failed was called");
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  const tn_kernel_def def = TN_KERNEL("toy", "add.Tensor", wrong, TN_DTYPE_BIT(TN_FLOAT32), .priority = 5);
  return host->register_kernel(reg, &def);
}

TN_PLUGIN(.name = "omitted", .version = "1.0", .init = init)

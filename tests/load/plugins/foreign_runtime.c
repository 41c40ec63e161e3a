/* SPDX-License-Identifier: Apache-2.0
 *
 * Declares that its library computes on the threads of a runtime that no host knows.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>

TN_MANIFEST(TN_MANIFEST_HEADER("foreign-runtime", "1.0", "Apache-2.0") "thread-runtime libfarthreads\n"
                                                                       "kernel cpu add.Tensor float32 9\n")

static tn_status decline(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  return TN_DECLINED;
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  const tn_kernel_def kernel = TN_KERNEL("cpu", "add.Tensor", decline, TN_DTYPE_BIT(TN_FLOAT32), .priority = 9);
  return host->register_kernel(reg, &kernel);
}

TN_PLUGIN(.name = "foreign-runtime", .version = "1.0", .init = init)

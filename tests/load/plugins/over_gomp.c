/* SPDX-License-Identifier: Apache-2.0
 *
 * A provider that computes on libgomp's threads, or would: it loads the library, says so in its manifest, and declines.
 */
#include <dlfcn.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>

TN_MANIFEST(TN_MANIFEST_HEADER("over-gomp", "1.0", "Apache-2.0") "thread-runtime libgomp\n"
                                                                 "kernel toy add.Tensor float32 9\n")

static tn_status decline(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  return TN_DECLINED;
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  const tn_kernel_def kernel =
      TN_KERNEL("toy", "add.Tensor", decline, TN_DTYPE_BIT(TN_FLOAT32), .priority = 9);
  if (!dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL))
    return host->fail(TN_ERR_UNAVAILABLE, "no libgomp is here");
  return host->register_kernel(reg, &kernel);
}

TN_PLUGIN(.name = "over-gomp", .version = "1.0", .init = init)

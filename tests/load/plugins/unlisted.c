/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: registers a kernel that its manifest does not list, and drops the host's answer.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>

TN_MANIFEST(TN_MANIFEST_HEADER("unlisted", "1.0", "Apache-2.0") "kernel toy mul.Tensor float32 5\n")

static tn_status wrong(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  return TN_FAIL(TN_ERR_INTERNAL, "a kernel of a plugin that failed was called");
}

static const tn_kernel_def kernels[] = {
    TN_KERNEL("toy", "mul.Tensor", wrong, TN_DTYPE_BIT(TN_FLOAT32), .priority = 5),
    TN_KERNEL("toy", "sub.Tensor", wrong, TN_DTYPE_BIT(TN_FLOAT32), .priority = 5)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)host;
  (void)tn_register_kernels(reg, kernels, TN_COUNT(kernels));
  return TN_OK;
}

TN_PLUGIN(.name = "unlisted", .version = "1.0", .init = init)

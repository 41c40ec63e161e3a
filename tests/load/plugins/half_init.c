/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: registers two kernels that would outrank the toy's, then fails. Nothing of it may stay.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>

TN_MANIFEST(TN_MANIFEST_HEADER("half-init", "1.0", "Apache-2.0") "device half\n"
                                                                 "kernel toy add.Tensor float32 10\n"
                                                                 "kernel toy mul.Tensor float32 10\n")

static tn_status wrong(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  return TN_FAIL(TN_ERR_INTERNAL, "a kernel of a plugin that failed was called");
}

static const tn_kernel_def kernels[] = {
    TN_KERNEL("toy", "add.Tensor", wrong, TN_DTYPE_BIT(TN_FLOAT32), .priority = 10),
    TN_KERNEL("toy", "mul.Tensor", wrong, TN_DTYPE_BIT(TN_FLOAT32), .priority = 10)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  TN_TRY(tn_register_kernels(reg, kernels, TN_COUNT(kernels)));
  return host->fail(TN_ERR_INTERNAL, "the driver answered 42");
}

TN_PLUGIN(.name = "half-init", .version = "1.0", .init = init)

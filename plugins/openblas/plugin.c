/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of the OpenBLAS provider: matrix products on the device "cpu", asked before the CPU plugin's own
 * kernels and declining wherever those are as fast. libopenblas is linked in the ordinary way: a machine
 * without it shows the system loader's sentence in `tenon plugins`.
 */
#include <stdio.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>

#include "plugins/openblas/product.h"
#include "plugins/openblas/table.h"

#define PRIORITY                  10
#define MANIFEST_KERNEL(op, fn)   "kernel cpu " op " float32,float64 " TN_MANIFEST_QUOTE(PRIORITY) "\n"
#define REGISTERED_KERNEL(op, fn) {op, fn},

TN_MANIFEST(TN_MANIFEST_HEADER("openblas", OB_VERSION_TEXT, "Apache-2.0") OB_KERNELS(MANIFEST_KERNEL))

static const struct {
  const char *op;
  tn_kernel_fn fn;
} kernels[] = {OB_KERNELS(REGISTERED_KERNEL)};

/* What stands for the file in `tenon why` also says which of OpenBLAS's kernels run. */
static tn_status init(const tn_host *host, tn_registration *reg) {
  char file[192];
  TN_TRY(ob_library_open());
  ob_plan_open();
  snprintf(file, sizeof file, "%s, plugins/openblas/plugin.c", ob_library_words());
  for (size_t i = 0; i < TN_COUNT(kernels); ++i) {
    tn_kernel_def def = TN_KERNEL("cpu", kernels[i].op, kernels[i].fn,
                                  TN_DTYPE_BIT(TN_FLOAT32) | TN_DTYPE_BIT(TN_FLOAT64), .priority = PRIORITY);
    def.file = file;
    TN_TRY(host->register_kernel(reg, &def));
  }
  return TN_OK;
}

TN_PLUGIN(.name = "openblas", .version = OB_VERSION_TEXT, .init = init)

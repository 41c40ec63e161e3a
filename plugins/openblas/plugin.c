/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of the OpenBLAS provider: matrix products and factorisations on the device "cpu", asked before the CPU plugin's own
 * kernels and declining wherever those are as fast. libopenblas is linked in the ordinary way: a machine
 * without it shows the system loader's sentence in `tenon plugins`.
 */
#include <stdio.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>

#include "plugins/openblas/lapack.h"
#include "plugins/openblas/product.h"
#include "plugins/openblas/table.h"

#define PRIORITY                  10
#define MANIFEST_KERNEL(op, fn)   "kernel cpu " op " float32,float64 " TN_MANIFEST_QUOTE(PRIORITY) "\n"
#define REGISTERED_KERNEL(op, fn) {op, fn},

TN_MANIFEST(TN_MANIFEST_HEADER("openblas", OB_VERSION_TEXT, "Apache-2.0") OB_KERNELS(MANIFEST_KERNEL)
                OB_FACTOR_KERNELS(MANIFEST_KERNEL))

typedef struct named_kernel {
  const char *op;
  tn_kernel_fn fn;
} named_kernel;

static const named_kernel kernels[] = {OB_KERNELS(REGISTERED_KERNEL)},
                          factor_kernels[] = {OB_FACTOR_KERNELS(REGISTERED_KERNEL)};

static tn_status add(const tn_host *host, tn_registration *reg, const char *file, const named_kernel *list,
                     size_t n, int64_t min_numel) {
  for (size_t i = 0; i < n; ++i) {
    tn_kernel_def def =
        TN_KERNEL("cpu", list[i].op, list[i].fn, TN_DTYPE_BIT(TN_FLOAT32) | TN_DTYPE_BIT(TN_FLOAT64),
                  .priority = PRIORITY, .min_numel = min_numel);
    def.file = file;
    TN_TRY(host->register_kernel(reg, &def));
  }
  return TN_OK;
}

/* What stands for the file in `tenon why` also says which of OpenBLAS's kernels run. */
static tn_status init(const tn_host *host, tn_registration *reg) {
  char file[192];
  TN_TRY(ob_library_open());
  ob_plan_open();
  snprintf(file, sizeof file, "%s, plugins/openblas/product.c", ob_library_words());
  TN_TRY(add(host, reg, file, kernels, TN_COUNT(kernels), OB_PRODUCT_NUMEL));
  if (!ob_has_lapack()) return TN_OK;
  snprintf(file, sizeof file, "LAPACK of %s, plugins/openblas/lapack.c", ob_library_words());
  return add(host, reg, file, factor_kernels, TN_COUNT(factor_kernels), 0);
}

TN_PLUGIN(.name = "openblas", .version = OB_VERSION_TEXT, .init = init)

/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of the oneDNN provider: matrix products and convolutions on the device "cpu", asked before other providers
 * and declining wherever those are as fast. libdnnl is linked in the ordinary way: it is mapped when a cell that lists
 * this plugin is first called, never at start, and a machine without it shows the system loader's sentence in
 * `tenon plugins`.
 */
#include <stdio.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>

#include "plugins/onednn/conv.h"
#include "plugins/onednn/matmul.h"
#include "plugins/onednn/table.h"

#define PRIORITY                  20
#define OD_KERNELS(X)             OD_PRODUCTS(X) OD_CONVOLUTIONS(X)
#define MANIFEST_KERNEL(op, fn)   "kernel cpu " op " float32,bfloat16 " TN_MANIFEST_QUOTE(PRIORITY) "\n"
#define PRODUCT(op, fn)           {op, fn, OD_PRODUCT_NUMEL},
#define CONVOLUTION(op, fn)       {op, fn, 0},

TN_MANIFEST(TN_MANIFEST_HEADER("onednn", OD_VERSION_TEXT, "Apache-2.0") OD_KERNELS(MANIFEST_KERNEL))

static const struct {
  const char *op;
  tn_kernel_fn fn;
  int64_t min_numel;
} kernels[] = {OD_PRODUCTS(PRODUCT) OD_CONVOLUTIONS(CONVOLUTION)};

/* What stands for the file in `tenon why` also says for which instructions oneDNN makes its kernels. */
static tn_status init(const tn_host *host, tn_registration *reg) {
  char file[192];
  TN_TRY(od_library_open());
  od_cut_open();
  snprintf(file, sizeof file, "%s, plugins/onednn/plugin.c", od_library_words());
  for (size_t i = 0; i < TN_COUNT(kernels); ++i) {
    tn_kernel_def def =
        TN_KERNEL("cpu", kernels[i].op, kernels[i].fn, TN_DTYPE_BIT(TN_FLOAT32) | TN_DTYPE_BIT(TN_BFLOAT16),
                  .priority = PRIORITY, .min_numel = kernels[i].min_numel);
    def.file = file;
    TN_TRY(host->register_kernel(reg, &def));
  }
  return TN_OK;
}

TN_PLUGIN(.name = "onednn", .version = OD_VERSION_TEXT, .init = init, .shutdown = od_library_close)

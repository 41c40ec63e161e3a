/* SPDX-License-Identifier: Apache-2.0
 *
 * As a GPU's plugin: its init opens a vendor's driver, which this machine lacks. Listing it, and using other devices,
 * must not look for the driver.
 */
#include <dlfcn.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

TN_MANIFEST(TN_MANIFEST_HEADER("driver", "1.0", "Apache-2.0") "device driver\nkernel driver add.Tensor float32 0\n")

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)reg;
  if (!dlopen("libacmedriver.so.1", RTLD_NOW | RTLD_LOCAL))
    return host->fail(TN_ERR_UNAVAILABLE, "no driver: %s", dlerror());
  return host->fail(TN_ERR_INTERNAL, "a driver that nobody makes was found");
}

TN_PLUGIN(.name = "driver", .version = "1.0", .init = init)

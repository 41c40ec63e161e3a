/* SPDX-License-Identifier: Apache-2.0
 *
 * A good plugin for a device that is not plugged in.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

TN_MANIFEST(TN_MANIFEST_HEADER("no-hardware", "1.0", "Apache-2.0") "device ghost\n")

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)reg;
  return host->fail(TN_ERR_UNAVAILABLE, "no ghost answered on the bus");
}

TN_PLUGIN(.name = "no-hardware", .version = "1.0", .init = init)

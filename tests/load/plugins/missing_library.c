/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: linked with a library that is not on this machine.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

TN_MANIFEST(TN_MANIFEST_HEADER("missing-library", "1.0", "Apache-2.0") "device library\n")

int acme_helper(void);

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)host, (void)reg;
  return acme_helper() ? TN_OK : TN_ERR_INTERNAL;
}

TN_PLUGIN(.name = "missing-library", .version = "1.0", .init = init)

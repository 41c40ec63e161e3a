/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin of another name that offers a device name which the toy has already.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

TN_MANIFEST(TN_MANIFEST_HEADER("twin", "1.0", "Apache-2.0") "device toy\n")

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)host, (void)reg;
  return TN_OK;
}

TN_PLUGIN(.name = "twin", .version = "1.0", .init = init)

/* SPDX-License-Identifier: Apache-2.0
 *
 * A good plugin that must never be open together with the toy.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

TN_MANIFEST(TN_MANIFEST_HEADER("rival", "1.0", "Apache-2.0") "device rival alias privateuse1\nconflicts toy\n")

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)reg;
  return host->fail(TN_ERR_UNAVAILABLE, "no rival is plugged in");
}

TN_PLUGIN(.name = "rival", .version = "1.0", .init = init)

/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: a shared object that exports the door and carries no manifest.
 */
#include <tenon/kit/plugin.h>

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)host, (void)reg;
  return TN_OK;
}

TN_PLUGIN(.name = "no-manifest", .version = "1.0", .init = init)

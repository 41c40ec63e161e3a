/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: kills the process as soon as it is mapped. Listing plugins must not run it.
 */
#include <stdlib.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

TN_MANIFEST(TN_MANIFEST_HEADER("aborts", "1.0", "Apache-2.0") "device aborts\n")

__attribute__((constructor)) static void die(void) { abort(); }

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)host, (void)reg;
  return TN_OK;
}

TN_PLUGIN(.name = "aborts", .version = "1.0", .init = init)

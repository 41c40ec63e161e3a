/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: its init writes where nothing is. A child that opens it first keeps the host alive.
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>

TN_MANIFEST(TN_MANIFEST_HEADER("segfaults", "1.0", "Apache-2.0") "device segfaults\n")

static int *volatile nowhere = (int *)16; /* no null pointer: a sanitizer would end it first, in another way */

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)host, (void)reg;
  *nowhere = 1;
  return TN_OK;
}

TN_PLUGIN(.name = "segfaults", .version = "1.0", .init = init)

/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: its init waits for ever, in a way that ignores friendly signals.
 */
#include <signal.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <unistd.h>

TN_MANIFEST(TN_MANIFEST_HEADER("hangs", "1.0", "Apache-2.0") "device hangs\n")

static tn_status init(const tn_host *host, tn_registration *reg) {
  (void)host, (void)reg;
  signal(SIGTERM, SIG_IGN);
  for (;;) pause();
  return TN_OK;
}

TN_PLUGIN(.name = "hangs", .version = "1.0", .init = init)

/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad: its init says on every open descriptor below ten that all is well, and ends the process with success.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <unistd.h>

TN_MANIFEST(TN_MANIFEST_HEADER("exits", "1.0", "Apache-2.0") "device exits\n")

static tn_status init(const tn_host *host, tn_registration *reg) {
  static const char words[] = "device exits 7\ndone\n";
  (void)host, (void)reg;
  for (int fd = 0; fd < 10; ++fd)
    if (write(fd, words, strlen(words)) < 0) continue;
  exit(0);
}

TN_PLUGIN(.name = "exits", .version = "1.0", .init = init)

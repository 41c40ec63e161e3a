/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon-check: what `tenon check` starts. A program of its own, so that `tenon` stays small, and so that a plugin under
 * test never shares a process with a command that somebody uses.
 */
#include <stdio.h>
#include <string.h>

#include "frontends/check/modes.h"
#include "frontends/check/process.h"
#include "frontends/check/tools.h"

static const tni_check_mode *const modes[] = {&tni_check_mode_plugin, &tni_check_mode_op};
enum { N_MODES = sizeof modes / sizeof *modes };

static void help(void) {
  printf("usage: tenon check WHAT [arguments] [options]\n\nHolds what somebody else built to what it "
         "claims.\n\nwhat:\n");
  for (int i = 0; i < N_MODES; i++)
    printf("  %-8s %-8s  %s\n", modes[i]->name, modes[i]->positional, modes[i]->about);
  printf("\ntenon check WHAT --help tells more. Exit status 0: nothing found, 1: findings, 2: wrong usage or "
         "no report.\n");
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--child")) return tni_child_main(argc, argv);
  if (argc < 2) {
    fprintf(stderr, "tenon check: plugin FILE.so or op NAME was expected; see tenon check --help\n");
    return TNI_EXIT_USAGE;
  }
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
    help();
    return TNI_EXIT_OK;
  }
  for (int i = 0; i < N_MODES; i++)
    if (!strcmp(argv[1], modes[i]->name)) return modes[i]->run(argc - 1, argv + 1);
  fprintf(stderr, "tenon check: '%s' cannot be checked; see tenon check --help\n", argv[1]);
  return TNI_EXIT_USAGE;
}

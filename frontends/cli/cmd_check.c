/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon check`: starts libexec/tenon/tenon-check in this process's place, found by the executable's real path.
 */
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "frontends/cli/cli.h"

static int run(int argc, char **argv) {
  char path[PATH_MAX + 32];
  if (argc == 2 && !strcmp(argv[1], "--man")) { /* for the build: man.c */
    tni_man_command(&tni_cmd_check, (const tni_option[]){{0}});
    return TNI_EXIT_OK;
  }
  ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
  path[n > 0 ? n : 0] = 0;
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(path, '/');
    if (slash) *slash = 0;
  }
  strcat(path, "/libexec/tenon/tenon-check");
  argv[0] = (char[]){"tenon-check"};
  execv(path, argv);
  fprintf(stderr, "tenon check: %s: %s\n", path, strerror(errno));
  return TNI_EXIT_FAILED;
}

const tni_command tni_cmd_check = {
    .name = "check",
    .positional = "WHAT",
    .about = "Hold a plugin to the contract and to what it claims: tenon check plugin FILE.so.",
    .run = run};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The command `tenon`: finds the subcommand and runs it. Exit status 0: done, 1: failed (the words are on
 * stderr), 2: wrong usage, 130: interrupted.
 */
#include <time.h>

#include "frontends/cli/cli.h"

static const tni_command *const commands[] = {&tni_cmd_devices, &tni_cmd_plugins,  &tni_cmd_layers, &tni_cmd_ops,
                                              &tni_cmd_explain, &tni_cmd_why,      &tni_cmd_train,
                                              &tni_cmd_eval,    &tni_cmd_generate, &tni_cmd_bench,
                                              &tni_cmd_check,   &tni_cmd_new_plugin};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

int tni_cli_failed(void) {
  fflush(stdout);
  fprintf(stderr, "tenon: %s\n", tn_error_message());
  return TNI_EXIT_FAILED;
}

int tni_cli_end(int exit_status) {
  tni_cli_fallback_line();
  if (!fflush(stdout) && !ferror(stdout)) return exit_status;
  fprintf(stderr, "tenon: the output could not be written\n");
  return exit_status == TNI_EXIT_OK ? TNI_EXIT_FAILED : exit_status;
}

double tni_cli_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void help(void) {
  printf("usage: tenon COMMAND [arguments] [options]\n\nA tensor runtime whose backends are "
         "plugins.\n\ncommands:\n");
  for (int i = 0; i < N_COMMANDS; i++) {
    const char *about = commands[i]->about;
    printf("  %-10s %.*s\n", commands[i]->name, (int)strcspn(about, "\n"), about);
  }
  printf("\noptions:\n  --help      this text; tenon COMMAND --help tells more\n  --version   the version\n"
         "\nenvironment:\n");
  for (const tni_setting *s = tni_settings; s->name; s++) printf("  %-19s %s\n", s->name, s->help);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "tenon: a command was expected; see tenon --help\n");
    return TNI_EXIT_USAGE;
  }
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
    help();
    return tni_cli_end(TNI_EXIT_OK);
  }
  if (!strcmp(argv[1], "--version")) {
    printf("tenon %s\n", tn_version());
    return tni_cli_end(TNI_EXIT_OK);
  }
  if (!strcmp(argv[1], "--man") && argc == 3) return tni_cli_end(tni_man_write(argv[2], commands, N_COMMANDS));
  for (int i = 0; i < N_COMMANDS; i++)
    if (!strcmp(argv[1], commands[i]->name)) {
      int exit_status = tni_cli_end(commands[i]->run(argc - 1, argv + 1));
      tn_shutdown(); /* while plugins may still speak: layers print what they have gathered */
      return exit_status;
    }
  fprintf(stderr, "tenon: unknown command '%s'; see tenon --help\n", argv[1]);
  return TNI_EXIT_USAGE;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands of `tenon` share: exit statuses, the option parser, words on failure.
 */
#ifndef TENON_CLI_H
#define TENON_CLI_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define TN_TRY(expr)                                                         \
  do {                                                                       \
    tn_status tn_try_status_ = (expr);                                       \
    if (__builtin_expect(tn_try_status_ != TN_OK, 0)) return tn_try_status_; \
  } while (0)

enum { TNI_EXIT_OK = 0, TNI_EXIT_FAILED = 1, TNI_EXIT_USAGE = 2, TNI_EXIT_INTERRUPTED = 130 };

enum { TNI_OPTION_FLAG = 0, TNI_OPTION_STRING = 1, TNI_OPTION_INT = 2, TNI_OPTION_REAL = 3 };

/* One option. An array of them ends with name NULL. --help and -h are understood everywhere. */
typedef struct tni_option {
  const char *name;  /* "--epochs" */
  int kind;          /* TNI_OPTION_... */
  void *out;         /* bool, const char *, int64_t, double */
  const char *value; /* for help: "N" */
  const char *help;
  double low, high; /* allowed numbers, both ends included; both 0: any */
} tni_option;

typedef struct tni_command {
  const char *name;       /* "train" */
  const char *positional; /* for help: "OP DEVICE DTYPE"; "" if there are none */
  int min_positional, max_positional;
  const char *about;
  int (*run)(int argc, char **argv); /* argv[0] is the command */
} tni_command;

/* Reads options into their places and the rest into positional (room for max_positional). Answers -1 to go
 * on, else the exit status: help was printed, or the usage was wrong and said so. */
int tni_args_parse(const tni_command *command, const tni_option *options, int argc, char **argv,
                   const char **positional);
void tni_args_help(const tni_command *command, const tni_option *options);

/* Writes man pages into a folder that exists: tenon.1, and tenon-NAME.1 for each of the n commands, from the texts that
 * --help prints. Exit status. For the build: `tenon --man FOLDER`. */
int tni_man_write(const char *folder, const tni_command *const *commands, int n);
/* The page of one command, to stdout. */
void tni_man_command(const tni_command *command, const tni_option *options);

/* What the environment says to every command, for --help and man pages; ended by name NULL. */
typedef struct tni_setting {
  const char *name, *help;
} tni_setting;
extern const tni_setting tni_settings[];

/* Prints "tenon: WORDS of the thread" to stderr. Returns TNI_EXIT_FAILED. */
int tni_cli_failed(void);
/* Flushes stdout; a full disk or closed pipe turns success into TNI_EXIT_FAILED. */
int tni_cli_end(int exit_status);
void tni_cli_fallback_line(void); /* what ran on the CPU in a device's place, if anything */
double tni_cli_seconds(void); /* monotonic */

/* What --trace and --profile ask for. Zeroed, then the options are read into it. watch.c */
typedef struct tni_watch {
  const char *trace_path;
  bool table;
  struct tn_trace *trace;
  struct tn_profile *profile;
} tni_watch;
#define TNI_WATCH_OPTIONS(w)                                                                                      \
  {"--trace", TNI_OPTION_STRING, &(w).trace_path, "FILE", "write what is done to a file that Perfetto opens", 0, 0}, \
      {"--profile", TNI_OPTION_FLAG, &(w).table, NULL, "print a table of operators and their times at the end", 0, 0}
/* Begins to watch; TNI_EXIT_OK to go on. */
int tni_watch_begin(tni_watch *watch);
/* The end: the table goes to `file`. Returns the command's exit status, made a failure if something could not be
 * written. */
int tni_watch_end(tni_watch *watch, int result, FILE *file);

extern const tni_command tni_cmd_devices, tni_cmd_plugins, tni_cmd_ops, tni_cmd_explain, tni_cmd_why,
    tni_cmd_layers, tni_cmd_train, tni_cmd_eval, tni_cmd_generate, tni_cmd_bench, tni_cmd_check, tni_cmd_new_plugin;

#endif

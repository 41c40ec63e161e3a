/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows `tenon check`: one record a word. main.c has the table.
 */
#ifndef TENON_CHECK_MODES_H
#define TENON_CHECK_MODES_H

typedef struct tni_check_mode {
  const char *name;                  /* "plugin" */
  const char *positional;            /* for help: "FILE.so" */
  const char *about;                 /* one line */
  int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit status */
} tni_check_mode;

extern const tni_check_mode tni_check_mode_op, tni_check_mode_plugin;

#endif

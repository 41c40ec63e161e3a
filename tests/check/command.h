/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon check` as a user starts it, and its answer.
 */
#ifndef TESTS_CHECK_COMMAND_H
#define TESTS_CHECK_COMMAND_H

#include <stdbool.h>

/* What the command printed and how it ended. Owned: command_free. */
typedef struct answer {
  char *text;
  int exit_status; /* -1: by a signal */
} answer;

/* arguments as the shell takes them, after `tenon check`. Both streams are read. */
answer command(const char *arguments, ...) __attribute__((format(printf, 1, 2)));
void command_free(answer *a);
/* "PATH/NAME.so" of this folder's plugins, quoted for the shell; static, until the next call. */
const char *plugin_file(const char *name);
/* Does the table say that the check failed? */
bool check_failed(const answer *a, const char *check);
/* The names of all failed checks, with a blank after each (owned). */
char *failed_checks(const answer *a);

#endif

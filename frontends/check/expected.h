/* SPDX-License-Identifier: Apache-2.0
 *
 * The expected-failures file of a plugin: what its maker knows to fail, and why. Lines of
 *
 *   CHECK-PATTERN ITEM-PATTERN  # why
 *
 * Patterns are the shell's (*, ?, [..]); the item pattern goes up to the #, and may hold blanks. Empty lines and lines
 * that begin with # mean nothing. What fails as written counts as expected; a line whose items all pass is drift, and a
 * finding: the file would hide the next failure.
 */
#ifndef TENON_CHECK_EXPECTED_H
#define TENON_CHECK_EXPECTED_H

#include "frontends/check/outcome.h"

typedef struct tni_expected {
  char *path;
  struct tni_expected_line *lines;
  size_t n_lines;
} tni_expected;

/* NULL, or what is wrong with the file, with path and line (owned). */
char *tni_expected_read(const char *path, tni_expected *out_expected);
/* The file of a plugin where none was named: FILE without .so plus .expected, else share/tenon/expected/NAME.expected of
 * this installation. Owned, NULL: there is none. */
char *tni_expected_find(const tni_check_context *c);
/* Marks the failures of one check that were expected. */
void tni_expected_mark(const tni_expected *expected, tni_result *result);
/* After all checks: drift becomes a result of its own, "expected.drift", whose items are the lines. true: there is one, the
 * run's last. */
bool tni_expected_drift(const tni_expected *expected, tni_run *run);
void tni_expected_free(tni_expected *expected);

#endif

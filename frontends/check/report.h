/* SPDX-License-Identifier: Apache-2.0
 *
 * The three forms of a report over the same outcomes.
 */
#ifndef TENON_CHECK_REPORT_H
#define TENON_CHECK_REPORT_H

#include "frontends/check/outcome.h"

/* For people, on stdout: the head, one line a check as it ends (with what it found below), and the summary, whose last
 * line is one sentence. all: passes and skips by name as well. */
void tni_report_head(const tni_check_context *c);
void tni_report_check(const tni_result *result, bool all);
void tni_report_summary(const tni_run *run, const char *expected_path);

/* For machines. Written aside and renamed: a reader never meets half a report. NULL, or what went wrong (owned). The
 * forms are in docs/check.md. */
char *tni_report_json(const tni_run *run, const char *path);
char *tni_report_junit(const tni_run *run, const char *path);

/* Opens path's neighbour for writing; NULL: *out_words says why. */
FILE *tni_report_open(const char *path, char **out_temporary, char **out_words);
/* Closes it and puts it in place. NULL, or what went wrong (owned). */
char *tni_report_close(FILE *file, char *temporary, const char *path);

/* Calls byte-wise output with valid UTF-8 only: what is none becomes U+FFFD. */
void tni_report_utf8(const char *text, void (*out)(void *ctx, const char *bytes, size_t n), void *ctx);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for people. Each check's line comes when the check ends, so that a long run shows where it is.
 */
#include <stdio.h>

#include "frontends/check/report.h"

void tni_report_head(const tni_check_context *c) {
  printf("%s %s (%s)\n", c->plugin, c->version, c->file);
  if (c->manifest_error) printf("  the file %s\n", c->manifest_error);
  fflush(stdout);
}

/* Several lines of words stand under each other. */
static void print_words(const char *mark, const tni_outcome *o) {
  printf("    %s %s%s", mark, o->item, *o->words ? ": " : "");
  for (const char *c = o->words; *c; c++) {
    putchar(*c);
    if (*c == '\n') fputs("      ", stdout);
  }
  putchar('\n');
}

static const char *word_of(const tni_result *result, tni_counts n) {
  if (n.failed) return "FAILED";
  if (n.passed || n.expected) return n.expected ? "expected" : "ok";
  return result->n_outcomes ? "skipped" : "empty";
}

void tni_report_check(const tni_result *result, bool all) {
  tni_counts n = tni_result_counts(result);
  printf("  %-16s %-8s %5zu passed", result->check->name, word_of(result, n), n.passed);
  if (n.failed) printf(", %zu failed", n.failed);
  if (n.expected) printf(", %zu expected", n.expected);
  if (n.skipped) printf(", %zu skipped", n.skipped);
  printf("  %.1f s\n", result->seconds);
  for (size_t i = 0; i < result->n_outcomes; i++) {
    const tni_outcome *o = &result->outcomes[i];
    switch (o->kind) {
      case TNI_OUTCOME_FAILED: print_words("FAILED", o); break;
      case TNI_OUTCOME_EXPECTED: print_words("expected", o); break;
      case TNI_OUTCOME_NOTE: print_words("note", o); break;
      case TNI_OUTCOME_SKIPPED:
        if (all || !n.passed) print_words("skipped", o);
        break;
      case TNI_OUTCOME_PASSED:
        if (all) print_words("passed", o);
    }
  }
  fflush(stdout);
}

void tni_report_summary(const tni_run *run, const char *expected_path) {
  tni_counts n = tni_run_counts(run);
  if (expected_path) printf("expected failures: %s\n", expected_path);
  printf("%zu checks in %.1f s\n", run->n_results, run->seconds);
  printf("%s: %zu passed, %zu failed, %zu expected failure%s, %zu skipped\n", run->context->plugin, n.passed,
         n.failed, n.expected, n.expected == 1 ? "" : "s", n.skipped);
}

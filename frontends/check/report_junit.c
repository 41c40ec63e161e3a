/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as JUnit XML, as common readers take it: a suite a check, a case an item. An expected failure is a skipped
 * case whose message has the reason: readers know no third outcome, and it must not turn a build red.
 */
#include "frontends/check/report.h"

static void put_bytes(void *file, const char *bytes, size_t n) {
  unsigned char c = (unsigned char)bytes[0];
  const char *named = n > 1      ? NULL
                      : c == '&' ? "&amp;"
                      : c == '<' ? "&lt;"
                      : c == '>' ? "&gt;"
                      : c == '"' ? "&quot;"
                                 : NULL;
  if (named)
    fputs(named, file);
  else if (n == 1 && (c == '\n' || c == '\t'))
    fprintf(file, "&#%d;", c);
  else if (n == 1 && c < 0x20)
    fputs("\xEF\xBF\xBD", file); /* XML 1.0 has no way to write it */
  else
    fwrite(bytes, 1, n, file);
}

static void put_attribute(FILE *file, const char *name, const char *value) {
  fprintf(file, " %s=\"", name);
  tni_report_utf8(value, put_bytes, file);
  fputc('"', file);
}

static void put_case(FILE *file, const char *suite, const tni_outcome *o) {
  fputs("    <testcase", file);
  put_attribute(file, "classname", suite);
  put_attribute(file, "name", o->item);
  if (o->kind == TNI_OUTCOME_PASSED) {
    fputs("/>\n", file);
    return;
  }
  fputs(o->kind == TNI_OUTCOME_FAILED ? ">\n      <failure" : ">\n      <skipped", file);
  put_attribute(file, "message", o->words);
  fputs("/>\n    </testcase>\n", file);
}

static void put_suite(FILE *file, const tni_run *run, const tni_result *result) {
  tni_counts n = tni_result_counts(result);
  char suite[200];
  snprintf(suite, sizeof suite, "%.90s.%.90s", run->context->plugin, result->check->name);
  fputs("  <testsuite", file);
  put_attribute(file, "name", suite);
  fprintf(file, " tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\" time=\"%.3f\">\n",
          n.passed + n.failed + n.expected + n.skipped, n.failed, n.expected + n.skipped, result->seconds);
  for (size_t i = 0; i < result->n_outcomes; i++)
    if (result->outcomes[i].kind != TNI_OUTCOME_NOTE) put_case(file, suite, &result->outcomes[i]);
  fputs("  </testsuite>\n", file);
}

char *tni_report_junit(const tni_run *run, const char *path) {
  char *temporary, *words;
  FILE *file = tni_report_open(path, &temporary, &words);
  if (!file) return words;
  tni_counts n = tni_run_counts(run);
  fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites", file);
  put_attribute(file, "name", run->context->plugin);
  fprintf(file, " tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\" time=\"%.3f\">\n",
          n.passed + n.failed + n.expected + n.skipped, n.failed, n.expected + n.skipped, run->seconds);
  for (size_t i = 0; i < run->n_results; i++) put_suite(file, run, &run->results[i]);
  fputs("</testsuites>\n", file);
  return tni_report_close(file, temporary, path);
}

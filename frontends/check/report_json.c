/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one JSON object (docs/check.md names its fields).
 */
#include "frontends/check/report.h"

static void put_bytes(void *file, const char *bytes, size_t n) {
  unsigned char c = (unsigned char)bytes[0];
  if (n == 1 && (c == '"' || c == '\\'))
    fprintf(file, "\\%c", c);
  else if (n == 1 && c < 0x20)
    fprintf(file, "\\u%04x", c);
  else
    fwrite(bytes, 1, n, file);
}

static void put_string(FILE *file, const char *key, const char *value) {
  fprintf(file, "\"%s\": \"", key);
  tni_report_utf8(value, put_bytes, file);
  fputc('"', file);
}

static void put_counts(FILE *file, tni_counts n) {
  fprintf(file, "\"passed\": %zu, \"failed\": %zu, \"expected\": %zu, \"skipped\": %zu", n.passed, n.failed,
          n.expected, n.skipped);
}

static void put_result(FILE *file, const tni_result *result) {
  fputs("    {", file);
  put_string(file, "name", result->check->name);
  fputs(", ", file);
  put_string(file, "about", result->check->about);
  fprintf(file, ", \"seconds\": %.3f, ", result->seconds);
  put_counts(file, tni_result_counts(result));
  fputs(", \"items\": [", file);
  for (size_t i = 0; i < result->n_outcomes; i++) {
    const tni_outcome *o = &result->outcomes[i];
    fputs(i ? ",\n      {" : "\n      {", file);
    put_string(file, "item", o->item);
    fputs(", ", file);
    put_string(file, "outcome", tni_outcome_name(o->kind));
    if (*o->words) {
      fputs(", ", file);
      put_string(file, "words", o->words);
    }
    fputc('}', file);
  }
  fputs("]}", file);
}

char *tni_report_json(const tni_run *run, const char *path) {
  char *temporary, *words;
  FILE *file = tni_report_open(path, &temporary, &words);
  if (!file) return words;
  fputs("{\"format\": 1, ", file);
  put_string(file, "tenon", tn_version());
  fputs(", ", file);
  put_string(file, "plugin", run->context->plugin);
  fputs(", ", file);
  put_string(file, "version", run->context->version);
  fputs(", ", file);
  put_string(file, "file", run->context->file);
  fprintf(file, ", \"seconds\": %.3f, ", run->seconds);
  put_counts(file, tni_run_counts(run));
  fputs(",\n  \"checks\": [\n", file);
  for (size_t i = 0; i < run->n_results; i++) {
    put_result(file, &run->results[i]);
    fputs(i + 1 < run->n_results ? ",\n" : "\n", file);
  }
  fputs("  ]}\n", file);
  return tni_report_close(file, temporary, path);
}

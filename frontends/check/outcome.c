/* SPDX-License-Identifier: Apache-2.0
 *
 * See outcome.h.
 */
#include "frontends/check/outcome.h"

#include <stdlib.h>

#include "frontends/check/tools.h"

static tni_outcome *find(tni_result *result, const char *item) {
  for (size_t i = result->n_outcomes; i-- > 0;)
    if (result->outcomes[i].kind != TNI_OUTCOME_NOTE && !strcmp(result->outcomes[i].item, item))
      return &result->outcomes[i];
  return NULL;
}

void tni_outcome_add(tni_result *result, tni_outcome_kind kind, const char *item, const char *words) {
  tni_outcome *same = kind == TNI_OUTCOME_NOTE ? NULL : find(result, item);
  if (same && same->kind >= kind) return;
  if (same) {
    free(same->words);
    same->words = tni_check_text("%s", words);
    same->kind = kind;
    return;
  }
  tni_check_grow(&result->outcomes, result->n_outcomes, sizeof *result->outcomes);
  result->outcomes[result->n_outcomes++] =
      (tni_outcome){kind, tni_check_text("%s", item), tni_check_text("%s", words)};
}

const char *tni_outcome_name(tni_outcome_kind kind) {
  static const char *const names[] = {"note", "skipped", "passed", "expected", "failed"};
  return names[kind];
}

tni_counts tni_result_counts(const tni_result *result) {
  size_t n[TNI_OUTCOME_FAILED + 1] = {0};
  for (size_t i = 0; i < result->n_outcomes; i++) n[result->outcomes[i].kind]++;
  return (tni_counts){n[TNI_OUTCOME_PASSED], n[TNI_OUTCOME_FAILED], n[TNI_OUTCOME_EXPECTED],
                      n[TNI_OUTCOME_SKIPPED]};
}

tni_counts tni_run_counts(const tni_run *run) {
  tni_counts all = {0};
  for (size_t i = 0; i < run->n_results; i++) {
    tni_counts one = tni_result_counts(&run->results[i]);
    all.passed += one.passed;
    all.failed += one.failed;
    all.expected += one.expected;
    all.skipped += one.skipped;
  }
  return all;
}

void tni_run_free(tni_run *run) {
  for (size_t i = 0; i < run->n_results; i++) {
    for (size_t k = 0; k < run->results[i].n_outcomes; k++) {
      free(run->results[i].outcomes[k].item);
      free(run->results[i].outcomes[k].words);
    }
    free(run->results[i].outcomes);
  }
  free(run->results);
  *run = (tni_run){0};
}

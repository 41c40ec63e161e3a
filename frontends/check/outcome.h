/* SPDX-License-Identifier: Apache-2.0
 *
 * What checks have said, as the runner keeps it: one result a check, one outcome an item.
 */
#ifndef TENON_CHECK_OUTCOME_H
#define TENON_CHECK_OUTCOME_H

#include "frontends/check/check.h"

/* Worse is higher: of what is said twice about an item, the worse counts. */
typedef enum tni_outcome_kind {
  TNI_OUTCOME_NOTE = 0,
  TNI_OUTCOME_SKIPPED = 1,
  TNI_OUTCOME_PASSED = 2,
  TNI_OUTCOME_EXPECTED = 3, /* failed, and the expected-failures file says so */
  TNI_OUTCOME_FAILED = 4
} tni_outcome_kind;

typedef struct tni_outcome {
  tni_outcome_kind kind;
  char *item;
  char *words; /* "" for passes; of an expected failure also the reason that the file gives */
} tni_outcome;

/* Of one check. Owned by its run. */
typedef struct tni_result {
  const tni_check *check;
  tni_outcome *outcomes;
  size_t n_outcomes;
  double seconds;
} tni_result;

typedef struct tni_counts {
  size_t passed, failed, expected, skipped;
} tni_counts;

/* Everything of one run, for the reports. */
typedef struct tni_run {
  const tni_check_context *context;
  tni_result *results;
  size_t n_results;
  double seconds;
} tni_run;

/* item and words are copied. */
void tni_outcome_add(tni_result *result, tni_outcome_kind kind, const char *item, const char *words);
const char *tni_outcome_name(tni_outcome_kind kind); /* "passed" */
tni_counts tni_result_counts(const tni_result *result);
tni_counts tni_run_counts(const tni_run *run);
void tni_run_free(tni_run *run); /* the results, not the context */

#endif

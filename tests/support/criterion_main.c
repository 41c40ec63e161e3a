/* SPDX-License-Identifier: Apache-2.0
 *
 * The Criterion runner: each test in a process of its own. It has a main of its own (not Criterion's) so that
 * --list and the closing line are the plain runner's, and CI can compare names and add up counts. All other
 * arguments are Criterion's (--filter, --verbose, -j).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "environment.h"
#include "tn_test.h"

void tn_test_criterion_fail(void); /* tn_test.h declares it for tests only */
void tn_test_criterion_fail(void) { cr_assert_fail("a check failed; its words are above"); }

/* Counts come through the report hook, in the parent process. */
static size_t passed, failed;

ReportHook(POST_ALL)(struct criterion_global_stats *stats) {
  passed = stats->tests_passed;
  failed = stats->tests_failed + stats->tests_crashed;
}

static void list(struct criterion_test_set *tests) {
  FOREACH_SET(struct criterion_suite_set *suite, tests->suites) {
    if (!suite->tests) continue;
    FOREACH_SET(struct criterion_test *test, suite->tests) printf("%s.%s\n", test->category, test->name);
  }
}

int main(int argc, char **argv) {
  bool ok = true;
  tn_test_environment();
  struct criterion_test_set *tests = criterion_initialize();
  if (argc > 1 && strcmp(argv[1], "--list") == 0) {
    list(tests);
  } else if (criterion_handle_args(argc, argv, true)) {
    ok = criterion_run_all_tests(tests);
    printf("%zu passed, %zu failed\n", passed, failed);
    ok = ok && failed == 0 && passed > 0;
  }
  criterion_finalize(tests);
  return ok ? 0 : 1;
}

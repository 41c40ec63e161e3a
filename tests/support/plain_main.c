/* SPDX-License-Identifier: Apache-2.0
 *
 * The plain runner: all tests of a program one after the other in one process, so that sanitizers see
 * everything and leaks are found at exit. Needs nothing but the C library.
 *
 *   tests_unit                 all
 *   tests_unit 'kit_*' A.b     those whose suite.name matches one of the patterns (a bare word: a whole suite)
 *   tests_unit --list          names only
 *
 * The last line is `N passed, N failed`; the exit status 1 if any failed, 2 for wrong use.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "environment.h"
#include "tn_test.h"

static tn_test *first, **last = &first;

void tn_test_register(tn_test *test) {
  *last = test;
  last = &test->next;
}

static bool wanted(const tn_test *test, int n_patterns, char **patterns) {
  char name[512];
  snprintf(name, sizeof name, "%s.%s", test->suite, test->name);
  for (int i = 0; i < n_patterns; i++) {
    const char *subject = strchr(patterns[i], '.') ? name : test->suite;
    if (fnmatch(patterns[i], subject, 0) == 0) return true;
  }
  return n_patterns == 0;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int list(int n_patterns, char **patterns) {
  for (const tn_test *test = first; test; test = test->next)
    if (wanted(test, n_patterns, patterns)) printf("%s.%s\n", test->suite, test->name);
  return 0;
}

int main(int argc, char **argv) {
  int passed = 0, failed = 0;
  tn_test_environment();
  if (argc > 1 && strcmp(argv[1], "--list") == 0) return list(argc - 2, argv + 2);
  if (argc > 1 && argv[1][0] == '-') {
    fprintf(stderr, "usage: %s [--list] [PATTERN...]\n", argv[0]);
    return 2;
  }
  for (const tn_test *test = first; test; test = test->next) {
    if (!wanted(test, argc - 1, argv + 1)) continue;
    double start = seconds();
    printf("%s.%s ... ", test->suite, test->name);
    fflush(stdout); /* a crash leaves the name behind */
    bool ok = tn_test_run(test->suite, test->name, test->fn);
    if (ok) passed++;
    else failed++;
    printf(ok ? "ok (%.3f s)\n" : "FAILED (%.3f s)\n", seconds() - start);
  }
  if (passed + failed == 0) printf("no test has such a name\n");
  printf("%d passed, %d failed\n", passed, failed);
  return failed || passed == 0;
}

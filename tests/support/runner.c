/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens inside a test, the same under both runners: run the body, leave it at the first failed check,
 * print the words. Which tests there are and in what process each runs is plain_main.c's and
 * criterion_main.c's business.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tn_test.h"

/* Weak, so that a test program of the kit alone links without a core. */
extern const char *tn_error_message(void) __attribute__((weak));
extern const char *tn_status_name(tn_status status) __attribute__((weak));

/* The running test: one at a time in a process. */
static jmp_buf test_end;
static pthread_t test_thread;
static atomic_bool test_failed;
static const char *test_suite = "", *test_name = "";

bool tn_test_run(const char *suite, const char *name, tn_test_fn fn) {
  test_suite = suite;
  test_name = name;
  test_thread = pthread_self();
  atomic_store(&test_failed, false);
  if (setjmp(test_end) == 0) fn();
  return !atomic_load(&test_failed);
}

void tn_test_fail(const char *file, int line, const char *format, ...) {
  va_list list;
  flockfile(stdout);
  printf("%s:%d: in %s.%s: ", file, line, test_suite, test_name);
  va_start(list, format);
  vprintf(format, list);
  va_end(list);
  putchar('\n');
  fflush(stdout);
  funlockfile(stdout);
  atomic_store(&test_failed, true);
  if (!pthread_equal(pthread_self(), test_thread)) pthread_exit(NULL);
  longjmp(test_end, 1);
}

static const char *error_words(void) { return tn_error_message ? tn_error_message() : ""; }

static const char *status_words(tn_status status) {
  if (status == TN_OK) return "ok";
  return tn_status_name ? tn_status_name(status) : "a failure";
}

void tn_test_status_ok(tn_status status, const char *text, const char *file, int line) {
  if (status == TN_OK) return;
  tn_test_fail(file, line, "%s failed with %d (%s): %s", text, (int)status, status_words(status), error_words());
}

void tn_test_status_fails(tn_status status, tn_status expected, const char *words, const char *text,
                          const char *file, int line) {
  if (status != expected)
    tn_test_fail(file, line, "%s gave %d (%s), expected %d (%s); words: %s", text, (int)status,
                 status_words(status), (int)expected, status_words(expected), status ? error_words() : "");
  if (!strstr(error_words(), words))
    tn_test_fail(file, line, "%s failed as expected, but its words are \"%s\", without \"%s\"", text,
                 error_words(), words);
}

void tn_test_int(int64_t a, int64_t b, const char *text, const char *file, int line) {
  if (a == b) return;
  tn_test_fail(file, line, "%s is false: %lld and %lld", text, (long long)a, (long long)b);
}

void tn_test_double(double a, double b, double tolerance, const char *text, const char *file, int line) {
  if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tolerance) return;
  tn_test_fail(file, line, "%s is false: %.17g and %.17g differ by %g, allowed is %g", text, a, b, fabs(a - b),
               tolerance);
}

void tn_test_str(const char *a, const char *b, const char *text, const char *file, int line) {
  if (a == b || (a && b && strcmp(a, b) == 0)) return;
  tn_test_fail(file, line, "%s is false: \"%s\" and \"%s\"", text, a ? a : "(NULL)", b ? b : "(NULL)");
}

void tn_test_contains(const char *text_value, const char *part, const char *text, const char *file, int line) {
  if (text_value && strstr(text_value, part)) return;
  tn_test_fail(file, line, "%s is false: \"%s\"", text, text_value ? text_value : "(NULL)");
}

void tn_test_null(bool is_null, bool expect_null, const char *text, const char *file, int line) {
  if (is_null == expect_null) return;
  tn_test_fail(file, line, "%s is %s", text, is_null ? "NULL" : "not NULL");
}

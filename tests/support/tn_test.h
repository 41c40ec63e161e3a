/* SPDX-License-Identifier: Apache-2.0
 *
 * How every C test is written: TN_TEST(suite, name) { ... } with TN_CHECK... inside. One source serves two
 * runners: plain_main.c (a loop over the registered tests, one process) and, with TN_CRITERION defined,
 * criterion_main.c (Criterion, one process a test). What happens inside a test is the same code in both
 * (runner.c), so a check cannot mean two things.
 *
 * A failed check prints the file, the line and both values, and ends the test at once (longjmp: nothing is
 * released, but the program fails anyway). In a thread that a test started, it ends that thread, and the test
 * fails when its body returns. Arguments of checks are evaluated once. Checks stay on in release builds.
 */
#ifndef TN_TEST_H
#define TN_TEST_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/types.h>

typedef void (*tn_test_fn)(void);

/* One registered test; the macro below makes them. */
typedef struct tn_test {
  const char *suite;
  const char *name;
  tn_test_fn fn;
  struct tn_test *next;
} tn_test;

void tn_test_register(tn_test *test); /* plain runner: appends to its list */
/* Runs one body; true if no check failed. The failure's words are printed by then. */
bool tn_test_run(const char *suite, const char *name, tn_test_fn fn);

/* Fails the running test (printf form); does not return. */
void tn_test_fail(const char *file, int line, const char *format, ...) TN_PRINTF(3, 4)
    __attribute__((noreturn));

/* What the checks call. `text` is the check's source text. */
void tn_test_status_ok(tn_status status, const char *text, const char *file, int line);
void tn_test_status_fails(tn_status status, tn_status expected, const char *words, const char *text,
                          const char *file, int line);
void tn_test_int(int64_t a, int64_t b, const char *text, const char *file, int line);
void tn_test_double(double a, double b, double tolerance, const char *text, const char *file, int line);
void tn_test_str(const char *a, const char *b, const char *text, const char *file, int line);
void tn_test_contains(const char *text_value, const char *part, const char *text, const char *file, int line);
void tn_test_null(bool is_null, bool expect_null, const char *text, const char *file, int line);

#ifdef TN_CRITERION
#include <criterion/criterion.h>
void tn_test_criterion_fail(void); /* tells Criterion that the running test failed */
#define TN_TEST(suite_, name_)                                                                     \
  static void tn_test_body_##suite_##_##name_(void);                                               \
  Test(suite_, name_) {                                                                            \
    if (!tn_test_run(#suite_, #name_, tn_test_body_##suite_##_##name_)) tn_test_criterion_fail();  \
  }                                                                                                \
  static void tn_test_body_##suite_##_##name_(void)
#else
#define TN_TEST(suite_, name_)                                                                     \
  static void tn_test_body_##suite_##_##name_(void);                                               \
  __attribute__((constructor)) static void tn_test_register_##suite_##_##name_(void) {             \
    static tn_test test = {#suite_, #name_, tn_test_body_##suite_##_##name_, NULL};                \
    tn_test_register(&test);                                                                       \
  }                                                                                                \
  static void tn_test_body_##suite_##_##name_(void)
#endif

#define TN_CHECK(cond)                                                                             \
  do {                                                                                             \
    if (!(cond)) tn_test_fail(__FILE__, __LINE__, "%s is false", #cond);                           \
  } while (0)

/* The status is TN_OK; else its name and the thread's error words are printed. */
#define TN_CHECK_OK(expr) tn_test_status_ok((expr), #expr, __FILE__, __LINE__)
/* The status is `code` and the thread's error words contain `part`. */
#define TN_CHECK_FAILS(expr, code, part)                                                           \
  tn_test_status_fails((expr), (code), (part), #expr, __FILE__, __LINE__)
#define TN_CHECK_INT(a, b) tn_test_int((int64_t)(a), (int64_t)(b), #a " == " #b, __FILE__, __LINE__)
/* |a - b| <= tol; two NaNs agree, and equal infinities. */
#define TN_CHECK_DOUBLE(a, b, tol)                                                                 \
  tn_test_double((double)(a), (double)(b), (double)(tol), #a " == " #b, __FILE__, __LINE__)
/* Equal texts; two NULLs agree. */
#define TN_CHECK_STR(a, b) tn_test_str((a), (b), #a " == " #b, __FILE__, __LINE__)
/* `part` occurs in `text`. */
#define TN_CHECK_CONTAINS(text, part)                                                              \
  tn_test_contains((text), (part), #text " contains " #part, __FILE__, __LINE__)
#define TN_CHECK_PTR_NULL(p) tn_test_null((p) == NULL, true, #p, __FILE__, __LINE__)
#define TN_CHECK_NOT_NULL(p) tn_test_null((p) == NULL, false, #p, __FILE__, __LINE__)

#endif

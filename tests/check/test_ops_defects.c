/* SPDX-License-Identifier: Apache-2.0
 *
 * For every operator check a backend with one kernel wrong in one way, which that check catches and names. Where a kernel
 * is wrong other checks that call it see it as well: those are listed, and no others may fail. And nothing is found where
 * nothing is wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "tn_test.h"

/* others: names of checks, each with a blank after it. */
static void expect(const char *plugin, const char *check, const char *words, const char *others) {
  answer a = command("plugin %s --only 'ops.*'", plugin_file(plugin));
  if (a.exit_status != 1 || !check_failed(&a, check) || !strstr(a.text, words))
    tn_test_fail(__FILE__, __LINE__, "%s: expected that %s fails with \"%s\"; exit status %d:\n%s", plugin, check, words,
                 a.exit_status, a.text);
  char *failed = failed_checks(&a), *state = NULL;
  for (char *name = strtok_r(failed, " ", &state); name; name = strtok_r(NULL, " ", &state)) {
    char with_blank[80];
    snprintf(with_blank, sizeof with_blank, "%s ", name);
    if (strcmp(name, check) && !strstr(others, with_blank))
      tn_test_fail(__FILE__, __LINE__, "%s: %s failed as well:\n%s", plugin, name, a.text);
  }
  free(failed);
  command_free(&a);
}

#define DEFECT(defect, check, words, others) \
  TN_TEST(check_ops_defects, defect) { expect("kernels_" #defect, check, words, others); }

DEFECT(tail, "ops.forward", "FAILED exp ", "ops.forms ops.gradient ops.strides ops.large ")
DEFECT(rounding, "ops.forward", "FAILED exp float32 ", "ops.gradient ops.strides ops.large ops.forms ")
DEFECT(narrow, "ops.forward", "FAILED mul.Tensor float64 ", "ops.gradient ops.strides ops.large ")
DEFECT(empty, "ops.forward", "FAILED sum float32 T(0, 3): result 0 at [0] is 1", "ops.forms ops.strides ")
DEFECT(in_order, "ops.strides", "FAILED neg float32 ", "ops.forward ops.forms ops.gradient ops.guard ")
DEFECT(beyond, "ops.guard", "writes outside result 0, at byte 24 from its first element (it has 24 bytes)",
       "ops.forward ops.forms ops.gradient ops.large ops.strides ")
DEFECT(mutates, "ops.guard", "input tensor 0 was written", "ops.forward ops.forms ops.gradient ops.meta ops.repeat ")
DEFECT(scratch, "ops.guard", "the kernel writes beyond its scratch memory",
       "ops.claims ops.forward ops.forms ops.gradient ops.large ops.strides ops.repeat ops.decline ")
DEFECT(late_decline, "ops.decline", "was written before the kernel declined", "")
DEFECT(unsteady, "ops.repeat", "has other bits in run 2", "")
DEFECT(in_place, "ops.forms", "tanh_ at [", "")
DEFECT(overlap, "ops.forms", "the input as target at [", "")
DEFECT(claims, "ops.dtypes", "FAILED exp float64: claimed, and no sample runs",
       "ops.claims ops.forward ops.meta ops.forms ops.gradient ops.large ")
DEFECT(declines, "ops.claims", "FAILED clone float32: claimed, and its kernel served none of", "")
DEFECT(missing, "ops.claims", "the last refusal: missing kernel: acme: exp of halves is not written yet", "ops.dtypes ")
DEFECT(block, "ops.large", "FAILED mm float32 large: ", "ops.strides ")
DEFECT(backward, "ops.gradient", "FAILED tanh float64 ", "ops.forward ops.forms ops.strides ")

/* Others of the CPU stand in front of it: they are switched off for the check. */
TN_TEST(check_ops_defects, provider) { expect("provider", "ops.large", "FAILED mm float32 large: ", "ops.strides "); }

/* ------------------------------------------------------------------ no false alarms */

static void expect_green(const char *file) {
  answer a = command("plugin '%s' --only 'ops.*'", file);
  if (a.exit_status != 0 || !strstr(a.text, " 0 failed"))
    tn_test_fail(__FILE__, __LINE__, "%s: exit status %d:\n%s", file, a.exit_status, a.text);
  command_free(&a);
}

TN_TEST(check_ops_reference, nothing_is_found_on_right_kernels) { expect_green(TN_CHECK_PLUGIN_DIR "/kernels.so"); }
TN_TEST(check_ops_reference, nothing_is_found_on_the_structural_reference) {
  expect_green(TN_CHECK_PLUGIN_DIR "/reference.so");
}
TN_TEST(check_ops_reference, nothing_is_found_on_the_cpu) { expect_green(TN_TEST_PLUGIN_DIR "/backend-cpu.so"); }

TN_TEST(check_ops_reference, nothing_is_found_on_the_providers) {
  static const char *const files[] = {TN_TEST_PLUGIN_DIR "/openblas.so", TN_TEST_PLUGIN_DIR "/onednn.so"};
  for (int i = 0; i < 2; i++)
    if (access(files[i], R_OK) == 0) expect_green(files[i]);
}

/* A check that tries nothing would pass as well. */
TN_TEST(check_ops_reference, each_check_tries_something) {
  answer a = command("plugin %s --only 'ops.*'", plugin_file("kernels"));
  TN_CHECK_INT(a.exit_status, 0);
  static const char *const checks[] = {"ops.forward", "ops.meta",   "ops.dtypes", "ops.claims", "ops.forms",
                                       "ops.gradient", "ops.strides", "ops.guard", "ops.repeat", "ops.large"};
  for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
    const char *line = strstr(a.text, checks[i]);
    long passed = 0;
    if (!line || sscanf(line, "%*s ok %ld passed", &passed) != 1 || passed < 5)
      tn_test_fail(__FILE__, __LINE__, "%s passed %ld:\n%s", checks[i], passed, a.text);
  }
  command_free(&a);
}

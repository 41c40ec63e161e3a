/* SPDX-License-Identifier: Apache-2.0
 *
 * No false alarms: nothing is found on plugins that are right. And what kills a process is a finding with a name, never
 * the end of the report.
 */
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "tn_test.h"

/* options: after the file's name. */
static void expect_green_with(const char *file, const char *options) {
  answer a = command("plugin '%s' %s", file, options);
  if (a.exit_status != 0 || !strstr(a.text, " 0 failed"))
    tn_test_fail(__FILE__, __LINE__, "%s: exit status %d:\n%s", file, a.exit_status, a.text);
  command_free(&a);
}

static void expect_green(const char *file) { expect_green_with(file, "--only '[!o]*'"); }

TN_TEST(check_reference, nothing_is_found_on_the_reference) {
  expect_green(TN_CHECK_PLUGIN_DIR "/reference.so");
}
/* The same backend with its device bound to a process: what it declares for children is what it needs. */
TN_TEST(check_reference, nothing_is_found_on_what_forks_otherwise) {
  expect_green(TN_CHECK_PLUGIN_DIR "/reinit.so");
  expect_green(TN_CHECK_PLUGIN_DIR "/poisoned.so");
}
TN_TEST(check_reference, nothing_is_found_on_a_layer) { expect_green(TN_CHECK_PLUGIN_DIR "/layer.so"); }
TN_TEST(check_reference, nothing_is_found_on_the_cpu) { expect_green(TN_TEST_PLUGIN_DIR "/backend-cpu.so"); }

TN_TEST(check_reference, nothing_is_found_on_the_providers) {
  static const char *const files[] = {TN_TEST_PLUGIN_DIR "/openblas.so", TN_TEST_PLUGIN_DIR "/onednn.so"};
  for (int i = 0; i < 2; i++)
    if (access(files[i], R_OK) == 0) expect_green(files[i]);
}

TN_TEST(check_reference, nothing_is_found_on_the_example_layers) {
  expect_green_with(TN_CHECK_EXAMPLES_DIR "/nan_finder.so",
                    "--expected '" TN_TEST_SOURCE_DIR "/examples/layer-nan-finder/nan_finder.expected'");
  expect_green_with(TN_CHECK_EXAMPLES_DIR "/call_log.so", "");
}

/* What the layer is for is a failure where there was none, and only with the file it is no finding. */
TN_TEST(check_reference, the_nan_finder_changes_one_call) {
  answer a = command("plugin '%s/nan_finder.so' --only layer.through", TN_CHECK_EXAMPLES_DIR);
  TN_CHECK_INT(a.exit_status, 1);
  TN_CHECK_CONTAINS(a.text, ", 1 failed, ");
  TN_CHECK_CONTAINS(a.text, "FAILED nan_finder _scaled_dot_product_attention: ");
  command_free(&a);
}

TN_TEST(check_reference, nothing_is_found_on_the_example_operators) {
  expect_green_with(TN_CHECK_EXAMPLES_DIR "/row_softmax.so", "");
}

/* Structure only: each operator is compiled for the device first. Without a device its checks are skipped. */
TN_TEST(check_reference, nothing_is_found_on_opencl) {
  static const char file[] = TN_TEST_PLUGIN_DIR "/opencl.so";
#if defined(__SANITIZE_ADDRESS__) /* what PoCL leaks would be found */
  return;
#endif
  if (access(file, R_OK) == 0)
    expect_green_with(file,
                      "--only 'abi.*,manifest.*,load.*,memory.*,streams.*,events.*,unload.*,coexist.*'");
}

TN_TEST(check_reference, a_crash_is_a_finding_of_each_check_that_meets_it) {
  answer a = command("plugin %s --only 'abi.door,memory.*'", plugin_file("crashes"));
  TN_CHECK_INT(a.exit_status, 1);
  TN_CHECK(check_failed(&a, "memory.alloc") && check_failed(&a, "memory.copies") &&
           !check_failed(&a, "abi.door"));
  TN_CHECK_CONTAINS(a.text, "FAILED acme:0 1 bytes: ");
  command_free(&a);
}

TN_TEST(check_reference, an_exit_inside_the_plugin_is_a_finding) {
  answer a = command("plugin %s --only memory.alloc", plugin_file("exits"));
  TN_CHECK_INT(a.exit_status, 1);
  TN_CHECK_CONTAINS(a.text, "ended with exit status 0 at 'acme:0 1 bytes'");
  command_free(&a);
}

TN_TEST(check_reference, what_is_no_plugin_is_said_in_words) {
  answer a = command("plugin '%s/../../../lib/libtenon.so'", TN_CHECK_PLUGIN_DIR);
  TN_CHECK_INT(a.exit_status, 1);
  TN_CHECK_CONTAINS(a.text, "no Tenon manifest note");
  command_free(&a);
  a = command("plugin /nowhere.so");
  TN_CHECK_INT(a.exit_status, 2);
  TN_CHECK_CONTAINS(a.text, "No such file");
  command_free(&a);
}

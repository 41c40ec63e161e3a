/* SPDX-License-Identifier: Apache-2.0
 *
 * Expected failures, drift, and the options of the command.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "tn_test.h"

/* Tests may run at the same time. */
static const char *file_path(void) {
  static char path[600];
  snprintf(path, sizeof path, "%s/known-%ld.expected", TN_CHECK_WORK_DIR, (long)getpid());
  return path;
}

static answer with_lines(const char *plugin, const char *lines) {
  FILE *file = fopen(file_path(), "w");
  TN_CHECK(file && fputs(lines, file) >= 0 && fclose(file) == 0);
  answer a = command("plugin %s --only 'memory.alloc,memory.copies' --expected '%s'", plugin_file(plugin),
                     file_path());
  unlink(file_path());
  return a;
}

TN_TEST(check_expected, what_is_expected_to_fail_fails_nothing) {
  answer a = with_lines("oom_code", "# known\n\nmemory.alloc  acme:? more than*  # the driver says so\n");
  TN_CHECK_INT(a.exit_status, 0);
  TN_CHECK_CONTAINS(a.text, "(expected: the driver says so)");
  TN_CHECK_CONTAINS(a.text, "acme: ");
  TN_CHECK_CONTAINS(a.text, " 0 failed, 2 expected failures, ");
  command_free(&a);
}

TN_TEST(check_expected, a_line_whose_items_pass_is_drift) {
  answer a = with_lines("reference", "memory.alloc acme:1 more than*  # once\n");
  TN_CHECK_INT(a.exit_status, 1);
  TN_CHECK_CONTAINS(a.text, "expected.drift");
  TN_CHECK_CONTAINS(a.text, "passes now: remove line 1 of ");
  command_free(&a);
}

TN_TEST(check_expected, a_line_that_does_not_apply_is_no_drift) {
  answer a =
      with_lines("reference",
                 "ops.forward add.Tensor*  # not asked for here\nmemory.alloc other:0 *  # no such device\n");
  TN_CHECK_INT(a.exit_status, 0);
  command_free(&a);
}

TN_TEST(check_expected, a_line_without_a_reason_is_refused) {
  answer a = with_lines("reference", "memory.alloc acme:0 64 bytes\n");
  TN_CHECK_INT(a.exit_status, 2);
  TN_CHECK_CONTAINS(a.text, "line 1: expected CHECK ITEM  # why");
  command_free(&a);
}

TN_TEST(check_expected, the_file_beside_the_plugin_is_read) {
  const char *link = TN_CHECK_WORK_DIR "/beside.so", *file = TN_CHECK_WORK_DIR "/beside.expected";
  char line[1500];
  snprintf(line, sizeof line, "cp -f %s '%s' && echo 'memory.* acme:* more than*  # known' > '%s'",
           plugin_file("oom_code"), link, file);
  TN_CHECK_INT(system(line), 0);
  answer a = command("plugin '%s' --only memory.alloc", link);
  TN_CHECK_INT(a.exit_status, 0);
  TN_CHECK_CONTAINS(a.text, "beside.expected");
  command_free(&a);
  unlink(link);
  unlink(file);
}

TN_TEST(check_expected, the_list_names_every_check) {
  answer a = command("plugin --list");
  TN_CHECK_INT(a.exit_status, 0);
  TN_CHECK_CONTAINS(a.text, "abi.door");
  TN_CHECK_CONTAINS(a.text, "autograd.train");
  command_free(&a);
  a = command("plugin --list '%s/onednn.so' --only 'memory.*,abi.*'", TN_TEST_PLUGIN_DIR);
  if (access(TN_TEST_PLUGIN_DIR "/onednn.so", R_OK) == 0) TN_CHECK(!strstr(a.text, "memory.alloc"));
  command_free(&a);
}

TN_TEST(check_expected, wrong_usage_says_what_was_expected) {
  static const char *const lines[][2] = {{"", "plugin FILE.so or op NAME was expected"},
                                         {"plugin", "FILE.so was expected"},
                                         {"plugin --colour x.so", "unknown option --colour"},
                                         {"plugin --only", "a value is missing after --only"},
                                         {"plugin a.so b.so", "one argument too many: b.so"},
                                         {"everything", "'everything' cannot be checked"}};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    answer a = command("%s", lines[i][0]);
    TN_CHECK_INT(a.exit_status, 2);
    TN_CHECK_CONTAINS(a.text, lines[i][1]);
    command_free(&a);
  }
  answer a = command("plugin %s --only nothing.*", plugin_file("reference"));
  TN_CHECK_INT(a.exit_status, 2);
  TN_CHECK_CONTAINS(a.text, "no check has the name nothing.*");
  command_free(&a);
}

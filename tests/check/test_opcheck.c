/* SPDX-License-Identifier: Apache-2.0
 *
 * opcheck: operators of a plugin that breaks its word in one way, and `tenon check op`.
 */
#include <string.h>

#include "command.h"
#include "tn_test.h"

static void expect(const char *plugin, const char *words) {
  answer a = command("plugin %s --only ops.opcheck", plugin_file(plugin));
  if (a.exit_status != 1 || !check_failed(&a, "ops.opcheck") || !strstr(a.text, words))
    tn_test_fail(__FILE__, __LINE__, "%s: expected \"%s\"; exit status %d:\n%s", plugin, words, a.exit_status, a.text);
  command_free(&a);
}

#define DEFECT(defect, words) \
  TN_TEST(check_opcheck, defect) { expect("operators_" #defect, words); }

DEFECT(meta, "acme::scaled float64 default: meta: result 0 is float64")
DEFECT(alias, "acme::scaled float32 by 1: aliases: result 0 shares the memory of argument 'self'")
DEFECT(writes, "acme::cubed float32 matrix: arguments: argument 'self' was written")
DEFECT(silent, "acme::cubed float64 matrix: history: an argument requires grad and result 0 does not")
DEFECT(gradient, "acme::scaled float64 default: gradient: ")
DEFECT(second, "acme::scaled float64 default: second gradient: ")
DEFECT(version, "acme::twice_ float32 matrix: arguments: the version of the written argument 'self' moved by 2")
DEFECT(samples, "acme::sign matrix by 3: the sample runs for none")

TN_TEST(check_opcheck, nothing_is_found_on_operators_that_keep_their_word) {
  answer a = command("plugin %s --only ops.opcheck", plugin_file("operators"));
  if (a.exit_status != 0) tn_test_fail(__FILE__, __LINE__, "exit status %d:\n%s", a.exit_status, a.text);
  TN_CHECK_CONTAINS(a.text, "acme::plain samples: nobody gave samples");
  command_free(&a);
}

TN_TEST(check_opcheck, an_operator_by_name) {
  answer a = command("op mul.Tensor");
  TN_CHECK_INT(a.exit_status, 0);
  TN_CHECK_CONTAINS(a.text, "mul.Tensor on cpu: ");
  command_free(&a);
  a = command("op add_.Tensor");
  TN_CHECK_INT(a.exit_status, 0);
  TN_CHECK_CONTAINS(a.text, "a form of add.Tensor, which is looked at");
  command_free(&a);
}

TN_TEST(check_opcheck, an_operator_of_a_plugin_that_is_not_installed) {
  answer a = command("op acme::scaled --plugin %s", plugin_file("operators"));
  TN_CHECK_INT(a.exit_status, 0);
  command_free(&a);
  a = command("op acme::scaled --plugin %s", plugin_file("operators_gradient"));
  TN_CHECK_INT(a.exit_status, 1);
  TN_CHECK_CONTAINS(a.text, "acme::scaled on cpu: ");
  command_free(&a);
  a = command("op mul.Tensor --device acme --plugin %s", plugin_file("kernels"));
  TN_CHECK_INT(a.exit_status, 0);
  command_free(&a);
}

TN_TEST(check_opcheck, what_is_not_there_is_said_in_words) {
  answer a = command("op acme::nowhere");
  TN_CHECK_INT(a.exit_status, 1);
  TN_CHECK_CONTAINS(a.text, "acme::nowhere");
  command_free(&a);
  a = command("op");
  TN_CHECK_INT(a.exit_status, 2);
  TN_CHECK_CONTAINS(a.text, "NAME was expected");
  command_free(&a);
  a = command("op mul.Tensor --device nowhere");
  TN_CHECK_INT(a.exit_status, 1);
  command_free(&a);
}

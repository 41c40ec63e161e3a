/* SPDX-License-Identifier: Apache-2.0
 *
 * TENON_FALLBACK and the command line's last line, as a user meets them: "attic" has no kernel and lets the CPU stand in,
 * "forty" has the kernels of these commands and does not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tn_test.h"

/* Both streams of three additions on a device, under a word. *out_status: the exit status. Owned. */
static char *additions(const char *word, const char *device, int *out_status) {
  char line[1024], *text = calloc(1, 8192);
  snprintf(line, sizeof line, "TENON_FALLBACK='%s' '%s' bench --loop add_1_nograd 3 --device %s 2>&1", word,
           TN_TEST_CLI, device);
  FILE *pipe = popen(line, "r");
  TN_CHECK_NOT_NULL(pipe);
  TN_CHECK_NOT_NULL(text);
  text[fread(text, 1, 8191, pipe)] = 0;
  *out_status = pclose(pipe);
  return text;
}

static size_t times(const char *text, const char *words) {
  size_t n = 0;
  for (const char *at = text; (at = strstr(at, words)); at += strlen(words)) n++;
  return n;
}

/* Every bad item of a list is named with what is wrong with it, and the others hold. */
TN_TEST(fallback_word, bad_items_are_named_and_passed_over) {
  static const struct {
    const char *word, *says;
  } bad[] = {{"perhaps", "\"perhaps\" is not understood and is passed over"},
             {"add.Tensor=maybe", "\"add.Tensor=maybe\" is not understood"},
             {"=warn", "\"=warn\" is not understood"},
             {"addition=warn", "\"addition\" is neither an operator nor a device of any plugin"},
             {"addition@attic=warn", "\"addition\" is no operator"},
             {"add.Tensor@cellar=warn", "\"cellar\" is no device of any plugin"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char list[256];
    int status;
    snprintf(list, sizeof list, "%s,add.Tensor@attic=error,%s", bad[i].word, bad[i].word);
    char *text = additions(list, "attic", &status);
    TN_CHECK_CONTAINS(text, bad[i].says);
    TN_CHECK_CONTAINS(text, "expected error, warn, allow or whole, alone or after NAME=");
    TN_CHECK_INT(times(text, "is passed over"), 2);
    TN_CHECK(status != 0);
    TN_CHECK_CONTAINS(text, "tenon: add.Tensor: no kernel for attic serves add.Tensor of float32");
    free(text);
  }
}

TN_TEST(fallback_word, warn_says_it_once_for_each_operator) {
  int status;
  char *text = additions("warn", "attic", &status);
  TN_CHECK_INT(status, 0);
  TN_CHECK_INT(times(text, "warning: attic has no kernel for add.Tensor: it runs on the CPU"), 1);
  TN_CHECK_INT(times(text, "warning: attic has no kernel for fill_.Scalar: it runs on the CPU"), 1);
  TN_CHECK_INT(times(text, "warning"), 2);
  free(text);
}

TN_TEST(fallback_line, ends_a_command_in_which_the_cpu_stood_in) {
  static const char line[] =
      "tenon: attic: 2 operators ran on the CPU 5 times, 0.0 MB moved: add.Tensor 3 times, 0.0 MB; "
      "fill_.Scalar 2 times, 0.0 MB\n";
  int status;
  char *text = additions("", "attic", &status);
  TN_CHECK_INT(status, 0);
  TN_CHECK_STR(text, line); /* nothing else: it is allowed, so nobody warns */
  free(text);
  text = additions("add.Tensor=error", "attic", &status); /* a command that fails ends with it, too */
  TN_CHECK(status != 0);
  TN_CHECK_CONTAINS(
      text, "tenon: attic: 1 operator ran on the CPU 2 times, 0.0 MB moved: fill_.Scalar 2 times, 0.0 MB\n");
  free(text);
}

TN_TEST(fallback_line, is_not_there_where_nothing_ran_on_the_cpu) {
  static const char *const devices[] = {"cpu", "forty"};
  for (int i = 0; i < 2; i++) {
    int status;
    char *text = additions("allow", devices[i], &status);
    TN_CHECK_INT(status, 0);
    TN_CHECK_STR(text, "");
    free(text);
  }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the user may decide about plugins, and which files are trusted: lists, safe mode, pins, roots.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "tn_test.h"

static void expect(const char *path, const char *settings, const char *commands, const char *words) {
  char *answer = probe(path, settings, commands);
  TN_CHECK_CONTAINS(answer, words);
  free(answer);
}

TN_TEST(policy, lists_allow_and_switch_off_by_glob) {
  folder f = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "operators");
  folder_add(&f, "no_hardware");
  char *answer = probe(f.path, "TENON_PLUGINS='allow:t*,cpu off:no-*'", "plugins add toy add cpu");
  TN_CHECK_CONTAINS(answer, "[toy] loadable: ");
  TN_CHECK_CONTAINS(answer, "[operators] rejected: not among those that TENON_PLUGINS allows");
  TN_CHECK_CONTAINS(answer, "[no-hardware] rejected: switched off by TENON_PLUGINS (off:)");
  TN_CHECK_CONTAINS(answer, "add toy: 11 22 33");
  TN_CHECK_CONTAINS(answer, "add cpu: 11 22 33");
  free(answer);
  expect(f.path, "TENON_PLUGINS='off:t?y'", "open toy", "is rejected: switched off by TENON_PLUGINS (off:)");
  folder_remove(&f);
}

TN_TEST(policy, what_is_required_is_raised_at_the_first_device) {
  folder f = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "half_init");
  char *answer = probe(f.path, "TENON_PLUGINS=require:half-init", "plugins open cpu open cpu");
  TN_CHECK_CONTAINS(answer, "[half-init] loadable: ");
  const char *first = strstr(answer, "cpu: error 8: TENON_PLUGINS requires half-init: plugin half-init (");
  TN_CHECK_NOT_NULL(first);
  TN_CHECK_CONTAINS(first + 1, "cpu: error 8: TENON_PLUGINS requires half-init: plugin half-init (");
  TN_CHECK_CONTAINS(answer, "is failed: init failed: the driver answered 42");
  free(answer);
  expect(f.path, "TENON_PLUGINS=require:nobody", "add cpu",
         "TENON_PLUGINS requires nobody, and no plugin of that name was found");
  expect(f.path, "TENON_PLUGINS=require:t*", "plugins add cpu plugins", "[toy] ready: ");
  folder_remove(&f);
}

TN_TEST(policy, safe_mode_uses_what_stands_beside_the_library_and_no_layer) {
  folder f = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "spy");
  char *answer = probe(f.path, "TENON_SAFE_MODE=1", "plugins open toy add cpu");
  TN_CHECK_CONTAINS(answer, "rejected: search root skipped: TENON_SAFE_MODE uses the folder beside libtenon only");
  TN_CHECK_CONTAINS(answer, "no plugin offers a device toy");
  TN_CHECK_CONTAINS(answer, "add cpu: 11 22 33");
  free(answer);
  expect(f.path, "TENON_SAFE_MODE=0", "add toy", "add toy: 11 22 33");
  folder_remove(&f);
}

/* ------------------------------------------------------------------ trust */

static void pin(const folder *f, const char *names) {
  shell("cd '%s' && sha256sum %s > plugins.sha256", f->path, names);
}

TN_TEST(policy, a_changed_byte_under_a_pin_is_refused) {
  folder f = folder_make(), g = folder_make();
  folder_add_copy(&f, "toy", "toy.so", 0, -1, 0);
  folder_add_copy(&f, "rival", "rival.so", 0, -1, 0);
  pin(&f, "toy.so");
  char *answer = probe(f.path, "", "plugins add toy plugins");
  TN_CHECK_CONTAINS(answer, "[rival.so] rejected: ");
  TN_CHECK_CONTAINS(answer, "plugins.sha256 does not list it; files of a root with pins must be listed");
  TN_CHECK_CONTAINS(answer, "add toy: 11 22 33");
  free(answer);
  folder_add_copy(&f, "toy", "toy.so", 0, 9, 7);
  answer = probe(f.path, "", "open toy");
  TN_CHECK_CONTAINS(answer, "is failed: its SHA-256 is ");
  TN_CHECK_CONTAINS(answer, ": the file was changed");
  free(answer);
  folder_add_bytes(&f, "plugins.sha256", "rubbish\n", 8);
  expect(f.path, "", "plugins", "rejected: search root skipped: ");
  expect(f.path, "", "plugins", "plugins.sha256, line 1: expected 64 hex digits, two blanks and a name");
  folder_remove(&f);
  folder_remove(&g);
}

TN_TEST(policy, the_users_pins_hold_for_all_listed_roots) {
  folder f = folder_make(), g = folder_make();
  char settings[700];
  folder_add(&f, "toy");
  folder_add(&f, "rival");
  shell("sha256sum '%s/toy.so' > '%s/pins'", f.path, g.path);
  snprintf(settings, sizeof settings, "TENON_PLUGIN_PINS='%s/pins'", g.path);
  char *answer = probe(f.path, settings, "plugins add toy add cpu");
  TN_CHECK_CONTAINS(answer, "[rival.so] rejected: ");
  TN_CHECK_CONTAINS(answer, "add toy: 11 22 33");
  TN_CHECK_CONTAINS(answer, "add cpu: 11 22 33");
  free(answer);
  expect(f.path, "TENON_PLUGIN_PINS=/no/such/file", "plugins", "[toy.so] rejected: /no/such/file does not list it");
  folder_remove(&f);
  folder_remove(&g);
}

TN_TEST(policy, a_decoy_in_the_working_directory_is_not_seen) {
  folder f = folder_make();
  folder_add(&f, "toy");
  char settings[700];
  snprintf(settings, sizeof settings, "env -C '%s' LD_LIBRARY_PATH=", f.path);
  char *answer = probe("", settings, "plugins open toy");
  TN_CHECK_PTR_NULL(strstr(answer, "toy.so"));
  TN_CHECK_CONTAINS(answer, "no plugin offers a device toy");
  free(answer);
  folder_remove(&f);
}

/* A program that runs with another user's rights listens to nothing that the caller wrote into its environment. */
TN_TEST(policy, a_set_uid_program_ignores_the_environment) {
#ifdef __SANITIZE_ADDRESS__
  return; /* the search for leaks dies where it may not trace */
#endif
  if (geteuid() != 0) return; /* making one needs root */
  folder f = folder_make();
  folder_add(&f, "toy");
  shell("cp '%s' '%s/suid' && chown nobody '%s/suid' && chmod 4755 '%s/suid' && chmod 755 '%s' && cd '%s' && "
           "TENON_PLUGIN_PATH='%s' TENON_PLUGINS=off:* ./suid open toy > out 2>&1 || true",
           TN_LOAD_PROBE_STATIC, f.path, f.path, f.path, f.path, f.path, f.path);
  char path[700], text[4000] = "";
  snprintf(path, sizeof path, "%s/out", f.path);
  FILE *out = fopen(path, "r");
  TN_CHECK_NOT_NULL(out);
  text[fread(text, 1, sizeof text - 1, out)] = 0;
  fclose(out);
  /* A file system mounted nosuid runs it with our own rights. */
  if (!strstr(text, "toy: open as toy")) TN_CHECK_CONTAINS(text, "no plugin offers a device toy (0 plugins were found");
  folder_remove(&f);
}

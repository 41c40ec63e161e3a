/* SPDX-License-Identifier: Apache-2.0
 *
 * Where plugins come from, who gets a name, what the user may decide, and what a good plugin can do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "tn_test.h"

TN_TEST(load, toy_backend_computes) {
  folder f = folder_make();
  folder_add(&f, "toy");
  char *answer = probe(f.path, "", "plugins devices open toy:1 open toy:2 add toy devices");
  TN_CHECK_CONTAINS(answer, "[toy] loadable: \n");
  TN_CHECK_CONTAINS(answer, "toy [toy] loadable: \n");
  TN_CHECK_CONTAINS(answer, "toy:1: open as toy:1");
  TN_CHECK_CONTAINS(answer,
                    "toy:2: error 8: device toy:2: there are 2 devices of this kind, the last is toy:1");
  TN_CHECK_CONTAINS(answer, "add toy: 11 22 33");
  TN_CHECK_CONTAINS(answer, "toy:0 [toy] ready: the first toy");
  TN_CHECK_CONTAINS(answer, "toy:1 [toy] ready: the second toy");
  free(answer);
  folder_remove(&f);
}

TN_TEST(load, relative_and_missing_roots_are_reported) {
  char *answer = probe("somewhere/below:/no/such/folder", "", "plugins");
  TN_CHECK_CONTAINS(answer, "[somewhere/below] rejected: search root skipped: the path is relative");
  TN_CHECK_CONTAINS(answer, "[/no/such/folder] rejected: search root skipped: No such file or directory");
  free(answer);
}

TN_TEST(load, a_root_that_others_may_write_is_refused) {
  folder f = folder_make();
  folder_add(&f, "toy");
  TN_CHECK_INT(chmod(f.path, 0777), 0);
  char *answer = probe(f.path, "", "plugins open toy");
  TN_CHECK_CONTAINS(answer, "is writable by others (mode 777)");
  TN_CHECK_CONTAINS(answer, "no plugin offers a device toy");
  free(answer);
  TN_CHECK_INT(chmod(f.path, 01777), 0);
  answer = probe(f.path, "", "open toy");
  TN_CHECK_CONTAINS(answer, "toy: open as toy");
  free(answer);
  folder_remove(&f);
}

/* The root is safe; what lies in it is another's to write. */
TN_TEST(load, a_file_that_others_may_write_is_refused) {
  folder f = folder_make(), open_to_all = folder_make();
  char path[600];
  folder_add_copy(&f, "toy", "toy.so", 0, -1, 0);
  folder_add_copy(&open_to_all, "rival", "rival.so", 0, -1, 0);
  snprintf(path, sizeof path, "%s/toy.so", f.path);
  TN_CHECK_INT(chmod(path, 01666), 0);
  TN_CHECK_INT(chmod(open_to_all.path, 0777), 0);
  shell("ln -s '%s/rival.so' '%s/rival.so'", open_to_all.path, f.path);
  char *answer = probe(f.path, "", "plugins open toy");
  TN_CHECK_CONTAINS(answer, "toy.so is writable by others (mode 1666)");
  TN_CHECK_CONTAINS(answer, "is a link to ");
  TN_CHECK_CONTAINS(answer, "is writable by others (mode 777)");
  TN_CHECK_CONTAINS(answer, "no plugin offers a device toy");
  free(answer);
  folder_remove(&open_to_all);
  folder_remove(&f);
}

/* In a folder for everybody, as /tmp is, each file is its owner's. */
TN_TEST(load, a_file_of_another_user_is_refused) {
  if (geteuid() != 0) return; /* nobody else may give files away */
  folder f = folder_make();
  folder_add_copy(&f, "toy", "toy.so", 0, -1, 0);
  folder_add(&f, "rival");
  shell("chmod 1777 '%s' && chown nobody '%s/toy.so' && chown -h nobody '%s/rival.so'", f.path, f.path, f.path);
  char *answer = probe(f.path, "", "plugins open toy");
  TN_CHECK_CONTAINS(answer, "toy.so belongs to user");
  TN_CHECK_CONTAINS(answer, "rival.so belongs to user");
  TN_CHECK_CONTAINS(answer, "no plugin offers a device toy");
  free(answer);
  folder_remove(&f);
}

TN_TEST(load, the_same_root_twice_lists_once) {
  folder f = folder_make();
  folder_add(&f, "toy");
  char both[1200];
  snprintf(both, sizeof both, "%s:%s/", f.path, f.path);
  char *answer = probe(both, "", "plugins");
  const char *first = strstr(answer, "[toy]");
  TN_CHECK_NOT_NULL(first);
  TN_CHECK_PTR_NULL(strstr(first + 1, "[toy]"));
  free(answer);
  folder_remove(&f);
}

TN_TEST(load, a_name_belongs_to_the_first_root) {
  folder one = folder_make(), two = folder_make();
  folder_add(&one, "toy");
  folder_add(&two, "twin");
  folder_add_copy(&two, "toy", "copy.so", 0, -1, 0);
  char roots[1200];
  snprintf(roots, sizeof roots, "%s:%s", one.path, two.path);
  char *answer = probe(roots, "", "plugins add toy");
  TN_CHECK_CONTAINS(answer, "copy.so [toy] rejected: plugin name toy is taken by ");
  TN_CHECK_CONTAINS(answer, "[twin] rejected: device name toy is taken by ");
  TN_CHECK_CONTAINS(answer, "add toy: 11 22 33");
  free(answer);
  folder_remove(&one);
  folder_remove(&two);
}

TN_TEST(load, the_user_switches_a_plugin_off) {
  folder f = folder_make();
  folder_add(&f, "toy");
  char *answer = probe(f.path, "TENON_PROVIDERS=other:off,toy:off", "open toy");
  TN_CHECK_CONTAINS(answer, "toy: error 8: device toy: plugin toy (");
  TN_CHECK_CONTAINS(answer, "is rejected: switched off by TENON_PROVIDERS");
  free(answer);
  folder_remove(&f);
}

TN_TEST(load, privateuse1_is_an_alias) {
  folder f = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "no_hardware");
  char *answer = probe(f.path, "TENON_PLUGINS=off:opencl", "open privateuse1");
  TN_CHECK_CONTAINS(answer, "privateuse1: open as toy");
  free(answer);
  answer = probe(f.path, "TENON_PRIVATEUSE1=no-hardware", "open privateuse1");
  TN_CHECK_CONTAINS(answer, "plugin no-hardware (");
  free(answer);
  answer = probe(f.path, "TENON_PRIVATEUSE1=nobody", "open privateuse1");
  TN_CHECK_CONTAINS(answer, "TENON_PRIVATEUSE1 is nobody: no usable plugin of that name offers a device");
  free(answer);
  folder_remove(&f);
}

/* Nobody is taken by chance: not by order, nor because the other has no hardware here (rival has none). */
TN_TEST(load, privateuse1_of_two_claimants_is_the_users_choice) {
  static const char both[] = "privateuse1: error 7: both rival and toy ask for privateuse1: name one in TENON_PRIVATEUSE1";
  folder f = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "rival");
  char *answer = probe(f.path, "TENON_PLUGINS=off:opencl", "open privateuse1 open rival open privateuse1 add toy");
  const char *first = strstr(answer, both);
  TN_CHECK_NOT_NULL(first);
  TN_CHECK_CONTAINS(first + 1, both); /* also when one of them has been asked, and had no device */
  TN_CHECK_CONTAINS(answer, "add toy: 11 22 33");
  free(answer);
  answer = probe(f.path, "TENON_PLUGINS=off:opencl TENON_PRIVATEUSE1=toy", "open privateuse1:1 add privateuse1");
  TN_CHECK_CONTAINS(answer, "privateuse1:1: open as toy:1");
  TN_CHECK_CONTAINS(answer, "add privateuse1: 11 22 33");
  free(answer);
  answer = probe(f.path, "TENON_PRIVATEUSE1=rival", "open privateuse1");
  TN_CHECK_CONTAINS(answer, "privateuse1: error 8: device rival: plugin rival (");
  TN_CHECK_CONTAINS(answer, "no rival is plugged in");
  free(answer);
  answer = probe(f.path, "TENON_PLUGINS=off:opencl,rival", "open privateuse1");
  TN_CHECK_CONTAINS(answer, "privateuse1: open as toy");
  free(answer);
  folder_remove(&f);
}

/* The claimant that comes with Tenon. Its driver is taken away, so that the answer is the same on every machine. */
TN_TEST(load, privateuse1_is_opencls_or_another_vendors) {
  folder f = folder_make(), none = folder_make();
  char settings[700];
  folder_add(&f, "toy");
  char *answer = probe(f.path, "", "plugins");
  const bool there = strstr(answer, "[opencl] loadable") != NULL;
  free(answer);
  if (!there) printf("(not run: the OpenCL plugin is not built here) ");
  if (there) {
    answer = probe(f.path, "", "open privateuse1");
    TN_CHECK_CONTAINS(answer, "both toy and opencl ask for privateuse1: name one in TENON_PRIVATEUSE1");
    free(answer);
    answer = probe(f.path, "TENON_PRIVATEUSE1=toy", "add privateuse1");
    TN_CHECK_CONTAINS(answer, "add privateuse1: 11 22 33");
    free(answer);
    snprintf(settings, sizeof settings, "TENON_PRIVATEUSE1=opencl OCL_ICD_VENDORS='%s'", none.path);
    answer = probe(f.path, settings, "open privateuse1");
    TN_CHECK_CONTAINS(answer, "privateuse1: error 8: device opencl: plugin opencl (");
    free(answer);
  }
  folder_remove(&f);
  folder_remove(&none);
}

TN_TEST(load, a_plugin_adds_operators_and_providers) {
  folder f = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "operators");
  char *answer = probe(f.path, "", "twice toy why add.Tensor toy plugins");
  TN_CHECK_CONTAINS(answer, "twice toy: 2 4 6");
  TN_CHECK_CONTAINS(answer, "for float32: operators runs (priority 7");
  TN_CHECK_CONTAINS(answer, "for float32: toy is asked if those before it decline (priority 0");
  TN_CHECK_CONTAINS(
      answer, "[operators] ready: 2 kernels are not used, because this host lacks their operator, key or "
              "schema (first: an.operator_of_the_future)");
  free(answer);
  folder_remove(&f);
}

/* A second runtime in the process is named, whoever brought it; what a manifest declares and nobody knows, too. */
TN_TEST(load, a_thread_runtime_that_the_host_does_not_know_is_named) {
  folder f = folder_make();
  folder_add(&f, "foreign_runtime");
  shell("TENON_PLUGIN_PATH='%s' TENON_PROBE=off '%s' add cpu 2>&1 | grep -q 'foreign-runtime.*libfarthreads'", f.path,
        TN_LOAD_PROBE);
  folder_remove(&f);
}

TN_TEST(load, plugins_in_conflict_are_both_named) {
  folder f = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "rival");
  char *answer = probe(f.path, "", "add toy open rival");
  TN_CHECK_CONTAINS(answer, "rival: error 8: device rival: plugin rival (");
  TN_CHECK_CONTAINS(answer, "conflicts with plugin toy, which is open");
  free(answer);
  folder_remove(&f);
}

/* Our threads stay where the sanitizer could not see libgomp's. */
TN_TEST(load, regions_follow_the_thread_runtime_that_a_provider_declares) {
#ifdef __SANITIZE_THREAD__
  static const char *const after = "runtimes: parallel regions run on Tenon's own threads";
#else
  static const char *const after = "runtimes: parallel regions run on libgomp's threads";
#endif
  folder f = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "over_gomp");
  char *answer = probe(f.path, "", "runtimes add toy runtimes plugins");
  char *first = strstr(answer, "parallel regions run on"), *added = strstr(answer, "add toy: 11 22 33");
  TN_CHECK_NOT_NULL(first);
  TN_CHECK_NOT_NULL(added);
  TN_CHECK(strncmp(first, "parallel regions run on Tenon's own threads", 43) == 0);
  if (strstr(answer, "[over-gomp] ready"))
    TN_CHECK_CONTAINS(added, after);
  else
    TN_CHECK_CONTAINS(answer, "no libgomp is here");
  free(answer);
  folder_remove(&f);
}

TN_TEST(load, threads_wait_for_one_opening) {
  folder f = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "half_init");
  folder_add(&f, "operators");
  char *answer = probe(f.path, "", "threads toy plugins");
  TN_CHECK_CONTAINS(answer, "threads toy: 8 of 8");
  TN_CHECK_CONTAINS(answer, "[toy] ready: ");
  TN_CHECK_CONTAINS(answer, "[half-init] failed: ");
  free(answer);
  folder_remove(&f);
}

TN_TEST(load, nothing_runs_after_shutdown) {
  folder f = folder_make();
  folder_add(&f, "toy");
  char *answer = probe(f.path, "", "add toy shutdown open toy shutdown");
  TN_CHECK_CONTAINS(answer, "add toy: 11 22 33");
  TN_CHECK_CONTAINS(answer, "toy: error 12: tn_shutdown was called");
  free(answer);
  folder_remove(&f);
}

/* The system's loader tells of every file that it looks for. */
TN_TEST(load, threads_keep_their_streams_over_shutdown) {
  folder f = folder_make();
  folder_add(&f, "pulse");
  char *answer = probe(f.path, "", "stream pulse shutdown ask-stream");
  TN_CHECK_CONTAINS(answer, "stream pulse: the same");
  free(answer);
  folder_remove(&f);
}

TN_TEST(load, a_device_without_its_driver_costs_nothing_until_it_is_asked_for) {
  folder f = folder_make();
  char settings[700];
  folder_add(&f, "driver");
  snprintf(settings, sizeof settings, "LD_DEBUG=files,libs LD_DEBUG_OUTPUT='%s/trace'", f.path);
  char *answer = probe(f.path, settings, "plugins devices add cpu why add.Tensor cpu");
  TN_CHECK_CONTAINS(answer, "[driver] loadable: \n");
  TN_CHECK_CONTAINS(answer, "add cpu: 11 22 33");
  free(answer);
  shell("cd '%s' && grep -q 'backend-cpu' trace.* && ! grep -q -e driver.so -e libacmedriver trace.*", f.path);
  answer = probe(f.path, settings, "open driver");
  TN_CHECK_CONTAINS(answer, "is no hardware: no driver: libacmedriver.so.1: cannot open shared object file");
  free(answer);
  shell("cd '%s' && grep -q libacmedriver trace.*", f.path);
  folder_remove(&f);
}

/* The late plugin ends the process badly when a row is called after its own exit handler ran. */
TN_TEST(load, no_plugin_is_called_once_exit_has_begun) {
  /* What is freed at exit is dropped: no leak that counts. */
  static const char settings[] = "ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1";
  folder f = folder_make();
  folder_add(&f, "late");
  for (int i = 0; i < 2; ++i) {
    char *answer = probe(f.path, settings, "busy late");
    TN_CHECK_CONTAINS(answer, "busy late: 33");
    free(answer);
  }
  char *answer = probe(f.path, settings, "hold late");
  TN_CHECK_CONTAINS(answer, "the process is ending: add.Tensor cannot be called any more");
  TN_CHECK_CONTAINS(answer, "the process is ending: device late is not called any more");
  free(answer);
  answer = probe(f.path, settings, "busy late shutdown");
  TN_CHECK_CONTAINS(answer, "busy late: 33");
  free(answer);
  folder_remove(&f);
}

/* A chain of four providers, in every order of being opened. */
TN_TEST(load, the_chain_does_not_depend_on_who_was_opened_first) {
  folder f = folder_make();
  char *expected = NULL;
  static const char *const orders[] = {"open chain-a open chain-b open chain-c", "open chain-a open chain-c open chain-b",
                                       "open chain-b open chain-a open chain-c", "open chain-b open chain-c open chain-a",
                                       "open chain-c open chain-a open chain-b", "open chain-c open chain-b open chain-a"};
  folder_add(&f, "toy");
  folder_add(&f, "chain_a");
  folder_add(&f, "chain_b");
  folder_add(&f, "chain_c");
  for (size_t i = 0; i < sizeof orders / sizeof *orders; ++i) {
    char commands[200];
    snprintf(commands, sizeof commands, "%s add toy why add.Tensor toy", orders[i]);
    char *answer = probe(f.path, "", commands);
    char *chain = strdup(strstr(answer, "add toy: 11 22 33"));
    if (!expected) expected = strdup(chain);
    TN_CHECK_STR(chain, expected);
    free(chain);
    free(answer);
  }
  /* override before priority before name */
  const char *a = strstr(expected, "chain-a "), *b = strstr(expected, "chain-b "), *c = strstr(expected, "chain-c ");
  TN_CHECK(c && b && a && c < a && a < b && b < strstr(expected, ": toy "));
  free(expected);
  folder_remove(&f);
}

TN_TEST(load, unknown_devices_are_named) {
  char *answer = probe("", "", "open warp open meta open : open toy:x");
  TN_CHECK_CONTAINS(answer, "warp: error 7: no plugin offers a device warp");
  TN_CHECK_CONTAINS(answer, "meta: open as meta");
  TN_CHECK_CONTAINS(answer, "error 2: \":\" is no device name");
  TN_CHECK_CONTAINS(answer, "error 2: \"toy:x\": the index after ':' is a number from 0 to 32767");
  free(answer);
}

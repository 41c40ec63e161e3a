/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that would end or block the process is opened by a child first, quarantined with what happened, and
 * remembered until it changes or the user forgets it.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "tn_test.h"

static void expect(const folder *f, const folder *cache, const char *settings, const char *commands,
                   const char *words) {
  char *answer = probe_cached(f, cache, settings, commands);
  TN_CHECK_CONTAINS(answer, words);
  free(answer);
}

/* How many answers the cache holds; records have names of 64 letters. */
static int records(const folder *cache, char last[800]) {
  char path[600];
  int n = 0;
  snprintf(path, sizeof path, "%s/tenon/probe", cache->path);
  DIR *dir = opendir(path);
  for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
    if (strlen(e->d_name) != 64) continue;
    snprintf(last, 800, "%s/%s", path, e->d_name);
    ++n;
  }
  if (dir) closedir(dir);
  return n;
}

/* Replaces a line of a text file that begins with key. */
static void replace_line(const char *path, const char *key, const char *line) {
  shell("sed -i 's|^%s.*|%s|' '%s'", key, line, path);
}

TN_TEST(probe, deadly_plugins_are_quarantined_and_the_host_lives) {
  folder f = folder_make(), cache = folder_make();
  folder_add(&f, "segfaults");
  folder_add(&f, "aborts");
  folder_add(&f, "exits");
  folder_add(&f, "hangs");
  folder_add(&f, "toy");
  char *answer = probe_cached(&f, &cache, "", "open segfaults open aborts open exits add toy open cpu plugins");
  TN_CHECK_CONTAINS(answer, "segfaults: error 8: device segfaults: plugin segfaults (");
  TN_CHECK_CONTAINS(answer, "is quarantined: a child process that opened it was killed by signal 11 (Segmentation "
                            "fault) in init; holds until");
  TN_CHECK_CONTAINS(answer, "[aborts] quarantined: a child process that opened it was killed by signal 6 (Aborted) in "
                            "mapping; holds until the file or a library of it changes, or `tenon plugins --clear "
                            "aborts`");
  TN_CHECK_CONTAINS(answer, "[exits] quarantined: it ended a child process that opened it with exit status 0 in init");
  TN_CHECK_CONTAINS(answer, "add toy: 11 22 33");
  TN_CHECK_CONTAINS(answer, "cpu: open as cpu");
  free(answer);
  answer = probe_cached(&f, &cache, "TENON_PROBE_MS=1500", "open hangs plugins");
  TN_CHECK_CONTAINS(answer, "[hangs] quarantined: a child process that opened it was not done with init after 1500 ms");
  free(answer);
  shell("grep -l '^verdict quarantined' '%s'/tenon/probe/[0-9a-f]* | xargs grep -L '^library /\\|^library [0-9]' | { ! grep .; }",
        cache.path); /* also of those that were stopped: a new library ends it */
  folder_remove(&f);
  folder_remove(&cache);
}

TN_TEST(probe, nothing_is_probed_before_somebody_asks_for_it) {
  folder f = folder_make(), cache = folder_make();
  char record[800];
  folder_add(&f, "segfaults");
  folder_add(&f, "hangs");
  expect(&f, &cache, "", "plugins devices add cpu plugins", "add cpu: 11 22 33");
  TN_CHECK_INT(records(&cache, record), 0);
  expect(&f, &cache, "", "plugins open segfaults open segfaults", "killed by signal 11");
  TN_CHECK_INT(records(&cache, record), 1);
  folder_remove(&f);
  folder_remove(&cache);
}

/* The second process shows the quarantine before anybody asks, and asks no child: with no time for one it would say so. */
TN_TEST(probe, a_second_process_remembers) {
  folder f = folder_make(), cache = folder_make();
  char record[800];
  folder_add(&f, "segfaults");
  folder_add(&f, "toy");
  expect(&f, &cache, "", "open segfaults add toy plugins", "[segfaults] quarantined: ");
  TN_CHECK_INT(records(&cache, record), 2);
  char *answer = probe_cached(&f, &cache, "TENON_PROBE_MS=1", "plugins devices open segfaults add toy");
  TN_CHECK_CONTAINS(answer, "[segfaults] quarantined: a child process that opened it was killed by signal 11");
  TN_CHECK_CONTAINS(answer, "segfaults [segfaults] quarantined: a child");
  TN_CHECK_CONTAINS(answer, "[toy] loadable: \n");
  TN_CHECK_CONTAINS(answer, "add toy: 11 22 33");
  free(answer);
  struct stat st;
  char path[700];
  snprintf(path, sizeof path, "%s/tenon/probe", cache.path);
  TN_CHECK_INT(stat(path, &st), 0);
  TN_CHECK_INT(st.st_mode & 0777, 0700);
  folder_remove(&f);
  folder_remove(&cache);
}

TN_TEST(probe, an_answer_ends_with_time_content_libraries_and_the_host) {
  folder f = folder_make(), cache = folder_make();
  char record[800];
  folder_add(&f, "toy");
  static const struct {
    const char *key, *line;
  } changes[] = {{"when", "when 86400"},
                 {"when", "when 99999999999"},
                 {"host", "host 0.0.9 1.2"},
                 {"library", "library 1 2 3 4.000000005 /gone/libfar.so"},
                 {"environment", "environment 0"},
                 {"end", "en"}};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; ++i) {
    expect(&f, &cache, "", "add toy", "add toy: 11 22 33");
    TN_CHECK_INT(records(&cache, record), 1);
    expect(&f, &cache, "TENON_PROBE_MS=1", "add toy", "add toy: 11 22 33");
    replace_line(record, changes[i].key, changes[i].line);
    /* A child that gets no time quarantines: it was asked again. */
    replace_line(record, "verdict", "verdict quarantined");
    expect(&f, &cache, "", "add toy", "add toy: 11 22 33");
  }
  TN_CHECK_INT(records(&cache, record), 1);
  replace_line(record, "verdict", "verdict rea"); /* damaged: no answer */
  expect(&f, &cache, "", "add toy", "add toy: 11 22 33");
  folder_remove(&f);
  folder_remove(&cache);
}

TN_TEST(probe, a_quarantine_is_forgotten_by_name_and_by_content) {
  folder f = folder_make(), cache = folder_make();
  char record[800];
  folder_add(&f, "toy");
  folder_add(&f, "segfaults");
  expect(&f, &cache, "", "add toy open segfaults", "add toy: 11 22 33");
  TN_CHECK_INT(records(&cache, record), 2);
  char *answer = probe_cached(&f, &cache, "", "clear nobody clear segfaults plugins");
  TN_CHECK_CONTAINS(answer, "clear nobody: 0\nclear segfaults: 1\n");
  TN_CHECK_CONTAINS(answer, "[segfaults] loadable: \n");
  free(answer);
  TN_CHECK_INT(records(&cache, record), 1);
  replace_line(record, "verdict", "verdict quarantined");
  replace_line(record, "words", "words it was seen to fall");
  answer = probe_cached(&f, &cache, "", "open toy clear toy.so open toy clear all");
  TN_CHECK_CONTAINS(answer, "toy: error 8: device toy: plugin toy (");
  TN_CHECK_CONTAINS(answer, "is quarantined: it was seen to fall; holds until");
  TN_CHECK_CONTAINS(answer, "clear toy.so: 1\ntoy: open as toy:0\nclear all: 1\n");
  free(answer);
  TN_CHECK_INT(records(&cache, record), 0);
  folder_remove(&f);
  folder_remove(&cache);
}

TN_TEST(probe, what_nobody_renewed_for_a_month_is_swept) {
  folder f = folder_make(), cache = folder_make();
  char record[800];
  folder_add(&f, "toy");
  folder_add(&f, "segfaults");
  expect(&f, &cache, "", "add toy", "add toy: 11 22 33");
  shell("touch -d '40 days ago' '%s'/tenon/probe/* && touch -d '40 days ago' '%s/tenon/probe/of-somebody-else'",
        cache.path, cache.path);
  expect(&f, &cache, "", "open segfaults", "killed by signal 11");
  TN_CHECK_INT(records(&cache, record), 1);
  shell("test -e '%s/tenon/probe/of-somebody-else'", cache.path);
  folder_remove(&f);
  folder_remove(&cache);
}

/* A file in another place with the same content needs no new child; one byte more does. */
TN_TEST(probe, answers_go_with_the_content) {
  folder f = folder_make(), g = folder_make(), h = folder_make(), cache = folder_make();
  char record[800];
  folder_add(&f, "toy");
  folder_add_copy(&g, "toy", "copy.so", 0, -1, 0);
  expect(&f, &cache, "", "add toy", "add toy: 11 22 33");
  expect(&g, &cache, "TENON_PROBE_MS=1", "add toy", "add toy: 11 22 33");
  TN_CHECK_INT(records(&cache, record), 1);
  folder_add_copy(&h, "toy", "changed.so", 0, 7, 3); /* another name of the same system */
  expect(&h, &cache, "", "add toy", "add toy: 11 22 33");
  TN_CHECK_INT(records(&cache, record), 2);
  folder_remove(&f);
  folder_remove(&g);
  folder_remove(&h);
  folder_remove(&cache);
}

/* What a plugin says in words is said by the real opening, and not remembered for others. */
TN_TEST(probe, refusals_keep_their_own_words) {
  folder f = folder_make(), cache = folder_make();
  char record[800];
  folder_add(&f, "unknown_symbol");
  folder_add(&f, "missing_library");
  folder_add(&f, "half_init");
  folder_add(&f, "no_hardware");
  char *answer = probe_cached(&f, &cache, "", "open symbol open library open half open ghost plugins");
  TN_CHECK_CONTAINS(answer, "undefined symbol: acme_function_of_nobody");
  TN_CHECK_CONTAINS(answer, "libacme_helper.so: cannot open shared object file");
  TN_CHECK_CONTAINS(answer, "[half-init] failed: init failed: the driver answered 42");
  TN_CHECK_CONTAINS(answer, "[no-hardware] no hardware: no ghost answered on the bus");
  free(answer);
  TN_CHECK_INT(records(&cache, record), 0);
  folder_remove(&f);
  folder_remove(&cache);
}

TN_TEST(probe, hosts_of_any_kind_can_ask) {
  folder f = folder_make(), cache = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "segfaults");
  static const char *const hosts[] = {"", "TMPDIR=/no/such/folder", "env -u HOME -u TMPDIR", "env -i"};
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; ++i) {
    char settings[700];
    snprintf(settings, sizeof settings, "%s%s%s%s", hosts[i], strncmp(hosts[i], "env -i", 6) ? "" : " TENON_PLUGIN_PATH='",
             strncmp(hosts[i], "env -i", 6) ? "" : f.path, strncmp(hosts[i], "env -i", 6) ? "" : "'");
    expect(&f, &cache, settings, "open segfaults add toy", "add toy: 11 22 33");
    expect(&f, &cache, settings, "close-standard open segfaults", "killed by signal 11");
    expect(&f, &cache, settings, "ignore-children open segfaults", "is quarantined: a child process that opened it ");
    expect(&f, &cache, settings, "block-signals threads toy open segfaults", "killed by signal 11");
    expect(&f, &cache, settings, "fork open segfaults add toy", "killed by signal 11");
    folder_remove(&cache);
    cache = folder_make();
  }
  folder_remove(&f);
  folder_remove(&cache);
}

TN_TEST(probe, without_a_cache_each_process_asks) {
  folder f = folder_make();
  folder_add(&f, "toy");
  folder_add(&f, "segfaults");
  char *answer = probe(f.path, "XDG_CACHE_HOME=/proc/none", "open segfaults add toy plugins");
  TN_CHECK_CONTAINS(answer, "[segfaults] quarantined: ");
  TN_CHECK_CONTAINS(answer, "[toy] ready: \n");
  free(answer);
  folder_remove(&f);
}

/* A library that is moved away from its helper opens unprobed and says so. */
TN_TEST(probe, without_a_helper_the_reason_says_so) {
  folder f = folder_make(), lib = folder_make(), cache = folder_make();
  folder_add(&f, "toy");
  shell("cp -L '%s/../lib/libtenon.so.0' '%s/' && XDG_CACHE_HOME='%s' LD_LIBRARY_PATH='%s' TENON_PLUGIN_PATH='%s' '%s' "
           "add toy plugins > '%s/out' 2>/dev/null && grep -q 'toy. ready: opened without a probe: tenon-probe is not in' "
           "'%s/out' && grep -q 'add toy: 11 22 33' '%s/out'",
           TN_TEST_BIN_DIR, lib.path, cache.path, lib.path, f.path, TN_LOAD_PROBE, lib.path, lib.path, lib.path);
  folder_remove(&f);
  folder_remove(&lib);
  folder_remove(&cache);
}

TN_TEST(probe, the_user_may_probe_nothing_or_everything) {
  folder f = folder_make(), cache = folder_make();
  char record[800];
  folder_add(&f, "toy");
  expect(&f, &cache, "TENON_PROBE=off", "add toy plugins", "[toy] ready: \n");
  TN_CHECK_INT(records(&cache, record), 0);
  expect(&f, &cache, "", "add cpu", "add cpu: 11 22 33");
  TN_CHECK_INT(records(&cache, record), 0);
  expect(&f, &cache, "TENON_PROBE=all", "open cpu", "cpu: open as cpu");
  TN_CHECK_INT(records(&cache, record), 1);
  folder_remove(&f);
  folder_remove(&cache);
}

TN_TEST(probe, the_command_lists_and_forgets) {
  folder f = folder_make(), cache = folder_make();
  folder_add(&f, "segfaults");
  expect(&f, &cache, "", "open segfaults", "quarantined");
  shell("export XDG_CACHE_HOME='%s' TENON_PLUGIN_PATH='%s'; '%s' plugins > '%s/out' && grep -q 'segfaults .* quarantined' "
           "'%s/out' && '%s' plugins --json | grep '\"segfaults\"' | grep -q '\"verdict\": *\"quarantined\"' && '%s' plugins "
           "--verbose | grep -q 'probed [0-9]* s ago in' && '%s' plugins --clear segfaults | grep -q '1 probe is forgotten' "
           "&& '%s' plugins | grep -q 'segfaults .* loadable'",
           cache.path, f.path, TN_TEST_CLI, cache.path, cache.path, TN_TEST_CLI, TN_TEST_CLI, TN_TEST_CLI, TN_TEST_CLI);
  folder_remove(&f);
  folder_remove(&cache);
}

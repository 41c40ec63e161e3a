/* SPDX-License-Identifier: Apache-2.0
 *
 * What installed plugins cost at start, as counts: each file is read once, none is mapped, nobody is probed, whoever is asked
 * for is opened alone. The time that follows from it is ci/bench/startup.py's.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "folder.h"
#include "tn_test.h"

enum { FILLERS = 20, FILES = FILLERS + 1 }; /* and one whose constructor aborts */

/* Copies of the filler under names of their own: its name stands in it as filler-00. */
static void fill(const folder *f) {
  char path[600], name[32], mine[16];
  size_t size;
  snprintf(path, sizeof path, "%s/filler.so", TN_LOAD_PLUGIN_DIR);
  FILE *file = fopen(path, "rb");
  char *bytes = malloc(1 << 22);
  TN_CHECK(file && bytes);
  size = fread(bytes, 1, 1 << 22, file);
  fclose(file);
  TN_CHECK(size > 0 && size < 1 << 22);
  for (int i = 0; i < FILLERS; ++i) {
    snprintf(mine, sizeof mine, "filler-%02d", i);
    for (char *at = bytes; (at = memmem(at, size - (size_t)(at - bytes), "filler-", 7)); at += 9)
      memcpy(at, mine, 9);
    snprintf(name, sizeof name, "filler%02d.so", i);
    folder_add_bytes(f, name, bytes, size);
  }
  free(bytes);
  folder_add_copy(f, "aborts", "aborts.so", 0, -1, 0);
}

/* Adds how often each file of the watched folder was opened since the watch began. */
static void count_opens(int watch, int opens[FILES]) {
  char buffer[65536] __attribute__((aligned(__alignof__(struct inotify_event))));
  for (ssize_t n; (n = read(watch, buffer, sizeof buffer)) > 0;) {
    for (char *at = buffer; at < buffer + n;) {
      const struct inotify_event *e = (const void *)at;
      int number;
      TN_CHECK(!(e->mask & IN_Q_OVERFLOW));
      const bool opened = e->len && (e->mask & IN_OPEN);
      if (opened && sscanf(e->name, "filler%d.so", &number) == 1) ++opens[number];
      if (opened && strcmp(e->name, "aborts.so") == 0) ++opens[FILLERS];
      at += sizeof *e + e->len;
    }
  }
  TN_CHECK_INT(errno, EAGAIN);
}

/* Starts the probe program, with what the system's loader says in a folder. Its answer is owned. */
static char *start(const folder *f, const folder *cache, const folder *traces, const char *commands,
                   int opens[FILES]) {
  char settings[700];
  int watch = inotify_init1(IN_NONBLOCK);
  /* Closing as well: two equal events with nothing between them come as one. */
  TN_CHECK(watch >= 0 && inotify_add_watch(watch, f->path, IN_OPEN | IN_CLOSE) >= 0);
  snprintf(settings, sizeof settings, "LD_DEBUG=files LD_DEBUG_OUTPUT='%s/trace'", traces->path);
  char *answer = probe_cached(f, cache, settings, commands);
  memset(opens, 0, FILES * sizeof *opens);
  count_opens(watch, opens);
  close(watch);
  return answer;
}

TN_TEST(load_start, reads_each_of_twenty_plugins_once_and_opens_none) {
  folder f = folder_make(), cache = folder_make(), traces = folder_make();
  int opens[FILES];
  fill(&f);
  char *answer = start(&f, &cache, &traces, "open meta plugins", opens);
  TN_CHECK_CONTAINS(answer, "meta: open as meta");
  for (int i = 0; i < FILLERS; ++i) {
    char line[64];
    snprintf(line, sizeof line, "filler%02d.so [filler-%02d] loadable: \n", i, i);
    TN_CHECK_CONTAINS(answer, line);
  }
  free(answer);
  for (int i = 0; i < FILES; ++i) TN_CHECK_INT(opens[i], 1); /* its manifest */
  shell("cd '%s' && grep -q libtenon trace.* && ! grep -q -e filler -e aborts -e backend-cpu trace.*",
        traces.path);
  shell("test ! -e '%s/tenon'", cache.path); /* nobody was probed: there is no answer to keep */
  folder_remove(&f);
  folder_remove(&cache);
  folder_remove(&traces);
}

TN_TEST(load_start, who_is_asked_for_is_opened_alone) {
  folder f = folder_make(), cache = folder_make(), traces = folder_make();
  int opens[FILES];
  fill(&f);
  char *answer = start(&f, &cache, &traces, "open filler-07 add cpu", opens);
  TN_CHECK_CONTAINS(answer, "is no hardware: a filler has no device");
  TN_CHECK_CONTAINS(answer, "add cpu: 11 22 33");
  free(answer);
  for (int i = 0; i < FILES; ++i) TN_CHECK(i == 7 ? opens[i] > 1 : opens[i] == 1);
  shell("cd '%s' && grep -q filler07.so trace.* && ! grep -v filler07 trace.* | grep -q -e filler -e aborts",
        traces.path);
  folder_remove(&f);
  folder_remove(&cache);
  folder_remove(&traces);
}

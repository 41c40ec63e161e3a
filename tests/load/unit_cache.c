/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's cache: what other processes and threads, the file system and the limits of a process do to it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/load/load_int.h"
#include "tn_test.h"

enum { PIECE = 50000, TURNS = 300 };

/* A fresh place for it; folder: an open part of it. */
static char *fresh(int *out_folder) {
  static char place[sizeof TN_LOAD_WORK_DIR + 16];
  snprintf(place, sizeof place, "%s/cache-XXXXXX", TN_LOAD_WORK_DIR);
  TN_CHECK_NOT_NULL(mkdtemp(place));
  setenv("XDG_CACHE_HOME", place, 1);
  if (out_folder) TN_CHECK((*out_folder = tni_cache_open("part", true)) >= 0);
  return place;
}

static void done(const char *place, int folder) {
  char command[sizeof TN_LOAD_WORK_DIR + 64];
  if (folder >= 0) close(folder);
  snprintf(command, sizeof command, "rm -r '%s'", place);
  TN_CHECK_INT(system(command), 0);
}

static int folder_of_all;
static _Atomic int n_finished;

/* PIECE times one letter, twice: of a different length for each letter. */
static void *write_often(void *letter) {
  const size_t n = PIECE + (size_t)(*(char *)letter - 'a');
  char *bytes = malloc(n);
  if (!bytes) return NULL;
  memset(bytes, *(char *)letter, n);
  const tni_piece pieces[] = {{bytes, n}, {bytes, n}};
  for (int i = 0; i < TURNS; ++i) tni_cache_write(folder_of_all, "name", pieces, 2);
  free(bytes);
  atomic_fetch_add(&n_finished, 1);
  return NULL;
}

static bool is_whole(const char *bytes, size_t n) {
  for (size_t i = 1; i < n; ++i)
    if (bytes[i] != bytes[0]) return false;
  return n == 2 * (PIECE + (size_t)(bytes[0] - 'a'));
}

TN_TEST(cache, writers_of_one_name_leave_whole_files) {
  char *place = fresh(&folder_of_all), letters[] = "abc";
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) TN_CHECK_INT(pthread_create(&threads[i], NULL, write_often, &letters[i]), 0);
  size_t seen = 0, broken = 0;
  for (bool last = false; !last;) {
    size_t n = 0;
    last = atomic_load(&n_finished) == 3;
    char *bytes = tni_cache_read(folder_of_all, "name", SIZE_MAX, &n);
    seen += bytes != NULL;
    broken += bytes && !is_whole(bytes, n);
    free(bytes);
  }
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  TN_CHECK(seen > 0);
  TN_CHECK_INT(broken, 0);
  done(place, folder_of_all);
}

TN_TEST(cache, what_is_no_file_is_no_answer) {
  int folder;
  char *place = fresh(&folder);
  TN_CHECK_INT(mkfifoat(folder, "pipe", 0600), 0); /* nobody ever writes there */
  TN_CHECK_INT(mkdirat(folder, "folder", 0700), 0);
  TN_CHECK_INT(symlinkat("/etc/passwd", folder, "link"), 0);
  static const char *const names[] = {"pipe", "folder", "link", "absent"};
  for (size_t i = 0; i < 4; ++i) TN_CHECK_PTR_NULL(tni_cache_read(folder, names[i], SIZE_MAX, NULL));
  done(place, folder);
}

/* A batch system may limit what a process writes: passing that is a deadly signal by default. */
TN_TEST(cache, a_limit_of_file_sizes_is_kept) {
  int folder;
  char *place = fresh(&folder), bytes[100] = "";
  struct rlimit was, small;
  TN_CHECK_INT(getrlimit(RLIMIT_FSIZE, &was), 0);
  small = (struct rlimit){.rlim_cur = 150, .rlim_max = was.rlim_max};
  TN_CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
  tni_cache_write(folder, "fits", &(tni_piece){bytes, sizeof bytes}, 1);
  tni_cache_write(folder, "not", (const tni_piece[]){{bytes, sizeof bytes}, {bytes, sizeof bytes}}, 2);
  TN_CHECK_INT(setrlimit(RLIMIT_FSIZE, &was), 0);
  TN_CHECK_INT(faccessat(folder, "fits", F_OK, 0), 0);
  TN_CHECK_INT(faccessat(folder, "not", F_OK, 0), -1);
  done(place, folder);
}

/* Users without a home have a path in its place, which is not ours to make. */
TN_TEST(cache, a_home_that_is_not_there_is_not_made) {
  char *place = fresh(NULL), home[sizeof TN_LOAD_WORK_DIR + 32];
  snprintf(home, sizeof home, "%s/home", place);
  char *was = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
  setenv("HOME", home, 1);
  unsetenv("XDG_CACHE_HOME");
  TN_CHECK_INT(tni_cache_open("part", true), -1);
  TN_CHECK_INT(access(home, F_OK), -1);
  TN_CHECK_INT(mkdir(home, 0700), 0);
  int folder = tni_cache_open("part", true);
  TN_CHECK(folder >= 0);
  if (was) setenv("HOME", was, 1);
  free(was);
  done(place, folder);
}

/* What was said of one content is not remembered of another that took its place meanwhile. */
TN_TEST(cache, an_answer_about_a_file_that_was_replaced_is_dropped) {
  int folder;
  char *place = fresh(&folder), path[sizeof TN_LOAD_WORK_DIR + 32];
  snprintf(path, sizeof path, "%s/acme.so", place);
  tni_manifest manifest = {0};
  tni_file_id id;
  tni_probe answer = {.verdict = TNI_PROBE_READY, .words = "", .devices = "", .libraries = ""}, *found;
  tni_plugin p = {.name = "acme", .file = "acme.so", .path = path, .manifest = &manifest, .examined = &id};
  answer.when = (int64_t)time(NULL);
  FILE *file = fopen(path, "w");
  TN_CHECK_NOT_NULL(file);
  fputs("one", file);
  fclose(file);
  int fd = open(path, O_RDONLY);
  TN_CHECK(tni_file_id_of(fd, &id));
  close(fd);
  TN_CHECK_OK(tni_cache_store(&p, &answer));
  TN_CHECK_OK(tni_cache_find(&p, &found));
  TN_CHECK_NOT_NULL(found);
  tni_probe_free(found);
  file = fopen(path, "w");
  fputs("another", file);
  fclose(file);
  TN_CHECK_OK(tni_cache_store(&p, &answer));
  TN_CHECK_OK(tni_cache_find(&p, &found));
  TN_CHECK_PTR_NULL(found);
  done(place, folder);
}

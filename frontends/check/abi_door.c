/* SPDX-License-Identifier: Apache-2.0
 *
 * abi.door: the query is pure, answers what the manifest says, works for hosts of other ages, and refuses what it cannot
 * work with. Init is never called here.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "frontends/check/door.h"
#include "frontends/check/tools.h"

enum { TAIL = 64, CANARY = 0xA5, N_THREADS = 4, N_ASKED = 200 };

/* A query with bytes behind it that nobody may touch. */
typedef struct guarded {
  union {
    tn_query query;
    unsigned char bytes[sizeof(tn_query) + TAIL];
  } u;
} guarded;

static guarded guard(uint32_t struct_size) {
  guarded g;
  memset(&g, CANARY, sizeof g);
  tn_query q = tni_door_question();
  q.struct_size = struct_size;
  memcpy(&g, &q, struct_size < sizeof q ? struct_size : sizeof q);
  return g;
}

static bool is_whole(const guarded *g, size_t from) {
  for (size_t i = from; i < sizeof *g; i++)
    if (g->u.bytes[i] != CANARY) return false;
  return true;
}

static bool same_answer(const tn_query *a, const tn_query *b) {
  return a->plugin_major == b->plugin_major && a->plugin_minor == b->plugin_minor &&
         a->needs_minor == b->needs_minor && a->sanitizer == b->sanitizer && a->name && b->name &&
         !strcmp(a->name, b->name) && a->init == b->init && a->shutdown == b->shutdown;
}

static size_t count_threads(void) {
  size_t n = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (tasks && readdir(tasks)) n++;
  if (tasks) closedir(tasks);
  return n;
}

/* A thread that was joined may be listed for a moment yet, on a loaded machine for longer. */
static bool threads_settle(size_t most) {
  enum { TRIES = 2000, PAUSE_NS = 1000000 };
  for (int i = 0; i < TRIES && count_threads() > most; i++) nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
  return count_threads() <= most;
}

/* ------------------------------------------------------------------ pure */

static void *ask_often(void *ctx) {
  tni_door *door = ctx;
  for (int i = 0; i < N_ASKED; i++) {
    tn_query q = tni_door_question();
    if (door->query(&q) != TN_OK || !same_answer(&q, &door->answer)) return door;
  }
  return NULL;
}

static void check_pure(tni_check_report *r, tni_door *door) {
  size_t before = count_threads();
  pthread_t threads[N_THREADS];
  int started = 0;
  bool differs = false;
  tni_check_at(r, "pure");
  while (started < N_THREADS && pthread_create(&threads[started], NULL, ask_often, door) == 0) started++;
  for (int i = 0; i < started; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    differs = differs || wrong;
  }
  tni_check_that(r, !differs, "pure",
                 "asked again, also by several threads, it answers otherwise than at first");
  tni_check_that(r, threads_settle(before), "pure threads", "the query left threads running");
}

/* ------------------------------------------------------------------ hosts of other ages */

static void check_sizes(tni_check_report *r, tni_door *door) {
  tni_check_at(r, "longer query");
  guarded g = guard(sizeof(tn_query) + TAIL / 2);
  tn_status status = door->query(&g.u.query);
  tni_check_that(r, status == TN_OK && same_answer(&g.u.query, &door->answer), "longer query",
                 "a host whose tn_query is longer is answered \"%s\", or otherwise", tn_status_name(status));
  tni_check_that(r, is_whole(&g, sizeof(tn_query) + TAIL / 2), "longer query bounds",
                 "bytes behind struct_size were written");
  tni_check_at(r, "shorter query");
  const size_t first = offsetof(tn_query, name); /* the eight words that every major has */
  g = guard((uint32_t)first);
  status = door->query(&g.u.query);
  tni_check_that(
      r, status == TN_ERR_VERSION, "shorter query",
      "a host that knows the first eight words only has no place for init: expected \"%s\", got \"%s\"",
      tn_status_name(TN_ERR_VERSION), tn_status_name(status));
  tni_check_that(r, is_whole(&g, first), "shorter query bounds",
                 "fields behind struct_size (%zu) were written", first);
  tni_check_that(r, g.u.query.plugin_major == door->answer.plugin_major, "shorter query name",
                 "a stranger is not told the plugin's major");
}

static void check_refused(tni_check_report *r, const tni_door *door, const char *item, tn_query q) {
  tni_check_at(r, item);
  tn_status status = door->query(&q);
  tni_check_that(r, status == TN_ERR_VERSION, item, "expected \"%s\", got \"%s\"",
                 tn_status_name(TN_ERR_VERSION), tn_status_name(status));
}

static void check_ages(tni_check_report *r, const tni_door *door) {
  tn_query q = tni_door_question();
  q.host_major = TN_ABI_MAJOR + 1;
  check_refused(r, door, "newer major", q);
  q.host_major = 0;
  check_refused(r, door, "older major", q);
  q = tni_door_question();
  q.host_minor = q.host_minor_min = door->answer.plugin_minor + 1;
  check_refused(r, door, "host that dropped this minor", q);
  if (door->answer.needs_minor > 0) {
    q = tni_door_question();
    q.host_minor = door->answer.needs_minor - 1;
    check_refused(r, door, "host older than needed", q);
  }
  q = tni_door_question();
  q.host_minor = door->answer.needs_minor;
  tn_status status = door->query(&q);
  tni_check_that(r, status == TN_OK, "oldest host",
                 "it says that minor %u is enough and answers \"%s\" to it", door->answer.needs_minor,
                 tn_status_name(status));
  q = tni_door_question();
  q.host_minor = TN_ABI_MINOR + 40;
  status = door->query(&q);
  tni_check_that(r, status == TN_OK, "newer host", "a newer minor only adds, and it answers \"%s\"",
                 tn_status_name(status));
}

/* ------------------------------------------------------------------ the manifest's head */

static void check_manifest(tni_check_report *r, const tni_check_context *c, const tn_query *a) {
  if (c->manifest_error) return tni_check_fail(r, "manifest", "the file %s", c->manifest_error);
  tni_check_that(r, a->name && !strcmp(a->name, c->plugin), "name", "the manifest says %s, the query %s",
                 c->plugin, a->name ? a->name : "nothing");
  tni_check_that(r, a->version && !strcmp(a->version, c->version), "version",
                 "the manifest says %s, the query %s", c->version, a->version ? a->version : "nothing");
  tni_check_that(r,
                 a->plugin_major == c->abi_major && a->plugin_minor == c->abi_minor &&
                     a->needs_minor == c->needs_minor,
                 "abi", "the manifest says %u.%u needs %u, the query %u.%u needs %u", c->abi_major,
                 c->abi_minor, c->needs_minor, a->plugin_major, a->plugin_minor, a->needs_minor);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  tni_door door;
  tni_check_at(r, "open");
  char *words = tni_door_open(c->file, &door);
  if (!tni_check_that(r, !words, "open", "%s", words ? words : "")) return free(words);
  tni_check_at(r, "query");
  tn_status status = tni_door_negotiate(&door);
  if (!tni_check_that(r, status == TN_OK && door.answer.init, "query",
                      "this host (ABI %d.%d) is answered \"%s\"%s", TN_ABI_MAJOR, TN_ABI_MINOR,
                      tn_status_name(status), door.answer.init ? "" : " and no init"))
    return;
  check_manifest(r, c, &door.answer);
  check_pure(r, &door);
  check_sizes(r, &door);
  check_ages(r, &door);
  tni_door_close(&door);
}

const tni_check tni_check_abi_door = {
    .name = "abi.door",
    .about = "the query is pure, says what the manifest says, and refuses hosts it cannot serve",
    .run = run};

/* SPDX-License-Identifier: Apache-2.0
 *
 * exit.quiet: a process that used the plugin ends whenever it likes: with live tensors, from another thread, in the middle
 * of work, after tn_shutdown. It ends with its own exit status, and soon.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "frontends/check/host.h"
#include "frontends/check/tools.h"

enum { N = 20000, TIMEOUT_S = 5, STATUS = 7, N_TENSORS = 4 };

static tn_tensor *kept[N_TENSORS];
static tn_device device;

static tn_status work(void) {
  static float values[N];
  const tn_dim size = N;
  tn_tensor *x = NULL, *y = NULL;
  tn_status status = tni_host_tensor(values, &size, 1, device, &x);
  if (status == TN_OK) status = tn_add(x, x, tn_int(1), &y);
  if (tni_host_is_missing(status)) status = TN_OK;
  tn_tensor_release(x);
  tn_tensor_release(y);
  return status;
}

static void keep_some(tni_check_report *r) {
  static float values[N];
  const tn_dim size = N;
  for (int i = 0; i < N_TENSORS; i++)
    if (tni_host_tensor(values, &size, 1, device, &kept[i]) != TN_OK)
      tni_check_note(r, "kept", "a tensor could not be made: %s", tn_error_message());
}

static void *work_on(void *unused) {
  while (work() == TN_OK) {
  }
  return unused;
}

static void *leave(void *unused) {
  (void)unused;
  exit(STATUS);
}

static void release_late(void) {
  for (int i = 0; i < N_TENSORS; i++) tn_tensor_release(kept[i]);
}

/* Does not return unless a thread cannot be started. */
static void end_by(const char *way) {
  pthread_t worker, leaver;
  if (!strcmp(way, "busy") && pthread_create(&worker, NULL, work_on, NULL) == 0)
    nanosleep(&(struct timespec){0, 20000000}, NULL);
  if (!strcmp(way, "shutdown")) tn_shutdown();
  if (!strcmp(way, "late")) release_late();
  if (strcmp(way, "thread")) exit(STATUS);
  if (pthread_create(&leaver, NULL, leave, NULL) == 0) work_on(NULL), pthread_join(leaver, NULL);
}

static void run_stage(tni_check_report *r, const tni_check_context *c) {
  char *way = tni_check_text("%s", c->stage), *name = strchr(way, ' ');
  *name++ = 0;
  if (!strcmp(way, "late")) atexit(release_late); /* runs after the host's own handler */
  tn_status status = tni_host_open(c);
  if (status == TN_OK && *name) status = tn_device_open(name, &device);
  if (status != TN_OK) {
    tni_check_skip(r, "open", "%s", tn_error_message());
    exit(STATUS);
  }
  keep_some(r);
  (void)work();
  if (!strcmp(way, "late")) exit(STATUS);
  end_by(way);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  if (c->stage) return run_stage(r, c);
  static const struct {
    const char *way, *about;
  } ways[] = {{"live", "exit with live tensors"},
              {"late", "tensors freed by an exit handler"},
              {"thread", "exit from another thread"},
              {"busy", "exit while a thread works"},
              {"shutdown", "tn_shutdown, then exit with live tensors"}};
  /* Who ends in the middle of work has memory left. */
  const char *options = getenv("ASAN_OPTIONS");
  char *asan = tni_check_text("ASAN_OPTIONS=%s:detect_leaks=0", options ? options : "");
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    char *stage = tni_check_text("%s %s", ways[i].way, c->n_devices ? c->devices[0] : "");
    tni_check_end end;
    if (tni_check_stage(r, c, stage, (const char *const[]){asan, NULL}, TIMEOUT_S, &end))
      tni_check_that(r, end.exit_status == STATUS, ways[i].about, "the process %s; expected exit status %d",
                     end.words, STATUS);
    free(stage);
  }
  free(asan);
}

const tni_check tni_check_exit_quiet = {.name = "exit.quiet",
                                        .about = "a process that used the plugin ends when and how it likes",
                                        .kinds = 0,
                                        .timeout_s = 40,
                                        .run = run};

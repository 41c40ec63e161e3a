/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a check's process: what a check may say (check.h) becomes one line each on the pipe, written at once,
 * so that nothing is lost when the plugin ends the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "frontends/check/claims.h"
#include "frontends/check/process.h"
#include "frontends/check/tools.h"

struct tni_check_report {
  int fd;
  pthread_mutex_t mutex;
};

/* ------------------------------------------------------------------ records */

/* Tabs and newlines part records: they are escaped. */
static size_t escape(char *to, const char *text) {
  char *start = to;
  for (; *text; text++) {
    bool special = *text == '\n' || *text == '\t' || *text == '\\';
    if (special) *to++ = '\\';
    *to++ = *text == '\n' ? 'n' : *text == '\t' ? 't' : *text;
  }
  return (size_t)(to - start);
}

void tni_child_send(tni_check_report *r, char kind, const char *item, const char *words) {
  char *line = tni_check_alloc(2 * (strlen(item) + strlen(words)) + 3);
  size_t n = 0;
  line[n++] = kind;
  n += escape(line + n, item);
  line[n++] = '\t';
  n += escape(line + n, words);
  line[n++] = '\n';
  pthread_mutex_lock(&r->mutex);
  for (size_t done = 0; done < n;) {
    ssize_t wrote = write(r->fd, line + done, n - done);
    if (wrote < 0 && errno != EINTR) break; /* the runner is gone */
    if (wrote > 0) done += (size_t)wrote;
  }
  pthread_mutex_unlock(&r->mutex);
  free(line);
}

static void say(tni_check_report *r, char kind, const char *item, const char *format, va_list args) {
  char *words = tni_check_vtext(format, args);
  tni_child_send(r, kind, item, words);
  free(words);
}

void tni_check_pass(tni_check_report *r, const char *item) { tni_child_send(r, 'P', item, ""); }
void tni_check_at(tni_check_report *r, const char *item) { tni_child_send(r, 'A', item, ""); }

void tni_check_fail(tni_check_report *r, const char *item, const char *format, ...) {
  va_list args;
  va_start(args, format);
  say(r, 'F', item, format, args);
  va_end(args);
}

void tni_check_skip(tni_check_report *r, const char *item, const char *format, ...) {
  va_list args;
  va_start(args, format);
  say(r, 'S', item, format, args);
  va_end(args);
}

void tni_check_note(tni_check_report *r, const char *item, const char *format, ...) {
  va_list args;
  va_start(args, format);
  say(r, 'N', item, format, args);
  va_end(args);
}

bool tni_check_that(tni_check_report *r, bool condition, const char *item, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (condition)
    tni_check_pass(r, item);
  else
    say(r, 'F', item, format, args);
  va_end(args);
  return condition;
}

bool tni_check_ok(tni_check_report *r, tn_status status, const char *item, const char *what) {
  if (status == TN_OK) return true;
  const char *words = tn_error_message();
  tni_check_fail(r, item, "%s: %s%s%s", what, tn_status_name(status), *words ? ": " : "", words);
  return false;
}

/* ------------------------------------------------------------------ what checks share */

bool tni_check_device(tni_check_report *r, const char *name, tn_device *out_device) {
  tn_status status = tn_device_open(name, out_device);
  if (status == TN_OK) return true;
  if (status == TN_ERR_UNAVAILABLE && strstr(tn_error_message(), tn_plugin_state_name(TN_PLUGIN_NO_HARDWARE)))
    tni_check_skip(r, name, "this machine has no such device: %s", tn_error_message());
  else
    tni_check_fail(r, name, "the device does not open: %s", tn_error_message());
  return false;
}

static void forward(void *ctx, char kind, const char *item, const char *words) {
  tni_child_send(ctx, kind, item, words);
}

bool tni_check_stage(tni_check_report *r, const tni_check_context *c, const char *stage,
                     const char *const *settings, int timeout_s, tni_check_end *out_end) {
  const tni_process process = {c, c->check, stage, settings, timeout_s, forward, r};
  char *at;
  bool started = tni_process_run(&process, out_end, &at);
  free(at);
  if (!started) tni_check_fail(r, stage, "%s", out_end->words);
  return started;
}

/* ------------------------------------------------------------------ the program */

/* --child FD CHECK FILE FOLDER SECOND STAGE */
int tni_child_main(int argc, char **argv) {
  if (argc != 8) return TNI_EXIT_USAGE;
  static tni_check_report report = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  static tni_check_context context;
  report.fd = (int)strtol(argv[2], NULL, 10);
  fcntl(report.fd, F_SETFD, FD_CLOEXEC); /* what the plugin starts has no part in it */
  context = (tni_check_context){.file = argv[4],
                                .self = tni_check_self(),
                                .folder = argv[5],
                                .second = *argv[6] ? argv[6] : NULL,
                                .stage = *argv[7] ? argv[7] : NULL};
  tni_claims_read(&context);
  for (size_t i = 0; tni_checks[i]; i++) {
    if (strcmp(tni_checks[i]->name, argv[3])) continue;
    context.check = tni_checks[i];
    tni_checks[i]->run(&report, &context);
    tni_child_send(&report, 'D', "", "");
    return TNI_EXIT_OK;
  }
  return TNI_EXIT_USAGE;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner's side of a check's process. It is this program again, started fresh (fork and exec: nothing of the
 * runner's is in it), in a process group of its own, so that whatever the plugin starts can be ended with it. What it
 * prints goes to a file, whose end is shown when it dies; what it says comes over a pipe, one line a record, so that
 * what was said before a crash is kept.
 */
#include "frontends/check/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontends/check/tools.h"

enum { LOOK_MS = 50 };

static volatile sig_atomic_t interrupted;
void tni_process_interrupt(void) { interrupted = 1; }
bool tni_process_interrupted(void) { return interrupted != 0; }

/* ------------------------------------------------------------------ lines from the pipe */

typedef struct reader {
  const tni_process *process;
  char *bytes;
  size_t size, capacity;
  char *at; /* item tried last */
  bool done;
} reader;

/* Undoes the sender's escapes, in place. */
static void unescape(char *text) {
  char *to = text;
  for (const char *from = text; *from; from++) {
    if (*from != '\\' || !from[1]) {
      *to++ = *from;
      continue;
    }
    from++;
    *to++ = *from == 'n' ? '\n' : *from == 't' ? '\t' : *from;
  }
  *to = 0;
}

static void take_line(reader *in, char *line) {
  char kind = line[0], *item = kind ? line + 1 : line;
  char *tab = strchr(item, '\t'), *words = tab ? tab + 1 : item + strlen(item);
  if (tab) *tab = 0;
  unescape(item);
  unescape(words);
  if (kind == 'D') {
    in->done = true;
  } else if (kind == 'A') {
    free(in->at);
    in->at = tni_check_text("%s", item);
  } else if (kind && strchr("PFSN", kind)) {
    in->process->record(in->process->ctx, kind, item, words);
  }
}

static void take_bytes(reader *in) {
  char *start = in->bytes, *end = in->bytes + in->size;
  for (char *newline; (newline = memchr(start, '\n', (size_t)(end - start))); start = newline + 1) {
    *newline = 0;
    take_line(in, start);
  }
  in->size = (size_t)(end - start);
  memmove(in->bytes, start, in->size);
}

/* Reads what is there. false: the other side has closed. */
static bool read_some(reader *in, int fd) {
  for (;;) {
    if (in->capacity - in->size < 4096) {
      in->capacity = in->capacity ? 2 * in->capacity : 16384;
      char *bytes = tni_check_alloc(in->capacity);
      if (in->size) memcpy(bytes, in->bytes, in->size);
      free(in->bytes);
      in->bytes = bytes;
    }
    ssize_t got = read(fd, in->bytes + in->size, in->capacity - in->size);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    in->size += (size_t)got;
    take_bytes(in);
  }
}

/* ------------------------------------------------------------------ starting */

static void set_all(const char *const *settings) {
  for (size_t i = 0; settings && settings[i]; i++) {
    const char *equals = strchr(settings[i], '=');
    if (!equals) continue;
    char *name = tni_check_text("%.*s", (int)(equals - settings[i]), settings[i]);
    if (equals[1])
      setenv(name, equals + 1, 1);
    else
      unsetenv(name);
    free(name);
  }
}

static char *log_path(const tni_process *p) {
  return tni_check_text("%s/%s.%s.log", p->context->folder, p->check->name, p->stage ? p->stage : "main");
}

/* In the forked process, which shares nothing with threads (the runner has none): exec or exit. */
static void become(const tni_process *p, int fd) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* a stage does not outlive its check */
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  char *log = log_path(p);
  int out = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (out >= 0) dup2(out, STDOUT_FILENO), dup2(out, STDERR_FILENO);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  set_all(p->settings);
  fcntl(fd, F_SETFD, 0);
  char number[16];
  snprintf(number, sizeof number, "%d", fd);
  execl(p->context->self, "tenon-check", "--child", number, p->check->name, p->context->file,
        p->context->folder, p->context->second ? p->context->second : "", p->stage ? p->stage : "",
        (char *)NULL);
  _exit(127);
}

/* ------------------------------------------------------------------ ending */

/* What the process printed last, shortened: "" if nothing. Owned. */
static char *last_words(const tni_process *p) {
  char *path = log_path(p), tail[1200];
  FILE *file = fopen(path, "r");
  free(path);
  if (!file) return tni_check_text("%s", "");
  size_t n = 0;
  /* A sanitizer's first lines say what happened; of other programs the last. */
  while (fgets(tail, sizeof tail, file))
    if (strstr(tail, "ERROR: ") || strstr(tail, "WARNING: ThreadSanitizer") || strstr(tail, "runtime error"))
      break;
  n = ferror(file) || !ftell(file) ? 0 : strlen(tail);
  fclose(file);
  while (n && tail[n - 1] == '\n') n--;
  return n ? tni_check_text("; it printed: %.*s", (int)(n > 300 ? 300 : n), tail) : tni_check_text("%s", "");
}

static void describe_end(const tni_process *p, const reader *in, int status, tni_check_end *end) {
  end->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  end->finished = in->done;
  char where[100] = "";
  if (in->at) snprintf(where, sizeof where, " at '%.80s'", in->at);
  char *printed = end->finished && !end->exit_status ? tni_check_text("%s", "") : last_words(p);
  if (end->timed_out)
    snprintf(end->words, sizeof end->words, "did not end within %d s%s", tni_check_patience(p->timeout_s),
             where);
  else if (end->signal)
    snprintf(end->words, sizeof end->words, "was ended by SIG%s%s%s", sigabbrev_np(end->signal), where,
             printed);
  else
    snprintf(end->words, sizeof end->words, "ended with exit status %d%s%s", end->exit_status, where,
             printed);
  free(printed);
}

/* Until the process has ended: one that leaves children behind holding the pipe does not keep us. */
static int watch(const tni_process *p, reader *in, pid_t pid, int fd, tni_check_end *end) {
  double limit = tni_check_seconds() + tni_check_patience(p->timeout_s);
  int status = 0;
  bool open = true;
  for (;;) {
    struct pollfd look = {.fd = fd, .events = POLLIN};
    if (open)
      poll(&look, 1, LOOK_MS);
    else
      usleep(1000);
    if (open) open = read_some(in, fd);
    if (waitpid(pid, &status, WNOHANG) == pid) break;
    if (tni_check_seconds() < limit && !interrupted) continue;
    end->timed_out = !interrupted;
    kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    break;
  }
  kill(-pid, SIGKILL); /* what it left behind */
  read_some(in, fd);
  return status;
}

bool tni_process_run(const tni_process *process, tni_check_end *out_end, char **out_at) {
  *out_end = (tni_check_end){.exit_status = -1};
  *out_at = NULL;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    snprintf(out_end->words, sizeof out_end->words, "could not be started: %s", strerror(errno));
    return false;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  pid_t pid = fork();
  if (pid == 0) become(process, ends[1]);
  int error = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    snprintf(out_end->words, sizeof out_end->words, "could not be started: %s", strerror(error));
    return false;
  }
  setpgid(pid, pid); /* both sides do it: neither need wait for the other */
  reader in = {.process = process};
  int status = watch(process, &in, pid, ends[0], out_end);
  close(ends[0]);
  describe_end(process, &in, status, out_end);
  free(in.bytes);
  *out_at = in.at;
  return true;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of libexec: where they are, and running one.
 *
 * A host may be anything: it has threads, blocks signals, ignores its children, has closed its standard files, has no
 * TMPDIR. So: posix_spawn and no fork (no code of ours runs between), descriptors above the standard ones, an end that
 * is recognised by time and not only by the pipe (a grandchild may hold that open), and no status where the host
 * reaps its children itself.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/load/load_int.h"

enum { CHILD_FD = 3, LOWEST_FD = 10, OUTPUT_MOST = 4 << 20 };

extern char **environ;

/* ------------------------------------------------------------------ where */

tn_status tni_own_folder(char **out_path) {
  Dl_info info;
  *out_path = NULL;
  if (!dladdr((const void *)&tni_own_folder, &info) || !info.dli_fname) return TN_OK;
  char *real = realpath(info.dli_fname, NULL);
  /* The program itself, started by a relative path, in another folder now. */
  if (!real && errno == ENOENT && info.dli_fname[0] != '/') real = realpath("/proc/self/exe", NULL);
  if (!real) return errno == ENOMEM ? tni_oom(0, "a path") : TN_OK;
  *strrchr(real, '/') = 0;
  *out_path = tni_strdup(real);
  size_t size = strlen(real) + 1;
  free(real);
  return *out_path ? TN_OK : tni_oom(size, "a path");
}

/* As installed; else the place in a build tree. */
tn_status tni_helper_path(const char *name, char **out_path) {
  static const char *const folders[] = {TN_LIBEXEC_FROM_LIB, "../libexec/tenon"};
  char *own;
  *out_path = NULL;
  TN_TRY(tni_own_folder(&own));
  if (!own) return TN_FAIL(TN_ERR_NOT_FOUND, "the place of libtenon is unknown, so %s is not found", name);
  tn_status status = TN_OK;
  for (size_t i = 0; i < 2 && !*out_path && status == TN_OK; ++i) {
    size_t size = strlen(own) + strlen(folders[i]) + strlen(name) + 3;
    char *path = tni_alloc(size);
    if (!path) {
      status = tni_oom(size, "a path");
      break;
    }
    snprintf(path, size, "%s/%s/%s", own, folders[i], name);
    if (access(path, X_OK) == 0)
      *out_path = path;
    else
      tni_free(path);
  }
  if (status == TN_OK && !*out_path)
    status = TN_FAIL(TN_ERR_NOT_FOUND, "%s is not in %s/%s", name, own, folders[0]);
  tni_free(own);
  return status;
}

/* ------------------------------------------------------------------ starting */

/* Both ends above the standard files, which the child's own are put on. */
static tn_status make_pipe(int ends[2]) {
  int low[2];
  if (pipe2(low, O_CLOEXEC) != 0) return TN_FAIL(TN_ERR_IO, "no pipe: %s", strerror(errno));
  for (int i = 0; i < 2; ++i) ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, LOWEST_FD);
  int error = errno;
  for (int i = 0; i < 2; ++i) close(low[i]);
  if (ends[0] >= 0 && ends[1] >= 0) return TN_OK;
  for (int i = 0; i < 2; ++i)
    if (ends[i] >= 0) close(ends[i]);
  return TN_FAIL(TN_ERR_IO, "no pipe: %s", strerror(error));
}

static int fill_actions(posix_spawn_file_actions_t *actions, int end, const int *files, int n_files) {
  int error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
  if (!error) error = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
  if (!error) error = posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0);
  if (!error) error = posix_spawn_file_actions_adddup2(actions, end, CHILD_FD);
  for (int i = 0; i < n_files && !error; ++i)
    error = posix_spawn_file_actions_adddup2(actions, files[i], CHILD_FD + 1 + i);
  return error;
}

static int fill_attributes(posix_spawnattr_t *attributes) {
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  int error = posix_spawnattr_setsigdefault(attributes, &all);
  if (!error) error = posix_spawnattr_setsigmask(attributes, &none);
  if (!error) error = posix_spawnattr_setpgroup(attributes, 0);
  if (!error)
    error = posix_spawnattr_setflags(attributes,
                                     POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  return error;
}

static tn_status spawn(const char *program, const char *argument, int end, const int *files, int n_files,
                       pid_t *out_pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  char fd[16];
  snprintf(fd, sizeof fd, "%d", CHILD_FD);
  char *const argv[] = {(char *)(uintptr_t)program, fd, (char *)(uintptr_t)argument, NULL};
  if (posix_spawn_file_actions_init(&actions) != 0) return tni_oom(sizeof actions, "a child process");
  int error = posix_spawnattr_init(&attributes);
  if (!error) {
    error = fill_actions(&actions, end, files, n_files);
    if (!error) error = fill_attributes(&attributes);
    if (!error) error = posix_spawn(out_pid, program, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return error ? TN_FAIL(TN_ERR_IO, "%s could not be started: %s", program, strerror(error)) : TN_OK;
}

/* ------------------------------------------------------------------ waiting */

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* false: the pipe's end, or more than anybody would say. */
static bool read_some(int fd, tni_child *child, size_t *capacity) {
  if (*capacity - child->output_bytes < 4097) {
    char *more = *capacity < OUTPUT_MOST ? realloc(child->output, *capacity + 65536) : NULL;
    if (!more) return false;
    child->output = more;
    *capacity += 65536;
  }
  ssize_t n = read(fd, child->output + child->output_bytes, *capacity - child->output_bytes - 1);
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  child->output_bytes += (size_t)n;
  return n > 0;
}

/* true: it has ended. */
static bool has_ended(pid_t pid, int *out_status) {
  pid_t got = waitpid(pid, out_status, WNOHANG);
  if (got == pid) return true;
  if (got == 0 || errno == EINTR) return false;
  *out_status = -1;
  return true;
}

static void wait_for(pid_t pid, int fd, uint32_t limit_ms, tni_child *child) {
  const int64_t start = now_ms();
  size_t capacity = 0;
  bool open = true, ended = false;
  while (!ended) {
    int64_t left = start + limit_ms - now_ms();
    if (left <= 0 && !child->timed_out) {
      child->timed_out = true;
      kill(-pid, SIGKILL);
      kill(pid, SIGKILL);
    }
    /* Once the pipe is closed the end is near; else look now and then, since somebody else may hold it. */
    struct pollfd look = {.fd = open ? fd : -1, .events = POLLIN};
    int ready = poll(&look, 1, open ? (left > 20 || left <= 0 ? 20 : (int)left) : 1);
    if (ready > 0 && open) {
      open = read_some(fd, child, &capacity);
      if (open) continue;
    }
    ended = has_ended(pid, &child->status);
  }
  struct pollfd rest = {.fd = fd, .events = POLLIN};
  while (open && poll(&rest, 1, 0) > 0) open = read_some(fd, child, &capacity);
  child->milliseconds = (uint32_t)(now_ms() - start);
}

tn_status tni_child_run(const char *program, const char *argument, const int *files, int n_files, uint32_t limit_ms,
                        tni_child *out_child) {
  *out_child = (tni_child){0};
  int ends[2] = {-1, -1};
  pid_t pid = 0;
  TN_TRY(make_pipe(ends));
  tn_status status = spawn(program, argument, ends[1], files, n_files, &pid);
  close(ends[1]);
  if (status == TN_OK) wait_for(pid, ends[0], limit_ms, out_child);
  close(ends[0]);
  if (out_child->output)
    out_child->output[out_child->output_bytes] = 0;
  else if (status == TN_OK && !(out_child->output = calloc(1, 1)))
    status = tni_oom(1, "a child's words");
  return status;
}

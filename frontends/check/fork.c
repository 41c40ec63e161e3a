/* SPDX-License-Identifier: Apache-2.0
 *
 * fork.contract: a process opens the device, works, and forks. In the child the backend does what it declared (safe,
 * reinit, poisoned), within a deadline, the CPU works in any case, and the parent goes on undisturbed.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "frontends/check/door.h"
#include "frontends/check/host.h"
#include "frontends/check/tools.h"

/* MANY: more than the core's cache keeps of what came before, so that the child asks the backend. */
enum { N = 1000, MANY = 2 << 20, CHILD_S = 5, TIMEOUT_S = 15 };

/* What the child leaves in memory that both see. */
typedef struct answer {
  tn_status device, cpu;
  bool device_same, cpu_same, old_same, done;
  tn_status old;
  char words[400];
} answer;

static tn_status round_trip(tn_device device, tn_dim size, unsigned seed, bool *out_same) {
  float *values = tni_check_alloc((size_t)size * sizeof *values),
        *back = tni_check_alloc((size_t)size * sizeof *back);
  tn_tensor *t = NULL;
  tni_host_values(values, (size_t)size, seed);
  tn_status status = tni_host_tensor(values, &size, 1, device, &t);
  if (status == TN_OK) status = tni_host_read(t, back, (size_t)size);
  *out_same = status == TN_OK && !memcmp(values, back, (size_t)size * sizeof *values);
  tn_tensor_release(t);
  free(values);
  free(back);
  return status;
}

static void child(answer *a, tn_device device, tn_tensor *old, const float *old_values) {
  float back[N];
  a->device = round_trip(device, MANY, 7, &a->device_same);
  snprintf(a->words, sizeof a->words, "%s", tn_error_message());
  a->cpu = round_trip((tn_device){0}, MANY, 8, &a->cpu_same);
  a->old = tni_host_read(old, back, N);
  a->old_same = a->old == TN_OK && !memcmp(back, old_values, sizeof back);
  a->done = true;
  _exit(0);
}

/* Until the child has ended; false: it had to be killed. */
static bool wait_for(pid_t pid, int *out_status) {
  for (double limit = tni_check_seconds() + tni_check_patience(CHILD_S); tni_check_seconds() < limit;) {
    if (waitpid(pid, out_status, WNOHANG) == pid) return true;
    nanosleep(&(struct timespec){0, 2000000}, NULL);
  }
  kill(pid, SIGKILL);
  waitpid(pid, out_status, 0);
  return false;
}

static void judge(tni_check_report *r, const char *item, const answer *a, uint32_t declared) {
  if (declared == TN_FORK_POISONED) {
    tni_check_that(
        r, a->device != TN_OK && *a->words, item,
        "it is declared poisoned, and in the child a new tensor was answered \"%s\" with the words \"%s\"",
        tn_status_name(a->device), a->words);
  } else {
    bool old_holds = declared == TN_FORK_REINIT || a->old_same;
    tni_check_that(r, a->device_same && old_holds, item, "it is declared %s, and in the child %s: \"%s\" %s",
                   declared == TN_FORK_SAFE ? "safe" : "reinit",
                   a->device_same ? "a tensor from before is not what it was"
                                  : "a new tensor does not keep its values",
                   tn_status_name(a->device_same ? a->old : a->device), a->words);
  }
  tni_check_that(r, a->cpu_same, "cpu in the child", "the CPU answers \"%s\"", tn_status_name(a->cpu));
}

/* false: the child hung. */
static bool fork_once(tni_check_report *r, const char *name, tn_device device, tn_tensor *old,
                      const float *values, uint32_t declared) {
  answer *a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (a == MAP_FAILED) return tni_check_skip(r, name, "no shared memory"), true;
  pid_t pid = fork();
  if (pid == 0) child(a, device, old, values);
  int status = 0;
  bool in_time = pid > 0 && wait_for(pid, &status);
  if (!in_time)
    tni_check_fail(r, name, "the child hangs: it did not answer within %d s", tni_check_patience(CHILD_S));
  else if (WIFSIGNALED(status))
    tni_check_fail(r, name, "the child was ended by SIG%s", sigabbrev_np(WTERMSIG(status)));
  else if (!a->done)
    tni_check_fail(r, name, "the child ended with exit status %d", WEXITSTATUS(status));
  else
    judge(r, name, a, declared);
  munmap(a, sizeof *a);
  return in_time;
}

/* Stage "DEVICE VALUE": with libtenon. */
static void run_device(tni_check_report *r, const char *stage) {
  char name[64];
  unsigned declared;
  if (sscanf(stage, "%63s %u", name, &declared) != 2) return;
  const tn_dim size = N;
  float values[N];
  bool same;
  tn_device device;
  tn_tensor *old = NULL;
  tni_check_at(r, name);
  if (!tni_check_device(r, name, &device)) return;
  tni_host_values(values, N, 2);
  if (!tni_check_ok(r, tni_host_tensor(values, &size, 1, device, &old), name, "a tensor before the fork"))
    return;
  /* Twice, unless the first is a finding that the second could only repeat, after as long a wait. */
  if (fork_once(r, name, device, old, values, declared)) fork_once(r, name, device, old, values, declared);
  float back[N];
  tn_status status = tni_host_read(old, back, N);
  bool whole = status == TN_OK && !memcmp(back, values, sizeof back);
  status = round_trip(device, N, 3, &same);
  tni_check_that(r, whole && status == TN_OK && same, "parent goes on",
                 "after the forks the parent's device answers \"%s\" %s", tn_status_name(status),
                 tn_error_message());
  tn_tensor_release(old);
}

static void run(tni_check_report *r, const tni_check_context *c) {
  if (c->stage) return run_device(r, c->stage);
  tni_door door;
  if (!tni_door_enter(r, c, &door)) return;
  for (size_t i = 0; i < door.n_backends; i++) {
    const char *name = door.backends[i].device_name;
    char *stage = tni_check_text("%s %u", name, door.backends[i].fork);
    tni_check_end end;
    if (tni_check_stage(r, c, stage, NULL, TIMEOUT_S, &end) && (!end.finished || end.exit_status))
      tni_check_fail(r, name, "the process that forks %s", end.words);
    free(stage);
  }
  tni_door_close(&door);
}

const tni_check tni_check_fork_contract = {
    .name = "fork.contract",
    .about = "after a fork the device does what the backend declared, in time",
    .kinds = TNI_CHECK_BACKEND,
    .timeout_s = 40,
    .run = run};

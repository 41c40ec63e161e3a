/* SPDX-License-Identifier: Apache-2.0
 *
 * core/base/parallel*: who runs regions (our threads or libgomp's), what a fork leaves of them, the number of threads,
 * and naming other thread runtimes. Each test that turns to libgomp does so in a child process, because the choice is
 * for good.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "core/base/parallel_int.h"
#include "core/base/thread_state.h"
#include "tn_test.h"

enum { CHUNKS = 5 };

typedef struct record {
  _Atomic int runs[CHUNKS]; /* of the chunk that begins at 10 times its place */
  _Atomic int wrong;
  pthread_t threads[CHUNKS];
} record;

static tn_status note(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  record *r = ctx;
  if (begin % 10 || end != begin + 10 || worker != begin / 10) atomic_fetch_add(&r->wrong, 1);
  atomic_fetch_add(&r->runs[begin / 10 % CHUNKS], 1);
  r->threads[begin / 10 % CHUNKS] = pthread_self();
  usleep(1000); /* so that others get theirs */
  return TN_OK;
}

/* Each chunk once, with its borders and number. */
static bool is_whole(const record *r) {
  bool good = r->wrong == 0;
  for (int i = 0; i < CHUNKS; ++i) good &= r->runs[i] == 1;
  return good;
}
static bool run_region(record *r) {
  *r = (record){0};
  return tni_parallel_set_threads(CHUNKS) == TN_OK && tni_parallel_for(50, 10, note, r) == TN_OK &&
         is_whole(r);
}
/* The caller runs what nobody else begins, so on a busy machine that may take many regions of 5 ms: its sleeps end before
 * threads that are new get their first turn. */
static bool others_help(void) {
  record r;
  for (int k = 0; k < 4000; ++k) {
    if (!run_region(&r)) return false;
    for (int i = 0; i < CHUNKS; ++i)
      if (!pthread_equal(r.threads[i], pthread_self())) return true;
  }
  return false;
}

#ifndef __SANITIZE_THREAD__ /* TSan knows neither libgomp's locks nor threads across a fork */
/* Threads of this process whose name is our workers'. */
static int own_workers(void) {
  DIR *tasks = opendir("/proc/self/task");
  int n = 0;
  for (struct dirent *e = tasks ? readdir(tasks) : NULL; e; e = readdir(tasks)) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
    FILE *f = fopen(path, "r");
    if (f && fgets(name, sizeof name, f) && strncmp(name, "tenon-worker", 12) == 0) ++n;
    if (f) fclose(f);
  }
  if (tasks) closedir(tasks);
  return n;
}

/* They name themselves when they begin, and end a moment after they were joined. */
static bool workers_become(int n) {
  for (int i = 0; i < 2000 && own_workers() != n; ++i) usleep(1000);
  return own_workers() == n;
}

/* Runs fn in a child that a hang would kill; true: it answered so. */
static bool holds_in_child(bool (*fn)(void)) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    bool good = fn();
    _exit(good ? 0 : 1);
  }
  int result = -1;
  return child > 0 && waitpid(child, &result, 0) == child && result == 0;
}
#endif

/* ------------------------------------------------------------------ our threads */

TN_TEST(threads_executor, each_chunk_runs_once_with_its_own_number) {
  int32_t before = tni_parallel_threads();
  record r;
  for (int i = 0; i < 20; ++i) TN_CHECK(run_region(&r));
  TN_CHECK(others_help());
  TN_CHECK_OK(tni_parallel_set_threads(before));
  tni_parallel_stop();
}

static tn_status count(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  (void)worker;
  atomic_fetch_add((_Atomic int64_t *)ctx, end - begin);
  return TN_OK;
}
TN_TEST(threads_executor, short_regions_lose_and_double_no_chunk) {
  int32_t before = tni_parallel_threads();
  TN_CHECK_OK(tni_parallel_set_threads(4));
  for (int i = 0; i < 20000; ++i) {
    _Atomic int64_t sum = 0;
    TN_CHECK_OK(tni_parallel_for(2 + i % 3, 1, count, &sum));
    TN_CHECK_INT(sum, 2 + i % 3);
  }
  TN_CHECK_OK(tni_parallel_set_threads(before));
  tni_parallel_stop();
}

static tn_status fail_always(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  (void)end, (void)worker, (void)ctx;
  return tn_fail(TN_ERR_DATA, "chunk at %lld", (long long)begin);
}
TN_TEST(threads_executor, one_error_of_several_is_told_and_none_leaks) {
  int32_t before = tni_parallel_threads();
  TN_CHECK_OK(tni_parallel_set_threads(4));
  for (int i = 0; i < 50; ++i)
    TN_CHECK_FAILS(tni_parallel_for(8, 1, fail_always, NULL), TN_ERR_DATA, "chunk at ");
  _Atomic int64_t sum = 0;
  TN_CHECK_OK(tni_parallel_for(8, 1, count, &sum));
  TN_CHECK_OK(tni_parallel_set_threads(before));
  tni_parallel_stop();
}

/* ------------------------------------------------------------------ libgomp's threads */

#ifndef __SANITIZE_THREAD__
/* As a provider's library would: libgomp is there, and somebody declares it. false: this machine has none. */
static bool turn_to_libgomp(void) {
  if (!dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL)) return false;
  tni_parallel_use_runtime("libgomp", "some-provider");
  return true;
}

/* It stays loaded: its constructor's memory would be a leak. */
static bool libgomp_there(void) { return dlopen("libgomp.so.1", RTLD_LAZY) != NULL; }

static bool regions_move(void) {
  record r;
  if (!run_region(&r) || !workers_become(CHUNKS - 1)) return false;
  if (!turn_to_libgomp() || !workers_become(0)) return false;
  for (int i = 0; i < 20; ++i)
    if (!run_region(&r)) return false;
  if (own_workers() != 0 || !others_help()) return false;
  _Atomic int64_t sum = 0;
  tn_status status = tni_parallel_for(8, 1, fail_always, NULL);
  if (status != TN_ERR_DATA || !strstr(tn_error_message(), "chunk at ")) return false;
  for (int i = 0; i < 2000; ++i)
    if (tni_parallel_for(2, 1, count, &sum) != TN_OK) return false;
  return sum == 4000;
}

/* What a provider sees: omp_get_max_threads, and how many threads a region of 4 gets. */
static void count_team(void *p) { atomic_fetch_add((_Atomic int *)p, 1); }
static int team_of_four(void) {
  _Atomic int n = 0;
  void *library = dlopen("libgomp.so.1", RTLD_LAZY), *address = dlsym(library, "GOMP_parallel");
  void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
  memcpy(&parallel, &address, sizeof parallel);
  parallel(count_team, &n, 4, 0);
  return n;
}
static int max_threads(void) {
  void *library = dlopen("libgomp.so.1", RTLD_LAZY), *address = dlsym(library, "omp_get_max_threads");
  int (*get)(void);
  memcpy(&get, &address, sizeof get);
  return get();
}

static bool child_of_libgomp(void) {
  return max_threads() == 1 && team_of_four() == 1 && others_help() && workers_become(CHUNKS - 1) &&
         team_of_four() == 1;
}
/* The parent has run a team, so a child that entered libgomp would hang. */
static bool forks_from_libgomp(void) {
  record r;
  if (!turn_to_libgomp() || !run_region(&r) || team_of_four() != 4) return false;
  for (int i = 0; i < 3; ++i)
    if (!holds_in_child(child_of_libgomp)) return false;
  return run_region(&r) && own_workers() == 0 && team_of_four() == 4;
}

/* Exec'ed, not forked: a forked child keeps our threads, which is another test. Without the variables by which
 * Criterion knows its children. */
static bool alone(const char *which) {
  char command[512];
  snprintf(command, sizeof command, "env -i TENON_EXECUTOR_CHILD=%s /proc/%d/exe --list >/dev/null", which,
           (int)getpid());
  return system(command) == 0;
}

/* At exit, when all that the core does before main has been done. */
static const char *played;
static void play_child(void) {
  alarm(120);
  _exit((strcmp(played, "move") == 0 ? regions_move() : forks_from_libgomp()) ? 0 : 1);
}
__attribute__((constructor)) static void be_child(void) {
  played = getenv("TENON_EXECUTOR_CHILD");
  if (played) atexit(play_child);
}

static bool opens_libgomp_in_child(void) {
  record r;
  return turn_to_libgomp() && max_threads() == 1 && run_region(&r) && workers_become(CHUNKS - 1);
}
#endif

TN_TEST(threads_executor, regions_move_to_libgomp_and_our_workers_end) {
#ifndef __SANITIZE_THREAD__
  if (libgomp_there()) TN_CHECK(alone("move"));
#endif
}

TN_TEST(threads_executor, a_child_of_a_process_over_libgomp_computes_and_holds_it_to_one_thread) {
#ifndef __SANITIZE_THREAD__
  if (libgomp_there()) TN_CHECK(alone("fork"));
#endif
}

TN_TEST(threads_executor, a_forked_child_keeps_our_threads_when_a_provider_over_libgomp_opens) {
#ifndef __SANITIZE_THREAD__
  if (libgomp_there()) TN_CHECK(holds_in_child(opens_libgomp_in_child));
#endif
}

/* ------------------------------------------------------------------ second runtimes */

TN_TEST(threads_executor, runtimes_are_known_by_their_files) {
  TN_CHECK_STR(tni_runtime_called("/usr/lib/x86_64-linux-gnu/libgomp.so.1"), "GNU OpenMP");
  TN_CHECK_STR(tni_runtime_called("/wheel/torch.libs/libgomp-a34b3233.so.1.0.0"), "GNU OpenMP");
  TN_CHECK_STR(tni_runtime_called("/usr/lib/llvm-14/lib/libomp.so.5"), "LLVM OpenMP");
  TN_CHECK_STR(tni_runtime_called("libiomp5.so"), "Intel OpenMP");
  TN_CHECK_STR(tni_runtime_called("/lib/libtbb.so.12"), "oneTBB");
  TN_CHECK_PTR_NULL(tni_runtime_called("/lib/libtbbmalloc.so.2"));
  TN_CHECK_PTR_NULL(tni_runtime_called("/libgomp/other.so"));
  TN_CHECK_PTR_NULL(tni_runtime_called("libomptarget.so.14"));
  TN_CHECK_PTR_NULL(tni_runtime_called(""));
}

static char said[4096];
static void gather_lines(void *ctx, const char *words) {
  (void)ctx;
  strncat(said, words, sizeof said - strlen(said) - 2);
  strcat(said, "\n");
}
static void gather_log(void *ctx, int32_t level, const char *words) {
  if (level >= TN_LOG_WARN) gather_lines(ctx, words);
}

#ifndef __SANITIZE_THREAD__
/* In a child, so that nothing stays loaded; there the choice of libgomp is named and not taken. */
static bool names_the_second(void) {
  void *second = dlopen("libomp.so.5", RTLD_NOW | RTLD_LOCAL);
  void *first = dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!first || !second) return true; /* the machine has no two */
  said[0] = 0;
  if (tn_threads_describe(gather_lines, NULL) != TN_OK || !strstr(said, "GNU OpenMP, ") ||
      !strstr(said, "LLVM OpenMP, ") || !strstr(said, "a second one"))
    return false;
  said[0] = 0;
  tn_log_set(gather_log, NULL);
  tni_parallel_use_runtime("libgomp", "some-provider");
  tn_log_set(NULL, NULL);
  return strstr(said, "plugin some-provider computes on libgomp's threads") &&
         strstr(said, "a second thread runtime: LLVM OpenMP (");
}
#endif

TN_TEST(threads_executor, a_second_runtime_is_named_in_the_report_and_the_log) {
  said[0] = 0;
  TN_CHECK_FAILS(tn_threads_describe(NULL, NULL), TN_ERR_INVALID_ARGUMENT, "line is NULL");
  TN_CHECK_OK(tn_threads_describe(gather_lines, NULL));
  TN_CHECK_CONTAINS(said, "threads: ");
  TN_CHECK_CONTAINS(said, "processors: ");
  TN_CHECK_CONTAINS(said, "parallel regions run on Tenon's own threads");
#ifndef __SANITIZE_THREAD__
  TN_CHECK(holds_in_child(names_the_second));
#endif
}

TN_TEST(threads_executor, a_runtime_that_cannot_be_shared_is_named) {
  said[0] = 0;
  tn_log_set(gather_log, NULL);
  tni_parallel_use_runtime("libomp", "some-provider");
  tn_log_set(NULL, NULL);
  TN_CHECK_CONTAINS(said, "plugin some-provider computes on threads of libomp, beside the host's");
}

/* ------------------------------------------------------------------ the number of threads */

static bool trains(void) {
  tn_tensor *x = NULL, *y = NULL, *loss = NULL;
  bool good = tn_rand((const int64_t[]){300, 300}, 2, NULL, &x) == TN_OK &&
              tn_set_requires_grad(x, true) == TN_OK && tn_mm(x, x, &y) == TN_OK &&
              tn_sum(y, TN_DTYPE_NONE, &loss) == TN_OK && tn_backward_run(loss, NULL) == TN_OK &&
              tn_grad(x) != NULL;
  tn_tensor_release(loss);
  tn_tensor_release(y);
  tn_tensor_release(x);
  return good;
}

TN_TEST(threads_executor, counts_out_of_range_are_refused_in_words_and_work_goes_on) {
  int32_t before = tn_num_threads();
  static const int32_t refused[] = {0, -1, INT32_MIN, 1025, 10000, INT32_MAX};
  TN_CHECK_OK(tn_set_num_threads(2));
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
    char words[64];
    snprintf(words, sizeof words, "expected 1 to 1024, got %d", refused[i]);
    TN_CHECK_FAILS(tn_set_num_threads(refused[i]), TN_ERR_INVALID_ARGUMENT, words);
    TN_CHECK_INT(tn_num_threads(), 2);
    TN_CHECK(trains());
  }
  TN_CHECK_OK(tn_set_num_threads(before));
  tni_parallel_stop();
}

TN_TEST(threads_executor, far_more_threads_than_processors_are_honoured) {
  int32_t before = tn_num_threads();
  TN_CHECK_OK(tn_set_num_threads(64));
  TN_CHECK(trains());
  _Atomic int64_t sum = 0;
  TN_CHECK_OK(tni_parallel_for(640, 1, count, &sum));
  TN_CHECK_INT(sum, 640);
  TN_CHECK_OK(tn_set_num_threads(before));
  tni_parallel_stop();
}

/* What a fresh process takes from its environment. */
static int threads_under(const char *settings) {
  char command[1024], line[512];
  int n = -1;
  snprintf(command, sizeof command, "env -u OMP_NUM_THREADS -u TENON_NUM_THREADS %s '%s' devices --verbose",
           settings, TN_TEST_CLI);
  FILE *pipe = popen(command, "r");
  TN_CHECK_NOT_NULL(pipe);
  while (fgets(line, sizeof line, pipe)) sscanf(line, "threads: %d", &n);
  pclose(pipe);
  return n;
}

TN_TEST(threads_executor, the_environment_gives_the_number) {
  int machine = threads_under("");
  if (machine < 0 && access(TN_TEST_CLI, X_OK) != 0) return; /* only this program was built */
  TN_CHECK(machine >= 1);
  TN_CHECK_INT(threads_under("TENON_NUM_THREADS=3"), 3);
  TN_CHECK_INT(threads_under("OMP_NUM_THREADS=5"), 5);
  TN_CHECK_INT(threads_under("OMP_NUM_THREADS=4,2"), 4);
  TN_CHECK_INT(threads_under("TENON_NUM_THREADS=3 OMP_NUM_THREADS=5"), 3);
  TN_CHECK_INT(threads_under("TENON_NUM_THREADS= OMP_NUM_THREADS=5"), 5);
  TN_CHECK_INT(threads_under("TENON_NUM_THREADS=0"), machine);
  TN_CHECK_INT(threads_under("TENON_NUM_THREADS=10000"), machine);
  TN_CHECK_INT(threads_under("TENON_NUM_THREADS=2x"), machine);
  TN_CHECK_INT(threads_under("TENON_NUM_THREADS=-4"), machine);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * host->parallel_for: cuts a region into chunks, and gives them to an executor.
 *
 * Note [Chunk borders]
 * The borders of a region's chunks come from n, grain and the thread count, and from nothing else: not from
 * load, not from which thread is free, not from the executor. A region that runs inline (nested, or while another
 * thread's region runs) walks the same chunks in order. So the same seed and thread count give the same bits.
 *
 * Note [One pool]
 * Two pools in a process take the processors from each other. So as soon as a provider is open whose library computes
 * with libgomp's threads (its manifest says so), regions run on those as well and our own threads end. In builds for
 * the thread sanitizer, which cannot see libgomp's locks, and in forked children (Note [libgomp and fork]) our own
 * threads run them always.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/parallel_int.h"
#include "core/base/thread_state.h"
#include "core/base/topology.h"

#if defined(__SANITIZE_THREAD__)
#define OWN_THREADS_ONLY true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OWN_THREADS_ONLY true
#endif
#endif
#ifndef OWN_THREADS_ONLY
#define OWN_THREADS_ONLY false
#endif

static _Atomic int32_t busy;               /* a region runs, or the executor changes */
static _Atomic int32_t threads_now;        /* 0: not decided yet */
static _Atomic(const char *) threads_from; /* who decided */
static _Atomic bool over_libgomp; /* the executor; changes only while busy is held, and in a forked child */

/* ------------------------------------------------------------------ regions */

/* The worker number of this thread: inside a chunk its own, so that nested regions of several workers that share
 * one array of per-worker places do not meet in place 0. */
static int32_t own_number(void) { return tni_tls.parallel_worker ? tni_tls.parallel_worker - 1 : 0; }

static int64_t chunk_end(const tni_chunks *c, int64_t begin) {
  return c->n - begin > c->chunk ? begin + c->chunk : c->n;
}

void tni_chunk_run(const tni_chunks *c, int32_t i) {
  int64_t begin = c->chunk * i, end = chunk_end(c, begin);
  int32_t outer = tni_tls.parallel_worker;
  tni_tls.parallel_worker = i + 1;
  tn_status status = c->fn(begin, end, i, c->ctx);
  tni_tls.parallel_worker = outer;
  tn_status none = TN_OK;
  if (status != TN_OK && atomic_compare_exchange_strong(&c->region->status, &none, status))
    atomic_store(&c->region->words, tni_error_take());
}

/* Nested, contended or one-chunk regions: the same chunks, in order, first error wins. */
static tn_status run_here(const tni_chunks *c, int32_t n_chunks) {
  for (int32_t i = 0; i < n_chunks; ++i) {
    int64_t begin = c->chunk * i;
    TN_TRY(c->fn(begin, chunk_end(c, begin), own_number(), c->ctx));
  }
  return TN_OK;
}

static tn_status run_together(const tni_chunks *c, int32_t n_chunks) {
  tni_region r = {.chunks = *c, .n_chunks = n_chunks};
  r.chunks.region = &r;
  (atomic_load_explicit(&over_libgomp, memory_order_relaxed) ? tni_gomp_run : tni_team_run)(&r);
  atomic_store_explicit(&busy, 0, memory_order_release);
  tn_status status = atomic_load(&r.status);
  if (status != TN_OK) tni_error_give(atomic_load(&r.words));
  return status;
}

tn_status tni_parallel_for(int64_t n, int64_t grain, tn_parallel_fn fn, void *ctx) {
  if (n <= 0) return TN_OK;
  if (grain < 1) grain = 1;
  if (n <= grain) return fn(0, n, own_number(), ctx);
  int64_t most = n / grain + (n % grain != 0);
  int32_t threads = tni_parallel_threads(), told = tni_tls.threads_told;
  if (told && told < threads) threads = told;
  int32_t n_chunks = most < threads ? (int32_t)most : threads;
  tni_chunks c = {.fn = fn, .ctx = ctx, .n = n, .chunk = n / n_chunks + (n % n_chunks != 0)};
  n_chunks = (int32_t)(n / c.chunk + (n % c.chunk != 0));
  if (n_chunks == 1 || tni_tls.parallel_worker) return run_here(&c, n_chunks);
  int32_t idle = 0;
  if (!atomic_compare_exchange_strong(&busy, &idle, 1)) return run_here(&c, n_chunks);
  return run_together(&c, n_chunks);
}

/* ------------------------------------------------------------------ how many */

/* The first number of a variable: OMP_NUM_THREADS may be a list, one number a level. 0: not set, or no such number. */
static int32_t wish(const char *variable) {
  const char *words = getenv(variable);
  if (!words || !*words) return 0;
  char *end;
  long asked = strtol(words, &end, 10);
  end += strspn(end, " \t");
  if (end != words && asked >= 1 && asked <= TNI_THREADS_MOST && (!*end || *end == ','))
    return (int32_t)asked;
  tn_log(TN_LOG_WARN, "%s is '%s'; expected 1 to %d; it is not used", variable, words, TNI_THREADS_MOST);
  return 0;
}

static int32_t decide(const char **out_from) {
  int32_t n = wish(*out_from = "TENON_NUM_THREADS");
  if (!n) n = wish(*out_from = "OMP_NUM_THREADS");
  if (n) return n;
  *out_from = "the machine";
  n = tni_topology_threads();
  return n < TNI_THREADS_MOST ? n : TNI_THREADS_MOST;
}

int32_t tni_parallel_threads(void) {
  int32_t n = atomic_load_explicit(&threads_now, memory_order_relaxed);
  if (TNI_LIKELY(n)) return n;
  const char *from;
  int32_t decided = decide(&from);
  if (!atomic_compare_exchange_strong(&threads_now, &n, decided))
    return n; /* another thread was first, or has set it */
  atomic_store(&threads_from, from);
  return decided;
}

int32_t tni_parallel_tell_threads(void) { return tni_tls.threads_told = tni_parallel_threads(); }

tn_status tni_parallel_set_threads(int32_t n) {
  if (n < 1 || n > TNI_THREADS_MOST)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "number of threads: expected 1 to %d, got %d", TNI_THREADS_MOST,
                   n);
  atomic_store_explicit(&threads_now, n, memory_order_relaxed);
  atomic_store(&threads_from, "the program");
  tni_tls.threads_told = 0;
  return TN_OK;
}

/* ------------------------------------------------------------------ the executor */

/* Waits for the region that another thread runs; those that come meanwhile run inline. */
static void take_turn(void) {
  for (int32_t idle = 0; !atomic_compare_exchange_strong(&busy, &idle, 1); idle = 0) sched_yield();
}

void tni_parallel_stop(void) {
  if (tni_tls.parallel_worker) return; /* from a chunk: its own region cannot end before it returns */
  take_turn();
  tni_team_stop();
  atomic_store(&busy, 0);
}

/* Names runtimes beside the one that is used, each time a provider says which one that is. */
static void warn_of_others(const char *plugin) {
  tni_runtime loaded[8];
  size_t n = tni_runtimes_loaded(loaded, 8), used = 0;
  for (size_t i = 0; i < n && i < 8; ++i) {
    bool gomp = strcmp(loaded[i].what, "GNU OpenMP") == 0;
    if (gomp && used++ == 0) continue;
    tn_log(TN_LOG_WARN,
           "plugin %s computes on libgomp's threads, and this process has loaded a second thread runtime: %s "
           "(%s). If both work at once, they take the processors from each other",
           plugin, loaded[i].what, loaded[i].path);
  }
}

void tni_parallel_use_runtime(const char *runtime, const char *plugin) {
  if (strcmp(runtime, "libgomp") != 0) {
    tn_log(TN_LOG_WARN,
           "plugin %s computes on threads of %s, beside the host's: where both work at once, they take the "
           "processors from each other. The runtime that can be shared is libgomp",
           plugin, runtime);
    return;
  }
  if (atomic_load(&over_libgomp)) return;
  if (!tni_gomp_open()) {
    tn_log(TN_LOG_WARN,
           "plugin %s declares libgomp, but no libgomp.so.1 is loaded: the host keeps its own threads",
           plugin);
    return;
  }
  warn_of_others(plugin);
  if (tni_fork_generation()) tni_gomp_hold();
  if (OWN_THREADS_ONLY || tni_fork_generation() || tni_tls.parallel_worker) return;
  take_turn();
  tni_team_stop();
  atomic_store(&over_libgomp, true);
  atomic_store(&busy, 0);
  tn_log(TN_LOG_INFO, "plugin %s: parallel regions run on libgomp's threads from now on", plugin);
}

/* ------------------------------------------------------------------ in words */

static void TN_PRINTF(3, 4)
    say(void (*line)(void *ctx, const char *words), void *ctx, const char *format, ...) {
  char words[512];
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  line(ctx, words);
}

static void describe_runtimes(void (*line)(void *ctx, const char *words), void *ctx) {
  tni_runtime loaded[8];
  bool gomp_used = atomic_load(&over_libgomp);
  size_t n = tni_runtimes_loaded(loaded, 8), used = 0;
  say(line, ctx, "parallel regions run on %s", gomp_used ? "libgomp's threads" : "Tenon's own threads");
  for (size_t i = 0; i < n && i < 8; ++i) {
    bool gomp = strcmp(loaded[i].what, "GNU OpenMP") == 0;
    bool first = gomp && used++ == 0;
    say(line, ctx, "thread runtime: %s, %s%s", loaded[i].what, loaded[i].path,
        first && gomp_used ? ", shared with Tenon"
        : first            ? ", loaded; no open provider computes on its threads"
                : ", a second one: where both work at once, they take the processors from each other");
  }
  if (n > 8) say(line, ctx, "thread runtime: and %zu more", n - 8);
}

void tni_parallel_describe(void (*line)(void *ctx, const char *words), void *ctx) {
  const tni_topology *t = tni_topology_get();
  int32_t quota = tni_cgroup_cpus("");
  int32_t n = tni_parallel_threads();
  const char *from = atomic_load(&threads_from);
  say(line, ctx, "threads: %d, from %s", n, from ? from : "the program");
  say(line, ctx, "processors: %d on %d core%s and %d memory node%s%s (%s)", t->n_cpus, t->n_cores,
      t->n_cores == 1 ? "" : "s", t->n_nodes, t->n_nodes == 1 ? "" : "s",
      t->whole ? "" : ", all that the affinity mask allows", t->source);
  if (quota != INT32_MAX)
    say(line, ctx, "the cgroup allows the time of %d processor%s", quota, quota == 1 ? "" : "s");
  say(line, ctx, "workers are bound to: %s (TENON_BIND)", tni_topology_binding());
  describe_runtimes(line, ctx);
}

/* ------------------------------------------------------------------ fork */

static void nothing(void) {}
static void after_fork_child(void) {
  atomic_store(&busy, 0); /* whose region it was does not exist here */
  atomic_store(&over_libgomp, false);
  tni_gomp_hold();
}
TNI_FORK_PART(parallel, TNI_FORK_PARALLEL, nothing, nothing, after_fork_child);

/* SPDX-License-Identifier: Apache-2.0
 *
 * host->parallel_for over a pthread pool of our own.
 *
 * Note [Chunk borders]
 * The borders of a region's chunks come from n, grain and the thread count, and from nothing else: not from
 * load, not from which thread is free. A region that runs inline (nested, or while another thread's region
 * runs) walks the same chunks in order. So the same seed and thread count give the same bits.
 *
 * Chunk i runs on worker i; chunk 0 on the caller. Workers spin for a moment before they sleep, because a
 * training step asks for regions every few microseconds and waking a sleeper costs 3.4 us (BUDGETS).
 * After a fork the child has no workers: the generation tells, and its first region starts new ones.
 */
#include <sched.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/base/thread_state.h"

enum { SPINS = 4000, THREADS_MOST = 1024 };

typedef struct region {
  tn_parallel_fn fn;
  void *ctx;
  int64_t n;
  int64_t chunk;
  int32_t n_chunks;
} region;

static struct {
  tni_mutex mutex; /* guards sleeping, starting and stopping */
  tni_cond wake;
  tni_cond done;
  /* Counts regions (and stop) above 16 bits; below them: how many workers help. So a worker that does not
   * help never reads `region`, which may be the next one's already. */
  _Atomic uint64_t ticket;
  _Atomic int32_t pending; /* chunks of workers that have not ended */
  _Atomic int32_t sleepers;
  _Atomic int32_t caller_sleeps;
  _Atomic int32_t busy;       /* a region is running */
  _Atomic int32_t threads;    /* asked for; 0: not decided yet */
  _Atomic int32_t generation; /* bumped in a forked child */
  int32_t started_generation;
  int32_t n_workers;
  tni_worker **workers;
  _Atomic bool stop;
  region region;
  _Atomic tn_status status; /* first error of the region */
  _Atomic(char *) words;
} pool = {.mutex = TNI_MUTEX_INIT, .wake = TNI_COND_INIT, .done = TNI_COND_INIT};

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  sched_yield();
#endif
}

/* The worker number of this thread: inside a chunk its own, so that nested regions of several workers that share
 * one array of per-worker places do not meet in place 0. */
static int32_t own_number(void) { return tni_tls.parallel_worker ? tni_tls.parallel_worker - 1 : 0; }

static int64_t chunk_end(const region *r, int64_t begin) {
  return r->n - begin > r->chunk ? begin + r->chunk : r->n;
}

static void run_chunk(const region *r, int32_t i) {
  int64_t begin = r->chunk * i, end = chunk_end(r, begin);
  int32_t outer = tni_tls.parallel_worker;
  tni_tls.parallel_worker = i + 1;
  tn_status status = r->fn(begin, end, i, r->ctx);
  tni_tls.parallel_worker = outer;
  tn_status none = TN_OK;
  if (status != TN_OK && atomic_compare_exchange_strong(&pool.status, &none, status))
    atomic_store(&pool.words, tni_error_take());
}

enum { TICKET_STEP = 1 << 16, TICKET_HELP = TICKET_STEP - 1 };

static void wait_for_ticket(uint64_t seen) {
  for (int i = 0; i < SPINS; ++i) {
    if (atomic_load_explicit(&pool.ticket, memory_order_acquire) != seen) return;
    relax();
  }
  tni_mutex_lock(&pool.mutex);
  atomic_fetch_add(&pool.sleepers, 1);
  while (atomic_load(&pool.ticket) == seen) tni_cond_wait(&pool.wake, &pool.mutex);
  atomic_fetch_sub(&pool.sleepers, 1);
  tni_mutex_unlock(&pool.mutex);
}

typedef struct worker_arg {
  int32_t index;
  uint64_t ticket;
} worker_arg;

static void worker_main(void *p) {
  worker_arg arg = *(worker_arg *)p;
  tni_free(p);
  for (uint64_t seen = arg.ticket;;) {
    wait_for_ticket(seen);
    seen = atomic_load_explicit(&pool.ticket, memory_order_acquire);
    if (pool.stop) return;
    if (arg.index > (int32_t)(seen & TICKET_HELP)) continue;
    run_chunk(&pool.region, arg.index);
    if (atomic_fetch_sub_explicit(&pool.pending, 1, memory_order_acq_rel) != 1) continue;
    if (!atomic_load(&pool.caller_sleeps)) continue;
    tni_mutex_lock(&pool.mutex);
    tni_cond_signal(&pool.done);
    tni_mutex_unlock(&pool.mutex);
  }
}

static void before_fork(void) { tni_mutex_lock(&pool.mutex); }
static void after_fork_parent(void) { tni_mutex_unlock(&pool.mutex); }
static void after_fork_child(void) {
  atomic_fetch_add(&pool.generation, 1);
  atomic_store(&pool.busy, 0); /* whose region it was does not exist here */
  atomic_store(&pool.caller_sleeps, 0);
  pool.stop = false;
  tni_cond_init(&pool.wake); /* a condition whose waiters vanished may never wake another */
  tni_cond_init(&pool.done);
  tni_mutex_unlock(&pool.mutex);
}
TNI_FORK_PART(pool, TNI_FORK_PARALLEL, before_fork, after_fork_parent, after_fork_child);

/* In a forked child the parent's workers do not exist: forget them. */
static void forget_workers(void) {
  tni_free(pool.workers);
  pool.workers = NULL;
  pool.n_workers = 0;
  pool.started_generation = atomic_load(&pool.generation);
  atomic_store(&pool.sleepers, 0);
}

static tn_status start_worker(int32_t index) {
  worker_arg *arg = tni_alloc(sizeof *arg);
  if (!arg) return tni_oom(sizeof *arg, "a worker");
  *arg = (worker_arg){index, atomic_load(&pool.ticket)};
  tn_status status = tni_worker_start(worker_main, arg, "tenon-worker", &pool.workers[index - 1]);
  if (status != TN_OK) tni_free(arg);
  return status;
}

/* Starts workers 1 .. n-1. Fewer than asked is no failure: chunks of missing ones run on the caller. */
static void start_workers(int32_t n) {
  tni_worker **workers = tni_realloc(pool.workers, (size_t)n * sizeof *workers);
  if (!workers) return;
  pool.workers = workers;
  while (pool.n_workers < n - 1 && start_worker(pool.n_workers + 1) == TN_OK) pool.n_workers++;
}

static void run_inline(const region *r, int32_t from) {
  for (int32_t i = from; i < r->n_chunks; ++i) run_chunk(r, i);
}

static void wait_for_workers(void) {
  for (int i = 0; i < SPINS * 4; ++i) {
    if (atomic_load_explicit(&pool.pending, memory_order_acquire) == 0) return;
    relax();
  }
  tni_mutex_lock(&pool.mutex);
  atomic_store(&pool.caller_sleeps, 1);
  while (atomic_load(&pool.pending) != 0) tni_cond_wait(&pool.done, &pool.mutex);
  atomic_store(&pool.caller_sleeps, 0);
  tni_mutex_unlock(&pool.mutex);
}

/* Only the thread that holds pool.busy comes here. */
static tn_status run_on_pool(const region *r) {
  if (pool.started_generation != atomic_load(&pool.generation)) forget_workers();
  if (pool.n_workers < r->n_chunks - 1) {
    tni_mutex_lock(&pool.mutex);
    start_workers(r->n_chunks);
    tni_mutex_unlock(&pool.mutex);
  }
  int32_t helped = r->n_chunks - 1 < pool.n_workers ? r->n_chunks - 1 : pool.n_workers;
  atomic_store(&pool.status, TN_OK);
  pool.region = *r;
  atomic_store(&pool.pending, helped);
  uint64_t ticket = atomic_load_explicit(&pool.ticket, memory_order_relaxed);
  atomic_store(&pool.ticket, (ticket & ~(uint64_t)TICKET_HELP) + TICKET_STEP + (uint64_t)helped);
  if (helped && atomic_load(&pool.sleepers)) {
    tni_mutex_lock(&pool.mutex);
    tni_cond_broadcast(&pool.wake);
    tni_mutex_unlock(&pool.mutex);
  }
  run_chunk(r, 0);
  run_inline(r, helped + 1);
  wait_for_workers();
  tn_status status = atomic_load(&pool.status);
  if (status != TN_OK) tni_error_give(atomic_exchange(&pool.words, NULL));
  return status;
}

/* Nested, contended or one-chunk regions: the same chunks, in order, first error wins. */
static tn_status run_here(const region *r) {
  for (int32_t i = 0; i < r->n_chunks; ++i) {
    int64_t begin = r->chunk * i;
    TN_TRY(r->fn(begin, chunk_end(r, begin), own_number(), r->ctx));
  }
  return TN_OK;
}

tn_status tni_parallel_for(int64_t n, int64_t grain, tn_parallel_fn fn, void *ctx) {
  if (n <= 0) return TN_OK;
  if (grain < 1) grain = 1;
  if (n <= grain) return fn(0, n, own_number(), ctx);
  int64_t most = n / grain + (n % grain != 0);
  int32_t threads = tni_parallel_threads();
  region r = {fn, ctx, n, 0, most < threads ? (int32_t)most : threads};
  r.chunk = n / r.n_chunks + (n % r.n_chunks != 0);
  r.n_chunks = (int32_t)(n / r.chunk + (n % r.chunk != 0));
  if (r.n_chunks == 1 || tni_tls.parallel_worker) return run_here(&r);
  int32_t idle = 0;
  if (!atomic_compare_exchange_strong(&pool.busy, &idle, 1)) return run_here(&r);
  tn_status status = run_on_pool(&r);
  atomic_store(&pool.busy, 0);
  return status;
}

int32_t tni_parallel_threads(void) {
  int32_t n = atomic_load_explicit(&pool.threads, memory_order_relaxed);
  if (n) return n;
  const char *wish = getenv("TENON_NUM_THREADS");
  char *end = NULL;
  long asked = wish ? strtol(wish, &end, 10) : 0;
  if (wish && (*end || asked < 1 || asked > THREADS_MOST)) {
    tn_log(TN_LOG_WARN, "TENON_NUM_THREADS is '%s'; expected 1 to %d; using the default", wish, THREADS_MOST);
    asked = 0;
  }
  n = asked ? (int32_t)asked : tni_cpu_count();
  if (n > THREADS_MOST) n = THREADS_MOST;
  atomic_store_explicit(&pool.threads, n, memory_order_relaxed);
  return n;
}

tn_status tni_parallel_set_threads(int32_t n) {
  if (n < 1 || n > THREADS_MOST)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "number of threads: expected 1 to %d, got %d", THREADS_MOST, n);
  atomic_store_explicit(&pool.threads, n, memory_order_relaxed);
  return TN_OK;
}

/* Waits for the region that another thread runs, and is one itself to those that come meanwhile: they run inline. */
void tni_parallel_stop(void) {
  if (tni_tls.parallel_worker) return; /* from a chunk: its own region cannot end before it returns */
  for (int32_t idle = 0; !atomic_compare_exchange_strong(&pool.busy, &idle, 1); idle = 0) sched_yield();
  if (pool.started_generation != atomic_load(&pool.generation)) forget_workers();
  tni_mutex_lock(&pool.mutex);
  pool.stop = true;
  uint64_t ticket = atomic_load(&pool.ticket);
  atomic_store(&pool.ticket, (ticket & ~(uint64_t)TICKET_HELP) + TICKET_STEP);
  tni_cond_broadcast(&pool.wake);
  tni_mutex_unlock(&pool.mutex);
  for (int32_t i = 0; i < pool.n_workers; ++i) tni_worker_join(pool.workers[i]);
  tni_free(pool.workers);
  pool.workers = NULL;
  pool.n_workers = 0;
  pool.stop = false;
  atomic_store(&pool.busy, 0);
}

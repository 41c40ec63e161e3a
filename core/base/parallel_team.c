/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor that is always there: pthreads of our own, started when a region first needs them.
 *
 * Chunk i belongs to worker i, chunk 0 to the caller. A caller that is done takes chunks whose worker has not begun:
 * that worker is still waking, or another process has its processor, and to wait for it would cost more. The borders
 * are fixed, so who runs a chunk changes no result.
 *
 * Note [Claims]
 * Regions are numbered. `ticket` holds the number of the last region and, in its low bits, how many workers it asks
 * for. A worker that sees a new ticket may run its chunk only if it raises its own `claimed` from a lower number to
 * that region's, and so does the caller that takes it away: one of them succeeds. Until the chunk that it claimed has
 * ended (`done` has the number) a region cannot end, so whoever claimed may read `chunks`; who did not never reads it.
 * A worker that comes so late that its region is over finds `claimed` at that number or beyond.
 *
 * A region costs what its cache lines cost that travel between cores, some 100 ns each: the caller's with ticket and
 * chunks, and each worker's with claimed and done. So these share a line, and nothing else that is written does.
 *
 * Note [How long to spin]
 * A training step asks for regions every few microseconds to some hundred of them. A worker that spins begins within
 * 0.1 us; to wake one that sleeps costs the caller a system call of 2 to 8 us, and it comes about 20 us late. So workers
 * look for the next ticket for SPIN_NS, ten times that, before they sleep: with 200 us a step of the MLP with batch 256
 * took 0.321 ms, with 20 us 0.339; beside a process that was busy all the time 0.40 and 0.54; with 1 ms 0.318 and 0.32,
 * at the price of a processor burnt through gaps of that length (docs/measurements/2026-11-29-threads.md). Where there
 * are more threads than processors nobody spins: whoever did would keep a thread that has work from running.
 */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/parallel_int.h"
#include "core/base/topology.h"

enum { SPIN_NS = 200 * 1000, SPINS_A_LOOK = 32 };
enum { TICKET_STEP = 1 << 16, TICKET_HELP = TICKET_STEP - 1 };

enum { LINE = 64 };

/* A block of its own, which begins on a cache line. */
typedef struct mate {
  _Atomic uint64_t claimed; /* Note [Claims] */
  _Atomic uint64_t done;    /* the last region whose chunk has ended */
  _Atomic int32_t sleeps;
  int32_t index;  /* of its chunk, from 1 */
  uint64_t first; /* the ticket before the first region that it may see */
  tni_worker *thread;
  _Alignas(LINE) tni_mutex mutex; /* for wake */
  tni_cond wake;
} mate;

static struct {
  _Alignas(LINE) _Atomic uint64_t ticket;
  tni_chunks chunks;
  _Atomic bool caller_sleeps;
  _Atomic bool stop;
  _Atomic bool spins;             /* there is a processor for each thread of the last region */
  _Alignas(LINE) tni_mutex mutex; /* guards starting, stopping, and the caller's sleep */
  tni_cond done;
  _Atomic int32_t generation; /* bumped in a forked child */
  int32_t started_generation;
  int32_t n_cpus;
  int32_t n_mates;
  mate **mates;
} team = {.mutex = TNI_MUTEX_INIT, .done = TNI_COND_INIT, .spins = true};

/* ------------------------------------------------------------------ waiting */

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#else
  sched_yield();
#endif
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Looks for SPIN_NS whether *number has become another than `seen`; false: it has not. The clock is read seldom. */
static bool spin(_Atomic uint64_t *number, uint64_t seen) {
  int64_t end = 0;
  int looks = atomic_load_explicit(&team.spins, memory_order_relaxed) ? SPINS_A_LOOK : 0;
  for (;;) {
    for (int i = 0; i < looks; ++i) {
      if (atomic_load_explicit(number, memory_order_acquire) != seen) return true;
      relax();
    }
    int64_t now = looks ? now_ns() : end;
    if (!end) end = now + SPIN_NS;
    if (!looks || now >= end) return atomic_load_explicit(number, memory_order_acquire) != seen;
  }
}

static void wait_for_ticket(mate *m, uint64_t seen) {
  if (spin(&team.ticket, seen)) return;
  tni_mutex_lock(&m->mutex);
  atomic_store(&m->sleeps, 1);
  while (atomic_load(&team.ticket) == seen) tni_cond_wait(&m->wake, &m->mutex);
  atomic_store(&m->sleeps, 0);
  tni_mutex_unlock(&m->mutex);
}

/* After the new ticket is visible: one of the two sees the other's store. */
static void wake(mate *m) {
  if (!atomic_load(&m->sleeps)) return;
  tni_mutex_lock(&m->mutex);
  tni_cond_signal(&m->wake);
  tni_mutex_unlock(&m->mutex);
}

static void wait_for_mate(mate *m, uint64_t region) {
  uint64_t before = atomic_load_explicit(&m->done, memory_order_acquire);
  if (before == region || spin(&m->done, before)) return;
  tni_mutex_lock(&team.mutex);
  atomic_store(&team.caller_sleeps, true);
  while (atomic_load(&m->done) != region) tni_cond_wait(&team.done, &team.mutex);
  atomic_store(&team.caller_sleeps, false);
  tni_mutex_unlock(&team.mutex);
}

/* After done is visible: one of the two sees the other's store. */
static void chunk_ended(mate *m, uint64_t region) {
  atomic_store(&m->done, region);
  if (!atomic_load(&team.caller_sleeps)) return;
  tni_mutex_lock(&team.mutex);
  tni_cond_signal(&team.done);
  tni_mutex_unlock(&team.mutex);
}

/* ------------------------------------------------------------------ workers */

/* See Note [Claims]. */
static bool claim(mate *m, uint64_t region) {
  uint64_t before = atomic_load_explicit(&m->claimed, memory_order_relaxed);
  return before < region && atomic_compare_exchange_strong(&m->claimed, &before, region);
}

static void mate_main(void *p) {
  mate *m = p;
  tni_topology_bind(m->index);
  if (tni_fork_generation()) tni_gomp_hold(); /* a kernel on this thread may enter OpenMP */
  for (uint64_t seen = m->first;;) {
    wait_for_ticket(m, seen);
    seen = atomic_load_explicit(&team.ticket, memory_order_acquire);
    if (team.stop) return;
    if (m->index > (int32_t)(seen & TICKET_HELP) || !claim(m, seen / TICKET_STEP)) continue;
    tni_chunk_run(&team.chunks, m->index);
    chunk_ended(m, seen / TICKET_STEP);
  }
}

static void mate_free(mate *m) {
  tni_mutex_deinit(&m->mutex);
  tni_cond_deinit(&m->wake);
  tni_block_free(m, tni_block_class(sizeof *m));
}

static bool start_mate(void) {
  mate *m = tni_block_alloc(tni_block_class(sizeof *m));
  if (!m) return false;
  uint64_t ticket = atomic_load(&team.ticket);
  *m = (mate){.claimed = ticket / TICKET_STEP,
              .done = ticket / TICKET_STEP,
              .index = team.n_mates + 1,
              .first = ticket};
  tni_mutex_init(&m->mutex);
  tni_cond_init(&m->wake);
  if (tni_worker_start(mate_main, m, "tenon-worker", &m->thread) != TN_OK) {
    tn_error_clear();
    mate_free(m);
    return false;
  }
  team.mates[team.n_mates++] = m;
  return true;
}

/* In a forked child the parent's workers do not exist: their records go, without a word to what they waited on. */
static void forget_mates(void) {
  for (int32_t i = 0; i < team.n_mates; ++i) {
    tni_worker_forget(team.mates[i]->thread);
    tni_block_free(team.mates[i], tni_block_class(sizeof(mate)));
  }
  tni_free(team.mates);
  team.mates = NULL;
  team.n_mates = 0;
  team.started_generation = atomic_load(&team.generation);
}

/* How many of the n wanted workers there are. Fewer is no failure: the caller runs their chunks. */
static int32_t gather(int32_t n) {
  if (team.started_generation != atomic_load(&team.generation)) forget_mates();
  if (team.n_mates >= n) return n;
  tni_topology_bind_prepare();
  tni_mutex_lock(&team.mutex);
  mate **mates = tni_realloc(team.mates, (size_t)n * sizeof *mates);
  if (mates) {
    team.mates = mates;
    while (team.n_mates < n && start_mate()) continue;
  }
  tni_mutex_unlock(&team.mutex);
  team.n_cpus = tni_cpu_count();
  return team.n_mates;
}

/* ------------------------------------------------------------------ regions */

/* Returns the region's number. */
static uint64_t hand_out(const tni_region *r, int32_t helped) {
  uint64_t ticket = atomic_load_explicit(&team.ticket, memory_order_relaxed);
  ticket = (ticket & ~(uint64_t)TICKET_HELP) + TICKET_STEP + (uint64_t)helped;
  bool spins = helped < team.n_cpus;
  if (spins != atomic_load_explicit(&team.spins, memory_order_relaxed)) atomic_store(&team.spins, spins);
  team.chunks = r->chunks;
  atomic_store(&team.ticket, ticket);
  for (int32_t i = 0; i < helped; ++i) wake(team.mates[i]);
  return ticket / TICKET_STEP;
}

void tni_team_run(tni_region *r) {
  int32_t helped = gather(r->n_chunks - 1);
  uint64_t region = hand_out(r, helped);
  tni_chunk_run(&r->chunks, 0);
  for (int32_t i = helped + 1; i < r->n_chunks; ++i) tni_chunk_run(&r->chunks, i);
  for (int32_t i = 0; i < helped; ++i) {
    mate *m = team.mates[i];
    if (!claim(m, region)) continue;
    tni_chunk_run(&r->chunks, i + 1);
    atomic_store_explicit(&m->done, region, memory_order_relaxed); /* only this thread looks */
  }
  for (int32_t i = 0; i < helped; ++i) wait_for_mate(team.mates[i], region);
}

void tni_team_stop(void) {
  if (team.started_generation != atomic_load(&team.generation)) forget_mates();
  tni_mutex_lock(&team.mutex);
  team.stop = true;
  uint64_t ticket = atomic_load(&team.ticket);
  atomic_store(&team.ticket, (ticket & ~(uint64_t)TICKET_HELP) + TICKET_STEP);
  for (int32_t i = 0; i < team.n_mates; ++i) wake(team.mates[i]);
  tni_mutex_unlock(&team.mutex);
  for (int32_t i = 0; i < team.n_mates; ++i) {
    tni_worker_join(team.mates[i]->thread);
    mate_free(team.mates[i]);
  }
  tni_free(team.mates);
  team.mates = NULL;
  team.n_mates = 0;
  team.stop = false;
}

/* ------------------------------------------------------------------ fork */

static void before_fork(void) { tni_mutex_lock(&team.mutex); }
static void after_fork_parent(void) { tni_mutex_unlock(&team.mutex); }
static void after_fork_child(void) {
  atomic_fetch_add(&team.generation, 1);
  atomic_store(&team.caller_sleeps, false);
  team.stop = false;
  tni_cond_init(&team.done); /* a condition whose waiters vanished may never wake another */
  tni_mutex_unlock(&team.mutex);
}
TNI_FORK_PART(team, TNI_FORK_PARALLEL, before_fork, after_fork_parent, after_fork_child);

int32_t tni_fork_generation(void) { return atomic_load(&team.generation); }

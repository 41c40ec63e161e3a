/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the ceilings' loops on as many threads as the case has. Threads of our own rather than the runtime's:
 * the command knows the public API only, and a ceiling should not depend on what it judges. Each thread
 * touches its own share first, on huge pages. Threads are made for every block; a block lasts milliseconds,
 * so each is put on a processor of its own: two that begin on one would not be parted in time.
 */
#include "frontends/cli/bench_ceiling.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "frontends/cli/bench.h"
#include "frontends/cli/bench_floor.h"
#include "frontends/cli/bench_loops.h"

enum { STREAMS = 3, FMA_N = 1 << 20, HUGE_PAGE = 2 << 20 };
enum { WAIT, GO, GIVE_UP };

typedef struct worker {
  tni_ceiling *ceiling;
  pthread_t thread;
  size_t begin, n; /* its share, in floats */
} worker;

struct tni_ceiling {
  tni_loop loops[2]; /* ordinary; with streaming stores, or NULL */
  float *stream[STREAMS];
  double work; /* bytes or flops of one pass over all shares */
  bool fma;
  tni_floor *floor;  /* or NULL: the loops alone */
  double floor_work; /* of one run of it; flops if fma */
  /* What a block does; passes 0: touch. Written before its threads start. */
  tni_loop loop;
  int64_t passes;
  _Atomic int signal;
  int threads;
  worker workers[];
};

/* ------------------------------------------------------------------ one block */

static void touch(const worker *w) {
  for (int s = 0; s < STREAMS; s++)
    for (size_t i = w->begin; i < w->begin + w->n; i++) w->ceiling->stream[s][i] = 0.5f;
}

static void work(const worker *w) {
  const tni_ceiling *c = w->ceiling;
  float *const *s = c->stream;
  if (!c->passes) touch(w);
  for (int64_t i = 0; i < c->passes; i++)
    c->loop(s[0] + w->begin, s[1] + w->begin, s[2] + w->begin, c->fma ? FMA_N : w->n);
}

static void *worker_main(void *argument) {
  const worker *w = argument;
  int seen;
  while ((seen = atomic_load_explicit(&w->ceiling->signal, memory_order_acquire)) == WAIT) sched_yield();
  if (seen == GO) work(w);
  return NULL;
}

/* Puts a thread on the place-th of the processors in allowed; where there are not so many, it stays free. */
static void settle(pthread_t thread, const cpu_set_t *allowed, int place) {
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, allowed) || place-- > 0) continue;
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(thread, sizeof one, &one);
    return;
  }
}

/* The caller is worker 0, and may run where it could before when it is back. */
static tn_status timed(tni_ceiling *c, tni_loop loop, int64_t passes, double *out_ns) {
  int started = 1, code = 0;
  cpu_set_t allowed;
  bool known = !pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed);
  c->loop = loop;
  c->passes = passes;
  atomic_store(&c->signal, WAIT);
  for (; started < c->threads; started++) {
    code = pthread_create(&c->workers[started].thread, NULL, worker_main, &c->workers[started]);
    if (code) break;
    if (known) settle(c->workers[started].thread, &allowed, started);
  }
  if (known) settle(pthread_self(), &allowed, 0);
  double begin = tni_bench_now();
  atomic_store_explicit(&c->signal, code ? GIVE_UP : GO, memory_order_release);
  if (!code) work(&c->workers[0]);
  for (int t = 1; t < started; t++) pthread_join(c->workers[t].thread, NULL);
  *out_ns = tni_bench_now() - begin;
  if (known) pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
  if (!code) return TN_OK;
  return tn_fail(TN_ERR_UNAVAILABLE, "a thread for a ceiling could not be started: %s", strerror(code));
}

/* ------------------------------------------------------------------ making one */

static int streams_of(tni_ceiling_kind kind) {
  return kind == TNI_CEILING_ADD ? 3 : kind == TNI_CEILING_COPY ? 2 : 1;
}

static void choose(tni_ceiling *c, tni_ceiling_kind kind) {
  const tni_loops *l = tni_loops_best();
  switch (kind) {
    case TNI_CEILING_FILL: c->loops[0] = l->fill, c->loops[1] = l->fill_stream; break;
    case TNI_CEILING_READ: c->loops[0] = l->read; break;
    case TNI_CEILING_COPY: c->loops[0] = l->copy, c->loops[1] = l->copy_stream; break;
    case TNI_CEILING_ADD: c->loops[0] = l->add, c->loops[1] = l->add_stream; break;
    default: c->loops[0] = l->fma;
  }
}

/* Shares are equal: n is made a multiple of the threads' units. */
static size_t share(tni_ceiling *c, size_t n) {
  size_t unit = (size_t)c->threads * TNI_LOOP_UNIT;
  n = (n + unit - 1) / unit * unit;
  for (int t = 0; t < c->threads; t++) {
    size_t part = n / (size_t)c->threads;
    c->workers[t] = (worker){.ceiling = c, .begin = part * (size_t)t, .n = part};
  }
  return n;
}

/* Every loop gets three streams of its own, whether it looks at them or not: read writes one float a share. */
static tn_status take_memory(tni_ceiling *c, size_t n) {
  size_t size = (n * sizeof(float) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  double ns;
  for (int s = 0; s < STREAMS; s++) {
    c->stream[s] = aligned_alloc(HUGE_PAGE, size);
    if (!c->stream[s]) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu bytes for a ceiling", size);
    madvise(c->stream[s], size, MADV_HUGEPAGE);
  }
  return timed(c, NULL, 0, &ns);
}

static tn_status take_loops(tni_ceiling *c, tni_ceiling_kind kind, double bytes) {
  choose(c, kind);
  size_t n = share(c, c->fma ? 1 : (size_t)(bytes / (double)sizeof(float)) / (size_t)streams_of(kind));
  c->work = c->fma ? 2.0 * FMA_N * TNI_LOOP_FMA_CHAINS * c->threads
                   : (double)n * (double)sizeof(float) * streams_of(kind);
  return take_memory(c, n);
}

tn_status tni_ceiling_new(tni_ceiling_kind kind, double work, int threads, tni_ceiling **out_ceiling) {
  tni_floor *floor;
  TN_TRY(tni_floor_new(kind, &floor));
  if (floor) threads = 1;
  tni_ceiling *c = calloc(1, sizeof *c + (size_t)threads * sizeof *c->workers);
  if (!c) {
    tni_floor_free(floor);
    return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: a ceiling of %d threads", threads);
  }
  *out_ceiling = c;
  c->threads = threads;
  c->floor = floor;
  c->floor_work = work;
  c->fma = kind == TNI_CEILING_FMA || kind == TNI_CEILING_CALL_MM;
  return floor && !c->fma ? TN_OK : take_loops(c, kind, work);
}

void tni_ceiling_free(tni_ceiling *c) {
  if (!c) return;
  for (int s = 0; s < STREAMS; s++) free(c->stream[s]);
  tni_floor_free(c->floor);
  free(c);
}

static tn_status loops_run(tni_ceiling *c, double block_ns, double *out_rate) {
  *out_rate = 0.0;
  for (int i = 0; i < 2 && c->loops[i]; i++) {
    double ns = 0.0;
    TN_TRY(timed(c, c->loops[i], 1, &ns));
    int64_t passes = ns < block_ns ? (int64_t)(block_ns / ns) + 1 : 1;
    for (int turn = 0; turn < 2; turn++)
      TN_TRY(timed(c, c->loops[i], passes, &ns)); /* the first only warms */
    double rate = c->work * (double)passes / ns;
    if (rate > *out_rate) *out_rate = rate;
  }
  return TN_OK;
}

/* A floor's time and, where it comes with multiply-adds, theirs on top. */
tn_status tni_ceiling_run(tni_ceiling *c, double block_ns, double *out_rate) {
  double ns, rate = 0.0;
  if (!c->floor) return loops_run(c, block_ns, out_rate);
  *out_rate = 0.0;
  TN_TRY(tni_floor_run(c->floor, block_ns, &ns));
  if (c->fma) TN_TRY(loops_run(c, block_ns, &rate));
  *out_rate = c->floor_work / (ns + (c->fma ? c->floor_work / rate : 0.0));
  return TN_OK;
}

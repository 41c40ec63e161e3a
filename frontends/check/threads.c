/* SPDX-License-Identifier: Apache-2.0
 *
 * threads.calls: rows and kernels from eight threads at once. Raw first, without the core's locks around alloc and free;
 * then whole operators.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "frontends/check/door.h"
#include "frontends/check/host.h"
#include "frontends/check/tools.h"

enum { N_THREADS = 8, ROUNDS = 150, BYTES = 3000, N = 600, TIMEOUT_S = 15 };

typedef struct worker {
  pthread_t thread;
  const tni_raw *raw;
  tn_device device;
  unsigned number;
  const char *wrong; /* static, or NULL */
  tn_status status;
} worker;

static atomic_int n_ready;

static void start_together(void) {
  atomic_fetch_add(&n_ready, 1);
  while (atomic_load(&n_ready) < N_THREADS) {
  }
}

/* false: not all threads could be started. */
static bool run_all(worker *workers, void *(*fn)(void *)) {
  int started = 0;
  atomic_store(&n_ready, 0);
  while (started < N_THREADS && pthread_create(&workers[started].thread, NULL, fn, &workers[started]) == 0)
    started++;
  if (started < N_THREADS) atomic_store(&n_ready, N_THREADS);
  for (int i = 0; i < started; i++) pthread_join(workers[i].thread, NULL);
  return started == N_THREADS;
}

static const char *first_wrong(const worker *workers) {
  for (int i = 0; i < N_THREADS; i++)
    if (workers[i].wrong) return workers[i].wrong;
  return NULL;
}

/* ------------------------------------------------------------------ raw */

static void *raw_worker(void *ctx) {
  worker *w = ctx;
  unsigned char given[BYTES], back[BYTES];
  start_together();
  for (uint32_t i = 0; i < ROUNDS && !w->wrong; i++) {
    tn_memory m[2];
    tni_raw_fill(given, BYTES, w->number * 1000 + i);
    if (tni_raw_alloc(w->raw, BYTES, &m[0]) != TN_OK) return w->wrong = "alloc failed", NULL;
    if (tni_raw_alloc(w->raw, 64 + i, &m[1]) != TN_OK) return w->wrong = "alloc failed", NULL;
    if (tni_raw_write(w->raw, &m[0], 0, given, BYTES) != TN_OK ||
        tni_raw_read(w->raw, &m[0], 0, back, BYTES) != TN_OK)
      w->wrong = "a copy failed";
    else if (memcmp(given, back, BYTES))
      w->wrong = "a block lost its bytes: another thread was given the same memory, or copies share a buffer";
    tni_raw_free(w->raw, &m[1]);
    tni_raw_free(w->raw, &m[0]);
  }
  return NULL;
}

static void visit(tni_check_report *r, const tni_raw *d) {
  worker workers[N_THREADS] = {0};
  char *item = tni_raw_item(d, "rows");
  tni_check_at(r, item);
  for (unsigned i = 0; i < N_THREADS; i++) workers[i] = (worker){.raw = d, .number = i};
  if (!run_all(workers, raw_worker))
    return tni_check_skip(r, item, "this machine starts no %d threads", N_THREADS);
  const char *wrong = first_wrong(workers);
  tni_check_that(r, !wrong, item, "%d threads at once: %s", N_THREADS, wrong);
  free(item);
}

/* ------------------------------------------------------------------ operators */

static tn_status add_once(tn_device device, unsigned seed, bool *out_same) {
  const tn_dim size = N;
  float a[N], b[N], c[N];
  tn_tensor *x = NULL, *y = NULL, *z = NULL;
  tni_host_values(a, N, seed);
  tni_host_values(b, N, seed + 1);
  tn_status status = tni_host_tensor(a, &size, 1, device, &x);
  if (status == TN_OK) status = tni_host_tensor(b, &size, 1, device, &y);
  if (status == TN_OK) status = tn_add(x, y, tn_int(2), &z);
  if (status == TN_OK) status = tni_host_read(z, c, N);
  *out_same = true;
  for (int i = 0; status == TN_OK && i < N; i++) *out_same = *out_same && c[i] == a[i] + 2 * b[i];
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(z);
  return status;
}

static void *operator_worker(void *ctx) {
  worker *w = ctx;
  start_together();
  for (unsigned i = 0; i < ROUNDS && w->status == TN_OK && !w->wrong; i++) {
    bool same;
    w->status = add_once(w->device, w->number * 100 + i, &same);
    if (w->status == TN_OK && !same) w->wrong = "add gave a wrong sum";
    if (w->status != TN_OK && !tni_host_is_missing(w->status)) w->wrong = "add failed";
  }
  return NULL;
}

/* In a process of its own: init runs once in each. */
static void run_operators(tni_check_report *r, const tni_check_context *c) {
  for (size_t i = 0; i < c->n_devices; i++) {
    tn_device device;
    worker workers[N_THREADS] = {0};
    char *item = tni_check_text("%s operators", c->devices[i]);
    tni_check_at(r, item);
    if (tni_check_device(r, c->devices[i], &device)) {
      for (unsigned k = 0; k < N_THREADS; k++) workers[k] = (worker){.device = device, .number = k};
      bool all = run_all(workers, operator_worker);
      const char *wrong = first_wrong(workers);
      if (!all)
        tni_check_skip(r, item, "this machine starts no %d threads", N_THREADS);
      else if (!wrong && tni_host_is_missing(workers[0].status))
        tni_check_skip(r, item, "the device does not add float32");
      else
        tni_check_that(r, !wrong, item, "%d threads at once: %s", N_THREADS, wrong);
    }
    free(item);
  }
}

static void run(tni_check_report *r, const tni_check_context *c) {
  if (c->stage) return run_operators(r, c);
  tni_check_end end;
  if (tni_check_stage(r, c, "operators", NULL, TIMEOUT_S, &end) && (!end.finished || end.exit_status))
    tni_check_fail(r, "operators", "%d threads at once: the process %s", N_THREADS, end.words);
  tni_door_devices(r, c, visit);
}

const tni_check tni_check_threads_calls = {.name = "threads.calls",
                                           .about =
                                               "rows and kernels may be called from many threads at once",
                                           .kinds = TNI_CHECK_BACKEND,
                                           .timeout_s = 40,
                                           .run = run};

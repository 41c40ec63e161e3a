/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads, locks and the thread-exit hook over pthreads. The only file that knows pthreads besides fork.c.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/base/thread_state.h"

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(tni_mutex), "tni_mutex holds a pthread mutex");
_Static_assert(sizeof(pthread_cond_t) <= sizeof(tni_cond), "tni_cond holds a pthread condition");

static pthread_mutex_t *mutex_of(tni_mutex *m) { return (pthread_mutex_t *)(void *)m; }
static pthread_cond_t *cond_of(tni_cond *c) { return (pthread_cond_t *)(void *)c; }

void tni_mutex_init(tni_mutex *m) { pthread_mutex_init(mutex_of(m), NULL); }
void tni_mutex_deinit(tni_mutex *m) { pthread_mutex_destroy(mutex_of(m)); }
void tni_mutex_lock(tni_mutex *m) { pthread_mutex_lock(mutex_of(m)); }
void tni_mutex_unlock(tni_mutex *m) { pthread_mutex_unlock(mutex_of(m)); }
void tni_cond_init(tni_cond *c) { pthread_cond_init(cond_of(c), NULL); }
void tni_cond_deinit(tni_cond *c) { pthread_cond_destroy(cond_of(c)); }
void tni_cond_wait(tni_cond *c, tni_mutex *m) { pthread_cond_wait(cond_of(c), mutex_of(m)); }
void tni_cond_signal(tni_cond *c) { pthread_cond_signal(cond_of(c)); }
void tni_cond_broadcast(tni_cond *c) { pthread_cond_broadcast(cond_of(c)); }

void tni_once_run(tni_once *once, void (*fn)(void)) {
  if (atomic_load_explicit(&once->state, memory_order_acquire)) return;
  tni_mutex_lock(&once->mutex);
  if (!atomic_load_explicit(&once->state, memory_order_relaxed)) {
    fn();
    atomic_store_explicit(&once->state, 1, memory_order_release);
  }
  tni_mutex_unlock(&once->mutex);
}

struct tni_worker {
  pthread_t thread;
  void (*fn)(void *ctx);
  void *ctx;
  char name[16]; /* the kernel keeps 15 bytes of a thread's name */
};

static void *worker_main(void *p) {
  tni_worker *w = p;
#ifdef __linux__
  pthread_setname_np(pthread_self(), w->name);
#endif
  w->fn(w->ctx);
  return NULL;
}

tn_status tni_worker_start(void (*fn)(void *ctx), void *ctx, const char *name, tni_worker **out_worker) {
  tni_worker *w = tni_alloc_zero(sizeof *w);
  *out_worker = NULL;
  if (!w) return tni_oom(sizeof *w, "a thread record");
  w->fn = fn;
  w->ctx = ctx;
  snprintf(w->name, sizeof w->name, "%s", name);
  int error = pthread_create(&w->thread, NULL, worker_main, w);
  if (error) {
    tni_free(w);
    return tn_fail(TN_ERR_OUT_OF_MEMORY, "cannot start thread '%s': %s", name, strerror(error));
  }
  *out_worker = w;
  return TN_OK;
}

void tni_worker_join(tni_worker *worker) {
  if (!worker) return;
  pthread_join(worker->thread, NULL);
  tni_free(worker);
}

void tni_worker_forget(tni_worker *worker) { tni_free(worker); }

/* ------------------------------------------------------------------ thread exit */

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

void tni_thread_rest(void) {
  if (tni_tls.front) tni_tls.front_free(tni_tls.front);
  tni_tls.front = NULL;
}

static void thread_exit(void *unused) {
  (void)unused;
  tni_thread_rest();
  for (void *range = tni_tls.ranges, *outer; range; range = outer) { /* spans that were left open */
    memcpy(&outer, range, sizeof outer);
    tni_free(range);
  }
  tni_tls.ranges = NULL;
  tni_modes_release(&tni_tls.modes);
  tni_block_trim();
  tni_error_release(tni_tls.error);
  tni_tls.error = NULL;
  tni_tls.armed = false;
  tni_tls.block_limit = 0;
}

/* The main thread ends by exit(), which runs no key destructors: the list is trimmed there too, so that a leak
 * checker sees a clean process. */
static void main_exit(void) { thread_exit(NULL); }

static void exit_init(void) {
  pthread_key_create(&exit_key, thread_exit);
  atexit(main_exit);
}

void tni_thread_arm(void) {
  if (tni_tls.armed) return;
  tni_tls.armed = true;
  tni_tls.block_limit = tni_block_limit();
  pthread_once(&exit_once, exit_init);
  pthread_setspecific(exit_key, &tni_tls);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * core/memory where time matters: streams and events, threads, forks.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory_fake.h"
#include "tn_test.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

TN_TEST(memory_streams, a_stream_reuses_its_own_memory_at_once) {
  fake f;
  fake_stream a = {.given = 5};
  fake_init(&f, true, true);
  tni_pool *pool = fake_pool(&f, true, false);
  static const uint64_t sizes[] = {1000, 400 * KIB, 3 * MIB};
  for (int i = 0; i < 3; ++i) {
    tni_memory_block *b = fake_take(pool, sizes[i], &a);
    uint64_t place = b->mem;
    tni_memory_free(b, &a);
    b = fake_take(pool, sizes[i], &a);
    TN_CHECK_INT(b->mem, place);
    tni_memory_free(b, &a);
  }
  TN_CHECK_INT(f.n_events, 0);
  TN_CHECK_INT(f.n_syncs, 0);
  fake_end(&f, pool);
}

TN_TEST(memory_streams, another_stream_waits_for_an_event_behind_the_free) {
  fake f;
  fake_stream a = {.given = 5}, b = {0};
  fake_init(&f, true, true);
  tni_pool *pool = fake_pool(&f, true, false);
  tni_memory_block *x = fake_take(pool, 3 * MIB, &a), *y;
  uint64_t place = x->mem;
  tni_memory_free(x, &a);
  x = fake_take(pool, 3 * MIB, &b); /* a is still at work */
  TN_CHECK(x->mem != place);
  a.done = 5;
  y = fake_take(pool, 3 * MIB, &b);
  TN_CHECK_INT(y->mem, place);
  tni_memory_free(y, &b);
  a.given = 9; /* what a frees later is behind the mark again */
  y = fake_take(pool, 6 * MIB, &a);
  place = y->mem;
  tni_memory_free(y, &a);
  y = fake_take(pool, 6 * MIB, &b);
  TN_CHECK(y->mem != place);
  tni_memory_free(x, &b);
  tni_memory_free(y, &b);
  TN_CHECK_INT(f.n_syncs, 0);
  fake_end(&f, pool);
}

TN_TEST(memory_streams, a_full_device_makes_the_stream_wait_and_not_the_host) {
  fake f;
  fake_stream a = {.given = 5}, b = {0};
  fake_init(&f, true, true);
  f.budget = 4 * MIB;
  tni_pool *pool = fake_pool(&f, true, false);
  tni_memory_block *x = fake_take(pool, 3 * MIB, &a);
  tni_memory_free(x, &a);
  x = fake_take(pool, 3 * MIB, &b);
  TN_CHECK_INT(f.n_waits, 1);
  TN_CHECK_INT(f.n_syncs, 0);
  tni_memory_free(x, &b);
  fake_end(&f, pool);
}

TN_TEST(memory_streams, memory_that_two_streams_use_waits_for_both) {
  fake f;
  fake_stream a = {0}, b = {.given = 3};
  fake_init(&f, true, true);
  tni_pool *pool = fake_pool(&f, true, false);
  tni_memory_block *x = fake_take(pool, 3 * MIB, &a), *y;
  uint64_t place = x->mem;
  TN_CHECK_OK(tni_memory_use(x, &b));
  TN_CHECK_OK(tni_memory_use(x, &b));
  tni_memory_free(x, &a);
  TN_CHECK_INT(fake_stats(pool).current_bytes, 0);
  x = fake_take(pool, 3 * MIB, &a);
  TN_CHECK(x->mem != place);
  b.done = 3;
  y = fake_take(pool, 3 * MIB, &a);
  TN_CHECK_INT(y->mem, place);
  b.given = 8;
  tni_memory_free(y, &b); /* freed on another stream than its own: that one uses it too */
  y = fake_take(pool, 3 * MIB, &a);
  TN_CHECK(y->mem != place);
  tni_memory_free(x, &a);
  tni_memory_free(y, &a);
  fake_end(&f, pool);
}

TN_TEST(memory_streams, without_events_the_whole_device_is_waited_for) {
  fake f;
  fake_stream a = {.given = 1}, b = {.given = 1};
  fake_init(&f, true, false);
  f.streams[0] = &a, f.streams[1] = &b;
  tni_pool *pool = fake_pool(&f, true, false);
  tni_memory_block *x = fake_take(pool, 3 * MIB, &a);
  uint64_t place = x->mem;
  tni_memory_free(x, &a);
  x = fake_take(pool, 3 * MIB, &b);
  TN_CHECK(x->mem != place);
  TN_CHECK_INT(f.n_syncs, 0);
  TN_CHECK_OK(tni_memory_use(x, &a));
  tni_memory_free(x, &b);
  TN_CHECK_INT(f.n_syncs, 1);
  fake_end(&f, pool);
}

TN_TEST(memory_streams, a_synchronous_backend_has_one_stream) {
  fake f;
  fake_init(&f, false, false);
  tni_pool *pool = fake_pool(&f, true, false);
  int a, b;
  tni_memory_block *x = fake_take(pool, 3 * MIB, &a);
  uint64_t place = x->mem;
  tni_memory_free(x, &b);
  x = fake_take(pool, 3 * MIB, &b);
  TN_CHECK_INT(x->mem, place);
  tni_memory_free(x, NULL);
  fake_end(&f, pool);
}

/* ------------------------------------------------------------------ threads */

enum { THREADS = 4, ROUNDS = 20000, SHARED = 64 };
typedef struct crowd {
  tni_pool *pool;
  _Atomic(tni_memory_block *) slots[SHARED]; /* what one thread makes, any other may free */
  pthread_barrier_t barrier;
} crowd;

static void *work(void *ctx) {
  crowd *c = ctx;
  uint32_t seed = (uint32_t)(uintptr_t)&seed;
  pthread_barrier_wait(&c->barrier);
  for (int i = 0; i < ROUNDS; ++i) {
    seed = seed * 1664525u + 1013904223u;
    uint64_t bytes = (seed >> 8) % (i % 50 ? 8 * KIB : 500 * KIB) + 1;
    tni_memory_block *block;
    if (tni_memory_alloc(c->pool, bytes, NULL, &block) != TN_OK) return c;
    block = atomic_exchange(&c->slots[(seed >> 16) % SHARED], block);
    if (block) tni_memory_free(block, NULL);
    if (i % 4000 == 0) tni_pool_purge(c->pool);
    if (i % 1000 == 0) fake_stats(c->pool);
  }
  return NULL;
}

TN_TEST(memory_threads, blocks_cross_threads_and_every_byte_comes_back) {
  fake f;
  fake_init(&f, false, false);
  crowd c = {.pool = fake_pool(&f, true, true)};
  pthread_t threads[THREADS];
  TN_CHECK_INT(pthread_barrier_init(&c.barrier, NULL, THREADS), 0);
  for (int i = 0; i < THREADS; ++i) TN_CHECK_INT(pthread_create(&threads[i], NULL, work, &c), 0);
  for (int i = 0; i < THREADS; ++i) {
    void *failed;
    pthread_join(threads[i], &failed);
    TN_CHECK_PTR_NULL(failed);
  }
  pthread_barrier_destroy(&c.barrier);
  for (int i = 0; i < SHARED; ++i)
    if (c.slots[i]) tni_memory_free(c.slots[i], NULL);
  tn_memory_stats s = fake_stats(c.pool);
  TN_CHECK_INT(s.current_bytes, 0);
  TN_CHECK_INT(s.n_allocs, THREADS * ROUNDS);
  TN_CHECK_INT(s.n_frees, THREADS * ROUNDS);
  tni_pool_purge(c.pool); /* the threads are gone, and so are their lists */
  TN_CHECK_INT(fake_stats(c.pool).reserved_bytes, 0);
  fake_end(&f, c.pool);
}

/* Fills lists of its own, waits for a purge, and asks for memory again. */
static void *keep_lists(void *ctx) {
  crowd *c = ctx;
  tni_memory_block *b;
  if (tni_memory_alloc(c->pool, 5000, NULL, &b) != TN_OK) return c;
  tni_memory_free(b, NULL);
  pthread_barrier_wait(&c->barrier);
  pthread_barrier_wait(&c->barrier); /* purged */
  if (tni_memory_alloc(c->pool, 300 * KIB, NULL, &b) != TN_OK) return c;
  tni_memory_free(b, NULL);
  pthread_barrier_wait(&c->barrier);
  pthread_barrier_wait(&c->barrier); /* looked at */
  return NULL;
}

TN_TEST(memory_threads, after_a_purge_lists_come_back_when_their_thread_needs_memory) {
  fake f;
  fake_init(&f, false, false);
  crowd c = {.pool = fake_pool(&f, true, true)};
  pthread_t thread;
  void *failed;
  TN_CHECK_INT(pthread_barrier_init(&c.barrier, NULL, 2), 0);
  TN_CHECK_INT(pthread_create(&thread, NULL, keep_lists, &c), 0);
  pthread_barrier_wait(&c.barrier);
  tni_pool_purge(c.pool);
  TN_CHECK(fake_stats(c.pool).reserved_bytes > 0);
  pthread_barrier_wait(&c.barrier);
  pthread_barrier_wait(&c.barrier);
  tni_pool_purge(c.pool);
  TN_CHECK_INT(fake_stats(c.pool).reserved_bytes, 0);
  pthread_barrier_wait(&c.barrier);
  pthread_join(thread, &failed);
  TN_CHECK_PTR_NULL(failed);
  pthread_barrier_destroy(&c.barrier);
  fake_end(&f, c.pool);
}

/* ------------------------------------------------------------------ forks */

/* Exit status of the child's function; 255 if it could not run. */
static int in_child(int (*fn)(tni_pool *), tni_pool *pool) {
  pid_t pid = fork();
  if (pid == 0) _exit(fn(pool));
  int status = 0;
  return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int try_alloc(tni_pool *pool) {
  tni_memory_block *b;
  tn_status status = tni_memory_alloc(pool, 100 * KIB, NULL, &b);
  if (status == TN_OK) tni_memory_free(b, NULL);
  return (int)status;
}

static void *hammer(void *ctx) {
  crowd *c = ctx;
  while (!atomic_load(&c->slots[0])) {
    tni_memory_block *b;
    if (tni_memory_alloc(c->pool, 300 * KIB, NULL, &b) == TN_OK) tni_memory_free(b, NULL);
  }
  return NULL;
}

TN_TEST(memory_fork, a_child_finds_no_lock_held) {
  fake f;
  fake_init(&f, false, false);
  crowd c = {.pool = fake_pool(&f, true, false)};
  pthread_t thread;
  TN_CHECK_INT(pthread_create(&thread, NULL, hammer, &c), 0);
  for (int i = 0; i < 50; ++i) TN_CHECK_INT(in_child(try_alloc, c.pool), TN_OK);
  atomic_store(&c.slots[0], (tni_memory_block *)&c);
  pthread_join(thread, NULL);
  fake_end(&f, c.pool);
}

TN_TEST(memory_fork, a_poisoned_backend_is_not_called_in_a_child) {
  fake f;
  fake_init(&f, false, false);
  f.def.fork = TN_FORK_POISONED;
  tni_pool *pool = fake_pool(&f, true, false);
  TN_CHECK_INT(in_child(try_alloc, pool), TN_ERR_STATE);
  TN_CHECK_INT(try_alloc(pool), TN_OK);
  fake_end(&f, pool);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be done from several threads at once, for the thread sanitizer to judge: first calls of cells and
 * operators, draws, default generators, handles, the pool, shutdown of the pool; and what a forked child finds.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "private_backend.h"
#include "tn_test.h"

enum { THREADS = 4 };

/* Starts THREADS of fn at one moment, with their numbers. */
typedef struct gate {
  pthread_barrier_t barrier;
  void (*fn)(int number);
} gate;
typedef struct gate_thread {
  gate *gate;
  int number;
  pthread_t thread;
} gate_thread;

static void *gate_main(void *p) {
  gate_thread *t = p;
  pthread_barrier_wait(&t->gate->barrier);
  t->gate->fn(t->number);
  return NULL;
}

static void together(void (*fn)(int number)) {
  gate g = {.fn = fn};
  gate_thread threads[THREADS];
  TN_CHECK_INT(pthread_barrier_init(&g.barrier, NULL, THREADS), 0);
  for (int i = 0; i < THREADS; ++i) {
    threads[i] = (gate_thread){.gate = &g, .number = i};
    TN_CHECK_INT(pthread_create(&threads[i].thread, NULL, gate_main, &threads[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i].thread, NULL);
  pthread_barrier_destroy(&g.barrier);
}

/* ------------------------------------------------------------------ dispatch */

static tn_tensor *shared;
static tn_op *fresh[20];

/* Every operator's cpu cell is built by whoever comes first. */
static void first_calls(int number) {
  for (int i = 0; i < 20; ++i) {
    const tn_op *op = fresh[(i + 5 * number) % 20];
    tn_value arg = tn_value_tensor(shared), out = tn_value_none();
    TN_CHECK_OK(tn_op_call(op, &arg, 1, &out, 1));
    TN_CHECK_DOUBLE(((float *)tn_tensor_data(out.u.t))[1], -1, 0);
    tn_tensor_release(out.u.t);
  }
}

static tn_status minus(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *neg;
  TN_TRY(call->host->find_op("neg", &neg));
  return call->host->call(neg, args, out);
}

TN_TEST(threads, cells_are_built_once) {
  static char schemas[20][64];
  static tn_operator_def defs[20];
  TN_CHECK_OK(tn_init());
  tni_registry_lock();
  tn_status status = TN_OK;
  for (int i = 0; i < 20 && status == TN_OK; ++i) {
    snprintf(schemas[i], sizeof schemas[i], "private::minus%d(Tensor self) -> Tensor", i);
    defs[i] = (tn_operator_def){.struct_size = sizeof defs[i], .schema = schemas[i], .body = minus};
    status = tni_op_add(&defs[i], "private", &fresh[i]);
  }
  tni_registry_unlock();
  TN_CHECK_OK(status);
  TN_CHECK_OK(tn_arange(tn_int(3), TN_OPTIONS(.dtype = TN_FLOAT32), &shared));
  together(first_calls);
  tn_tensor_release(shared);
}

static tn_status ones(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args;
  for (int64_t i = 0; i < out[0].u.v->numel; ++i) ((float *)out[0].u.v->data)[i] = 1;
  return TN_OK;
}

/* One thread adds and removes a provider while the others call: rows are replaced under them. */
static void call_and_register(int number) {
  static tni_kernel better = {.fn = ones, .priority = 9, .plugin = "better"};
  for (int i = 0; i < 100; ++i) {
    if (number == 0) {
      private_kernel_add("relu", "thread-lab", &better);
      private_kernel_remove("relu", &better);
      continue;
    }
    tn_tensor *y;
    TN_CHECK_OK(tn_relu(shared, &y));
    TN_CHECK_DOUBLE(((float *)tn_tensor_data(y))[2], 1, 0);
    tn_tensor_release(y);
  }
}

TN_TEST(threads, rows_change_under_running_calls) {
  static tni_kernel relu = {.fn = ones, .plugin = "basic"};
  const tn_options options = {.has_device = true,
                              .device = private_backend("thread-lab", TN_BACKEND_HOST_MEMORY)};
  private_kernel_add("relu", "thread-lab", &relu);
  TN_CHECK_OK(tn_empty((const int64_t[]){3}, 1, &options, 0, &shared));
  together(call_and_register);
  tn_tensor_release(shared);
  private_kernel_remove("relu", &relu);
}

static void list_operators(int number) {
  if (number == 0) {
    static char schemas[50][64];
    static tn_operator_def defs[50];
    for (int i = 0; i < 50; ++i) {
      tn_op *op;
      snprintf(schemas[i], sizeof schemas[i], "private::listed%d(Tensor self) -> Tensor", i);
      defs[i] = (tn_operator_def){.struct_size = sizeof defs[i], .schema = schemas[i], .body = minus};
      tni_registry_lock();
      tn_status status = tni_op_add(&defs[i], "private", &op);
      if (status == TN_OK && i % 2) tni_op_remove(op);
      tni_registry_unlock();
      TN_CHECK_OK(status);
    }
    return;
  }
  for (int i = 0; i < 200; ++i) {
    tn_op_report report;
    size_t n = tn_op_count();
    TN_CHECK(n > 0);
    if (tn_op_get(n - 1 - (size_t)i % 10, &report) == TN_OK) TN_CHECK_NOT_NULL(report.name);
  }
}

TN_TEST(threads, operators_are_listed_while_some_are_added) {
  TN_CHECK_OK(tn_init());
  together(list_operators);
}

/* ------------------------------------------------------------------ handles */

static void share_handles(int number) {
  for (int i = 0; i < 300; ++i) {
    tn_tensor *view, *alias, *mine = tn_tensor_retain(shared);
    TN_CHECK_OK(tn_select(mine, 0, number, &view));
    TN_CHECK_OK(tn_detach(view, &alias));
    tn_tensor_release(mine);
    tn_tensor_release(view);
    TN_CHECK_DOUBLE(((float *)tn_tensor_data(alias))[0], number, 0);
    tn_tensor_release(alias);
  }
}

TN_TEST(threads, handles_views_and_aliases_of_one_tensor) {
  TN_CHECK_OK(tn_arange(tn_int(THREADS), TN_OPTIONS(.dtype = TN_FLOAT32), &shared));
  together(share_handles);
  TN_CHECK_INT(atomic_load(&shared->counts), TNI_SOLE);
  tn_tensor_release(shared);
}

/* One thread writes; the others have read before and only give their handles up. */
static tn_tensor *written[64];
static void give_up_handles(int number) {
  for (int i = 0; i < 64; ++i) {
    if (number == 0)
      TN_CHECK_OK(
          tn_resize_(written[i], (const int64_t[]){2, 1, 1, 1, 1, 1, 1, 1}, 8, TN_MEMORY_FORMAT_NONE));
    tn_tensor_release(written[i]);
  }
}

TN_TEST(threads, a_handle_is_released_while_another_thread_writes) {
  for (int i = 0; i < 64; ++i) {
    TN_CHECK_OK(tn_ones((const int64_t[]){4}, 1, NULL, &written[i]));
    for (int k = 1; k < THREADS; ++k) tn_tensor_retain(written[i]);
  }
  together(give_up_handles);
}

/* ------------------------------------------------------------------ random numbers */

static tn_generator *stream;
static void draw(int number) {
  (void)number;
  for (int i = 0; i < 100; ++i) {
    tn_tensor *r;
    TN_CHECK_OK(tn_empty((const int64_t[]){7}, 1, NULL, 0, &r));
    TN_CHECK_OK(tn_uniform_(r, 0, 1, stream));
    tn_tensor_release(r);
  }
}

TN_TEST(threads, draws_of_one_stream_do_not_meet) {
  tn_generator_state state;
  TN_CHECK_OK(tn_generator_new(3, &stream));
  together(draw);
  TN_CHECK_OK(tn_generator_get_state(stream, &state));
  TN_CHECK_INT(state.offset, THREADS * 100 * 7);
  tn_generator_release(stream);
}

/* ------------------------------------------------------------------ the pool */

static tn_status add_up(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  (void)worker;
  for (int64_t i = begin; i < end; ++i) atomic_fetch_add((_Atomic int64_t *)ctx, i);
  return TN_OK;
}

static void regions(int number) {
  for (int i = 0; i < 100; ++i) {
    _Atomic int64_t sum = 0;
    if (number == 0 && i % 4 == 0) tni_parallel_stop();
    TN_CHECK_OK(tni_parallel_for(16, 1, add_up, &sum));
    TN_CHECK_INT(sum, 120);
  }
}

TN_TEST(threads, the_pool_stops_while_others_use_it) {
  TN_CHECK_OK(tni_parallel_set_threads(3));
  together(regions);
  tni_parallel_stop();
}

static void stop_only(int number) {
  (void)number;
  tni_parallel_stop();
}
TN_TEST(threads, several_threads_stop_an_idle_pool) {
  _Atomic int64_t sum = 0;
  TN_CHECK_OK(tni_parallel_set_threads(3));
  TN_CHECK_OK(tni_parallel_for(16, 1, add_up, &sum));
  together(stop_only);
  TN_CHECK_OK(tni_parallel_for(16, 1, add_up, &sum));
  TN_CHECK_INT(sum, 240);
  tni_parallel_stop();
}

static void *raise_threads(void *p) {
  TN_CHECK_OK(tni_parallel_set_threads(4));
  return p;
}
static tn_status count_worker(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  (void)begin, (void)end;
  atomic_fetch_or((_Atomic uint64_t *)ctx, (uint64_t)1 << worker);
  return TN_OK;
}

/* As a kernel does: asks how many workers there may be, sizes their memory, and opens a region. */
TN_TEST(threads, a_region_has_no_more_workers_than_its_thread_was_told) {
  _Atomic uint64_t workers = 0;
  pthread_t other;
  TN_CHECK_OK(tni_parallel_set_threads(2));
  TN_CHECK_INT(tni_parallel_tell_threads(), 2);
  TN_CHECK_INT(pthread_create(&other, NULL, raise_threads, NULL), 0);
  pthread_join(other, NULL);
  TN_CHECK_OK(tni_parallel_for(64, 1, count_worker, &workers));
  TN_CHECK_INT(workers, 3);
  TN_CHECK_INT(tni_parallel_tell_threads(), 4); /* from here on there may be four */
  TN_CHECK_OK(tni_parallel_for(64, 1, count_worker, &workers));
  TN_CHECK_INT(workers, 15);
  TN_CHECK_OK(tni_parallel_set_threads(2));
  tni_parallel_stop();
}

/* Two workers run chunks at once; each opens a nested region. */
typedef struct places {
  pthread_barrier_t both;
  _Atomic int taken[3];
  _Atomic int met;
} places;

static tn_status take_place(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  places *p = ctx;
  (void)begin, (void)end;
  if (atomic_exchange(&p->taken[worker], 1)) atomic_fetch_add(&p->met, 1);
  if (begin == 0) pthread_barrier_wait(&p->both); /* the other worker is in its nested region, too */
  atomic_store(&p->taken[worker], 0);
  return TN_OK;
}
static tn_status nest(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  (void)begin, (void)end, (void)worker;
  return tni_parallel_for(2, 1, take_place, ctx);
}

TN_TEST(threads, nested_regions_keep_the_workers_number) {
  places p = {.met = 0};
  TN_CHECK_OK(tni_parallel_set_threads(2));
  TN_CHECK_INT(pthread_barrier_init(&p.both, NULL, 2), 0);
  TN_CHECK_OK(tni_parallel_for(2, 1, nest, &p));
  TN_CHECK_INT(p.met, 0);
  pthread_barrier_destroy(&p.both);
  tni_parallel_stop();
}

static tn_status count_elements(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  (void)worker;
  atomic_fetch_add((_Atomic int64_t *)ctx, end - begin);
  return TN_OK;
}

TN_TEST(threads, the_largest_regions_have_borders_too) {
  _Atomic int64_t covered = 0;
  TN_CHECK_OK(tni_parallel_set_threads(3));
  TN_CHECK_OK(tni_parallel_for(INT64_MAX, 1, count_elements, &covered));
  TN_CHECK_INT(covered, INT64_MAX);
  covered = 0;
  TN_CHECK_OK(tni_parallel_for(INT64_MAX, INT64_MAX - 1, count_elements, &covered));
  TN_CHECK_INT(covered, INT64_MAX);
  tni_parallel_stop();
}

/* ------------------------------------------------------------------ fork */

#ifndef __SANITIZE_THREAD__ /* TSan does not follow threads across fork */

static _Atomic bool hammering;
static void drop_line(void *ctx, int32_t level, const char *words) { (void)ctx, (void)level, (void)words; }

static void *hammer(void *p) {
  (void)p;
  while (atomic_load(&hammering)) {
    tn_tensor *r = NULL;
    const tn_op *op;
    if (tn_rand((const int64_t[]){2000}, 1, NULL, &r) != TN_OK || tn_op_find("mul.Tensor", &op) != TN_OK)
      abort();
    tn_tensor_release(r);
    tn_log(TN_LOG_WARN, "busy");
    _Atomic int64_t sum = 0;
    if (tni_parallel_for(16, 1, add_up, &sum) != TN_OK) abort();
    if (tn_device_open("no-such-device", &(tn_device){0}) == TN_OK) abort();
  }
  return NULL;
}

/* Everything that takes a lock of the core. */
static int work_in_child(void) {
  tn_tensor *r = NULL, *loss = NULL;
  const tn_op *op;
  tn_op_report report;
  _Atomic int64_t sum = 0;
  alarm(30);
  bool good = tn_rand((const int64_t[]){2000}, 1, NULL, &r) == TN_OK && tn_op_find("exp", &op) == TN_OK &&
              tn_op_get(3, &report) == TN_OK && tni_parallel_for(16, 1, add_up, &sum) == TN_OK &&
              sum == 120 && tn_set_requires_grad(r, true) == TN_OK &&
              tn_sum(r, TN_DTYPE_NONE, &loss) == TN_OK && tn_backward_run(loss, NULL) == TN_OK;
  tn_log(TN_LOG_WARN, "in the child");
  tn_tensor_release(loss);
  tn_tensor_release(r);
  return good ? 0 : 1;
}

/* A leaf so large that the hammer holds its lock most of the time. */
static tn_tensor *leaf;
static tn_status add_gradient(void) {
  tn_tensor *loss = NULL;
  tn_status status = tn_sum(leaf, TN_DTYPE_NONE, &loss);
  if (status == TN_OK) status = tn_backward_run(loss, NULL);
  tn_tensor_release(loss);
  return status;
}
static void *hammer_leaf(void *p) {
  (void)p;
  while (atomic_load(&hammering))
    if (add_gradient() != TN_OK) abort();
  return NULL;
}
static int add_in_child(void) {
  alarm(30);
  return add_gradient() == TN_OK && tn_grad(leaf) ? 0 : 1;
}

#endif

/* The names stay under TSan, so that the lists of all presets agree. */
TN_TEST(threads, a_child_finds_every_lock_free) {
#ifndef __SANITIZE_THREAD__
  pthread_t threads[2];
  TN_CHECK_OK(tni_parallel_set_threads(2));
  TN_CHECK_OK(tn_init());
  tn_log_set(drop_line, NULL);
  atomic_store(&hammering, true);
  for (int i = 0; i < 2; ++i) TN_CHECK_INT(pthread_create(&threads[i], NULL, hammer, NULL), 0);
  int bad = 0;
  for (int i = 0; i < 60; ++i) {
    pid_t child = fork();
    if (child == 0) _exit(work_in_child());
    int result = -1;
    if (waitpid(child, &result, 0) != child || result != 0) ++bad;
  }
  atomic_store(&hammering, false);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  tn_log_set(NULL, NULL);
  tni_parallel_stop();
  TN_CHECK_INT(bad, 0);
#endif
}

TN_TEST(threads, a_child_adds_to_gradients_that_a_thread_of_the_parent_was_adding_to) {
#ifndef __SANITIZE_THREAD__
  pthread_t thread;
  int bad = 0;
  TN_CHECK_OK(tn_rand((const int64_t[]){1 << 20}, 1, NULL, &leaf));
  TN_CHECK_OK(tn_set_requires_grad(leaf, true));
  TN_CHECK_OK(add_gradient());
  atomic_store(&hammering, true);
  TN_CHECK_INT(pthread_create(&thread, NULL, hammer_leaf, NULL), 0);
  for (int i = 0; i < 40; ++i) {
    usleep(500);
    pid_t child = fork();
    if (child == 0) _exit(add_in_child());
    int result = -1;
    if (waitpid(child, &result, 0) != child || result != 0) ++bad;
  }
  atomic_store(&hammering, false);
  pthread_join(thread, NULL);
  tn_tensor_release(leaf);
  tni_parallel_stop();
  TN_CHECK_INT(bad, 0);
#endif
}

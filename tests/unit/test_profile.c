/* SPDX-License-Identifier: Apache-2.0
 *
 * What profilers are told: begins and ends that belong together, parents, arguments, threads, backward nodes, spans,
 * memory and device time; coming and going while others work.
 */
#include <pthread.h>
#include <string.h>
#include <tenon/tenon.h>

#include "core/dispatch/dispatch.h"
#include "core/profile/profile.h"
#include "ribbon.h"
#include "tn_stress.h"

enum { MOST = 512 };

typedef struct heard {
  pthread_mutex_t mutex;
  struct {
    char name[48];
    uint64_t id, parent, thread;
    uint32_t kind, n_args;
    tn_status status;
    bool ended;
    uint32_t rank; /* of the first argument */
  } calls[MOST];
  size_t n;
  uint64_t n_alloc, n_free, alloc_bytes, current_bytes, n_times, time_ns;
  void *time_stream;
  tn_status inside; /* what attaching inside a callback answered */
  uint64_t handle;
} heard;

static void on_begin(void *ctx, const tn_profile_event *e) {
  heard *h = ctx;
  pthread_mutex_lock(&h->mutex);
  if (h->n < MOST) {
    snprintf(h->calls[h->n].name, sizeof h->calls[0].name, "%s", e->name);
    h->calls[h->n].id = e->id;
    h->calls[h->n].parent = e->parent;
    h->calls[h->n].thread = e->thread;
    h->calls[h->n].kind = e->kind;
    h->calls[h->n].n_args = e->n_args;
    if (e->n_args && e->args[0].kind == TN_VAL_TENSOR) h->calls[h->n].rank = tn_tensor_view(e->args[0].u.t)->ndim;
    h->n++;
  }
  pthread_mutex_unlock(&h->mutex);
}

static void on_end(void *ctx, const tn_profile_event *e) {
  heard *h = ctx;
  pthread_mutex_lock(&h->mutex);
  for (size_t i = 0; i < h->n; ++i)
    if (h->calls[i].id == e->id) {
      h->calls[i].ended = true;
      h->calls[i].status = e->status;
    }
  pthread_mutex_unlock(&h->mutex);
}

static void on_memory(void *ctx, const tn_profile_event *e) {
  heard *h = ctx;
  pthread_mutex_lock(&h->mutex);
  if (e->kind == TN_PROFILE_ALLOC) {
    h->n_alloc++;
    h->alloc_bytes = e->bytes;
  } else {
    h->n_free++;
  }
  h->current_bytes = e->current_bytes;
  pthread_mutex_unlock(&h->mutex);
}

static void on_device_time(void *ctx, const tn_profile_device_time *e) {
  heard *h = ctx;
  h->n_times++;
  h->time_ns += e->ns;
  h->time_stream = e->stream;
}

static void listen(heard *h) {
  const tn_profiler_def def = {.struct_size = sizeof def,
                               .ctx = h,
                               .begin = on_begin,
                               .end = on_end,
                               .memory = on_memory,
                               .device_time = on_device_time};
  TN_CHECK_OK(tn_profiler_attach(&def, &h->handle));
}

static void heard_init(heard *h) {
  memset(h, 0, sizeof *h);
  pthread_mutex_init(&h->mutex, NULL);
}

static size_t find(const heard *h, const char *name) {
  for (size_t i = 0; i < h->n; ++i)
    if (strcmp(h->calls[i].name, name) == 0) return i;
  tn_test_fail(__FILE__, __LINE__, "%s was not told of", name);
}

static tn_tensor *ones(tn_dim n) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_ones((const tn_dim[]){n, 2}, 2, TN_OPTIONS(.dtype = TN_FLOAT32), &t));
  return t;
}

TN_TEST(profile, calls_come_with_arguments_and_nest) {
  heard h;
  heard_init(&h);
  tn_tensor *a = ones(3), *y, *none;
  listen(&h);
  TN_CHECK_OK(tn_mul(a, a, &y));
  tn_tensor_release(y);
  tn_tensor *wrong = ones(5); /* a body: empty, fill_ */
  TN_CHECK_FAILS(tn_mul(a, wrong, &none), TN_ERR_INVALID_ARGUMENT, "");
  TN_CHECK_OK(tn_profiler_detach(h.handle));
  const size_t before = h.n;
  TN_CHECK_OK(tn_mul(a, a, &y));
  TN_CHECK_INT(h.n, before); /* nobody listens any more */
  size_t mul = find(&h, "mul.Tensor"), body = find(&h, "ones"), part = find(&h, "fill_.Scalar");
  TN_CHECK_INT(h.calls[mul].kind, TN_PROFILE_OPERATOR);
  TN_CHECK_INT(h.calls[mul].n_args, 2);
  TN_CHECK_INT(h.calls[mul].rank, 2);
  TN_CHECK_INT(h.calls[mul].parent, 0);
  TN_CHECK(h.calls[part].parent == h.calls[body].id);
  for (size_t i = 0; i < h.n; ++i) TN_CHECK(h.calls[i].ended && h.calls[i].id && h.calls[i].thread);
  TN_CHECK_INT(h.calls[h.n - 1].status, TN_ERR_INVALID_ARGUMENT);
  tn_tensor_release(y);
  tn_tensor_release(wrong);
  tn_tensor_release(a);
}

TN_TEST(profile, backward_nodes_and_spans_enclose_what_they_call) {
  heard h;
  heard_init(&h);
  tn_tensor *x = ones(2), *y, *loss;
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(tn_mul(x, x, &y));
  TN_CHECK_OK(tn_sum(y, TN_DTYPE_NONE, &loss));
  listen(&h);
  char name[] = "step";
  tn_range_begin(name);
  memset(name, 'x', 4); /* borrowed for the call only */
  TN_CHECK_OK(tn_backward_run(loss, NULL));
  tn_range_end();
  tn_range_end(); /* one too many */
  TN_CHECK_OK(tn_profiler_detach(h.handle));
  size_t step = find(&h, "step"), node = find(&h, "MulBackward0"), mul = find(&h, "mul.Tensor");
  TN_CHECK_INT(h.calls[step].kind, TN_PROFILE_RANGE);
  TN_CHECK_INT(h.calls[node].kind, TN_PROFILE_BACKWARD);
  TN_CHECK(h.calls[node].parent == h.calls[step].id);
  TN_CHECK(h.calls[mul].parent == h.calls[node].id);
  for (size_t i = 0; i < h.n; ++i) TN_CHECK(h.calls[i].ended);
  tn_tensor_release(loss);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

TN_TEST(profile, spans_find_their_begin_when_a_profiler_comes_or_goes) {
  heard h;
  heard_init(&h);
  tn_range_begin("before");
  listen(&h);
  tn_range_begin("inside");
  TN_CHECK_OK(tn_profiler_detach(h.handle));
  tn_range_begin("after");
  tn_range_end();
  listen(&h);
  tn_range_end(); /* of "inside": it began for an earlier listener */
  tn_range_end(); /* of "before" */
  tn_range_begin("last");
  tn_range_end();
  TN_CHECK_OK(tn_profiler_detach(h.handle));
  TN_CHECK_INT(h.n, 2);
  TN_CHECK_STR(h.calls[0].name, "inside");
  TN_CHECK(!h.calls[0].ended);
  TN_CHECK_STR(h.calls[1].name, "last");
  TN_CHECK(h.calls[1].ended);
  TN_CHECK_INT(h.calls[1].parent, 0);
}

TN_TEST(profile, large_blocks_are_told_of) {
  heard h;
  heard_init(&h);
  listen(&h);
  tn_tensor *t;
  TN_CHECK_OK(tn_empty((const tn_dim[]){1 << 20}, 1, TN_OPTIONS(.dtype = TN_FLOAT32), 0, &t));
  TN_CHECK(h.n_alloc >= 1 && h.alloc_bytes >= 4u << 20 && h.current_bytes >= 4u << 20);
  const uint64_t freed = h.n_free;
  tn_tensor_release(t);
  TN_CHECK(h.n_free > freed);
  TN_CHECK_OK(tn_profiler_detach(h.handle));
}

TN_TEST(profile, device_time_comes_from_events_at_the_latest_when_detached) {
  heard h;
  heard_init(&h);
  tn_device r0 = ribbon_device("ribbon", TN_FORK_SAFE);
  const float values[2] = {1, 2};
  const tn_dim size = 2;
  const tn_options options = {.dtype = TN_FLOAT32, .has_device = true, .device = r0};
  tn_tensor *a, *y;
  TN_CHECK_OK(tn_tensor_from_host(values, &size, 1, &options, &a));
  listen(&h);
  const int events = ribbon_events();
  ribbon_events_done(false);
  for (int i = 0; i < 10; ++i) {
    TN_CHECK_OK(tn_add(a, a, tn_int(1), &y));
    tn_tensor_release(y);
  }
  TN_CHECK_INT(h.n_times, 0);
  ribbon_events_done(true);
  TN_CHECK_OK(tn_mul(a, a, &y)); /* looks for those that are done */
  TN_CHECK(h.n_times > 0 && h.n_times < 11);
  TN_CHECK_OK(tn_profiler_detach(h.handle));
  TN_CHECK_INT(h.n_times, 11);
  TN_CHECK_INT(h.time_ns, 1100);
  TN_CHECK_PTR_NULL(h.time_stream);
  heard again;
  heard_init(&again);
  const int pairs = ribbon_events() - events;
  listen(&again);
  for (int i = 0; i < 8; ++i) {
    tn_tensor_release(y);
    TN_CHECK_OK(tn_mul(a, a, &y));
  }
  TN_CHECK_OK(tn_profiler_detach(again.handle));
  TN_CHECK_INT(again.n_times, 8);
  TN_CHECK_INT(ribbon_events() - events, pairs); /* used again */
  tn_tensor_release(y);
  tn_tensor_release(a);
}

/* ------------------------------------------------------------------ coming and going */

static void attach_inside(void *ctx, const tn_profile_event *e) {
  heard *h = ctx;
  uint64_t handle;
  const tn_profiler_def def = {.struct_size = sizeof def, .begin = on_begin};
  (void)e;
  h->inside = tn_profiler_attach(&def, &handle);
}

TN_TEST(profile, what_is_wrong_is_refused_in_words) {
  heard h;
  heard_init(&h);
  tn_tensor *a = ones(2), *y;
  uint64_t handle = 7;
  tn_profiler_def def = {.struct_size = sizeof def, .ctx = &h};
  TN_CHECK_FAILS(tn_profiler_attach(NULL, &handle), TN_ERR_INVALID_ARGUMENT, "def is NULL");
  TN_CHECK_FAILS(tn_profiler_attach(&def, &handle), TN_ERR_INVALID_ARGUMENT, "every callback is NULL");
  TN_CHECK_INT(handle, 0);
  def.struct_size = 8;
  TN_CHECK_FAILS(tn_profiler_attach(&def, &handle), TN_ERR_INVALID_ARGUMENT, "struct_size is 8");
  TN_CHECK_FAILS(tn_profiler_detach(99999), TN_ERR_NOT_FOUND, "no profiler 99999");
  def = (tn_profiler_def){.struct_size = sizeof def, .ctx = &h, .begin = attach_inside};
  TN_CHECK_OK(tn_profiler_attach(&def, &handle));
  TN_CHECK_OK(tn_mul(a, a, &y));
  TN_CHECK_OK(tn_profiler_detach(handle));
  TN_CHECK_INT(h.inside, TN_ERR_STATE);
  TN_CHECK_FAILS(tn_profiler_detach(handle), TN_ERR_NOT_FOUND, "is attached");
  tn_tensor_release(y);
  tn_tensor_release(a);
}

typedef struct busy {
  _Atomic bool stop;
  _Atomic uint64_t n;
} busy;

static void *work(void *ctx) {
  busy *b = ctx;
  tn_tensor *a = NULL, *y;
  if (tn_ones((const tn_dim[]){4}, 1, TN_OPTIONS(.dtype = TN_FLOAT32), &a) != TN_OK) return NULL;
  while (!atomic_load(&b->stop)) {
    if (tn_mul(a, a, &y) == TN_OK) tn_tensor_release(y);
    atomic_fetch_add(&b->n, 1);
  }
  tn_tensor_release(a);
  return NULL;
}

static void count(void *ctx, const tn_profile_event *e) {
  (void)e;
  ++*(uint64_t *)ctx; /* of one thread: no two calls at once */
}

/* ctx is on the stack of the attacher: a callback after detach would write to a dead place. */
static uint64_t short_visit(void) {
  uint64_t n = 0, handle;
  const tn_profiler_def def = {.struct_size = sizeof def, .ctx = &n, .begin = count};
  TN_CHECK_OK(tn_profiler_attach(&def, &handle));
  for (int i = 0; i < 50; ++i) sched_yield();
  TN_CHECK_OK(tn_profiler_detach(handle));
  const uint64_t seen = n;
  for (int i = 0; i < 20; ++i) sched_yield();
  TN_CHECK_INT(n, seen);
  return seen;
}

TN_TEST(profile, comes_and_goes_while_another_thread_works) {
  busy b = {0};
  pthread_t thread;
  uint64_t seen = 0;
  heard h;
  heard_init(&h);
  TN_CHECK_INT(pthread_create(&thread, NULL, work, &b), 0);
  while (!atomic_load(&b.n)) sched_yield();
  for (int i = 0; i < 200; ++i) seen += short_visit();
  const tn_profiler_def def = {.struct_size = sizeof def, .ctx = &h, .end = on_end}; /* beside another one */
  TN_CHECK_OK(tn_profiler_attach(&def, &h.handle));
  for (int i = 0; i < 50; ++i) seen += short_visit();
  TN_CHECK_OK(tn_profiler_detach(h.handle));
  atomic_store(&b.stop, true);
  pthread_join(thread, NULL);
  TN_CHECK(seen > 0);
}

/* ------------------------------------------------------------------ memory that runs out */

static tn_status do_attach(void *ctx) {
  const tn_profiler_def def = {.struct_size = sizeof def, .begin = count, .ctx = ctx};
  uint64_t handle;
  tn_status status = tn_profiler_attach(&def, &handle);
  if (status != TN_OK) return status;
  return tn_profiler_detach(handle);
}
static void after_attach(void *ctx, tn_status status) {
  (void)ctx, (void)status;
  TN_CHECK_INT(atomic_load(&tni_profile_wanted), 0);
}

TN_TEST(profile, missing_memory_leaves_nobody_attached) {
  uint64_t n = 0;
  tn_stress_run(do_attach, after_attach, &n);
}

/* ------------------------------------------------------------------ leaving without memory */

enum { CROWD = 5 };

static void hear_begin(void *ctx, const tn_profile_event *e) { (void)e, ++*(int *)ctx; }
static void hear_begin_too(void *ctx, const tn_profile_event *e) { (void)e, ++*(int *)ctx; }

typedef struct crowd {
  uint64_t handles[CROWD];
  int heard[CROWD];
} crowd;

/* The second and the last are of one plugin. */
static void crowd_attach(crowd *c) {
  for (int i = 0; i < CROWD; ++i) {
    c->heard[i] = 0;
    const tn_profiler_def def = {
        .struct_size = sizeof def, .ctx = &c->heard[i], .begin = i == 1 || i == 4 ? hear_begin_too : hear_begin};
    TN_CHECK_OK(tn_profiler_attach(&def, &c->handles[i]));
  }
}

static bool is_too(const void *code, const void *ctx) {
  (void)ctx;
  void (*too)(void *, const tn_profile_event *) = hear_begin_too;
  return memcmp(&code, &too, sizeof code) == 0;
}

static tn_status do_leave(void *ctx) {
  const crowd *c = ctx;
  TN_TRY(tn_profiler_detach(c->handles[3]));
  return tni_profile_detach_owned(is_too, NULL) == 2 ? TN_OK : TN_FAIL(TN_ERR_INTERNAL, "not both have gone");
}

static void after_leave(void *ctx, tn_status status) {
  crowd *c = ctx;
  TN_CHECK_OK(status);
  tn_tensor_release(ones(2));
  TN_CHECK(c->heard[0] && c->heard[2]);
  TN_CHECK(!c->heard[1] && !c->heard[3] && !c->heard[4]);
  TN_CHECK_OK(tn_profiler_detach(c->handles[0]));
  TN_CHECK_OK(tn_profiler_detach(c->handles[2]));
  TN_CHECK_INT(atomic_load(&tni_profile_wanted), 0);
  crowd_attach(c);
}

TN_TEST(profile, leaving_takes_no_memory_and_nobody_else_along) {
  crowd c;
  crowd_attach(&c);
  tn_stress_run(do_leave, after_leave, &c);
  for (int i = 0; i < CROWD; ++i) TN_CHECK_OK(tn_profiler_detach(c.handles[i]));
}

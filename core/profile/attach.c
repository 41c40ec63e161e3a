/* SPDX-License-Identifier: Apache-2.0
 *
 * Who listens, and telling everybody: the list of attached profilers and its replacement (Note [Detaching]).
 *
 * A forked child has no profiler: what the parent's ones write to is the parent's.
 */
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "core/base/thread_state.h"
#include "core/load/load.h"
#include "core/profile/profile_int.h"

enum { STRIPES = 16 };

typedef struct listener {
  tn_profiler_def def;
  uint64_t handle;
  uint64_t first_id; /* of what began after it was attached */
} listener;

typedef struct listeners {
  struct listeners *older; /* in the list of all that were ever made */
  uint32_t n, capacity;
  struct {
    _Atomic uint32_t n;
    char apart[60]; /* from the next one's cache line */
  } readers[STRIPES];
  listener items[];
} listeners;

_Atomic uint32_t tni_profile_wanted;
static _Atomic(listeners *) current; /* NULL: nobody */
static _Atomic uint64_t next_id = 1;

/* Attaching and detaching. */
static tni_mutex mutex = TNI_MUTEX_INIT;
static listeners *made;
static uint64_t last_handle;

uint64_t tni_profile_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ------------------------------------------------------------------ telling */

static uint64_t this_thread(void) {
  if (TNI_UNLIKELY(!tni_tls.profile_thread)) tni_tls.profile_thread = (uint64_t)gettid();
  return tni_tls.profile_thread;
}

static inline unsigned stripe(void) { return (unsigned)((uintptr_t)&tni_tls >> 12) % STRIPES; }

static listeners *hold(void) {
  if (tni_tls.profile_inside) return NULL; /* a callback's own doings */
  for (;;) {
    listeners *l = atomic_load(&current);
    if (!l) return NULL;
    atomic_fetch_add(&l->readers[stripe()].n, 1);
    if (TNI_LIKELY(atomic_load(&current) == l)) {
      tni_tls.profile_inside = true;
      return l;
    }
    atomic_fetch_sub(&l->readers[stripe()].n, 1);
  }
}

static void let_go(listeners *l) {
  tni_tls.profile_inside = false;
  atomic_fetch_sub_explicit(&l->readers[stripe()].n, 1, memory_order_release);
}

void tni_profile_begin(tni_profile_span *span, uint32_t kind, const char *name, tn_device device, const tn_value *args,
                       uint32_t n_args) {
  *span = (tni_profile_span){.id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed),
                             .parent = tni_tls.profile_parent,
                             .kind = kind,
                             .device = device,
                             .name = name};
  tni_tls.profile_parent = span->id;
  listeners *l = hold();
  if (!l) return;
  const tn_profile_event event = {.struct_size = sizeof event,
                                  .kind = kind,
                                  .name = name,
                                  .id = span->id,
                                  .parent = span->parent,
                                  .time_ns = tni_profile_now(),
                                  .thread = this_thread(),
                                  .device = device,
                                  .n_args = n_args,
                                  .args = args};
  for (uint32_t i = 0; i < l->n; ++i)
    if (l->items[i].def.begin && l->items[i].first_id <= span->id) l->items[i].def.begin(l->items[i].def.ctx, &event);
  let_go(l);
}

void tni_profile_end(const tni_profile_span *span, tn_status status) {
  tni_tls.profile_parent = span->parent;
  listeners *l = hold();
  if (!l) return;
  const tn_profile_event event = {.struct_size = sizeof event,
                                  .kind = span->kind,
                                  .name = span->name,
                                  .id = span->id,
                                  .parent = span->parent,
                                  .time_ns = tni_profile_now(),
                                  .thread = this_thread(),
                                  .device = span->device,
                                  .status = status};
  for (uint32_t i = 0; i < l->n; ++i)
    if (l->items[i].def.end && l->items[i].first_id <= span->id) l->items[i].def.end(l->items[i].def.ctx, &event);
  let_go(l);
}

void tni_profile_memory(uint32_t kind, tn_device device, uint64_t bytes, uint64_t current_bytes) {
  listeners *l = hold();
  if (!l) return;
  const tn_profile_event event = {.struct_size = sizeof event,
                                  .kind = kind,
                                  .name = kind == TN_PROFILE_ALLOC ? "alloc" : "free",
                                  .parent = tni_tls.profile_parent,
                                  .time_ns = tni_profile_now(),
                                  .thread = this_thread(),
                                  .device = device,
                                  .bytes = bytes,
                                  .current_bytes = current_bytes};
  for (uint32_t i = 0; i < l->n; ++i)
    if (l->items[i].def.memory) l->items[i].def.memory(l->items[i].def.ctx, &event);
  let_go(l);
}

void tni_profile_device_time(const tn_profile_device_time *time) {
  listeners *l = hold();
  if (!l) return;
  for (uint32_t i = 0; i < l->n; ++i)
    if (l->items[i].def.device_time && l->items[i].first_id <= time->id)
      l->items[i].def.device_time(l->items[i].def.ctx, time);
  let_go(l);
}

/* ------------------------------------------------------------------ attaching: the mutex is held */

/* A list that nobody reads, with room for n; NULL: none is there. Whoever detaches finds one: the list that the current one
 * replaced has at most one place less than it, whether that was for a profiler more or for fewer. */
static listeners *list_idle(uint32_t n) {
  listeners *now = atomic_load(&current);
  for (listeners *l = made; l; l = l->older)
    if (l != now && l->capacity >= n) return l;
  return NULL;
}

static listeners *list_take(uint32_t n) {
  listeners *l = list_idle(n);
  if (l) return l;
  l = tni_alloc_zero(sizeof *l + n * sizeof *l->items);
  if (!l) return NULL;
  l->capacity = n;
  l->older = made;
  made = l;
  return l;
}

static uint32_t wanted_by(const listeners *l) {
  uint32_t wanted = 0;
  for (uint32_t i = 0; l && i < l->n; ++i) {
    const tn_profiler_def *def = &l->items[i].def;
    if (def->begin || def->end || def->device_time) wanted |= TNI_PROFILE_SPANS;
    if (def->memory) wanted |= TNI_PROFILE_MEMORY;
    if (def->device_time) wanted |= TNI_PROFILE_DEVICE_TIME;
  }
  return wanted;
}

/* Puts l (NULL: nobody) in the place of the current list, and waits for that one's readers. */
static void list_publish(listeners *l) {
  const uint32_t before = wanted_by(atomic_load(&current)), after = wanted_by(l);
  if (!(after & TNI_PROFILE_SPANS) && (before & TNI_PROFILE_SPANS)) tni_profile_calls(false);
  listeners *old = atomic_exchange(&current, l);
  atomic_store(&tni_profile_wanted, after);
  for (int i = 0; old && i < STRIPES; ++i)
    while (atomic_load(&old->readers[i].n)) sched_yield();
  if ((after & TNI_PROFILE_SPANS) && !(before & TNI_PROFILE_SPANS)) tni_profile_calls(true);
}

static tn_status attach_locked(const tn_profiler_def *def, uint64_t *out_handle) {
  const listeners *old = atomic_load(&current);
  uint32_t n = old ? old->n : 0;
  listeners *l = list_take(n + 1);
  if (!l) return tni_oom(sizeof *l + (n + 1) * sizeof *l->items, "a list of profilers");
  for (uint32_t i = 0; i < n; ++i) l->items[i] = old->items[i];
  l->items[n] = (listener){*def, ++last_handle, atomic_load(&next_id)};
  l->n = n + 1;
  list_publish(l);
  *out_handle = last_handle;
  return TN_OK;
}

static tn_status check_place(const char *what) {
  if (!tni_tls.profile_inside) return TN_OK;
  return TN_FAIL(TN_ERR_STATE, "%s: a profiler's callback may not attach or detach", what);
}

tn_status tni_profile_attach(const tn_profiler_def *def, uint64_t *out_handle) {
  if (!def || !out_handle)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "profiler_attach: %s is NULL", def ? "out_handle" : "def");
  *out_handle = 0;
  TN_TRY(check_place("profiler_attach"));
  tn_profiler_def copy = {0};
  if (def->struct_size < offsetof(tn_profiler_def, begin))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "profiler_attach: struct_size is %u", def->struct_size);
  memcpy(&copy, def, def->struct_size < sizeof copy ? def->struct_size : sizeof copy);
  if (!copy.begin && !copy.end && !copy.memory && !copy.device_time)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "profiler_attach: every callback is NULL");
  TN_TRY(tni_load_init());
  tni_mutex_lock(&mutex);
  tn_status status = attach_locked(&copy, out_handle);
  tni_mutex_unlock(&mutex);
  return status;
}

/* Which listeners go. Asked twice of each, so it answers the same. */
typedef bool (*goes_fn)(const listener *l, const void *ctx);

/* A list without those that go takes the old one's place; how many went. Needs no memory. */
static uint32_t detach_locked(goes_fn goes, const void *ctx) {
  const listeners *old = atomic_load(&current);
  uint32_t n_gone = 0;
  for (uint32_t i = 0; old && i < old->n; ++i) n_gone += goes(&old->items[i], ctx);
  if (!n_gone) return 0;
  listeners *l = old->n > n_gone ? list_idle(old->n - n_gone) : NULL;
  TNI_ASSERT(l || old->n == n_gone);
  if (l) l->n = 0;
  for (uint32_t i = 0; l && i < old->n; ++i)
    if (!goes(&old->items[i], ctx)) l->items[l->n++] = old->items[i];
  list_publish(l);
  return n_gone;
}

static bool has_handle(const listener *l, const void *handle) { return l->handle == *(const uint64_t *)handle; }

tn_status tni_profile_detach(uint64_t handle) {
  TN_TRY(check_place("profiler_detach"));
  tni_stopwatches_drain();
  tni_mutex_lock(&mutex);
  const uint32_t n = detach_locked(has_handle, &handle);
  tni_mutex_unlock(&mutex);
  if (n) return TN_OK;
  return TN_FAIL(TN_ERR_NOT_FOUND, "profiler_detach: no profiler %llu is attached", (unsigned long long)handle);
}

typedef struct owner {
  bool (*owned)(const void *code, const void *ctx);
  const void *ctx;
} owner;

static bool is_owned(const listener *l, const void *ctx) {
  const owner *o = ctx;
  const void *code[4];
  memcpy(&code[0], &l->def.begin, sizeof code[0]);
  memcpy(&code[1], &l->def.end, sizeof code[1]);
  memcpy(&code[2], &l->def.memory, sizeof code[2]);
  memcpy(&code[3], &l->def.device_time, sizeof code[3]);
  for (int i = 0; i < 4; ++i)
    if (code[i] && o->owned(code[i], o->ctx)) return true;
  return false;
}

uint32_t tni_profile_detach_owned(bool (*owned)(const void *code, const void *ctx), const void *ctx) {
  const owner o = {owned, ctx};
  tni_mutex_lock(&mutex);
  const uint32_t n = detach_locked(is_owned, &o);
  tni_mutex_unlock(&mutex);
  return n;
}

void tni_profile_stop(void) {
  if (atomic_load(&current)) tni_stopwatches_drain();
  tni_mutex_lock(&mutex);
  list_publish(NULL);
  tni_stopwatches_free();
  tni_mutex_unlock(&mutex);
}

/* ------------------------------------------------------------------ fork */

static void before_fork(void) { tni_mutex_lock(&mutex); }
static void after_fork(void) { tni_mutex_unlock(&mutex); }

/* Other threads' counts would never come down. The registry's lock is free again: its rank is behind. */
static void after_fork_child(void) {
  listeners *l = atomic_load(&current);
  for (listeners *m = made; m; m = m->older)
    for (int i = 0; i < STRIPES; ++i) atomic_store(&m->readers[i].n, 0);
  tni_tls.profile_thread = 0;
  tni_tls.profile_inside = false;
  if (l) list_publish(NULL);
  tni_stopwatches_free();
  tni_mutex_unlock(&mutex);
}
TNI_FORK_PART(profilers, TNI_FORK_PROFILE, before_fork, after_fork, after_fork_child);

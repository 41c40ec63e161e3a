/* SPDX-License-Identifier: Apache-2.0
 *
 * Start (manifests only), opening a plugin when something asks for it, and shutdown.
 *
 * Note [The loader lock]
 * One lock serves start, opening and shutdown. It is taken with no other lock held; the registry lock is taken
 * inside it. A second thread that needs a plugin waits. The thread that holds it may not take it again: that
 * happens when a plugin's init dispatches or opens a device, and is answered with a status. After start, the
 * list of plugins never changes, so reading it needs no lock.
 *
 * Note [After exit begins]
 * A handler registered after each init runs before the destructors of that plugin and of what it pulled in; from
 * then on no plugin is called (tni_exiting).
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "core/dispatch/fallback.h"
#include "core/load/load_int.h"
#include "core/memory/memory.h"
#include "core/tensor/stream.h"

enum { LOAD_NEW = 0, LOAD_READY = 1, LOAD_CLOSED = 2 };

static tni_mutex lock = TNI_MUTEX_INIT;
static _Atomic(const void *) lock_owner;
static _Atomic int load_state;
static _Atomic bool exiting;
static uint32_t n_opened;

/* ------------------------------------------------------------------ the lock */

static tn_status fail_closed(void) {
  return TN_FAIL(TN_ERR_STATE, "tn_shutdown was called: nothing can run or be opened any more");
}

static tn_status check_not_held(void) {
  if (TNI_LIKELY(atomic_load_explicit(&lock_owner, memory_order_relaxed) != &tni_tls)) return TN_OK;
  return TN_FAIL(TN_ERR_STATE, "a plugin's init may not dispatch or open devices");
}

tn_status tni_may_dispatch(void) {
  if (TNI_UNLIKELY(atomic_load_explicit(&load_state, memory_order_relaxed) == LOAD_CLOSED))
    return fail_closed();
  return check_not_held();
}

tn_status tni_load_lock(void) {
  TN_TRY(check_not_held());
  tni_mutex_lock(&lock);
  atomic_store_explicit(&lock_owner, &tni_tls, memory_order_relaxed);
  return TN_OK;
}

void tni_load_unlock(void) {
  atomic_store_explicit(&lock_owner, NULL, memory_order_relaxed);
  tni_mutex_unlock(&lock);
}

/* A plugin's init may fork: then this thread holds the lock already and keeps it, on both sides. */
static void lock_before_fork(void) {
  if (atomic_load_explicit(&lock_owner, memory_order_relaxed) != &tni_tls) tni_mutex_lock(&lock);
}
static void unlock_after_fork(void) {
  if (atomic_load_explicit(&lock_owner, memory_order_relaxed) != &tni_tls) tni_mutex_unlock(&lock);
}
TNI_FORK_PART(loader, TNI_FORK_LOADER, lock_before_fork, unlock_after_fork, unlock_after_fork);

bool tni_exiting(void) { return atomic_load_explicit(&exiting, memory_order_relaxed); }
/* Threads that go on computing while the process ends get words: what their plugins need is going. */
static void exit_begins(void) {
  if (atomic_exchange_explicit(&exiting, true, memory_order_relaxed)) return;
  tni_registry_lock();
  tni_rows_end();
  tni_backends_end();
  tni_registry_unlock();
}

/* ------------------------------------------------------------------ start */

static tn_status read_all(void) {
  static bool have_ops;
  if (!have_ops) TN_TRY(tni_ops_init());
  have_ops = true;
  TN_TRY(tni_meta_publish());
  tni_plugin_list list = {0};
  tn_status status = tni_search(&list);
  if (status == TN_OK) status = tni_judge(&list);
  if (status == TN_OK) status = tni_order_layers(&list);
  if (status == TN_OK) {
    tni_list_publish(&list);
    status = tni_fallback_read();
    if (status != TN_OK) tni_list_take_back(&list);
  }
  if (status != TN_OK) tni_list_deinit(&list);
  return status;
}

tn_status tni_load_init(void) {
  int state = atomic_load_explicit(&load_state, memory_order_acquire);
  if (TNI_LIKELY(state == LOAD_READY)) return TN_OK;
  if (state == LOAD_CLOSED) return fail_closed();
  TN_TRY(tni_load_lock());
  tn_status status = TN_OK;
  bool first = atomic_load_explicit(&load_state, memory_order_relaxed) == LOAD_NEW;
  if (first) {
    status = read_all();
    if (status == TN_OK) atomic_store_explicit(&load_state, LOAD_READY, memory_order_release);
  }
  tni_load_unlock();
  if (first && status == TN_OK) tni_layers_from_environment();
  return status;
}

/* ------------------------------------------------------------------ opening one plugin */

static tn_status check_conflicts(const tni_plugin *p) {
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    const tni_plugin *q = tni_plugin_at(i);
    if (q == p || tni_plugin_state(q) != TN_PLUGIN_READY) continue;
    if (tni_strings_have(&p->manifest->conflicts, q->name) ||
        tni_strings_have(&q->manifest->conflicts, p->name))
      return TN_FAIL(TN_ERR_PLUGIN, "conflicts with plugin %s, which is open", q->name);
  }
  return TN_OK;
}

static tn_status check_answer(const tni_plugin *p, const tn_query *q) {
  TN_TRY(tni_abi_check(q->plugin_major, q->plugin_minor, q->needs_minor));
  TN_TRY(tni_sanitizer_check(q->sanitizer));
  if (!q->name || strcmp(q->name, p->name) != 0)
    return TN_FAIL(TN_ERR_PLUGIN,
                   "manifest contradicts the code: the name is %s in the manifest, %s in the answer to %s",
                   p->name, q->name ? q->name : "absent", TN_PLUGIN_SYMBOL);
  if (!q->init) return TN_FAIL(TN_ERR_PLUGIN, "gives no init function");
  return TN_OK;
}

static tn_status negotiate(tni_plugin *p, tn_query *q) {
  *q = (tn_query){.struct_size = sizeof *q, .host_major = TN_ABI_MAJOR, .host_minor = TN_ABI_MINOR};
  tn_status status = p->query(q);
  if (status == TN_ERR_VERSION)
    return TN_FAIL(
        status, "refuses this host: it was built for ABI %u.%u and needs %u.%u, the host has %d.%d",
        q->plugin_major, q->plugin_minor, q->plugin_major, q->needs_minor, TN_ABI_MAJOR, TN_ABI_MINOR);
  if (status != TN_OK)
    return TN_FAIL(TN_ERR_PLUGIN, "%s answered \"%s\"", TN_PLUGIN_SYMBOL, tn_status_name(status));
  return check_answer(p, q);
}

/* Backends without a device leave the transaction, unless all of them would. */
static tn_status count_devices(tn_registration *reg, size_t *out_missing) {
  size_t kept = 0;
  *out_missing = 0;
  for (size_t i = 0; i < reg->backends.count; ++i) {
    tni_backend *backend = reg->backends.items[i];
    tn_status status = tni_backend_count_devices(backend);
    if (status == TN_ERR_UNAVAILABLE)
      ++*out_missing;
    else if (status != TN_OK)
      return status;
    if (status == TN_OK)
      reg->backends.items[kept++] = backend;
    else if (*out_missing == reg->backends.count)
      return status;
    else
      tni_backend_free(backend);
  }
  reg->backends.count = kept;
  return TN_OK;
}

static tn_status run_init(tn_registration *reg, const tn_query *q, size_t *out_missing) {
  tn_error_clear();
  tn_status status = q->init(tni_host(), reg);
  if (status != TN_OK && !*tn_error_message())
    TN_FAIL(status, "init answered \"%s\"", tn_status_name(status));
  if (status != TN_OK && status != TN_ERR_UNAVAILABLE) return TN_WRAP(status, "init failed");
  TN_TRY(status);
  TN_TRY(tni_transaction_check(reg));
  TN_TRY(count_devices(reg, out_missing));
  if (atexit(exit_begins) != 0) return tni_oom(sizeof(void *), "an exit handler");
  return tni_commit(reg);
}

/* What a ready plugin's report says: parts of it that are not in use. "" if all is. */
static void note_leftovers(const tn_registration *reg, size_t missing) {
  tn_error_clear();
  if (reg->plugin->remark) tn_fail(TN_OK, "%s", reg->plugin->remark);
  if (reg->n_skipped)
    tn_wrap(TN_OK,
            "%zu kernels are not used, because this host lacks their operator, key or schema (first: %s)",
            reg->n_skipped, reg->first_skipped);
  if (missing) tn_wrap(TN_OK, "%zu of its devices are not present", missing);
}

static tn_status bring_up(tni_plugin *p) {
  TN_TRY(check_conflicts(p));
  TN_TRY(tni_dl_examine(p));
  TN_TRY(tni_probe_check(p));
  TN_TRY(tni_dl_open(p));
  void *address;
  TN_TRY(tni_dl_symbol(p, TN_PLUGIN_SYMBOL, &address));
  memcpy(&p->query, &address, sizeof address);
  Dl_info info;
  if (dladdr(address, &info)) atomic_store_explicit(&p->code, info.dli_fbase, memory_order_release);
  tn_query q;
  TN_TRY(negotiate(p, &q));
  tn_registration reg;
  size_t missing = 0;
  TN_TRY(tni_transaction_begin(p, &reg));
  tn_status status = run_init(&reg, &q, &missing);
  if (status == TN_OK) {
    p->shutdown = q.shutdown;
    p->open_order = ++n_opened;
    atomic_store(&p->unloaded, false);
    if (p->manifest->thread_runtime) tni_parallel_use_runtime(p->manifest->thread_runtime, p->name);
    note_leftovers(&reg, missing);
  }
  tni_transaction_end(&reg);
  return status;
}

static bool is_quarantined(const tni_plugin *p) {
  const tni_probe *probe = atomic_load_explicit(&p->probe, memory_order_relaxed);
  return probe && probe->verdict == TNI_PROBE_QUARANTINED;
}

tn_status tni_plugin_open(tni_plugin *p) {
  tn_plugin_state state = tni_plugin_state(p);
  if (state == TN_PLUGIN_LOADABLE) {
    tn_status status = bring_up(p);
    if (status == TN_ERR_OUT_OF_MEMORY) return status; /* may be tried again: nothing was kept */
    state = status == TN_OK                ? TN_PLUGIN_READY
            : is_quarantined(p)            ? TN_PLUGIN_QUARANTINED
            : status == TN_ERR_UNAVAILABLE ? TN_PLUGIN_NO_HARDWARE
                                           : TN_PLUGIN_FAILED;
    tni_plugin_set(p, state);
    const char *reason = tni_plugin_reason(p);
    tn_log(state == TN_PLUGIN_FAILED || state == TN_PLUGIN_QUARANTINED ? TN_LOG_WARN : TN_LOG_INFO, "plugin %s (%s): %s%s%s", p->name, p->path,
           tn_plugin_state_name(state), *reason ? ": " : "", reason);
  }
  if (state == TN_PLUGIN_READY) return TN_OK;
  return TN_FAIL(TN_ERR_UNAVAILABLE, "plugin %s (%s) is %s: %s", p->name, p->path,
                 tn_plugin_state_name(state), tni_plugin_reason(p));
}

/* ------------------------------------------------------------------ shutdown */

static void drain(void) {
  for (uint8_t id = 0; id < TN_BACKEND_LIMIT; ++id) {
    const tni_backend *b = tni_backend_get(id);
    if (!b || !b->def->synchronize || (b->fork && !tni_fork_usable(b->fork))) continue;
    for (int32_t i = 0; i < b->n_devices; ++i) {
      tn_error_clear();
      if (tn_wrap(b->def->synchronize(b->def->ctx, i), "at shutdown: device %s:%d", b->name, (int)i) != TN_OK)
        tn_log(TN_LOG_WARN, "%s", tn_error_message());
    }
  }
}

/* The plugin opened last among layers (first pass) or the rest (second pass) whose shutdown was not called. */
static tni_plugin *last_opened(bool layers) {
  tni_plugin *best = NULL;
  for (size_t i = 0; i < tni_plugin_count(); ++i) {
    tni_plugin *p = tni_plugin_at(i);
    if (!p->shutdown || (p->manifest->layers.count > 0) != layers) continue;
    if (!best || p->open_order > best->open_order) best = p;
  }
  return best;
}

/* Backends stay published, because tensors that outlive this still point to them; what would use one asks
 * tni_load_init or tni_may_dispatch first, and frees ask tni_exiting. */
void tni_load_shutdown(void) {
  if (tni_load_lock() != TN_OK) return;
  bool was_open = atomic_exchange_explicit(&load_state, LOAD_CLOSED, memory_order_acq_rel) == LOAD_READY;
  if (was_open && !tni_exiting()) {
    tni_registry_lock();
    tni_rows_end(); /* threads that go on computing get words; what they are in ends below */
    tni_registry_unlock();
    drain();
    tni_pools_purge();
    tni_layer_states_drop(UINT64_MAX);
    tni_streams_free(); /* segments were given back on them */
    for (int pass = 0; pass < 2; ++pass) {
      for (tni_plugin *p = last_opened(pass == 0); p; p = last_opened(pass == 0)) {
        void (*fn)(void) = p->shutdown;
        p->shutdown = NULL;
        fn();
      }
    }
  }
  atomic_store_explicit(&exiting, true, memory_order_relaxed);
  tni_load_unlock();
}

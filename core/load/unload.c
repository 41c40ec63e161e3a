/* SPDX-License-Identifier: Apache-2.0
 *
 * Note [Unloading]
 * Code is never unmapped, so nothing can be left pointing to nowhere. Unloading means: the plugin is in no table any
 * more, its devices are closed, its shutdown was called, and it is not called again until somebody names it, when
 * init runs again. It is refused, in one sentence with counts, while something would miss it:
 *   segments of device or pinned memory with a block in use (raw allocations: that is what the backend knows, not
 *   tensors), streams and events,
 *   storages over memory that it owns (Note [Who is pinned]),
 *   autograd nodes of operators that it added,
 *   interfaces that others were given,
 *   kernels of other plugins for its operators.
 * What remains in reach of tensors without memory (0 elements), of default devices and of held handles is a record
 * that answers in words. Like tn_shutdown it is for a moment in which no thread computes with the plugin.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/load/load_int.h"
#include "core/memory/memory.h"
#include "core/profile/profile.h"
#include "core/tensor/stream.h"

/* ------------------------------------------------------------------ what is in use */

/* Adds "N things" to the words. */
static tn_status add_words(char **words, uint64_t n, const char *what, const char *more) {
  char *longer;
  if (!n) return TN_OK;
  int length = asprintf(&longer, "%s%s%llu %s%s%s", *words ? *words : "", *words ? ", " : "", (unsigned long long)n,
                        what, n == 1 ? "" : "s", more);
  if (length < 0) return tni_oom(0, "words about what is in use");
  free(*words);
  *words = longer;
  return TN_OK;
}

static bool is_own(const tni_plugin *p, const tn_op *op) {
  for (size_t i = 0; op->added && i < p->manifest->operators.count; ++i)
    if (strcmp(p->manifest->operators.items[i], op->schema_text) == 0) return true;
  return false;
}

static tn_status count_operators(const tni_plugin *p, char **words) {
  uint64_t nodes = 0, kernels = 0;
  const char *other = "";
  char whose[128];
  tni_registry_lock();
  for (size_t i = 0; i < tni_op_count(); ++i) {
    tn_op *op = tni_op_at(i);
    if (!is_own(p, op)) continue;
    nodes += atomic_load_explicit(&op->n_nodes, memory_order_relaxed);
    kernels += tni_kernels_of_others(op, p->name, &other);
  }
  tni_registry_unlock();
  TN_TRY(add_words(words, nodes, "autograd node", " of its operators"));
  snprintf(whose, sizeof whose, " of others for its operators (one of %.80s)", other);
  return add_words(words, kernels, "kernel", whose);
}

static const tni_backend *backend_at(const tni_plugin *p, uint8_t id) {
  const tni_backend *b = tni_backend_get(id);
  return b && b->plugin == p && !b->closed ? b : NULL;
}

/* Pool k of a backend: those of its devices, then those of pinned memory; NULL: not made. */
static tni_pool *pool_at(const tni_backend *b, int32_t k) {
  if (k < b->n_devices) return b->pools ? b->pools[k] : NULL;
  return b->pinned ? atomic_load(&b->pinned[k - b->n_devices]) : NULL;
}

static void reopen_pools(const tni_plugin *p) {
  for (uint8_t id = 0; id < TN_BACKEND_LIMIT; ++id) {
    const tni_backend *b = backend_at(p, id);
    for (int32_t k = 0; b && k < 2 * b->n_devices; ++k)
      if (pool_at(b, k)) tni_pool_reopen(pool_at(b, k));
  }
}

static tn_status close_pool(const tni_backend *b, int32_t k, char **words) {
  uint64_t bytes, n = tni_pool_close(pool_at(b, k), &bytes);
  bool pinned = k >= b->n_devices;
  char where[160];
  snprintf(where, sizeof where, " %s %.64s:%d (%llu bytes)", pinned ? "pinned for" : "in use on", b->name,
           (int)(pinned ? k - b->n_devices : k), (unsigned long long)bytes);
  return add_words(words, n, "memory segment", where);
}

/* Closes every pool that can be. */
static tn_status close_pools(const tni_plugin *p, char **words) {
  for (uint8_t id = 0; id < TN_BACKEND_LIMIT; ++id) {
    const tni_backend *b = backend_at(p, id);
    if (!b) continue;
    TN_TRY(add_words(words, tni_streams_live(id), "stream", " of its devices"));
    TN_TRY(add_words(words, tni_events_live(id), "event", " of its devices"));
    for (int32_t k = 0; k < 2 * b->n_devices; ++k)
      if (pool_at(b, k)) TN_TRY(close_pool(b, k, words));
  }
  return TN_OK;
}

/* Leaves the pools closed if nothing is in use. */
static tn_status check_unused(const tni_plugin *p) {
  char *words = NULL;
  tn_status status = count_operators(p, &words);
  if (status == TN_OK)
    status = add_words(&words, atomic_load(&p->n_foreign), "storage", " over memory that it owns");
  if (status == TN_OK) status = add_words(&words, atomic_load(&p->n_given), "interface", " given to other plugins");
  if (status == TN_OK) status = close_pools(p, &words);
  if (status == TN_OK && words) status = TN_FAIL(TN_ERR_STATE, "plugin %s is in use and stays: %s", p->name, words);
  free(words);
  if (status != TN_OK) reopen_pools(p);
  return status;
}

/* ------------------------------------------------------------------ taking it out */

/* Tombstones of its devices, in a chain; nothing is published yet. */
static tn_status make_tombstones(const tni_plugin *p, tni_backend *tombstones[TN_BACKEND_LIMIT]) {
  for (uint8_t id = 0; id < TN_BACKEND_LIMIT; ++id)
    if (backend_at(p, id)) TN_TRY(tni_backend_tombstone(backend_at(p, id), &tombstones[id]));
  return TN_OK;
}

static void retire_operators(const tni_plugin *p) {
  for (size_t i = tni_op_count(); i-- > 0;)
    if (is_own(p, tni_op_at(i))) tni_op_retire(tni_op_at(i));
}

static tn_status retire_all(tni_plugin *p) {
  tni_registry_lock();
  tn_status status = tni_op_retire_prepare(p->manifest->operators.count);
  if (status == TN_OK) status = tni_kernels_retire(p->name);
  if (status == TN_OK) {
    tni_commit_retire(p);
    retire_operators(p);
  }
  tni_registry_unlock();
  return status;
}

static void publish_tombstones(tni_backend *const tombstones[TN_BACKEND_LIMIT]) {
  for (uint8_t id = 0; id < TN_BACKEND_LIMIT; ++id) {
    if (!tombstones[id]) continue;
    tni_profile_close(tni_backend_get(id));
    if (tni_backend_has_streams(tni_backend_get(id))) tni_streams_close(tni_backend_get(id));
    atomic_fetch_and_explicit(&tni_inline_backends, ~(1u << id), memory_order_relaxed);
    atomic_store_explicit(&tni_backends[id], tombstones[id], memory_order_release);
  }
}

/* What its layers keep on any thread goes while they can still free it. */
static void drop_states(const tni_plugin *p) {
  uint64_t bits = 0;
  for (size_t i = 0; i < p->manifest->layers.count; ++i) bits |= TNI_KEY(p->manifest->layers.items[i].bit);
  if (bits) tni_layer_states_drop(bits);
}

static void call_shutdown(tni_plugin *p) {
  void (*shutdown)(void) = p->shutdown;
  p->shutdown = NULL;
  if (shutdown) shutdown();
}

static bool is_code_of(const void *code, const void *ctx) { return tni_plugin_of_code(code) == ctx; }

/* Its shutdown is where it should have detached them. */
static void drop_profilers(const tni_plugin *p) {
  uint32_t n = tni_profile_detach_owned(is_code_of, p);
  if (n) tn_log(TN_LOG_WARN, "plugin %s left %u profiler%s attached when it was unloaded", p->name, n, n == 1 ? "" : "s");
}

/* Its devices must be still: pools wait for asynchronous ones before they are counted. */
static tn_status unload(tni_plugin *p) {
  tni_backend *tombstones[TN_BACKEND_LIMIT] = {NULL};
  TN_TRY(check_unused(p));
  tn_status status = make_tombstones(p, tombstones);
  if (status == TN_OK) status = retire_all(p);
  if (status != TN_OK) {
    for (uint8_t id = 0; id < TN_BACKEND_LIMIT; ++id) tni_free(tombstones[id]);
    reopen_pools(p);
    return status;
  }
  publish_tombstones(tombstones);
  drop_states(p);
  call_shutdown(p);
  drop_profilers(p);
  tni_free(p->tables);
  p->tables = NULL;
  p->open_order = 0;
  atomic_store(&p->unloaded, true);
  tn_fail(TN_OK, "was unloaded; opened again when its device, its layer or its name is asked for");
  tni_plugin_set(p, TN_PLUGIN_LOADABLE);
  tn_log(TN_LOG_INFO, "plugin %s (%s): unloaded", p->name, p->path);
  return TN_OK;
}

/* ------------------------------------------------------------------ doors */

static tn_status named(const char *name, tni_plugin **out_plugin) {
  TN_TRY(tni_load_init());
  *out_plugin = tni_plugin_named(name);
  return *out_plugin ? TN_OK : TN_FAIL(TN_ERR_NOT_FOUND, "there is no usable plugin %s", name);
}

tn_status tni_plugin_open_named(const char *name) {
  tni_plugin *p;
  TN_TRY(named(name, &p));
  TN_TRY(tni_load_lock());
  tn_status status = tni_plugin_open(p);
  tni_load_unlock();
  return status;
}

tn_status tni_plugin_unload(const char *name) {
  tni_plugin *p;
  TN_TRY(named(name, &p));
  TN_TRY(tni_load_lock());
  tn_plugin_state state = tni_plugin_state(p);
  tn_status status = TN_OK;
  if (state == TN_PLUGIN_READY)
    status = unload(p);
  else if (state != TN_PLUGIN_LOADABLE)
    status = TN_FAIL(TN_ERR_STATE, "plugin %s is %s and not open: %s", name, tn_plugin_state_name(state),
                     tni_plugin_reason(p));
  tni_load_unlock();
  return status;
}

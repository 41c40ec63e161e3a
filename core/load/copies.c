/* SPDX-License-Identifier: Apache-2.0
 *
 * Private, full-size copies of what a plugin registers. The plugin lends its structs and strings for the length
 * of the call only; the tables keep them until exit.
 */
#include "core/load/load_int.h"
#include "core/memory/memory.h"
#include "core/tensor/generator.h"
#include "core/tensor/stream.h"

/* ------------------------------------------------------------------ operators */

static tn_status copy_text(const char *from, const char **out_copy) {
  *out_copy = NULL;
  if (!from) return TN_OK;
  *out_copy = tni_strdup(from);
  return *out_copy ? TN_OK : tni_oom(strlen(from) + 1, "an operator's text");
}

static void *copy_bytes(const void *from, size_t size) {
  void *to = tni_alloc(size ? size : 1);
  if (to && size) memcpy(to, from, size);
  return to;
}

static void grad_free(const tn_grad_def *grad) {
  if (!grad) return;
  tni_free((void *)grad->input_args);
  tni_free((void *)grad->saves);
  tni_free((void *)grad->node_name);
  tni_free((void *)grad);
}

static tn_status grad_copy(const tn_grad_def *from, uint32_t n_args, const tn_grad_def **out_copy) {
  tn_grad_def def;
  *out_copy = NULL;
  if (!from) return TN_OK;
  tni_copy_sized(&def, sizeof def, from);
  if (!def.fn || !def.n_inputs || !def.input_args || !def.saves)
    return TN_FAIL(TN_ERR_PLUGIN, "a gradient needs fn, n_inputs, input_args and saves");
  for (uint32_t i = 0; i < def.n_inputs; ++i)
    if (def.input_args[i] >= n_args || (i && def.input_args[i] <= def.input_args[i - 1]))
      return TN_FAIL(TN_ERR_PLUGIN,
                     "a gradient's input_args are ascending positions below %u; entry %u is %u", n_args, i,
                     def.input_args[i]);
  tn_grad_def *copy = tni_alloc_zero(sizeof *copy);
  if (!copy) return tni_oom(sizeof *copy, "a gradient's record");
  *copy = def;
  copy->struct_size = sizeof *copy;
  copy->input_args = copy_bytes(def.input_args, def.n_inputs);
  copy->saves = copy_bytes(def.saves, def.n_inputs * sizeof *def.saves);
  copy->node_name = tni_strdup(def.node_name ? def.node_name : "PluginBackward0");
  *out_copy = copy;
  return copy->input_args && copy->saves && copy->node_name ? TN_OK : tni_oom(0, "a gradient's record");
}

void tni_operator_free(tn_operator_def *def) {
  if (!def) return;
  tni_free((void *)def->schema);
  tni_free((void *)def->functional);
  tni_free((void *)def->doc);
  tni_free((void *)def->file);
  grad_free(def->grad);
  tni_free(def);
}

static tn_status fill_operator(const tn_operator_def *def, tn_operator_def *copy) {
  TN_TRY(copy_text(def->schema, &copy->schema));
  TN_TRY(copy_text(def->functional, &copy->functional));
  TN_TRY(copy_text(def->doc, &copy->doc));
  TN_TRY(copy_text(def->file, &copy->file));
  tni_schema *schema;
  TN_TRY(tni_schema_parse(def->schema, &schema));
  tn_status status = grad_copy(def->grad, schema->n_args, &copy->grad);
  if (status != TN_OK) TN_WRAP(status, "operator %s", schema->name);
  tni_schema_release(schema);
  return status;
}

tn_status tni_operator_copy(const tn_operator_def *def, tn_operator_def **out_copy) {
  tn_operator_def *copy = tni_alloc(sizeof *copy);
  if (!copy) return tni_oom(sizeof *copy, "an operator's record");
  *copy = *def;
  copy->struct_size = sizeof *copy;
  copy->schema = copy->functional = copy->doc = copy->file = NULL;
  copy->grad = NULL;
  tn_status status = fill_operator(def, copy);
  if (status == TN_OK)
    *out_copy = copy;
  else
    tni_operator_free(copy);
  return status;
}

/* ------------------------------------------------------------------ backends */

typedef struct backend_block {
  tni_backend backend; /* first: freed through its address */
  tn_backend_def def;
  tni_fork_state fork;
} backend_block;

#define KNOWN_BACKEND_FLAGS ((TN_BACKEND_CPU_FALLBACK << 1) - 1)

static bool together(size_t n, const bool *given) {
  for (size_t i = 1; i < n; ++i)
    if (given[i] != given[0]) return false;
  return true;
}

/* Rows that come as a group. */
static tn_status check_rows(const tn_backend_def *d) {
  const bool events[] = {d->event_new, d->event_free, d->event_record, d->event_query, d->event_wait};
  const bool streams[] = {d->stream_new, d->stream_free, d->stream_synchronize};
  if (!together(5, events))
    return TN_FAIL(TN_ERR_PLUGIN, "the rows event_new, _free, _record, _query and _wait are given together or not at all");
  if (!together(3, streams))
    return TN_FAIL(TN_ERR_PLUGIN, "the rows stream_new, _free and _synchronize are given together or not at all");
  if (!d->host_alloc != !d->host_free)
    return TN_FAIL(TN_ERR_PLUGIN, "the rows host_alloc and host_free are given together or not at all");
  if ((d->event_elapsed && !d->event_new) || (d->stream_new && !d->synchronize))
    return TN_FAIL(TN_ERR_PLUGIN, "%s", d->event_elapsed && !d->event_new ? "event_elapsed needs the event rows"
                                                                          : "a backend with streams has synchronize");
  return TN_OK;
}

static tn_status check_backend(const tn_backend_def *def) {
  if (def->flags & ~KNOWN_BACKEND_FLAGS)
    return TN_FAIL(TN_ERR_VERSION, "flags 0x%x are of a newer ABI than this host's %d.%d",
                   def->flags & ~KNOWN_BACKEND_FLAGS, TN_ABI_MAJOR, TN_ABI_MINOR);
  if (!def->device_count || !def->alloc || !def->free || !def->from_host || !def->to_host)
    return TN_FAIL(TN_ERR_PLUGIN,
                   "the rows device_count, alloc, free, from_host and to_host are required; %s is NULL",
                   !def->device_count ? "device_count"
                   : !def->alloc      ? "alloc"
                   : !def->free       ? "free"
                   : !def->from_host  ? "from_host"
                                      : "to_host");
  if (!def->alignment_bytes || (def->alignment_bytes & (def->alignment_bytes - 1)))
    return TN_FAIL(TN_ERR_PLUGIN, "alignment_bytes is %u, expected a power of two", def->alignment_bytes);
  if ((def->flags & TN_BACKEND_INLINE_MEMORY) && !(def->flags & TN_BACKEND_HOST_MEMORY))
    return TN_FAIL(TN_ERR_PLUGIN, "TN_BACKEND_INLINE_MEMORY needs TN_BACKEND_HOST_MEMORY");
  TN_TRY(check_rows(def));
  if (def->fork == TN_FORK_REINIT && !def->reinit)
    return TN_FAIL(TN_ERR_PLUGIN, "fork is TN_FORK_REINIT, and the row reinit is NULL");
  if (def->fork > TN_FORK_POISONED)
    return TN_FAIL(TN_ERR_PLUGIN, "fork is %u, which this host does not know", def->fork);
  return TN_OK;
}

tn_status tni_backend_copy(const tn_backend_def *def, tni_plugin *plugin, tni_backend **out_backend) {
  TN_TRY(check_backend(def));
  uint8_t id;
  TN_TRY(tni_key_backend(def->device_name, &id));
  backend_block *block = tni_alloc_zero(sizeof *block);
  if (!block) return tni_oom(sizeof *block, "a backend's record");
  block->def = *def;
  block->def.struct_size = sizeof block->def;
  block->def.device_name = tni_backend_name(id);
  tni_fork_state_init(&block->fork, &block->def, tni_backend_name(id));
  block->backend = (tni_backend){.id = id, .def = &block->def, .name = tni_backend_name(id), .fork = &block->fork,
                                  .plugin = plugin};
  *out_backend = &block->backend;
  return TN_OK;
}

void tni_backend_free(tni_backend *backend) {
  if (!backend) return;
  for (int32_t i = 0; backend->generators && i < backend->n_devices; ++i)
    tn_generator_release(backend->generators[i]);
  tni_pinned_pools_free(backend);
  if (backend->fork) tni_fork_state_deinit(backend->fork);
  for (int32_t i = 0; backend->pools && i < backend->n_devices; ++i) tni_pool_free(backend->pools[i]);
  tni_free(backend->pools);
  tni_free(backend->generators);
  tni_free(backend);
}

/* ------------------------------------------------------------------ what an unloaded backend leaves */

static tn_status gone(void *ctx) {
  if (tni_exiting())
    return TN_FAIL(TN_ERR_STATE, "the process is ending: device %s is not called any more", (const char *)ctx);
  return TN_FAIL(TN_ERR_STATE, "device %s was unloaded: opening it by name loads its plugin again", (const char *)ctx);
}
static tn_status gone_count(void *ctx, int32_t *out_count) {
  *out_count = 0;
  return gone(ctx);
}
static tn_status gone_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream, tn_memory *out_memory) {
  (void)index, (void)size_bytes, (void)stream, (void)out_memory;
  return gone(ctx);
}
static void gone_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)memory, (void)stream;
}
static tn_status gone_from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                                uint64_t size_bytes, void *stream) {
  (void)index, (void)mem, (void)offset_bytes, (void)host, (void)size_bytes, (void)stream;
  return gone(ctx);
}
static tn_status gone_to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                              uint64_t size_bytes, void *stream) {
  (void)index, (void)mem, (void)offset_bytes, (void)host, (void)size_bytes, (void)stream;
  return gone(ctx);
}

/* Devices, generators and (closed) pools stay those of the backend: threads may hold them. A fork loses nothing of it. */
static void bury(const tni_backend *backend, backend_block *block) {
  block->def = (tn_backend_def){.struct_size = sizeof block->def,
                                .flags = backend->def->flags & TN_BACKEND_HOST_MEMORY,
                                .device_name = backend->name,
                                .alignment_bytes = backend->def->alignment_bytes,
                                .ctx = (void *)(uintptr_t)backend->name,
                                .device_count = gone_count,
                                .alloc = gone_alloc,
                                .free = gone_free,
                                .from_host = gone_from_host,
                                .to_host = gone_to_host};
  block->backend = *backend;
  block->backend.def = &block->def;
  tni_fork_state_init(&block->fork, &block->def, backend->name);
  block->backend.fork = &block->fork;
  block->backend.pinned = NULL;
  block->backend.closed = true;
  block->backend.older = (tni_backend *)(uintptr_t)backend;
}

tn_status tni_backend_tombstone(const tni_backend *backend, tni_backend **out_tombstone) {
  backend_block *block = tni_alloc_zero(sizeof *block);
  if (!block) return tni_oom(sizeof *block, "a backend's record");
  bury(backend, block);
  *out_tombstone = &block->backend;
  return TN_OK;
}

/* Rows of host memory are plain C and go on: what is freed then is freed. */
void tni_backends_end(void) {
  static backend_block blocks[TN_BACKEND_LIMIT];
  for (uint8_t id = 0; id < TN_BACKEND_LIMIT; ++id) {
    const tni_backend *b = tni_backend_get(id);
    if (!b || b->closed || !b->plugin || (b->def->flags & TN_BACKEND_HOST_MEMORY)) continue;
    bury(b, &blocks[id]);
    atomic_store_explicit(&tni_backends[id], &blocks[id].backend, memory_order_release);
  }
}

/* ------------------------------------------------------------------ devices */

static tn_status make_generators(tni_backend *b, int32_t n) {
  b->generators = tni_alloc_zero((size_t)n * sizeof *b->generators);
  if (!b->generators) return tni_oom((size_t)n * sizeof *b->generators, "a backend's generators");
  for (; b->n_devices < n; ++b->n_devices)
    TN_TRY(tn_generator_new(tni_generator_seed(), &b->generators[b->n_devices]));
  return TN_OK;
}

/* Behind make_generators: n_devices is known. */
static tn_status make_pools(tni_backend *b) {
  b->pools = tni_alloc_zero((size_t)b->n_devices * sizeof *b->pools);
  if (!b->pools) return tni_oom((size_t)b->n_devices * sizeof *b->pools, "a backend's memory pools");
  if (b->def->host_alloc) {
    b->pinned = tni_alloc_zero((size_t)b->n_devices * sizeof *b->pinned);
    if (!b->pinned) return tni_oom((size_t)b->n_devices * sizeof *b->pinned, "a backend's pools of pinned memory");
  }
  tni_pool_options options = {
      .def = b->def, .name = b->name, .fork = b->fork, .device = {.backend = b->id}, .cached = tni_memory_cached(),
      .fronts = tni_memory_cached() && !b->def->synchronize && b->def->fork == TN_FORK_SAFE};
  for (; options.index < b->n_devices; ++options.index) {
    options.device.index = (int16_t)options.index;
    TN_TRY(tni_pool_new(&options, &b->pools[options.index]));
  }
  return TN_OK;
}

tn_status tni_backend_count_devices(tni_backend *b) {
  int32_t n = 0;
  tn_error_clear();
  tn_status status = b->def->device_count(b->def->ctx, &n);
  if (status == TN_ERR_UNAVAILABLE && *tn_error_message()) return status;
  if (status == TN_ERR_UNAVAILABLE || (status == TN_OK && n == 0))
    return TN_FAIL(TN_ERR_UNAVAILABLE, "no %s device is present", b->name);
  if (status != TN_OK) return TN_WRAP(status, "device %s: device_count failed", b->name);
  if (n < 0 || n > INT16_MAX)
    return TN_FAIL(TN_ERR_PLUGIN, "device %s: device_count gave %d, expected 0 to %d", b->name, (int)n,
                   INT16_MAX);
  TN_TRY(make_generators(b, n));
  return make_pools(b);
}

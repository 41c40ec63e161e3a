/* SPDX-License-Identifier: Apache-2.0
 *
 * See door.h. What the recording host answers is what a real one would, as far as init and the rows of a backend may ask:
 * words, regions (run inline), names. What needs dispatch answers TN_ERR_STATE, as inside init.
 */
#include "frontends/check/door.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "frontends/check/tools.h"

#define ADD(list, count, ...)                         \
  do {                                                \
    tni_check_grow(&(list), (count), sizeof *(list)); \
    (list)[(count)++] = __VA_ARGS__;                  \
  } while (0)

static tni_door *door_of(tn_registration *reg) { return (tni_door *)(void *)reg; }

static void fault(tni_door *door, const char *item, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tni_door_fault f = {tni_check_text("%s", item), tni_check_vtext(format, args)};
  va_end(args);
  ADD(door->faults, door->n_faults, f);
}

/* ------------------------------------------------------------------ words and work */

static tn_status host_fail(tn_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *words = tni_check_vtext(format, args);
  va_end(args);
  tn_fail(code, "%s", words);
  free(words);
  return code;
}

static tn_status host_wrap(tn_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *words = tni_check_vtext(format, args);
  va_end(args);
  tn_wrap(code, "%s", words);
  free(words);
  return code;
}

static void host_log(int32_t level, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *words = tni_check_vtext(format, args);
  va_end(args);
  tn_log(level, "%s", words);
  free(words);
}

static tn_status host_parallel_for(int64_t n, int64_t grain, tn_parallel_fn fn, void *ctx) {
  (void)grain;
  return n > 0 ? fn(0, n, 0, ctx) : TN_OK;
}
static int32_t host_num_threads(void) { return 1; }
static const char *host_op_name(const tn_op *op) {
  (void)op;
  return "?";
}
static const char *host_backend_name(uint8_t backend) { return backend == TN_BACKEND_CPU ? "cpu" : "?"; }
static size_t n_refusals;
size_t tni_door_refusals(void) { return n_refusals; }
static tn_status no(const char *row) {
  n_refusals++;
  return tn_fail(TN_ERR_STATE, "the conformance host has no %s: only a running Tenon has", row);
}
static tn_status host_new_output(tn_call *call, uint32_t i, uint32_t ndim, const tn_dim *sizes,
                                 tn_view **out_view) {
  (void)call, (void)i, (void)ndim, (void)sizes, (void)out_view;
  return no("new_output");
}
static tn_status host_scratch(tn_call *call, size_t size_bytes, tn_memory *out_memory) {
  (void)call, (void)size_bytes, (void)out_memory;
  return no("scratch");
}
static tn_status host_call(const tn_op *op, const tn_value *args, tn_value *out) {
  (void)op, (void)args, (void)out;
  return no("call");
}
static tn_status host_call_n(const tn_op *op, const tn_value *args, uint32_t n_args, tn_value *out) {
  (void)op, (void)args, (void)n_args, (void)out;
  return no("call_n");
}
static tn_status host_redispatch_n(tn_call *call, const tn_value *args, uint32_t n_args, tn_value *out) {
  (void)call, (void)args, (void)n_args, (void)out;
  return no("redispatch_n");
}
static uint32_t host_op_n_args(const tn_op *op) {
  (void)op;
  return 0;
}
static tn_status host_redispatch(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call, (void)args, (void)out;
  return no("redispatch");
}
static void host_retain(tn_tensor *tensor) { (void)tensor; }

/* ------------------------------------------------------------------ registration */

static tn_status host_register_kernel(tn_registration *reg, const tn_kernel_def *def) {
  tni_door *door = door_of(reg);
  tn_kernel_def k = {0};
  memcpy(&k, def, def->struct_size < sizeof k ? def->struct_size : sizeof k);
  if (!k.op || !k.key || !k.fn) {
    fault(door, "kernel", "a registration of %s under %s has no %s", k.op ? k.op : "?", k.key ? k.key : "?",
          !k.op    ? "operator"
          : !k.key ? "key"
                   : "function");
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "register_kernel: op, key and fn are needed");
  }
  const char *op = (k.flags & TN_KERNEL_LAYER_FALLBACK) ? "*" : k.op;
  tn_dtype_mask dtypes = k.dtypes ? k.dtypes : ~(tn_dtype_mask)0;
  for (size_t i = 0; i < door->n_kernels; i++) {
    tni_claim_kernel *same = &door->kernels[i];
    if (strcmp(same->key, k.key) || strcmp(same->op, op) || same->priority != k.priority) continue;
    same->dtypes |= dtypes;
    return TN_OK;
  }
  tni_claim_kernel copy = {tni_check_text("%s", k.key), tni_check_text("%s", op), dtypes, k.priority};
  ADD(door->kernels, door->n_kernels, copy);
  return TN_OK;
}

static void judge_backend(tni_door *door, const tn_backend_def *b, uint32_t struct_size) {
  const char *item = b->device_name ? b->device_name : "backend";
  if (!b->device_name || !b->device_count || !b->alloc || !b->free || !b->from_host || !b->to_host)
    fault(door, item, "a required row is NULL (device_name, device_count, alloc, free, from_host, to_host)");
  if (struct_size > sizeof *b + 1024 || struct_size < offsetof(tn_backend_def, memory_info))
    fault(door, item, "struct_size is %u; this host knows %zu", struct_size, sizeof *b);
  if (!b->alignment_bytes || (b->alignment_bytes & (b->alignment_bytes - 1)))
    fault(door, item, "alignment_bytes is %u, not a power of two", b->alignment_bytes);
  if (b->fork > TN_FORK_POISONED) fault(door, item, "fork is %u; TN_FORK_ values are 0 to 2", b->fork);
  if (b->fork == TN_FORK_REINIT && !b->reinit)
    fault(door, item, "fork is TN_FORK_REINIT and there is no reinit row");
  int events = !!b->event_new + !!b->event_free + !!b->event_record + !!b->event_query + !!b->event_wait;
  if (events != 0 && events != 5)
    fault(door, item, "%d of the five event rows are there: all or none", events);
  int streams = !!b->stream_new + !!b->stream_free + !!b->stream_synchronize;
  if (streams != 0 && streams != 3)
    fault(door, item, "%d of the three stream rows are there: all or none", streams);
  if (!b->host_alloc != !b->host_free) fault(door, item, "host_alloc and host_free: both or none");
  if (b->event_elapsed && !events) fault(door, item, "event_elapsed without events");
  if ((streams || events) && !b->synchronize)
    fault(door, item, "streams or events without a synchronize row");
}

static tn_status host_register_backend(tn_registration *reg, const tn_backend_def *def) {
  tni_door *door = door_of(reg);
  tn_backend_def b = {0};
  memcpy(&b, def, def->struct_size < sizeof b ? def->struct_size : sizeof b);
  size_t before = door->n_faults;
  judge_backend(door, &b, def->struct_size);
  if (!b.device_name || !b.device_count || !b.alloc || !b.free || !b.from_host || !b.to_host)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "register_backend: %s", door->faults[before].words);
  b.device_name = tni_check_text("%s", b.device_name);
  ADD(door->backends, door->n_backends, b);
  return TN_OK;
}

static tn_status host_register_layer(tn_registration *reg, const tn_layer_def *def) {
  tni_door *door = door_of(reg);
  if (!def->name) {
    fault(door, "layer", "a registration has no name");
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "register_layer: a name is needed");
  }
  if (!def->state_dup != !def->state_free) fault(door, def->name, "state_dup and state_free: both or none");
  ADD(door->layers, door->n_layers, tni_check_text("%s", def->name));
  return TN_OK;
}

static tn_status host_register_operator(tn_registration *reg, const tn_operator_def *def) {
  tni_door *door = door_of(reg);
  if (!def->schema) {
    fault(door, "operator", "a registration has no schema text");
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "register_operator: a schema is needed");
  }
  ADD(door->operators, door->n_operators, tni_check_text("%s", def->schema));
  return TN_OK;
}

static tn_status host_register_interface(tn_registration *reg, const char *name, uint32_t version,
                                         const void *table) {
  tni_door *door = door_of(reg);
  if (!name || !table) {
    fault(door, "interface", "a registration has no %s", name ? "table" : "name");
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "register_interface: name and table are needed");
  }
  tni_claim_interface claim = {tni_check_text("%s", name), version};
  ADD(door->interfaces, door->n_interfaces, claim);
  return TN_OK;
}

/* ------------------------------------------------------------------ services */

static const char *host_op_schema(const tn_op *op) {
  (void)op;
  return "";
}
static tn_status host_layer_slot(tn_call *call, void ***out_slot) {
  (void)call, (void)out_slot;
  return no("layer_slot");
}
static tn_status host_tensor_from_memory(const tn_foreign_def *desc, tn_tensor **out_tensor) {
  *out_tensor = NULL;
  if (desc->deleter) desc->deleter(desc->ctx);
  return no("tensor_from_memory");
}
static tn_status host_find_interface(const char *name, uint32_t version, const void **out_table) {
  (void)version, (void)out_table;
  n_refusals++;
  return tn_fail(TN_ERR_NOT_FOUND, "the conformance host has no interface %s", name);
}
static tn_status host_pinned_alloc(tn_device device, uint64_t size_bytes, tn_memory *out_memory) {
  (void)device, (void)size_bytes, (void)out_memory;
  return no("pinned_alloc");
}
static void host_pinned_free(tn_device device, const tn_memory *memory) { (void)device, (void)memory; }
static tn_status host_profiler_attach(const struct tn_profiler_def *def, uint64_t *out_handle) {
  (void)def;
  *out_handle = 1; /* nothing will come */
  return TN_OK;
}
static tn_status host_profiler_detach(uint64_t handle) {
  (void)handle;
  return TN_OK;
}
static void host_range_begin(const char *name) { (void)name; }
static void host_range_end(void) {}
static tn_status host_compile(const struct tn_compile_def *def, struct tn_compiled *out_compiled) {
  (void)def, (void)out_compiled;
  n_refusals++;
  return tn_fail(TN_ERR_UNSUPPORTED, "the conformance host does not compile");
}
static void host_compiled_free(struct tn_compiled *compiled) { (void)compiled; }

static const tn_host host = {.struct_size = sizeof host,
                             .abi_major = TN_ABI_MAJOR,
                             .abi_minor = TN_ABI_MINOR,
                             .version = "0",
                             .fail = host_fail,
                             .wrap = host_wrap,
                             .error_message = tn_error_message,
                             .log = host_log,
                             .parallel_for = host_parallel_for,
                             .num_threads = host_num_threads,
                             .new_output = host_new_output,
                             .scratch = host_scratch,
                             .op_name = host_op_name,
                             .backend_name = host_backend_name,
                             .dtype_name = tn_dtype_name,
                             .find_op = tn_op_find,
                             .call = host_call,
                             .redispatch = host_redispatch,
                             .tensor_retain = host_retain,
                             .tensor_release = tn_tensor_release,
                             .register_kernel = host_register_kernel,
                             .register_backend = host_register_backend,
                             .register_layer = host_register_layer,
                             .register_operator = host_register_operator,
                             .register_interface = host_register_interface,
                             .op_schema = host_op_schema,
                             .layer_slot = host_layer_slot,
                             .tensor_from_memory = host_tensor_from_memory,
                             .find_interface = host_find_interface,
                             .call_n = host_call_n,
                             .redispatch_n = host_redispatch_n,
                             .op_n_args = host_op_n_args,
                             .pinned_alloc = host_pinned_alloc,
                             .pinned_free = host_pinned_free,
                             .profiler_attach = host_profiler_attach,
                             .profiler_detach = host_profiler_detach,
                             .range_begin = host_range_begin,
                             .range_end = host_range_end,
                             .compile = host_compile,
                             .compiled_free = host_compiled_free};

#ifndef TN_ABI_FUTURE
_Static_assert(sizeof host == offsetof(tn_host, compiled_free) + sizeof(void (*)(void)),
               "a row was added: it has a place here");
#endif

const tn_host *tni_door_host(void) { return &host; }

/* ------------------------------------------------------------------ the door */

char *tni_door_open(const char *file, tni_door *out_door) {
  *out_door = (tni_door){0};
  out_door->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!out_door->handle) return tni_check_text("the system's loader refuses it: %s", dlerror());
  void *symbol = dlsym(out_door->handle, TN_PLUGIN_SYMBOL);
  if (!symbol) return tni_check_text("it does not export " TN_PLUGIN_SYMBOL);
  memcpy(&out_door->query, &symbol, sizeof symbol);
  return NULL;
}

tn_query tni_door_question(void) {
  return (tn_query){.struct_size = sizeof(tn_query), .host_major = TN_ABI_MAJOR, .host_minor = TN_ABI_MINOR};
}

tn_status tni_door_negotiate(tni_door *door) {
  door->answer = tni_door_question();
  return door->query(&door->answer);
}

tn_status tni_door_init(tni_door *door, const tn_host *table) {
  tn_error_clear();
  return door->answer.init(table, (tn_registration *)(void *)door);
}

void tni_door_close(tni_door *door) {
  for (size_t i = 0; i < door->n_backends; i++) free((void *)(uintptr_t)door->backends[i].device_name);
  for (size_t i = 0; i < door->n_kernels; i++) {
    free((void *)(uintptr_t)door->kernels[i].key);
    free((void *)(uintptr_t)door->kernels[i].op);
  }
  for (size_t i = 0; i < door->n_layers; i++) free(door->layers[i]);
  for (size_t i = 0; i < door->n_operators; i++) free(door->operators[i]);
  for (size_t i = 0; i < door->n_interfaces; i++) free((void *)(uintptr_t)door->interfaces[i].name);
  for (size_t i = 0; i < door->n_faults; i++) {
    free(door->faults[i].item);
    free(door->faults[i].words);
  }
  free(door->backends), free(door->kernels), free(door->layers);
  free(door->operators), free(door->interfaces), free(door->faults);
  *door = (tni_door){0};
}

static bool come_up(tni_check_report *r, const tni_check_context *c, tni_door *out_door) {
  char *words = tni_door_open(c->file, out_door);
  if (words) {
    tni_check_fail(r, "init", "%s", words);
    free(words);
    return false;
  }
  tni_check_at(r, "init");
  if (tni_door_negotiate(out_door) != TN_OK || !out_door->answer.init) {
    tni_check_fail(r, "init", "%s refuses this host, or gives no init", TN_PLUGIN_SYMBOL);
    return false;
  }
  tn_status status = tni_door_init(out_door, &host);
  if (status == TN_ERR_UNAVAILABLE) {
    tni_check_skip(r, "init", "no hardware here: %s", tn_error_message());
    return false;
  }
  return tni_check_ok(r, status, "init", "init failed");
}

bool tni_door_enter(tni_check_report *r, const tni_check_context *c, tni_door *out_door) {
  if (come_up(r, c, out_door)) return true;
  tni_door_close(out_door);
  return false;
}

/* ------------------------------------------------------------------ raw devices */

void tni_door_devices(tni_check_report *r, const tni_check_context *c,
                      void (*visit)(tni_check_report *r, const tni_raw *device)) {
  tni_door door;
  if (!tni_door_enter(r, c, &door)) return;
  for (size_t i = 0; i < door.n_backends; i++) {
    const tn_backend_def *def = &door.backends[i];
    tni_raw device = {.def = def};
    tn_status status = def->device_count(def->ctx, &device.count);
    if (status == TN_ERR_UNAVAILABLE || (status == TN_OK && device.count == 0)) {
      tni_check_skip(r, def->device_name, "this machine has no such device: %s", tn_error_message());
      continue;
    }
    if (!tni_check_ok(r, status, def->device_name, "device_count failed")) continue;
    for (; device.index < device.count && device.index < 2; device.index++) visit(r, &device);
  }
  tni_door_close(&door);
}

char *tni_raw_item(const tni_raw *device, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *what = tni_check_vtext(format, args);
  va_end(args);
  char *item = tni_check_text("%s:%d %s", device->def->device_name, (int)device->index, what);
  free(what);
  return item;
}

tn_status tni_raw_alloc(const tni_raw *d, uint64_t size, tn_memory *out_memory) {
  *out_memory = (tn_memory){0};
  return d->def->alloc(d->def->ctx, d->index, size, NULL, out_memory);
}
void tni_raw_free(const tni_raw *d, const tn_memory *memory) {
  d->def->free(d->def->ctx, d->index, memory, NULL);
}
tn_status tni_raw_write(const tni_raw *d, const tn_memory *to, int64_t offset, const void *bytes,
                        uint64_t size) {
  return d->def->from_host(d->def->ctx, d->index, to->mem, offset, bytes, size, NULL);
}
tn_status tni_raw_read(const tni_raw *d, const tn_memory *from, int64_t offset, void *bytes, uint64_t size) {
  return d->def->to_host(d->def->ctx, d->index, from->mem, offset, bytes, size, NULL);
}

void tni_raw_fill(unsigned char *bytes, uint64_t n, uint32_t seed) {
  uint32_t x = seed * 2654435761u + 1;
  for (uint64_t i = 0; i < n; i++) {
    x = x * 1664525u + 1013904223u;
    bytes[i] = (unsigned char)(x >> 24);
  }
}

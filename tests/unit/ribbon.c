/* SPDX-License-Identifier: Apache-2.0
 *
 * See ribbon.h.
 */
#include "ribbon.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "private_backend.h"
#include "tn_test.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char log_text[8192];
static size_t log_used;
static bool done_at_once = true, reinit_fails;
static int n_pinned, n_events, n_reinits;
static uint64_t clock_ns;

typedef struct ribbon_event {
  uint64_t at;
  bool done;
} ribbon_event;

static void note(const char *format, ...) TN_PRINTF(1, 2);
static void note(const char *format, ...) {
  va_list args;
  va_start(args, format);
  pthread_mutex_lock(&mutex);
  if (log_used && log_used + 1 < sizeof log_text) log_text[log_used++] = ' ';
  int n = vsnprintf(log_text + log_used, sizeof log_text - log_used, format, args);
  if (n > 0 && log_used + (size_t)n < sizeof log_text) log_used += (size_t)n;
  pthread_mutex_unlock(&mutex);
  va_end(args);
}

const char *ribbon_log(void) { return log_text; }
void ribbon_log_clear(void) { log_text[log_used = 0] = 0; }
void ribbon_events_done(bool done) { done_at_once = done; }
int ribbon_pinned_blocks(void) { return n_pinned; }
int ribbon_events(void) { return n_events; }
void ribbon_reinit_fails(bool fails) { reinit_fails = fails; }
int ribbon_reinits(void) { return n_reinits; }

static int number(const void *stream) { return (int)(uintptr_t)stream; }

/* ------------------------------------------------------------------ rows */

static tn_status count_devices(void *ctx, int32_t *out_count) {
  (void)ctx;
  *out_count = 2;
  return TN_OK;
}

static tn_status block_alloc(uint64_t size_bytes, tn_memory *out_memory) {
  void *p = aligned_alloc(64, (size_bytes + 63) / 64 * 64);
  if (!p) return tn_fail(TN_ERR_OUT_OF_MEMORY, "no %llu bytes", (unsigned long long)size_bytes);
  *out_memory = (tn_memory){(uint64_t)(uintptr_t)p, p, size_bytes};
  return TN_OK;
}
static tn_status memory_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream, tn_memory *out_memory) {
  (void)ctx, (void)index;
  note("alloc@%d", number(stream));
  return block_alloc(size_bytes, out_memory);
}
static void memory_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)stream;
  free((void *)(uintptr_t)memory->mem);
}
static tn_status host_alloc(void *ctx, int32_t index, uint64_t size_bytes, tn_memory *out_memory) {
  (void)ctx, (void)index;
  ++n_pinned;
  return block_alloc(size_bytes, out_memory);
}
static void host_free(void *ctx, int32_t index, const tn_memory *memory) {
  (void)ctx, (void)index;
  --n_pinned;
  free((void *)(uintptr_t)memory->mem);
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  (void)ctx, (void)index;
  note("from_host@%d", number(stream));
  memcpy((char *)(uintptr_t)mem + offset_bytes, host, size_bytes);
  return TN_OK;
}
static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host, uint64_t size_bytes,
                         void *stream) {
  (void)ctx, (void)index;
  note("to_host@%d", number(stream));
  memcpy(host, (const char *)(uintptr_t)mem + offset_bytes, size_bytes);
  return TN_OK;
}
static tn_status copy(void *ctx, int32_t to_index, uint64_t to_mem, int64_t to_offset, int32_t from_index,
                      uint64_t from_mem, int64_t from_offset, uint64_t size_bytes, void *stream) {
  (void)ctx;
  note("copy:%d>%d@%d", from_index, to_index, number(stream));
  memcpy((char *)(uintptr_t)to_mem + to_offset, (const char *)(uintptr_t)from_mem + from_offset, size_bytes);
  return TN_OK;
}

static tn_status synchronize(void *ctx, int32_t index) {
  (void)ctx, (void)index;
  note("synchronize");
  return TN_OK;
}
static tn_status stream_new(void *ctx, int32_t index, void **out_stream) {
  static int last;
  (void)ctx, (void)index;
  *out_stream = (void *)(uintptr_t)++last;
  return TN_OK;
}
static void stream_free(void *ctx, int32_t index, void *stream) { (void)ctx, (void)index, (void)stream; }
static tn_status stream_synchronize(void *ctx, int32_t index, void *stream) {
  (void)ctx, (void)index;
  note("sync@%d", number(stream));
  return TN_OK;
}

static tn_status event_new(void *ctx, int32_t index, void **out_event) {
  (void)ctx, (void)index;
  *out_event = calloc(1, sizeof(ribbon_event));
  if (!*out_event) return tn_fail(TN_ERR_OUT_OF_MEMORY, "an event");
  __atomic_add_fetch(&n_events, 1, __ATOMIC_RELAXED);
  return TN_OK;
}
static void event_free(void *ctx, int32_t index, void *event) {
  (void)ctx, (void)index;
  __atomic_sub_fetch(&n_events, 1, __ATOMIC_RELAXED);
  free(event);
}
static tn_status event_record(void *ctx, int32_t index, void *event, void *stream) {
  (void)ctx, (void)index;
  note("record@%d", number(stream));
  *(ribbon_event *)event = (ribbon_event){__atomic_load_n(&clock_ns, __ATOMIC_RELAXED), done_at_once};
  return TN_OK;
}
static tn_status event_query(void *ctx, int32_t index, void *event, bool *out_done) {
  (void)ctx, (void)index;
  *out_done = ((ribbon_event *)event)->done || done_at_once;
  return TN_OK;
}
static tn_status event_wait(void *ctx, int32_t index, void *event, void *stream) {
  (void)ctx, (void)index, (void)event;
  note("wait@%d", number(stream));
  return TN_OK;
}
static tn_status event_elapsed(void *ctx, int32_t index, void *begin, void *end, uint64_t *out_ns) {
  (void)ctx, (void)index;
  *out_ns = ((ribbon_event *)end)->at - ((ribbon_event *)begin)->at;
  return TN_OK;
}
static tn_status reinit(void *ctx) {
  (void)ctx;
  ++n_reinits;
  return reinit_fails ? tn_fail(TN_ERR_UNAVAILABLE, "the ribbon is torn") : TN_OK;
}

/* ------------------------------------------------------------------ kernels */

static tn_status flat(tn_call *call, const tn_value *args, tn_value *out, const char *name, int kind) {
  const tn_view *a = args[0].u.v, *b = args[1].u.v, *c = out[0].u.v;
  if (!(a->flags & b->flags & c->flags & TN_VIEW_CONTIGUOUS) || a->numel != c->numel || b->numel != c->numel)
    return TN_DECLINED;
  note("%s@%d", name, number(call->stream));
  __atomic_add_fetch(&clock_ns, 100, __ATOMIC_RELAXED);
  for (int64_t i = 0; i < c->numel; ++i) {
    float x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
    ((float *)c->data)[i] = kind ? x * y : x + y;
  }
  return TN_OK;
}
static tn_status add(tn_call *call, const tn_value *args, tn_value *out) { return flat(call, args, out, "add", 0); }
static tn_status mul(tn_call *call, const tn_value *args, tn_value *out) { return flat(call, args, out, "mul", 1); }

/* ------------------------------------------------------------------ publishing */

static void kernels_add(const char *name) {
  tni_kernel *two = calloc(2, sizeof *two); /* for the life of the process, as a plugin's */
  TN_CHECK_NOT_NULL(two);
  two[0] = (tni_kernel){.fn = add, .dtypes = TN_DTYPE_BIT(TN_FLOAT32)};
  two[1] = (tni_kernel){.fn = mul, .dtypes = TN_DTYPE_BIT(TN_FLOAT32)};
  private_kernel_add("add.Tensor", name, &two[0]);
  private_kernel_add("mul.Tensor", name, &two[1]);
}

tn_device ribbon_device(const char *name, uint32_t fork) {
  TN_CHECK_OK(tn_init());
  int known = tni_key_find(name);
  if (known >= 0) return (tn_device){.backend = (uint8_t)known};
  const tn_backend_def def = {.struct_size = sizeof def,
                              .device_name = name,
                              .alignment_bytes = 64,
                              .fork = fork,
                              .device_count = count_devices,
                              .alloc = memory_alloc,
                              .free = memory_free,
                              .from_host = from_host,
                              .to_host = to_host,
                              .synchronize = synchronize,
                              .event_new = event_new,
                              .event_free = event_free,
                              .event_record = event_record,
                              .event_query = event_query,
                              .event_wait = event_wait,
                              .stream_new = stream_new,
                              .stream_free = stream_free,
                              .stream_synchronize = stream_synchronize,
                              .event_elapsed = event_elapsed,
                              .host_alloc = host_alloc,
                              .host_free = host_free,
                              .copy = copy,
                              .reinit = fork == TN_FORK_REINIT ? reinit : NULL};
  tni_backend *backend;
  TN_CHECK_OK(tni_backend_copy(&def, NULL, &backend));
  TN_CHECK_OK(tni_backend_count_devices(backend));
  atomic_store(&tni_backends[backend->id], backend);
  kernels_add(name);
  return (tn_device){.backend = backend->id};
}

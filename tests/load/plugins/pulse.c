/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend with streams and events that tell times. Between shutdown and the next init every row that is called ends the
 * process badly, and so does an event of an earlier life.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_backend.h>

TN_MANIFEST(TN_MANIFEST_HEADER("pulse", "1.0", "Apache-2.0") "device pulse\nkernel pulse add.Tensor float32 0\n")

static int life, up; /* which life, and is it under way */
typedef struct pulse_event {
  int life;
} pulse_event;

static tn_status want_up(void) {
  if (!up) abort();
  return TN_OK;
}
static tn_status want_own(const void *event) {
  if (((const pulse_event *)event)->life != life) abort();
  return want_up();
}

static tn_status count(void *ctx, int32_t *out_count) {
  (void)ctx;
  *out_count = 1;
  return want_up();
}
static tn_status give(void *ctx, int32_t index, uint64_t size_bytes, void *stream, tn_memory *out_memory) {
  (void)ctx, (void)index, (void)stream;
  void *bytes = calloc(1, size_bytes);
  *out_memory = (tn_memory){(uintptr_t)bytes, NULL, size_bytes};
  return bytes ? want_up() : TN_FAIL(TN_ERR_OUT_OF_MEMORY, "pulse");
}
static void take(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)stream;
  want_up();
  free((void *)(uintptr_t)memory->mem);
}
static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  (void)ctx, (void)index, (void)stream;
  memcpy((char *)(uintptr_t)mem + offset_bytes, host, size_bytes);
  return want_up();
}
static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host, uint64_t size_bytes,
                         void *stream) {
  (void)ctx, (void)index, (void)stream;
  memcpy(host, (const char *)(uintptr_t)mem + offset_bytes, size_bytes);
  return want_up();
}
static tn_status synchronize(void *ctx, int32_t index) {
  (void)ctx, (void)index;
  return want_up();
}

static tn_status stream_new(void *ctx, int32_t index, void **out_stream) {
  (void)ctx, (void)index;
  *out_stream = malloc(1);
  return *out_stream ? want_up() : TN_FAIL(TN_ERR_OUT_OF_MEMORY, "pulse");
}
static void stream_free(void *ctx, int32_t index, void *stream) {
  (void)ctx, (void)index;
  want_up();
  free(stream);
}
static tn_status stream_synchronize(void *ctx, int32_t index, void *stream) {
  (void)ctx, (void)index, (void)stream;
  return want_up();
}

static tn_status event_new(void *ctx, int32_t index, void **out_event) {
  (void)ctx, (void)index;
  pulse_event *e = malloc(sizeof *e);
  if (!e) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "pulse");
  e->life = life;
  *out_event = e;
  return want_up();
}
static void event_free(void *ctx, int32_t index, void *event) {
  (void)ctx, (void)index;
  want_own(event);
  free(event);
}
static tn_status event_with(void *ctx, int32_t index, void *event, void *stream) {
  (void)ctx, (void)index, (void)stream;
  return want_own(event);
}
static tn_status event_query(void *ctx, int32_t index, void *event, bool *out_done) {
  (void)ctx, (void)index;
  *out_done = true;
  return want_own(event);
}
static tn_status event_elapsed(void *ctx, int32_t index, void *begin, void *end, uint64_t *out_ns) {
  (void)ctx, (void)index;
  *out_ns = 1;
  want_own(begin);
  return want_own(end);
}

static tn_status add(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_view *to = out[0].u.v, *a = args[0].u.v, *b = args[1].u.v;
#define FLOATS(v) ((float *)(void *)((char *)(uintptr_t)(v)->mem + (v)->offset_bytes))
  for (int64_t i = 0; i < to->numel; ++i) FLOATS(to)[i] = FLOATS(a)[i] + FLOATS(b)[i];
  return want_up();
}

static const tn_backend_def backend = {.struct_size = sizeof backend,
                                       .device_name = "pulse",
                                       .alignment_bytes = 64,
                                       .device_count = count,
                                       .alloc = give,
                                       .free = take,
                                       .from_host = from_host,
                                       .to_host = to_host,
                                       .synchronize = synchronize,
                                       .event_new = event_new,
                                       .event_free = event_free,
                                       .event_record = event_with,
                                       .event_query = event_query,
                                       .event_wait = event_with,
                                       .stream_new = stream_new,
                                       .stream_free = stream_free,
                                       .stream_synchronize = stream_synchronize,
                                       .event_elapsed = event_elapsed};
static const tn_kernel_def kernels[] = {
    TN_KERNEL("pulse", "add.Tensor", add, TN_DTYPE_BIT(TN_FLOAT32), .flags = TN_KERNEL_CONTIGUOUS)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  ++life;
  up = 1;
  TN_TRY(host->register_backend(reg, &backend));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}
static void shut_down(void) { up = 0; }

TN_PLUGIN(.name = "pulse", .version = "1.0", .init = init, .shutdown = shut_down)

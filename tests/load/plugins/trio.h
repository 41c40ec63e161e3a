/* SPDX-License-Identifier: Apache-2.0
 *
 * Three vendors' backends from one text: TRIO is the device's and the plugin's name. Two devices each, memory at
 * addresses of its own, copies between its devices, events with the host's clock, and add.Tensor and mul.Tensor for
 * float32. Each refuses memory of the others: it looks at a mark in front of every block.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_backend.h>

TN_MANIFEST(TN_MANIFEST_HEADER(TRIO, "1.0", "Apache-2.0") "device " TRIO "\n"
                                                         "kernel " TRIO " add.Tensor float32 0\n"
                                                         "kernel " TRIO " mul.Tensor float32 0\n")

enum { FRONT = 64 }; /* bytes before a block: whose it is */

static tn_status device_count(void *ctx, int32_t *out_count) {
  (void)ctx;
  *out_count = 2;
  return TN_OK;
}

static tn_status trio_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream, tn_memory *out_memory) {
  (void)ctx, (void)stream;
  char *address = aligned_alloc(64, (size_bytes + FRONT + 63) / 64 * 64);
  if (!address) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, TRIO ": no %llu bytes", (unsigned long long)size_bytes);
  memset(address, 0, FRONT);
  strcpy(address, TRIO);
  address[FRONT - 1] = (char)('0' + index);
  *out_memory = (tn_memory){(uintptr_t)(address + FRONT), NULL, size_bytes};
  return TN_OK;
}

static void trio_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)stream;
  free((char *)(uintptr_t)memory->mem - FRONT);
}

/* TN_BACKEND_NO_OFFSETS: mem is a block's beginning. */
static tn_status find(uint64_t mem, int64_t offset, int32_t index, char **out_bytes) {
  const char *front = (const char *)(uintptr_t)mem - FRONT;
  if (strcmp(front, TRIO) != 0 || front[FRONT - 1] != '0' + index)
    return TN_FAIL(TN_ERR_DEVICE, TRIO ":%d was given memory of %s:%c", index, front, front[FRONT - 1]);
  *out_bytes = (char *)(uintptr_t)mem + offset;
  return TN_OK;
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  char *bytes;
  (void)ctx, (void)stream;
  TN_TRY(find(mem, offset_bytes, index, &bytes));
  memcpy(bytes, host, size_bytes);
  return TN_OK;
}

static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host, uint64_t size_bytes,
                         void *stream) {
  char *bytes;
  (void)ctx, (void)stream;
  TN_TRY(find(mem, offset_bytes, index, &bytes));
  memcpy(host, bytes, size_bytes);
  return TN_OK;
}

static tn_status copy(void *ctx, int32_t to_index, uint64_t to_mem, int64_t to_offset_bytes, int32_t from_index,
                      uint64_t from_mem, int64_t from_offset_bytes, uint64_t size_bytes, void *stream) {
  char *to, *from;
  (void)ctx, (void)stream;
  TN_TRY(find(to_mem, to_offset_bytes, to_index, &to));
  TN_TRY(find(from_mem, from_offset_bytes, from_index, &from));
  memcpy(to, from, size_bytes);
  return TN_OK;
}

/* ------------------------------------------------------------------ events: the time when they were recorded */

static tn_status event_new(void *ctx, int32_t index, void **out_event) {
  (void)ctx, (void)index;
  *out_event = calloc(1, sizeof(uint64_t));
  return *out_event ? TN_OK : TN_FAIL(TN_ERR_OUT_OF_MEMORY, TRIO ": an event");
}
static void event_free(void *ctx, int32_t index, void *event) {
  (void)ctx, (void)index;
  free(event);
}
static tn_status event_record(void *ctx, int32_t index, void *event, void *stream) {
  struct timespec t;
  (void)ctx, (void)index, (void)stream;
  clock_gettime(CLOCK_MONOTONIC, &t);
  *(uint64_t *)event = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
  return TN_OK;
}
static tn_status event_query(void *ctx, int32_t index, void *event, bool *out_done) {
  (void)ctx, (void)index, (void)event;
  *out_done = true;
  return TN_OK;
}
static tn_status event_wait(void *ctx, int32_t index, void *event, void *stream) {
  (void)ctx, (void)index, (void)event, (void)stream;
  return TN_OK;
}
static tn_status event_elapsed(void *ctx, int32_t index, void *begin, void *end, uint64_t *out_ns) {
  (void)ctx, (void)index;
  *out_ns = *(uint64_t *)end - *(uint64_t *)begin;
  return TN_OK;
}

static const tn_backend_def backend = {.struct_size = sizeof backend,
                                       .flags = TN_BACKEND_NO_OFFSETS,
                                       .device_name = TRIO,
                                       .alignment_bytes = 64,
                                       .device_count = device_count,
                                       .alloc = trio_alloc,
                                       .free = trio_free,
                                       .from_host = from_host,
                                       .to_host = to_host,
                                       .event_new = event_new,
                                       .event_free = event_free,
                                       .event_record = event_record,
                                       .event_query = event_query,
                                       .event_wait = event_wait,
                                       .event_elapsed = event_elapsed,
                                       .copy = copy};

/* ------------------------------------------------------------------ kernels */

static tn_status floats(tn_call *call, const tn_value *v, float **out_floats) {
  char *bytes;
  TN_TRY(find(v->u.v->mem, v->u.v->offset_bytes, call->device.index, &bytes));
  *out_floats = (float *)(void *)bytes;
  return TN_OK;
}

static tn_status add(tn_call *call, const tn_value *args, tn_value *out) {
  float *a, *b, *to, alpha = args[2].kind == TN_VAL_FLOAT ? (float)args[2].u.f : (float)args[2].u.i;
  TN_TRY(floats(call, &args[0], &a));
  TN_TRY(floats(call, &args[1], &b));
  TN_TRY(floats(call, &out[0], &to));
  for (int64_t i = 0; i < out[0].u.v->numel; ++i) to[i] = a[i] + alpha * b[i];
  return TN_OK;
}

static tn_status mul(tn_call *call, const tn_value *args, tn_value *out) {
  float *a, *b, *to;
  TN_TRY(floats(call, &args[0], &a));
  TN_TRY(floats(call, &args[1], &b));
  TN_TRY(floats(call, &out[0], &to));
  for (int64_t i = 0; i < out[0].u.v->numel; ++i) to[i] = a[i] * b[i];
  return TN_OK;
}

static const tn_kernel_def kernels[] = {
    TN_KERNEL(TRIO, "add.Tensor", add, TN_DTYPE_BIT(TN_FLOAT32), .flags = TN_KERNEL_CONTIGUOUS),
    TN_KERNEL(TRIO, "mul.Tensor", mul, TN_DTYPE_BIT(TN_FLOAT32), .flags = TN_KERNEL_CONTIGUOUS)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  TN_TRY(host->register_backend(reg, &backend));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = TRIO, .version = "1.0", .init = init)

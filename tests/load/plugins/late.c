/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend whose driver goes down with the process: every row that is called after that ends it badly. Its handler
 * waits a moment first, for calls that were under way when exit began.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_backend.h>
#include <unistd.h>

TN_MANIFEST(TN_MANIFEST_HEADER("late", "1.0", "Apache-2.0") "device late\nkernel late add.Tensor float32 0\n")

static _Atomic int down;

static void go_down(void) {
  usleep(600000);
  down = 1;
  usleep(200000); /* others have time to call what is down */
}

static void want_up(void) {
  if (down) abort();
}

static tn_status count(void *ctx, int32_t *out_count) {
  (void)ctx;
  want_up();
  *out_count = 1;
  return TN_OK;
}
static tn_status give(void *ctx, int32_t index, uint64_t size_bytes, void *stream, tn_memory *out_memory) {
  (void)ctx, (void)index, (void)stream;
  want_up();
  void *bytes = calloc(1, size_bytes);
  *out_memory = (tn_memory){(uintptr_t)bytes, NULL, size_bytes};
  return bytes ? TN_OK : TN_FAIL(TN_ERR_OUT_OF_MEMORY, "late");
}
static void take(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)stream;
  want_up();
  free((void *)(uintptr_t)memory->mem);
}
static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  (void)ctx, (void)index, (void)stream;
  want_up();
  memcpy((char *)(uintptr_t)mem + offset_bytes, host, size_bytes);
  return TN_OK;
}
static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host, uint64_t size_bytes,
                         void *stream) {
  (void)ctx, (void)index, (void)stream;
  want_up();
  memcpy(host, (char *)(uintptr_t)mem + offset_bytes, size_bytes);
  return TN_OK;
}
static tn_status synchronize(void *ctx, int32_t index) {
  (void)ctx, (void)index;
  want_up();
  return TN_OK;
}

static const float *floats(const tn_view *v) {
  return (const float *)((const char *)(uintptr_t)v->mem + v->offset_bytes);
}
static tn_status add(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  want_up();
  const tn_view *to = out[0].u.v;
  for (int64_t i = 0; i < to->numel; ++i)
    ((float *)((char *)(uintptr_t)to->mem + to->offset_bytes))[i] = floats(args[0].u.v)[i] + floats(args[1].u.v)[i];
  return TN_OK;
}

static const tn_backend_def backend = {.struct_size = sizeof backend,
                                       .device_name = "late",
                                       .alignment_bytes = 64,
                                       .device_count = count,
                                       .alloc = give,
                                       .free = take,
                                       .from_host = from_host,
                                       .to_host = to_host,
                                       .synchronize = synchronize};
static const tn_kernel_def kernels[] = {
    TN_KERNEL("late", "add.Tensor", add, TN_DTYPE_BIT(TN_FLOAT32), .flags = TN_KERNEL_CONTIGUOUS)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  if (atexit(go_down) != 0) return host->fail(TN_ERR_OUT_OF_MEMORY, "atexit");
  TN_TRY(host->register_backend(reg, &backend));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "late", .version = "1.0", .init = init)

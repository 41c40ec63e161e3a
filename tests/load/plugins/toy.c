/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole backend in one small file, as a vendor would write it: the device "toy" keeps its memory on the host,
 * but says so only to itself, so that every byte that the core moves goes through the rows below. It adds and
 * multiplies float32.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_backend.h>

TN_MANIFEST(TN_MANIFEST_HEADER("toy", "1.0", "Apache-2.0") "device toy alias privateuse1\n"
                                                           "kernel toy add.Tensor float32 0\n"
                                                           "kernel toy mul.Tensor float32 0\n"
                                                           "a-key-of-the-future with values\n")

static tn_status count(void *ctx, int32_t *out_count) {
  (void)ctx;
  *out_count = 2;
  return TN_OK;
}

static tn_status toy_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream,
                           tn_memory *out_memory) {
  (void)ctx, (void)index, (void)stream;
  void *address = aligned_alloc(64, (size_bytes + 63) / 64 * 64);
  if (!address) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "toy: no %llu bytes", (unsigned long long)size_bytes);
  *out_memory = (tn_memory){(uintptr_t)address, address, size_bytes};
  return TN_OK;
}

static void toy_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)stream;
  free((void *)(uintptr_t)memory->mem);
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  (void)ctx, (void)index, (void)stream;
  memcpy((char *)(uintptr_t)mem + offset_bytes, host, size_bytes);
  return TN_OK;
}

static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                         uint64_t size_bytes, void *stream) {
  (void)ctx, (void)index, (void)stream;
  memcpy(host, (const char *)(uintptr_t)mem + offset_bytes, size_bytes);
  return TN_OK;
}

static const char *describe(void *ctx, int32_t index) {
  (void)ctx;
  return index ? "the second toy" : "the first toy";
}

static const tn_backend_def backend = {.struct_size = sizeof backend,
                                       .device_name = "toy",
                                       .alignment_bytes = 64,
                                       .device_count = count,
                                       .alloc = toy_alloc,
                                       .free = toy_free,
                                       .from_host = from_host,
                                       .to_host = to_host,
                                       .describe = describe};

static const float *floats(const tn_value *value) { return value->u.v->data; }

static tn_status add(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  float alpha = args[2].kind == TN_VAL_FLOAT ? (float)args[2].u.f : (float)args[2].u.i;
  for (int64_t i = 0; i < out[0].u.v->numel; ++i)
    ((float *)out[0].u.v->data)[i] = floats(&args[0])[i] + alpha * floats(&args[1])[i];
  return TN_OK;
}

static tn_status mul(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  for (int64_t i = 0; i < out[0].u.v->numel; ++i)
    ((float *)out[0].u.v->data)[i] = floats(&args[0])[i] * floats(&args[1])[i];
  return TN_OK;
}

static const tn_kernel_def kernels[] = {
    TN_KERNEL("toy", "add.Tensor", add, TN_DTYPE_BIT(TN_FLOAT32), .flags = TN_KERNEL_CONTIGUOUS),
    TN_KERNEL("toy", "mul.Tensor", mul, TN_DTYPE_BIT(TN_FLOAT32), .flags = TN_KERNEL_CONTIGUOUS)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  TN_TRY(host->register_backend(reg, &backend));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "toy", .version = "1.0", .init = init)

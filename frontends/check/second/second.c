/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend that others are tested beside: two devices whose memory has no address for the host, and float32 kernels
 * that look memory up by handle. It has no copy_ kernel: what goes between it and another backend goes through the rows.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_backend.h>

#define DEVICE "tenoncheck"
#define F32    TN_DTYPE_BIT(TN_FLOAT32)

TN_MANIFEST(TN_MANIFEST_HEADER("tenoncheck", "1", "Apache-2.0") "device " DEVICE "\n"
                                                                "kernel " DEVICE " add.Tensor float32 0\n"
                                                                "kernel " DEVICE " mul.Tensor float32 0\n"
                                                                "kernel " DEVICE " fill_.Scalar float32 0\n")

static tn_status device_count(void *ctx, int32_t *out_count) {
  (void)ctx;
  *out_count = 2;
  return TN_OK;
}

static tn_status memory_alloc(void *ctx, int32_t index, uint64_t size, void *stream, tn_memory *out_memory) {
  (void)ctx, (void)index, (void)stream;
  void *bytes = size < UINT64_MAX - 64 ? aligned_alloc(64, (size + 63) / 64 * 64) : NULL;
  if (!bytes) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, DEVICE ": no %llu bytes", (unsigned long long)size);
  memset(bytes, 0x7f, size);
  *out_memory = (tn_memory){(uintptr_t)bytes, NULL, size};
  return TN_OK;
}

static void memory_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  (void)ctx, (void)index, (void)stream;
  free((void *)(uintptr_t)memory->mem);
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset, const void *host,
                           uint64_t size, void *stream) {
  (void)ctx, (void)index, (void)stream;
  memcpy((char *)(uintptr_t)mem + offset, host, size);
  return TN_OK;
}

static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset, void *host, uint64_t size,
                         void *stream) {
  (void)ctx, (void)index, (void)stream;
  memcpy(host, (const char *)(uintptr_t)mem + offset, size);
  return TN_OK;
}

static const tn_backend_def backend = {.struct_size = sizeof backend,
                                       .device_name = DEVICE,
                                       .alignment_bytes = 64,
                                       .device_count = device_count,
                                       .alloc = memory_alloc,
                                       .free = memory_free,
                                       .from_host = from_host,
                                       .to_host = to_host};

/* ------------------------------------------------------------------ kernels: contiguous, one shape */

static float *floats(const tn_value *v) {
  return (float *)(void *)((char *)(uintptr_t)v->u.v->mem + v->u.v->offset_bytes);
}

static float number(const tn_value *v) { return v->kind == TN_VAL_FLOAT ? (float)v->u.f : (float)v->u.i; }

static bool fit(const tn_value *args, const tn_value *out) {
  return args[0].u.v->numel == out->u.v->numel && args[1].u.v->numel == out->u.v->numel;
}

static tn_status add(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  if (!fit(args, out)) return TN_DECLINED;
  float alpha = number(&args[2]), *a = floats(&args[0]), *b = floats(&args[1]), *to = floats(out);
  for (int64_t i = 0; i < out->u.v->numel; i++) to[i] = a[i] + alpha * b[i];
  return TN_OK;
}

static tn_status mul(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  if (!fit(args, out)) return TN_DECLINED;
  float *a = floats(&args[0]), *b = floats(&args[1]), *to = floats(out);
  for (int64_t i = 0; i < out->u.v->numel; i++) to[i] = a[i] * b[i];
  return TN_OK;
}

static tn_status fill(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  float value = number(&args[1]), *to = floats(out);
  for (int64_t i = 0; i < out->u.v->numel; i++) to[i] = value;
  return TN_OK;
}

static const tn_kernel_def kernels[] = {
    TN_KERNEL(DEVICE, "add.Tensor", add, F32, .flags = TN_KERNEL_CONTIGUOUS),
    TN_KERNEL(DEVICE, "mul.Tensor", mul, F32, .flags = TN_KERNEL_CONTIGUOUS),
    TN_KERNEL(DEVICE, "fill_.Scalar", fill, F32, .flags = TN_KERNEL_CONTIGUOUS)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  TN_TRY(host->register_backend(reg, &backend));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "tenoncheck", .version = "1", .init = init)

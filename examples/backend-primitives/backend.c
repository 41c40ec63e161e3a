/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend "forty": memory and the primitive kernels that all composites of training end in. Everything else is
 * written with these by the host, so nothing of a training step runs on the CPU: it is not even allowed
 * (no TN_BACKEND_CPU_FALLBACK), unless the user says so.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/plugin_backend.h>

#include "forty.h"

#define FLOATS             " float32,float64 0\n"
#define NUMBERS            " int64,float32,float64 0\n"
#define BITS               " bool,int64 0\n"
#define ALL                " bool,int64,float32,float64 0\n"
#define LISTED(op, dtypes) "kernel forty " op dtypes
TN_MANIFEST(
    TN_MANIFEST_HEADER("backend-primitives", "1.0.0",
                       "Apache-2.0") "device forty\n" LISTED("copy_", ALL) LISTED("fill_.Scalar", ALL)
        LISTED("arange.start_step", NUMBERS) LISTED("uniform_", FLOATS) LISTED("normal_", FLOATS)
            LISTED("add.Tensor", ALL) LISTED("sub.Tensor", NUMBERS) LISTED("mul.Tensor", ALL) LISTED(
                "div.Tensor", FLOATS) LISTED("floor_divide", NUMBERS) LISTED("remainder.Tensor", NUMBERS)
                LISTED("pow.Tensor_Tensor", FLOATS) LISTED("maximum", ALL) LISTED("minimum", ALL)
                    LISTED("exp", FLOATS) LISTED("log", FLOATS) LISTED("sqrt", FLOATS) LISTED("sin", FLOATS)
                        LISTED("cos", FLOATS) LISTED("tanh", FLOATS) LISTED("erf", FLOATS)
                            LISTED("floor", NUMBERS) LISTED("round", NUMBERS) LISTED("eq.Tensor", ALL)
                                LISTED("lt.Tensor", ALL) LISTED("le.Tensor", ALL) LISTED("where.self", ALL)
                                    LISTED("bitwise_and.Tensor", BITS) LISTED("bitwise_or.Tensor", BITS)
                                        LISTED("bitwise_xor.Tensor", BITS) LISTED("bitwise_not", BITS)
                                            LISTED("sum.dim_IntList", NUMBERS) LISTED("amax", ALL)
                                                LISTED("amin", ALL) LISTED("argmax", ALL) LISTED("mm", FLOATS)
                                                    LISTED("bmm", FLOATS) LISTED("gather", ALL)
                                                        LISTED("scatter_add", NUMBERS))

enum { ALIGNMENT = 64 };

static tn_status device_count(void *ctx, int32_t *out_count) {
  *out_count = 1;
  return TN_OK;
}

/* The address is given, so that the host can add offsets to it; it never reads behind it. */
static tn_status memory_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream,
                              tn_memory *out_memory) {
  void *p = size_bytes > SIZE_MAX - ALIGNMENT
                ? NULL
                : aligned_alloc(ALIGNMENT, (size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  if (!p) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "forty: no %llu bytes", (unsigned long long)size_bytes);
  uint64_t disguised = (uintptr_t)p ^ FORTY_DISGUISE;
  *out_memory =
      (tn_memory){.mem = disguised, .address = (void *)(uintptr_t)disguised, .size_bytes = size_bytes};
  return TN_OK;
}

static void memory_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  free(forty_bytes(memory->address));
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  memcpy(forty_bytes((void *)(uintptr_t)mem) + offset_bytes, host, size_bytes);
  return TN_OK;
}

static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                         uint64_t size_bytes, void *stream) {
  memcpy(host, forty_bytes((void *)(uintptr_t)mem) + offset_bytes, size_bytes);
  return TN_OK;
}

static const char *describe(void *ctx, int32_t index) {
  return "primitive kernels, everything else composed";
}

static const tn_backend_def backend = {.struct_size = sizeof backend,
                                       .device_name = "forty",
                                       .alignment_bytes = ALIGNMENT,
                                       .fork = TN_FORK_SAFE,
                                       .device_count = device_count,
                                       .alloc = memory_alloc,
                                       .free = memory_free,
                                       .from_host = from_host,
                                       .to_host = to_host,
                                       .describe = describe};

#define ENTRY(op, name, dtypes) TN_KERNEL("forty", op, forty_##name, dtypes),
static const tn_kernel_def kernels[] = {FORTY_KERNELS(ENTRY)};

static tn_status init(const tn_host *host, tn_registration *reg) {
  TN_TRY(host->register_backend(reg, &backend));
  return tn_register_kernels(reg, kernels, TN_COUNT(kernels));
}

TN_PLUGIN(.name = "backend-primitives", .version = "1.0.0", .init = init)

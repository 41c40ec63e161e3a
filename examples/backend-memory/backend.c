/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest backend that there is: the device "attic" owns memory and moves bytes, and has no kernel at all. It says
 * so (TN_BACKEND_CPU_FALLBACK), and every operator runs on the CPU with copies both ways. Autograd, saving and loading,
 * random numbers, the cache before alloc and its statistics are the host's: there is nothing about them here.
 *
 * The device's memory is the C library's, behind handles that are no addresses: what a driver would hand out. Nobody
 * but the rows below can read it.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/plugin_backend.h>

/* Readable without running the plugin: the loader knows the device from here. */
TN_MANIFEST(TN_MANIFEST_HEADER("backend-memory", "1.0.0", "Apache-2.0") "device attic\n")

enum { ALIGNMENT = 64 };
static const uint64_t no_address = (uint64_t)0xa77 << 52; /* handles are addresses in disguise */

static char *bytes_of(uint64_t mem, int64_t offset_bytes) {
  return (char *)(uintptr_t)(mem ^ no_address) + offset_bytes;
}

static tn_status device_count(void *ctx, int32_t *out_count) {
  *out_count = 1;
  return TN_OK;
}

/* The core asks for large blocks and cuts them up, so a call into a slow driver is fine here. */
static tn_status memory_alloc(void *ctx, int32_t index, uint64_t size_bytes, void *stream,
                              tn_memory *out_memory) {
  void *p = size_bytes > SIZE_MAX - ALIGNMENT
                ? NULL
                : aligned_alloc(ALIGNMENT, (size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  if (!p) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "attic: no %llu bytes", (unsigned long long)size_bytes);
  *out_memory = (tn_memory){.mem = (uintptr_t)p ^ no_address, .address = NULL, .size_bytes = size_bytes};
  return TN_OK;
}

static void memory_free(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  free(bytes_of(memory->mem, 0));
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  memcpy(bytes_of(mem, offset_bytes), host, size_bytes);
  return TN_OK;
}

static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                         uint64_t size_bytes, void *stream) {
  memcpy(host, bytes_of(mem, offset_bytes), size_bytes);
  return TN_OK;
}

static const char *describe(void *ctx, int32_t index) { return "memory without kernels"; }

static const tn_backend_def backend = {.struct_size = sizeof backend,
                                       .flags = TN_BACKEND_CPU_FALLBACK,
                                       .device_name = "attic",
                                       .alignment_bytes = ALIGNMENT,
                                       .fork = TN_FORK_SAFE,
                                       .device_count = device_count,
                                       .alloc = memory_alloc,
                                       .free = memory_free,
                                       .from_host = from_host,
                                       .to_host = to_host,
                                       .describe = describe};

static tn_status init(const tn_host *host, tn_registration *reg) {
  return host->register_backend(reg, &backend);
}

TN_PLUGIN(.name = "backend-memory", .version = "1.0.0", .init = init)

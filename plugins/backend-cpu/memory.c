/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory as a backend: aligned blocks, huge pages for large ones, copies that are memcpy. Caching is
 * the core's work. Page faults dominate large eager operators (fresh 64 MiB: 2.5 GB/s with 4 KiB pages, 19
 * GB/s with huge ones), hence the advice.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugins/backend-cpu/cpu.h"

enum { ALIGNMENT = 64, HUGE_BYTES = 2 << 20 };

static tn_status device_count(void *ctx, int32_t *out_count) {
  *out_count = 1;
  return TN_OK;
}

static tn_status alloc_block(void *ctx, int32_t index, uint64_t size_bytes, void *stream,
                             tn_memory *out_memory) {
  size_t alignment = size_bytes >= HUGE_BYTES ? HUGE_BYTES : ALIGNMENT;
  void *p = NULL;
  if (size_bytes > SIZE_MAX - alignment || posix_memalign(&p, alignment, (size_t)size_bytes) != 0)
    return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "out of memory: %llu bytes on cpu", (unsigned long long)size_bytes);
#ifdef MADV_HUGEPAGE
  if (size_bytes >= HUGE_BYTES) madvise(p, (size_t)(size_bytes / HUGE_BYTES * HUGE_BYTES), MADV_HUGEPAGE);
#endif
  *out_memory = (tn_memory){(uint64_t)(uintptr_t)p, p, size_bytes};
  return TN_OK;
}

static void free_block(void *ctx, int32_t index, const tn_memory *memory, void *stream) {
  free(memory->address);
}

static tn_status from_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, const void *host,
                           uint64_t size_bytes, void *stream) {
  if (size_bytes) memcpy((char *)(uintptr_t)mem + offset_bytes, host, (size_t)size_bytes);
  return TN_OK;
}

static tn_status to_host(void *ctx, int32_t index, uint64_t mem, int64_t offset_bytes, void *host,
                         uint64_t size_bytes, void *stream) {
  if (size_bytes) memcpy(host, (const char *)(uintptr_t)mem + offset_bytes, (size_t)size_bytes);
  return TN_OK;
}

static tn_status memory_info(void *ctx, int32_t index, tn_memory_info *out_info) {
  long page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES), available = sysconf(_SC_AVPHYS_PAGES);
  if (page <= 0 || pages <= 0)
    return TN_FAIL(TN_ERR_UNSUPPORTED, "this system does not say how much memory it has");
  out_info->total_bytes = (uint64_t)page * (uint64_t)pages;
  out_info->free_bytes = available > 0 ? (uint64_t)page * (uint64_t)available : 0;
  return TN_OK;
}

static char description[64]; /* written in init, before any other thread can ask */

static const char *describe(void *ctx, int32_t index) { return description; }

/* Processors in the affinity mask. The host's number of threads would make it look at cores, nodes and cgroups, for
 * longer than a listing of devices may take. */
void cpu_describe(void) {
  cpu_set_t set; /* of 1024 processors; a larger machine does not fit, and is asked for all it has */
  long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  snprintf(description, sizeof description, "%ld processor%s, %s", n, n == 1 ? "" : "s", cpu_now->name);
}

const tn_backend_def cpu_backend = {
    .struct_size = sizeof(tn_backend_def),
    .flags = TN_BACKEND_HOST_MEMORY | TN_BACKEND_INLINE_MEMORY,
    .device_name = "cpu",
    .alignment_bytes = ALIGNMENT,
    .fork = TN_FORK_SAFE,
    .device_count = device_count,
    .alloc = alloc_block,
    .free = free_block,
    .from_host = from_host,
    .to_host = to_host,
    .memory_info = memory_info,
    .describe = describe,
};

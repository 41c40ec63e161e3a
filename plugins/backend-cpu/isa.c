/* SPDX-License-Identifier: Apache-2.0
 *
 * Which instruction sets this processor and its system allow. Feature bits only: model numbers lie (this
 * design was made on a machine whose model number names another chip). The compilers'
 * __builtin_cpu_supports also asks XGETBV whether the system saves the wide registers.
 */
#include "plugins/backend-cpu/isa_find.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__x86_64__)
bool cpu_has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx");
}
bool cpu_has_avx512(void) {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
bool cpu_has_avx2(void) { return false; }
bool cpu_has_avx512(void) { return false; }
#endif

/* ------------------------------------------------------------------ caches */

enum { CACHE_BYTES_UNKNOWN = 32 << 20 };

#if defined(__x86_64__)
/* The deterministic cache parameters: one sub-leaf a cache, nearest first, type 0 behind the last. (sysconf
 * is no help: glibc adds up the last caches of a whole AMD socket.) */
static int64_t last_cache(uint32_t leaf) {
  int64_t size = 0;
  uint32_t a, b, c, d;
  for (uint32_t i = 0; __get_cpuid_count(leaf, i, &a, &b, &c, &d) && (a & 31); ++i) {
    if ((a & 31) == 2) continue; /* instructions */
    size = (int64_t)((b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) * ((int64_t)c + 1);
  }
  return size;
}
int64_t cpu_cache_bytes(void) {
  int64_t size = last_cache(4);                  /* Intel */
  if (size == 0) size = last_cache(0x8000001dU); /* AMD */
  return size > 0 ? size : CACHE_BYTES_UNKNOWN;
}
#else
int64_t cpu_cache_bytes(void) { return CACHE_BYTES_UNKNOWN; }
#endif

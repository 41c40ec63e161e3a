/* SPDX-License-Identifier: Apache-2.0
 *
 * Which instruction sets this processor and its system allow. Feature bits only: model numbers lie (this
 * design was made on a machine whose model number names another chip). The compilers'
 * __builtin_cpu_supports also asks XGETBV whether the system saves the wide registers.
 */
#include "plugins/backend-cpu/isa_find.h"

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

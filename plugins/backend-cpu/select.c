/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the table of inner loops once, when the plugin is opened: the widest set that the processor has.
 * TENON_CPU_ISA=scalar|avx2|avx512 lowers the choice (tests run all three on one machine); asking for a
 * set that is not there is an error with words, not a crash later.
 */
#include <stdlib.h>
#include <string.h>

#include "plugins/backend-cpu/cpu.h"
#include "plugins/backend-cpu/isa_find.h"
#include <tenon/kit/status.h>

const cpu_isa *cpu_now = &cpu_isa_scalar;

tn_status cpu_select(void) {
  const cpu_isa *usable[3] = {&cpu_isa_scalar};
  int n = 1;
#if defined(__x86_64__)
  if (cpu_has_avx2()) usable[n++] = &cpu_isa_avx2;
  if (cpu_has_avx512()) usable[n++] = &cpu_isa_avx512;
#endif
  cpu_now = usable[n - 1];
  cpu_stream_bytes = cpu_cache_bytes();
  const char *wanted = getenv("TENON_CPU_ISA");
  if (!wanted || !*wanted) return TN_OK;
  for (int i = 0; i < n; ++i)
    if (strcmp(usable[i]->name, wanted) == 0) {
      cpu_now = usable[i];
      return TN_OK;
    }
  return TN_FAIL(TN_ERR_UNAVAILABLE,
                 "TENON_CPU_ISA is '%s'; expected scalar, avx2 or avx512, and this processor has up to %s",
                 wanted, usable[n - 1]->name);
}

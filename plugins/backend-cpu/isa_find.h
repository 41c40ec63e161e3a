/* SPDX-License-Identifier: Apache-2.0
 *
 * What isa.c tells select.c. Nobody else asks about the processor.
 */
#ifndef CPU_ISA_FIND_H
#define CPU_ISA_FIND_H

#include <stdbool.h>
#include <stdint.h>

bool cpu_has_avx2(void);   /* with FMA */
bool cpu_has_avx512(void); /* F, BW, DQ, VL, and all of the above */

/* Size of the last cache as the processor describes it; 32 MiB where nobody says. */
int64_t cpu_cache_bytes(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenBLAS that this process has: which of its kernels run, and how it is held to one thread. The only
 * place that knows OpenBLAS beyond the calls of cblas.h; products and tables are elsewhere.
 */
#ifndef TENON_OPENBLAS_LIBRARY_H
#define TENON_OPENBLAS_LIBRARY_H

#include <tenon/types.h>

/* Kernels that table.c has figures for. */
typedef enum ob_core { OB_HASWELL = 0, OB_SKYLAKEX, OB_CORES } ob_core;

/* In init, once: chooses the kernels by the processor's feature bits. TN_ERR_UNAVAILABLE with words where
 * this library or this processor is of no use. */
tn_status ob_library_open(void);

ob_core ob_library_core(void);
/* "OpenBLAS 0.3.21, SkylakeX kernels"; static. */
const char *ob_library_words(void);
/* May kernels call it now? False only if somebody else gave a pool of its own more than one thread. */
bool ob_library_single(void);

/* Around calls, on each thread that makes them: OpenBLAS uses this thread alone in between. */
int ob_single_begin(void);
void ob_single_end(int before);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops behind the ceilings, for the widest instruction set of this processor.
 */
#ifndef TENON_CLI_BENCH_LOOPS_H
#define TENON_CLI_BENCH_LOOPS_H

#include <stddef.h>

/* n floats at each pointer, a multiple of TNI_LOOP_UNIT; 64-byte aligned. */
typedef void (*tni_loop)(float *out, const float *a, const float *b, size_t n);

enum { TNI_LOOP_UNIT = 256, TNI_LOOP_FMA_CHAINS = 12 };

/* The *_stream ones store past the caches where there is such an instruction, else as the ordinary ones. read
 * leaves its sum at out[0]. fma multiplies and adds n / lanes times in each of TNI_LOOP_FMA_CHAINS vectors, so
 * 2 * n * TNI_LOOP_FMA_CHAINS flops, and leaves lanes floats at out. */
typedef struct tni_loops {
  tni_loop fill, fill_stream, read, copy, copy_stream, add, add_stream, fma;
} tni_loops;

const tni_loops *tni_loops_best(void);

#endif

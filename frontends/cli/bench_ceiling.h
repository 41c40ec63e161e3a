/* SPDX-License-Identifier: Apache-2.0
 *
 * Ceilings: what bare loops reach on this machine, in the same process and minute as the case they stand
 * beside. Memory is counted as the cases count it: bytes read and written once each.
 */
#ifndef TENON_CLI_BENCH_CEILING_H
#define TENON_CLI_BENCH_CEILING_H

#include <tenon/types.h>

typedef enum tni_ceiling_kind {
  TNI_CEILING_NONE = 0,
  TNI_CEILING_FILL, /* one stream written */
  TNI_CEILING_READ, /* one stream read */
  TNI_CEILING_COPY, /* one read, one written */
  TNI_CEILING_ADD,  /* two read, one written */
  TNI_CEILING_FMA   /* float32 multiply-adds in registers */
} tni_ceiling_kind;

typedef struct tni_ceiling tni_ceiling;

/* work: bytes of one pass, inputs and outputs together; without meaning for FMA. */
tn_status tni_ceiling_new(tni_ceiling_kind kind, double work, int threads, tni_ceiling **out_ceiling);
void tni_ceiling_free(tni_ceiling *ceiling); /* NULL is allowed */
/* Runs each loop of the kind (ordinary and non-temporal stores) for about block_ns, after as long a warm-up. *out_rate: bytes or flops
 * a nanosecond of the better one. */
tn_status tni_ceiling_run(tni_ceiling *ceiling, double block_ns, double *out_rate);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Ceilings: what bare loops reach on this machine, in the same process and minute as the case they stand
 * beside. Memory is counted as the cases count it: bytes read and written once each. Beside a small call, a node and a
 * process stands the least that one has to do (bench_floor.c, Note [The least of a call]).
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
  TNI_CEILING_FMA,  /* float32 multiply-adds in registers */
  /* Floors, on one thread; from here on. */
  TNI_CEILING_CALL_ADD,
  TNI_CEILING_CALL_SUM,
  TNI_CEILING_CALL_EMPTY,
  TNI_CEILING_CALL_VIEW,
  TNI_CEILING_CALL_IN_PLACE,
  TNI_CEILING_CALL_LAYER,
  TNI_CEILING_CALL_RECORD,
  TNI_CEILING_CALL_MM, /* and the multiply-adds of the work */
  TNI_CEILING_NODE,
  TNI_CEILING_CHAIN_FORWARD, /* TNI_FLOOR_CHAIN operators */
  TNI_CEILING_CHAIN_BACKWARD,
  TNI_CEILING_FAN_FORWARD,
  TNI_CEILING_FAN_BACKWARD,
  TNI_CEILING_PROCESS
} tni_ceiling_kind;

typedef struct tni_ceiling tni_ceiling;

/* Do its loops take the caches from the case? */
static inline bool tni_ceiling_is_memory(tni_ceiling_kind kind) {
  return kind != TNI_CEILING_NONE && kind < TNI_CEILING_FMA;
}

/* work: bytes of one pass, inputs and outputs together; without meaning for FMA; flops for MM; 1 for other floors. */
tn_status tni_ceiling_new(tni_ceiling_kind kind, double work, int threads, tni_ceiling **out_ceiling);
void tni_ceiling_free(tni_ceiling *ceiling); /* NULL is allowed */
/* Runs each loop of the kind (ordinary and non-temporal stores) for about block_ns, after as long a warm-up. *out_rate:
 * bytes, flops or runs a nanosecond of the better one. */
tn_status tni_ceiling_run(tni_ceiling *ceiling, double block_ns, double *out_rate);

#endif

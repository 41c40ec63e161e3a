/* SPDX-License-Identifier: Apache-2.0
 *
 * Floors: what the least that a small call, a node of a graph or a process has to do costs on this machine. The
 * ceilings of the suites dispatch, autograd and startup (bench_ceiling.h) are made of them.
 */
#ifndef TENON_CLI_BENCH_FLOOR_H
#define TENON_CLI_BENCH_FLOOR_H

#include "frontends/cli/bench_ceiling.h"

enum { TNI_FLOOR_CHAIN = 1000 }; /* operators of a chain or a fan */

typedef struct tni_floor tni_floor;

/* *out_floor NULL: the kind is no floor. */
tn_status tni_floor_new(tni_ceiling_kind kind, tni_floor **out_floor);
void tni_floor_free(tni_floor *floor); /* NULL is allowed */
/* Runs for about block_ns. *out_ns: of one call, node, whole chain or process, the best of its parts. */
tn_status tni_floor_run(tni_floor *floor, double block_ns, double *out_ns);

/* Starts a program (a path, or a name that PATH is searched for), its output thrown away, and waits for its end with
 * status 0. */
tn_status tni_floor_process(const char *program, char *const *argv);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The benchmark frame: a suite is a table of cases; a case is set up once, then run in blocks. A block
 * reports the nanoseconds of what it measures, so a case may leave out its own preparation (a graph before
 * backward).
 */
#ifndef TENON_CLI_BENCH_H
#define TENON_CLI_BENCH_H

#include "frontends/cli/cli.h"

enum { TNI_BENCH_TENSORS = 8 };

/* What a running case holds; the frame releases all of it. */
typedef struct tni_bench {
  const struct tni_bench_case *which;
  tn_tensor *t[TNI_BENCH_TENSORS];
  void *state;
  void (*free_state)(void *state);
} tni_bench;

typedef struct tni_bench_case {
  const char *name;
  const char *unit; /* "ns", "GB/s", "GFLOP/s", "ms" */
  /* value = scale / ns of one run for rates (scale: bytes or flops), else ns of one run * scale. */
  double scale;
  bool rate;
  int64_t size; /* the case's own parameter */
  tn_status (*setup)(tni_bench *bench);
  /* Runs n times; *out_ns: the time of the measured part, of all n together. */
  tn_status (*run)(tni_bench *bench, int64_t n, double *out_ns);
} tni_bench_case;

typedef struct tni_bench_suite {
  const char *name;
  const tni_bench_case *cases; /* ends with name NULL */
} tni_bench_suite;

extern const tni_bench_suite tni_bench_dispatch, tni_bench_elementwise, tni_bench_gemm, tni_bench_train,
    tni_bench_startup;

double tni_bench_now(void); /* ns */
/* A float32 tensor filled with a value, stored in slot i of the case. */
tn_status tni_bench_full(tni_bench *bench, int i, const tn_dim *sizes, size_t ndim, double value);

#endif

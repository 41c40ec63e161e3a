/* SPDX-License-Identifier: Apache-2.0
 *
 * The benchmark frame: a suite is a table of cases; a case is set up once, then run in blocks. A block
 * reports the nanoseconds of what it measures, so a case may leave out its own preparation (a graph before
 * backward). Beside a case its ceiling runs: what a bare loop of this machine reaches (bench_ceiling.h).
 */
#ifndef TENON_CLI_BENCH_H
#define TENON_CLI_BENCH_H

#include "frontends/cli/bench_ceiling.h"
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
  /* Runs n times; *out_ns: the time of the measured part, of all n together. NULL: call, n times. */
  tn_status (*run)(tni_bench *bench, int64_t n, double *out_ns);
  tn_status (*call)(tni_bench *bench);
  tni_ceiling_kind ceiling;
  double work; /* bytes or flops of one run, or 1, for the ceiling of a case that is no rate */
} tni_bench_case;

typedef struct tni_bench_suite {
  const char *name;
  const tni_bench_case *cases; /* ends with name NULL */
} tni_bench_suite;

extern const tni_bench_suite tni_bench_dispatch, tni_bench_elementwise, tni_bench_reduction, tni_bench_gemm,
    tni_bench_conv, tni_bench_autograd, tni_bench_train, tni_bench_startup;

/* The case of that name in any suite, or NULL. */
const tni_bench_case *tni_bench_find(const char *name);
/* tni_bench_end also after a begin that failed. */
tn_status tni_bench_begin(const tni_bench_case *which, tni_bench *bench);
void tni_bench_end(tni_bench *bench);
tn_status tni_bench_run(tni_bench *bench, int64_t n, double *out_ns);
/* The ceiling beside a case; NULL if it has none. */
tn_status tni_bench_ceiling(const tni_bench_case *which, tni_ceiling **out_ceiling);
/* One block of the ceiling (NULL: none; *out_ceiling is left alone) and one of the case. Each comes upon caches
 * that hold its own data: a case at memory runs once before it is timed, as the ceiling's loops do. */
tn_status tni_bench_block(tni_bench *bench, tni_ceiling *ceiling, int64_t n, double *out_ns,
                          double *out_ceiling);
/* Bytes or flops of one run; 1 where the ceiling counts runs. */
double tni_bench_work(const tni_bench_case *which);

/* Answers requests on stdin until it ends (bench_serve.c). An exit status. */
int tni_bench_serve(void);

double tni_bench_now(void); /* ns */
/* A float32 tensor in slot i of the case: filled with a value, or from N(0, 1). */
tn_status tni_bench_full(tni_bench *bench, int i, const tn_dim *sizes, size_t ndim, double value);
tn_status tni_bench_randn(tni_bench *bench, int i, const tn_dim *sizes, size_t ndim);
/* Releases what a call made: for cases whose result is fresh. */
static inline tn_status tni_bench_made(tn_status status, tn_tensor *const *result) {
  if (status == TN_OK) tn_tensor_release(*result);
  return status;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon bench`: runs suites and prints the best of at least 30 blocks of each case. The best, because noise
 * on a shared machine only ever adds. --loop runs one case a fixed number of times, for instruction counters.
 */
#include <time.h>

#include "frontends/cli/bench.h"
#include "frontends/cli/json.h"

static const tni_bench_suite *const suites[] = {&tni_bench_dispatch, &tni_bench_elementwise, &tni_bench_gemm,
                                                &tni_bench_train, &tni_bench_startup};
enum { N_SUITES = sizeof suites / sizeof *suites, MIN_BLOCKS = 30 };

static const double block_ns = 2e6;   /* a block is about this long */
static const double least_ns = 150e6; /* a case runs at least this long in all */
static const double most_ns = 3e9;    /* a slow case ends before 30 blocks here */

double tni_bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

tn_status tni_bench_full(tni_bench *bench, int i, const tn_dim *sizes, size_t ndim, double value) {
  return tn_full(sizes, ndim, tn_float(value), TN_OPTIONS(.dtype = TN_FLOAT32), &bench->t[i]);
}

/* ------------------------------------------------------------------ one case */

static tn_status begin(const tni_bench_case *c, tni_bench *bench) {
  *bench = (tni_bench){.which = c};
  return c->setup(bench);
}

static void end(tni_bench *bench) {
  for (int i = 0; i < TNI_BENCH_TENSORS; i++) tn_tensor_release(bench->t[i]);
  if (bench->free_state) bench->free_state(bench->state);
}

/* Nanoseconds of one run, best block. */
static tn_status measure(tni_bench *bench, double *out_ns) {
  const tni_bench_case *c = bench->which;
  double ns = 0.0, best = 0.0, begun = tni_bench_now();
  int64_t n = 1;
  TN_TRY(c->run(bench, 1, &ns)); /* opens, builds cells, fills caches */
  for (; n < 1 << 24; n *= 2) {
    TN_TRY(c->run(bench, n, &ns));
    if (ns >= block_ns / 2) break;
  }
  best = ns / (double)n;
  for (int block = 0;; block++) {
    double passed = tni_bench_now() - begun;
    if ((block >= MIN_BLOCKS && passed >= least_ns) || (block >= 3 && passed >= most_ns)) break;
    TN_TRY(c->run(bench, n, &ns));
    if (ns / (double)n < best) best = ns / (double)n;
  }
  *out_ns = best;
  return TN_OK;
}

static void print_value(const tni_bench_suite *suite, const tni_bench_case *c, double value, bool as_json) {
  if (!as_json) {
    printf("%-12s %-24s %2d threads %12.4g %s\n", suite->name, c->name, tn_num_threads(), value, c->unit);
    fflush(stdout);
    return;
  }
  tni_json json = {.file = stdout};
  tni_json_open(&json, NULL, '{');
  tni_json_string(&json, "suite", suite->name);
  tni_json_string(&json, "name", c->name);
  tni_json_int(&json, "threads", tn_num_threads());
  tni_json_real(&json, "value", value);
  tni_json_string(&json, "unit", c->unit);
  tni_json_close(&json, '}');
}

static tn_status run_case(const tni_bench_suite *suite, const tni_bench_case *c, bool as_json) {
  tni_bench bench;
  double ns = 0.0;
  tn_status status = begin(c, &bench);
  if (status == TN_OK) status = measure(&bench, &ns);
  end(&bench);
  if (status != TN_OK) return tn_wrap(status, "bench %s %s", suite->name, c->name);
  print_value(suite, c, c->rate ? c->scale / ns : ns * c->scale, as_json);
  return TN_OK;
}

/* ------------------------------------------------------------------ the command */

static const tni_bench_case *find_case(const char *name) {
  for (int s = 0; s < N_SUITES; s++)
    for (const tni_bench_case *c = suites[s]->cases; c->name; c++)
      if (!strcmp(c->name, name)) return c;
  return NULL;
}

static int loop_case(const char *name, const char *count) {
  char *rest = NULL;
  long long n = count ? strtoll(count, &rest, 10) : 0;
  const tni_bench_case *c = find_case(name);
  if (!c || n < 1 || *rest) {
    fprintf(
        stderr,
        "tenon bench: --loop takes the name of a case and then a number of runs; see tenon bench --help\n");
    return TNI_EXIT_USAGE;
  }
  tni_bench bench;
  double ns;
  tn_status status = begin(c, &bench);
  if (status == TN_OK) status = c->run(&bench, n, &ns);
  end(&bench);
  return status == TN_OK ? TNI_EXIT_OK : tni_cli_failed();
}

static int run_suites(const char *name, bool as_json) {
  bool found = false;
  int result = TNI_EXIT_OK;
  for (int s = 0; s < N_SUITES; s++) {
    if (name && strcmp(name, suites[s]->name)) continue;
    found = true;
    for (const tni_bench_case *c = suites[s]->cases; c->name; c++)
      if (run_case(suites[s], c, as_json) != TN_OK) result = tni_cli_failed();
  }
  if (found) return result;
  fprintf(stderr, "tenon bench: unknown suite '%s'; dispatch, elementwise, gemm, train, startup are known\n",
          name);
  return TNI_EXIT_USAGE;
}

static int run_bench(int argc, char **argv) {
  bool as_json = false;
  const char *name = NULL, *loop = NULL;
  int64_t threads = 0;
  const tni_option options[] = {
      {"--threads", TNI_OPTION_INT, &threads, "N", "threads (the physical cores)", 1, 1024},
      {"--loop", TNI_OPTION_STRING, &loop, "CASE N", "run one case N times and print nothing", 0, 0},
      {"--json", TNI_OPTION_FLAG, &as_json, NULL, "one JSON object a line: suite, name, threads, value, unit",
       0, 0},
      {0}};
  int result = tni_args_parse(&tni_cmd_bench, options, argc, argv, &name);
  if (result >= 0) return result;
  if (tn_init() != TN_OK) return tni_cli_failed();
  if (threads && tn_set_num_threads((int32_t)threads) != TN_OK) return tni_cli_failed();
  return loop ? loop_case(loop, name) : run_suites(name, as_json);
}

const tni_command tni_cmd_bench = {
    "bench",
    "[SUITE]",
    0,
    1,
    "Measures; prints the best of at least 30 blocks of each case.\n"
    "SUITE: dispatch, elementwise, gemm, train, startup; all of them if left out.",
    run_bench};

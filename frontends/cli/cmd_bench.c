/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon bench`: runs suites and prints the best of at least 30 blocks of each case. The best, because noise
 * on a shared machine only ever adds. --loop runs one case a fixed number of times, for instruction counters.
 */
#include <time.h>

#include "frontends/cli/bench.h"
#include "frontends/cli/json.h"

static const tni_bench_suite *const suites[] = {
    &tni_bench_dispatch, &tni_bench_elementwise, &tni_bench_reduction, &tni_bench_gemm,
    &tni_bench_conv,     &tni_bench_autograd,    &tni_bench_train,     &tni_bench_startup};
enum { N_SUITES = sizeof suites / sizeof *suites, MIN_BLOCKS = 30 };

#define SUITES "dispatch, elementwise, reduction, gemm, conv, autograd, train, startup"

static const double block_ns = 2e6;         /* a block is about this long */
static const double ceiling_block_ns = 4e6; /* that of a ceiling, which starts threads */
static const double least_ns = 150e6;       /* a case runs at least this long in all */
static const double most_ns = 3e9;          /* a slow case ends before 30 blocks here */

double tni_bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

tn_status tni_bench_full(tni_bench *bench, int i, const tn_dim *sizes, size_t ndim, double value) {
  return tn_full(sizes, ndim, tn_float(value), TN_OPTIONS(.dtype = TN_FLOAT32), &bench->t[i]);
}

tn_status tni_bench_randn(tni_bench *bench, int i, const tn_dim *sizes, size_t ndim) {
  return tn_randn(sizes, ndim, TN_OPTIONS(.dtype = TN_FLOAT32), &bench->t[i]);
}

/* ------------------------------------------------------------------ one case */

tn_status tni_bench_begin(const tni_bench_case *which, tni_bench *bench) {
  *bench = (tni_bench){.which = which};
  return which->setup(bench);
}

void tni_bench_end(tni_bench *bench) {
  for (int i = 0; i < TNI_BENCH_TENSORS; i++) tn_tensor_release(bench->t[i]);
  if (bench->free_state) bench->free_state(bench->state);
}

tn_status tni_bench_run(tni_bench *bench, int64_t n, double *out_ns) {
  const tni_bench_case *c = bench->which;
  if (c->run) return c->run(bench, n, out_ns);
  double begin = tni_bench_now();
  for (int64_t i = 0; i < n; i++) TN_TRY(c->call(bench));
  *out_ns = tni_bench_now() - begin;
  return TN_OK;
}

double tni_bench_work(const tni_bench_case *which) { return which->rate ? which->scale : which->work; }

tn_status tni_bench_ceiling(const tni_bench_case *which, tni_ceiling **out_ceiling) {
  *out_ceiling = NULL;
  if (!which->ceiling) return TN_OK;
  tn_status status = tni_ceiling_new(which->ceiling, tni_bench_work(which), tn_num_threads(), out_ceiling);
  if (status == TN_OK) return TN_OK;
  tni_ceiling_free(*out_ceiling);
  *out_ceiling = NULL;
  return status;
}

/* The ceiling's arrays have taken the case's place in the caches. A last cache gives a place back over several passes
 * only (16 MiB of 32 after six), so both are warmed as long as they are measured at most. */
static tn_status warm_again(tni_bench *bench) {
  for (double passed = 0.0, ns; passed < ceiling_block_ns; passed += ns) TN_TRY(tni_bench_run(bench, 1, &ns));
  return TN_OK;
}

tn_status tni_bench_block(tni_bench *bench, tni_ceiling *ceiling, int64_t n, double *out_ns,
                          double *out_ceiling) {
  if (ceiling) TN_TRY(tni_ceiling_run(ceiling, ceiling_block_ns, out_ceiling));
  if (ceiling && tni_ceiling_is_memory(bench->which->ceiling)) TN_TRY(warm_again(bench));
  return tni_bench_run(bench, n, out_ns);
}

/* What was measured: the best of all blocks. */
typedef struct outcome {
  double ns;      /* of one run */
  double ceiling; /* bytes, flops or runs a nanosecond; 0: none */
} outcome;

static tn_status measure_block(tni_bench *bench, tni_ceiling *ceiling, int64_t n, outcome *best) {
  double ns = 0.0, rate = 0.0;
  TN_TRY(tni_bench_block(bench, ceiling, n, &ns, &rate));
  if (best->ns == 0.0 || ns / (double)n < best->ns) best->ns = ns / (double)n;
  if (rate > best->ceiling) best->ceiling = rate;
  return TN_OK;
}

static tn_status measure(tni_bench *bench, tni_ceiling *ceiling, outcome *out) {
  double ns = 0.0, begun = tni_bench_now();
  int64_t n = 1;
  TN_TRY(tni_bench_run(bench, 1, &ns)); /* opens, builds cells, fills caches */
  for (; n < 1 << 24; n *= 2) {
    TN_TRY(tni_bench_run(bench, n, &ns));
    if (ns >= block_ns / 2) break;
  }
  *out = (outcome){0};
  for (int block = 0;; block++) {
    double passed = tni_bench_now() - begun;
    if ((block >= MIN_BLOCKS && passed >= least_ns) || (block >= 3 && passed >= most_ns)) break;
    TN_TRY(measure_block(bench, ceiling, n, out));
  }
  return TN_OK;
}

/* The best time over the best ceiling: the share of the ceiling that was reached. */
static void print_outcome(const tni_bench_suite *suite, const tni_bench_case *c, outcome o, bool as_json) {
  double value = c->rate ? c->scale / o.ns : o.ns * c->scale;
  double work = tni_bench_work(c), ratio = o.ceiling > 0.0 ? work / o.ns / o.ceiling : 0.0;
  double ceiling = c->rate ? o.ceiling : o.ceiling > 0.0 ? work / o.ceiling * c->scale : 0.0;
  if (!as_json) {
    printf("%-12s %-24s %2d threads %12.4g %-8s", suite->name, c->name, tn_num_threads(), value, c->unit);
    if (o.ceiling > 0.0) printf(" %5.2f of %.4g", ratio, ceiling);
    printf("\n");
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
  if (o.ceiling > 0.0) tni_json_real(&json, "ceiling", ceiling);
  if (o.ceiling > 0.0) tni_json_real(&json, "ratio", ratio);
  tni_json_close(&json, '}');
}

static tn_status run_case(const tni_bench_suite *suite, const tni_bench_case *c, bool as_json) {
  tni_bench bench;
  tni_ceiling *ceiling = NULL;
  outcome o = {0};
  tn_status status = tni_bench_begin(c, &bench);
  if (status == TN_ERR_NOT_FOUND) { /* the case needs a plugin that is not installed */
    tni_bench_end(&bench);
    fprintf(stderr, "tenon bench: %s is left out: %s\n", c->name, tn_error_message());
    return TN_OK;
  }
  if (status == TN_OK) status = tni_bench_ceiling(c, &ceiling);
  if (status == TN_OK) status = measure(&bench, ceiling, &o);
  tni_ceiling_free(ceiling);
  tni_bench_end(&bench);
  if (status != TN_OK) return tn_wrap(status, "bench %s %s", suite->name, c->name);
  print_outcome(suite, c, o, as_json);
  return TN_OK;
}

/* ------------------------------------------------------------------ the command */

const tni_bench_case *tni_bench_find(const char *name) {
  for (int s = 0; s < N_SUITES; s++)
    for (const tni_bench_case *c = suites[s]->cases; c->name; c++)
      if (!strcmp(c->name, name)) return c;
  return NULL;
}

static int loop_case(const char *name, const char *count) {
  char *rest = NULL;
  long long n = count ? strtoll(count, &rest, 10) : 0;
  const tni_bench_case *c = tni_bench_find(name);
  if (!c || n < 1 || *rest) {
    fprintf(
        stderr,
        "tenon bench: --loop takes the name of a case and then a number of runs; see tenon bench --help\n");
    return TNI_EXIT_USAGE;
  }
  tni_bench bench;
  double ns;
  tn_status status = tni_bench_begin(c, &bench);
  if (status == TN_OK) status = tni_bench_run(&bench, n, &ns);
  tni_bench_end(&bench);
  return status == TN_OK ? TNI_EXIT_OK : tni_cli_failed();
}

/* What --case, --list and --json ask for. */
typedef struct wish {
  const char *only; /* the one case to run, or NULL */
  bool list;        /* print names, measure nothing */
  bool as_json;
} wish;

static int one_case(const tni_bench_suite *suite, const tni_bench_case *c, const wish *w) {
  if (!w->list) return run_case(suite, c, w->as_json) == TN_OK ? TNI_EXIT_OK : tni_cli_failed();
  printf("%s\n", c->name);
  return TNI_EXIT_OK;
}

static int run_suites(const char *name, const wish *w) {
  const char *only = w->only;
  bool suite_found = false, case_found = !only;
  int result = TNI_EXIT_OK;
  for (int s = 0; s < N_SUITES; s++) {
    if (name && strcmp(name, suites[s]->name)) continue;
    suite_found = true;
    for (const tni_bench_case *c = suites[s]->cases; c->name; c++) {
      if (only && strcmp(only, c->name)) continue;
      case_found = true;
      if (one_case(suites[s], c, w) != TNI_EXIT_OK) result = TNI_EXIT_FAILED;
    }
  }
  if (suite_found && case_found) return result;
  if (!suite_found)
    fprintf(stderr, "tenon bench: unknown suite '%s'; " SUITES " are known\n", name);
  else
    fprintf(stderr, "tenon bench: unknown case '%s'\n", only);
  return TNI_EXIT_USAGE;
}

/* Where tensors of cases that name no device are made. */
static tn_status use_device(const char *name) {
  tn_device device;
  TN_TRY(tn_device_open(name, &device));
  return tn_default_device_set(device);
}

static int run_bench(int argc, char **argv) {
  bool serve = false;
  wish w = {0};
  tni_watch watch = {0};
  const char *name = NULL, *loop = NULL, *plugin_layers = NULL, *device = "cpu";
  int64_t threads = 0;
  const tni_option options[] = {
      {"--threads", TNI_OPTION_INT, &threads, "N", "threads (the physical cores)", 1, 1024},
      {"--device", TNI_OPTION_STRING, &device, "NAME", "where the tensors are (cpu)", 0, 0},
      {"--case", TNI_OPTION_STRING, &w.only, "CASE", "measure this case only", 0, 0},
      {"--loop", TNI_OPTION_STRING, &loop, "CASE N", "run one case N times and print nothing", 0, 0},
      {"--list", TNI_OPTION_FLAG, &w.list, NULL, "print the names of the cases and measure nothing", 0, 0},
      {"--serve", TNI_OPTION_FLAG, &serve, NULL, "answer lines 'run CASE N' and 'memory CASE N' on stdin", 0,
       0},
      TNI_WATCH_OPTIONS(watch),
      {"--plugin-layers", TNI_OPTION_STRING, &plugin_layers, "NAMES", "layers of plugins to switch on, by commas", 0, 0},
      {"--json", TNI_OPTION_FLAG, &w.as_json, NULL,
       "one JSON object a line: suite, name, threads, value, unit; ceiling, ratio", 0, 0},
      {0}};
  int result = tni_args_parse(&tni_cmd_bench, options, argc, argv, &name);
  if (result >= 0) return result;
  if (tn_init() != TN_OK) return tni_cli_failed();
  if (threads && tn_set_num_threads((int32_t)threads) != TN_OK) return tni_cli_failed();
  if (use_device(device) != TN_OK) return tni_cli_failed();
  if (plugin_layers && tn_layers_set_on(plugin_layers) != TN_OK) return tni_cli_failed();
  result = tni_watch_begin(&watch);
  if (result != TNI_EXIT_OK) return result;
  result = serve ? tni_bench_serve() : loop ? loop_case(loop, name) : run_suites(name, &w);
  return tni_watch_end(&watch, result, serve || w.as_json ? stderr : stdout);
}

const tni_command tni_cmd_bench = {
    "bench",
    "[SUITE]",
    0,
    1,
    "Measures; prints the best of at least 30 blocks of each case.\n"
    "Beside it the share reached of a ceiling, measured in the same run: bare loops over memory, or of\n"
    "multiply-adds; for a small call, a node of a graph and a process the least that one has to do\n"
    "(a call through a table, a block off a free list, a result written; `true`).\n"
    "SUITE: " SUITES "; all if left out.",
    run_bench};

/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon bench --serve`: the other side of ci/bench/compare_torch.py, which lets this process and its peers
 * take turns. A request is a line, its answer one JSON object a line:
 *
 *   run CASE N      {"ns": of one run, N in all, "work": bytes or flops, "ceiling": a nanosecond; null: none}
 *   memory CASE N   {"bytes": peak of resident memory in set-up and N runs, above what stood before}
 *
 * or {"error": words}. The case stays set up until another one is named.
 */
#include <inttypes.h>
#include <math.h>

#include "frontends/cli/bench.h"
#include "frontends/cli/json.h"

enum { LINE = 256 };

typedef struct server {
  tni_bench bench; /* which NULL: none is set up */
  tni_ceiling *ceiling;
} server;

static void put_away(server *s) {
  if (s->bench.which) tni_bench_end(&s->bench);
  tni_ceiling_free(s->ceiling);
  *s = (server){0};
}

static tn_status set_up(server *s, const tni_bench_case *c) {
  if (s->bench.which == c) return TN_OK;
  put_away(s);
  TN_TRY(tni_bench_begin(c, &s->bench));
  return tni_bench_ceiling(c, &s->ceiling);
}

static tn_status serve_run(server *s, const tni_bench_case *c, int64_t n) {
  double ns = 0.0, rate = NAN;
  TN_TRY(set_up(s, c));
  TN_TRY(tni_bench_block(&s->bench, s->ceiling, n, &ns, &rate));
  tni_json json = {.file = stdout};
  tni_json_open(&json, NULL, '{');
  tni_json_real(&json, "ns", ns / (double)n);
  tni_json_real(&json, "work", tni_bench_work(c));
  tni_json_real(&json, "ceiling", rate);
  tni_json_close(&json, '}');
  return TN_OK;
}

/* ------------------------------------------------------------------ memory */

/* A line of /proc/self/status in kB, as bytes; -1 where there is none. */
static int64_t status_bytes(const char *name) {
  char line[LINE];
  int64_t kb = -1;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && kb < 0 && fgets(line, sizeof line, file))
    if (!strncmp(line, name, strlen(name))) kb = strtoll(line + strlen(name), NULL, 10);
  if (file) fclose(file);
  return kb < 0 ? -1 : kb * 1024;
}

/* Makes the peak begin anew. */
static bool forget_peak(void) {
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file) return false;
  bool written = fputs("5", file) >= 0;
  return !fclose(file) && written;
}

/* A process that has computed something: libraries and pools count as what stood before. */
static tn_status warm_up(void) {
  const tn_dim sizes[] = {64, 64};
  tni_bench b = {0};
  tn_tensor *r = NULL;
  tn_status status = tni_bench_full(&b, 0, sizes, 2, 1.0);
  if (status == TN_OK) status = tni_bench_made(tn_mm(b.t[0], b.t[0], &r), &r);
  tn_tensor_release(b.t[0]);
  return status;
}

static tn_status serve_memory(server *s, const tni_bench_case *c, int64_t n) {
  double ns = 0.0;
  put_away(s);
  TN_TRY(warm_up());
  if (!forget_peak()) return tn_fail(TN_ERR_UNSUPPORTED, "this system cannot forget the peak of memory");
  int64_t before = status_bytes("VmRSS:");
  TN_TRY(tni_bench_begin(c, &s->bench));
  TN_TRY(tni_bench_run(&s->bench, n, &ns));
  int64_t peak = status_bytes("VmHWM:");
  if (before < 0 || peak < 0)
    return tn_fail(TN_ERR_UNSUPPORTED, "this system does not tell the peak of memory");
  tni_json json = {.file = stdout};
  tni_json_open(&json, NULL, '{');
  tni_json_int(&json, "bytes", peak - before);
  tni_json_close(&json, '}');
  return TN_OK;
}

/* ------------------------------------------------------------------ requests */

static tn_status serve_line(server *s, const char *line) {
  char verb[16], name[128], rest;
  int64_t n = 0;
  if (sscanf(line, "%15s %127s %" SCNd64 " %c", verb, name, &n, &rest) != 3 || n < 1)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "a request is 'run CASE N' or 'memory CASE N', with N from 1");
  const tni_bench_case *c = tni_bench_find(name);
  if (!c) return tn_fail(TN_ERR_NOT_FOUND, "there is no case '%s'", name);
  if (!strcmp(verb, "run")) return serve_run(s, c, n);
  if (!strcmp(verb, "memory")) return serve_memory(s, c, n);
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "unknown request '%s'; run and memory are known", verb);
}

int tni_bench_serve(void) {
  char line[LINE];
  server s = {0};
  while (fgets(line, sizeof line, stdin)) {
    if (serve_line(&s, line) != TN_OK) {
      tni_json json = {.file = stdout};
      tni_json_open(&json, NULL, '{');
      tni_json_string(&json, "error", tn_error_message());
      tni_json_close(&json, '}');
      put_away(&s);
    }
    fflush(stdout);
  }
  put_away(&s);
  return TNI_EXIT_OK;
}

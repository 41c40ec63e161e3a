/* SPDX-License-Identifier: Apache-2.0
 *
 * The command `tenon bench`: every case of every suite can be run once and comes with a ceiling, and
 * --serve answers line by line, also what it cannot do. No figure is judged here.
 */
#include <stdio.h>

#include "tools.h"

static const char *const suites[] = {"dispatch", "elementwise", "reduction", "gemm",
                                     "conv",     "autograd",    "train",     "startup"};
enum { N_SUITES = sizeof suites / sizeof *suites };

/* stdout of a run that must succeed, copied: other runs follow. */
static char *output(const char *arguments) {
  const tt_result *r = tt_tenon(arguments);
  TN_CHECK_STR(r->words, "");
  TN_CHECK_INT(r->status, 0);
  return strdup(r->out);
}

/* What --serve answers to requests. */
static const tt_result *serve(const char *requests) {
  char arguments[1024];
  const char *path = tt_file("requests", requests, strlen(requests));
  snprintf(arguments, sizeof arguments, "bench --serve --threads 2 < '%s'", path);
  return tt_tenon(arguments);
}

/* The number after "key": in a line of JSON; -1 if it is not there or null. */
static double number(const char *line, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\": ", key);
  const char *at = strstr(line, quoted);
  char *end = NULL;
  double value = at ? strtod(at + strlen(quoted), &end) : -1.0;
  return at && end != at + strlen(quoted) ? value : -1.0;
}

TN_TEST(frontends_bench, suites_have_cases) {
  for (int i = 0; i < N_SUITES; i++) {
    char arguments[64];
    snprintf(arguments, sizeof arguments, "bench %s --list", suites[i]);
    char *names = output(arguments);
    TN_CHECK(strlen(names) > 0);
    free(names);
  }
  TN_CHECK_INT(tt_tenon("bench none")->status, 2);
  TN_CHECK_CONTAINS(tt_tenon("bench none")->words, "unknown suite 'none'");
  TN_CHECK_INT(tt_tenon("bench dispatch --case none")->status, 2);
  TN_CHECK_CONTAINS(tt_tenon("bench dispatch --case none")->words, "unknown case 'none'");
}

/* Large kin of cases that run here: the same code, seconds under a sanitizer. */
static bool is_large(const char *name) {
  static const char *const ends[] = {"_16M", "_4096", "_2048", "_1024", "x32000", "x1024", "_256x1024x1024"};
  if (!strncmp(name, "mlp1024", 7)) return true;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    size_t n = strlen(name), end = strlen(ends[i]);
    if (n >= end && !strcmp(name + n - end, ends[i])) return true;
  }
  return false;
}

/* Loops over 4M elements and more, a second each under a sanitizer: the setup is the same for all of them, add_4M and
 * the ceilings' cases show it, and tests_ops walks the kernels. */
static bool is_left_out(const char *name) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  if (strcmp(name, "add_4M") && (strstr(name, "_4M") || strstr(name, "_16M"))) return true;
#endif
  return is_large(name) && strcmp(name, "mm_bf16_1024") && strcmp(name, "argmax_dim1_16M");
}

/* One process for all of them. */
TN_TEST(frontends_bench, every_case_runs) {
  static char requests[1 << 14];
  char *names = output("bench --list"), *rest = NULL;
  int asked = 0, answered = 0;
  requests[0] = 0;
  for (char *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
    if (is_left_out(name)) continue;
    size_t used = strlen(requests);
    snprintf(requests + used, sizeof requests - used, "run %s 1\n", name);
    asked++;
  }
  free(names);
  const tt_result *r = serve(requests);
  TN_CHECK_INT(r->status, 0);
  for (const char *s = r->out; *s; s = strchr(s, '\n') + 1) {
    TN_CHECK(number(s, "ns") > 0.0);
    TN_CHECK(number(s, "ceiling") > 0.0);
    answered++;
  }
  TN_CHECK_INT(answered, asked);
}

TN_TEST(frontends_bench, a_ceiling_is_printed_with_its_share) {
  char *line = output("bench gemm --case mm_f32_32 --threads 1 --json");
  TN_CHECK(number(line, "ceiling") > 0.0);
  TN_CHECK(number(line, "ratio") > 0.0);
  TN_CHECK_DOUBLE(number(line, "ratio"), number(line, "value") / number(line, "ceiling"), 1e-6);
  free(line);
  /* Memory loops beside a memory case: more than 0.1 and less than 10,000 GB/s. */
  const tt_result *r = serve("run add_4M 1\nrun fill_4M 1\nrun copy_4M 1\nrun sum_4M 1\n");
  int lines = 0;
  for (const char *s = r->out; *s; s = strchr(s, '\n') + 1, lines++)
    TN_CHECK(number(s, "ceiling") > 0.1 && number(s, "ceiling") < 1e4);
  TN_CHECK_INT(lines, 4);
}

/* Runs a nanosecond of the first request's ceiling over those of the second's, the best of ten each. */
static double floors(const char *first, const char *second) {
  char requests[1024] = "";
  double best[2] = {0, 0};
  for (int i = 0; i < 20; i++) {
    size_t used = strlen(requests);
    snprintf(requests + used, sizeof requests - used, "run %s 1\n", i < 10 ? first : second);
  }
  const tt_result *r = serve(requests);
  int line = 0;
  for (const char *s = r->out; *s; s = strchr(s, '\n') + 1, line++)
    if (number(s, "ceiling") / number(s, "work") > best[line >= 10])
      best[line >= 10] = number(s, "ceiling") / number(s, "work");
  TN_CHECK_INT(line, 20);
  return best[0] / best[1];
}

/* What does more takes longer: by how much is the machine's affair. */
TN_TEST(frontends_bench, the_least_of_a_call_grows_with_what_the_call_has_to_do) {
  TN_CHECK(floors("add_1_nograd", "mm_16x16") > 1.0); /* 8,192 operations more */
  TN_CHECK(floors("mul_backward", "chain_backward") > 10.0); /* one node; a thousand */
  TN_CHECK(floors("add_1_nograd", "devices") > 1000.0);
  char *line = output("bench dispatch --case add_1_nograd --json");
  TN_CHECK_DOUBLE(number(line, "ratio"), number(line, "ceiling") / number(line, "value"), 1e-6);
  free(line);
}

TN_TEST(frontends_bench, serve_refuses_and_goes_on) {
  const tt_result *r = serve("run none 1\nrun add_1_nograd\nrun add_1_nograd 0\nstop add_1_nograd 1\n\n"
                             "run add_1_nograd 5\n");
  TN_CHECK_INT(r->status, 0);
  TN_CHECK_CONTAINS(r->out, "there is no case 'none'");
  TN_CHECK_CONTAINS(r->out, "a request is 'run CASE N' or 'memory CASE N'");
  TN_CHECK_CONTAINS(r->out, "unknown request 'stop'");
  TN_CHECK_CONTAINS(r->out, "\"ns\": ");
}

TN_TEST(frontends_bench, memory_of_a_model) {
  const tt_result *r = serve("memory mlp1024_adam_batch256 2\n");
  if (strstr(r->out, "\"error\"")) return; /* a system that does not tell */
  /* 1.86 million parameters, their gradients and two averages: 30 MB. */
  TN_CHECK(number(r->out, "bytes") > 25e6 && number(r->out, "bytes") < 500e6);
}

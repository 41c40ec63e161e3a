/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon check plugin FILE.so`: chooses the checks, runs them one after the other, and writes the reports.
 */
#include <fnmatch.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontends/check/expected.h"
#include "frontends/check/modes.h"
#include "frontends/check/place.h"
#include "frontends/check/process.h"
#include "frontends/check/report.h"
#include "frontends/check/tools.h"

enum { DEFAULT_TIMEOUT_S = 20 };

typedef struct settings {
  const char *file, *json, *junit, *only, *expected;
  bool list, all, help;
} settings;

/* ------------------------------------------------------------------ usage */

static void help(void) {
  fputs(
      "usage: tenon check plugin FILE.so [options]\n\n"
      "Holds a plugin to the contract and to its own manifest. Each check runs in a process of its own, "
      "against the\n"
      "installed Tenon, with the plugins that stand beside it and no others.\n\noptions:\n"
      "  --only PATTERN   only checks whose name matches, e.g. 'memory.*'; several with commas\n"
      "  --list           the checks and what each proves; with FILE.so: those that apply to it\n"
      "  --all            name what passed and what was skipped, too\n"
      "  --expected FILE  known failures, lines of CHECK ITEM  # why; default: FILE.expected beside FILE.so\n"
      "  --json FILE      the report as JSON\n"
      "  --junit FILE     the report as JUnit XML\n"
      "  --help           this text\n\n"
      "Exit status 0: nothing found, 1: findings, 2: wrong usage or no report.\n",
      stdout);
}

static int wrong(const char *words, const char *what) {
  fprintf(stderr, "tenon check plugin: %s%s; see tenon check plugin --help\n", words, what);
  return TNI_EXIT_USAGE;
}

/* -1 to go on, else the exit status. */
static int parse(int argc, char **argv, settings *s) {
  static const struct option options[] = {
      {"only", required_argument, NULL, 'o'}, {"list", no_argument, NULL, 'l'},
      {"all", no_argument, NULL, 'a'},        {"expected", required_argument, NULL, 'e'},
      {"json", required_argument, NULL, 'j'}, {"junit", required_argument, NULL, 'u'},
      {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0}};
  opterr = 0;
  for (int c; (c = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
    switch (c) {
      case 'o': s->only = optarg; break;
      case 'l': s->list = true; break;
      case 'a': s->all = true; break;
      case 'e': s->expected = optarg; break;
      case 'j': s->json = optarg; break;
      case 'u': s->junit = optarg; break;
      case 'h': s->help = true; break;
      case ':': return wrong("a value is missing after ", argv[optind - 1]);
      default: return wrong("unknown option ", argv[optind - 1]);
    }
  }
  if (s->help) return help(), TNI_EXIT_OK;
  if (optind < argc) s->file = argv[optind++];
  if (optind < argc) return wrong("one argument too many: ", argv[optind]);
  if (!s->file && !s->list) return wrong("FILE.so was expected", "");
  return -1;
}

/* ------------------------------------------------------------------ which checks */

static bool matches_one(const char *list, const char *name) {
  while (*list) {
    size_t n = strcspn(list, ",");
    char *pattern = tni_check_text("%.*s", (int)n, list);
    bool match = fnmatch(pattern, name, 0) == 0;
    free(pattern);
    if (match) return true;
    list += n + (list[n] == ',');
  }
  return false;
}

static bool is_chosen(const settings *s, const tni_check_context *c, const tni_check *check) {
  if (s->only && !matches_one(s->only, check->name)) return false;
  return !c || check->kinds == 0 || (check->kinds & c->kinds);
}

static int list_checks(const settings *s, const tni_check_context *c) {
  for (size_t i = 0; tni_checks[i]; i++)
    if (is_chosen(s, c, tni_checks[i])) printf("%-16s %s\n", tni_checks[i]->name, tni_checks[i]->about);
  return TNI_EXIT_OK;
}

/* ------------------------------------------------------------------ running */

static void on_signal(int number) {
  (void)number;
  tni_process_interrupt();
}

static void record(void *ctx, char kind, const char *item, const char *words) {
  tni_outcome_kind what = kind == 'P'   ? TNI_OUTCOME_PASSED
                          : kind == 'F' ? TNI_OUTCOME_FAILED
                          : kind == 'S' ? TNI_OUTCOME_SKIPPED
                                        : TNI_OUTCOME_NOTE;
  tni_outcome_add(ctx, what, item, words);
}

/* What the end of the process says beyond what the check said. */
static void judge_end(tni_result *result, bool started, const tni_check_end *end, const char *at) {
  if (!started || !end->finished)
    tni_outcome_add(result, TNI_OUTCOME_FAILED, at ? at : "process", end->words);
  else if (end->exit_status != 0)
    tni_outcome_add(result, TNI_OUTCOME_FAILED, "process end", end->words);
}

static void run_one(const tni_check_context *c, const tni_check *check, tni_result *result) {
  *result = (tni_result){.check = check};
  double start = tni_check_seconds();
  const tni_process process = {
      c, check, NULL, NULL, check->timeout_s ? check->timeout_s : DEFAULT_TIMEOUT_S, record, result};
  tni_check_end end;
  char *at;
  bool started = tni_process_run(&process, &end, &at);
  if (!tni_process_interrupted()) judge_end(result, started, &end, at);
  free(at);
  result->seconds = tni_check_seconds() - start;
}

static void run_all(const settings *s, const tni_expected *expected, tni_run *run) {
  double start = tni_check_seconds();
  for (size_t i = 0; tni_checks[i] && !tni_process_interrupted(); i++) {
    if (!is_chosen(s, run->context, tni_checks[i])) continue;
    tni_check_grow(&run->results, run->n_results, sizeof *run->results);
    tni_result *result = &run->results[run->n_results++];
    run_one(run->context, tni_checks[i], result);
    if (tni_process_interrupted()) return;
    tni_expected_mark(expected, result);
    tni_report_check(result, s->all);
  }
  if (tni_expected_drift(expected, run)) tni_report_check(&run->results[run->n_results - 1], s->all);
  run->seconds = tni_check_seconds() - start;
}

/* ------------------------------------------------------------------ the whole */

static int complain(char *words) {
  fprintf(stderr, "tenon check plugin: %s\n", words);
  free(words);
  return TNI_EXIT_USAGE;
}

static int write_reports(const settings *s, const tni_run *run) {
  char *words = s->json ? tni_report_json(run, s->json) : NULL;
  if (words) return complain(words);
  words = s->junit ? tni_report_junit(run, s->junit) : NULL;
  return words ? complain(words) : -1;
}

static int check_file(const settings *s, const tni_check_context *c, const tni_expected *expected) {
  tni_run run = {.context = c};
  tni_report_head(c);
  run_all(s, expected, &run);
  if (tni_process_interrupted()) return tni_run_free(&run), TNI_EXIT_INTERRUPTED;
  tni_report_summary(&run, expected->path);
  int status = write_reports(s, &run);
  if (status < 0 && run.n_results == 0) status = wrong("no check has the name ", s->only ? s->only : "");
  if (status < 0) status = tni_run_counts(&run).failed ? TNI_EXIT_FINDINGS : TNI_EXIT_OK;
  tni_run_free(&run);
  return fflush(stdout) || ferror(stdout) ? TNI_EXIT_USAGE : status;
}

static int check_plugin(int argc, char **argv) {
  settings s = {0};
  int status = parse(argc, argv, &s);
  if (status >= 0) return status;
  if (!s.file) return list_checks(&s, NULL);
  tni_check_context c = {0};
  tni_expected expected = {0};
  char *words = tni_place_make(s.file, &c), *found = NULL;
  if (!words && !s.expected) found = tni_expected_find(&c);
  if (!words && (s.expected || found)) words = tni_expected_read(s.expected ? s.expected : found, &expected);
  free(found);
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  status = words ? complain(words) : s.list ? list_checks(&s, &c) : check_file(&s, &c, &expected);
  tni_place_remove(&c);
  tni_expected_free(&expected);
  return status;
}

const tni_check_mode tni_check_mode_plugin = {"plugin", "FILE.so", "a backend, layer or operator plugin",
                                              check_plugin};

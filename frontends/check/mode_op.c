/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon check op NAME`: opcheck of one operator, in a process of its own like every check.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontends/check/modes.h"
#include "frontends/check/place.h"
#include "frontends/check/process.h"
#include "frontends/check/report.h"
#include "frontends/check/tools.h"

extern const tni_check tni_check_ops_opcheck;

typedef struct settings {
  const char *op, *device, *plugin;
  bool all, help;
} settings;

static void help(void) {
  fputs("usage: tenon check op NAME [options]\n\n"
        "Holds an operator to what it declares: written arguments, shared memory, meta, forms, gradients. NAME as in\n"
        "`tenon ops`: mul.Tensor, acme::twice. Samples come with the operator; without any, arguments are made up.\n\n"
        "options:\n"
        "  --device D     where it runs; default: cpu\n"
        "  --plugin FILE  a plugin that is not installed: it alone is looked for the operator and the device, beside the\n"
        "                 plugins of Tenon\n"
        "  --all          name what passed and what was skipped, too\n"
        "  --help         this text\n\n"
        "Exit status 0: nothing found, 1: findings, 2: wrong usage.\n",
        stdout);
}

static int wrong(const char *words, const char *what) {
  fprintf(stderr, "tenon check op: %s%s; see tenon check op --help\n", words, what);
  return TNI_EXIT_USAGE;
}

/* -1 to go on, else the exit status. */
static int parse(int argc, char **argv, settings *s) {
  static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                          {"plugin", required_argument, NULL, 'p'},
                                          {"all", no_argument, NULL, 'a'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  opterr = 0;
  for (int c; (c = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
    switch (c) {
      case 'd': s->device = optarg; break;
      case 'p': s->plugin = optarg; break;
      case 'a': s->all = true; break;
      case 'h': s->help = true; break;
      case ':': return wrong("a value is missing after ", argv[optind - 1]);
      default: return wrong("unknown option ", argv[optind - 1]);
    }
  }
  if (s->help) return help(), TNI_EXIT_OK;
  if (optind < argc) s->op = argv[optind++];
  if (optind < argc) return wrong("one argument too many: ", argv[optind]);
  return s->op ? -1 : wrong("NAME was expected", "");
}

static void record(void *ctx, char kind, const char *item, const char *words) {
  tni_outcome_kind what = kind == 'P'   ? TNI_OUTCOME_PASSED
                          : kind == 'F' ? TNI_OUTCOME_FAILED
                          : kind == 'S' ? TNI_OUTCOME_SKIPPED
                                        : TNI_OUTCOME_NOTE;
  tni_outcome_add(ctx, what, item, words);
}

static void on_signal(int number) {
  (void)number;
  tni_process_interrupt();
}

static int check_in_process(const settings *s, const tni_check_context *c) {
  tni_run run = {.context = c};
  tni_check_grow(&run.results, 0, sizeof *run.results);
  run.n_results = 1;
  tni_result *result = run.results;
  *result = (tni_result){.check = &tni_check_ops_opcheck};
  char *stage = tni_check_text("%s@%s", s->op, s->device), *at = NULL;
  const tni_process process = {c, &tni_check_ops_opcheck, stage, NULL, 120, record, result};
  tni_check_end end;
  double start = tni_check_seconds();
  bool started = tni_process_run(&process, &end, &at);
  result->seconds = tni_check_seconds() - start;
  if (!started || !end.finished) tni_outcome_add(result, TNI_OUTCOME_FAILED, at ? at : s->op, end.words);
  tni_report_check(result, s->all);
  tni_counts counts = tni_run_counts(&run);
  printf("%s on %s: %zu passed, %zu failed, %zu skipped\n", s->op, s->device, counts.passed, counts.failed, counts.skipped);
  free(at);
  free(stage);
  tni_run_free(&run);
  if (tni_process_interrupted()) return TNI_EXIT_INTERRUPTED;
  return counts.failed ? TNI_EXIT_FINDINGS : TNI_EXIT_OK;
}

static int check_op(int argc, char **argv) {
  settings s = {.device = "cpu"};
  int status = parse(argc, argv, &s);
  if (status >= 0) return status;
  tni_check_context c = {.file = "", .plugin = "", .folder = "", .self = tni_check_self()};
  char *words = s.plugin ? tni_place_make(s.plugin, &c) : NULL;
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  if (words) {
    status = wrong(words, "");
    free(words);
  } else {
    status = check_in_process(&s, &c);
  }
  if (s.plugin) tni_place_remove(&c);
  return fflush(stdout) || ferror(stdout) ? TNI_EXIT_USAGE : status;
}

const tni_check_mode tni_check_mode_op = {"op", "NAME", "an operator, of Tenon or of a plugin", check_op};

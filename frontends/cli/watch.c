/* SPDX-License-Identifier: Apache-2.0
 *
 * `--trace FILE` and `--profile`: what a command did, written down while it runs.
 */
#include "frontends/cli/cli.h"
#include <tenon/trace.h>

int tni_watch_begin(tni_watch *w) {
  if (w->trace_path && tn_trace_open(w->trace_path, &w->trace) != TN_OK) return tni_cli_failed();
  if (!w->table || tn_profile_begin(&w->profile) == TN_OK) return TNI_EXIT_OK;
  int result = tni_cli_failed();
  tn_trace_close(w->trace);
  return result;
}

/* The words of a failure that is on its way stay the first on stderr: they have been printed already. */
int tni_watch_end(tni_watch *w, int result, FILE *file) {
  bool good = true;
  if (w->profile) {
    good = tn_profile_end(w->profile) == TN_OK;
    if (!good) tni_cli_failed();
    if (tn_profile_print(w->profile, file) != TN_OK) good = tni_cli_failed() == TNI_EXIT_OK;
  }
  tn_profile_free(w->profile);
  if (tn_trace_close(w->trace) != TN_OK) good = tni_cli_failed() == TNI_EXIT_OK;
  *w = (tni_watch){0};
  return result == TNI_EXIT_OK && !good ? TNI_EXIT_FAILED : result;
}

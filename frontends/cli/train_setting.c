/* SPDX-License-Identifier: Apache-2.0
 *
 * What `train` and `eval` have in common around the work itself: signals, the choice of a device, words. A device
 * that was named alone is never replaced; of a list the first usable one is taken.
 */
#include "frontends/cli/cli.h"
#include "frontends/cli/train.h"

/* ------------------------------------------------------------------ signals */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) { interrupted = 1; }

void tni_signals_catch(void) {
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  signal(SIGXFSZ, SIG_IGN);
}

tn_status tni_interrupt_check(void) {
  return interrupted ? tn_fail(TN_ERR_INTERRUPTED, "interrupted") : TN_OK;
}

/* ------------------------------------------------------------------ device */

/* Names are separated by commas. list is written to. */
static int choose(char *list, tn_device *out_device) {
  bool alone = !strchr(list, ',');
  char *rest = NULL;
  for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
    if (tn_device_open(name, out_device) == TN_OK) return TNI_EXIT_OK;
    if (alone) return tni_cli_failed();
    fprintf(stderr, "tenon: device %s is not used: %s\n", name, tn_error_message());
  }
  fprintf(stderr, "tenon: none of the named devices is usable\n");
  return TNI_EXIT_FAILED;
}

static int choose_device(const char *names, tn_device *out_device) {
  char *list = strdup(names);
  if (!list) {
    fprintf(stderr, "tenon: out of memory: the names of devices\n");
    return TNI_EXIT_FAILED;
  }
  int result = choose(list, out_device);
  free(list);
  return result;
}

int tni_setting_apply(const char *devices, int64_t threads, double memory_mib, tn_device *out_device) {
  if (tn_init() != TN_OK) return tni_cli_failed();
  if (threads && tn_set_num_threads((int32_t)threads) != TN_OK) return tni_cli_failed();
  int result = choose_device(devices, out_device);
  if (result != TNI_EXIT_OK || memory_mib <= 0.0) return result;
  uint64_t bytes = (uint64_t)(memory_mib * 0x1p20);
  return tn_memory_set_limit(*out_device, bytes ? bytes : 1) == TN_OK ? TNI_EXIT_OK : tni_cli_failed();
}

int tni_setting_layers(const char *names) {
  return !names || tn_layers_set_on(names) == TN_OK ? TNI_EXIT_OK : tni_cli_failed();
}

void tni_device_plugin(const char *device, const char **out_name, const char **out_version) {
  tn_device_report d;
  tn_plugin_report p;
  *out_name = *out_version = "";
  for (size_t i = 0; i < tn_device_count(); i++)
    if (tn_device_get(i, &d) == TN_OK && !strcmp(d.name, device) && d.plugin) *out_name = d.plugin;
  for (size_t i = 0; i < tn_plugin_count(); i++)
    if (tn_plugin_get(i, &p) == TN_OK && !strcmp(p.name, *out_name) && p.state == TN_PLUGIN_READY &&
        p.version)
      *out_version = p.version;
}

/* ------------------------------------------------------------------ words */

void tni_print_device(tn_device device) {
  char name[64];
  const char *plugin, *version;
  tn_device_name(device, name, sizeof name);
  tni_device_plugin(name, &plugin, &version);
  printf("device %s, served by plugin %s%s%s, %d threads\n", name, plugin, *version ? " " : "", version,
         tn_num_threads());
}

int tni_cli_wrong(const char *command, const char *words) {
  fprintf(stderr, "tenon %s: %s; see tenon %s --help\n", command, words, command);
  return TNI_EXIT_USAGE;
}

int tni_cli_unknown(const char *command, const char *what, const char *given, const char *known) {
  fprintf(stderr, "tenon %s: unknown %s '%s'; %s is known\n", command, what, given, known);
  return TNI_EXIT_USAGE;
}

int tni_run_failed(tn_status status) {
  if (status != TN_ERR_INTERRUPTED || !interrupted) return tni_cli_failed();
  fflush(stdout);
  fprintf(stderr, "tenon: interrupted\n");
  return TNI_EXIT_INTERRUPTED;
}

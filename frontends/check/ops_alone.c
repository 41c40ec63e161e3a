/* SPDX-License-Identifier: Apache-2.0
 *
 * Providers of somebody else's device are tried alone. Beside them other providers of that device may be installed, and
 * one of a higher priority would be tried in their stead. So the check runs once more, in a process in which all of them
 * are switched off but the plugin under test and the one that owns the device.
 */
#include <stdlib.h>

#include "frontends/check/ops.h"
#include "frontends/check/tools.h"

#define ALONE "alone"
enum { TIMEOUT_S = 110 };

static bool serves_others(const tni_check_context *c) {
  for (size_t k = 0; k < c->n_kernels; k++) {
    bool own = false;
    for (size_t i = 0; i < c->n_devices; i++) own |= !strcmp(c->kernels[k].key, c->devices[i]);
    for (size_t i = 0; i < c->n_layers; i++) own |= !strcmp(c->kernels[k].key, c->layers[i].name);
    if (!own) return true;
  }
  return false;
}

static bool owns_a_device(const char *plugin) {
  for (size_t i = 0, n = tn_device_count(); i < n; i++) {
    tn_device_report device;
    if (tn_device_get(i, &device) == TN_OK && device.plugin && !strcmp(device.plugin, plugin)) return true;
  }
  return false;
}

/* "NAME:off,NAME:off", or NULL if nobody is to go (owned). */
static char *others_off(const tni_check_context *c) {
  char *list = NULL;
  for (size_t i = 0, n = tn_plugin_count(); i < n; i++) {
    tn_plugin_report plugin;
    if (tn_plugin_get(i, &plugin) != TN_OK || plugin.state == TN_PLUGIN_REJECTED) continue;
    if (!strcmp(plugin.name, c->plugin) || owns_a_device(plugin.name)) continue;
    char *longer = tni_check_text("%s%s%s:off", list ? list : "", list ? "," : "", plugin.name);
    free(list);
    list = longer;
  }
  return list;
}

bool tni_ops_run_alone(tni_check_report *r, const tni_check_context *c) {
  if (c->stage || !serves_others(c)) return false;
  char *list = others_off(c);
  if (!list) return false;
  char *setting = tni_check_text("TENON_PROVIDERS=%s", list);
  const char *const settings[] = {setting, NULL};
  tni_check_end end;
  if (tni_check_stage(r, c, ALONE, settings, TIMEOUT_S, &end) && !end.finished)
    tni_check_fail(r, "process", "with %s it %s", setting, end.words);
  free(setting);
  free(list);
  return true;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * load.idle: a process that does not ask for the plugin pays its manifest and nothing else.
 * load.open: asked for, it is ready, quickly, and its devices can be named.
 */
#include "frontends/check/host.h"
#include "frontends/check/tools.h"

enum { OPEN_S = 5 };

/* ------------------------------------------------------------------ load.idle */

static void run_idle(tni_check_report *r, const tni_check_context *c) {
  tn_plugin_report report;
  double start = tni_check_seconds();
  if (!tni_host_find(r, c, &report)) return;
  tni_check_note(r, "start", "%.2f ms to read all manifests", 1e3 * (tni_check_seconds() - start));
  for (size_t i = 0; i < tn_device_count(); i++) {
    tn_device_report device;
    (void)tn_device_get(i, &device);
  }
  for (size_t i = 0; i < tn_op_count(); i++) {
    tn_op_report op;
    (void)tn_op_get(i, &op);
  }
  (void)tn_plugin_get(0, &report);
  if (!tni_host_find(r, c, &report)) return;
  bool idle = report.state == TN_PLUGIN_LOADABLE || report.state == TN_PLUGIN_NO_HARDWARE;
  tni_check_that(r, idle, "state", "after start the plugin is %s: %s", tn_plugin_state_name(report.state),
                 report.reason);
  tni_check_that(r, !tni_host_is_mapped(c), "not opened",
                 "the file was opened as code, and nobody had asked for it");
}

const tni_check tni_check_load_idle = {
    .name = "load.idle", .about = "start reads the manifest and runs nothing of the plugin", .run = run_idle};

/* ------------------------------------------------------------------ load.open */

static void check_devices(tni_check_report *r, const tni_check_context *c) {
  for (size_t i = 0; i < c->n_devices; i++) {
    tn_device device;
    if (!tni_check_device(r, c->devices[i], &device)) continue;
    char name[80];
    size_t n = strlen(c->devices[i]); /* "acme", or "acme:0" where there are several */
    tn_device_name(device, name, sizeof name);
    tni_check_that(r, !strncmp(name, c->devices[i], n) && (!name[n] || name[n] == ':'), c->devices[i],
                   "the device opens under the name %s", name);
    tn_status status = tn_device_synchronize(device);
    if (tni_check_ok(r, status, "synchronize", "waiting for an idle device failed"))
      tni_check_pass(r, "synchronize");
  }
}

static void run_open(tni_check_report *r, const tni_check_context *c) {
  tn_plugin_report report;
  if (!tni_host_find(r, c, &report)) return;
  tni_check_at(r, "open");
  double start = tni_check_seconds();
  tn_status status = tni_host_open(c);
  double seconds = tni_check_seconds() - start;
  if (!tni_host_find(r, c, &report)) return;
  if (report.state == TN_PLUGIN_NO_HARDWARE)
    return tni_check_skip(r, "open", "no hardware here: %s", report.reason);
  if (c->n_layers && report.state == TN_PLUGIN_LOADABLE && !c->n_devices && !c->n_operators)
    return tni_check_skip(r, "open", "a layer that nobody switched on is not opened");
  tni_check_that(r, report.state == TN_PLUGIN_READY, "ready", "asked for, the plugin is %s: %s",
                 tn_plugin_state_name(report.state), report.reason);
  tni_check_that(r, status == TN_OK || report.state != TN_PLUGIN_READY, "open", "%s", tn_error_message());
  tni_check_that(r, seconds < tni_check_patience(OPEN_S), "in time", "opening took %.1f s; at most %d s",
                 seconds, OPEN_S);
  if (*report.reason) tni_check_note(r, "ready", "%s", report.reason);
  if (report.state == TN_PLUGIN_READY) check_devices(r, c);
}

const tni_check tni_check_load_open = {.name = "load.open",
                                       .about =
                                           "asked for, the plugin is ready within 5 s and its devices open",
                                       .run = run_open};

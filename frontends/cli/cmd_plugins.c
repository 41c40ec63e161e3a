/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon plugins`: every file that looks like a plugin, its state and the reason, as a table or as JSON; with
 * --verbose also what is known of its probe, its fingerprint and its interfaces. --clear forgets what probes have
 * said. No plugin's code runs.
 */
#include <inttypes.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/json.h"

static const char *dash(const char *text) { return text && *text ? text : "-"; }

/* ------------------------------------------------------------------ JSON */

static tn_status interfaces_json(tni_json *json, size_t i, size_t n) {
  tni_json_open(json, "interfaces", '[');
  for (size_t k = 0; k < n; k++) {
    const char *name;
    uint32_t version;
    TN_TRY(tn_plugin_get_interface(i, k, &name, &version));
    tni_json_open(json, NULL, '{');
    tni_json_string(json, "name", name);
    tni_json_uint(json, "version", version);
    tni_json_close(json, '}');
  }
  tni_json_close(json, ']');
  return TN_OK;
}

static void probe_json(tni_json *json, const tn_plugin_details *d) {
  if (!d->probe) {
    tni_json_null(json, "probe");
    return;
  }
  tni_json_open(json, "probe", '{');
  tni_json_string(json, "verdict", d->probe);
  tni_json_string(json, "words", d->probe_words);
  tni_json_string(json, "devices", d->probe_devices);
  tni_json_uint(json, "age_seconds", d->probe_age_seconds > 0 ? (uint64_t)d->probe_age_seconds : 0);
  tni_json_uint(json, "took_ms", d->probe_ms);
  tni_json_close(json, '}');
}

static tn_status plugin_json(size_t i, const tn_plugin_report *r, const tn_plugin_details *d) {
  tni_json json = {.file = stdout};
  tni_json_open(&json, NULL, '{');
  tni_json_string(&json, "name", r->name);
  tni_json_string(&json, "version", r->version);
  tni_json_string(&json, "path", r->path);
  tni_json_string(&json, "state", tn_plugin_state_name(r->state));
  tni_json_string(&json, "reason", r->reason);
  tni_json_string(&json, "license", d->license);
  tni_json_string(&json, "sha256", d->sha256);
  tni_json_string(&json, "pinned_sha256", d->pinned_sha256);
  tni_json_bool(&json, "trusted", d->trusted);
  probe_json(&json, d);
  tn_status status = interfaces_json(&json, i, d->n_interfaces);
  tni_json_close(&json, '}');
  return status;
}

/* ------------------------------------------------------------------ the table */

static void plugin_row(const tn_plugin_report *r) {
  printf("%-20s %-8s %-11s %s\n", r->name, dash(r->version), tn_plugin_state_name(r->state), r->path);
  if (*r->reason) printf("%20s %s\n", "", r->reason);
}

static tn_status plugin_details(size_t i, const tn_plugin_details *d) {
  printf("%20s license %s, sha256 %s%s\n", "", dash(d->license), dash(d->sha256), d->pinned_sha256 ? ", pinned" : "");
  if (d->probe)
    printf("%20s probed %" PRId64 " s ago in %u ms: %s%s%s\n", "", d->probe_age_seconds, d->probe_ms, d->probe,
           *d->probe_devices ? ", devices " : "", d->probe_devices);
  else
    printf("%20s %s\n", "", d->trusted ? "trusted: opened without a probe" : "not probed yet");
  for (size_t k = 0; k < d->n_interfaces; k++) {
    const char *name;
    uint32_t version;
    TN_TRY(tn_plugin_get_interface(i, k, &name, &version));
    printf("%20s interface %s %u\n", "", name, version);
  }
  return TN_OK;
}

static tn_status list(bool json, bool verbose) {
  if (!json) printf("%-20s %-8s %-11s %s\n", "PLUGIN", "VERSION", "STATE", "FILE");
  for (size_t i = 0; i < tn_plugin_count(); i++) {
    tn_plugin_report r;
    tn_plugin_details d;
    TN_TRY(tn_plugin_get(i, &r));
    if (json || verbose) TN_TRY(tn_plugin_get_details(i, &d));
    if (json) {
      TN_TRY(plugin_json(i, &r, &d));
      continue;
    }
    plugin_row(&r);
    if (verbose) TN_TRY(plugin_details(i, &d));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ the command */

static int clear(const char *name) {
  size_t n;
  if (tn_plugins_clear(name, &n) != TN_OK) return tni_cli_failed();
  printf("%zu %s forgotten\n", n, n == 1 ? "probe is" : "probes are");
  return TNI_EXIT_OK;
}

static int run_plugins(int argc, char **argv) {
  bool json = false, verbose = false, forget = false;
  const char *name = NULL;
  const tni_option options[] = {
      {"--json", TNI_OPTION_FLAG, &json, NULL, "one JSON object a line, with all that is known", 0, 0},
      {"--verbose", TNI_OPTION_FLAG, &verbose, NULL, "also licence, SHA-256, probe and interfaces", 0, 0},
      {"--clear", TNI_OPTION_FLAG, &forget, NULL, "forget what probes have said, of NAME or of all", 0, 0},
      {0}};
  int result = tni_args_parse(&tni_cmd_plugins, options, argc, argv, &name);
  if (result >= 0) return result;
  if (name && !forget) {
    fprintf(stderr, "tenon: plugins: a NAME is for --clear; see tenon plugins --help\n");
    return TNI_EXIT_USAGE;
  }
  if (tn_init() != TN_OK) return tni_cli_failed();
  if (forget) return clear(name);
  return list(json, verbose) == TN_OK ? TNI_EXIT_OK : tni_cli_failed();
}

const tni_command tni_cmd_plugins = {
    "plugins",
    "[NAME]",
    0,
    1,
    "Lists every plugin file found, its state, and the reason for it.\n"
    "Reads manifests; runs no plugin's code. A file that a probe found to end or block the process is quarantined\n"
    "until it changes, or until --clear.",
    run_plugins};

/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon layers`: the layers of all plugins in the order in which a call meets them, and what decided it. Opens
 * nothing, except the layers that TENON_LAYERS switches on.
 */
#include "frontends/cli/cli.h"
#include "frontends/cli/json.h"

static void layer_json(const tn_layer_report *r) {
  tni_json json = {.file = stdout};
  tni_json_open(&json, NULL, '{');
  tni_json_string(&json, "name", r->name);
  tni_json_string(&json, "plugin", r->plugin);
  if (r->bit >= 0)
    tni_json_int(&json, "bit", r->bit);
  else
    tni_json_null(&json, "bit");
  tni_json_string(&json, "class", r->class_name);
  tni_json_string(&json, "above", r->above);
  tni_json_string(&json, "below", r->below);
  tni_json_bool(&json, "on", r->on);
  tni_json_string(&json, "state", tn_plugin_state_name(r->state));
  tni_json_string(&json, "reason", r->reason);
  tni_json_string(&json, "why", r->why);
  tni_json_close(&json, '}');
}

static void layer_row(const tn_layer_report *r) {
  char bit[16] = "-";
  if (r->bit >= 0) snprintf(bit, sizeof bit, "%d", r->bit);
  printf("%-4s %-16s %-16s %-7s %-11s %-3s %s\n", bit, r->name, r->plugin ? r->plugin : "-",
         r->class_name ? r->class_name : "-", r->plugin ? tn_plugin_state_name(r->state) : "core",
         r->on ? "on" : r->plugin ? "off" : "-", *r->why ? r->why : r->reason);
  if (*r->why && *r->reason) printf("%21s %s\n", "", r->reason);
  if (*r->above) printf("%21s above %s\n", "", r->above);
  if (*r->below) printf("%21s below %s\n", "", r->below);
}

static int run_layers(int argc, char **argv) {
  bool json = false;
  const tni_option options[] = {{"--json", TNI_OPTION_FLAG, &json, NULL, "one JSON object a line", 0, 0}, {0}};
  int result = tni_args_parse(&tni_cmd_layers, options, argc, argv, NULL);
  if (result >= 0) return result;
  if (tn_init() != TN_OK) return tni_cli_failed();
  if (!json) printf("%-4s %-16s %-16s %-7s %-11s %-3s %s\n", "BIT", "LAYER", "PLUGIN", "CLASS", "STATE", "", "WHY HERE");
  for (size_t i = 0; i < tn_layer_count(); i++) {
    tn_layer_report r;
    if (tn_layer_get(i, &r) != TN_OK) return tni_cli_failed();
    (json ? layer_json : layer_row)(&r);
  }
  return TNI_EXIT_OK;
}

const tni_command tni_cmd_layers = {
    "layers",
    "",
    0,
    0,
    "Lists layers from the first that a call meets to the last, and why each stands there.\n"
    "What a manifest demands is printed below its layer. `on`: switched on by TENON_LAYERS.",
    run_layers};

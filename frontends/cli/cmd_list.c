/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon devices`, `tenon ops`: what is there, as a table or as JSON. Only `devices` opens
 * anything: cpu, or every backend with --open. That one cannot be opened is no failure of a listing: its
 * reason is in the list.
 */
#include <inttypes.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/json.h"

static const char *dash(const char *text) { return text && *text ? text : "-"; }

/* ------------------------------------------------------------------ devices */

static void device_json(const tn_device_report *r) {
  tni_json json = {.file = stdout};
  tni_json_open(&json, NULL, '{');
  tni_json_string(&json, "name", r->name);
  tni_json_string(&json, "plugin", r->plugin);
  tni_json_string(&json, "state", tn_plugin_state_name(r->state));
  tni_json_string(&json, "reason", r->reason);
  tni_json_string(&json, "description", r->description);
  if (r->has_memory) {
    tni_json_open(&json, "memory", '{');
    tni_json_uint(&json, "total", r->memory_total_bytes);
    tni_json_uint(&json, "free", r->memory_free_bytes);
    tni_json_close(&json, '}');
  } else {
    tni_json_null(&json, "memory");
  }
  tni_json_string(&json, "locality", r->locality);
  tni_json_close(&json, '}');
}

static void device_row(const tn_device_report *r) {
  char memory[64] = "-";
  if (r->has_memory)
    snprintf(memory, sizeof memory, "%.1f of %.1f GiB free", (double)r->memory_free_bytes / (1 << 30),
             (double)r->memory_total_bytes / (1 << 30));
  const char *more = *r->reason ? r->reason : r->description;
  printf("%-12s %-11s %-20s %-24s %s\n", r->name, tn_plugin_state_name(r->state), dash(r->plugin), memory,
         dash(more));
}

static void print_words(void *as_json, const char *words) {
  if (!*(const bool *)as_json) {
    printf("%s\n", words);
    return;
  }
  tni_json json = {.file = stdout};
  tni_json_open(&json, NULL, '{');
  tni_json_string(&json, "threads", words);
  tni_json_close(&json, '}');
}

static int run_devices(int argc, char **argv) {
  bool json = false, open_all = false, verbose = false;
  const tni_option options[] = {
      {"--open", TNI_OPTION_FLAG, &open_all, NULL, "open every backend, not only cpu", 0, 0},
      {"--verbose", TNI_OPTION_FLAG, &verbose, NULL, "also on what the CPU's threads run", 0, 0},
      {"--json", TNI_OPTION_FLAG, &json, NULL, "one JSON object a line", 0, 0},
      {0}};
  int result = tni_args_parse(&tni_cmd_devices, options, argc, argv, NULL);
  if (result >= 0) return result;
  tn_device cpu;
  if (tn_init() != TN_OK) return tni_cli_failed();
  if (open_all) tn_devices_open_all();
  (void)tn_device_open("cpu", &cpu); /* a failure's reason is in the report */
  if (!json) printf("%-12s %-11s %-20s %-24s %s\n", "DEVICE", "STATE", "PLUGIN", "MEMORY", "");
  for (size_t i = 0; i < tn_device_count(); i++) {
    tn_device_report r;
    if (tn_device_get(i, &r) != TN_OK) return tni_cli_failed();
    (json ? device_json : device_row)(&r);
  }
  if (verbose && tn_threads_describe(print_words, &json) != TN_OK) return tni_cli_failed();
  return TNI_EXIT_OK;
}

const tni_command tni_cmd_devices = {
    "devices",
    "",
    0,
    0,
    "Lists devices, who offers them, and why one is not usable.\n"
    "Opens cpu only, so that it is quick; the others show what their plugin declares.\n"
    "--verbose: where the number of threads comes from, and what else in the process has threads.",
    run_devices};

/* ------------------------------------------------------------------ ops */

static void op_json(const tn_op_report *r) {
  tni_json json = {.file = stdout};
  tni_json_open(&json, NULL, '{');
  tni_json_string(&json, "name", r->name);
  tni_json_string(&json, "schema", r->schema);
  tni_json_bool(&json, "differentiable", r->differentiable);
  tni_json_open(&json, "providers", '[');
  for (size_t i = 0; i < r->n_providers; i++) tni_json_string(&json, NULL, r->providers[i]);
  tni_json_close(&json, ']');
  tni_json_string(&json, "doc", r->doc);
  tni_json_close(&json, '}');
}

static void op_row(const tn_op_report *r) {
  printf("%s%s\n", r->schema, r->differentiable ? "  [differentiable]" : "");
  if (r->doc && *r->doc) printf("    %s\n", r->doc);
  if (r->n_providers) printf("    kernels:");
  for (size_t i = 0; i < r->n_providers; i++) printf(" %s", r->providers[i]);
  if (r->n_providers) printf("\n");
}

static int run_ops(int argc, char **argv) {
  bool json = false;
  const char *part = NULL;
  const tni_option options[] = {{"--json", TNI_OPTION_FLAG, &json, NULL, "one JSON object a line", 0, 0},
                                {0}};
  int result = tni_args_parse(&tni_cmd_ops, options, argc, argv, &part);
  if (result >= 0) return result;
  if (tn_init() != TN_OK) return tni_cli_failed();
  for (size_t i = 0; i < tn_op_count(); i++) {
    tn_op_report r;
    if (tn_op_get(i, &r) != TN_OK) return tni_cli_failed();
    if (!part || strstr(r.name, part)) (json ? op_json : op_row)(&r);
  }
  return TNI_EXIT_OK;
}

const tni_command tni_cmd_ops = {
    "ops",
    "[PART]",
    0,
    1,
    "Lists operators with their schema and the plugins that have kernels for them.\n"
    "PART: only those whose name contains it.",
    run_ops};

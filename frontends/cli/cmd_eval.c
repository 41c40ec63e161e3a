/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon eval`: how saved weights do on the test set, from a checkpoint or from any safetensors file that holds the
 * parameters of mlp or cnn by name.
 */
#include <inttypes.h>
#include <math.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/json.h"
#include "frontends/cli/train.h"

typedef struct eval {
  tn_device device;
  const char *dataset, *data, *text, *model, *load;
  bool json;
  const tni_model *kind;
  tni_scores scores;
  double bigram_loss, seconds;
  int64_t n_unknown;
  char weights_sha256[65];
} eval;

static tn_status check_data(const eval *e) {
  bool text = tni_model_reads_text(e->kind);
  if (e->dataset && strcmp(e->dataset, e->kind->dataset))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "the model '%s' is tested on %s, not on %s", e->kind->name,
                   e->kind->dataset, e->dataset);
  if (text ? e->data != NULL : e->text != NULL)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "the model '%s' reads %s", e->kind->name,
                   text ? "--text, not --data" : "--data, not --text");
  return TN_OK;
}

/* The model's own text, unless another one is given. */
static tn_status open_task(eval *e, const tni_saved *saved, tni_task *out_task) {
  const char *text = e->text;
  bool reads_text = tni_model_reads_text(e->kind);
  *out_task = (tni_task){0};
  TN_TRY(check_data(e));
  if (reads_text && !text) text = tn_safetensors_note(saved->file, "train.text");
  TN_TRY(tni_task_open(e->kind, &saved->shape, e->data, text, reads_text ? &saved->vocabulary : NULL, false,
                       out_task));
  e->bigram_loss = reads_text ? out_task->text.bigram_loss : NAN;
  e->n_unknown = out_task->text.n_unknown;
  return TN_OK;
}

static tn_status test(eval *e, const tni_saved *saved, const tni_task *task) {
  tn_module *model = NULL;
  double begin = tni_cli_seconds();
  TN_TRY(tni_saved_model(saved, e->load, e->device, &model));
  tn_status status = tni_test_run(e->kind, model, task, e->device, &e->scores);
  e->seconds = tni_cli_seconds() - begin;
  if (status == TN_OK) status = tni_weights_hash(model, e->weights_sha256);
  tn_module_release(model);
  return status;
}

static tn_status run_all(eval *e) {
  tni_saved saved;
  tni_task task;
  TN_TRY(tni_saved_open(e->load, e->model, &saved));
  e->kind = saved.model;
  tn_status status = open_task(e, &saved, &task);
  if (status == TN_OK) status = test(e, &saved, &task);
  tni_task_close(&task);
  tni_saved_close(&saved);
  return status;
}

static void report_json(const eval *e) {
  char device[64];
  const char *plugin, *version;
  tn_device_name(e->device, device, sizeof device);
  tni_device_plugin(device, &plugin, &version);
  tni_json json = {.file = stdout};
  tni_json_open(&json, NULL, '{');
  tni_json_real(&json, "test_accuracy", e->scores.accuracy);
  tni_json_real(&json, "test_loss", e->scores.loss);
  if (tni_model_reads_text(e->kind)) {
    tni_json_real(&json, "bigram_loss", e->bigram_loss);
    tni_json_int(&json, "unknown_characters", e->n_unknown);
  }
  tni_json_real(&json, "seconds", e->seconds);
  tni_json_string(&json, "device", device);
  tni_json_string(&json, "weights_sha256", e->weights_sha256);
  tni_json_string(&json, "plugin", plugin);
  tni_json_string(&json, "plugin_version", version);
  tni_json_string(&json, "model", e->kind->name);
  tni_json_int(&json, "threads", tn_num_threads());
  tni_json_close(&json, '}');
}

static void report(const eval *e) {
  if (e->json) {
    report_json(e);
    return;
  }
  if (tni_model_reads_text(e->kind))
    printf("test loss %.4f nats a character, add-one bigram model %.4f\n", e->scores.loss, e->bigram_loss);
  if (e->n_unknown)
    printf("%" PRId64 " characters that the model does not know counted as U+FFFD\n", e->n_unknown);
  printf("test accuracy %.2f %%\n", 100.0 * e->scores.accuracy);
  tni_print_device(e->device);
}

static int run_watched(eval *e) {
  tn_status status = run_all(e);
  if (status != TN_OK) return tni_run_failed(status);
  report(e);
  return TNI_EXIT_OK;
}

static int run_chosen(eval *e, tni_watch *watch) {
  tni_signals_catch();
  int result = tni_watch_begin(watch);
  if (result != TNI_EXIT_OK) return result;
  return tni_watch_end(watch, run_watched(e), e->json ? stderr : stdout);
}

static int run_eval(int argc, char **argv) {
  eval e = {0};
  tni_watch watch = {0};
  const char *device = "cpu", *plugin_layers = NULL;
  int64_t threads = 0;
  double memory = 0;
  const tni_option options[] = {
      {"--load", TNI_OPTION_STRING, &e.load, "FILE", "a checkpoint, or the parameters by name (safetensors)",
       0, 0},
      {"--model", TNI_OPTION_STRING, &e.model, "NAME", "mlp, cnn, transformer (what the file says, else mlp)",
       0, 0},
      {"--device", TNI_OPTION_STRING, &device, "NAMES",
       "a device, or several by commas: the first usable one (cpu)", 0, 0},
      {"--data", TNI_OPTION_STRING, &e.data, "DIR", "folder with the IDX files (" TN_FASHION_MNIST_FOLDER ")",
       0, 0},
      {"--text", TNI_OPTION_STRING, &e.text, "PATH", "a text, whose last tenth is the test (the model's own)",
       0, 0},
      {"--threads", TNI_OPTION_INT, &threads, "N", "threads (the physical cores)", 1, 1024},
      {"--memory", TNI_OPTION_REAL, &memory, "MIB", "most memory that tensors may take of the device", 1e-6,
       1e12},
      TNI_WATCH_OPTIONS(watch),
      {"--plugin-layers", TNI_OPTION_STRING, &plugin_layers, "NAMES", "layers of plugins to switch on, by commas", 0, 0},
      {"--json", TNI_OPTION_FLAG, &e.json, NULL, "one JSON object", 0, 0},
      {0}};
  int result = tni_args_parse(&tni_cmd_eval, options, argc, argv, &e.dataset);
  if (result >= 0) return result;
  if (e.dataset && strcmp(e.dataset, "fashion-mnist") && strcmp(e.dataset, "text"))
    return tni_cli_unknown("eval", "dataset", e.dataset, "fashion-mnist, text");
  if (e.model && !tni_model_find(e.model))
    return tni_cli_unknown("eval", "model", e.model, tni_model_names());
  if (!e.load) return tni_cli_wrong("eval", "--load FILE was expected");
  result = tni_setting_apply(device, threads, memory, &e.device);
  if (result == TNI_EXIT_OK) result = tni_setting_layers(plugin_layers);
  return result == TNI_EXIT_OK ? run_chosen(&e, &watch) : result;
}

const tni_command tni_cmd_eval = {
    "eval",
    "[DATASET]",
    0,
    1,
    "Prints how saved weights do on the test set.\n"
    "DATASET: fashion-mnist or text; it follows from the model. Characters of a text that the\n"
    "model does not know count as U+FFFD, and their number is printed.",
    run_eval};

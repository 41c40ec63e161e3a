/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon eval`: the accuracy of saved weights, from a checkpoint or from any safetensors file that holds the
 * model's parameters by name.
 */
#include "frontends/cli/cli.h"
#include "frontends/cli/json.h"
#include "frontends/cli/train.h"

typedef struct eval {
  tn_device device;
  const char *data, *model, *load;
  bool json;
  double accuracy, seconds;
  char weights_sha256[65];
} eval;

static tn_status load_weights(const eval *e, tn_module *model) {
  tn_safetensors *file = NULL;
  TN_TRY(tn_safetensors_open(e->load, &file));
  tn_status status = TN_OK;
  const char *saved = tn_safetensors_note(file, "train.model");
  if (saved && strcmp(saved, e->model))
    status = tn_fail(TN_ERR_INVALID_ARGUMENT, "the file holds the model '%.40s', not '%s'", saved, e->model);
  if (status == TN_OK) status = tn_checkpoint_load_model(file, model);
  tn_safetensors_close(file);
  return status == TN_OK ? TN_OK : tn_wrap(status, "%s", e->load);
}

static tn_status test(eval *e, tn_module *model, tn_dataset *set) {
  double begin = tni_cli_seconds();
  TN_TRY(load_weights(e, model));
  TN_TRY(tni_test_run(model, set, e->device, &e->accuracy));
  e->seconds = tni_cli_seconds() - begin;
  return tni_weights_hash(model, e->weights_sha256);
}

static tn_status run_all(eval *e) {
  tn_dataset *set = NULL;
  tn_module *model = NULL;
  TN_TRY(tn_fashion_mnist_new(e->data, false, &set));
  tn_status status = tni_model_make(e->model, 0, e->device, &model);
  if (status == TN_OK) status = test(e, model, set);
  tn_module_release(model);
  tn_dataset_release(set);
  return status;
}

static void report(const eval *e) {
  char device[64];
  const char *plugin, *version;
  tn_device_name(e->device, device, sizeof device);
  tni_device_plugin(device, &plugin, &version);
  if (!e->json) {
    printf("test accuracy %.2f %%\ndevice %s, served by plugin %s%s%s, %d threads\n", 100.0 * e->accuracy,
           device, plugin, *version ? " " : "", version, tn_num_threads());
    return;
  }
  tni_json json = {.file = stdout};
  tni_json_open(&json, NULL, '{');
  tni_json_real(&json, "test_accuracy", e->accuracy);
  tni_json_real(&json, "seconds", e->seconds);
  tni_json_string(&json, "device", device);
  tni_json_string(&json, "weights_sha256", e->weights_sha256);
  tni_json_string(&json, "plugin", plugin);
  tni_json_string(&json, "plugin_version", version);
  tni_json_int(&json, "threads", tn_num_threads());
  tni_json_close(&json, '}');
}

static int run_chosen(eval *e) {
  tni_signals_catch();
  tn_status status = run_all(e);
  if (status != TN_OK) return tni_run_failed(status);
  report(e);
  return TNI_EXIT_OK;
}

static int run_eval(int argc, char **argv) {
  eval e = {.model = "mlp"};
  const char *dataset = NULL, *device = "cpu";
  int64_t threads = 0;
  const tni_option options[] = {
      {"--load", TNI_OPTION_STRING, &e.load, "FILE", "a checkpoint, or the parameters by name (safetensors)",
       0, 0},
      {"--model", TNI_OPTION_STRING, &e.model, "NAME", "mlp", 0, 0},
      {"--device", TNI_OPTION_STRING, &device, "NAMES",
       "a device, or several by commas: the first usable one (cpu)", 0, 0},
      {"--data", TNI_OPTION_STRING, &e.data, "DIR", "folder with the IDX files (" TN_FASHION_MNIST_FOLDER ")",
       0, 0},
      {"--threads", TNI_OPTION_INT, &threads, "N", "threads (the physical cores)", 1, 1024},
      {"--json", TNI_OPTION_FLAG, &e.json, NULL, "one JSON object", 0, 0},
      {0}};
  int result = tni_args_parse(&tni_cmd_eval, options, argc, argv, &dataset);
  if (result >= 0) return result;
  if (strcmp(dataset, TNI_TRAIN_DATASET))
    return tni_cli_unknown("eval", "dataset", dataset, TNI_TRAIN_DATASET);
  if (!tni_model_find(e.model)) return tni_cli_unknown("eval", "model", e.model, "mlp");
  if (!e.load) {
    fprintf(stderr, "tenon eval: --load FILE was expected; see tenon eval --help\n");
    return TNI_EXIT_USAGE;
  }
  if (tn_init() != TN_OK) return tni_cli_failed();
  if (threads && tn_set_num_threads((int32_t)threads) != TN_OK) return tni_cli_failed();
  result = tni_device_choose(device, &e.device);
  return result == TNI_EXIT_OK ? run_chosen(&e) : result;
}

const tni_command tni_cmd_eval = {
    "eval",
    "DATASET",
    1,
    1,
    "Prints the accuracy of saved weights on the test set.\nDATASET: fashion-mnist.",
    run_eval};

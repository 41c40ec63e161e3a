/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon train`: options and the report.
 */
#include <inttypes.h>
#include <unistd.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/json.h"
#include "frontends/cli/train.h"

/* ------------------------------------------------------------------ report */

static void report_json(const tni_train *t, const char *device, const char *plugin, const char *version) {
  tni_json json = {.file = stdout};
  tni_json_open(&json, NULL, '{');
  tni_json_real(&json, "test_accuracy", t->accuracy);
  tni_json_real(&json, "seconds", t->seconds);
  tni_json_string(&json, "device", device);
  tni_json_string(&json, "weights_sha256", t->weights_sha256);
  tni_json_string(&json, "plugin", plugin);
  tni_json_string(&json, "plugin_version", version);
  tni_json_int(&json, "epochs", t->epochs);
  tni_json_int(&json, "seed", t->seed);
  tni_json_int(&json, "threads", tn_num_threads());
  tni_json_close(&json, '}');
}

static void report(const tni_train *t) {
  char device[64];
  const char *plugin, *version;
  tn_device_name(t->device, device, sizeof device);
  tni_device_plugin(device, &plugin, &version);
  if (t->json) {
    report_json(t, device, plugin, version);
    return;
  }
  printf("test accuracy %.2f %%\n", 100.0 * t->accuracy);
  printf("device %s, served by plugin %s%s%s, %d threads\n", device, plugin, *version ? " " : "", version,
         tn_num_threads());
  printf("trained %lld epochs in %.2f s\n", (long long)t->epochs, t->seconds);
}

/* ------------------------------------------------------------------ the command */

static int run_chosen(tni_train *t) {
  tni_signals_catch();
  tn_status status = tni_train_run(t);
  if (status != TN_OK) {
    tni_progress_clear(t);
    return tni_run_failed(status);
  }
  report(t);
  return t->unsaved ? TNI_EXIT_FAILED : TNI_EXIT_OK;
}

static int check_usage(const tni_train *t, const char *dataset) {
  if (strcmp(dataset, TNI_TRAIN_DATASET))
    return tni_cli_unknown("train", "dataset", dataset, TNI_TRAIN_DATASET);
  if (t->model && !tni_model_find(t->model)) return tni_cli_unknown("train", "model", t->model, "mlp");
  if (!t->save_every || t->save) return TNI_EXIT_OK;
  fprintf(stderr, "tenon train: --save-every needs --save FILE; see tenon train --help\n");
  return TNI_EXIT_USAGE;
}

static int run_train(int argc, char **argv) {
  tni_train t = {.seed = -1};
  const char *dataset = NULL, *device = "cpu";
  int64_t threads = 0;
  const tni_option options[] = {
      {"--model", TNI_OPTION_STRING, &t.model, "NAME", "mlp (784-128-10, ReLU, Adam)", 0, 0},
      {"--device", TNI_OPTION_STRING, &device, "NAMES",
       "a device, or several by commas: the first usable one (cpu)", 0, 0},
      {"--epochs", TNI_OPTION_INT, &t.epochs, "N",
       "passes over the training images, resumed ones counted (5)", 1, 1e6},
      {"--batch", TNI_OPTION_INT, &t.batch, "N", "images a step (64)", 1, 1e6},
      {"--lr", TNI_OPTION_REAL, &t.lr, "X", "learning rate (0.001)", 1e-12, 1e6},
      {"--seed", TNI_OPTION_INT, &t.seed, "N", "of weights and shuffling (0)", 0, 9e15},
      {"--data", TNI_OPTION_STRING, &t.data, "DIR", "folder with the IDX files (" TN_FASHION_MNIST_FOLDER ")",
       0, 0},
      {"--save", TNI_OPTION_STRING, &t.save, "FILE", "write a checkpoint (safetensors) at the end", 0, 0},
      {"--save-every", TNI_OPTION_INT, &t.save_every, "N", "and after every N steps", 1, 1e12},
      {"--resume", TNI_OPTION_STRING, &t.resume, "FILE",
       "go on from a checkpoint, with its options and its bits", 0, 0},
      {"--threads", TNI_OPTION_INT, &threads, "N", "threads (the physical cores)", 1, 1024},
      {"--json", TNI_OPTION_FLAG, &t.json, NULL, "one JSON object an epoch, and one at the end", 0, 0},
      {0}};
  int result = tni_args_parse(&tni_cmd_train, options, argc, argv, &dataset);
  if (result >= 0) return result;
  result = check_usage(&t, dataset);
  if (result != TNI_EXIT_OK) return result;
  t.bar = isatty(STDOUT_FILENO);
  if (tn_init() != TN_OK) return tni_cli_failed();
  if (threads && tn_set_num_threads((int32_t)threads) != TN_OK) return tni_cli_failed();
  result = tni_device_choose(device, &t.device);
  return result == TNI_EXIT_OK ? run_chosen(&t) : result;
}

const tni_command tni_cmd_train = {
    "train",
    "DATASET",
    1,
    1,
    "Trains a network and prints its accuracy on the test set.\n"
    "DATASET: fashion-mnist. Same seed and thread count give the same weights, in one run\n"
    "or in several: --save FILE, then --resume FILE.",
    run_train};

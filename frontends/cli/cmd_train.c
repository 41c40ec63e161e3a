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
  tni_json_real(&json, "test_loss", t->loss);
  if (tni_model_reads_text(t->model)) tni_json_real(&json, "bigram_loss", t->bigram_loss);
  tni_json_real(&json, "seconds", t->seconds);
  tni_json_string(&json, "device", device);
  tni_json_string(&json, "weights_sha256", t->weights_sha256);
  tni_json_string(&json, "plugin", plugin);
  tni_json_string(&json, "plugin_version", version);
  tni_json_string(&json, "model", t->model->name);
  tni_json_int(&json, "epochs", t->epochs);
  tni_json_int(&json, "seed", t->seed);
  tni_json_int(&json, "threads", tn_num_threads());
  tni_json_close(&json, '}');
}

static void report(const tni_train *t) {
  char device[64];
  const char *plugin, *version;
  if (t->json) {
    tn_device_name(t->device, device, sizeof device);
    tni_device_plugin(device, &plugin, &version);
    report_json(t, device, plugin, version);
    return;
  }
  if (tni_model_reads_text(t->model))
    printf("test loss %.4f nats a character, add-one bigram model %.4f\n", t->loss, t->bigram_loss);
  printf("test accuracy %.2f %%\n", 100.0 * t->accuracy);
  tni_print_device(t->device);
  printf("trained %lld epochs in %.2f s\n", (long long)t->epochs, t->seconds);
}

/* ------------------------------------------------------------------ the command */

static int run_watched(tni_train *t) {
  tn_status status = tni_train_run(t);
  if (status != TN_OK) {
    tni_progress_clear(t);
    return tni_run_failed(status);
  }
  report(t);
  return t->unsaved ? TNI_EXIT_FAILED : TNI_EXIT_OK;
}

static int run_chosen(tni_train *t, tni_watch *watch) {
  tni_signals_catch();
  int result = tni_watch_begin(watch);
  if (result != TNI_EXIT_OK) return result;
  return tni_watch_end(watch, run_watched(t), t->json ? stderr : stdout);
}

static int check_usage(const tni_train *t) {
  if (t->dataset && strcmp(t->dataset, "fashion-mnist") && strcmp(t->dataset, "text"))
    return tni_cli_unknown("train", "dataset", t->dataset, "fashion-mnist, text");
  if (t->model_name && !tni_model_find(t->model_name))
    return tni_cli_unknown("train", "model", t->model_name, tni_model_names());
  if (t->save_every && !t->save) return tni_cli_wrong("train", "--save-every needs --save FILE");
  return TNI_EXIT_OK;
}

static int run_train(int argc, char **argv) {
  tni_train t = {.seed = -1, .clip = -1, .warmup = -1, .decay = -1, .shape.dropout = -1};
  tni_watch watch = {0};
  const char *device = "cpu", *plugin_layers = NULL;
  int64_t threads = 0;
  double memory = 0;
  const tni_option options[] = {
      {"--model", TNI_OPTION_STRING, &t.model_name, "NAME",
       "mlp (784-128-10), cnn (2 convolutions), transformer (characters) (mlp)", 0, 0},
      {"--device", TNI_OPTION_STRING, &device, "NAMES",
       "a device, or several by commas: the first usable one (cpu)", 0, 0},
      {"--epochs", TNI_OPTION_INT, &t.epochs, "N", "passes over the training data, resumed ones counted (5)",
       1, 1e6},
      {"--batch", TNI_OPTION_INT, &t.batch, "N", "images or windows of text a step (64; transformer 16)", 1,
       1e6},
      {"--lr", TNI_OPTION_REAL, &t.lr, "X", "learning rate (0.001)", 1e-12, 1e6},
      {"--warmup", TNI_OPTION_INT, &t.warmup, "N", "steps over which the rate rises (0; transformer 100)", 0,
       1e12},
      {"--decay", TNI_OPTION_INT, &t.decay, "N",
       "steps behind them over which it falls to a tenth; 0: never (0)", 0, 1e12},
      {"--clip", TNI_OPTION_REAL, &t.clip, "X",
       "most that the gradients' norm may be; 0: any (0; transformer 1)", 0, 1e12},
      {"--seed", TNI_OPTION_INT, &t.seed, "N", "of weights and shuffling (0)", 0, 9e15},
      {"--data", TNI_OPTION_STRING, &t.data, "DIR", "folder with the IDX files (" TN_FASHION_MNIST_FOLDER ")",
       0, 0},
      {"--text", TNI_OPTION_STRING, &t.text, "PATH",
       "UTF-8 text: a file, or the files of a folder (" TNI_TEXT_FOLDER ")", 0, 0},
      {"--context", TNI_OPTION_INT, &t.shape.context, "N", "characters that the transformer sees (64)", 1,
       TNI_MOST_CONTEXT},
      {"--layers", TNI_OPTION_INT, &t.shape.layers, "N", "its layers (4)", 1, TNI_MOST_LAYERS},
      {"--width", TNI_OPTION_INT, &t.shape.width, "N", "its width (128)", 1, TNI_MOST_WIDTH},
      {"--heads", TNI_OPTION_INT, &t.shape.heads, "N", "its heads, which divide the width (4)", 1,
       TNI_MOST_WIDTH},
      {"--dropout", TNI_OPTION_REAL, &t.shape.dropout, "P", "its dropout in training (0)", 0, 1},
      {"--save", TNI_OPTION_STRING, &t.save, "FILE", "write a checkpoint (safetensors) at the end", 0, 0},
      {"--save-every", TNI_OPTION_INT, &t.save_every, "N", "and after every N steps", 1, 1e12},
      {"--resume", TNI_OPTION_STRING, &t.resume, "FILE",
       "go on from a checkpoint, with its options and its bits", 0, 0},
      {"--threads", TNI_OPTION_INT, &threads, "N", "threads (the physical cores)", 1, 1024},
      {"--memory", TNI_OPTION_REAL, &memory, "MIB", "most memory that tensors may take of the device", 1e-6,
       1e12},
      TNI_WATCH_OPTIONS(watch),
      {"--plugin-layers", TNI_OPTION_STRING, &plugin_layers, "NAMES", "layers of plugins to switch on, by commas", 0, 0},
      {"--json", TNI_OPTION_FLAG, &t.json, NULL, "one JSON object an epoch, and one at the end", 0, 0},
      {0}};
  int result = tni_args_parse(&tni_cmd_train, options, argc, argv, &t.dataset);
  if (result >= 0) return result;
  result = check_usage(&t);
  if (result != TNI_EXIT_OK) return result;
  t.bar = isatty(STDOUT_FILENO);
  result = tni_setting_apply(device, threads, memory, &t.device);
  if (result == TNI_EXIT_OK) result = tni_setting_layers(plugin_layers);
  return result == TNI_EXIT_OK ? run_chosen(&t, &watch) : result;
}

const tni_command tni_cmd_train = {
    "train",
    "[DATASET]",
    0,
    1,
    "Trains a network and prints how well it does on the test set.\n"
    "DATASET: fashion-mnist (mlp, cnn) or text (transformer); it follows from the model. Of a\n"
    "text the first 90 % train and the rest tests, beside a bigram model. Same seed and thread\n"
    "count give the same weights, in one run or in several: --save FILE, then --resume FILE.",
    run_train};

/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon train`: options, the choice of a device, and the report. A device that was named alone is never
 * replaced; of a list the first usable one is taken, and a line says why the ones before it were not.
 */
#include <inttypes.h>
#include <unistd.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/json.h"
#include "frontends/cli/train.h"

static void on_interrupt(int number) { tni_train_interrupted = 1; }

/* A second Ctrl-C ends the process the usual way. */
static void catch_interrupt(void) {
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
}

/* ------------------------------------------------------------------ device */

/* Names are separated by commas. list is written to. */
static int choose_device(char *list, tn_device *out_device) {
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

/* The plugin that serves a device, and its version ("" if unknown). */
static void find_plugin(const char *device, const char **out_name, const char **out_version) {
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
  tni_json_uint(&json, "seed", t->seed);
  tni_json_int(&json, "threads", tn_num_threads());
  tni_json_close(&json, '}');
}

static void report(const tni_train *t) {
  char device[64];
  const char *plugin, *version;
  tn_device_name(t->device, device, sizeof device);
  find_plugin(device, &plugin, &version);
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

static int run_chosen(tni_train *t, const char *device_list) {
  char *list = strdup(device_list);
  if (!list) return tni_cli_failed();
  int result = choose_device(list, &t->device);
  free(list);
  if (result != TNI_EXIT_OK) return result;
  catch_interrupt();
  tn_status status = tni_train_run(t);
  if (status != TN_OK) tni_progress_clear(t);
  if (status == TN_ERR_INTERRUPTED && tni_train_interrupted) {
    fflush(stdout);
    fprintf(stderr, "tenon: interrupted\n");
    return TNI_EXIT_INTERRUPTED;
  }
  if (status != TN_OK) return tni_cli_failed();
  report(t);
  return TNI_EXIT_OK;
}

static int unknown(const char *what, const char *given, const char *known) {
  fprintf(stderr, "tenon train: unknown %s '%s'; %s is known\n", what, given, known);
  return TNI_EXIT_USAGE;
}

static int run_train(int argc, char **argv) {
  tni_train t = {.epochs = 5, .batch = 64, .lr = 1e-3};
  const char *dataset = NULL, *model = "mlp", *device = "cpu";
  int64_t threads = 0, seed = 0;
  const tni_option options[] = {
      {"--model", TNI_OPTION_STRING, &model, "NAME", "mlp (784-128-10, ReLU, Adam)", 0, 0},
      {"--device", TNI_OPTION_STRING, &device, "NAMES",
       "a device, or several by commas: the first usable one (cpu)", 0, 0},
      {"--epochs", TNI_OPTION_INT, &t.epochs, "N", "passes over the training images (5)", 1, 1e6},
      {"--batch", TNI_OPTION_INT, &t.batch, "N", "images a step (64)", 1, 1e6},
      {"--lr", TNI_OPTION_REAL, &t.lr, "X", "learning rate (0.001)", 1e-12, 1e6},
      {"--seed", TNI_OPTION_INT, &seed, "N", "of weights and shuffling (0)", 0, 9e15},
      {"--data", TNI_OPTION_STRING, &t.data, "DIR", "folder with the IDX files (" TN_FASHION_MNIST_FOLDER ")",
       0, 0},
      {"--threads", TNI_OPTION_INT, &threads, "N", "threads (the physical cores)", 1, 1024},
      {"--json", TNI_OPTION_FLAG, &t.json, NULL, "one JSON object an epoch, and one at the end", 0, 0},
      {0}};
  int result = tni_args_parse(&tni_cmd_train, options, argc, argv, &dataset);
  if (result >= 0) return result;
  if (strcmp(dataset, "fashion-mnist")) return unknown("dataset", dataset, "fashion-mnist");
  if (strcmp(model, "mlp")) return unknown("model", model, "mlp");
  t.seed = (uint64_t)seed;
  t.bar = isatty(STDOUT_FILENO);
  if (tn_init() != TN_OK) return tni_cli_failed();
  if (threads && tn_set_num_threads((int32_t)threads) != TN_OK) return tni_cli_failed();
  return run_chosen(&t, device);
}

const tni_command tni_cmd_train = {
    "train",
    "DATASET",
    1,
    1,
    "Trains a network and prints its accuracy on the test set.\n"
    "DATASET: fashion-mnist. Same seed and thread count give the same weights.",
    run_train};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The command `tenon` as scripts use it: exit statuses, JSON a line at a time, what training prints. A small
 * Fashion-MNIST is written here, so that no data set need be installed.
 */
#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <tenon/files.h>
#include <unistd.h>

#include "tools.h"

/* ------------------------------------------------------------------ a strict JSON checker */

static bool value(const char **s);

static void blank(const char **s) {
  while (**s == ' ') ++*s;
}

static bool text(const char **s) {
  if (*(*s)++ != '"') return false;
  for (; **s && **s != '"'; ++*s) {
    if ((unsigned char)**s < 0x20) return false;
    if (**s != '\\') continue;
    ++*s;
    if (**s == 'u') {
      for (int i = 1; i <= 4; i++)
        if (!isxdigit((unsigned char)(*s)[i])) return false;
      *s += 4;
    } else if (!**s || !strchr("\"\\/bfnrt", **s)) {
      return false;
    }
  }
  return *(*s)++ == '"';
}

static bool group(const char **s, char end) {
  ++*s;
  blank(s);
  if (**s == end) return ++*s, true;
  for (;;) {
    if (end == '}') {
      if (!text(s)) return false;
      blank(s);
      if (*(*s)++ != ':') return false;
      blank(s);
    }
    if (!value(s)) return false;
    blank(s);
    if (**s == end) return ++*s, true;
    if (*(*s)++ != ',') return false;
    blank(s);
  }
}

static bool value(const char **s) {
  static const char *const words[] = {"null", "true", "false"};
  char *end = NULL;
  if (**s == '{') return group(s, '}');
  if (**s == '[') return group(s, ']');
  if (**s == '"') return text(s);
  for (int i = 0; i < 3; i++)
    if (!strncmp(*s, words[i], strlen(words[i]))) return *s += strlen(words[i]), true;
  strtod(*s, &end);
  bool number = end != *s && (isdigit((unsigned char)**s) || **s == '-');
  *s = end;
  return number;
}

/* Every line is one object; the number of lines. */
static int check_lines(const char *out) {
  int lines = 0;
  for (const char *s = out; *s; s++, lines++) {
    TN_CHECK(*s == '{');
    TN_CHECK(value(&s));
    TN_CHECK(*s == '\n');
  }
  return lines;
}

static const tt_result *succeeds(const char *arguments) {
  const tt_result *r = tt_tenon(arguments);
  TN_CHECK_STR(r->words, "");
  TN_CHECK_INT(r->status, 0);
  return r;
}

static void fails(const char *arguments, int status, const char *words) {
  const tt_result *r = tt_tenon(arguments);
  TN_CHECK_INT(r->status, status);
  TN_CHECK_CONTAINS(r->words, words);
}

/* ------------------------------------------------------------------ usage */

TN_TEST(frontends_cli, help_and_version) {
  TN_CHECK_CONTAINS(succeeds("--help")->out, "usage: tenon COMMAND");
  TN_CHECK_CONTAINS(succeeds("--version")->out, tn_version());
  const char *const commands[] = {"devices", "plugins", "ops",      "explain", "why",
                                  "train",   "eval",    "generate", "bench"};
  for (int i = 0; i < 9; i++) {
    char arguments[32];
    snprintf(arguments, sizeof arguments, "%s --help", commands[i]);
    const tt_result *r = succeeds(arguments);
    TN_CHECK_CONTAINS(r->out, commands[i]);
    TN_CHECK_CONTAINS(r->out, "--json");
  }
}

TN_TEST(frontends_cli, wrong_usage_is_status_2) {
  fails("", 2, "a command was expected");
  fails("paint", 2, "unknown command 'paint'");
  fails("devices --frobnicate", 2, "unknown option '--frobnicate'");
  fails("devices extra", 2, "one argument too many: 'extra'");
  fails("explain", 2, "OP was expected");
  fails("why mm cpu", 2, "OP DEVICE DTYPE was expected");
  fails("train fashion-mnist --epochs", 2, "a value is missing after '--epochs'");
  fails("train fashion-mnist --epochs 0", 2, "--epochs takes a whole number from 1");
  fails("train fashion-mnist --epochs 3x", 2, "not '3x'");
  fails("train fashion-mnist --lr=nan", 2, "--lr takes a number");
  fails("train fashion-mnist --json=yes", 2, "no value was expected");
  fails("train cifar", 2, "unknown dataset 'cifar'");
  fails("train fashion-mnist --model gpt", 2, "unknown model 'gpt'");
  fails("train fashion-mnist --save-every 5", 2, "--save-every needs --save FILE");
  fails("train fashion-mnist --save f --save-every 0", 2, "--save-every takes a whole number from 1");
  fails("eval fashion-mnist", 2, "--load FILE was expected");
  fails("eval fashion-mnist --load f --model gpt", 2, "unknown model 'gpt'");
  fails("eval cifar --load f", 2, "unknown dataset 'cifar'");
  fails("bench none", 2, "unknown suite 'none'");
  fails("bench --loop add_1_nograd", 2, "--loop takes");
}

/* ------------------------------------------------------------------ listings */

TN_TEST(frontends_cli, devices) {
  const tt_result *r = succeeds("devices --json");
  TN_CHECK(check_lines(r->out) >= 1);
  TN_CHECK_CONTAINS(r->out, "\"name\": \"cpu\"");
  TN_CHECK_CONTAINS(r->out, "\"state\": \"ready\"");
  TN_CHECK_CONTAINS(r->out, "\"memory\": ");
  TN_CHECK_CONTAINS(r->out, "\"locality\": ");
  TN_CHECK_CONTAINS(succeeds("devices --open")->out, "cpu");
}

TN_TEST(frontends_cli, plugins) {
  const tt_result *r = succeeds("plugins --json");
  TN_CHECK(check_lines(r->out) >= 1);
  TN_CHECK_CONTAINS(r->out, "\"state\": \"loadable\"");
  TN_CHECK_CONTAINS(r->out, "\"version\": ");
  TN_CHECK_CONTAINS(r->out, "\"path\": \"/");
  TN_CHECK_CONTAINS(succeeds("plugins")->out, "loadable");
}

TN_TEST(frontends_cli, ops) {
  const tt_result *r = succeeds("ops --json");
  TN_CHECK(check_lines(r->out) > 50);
  TN_CHECK_CONTAINS(
      r->out, "\"name\": \"mul.Tensor\", \"schema\": \"mul.Tensor(Tensor self, Tensor other) -> Tensor\", "
              "\"differentiable\": true, \"providers\": [");
  TN_CHECK_CONTAINS(succeeds("ops cross_entropy")->out, "cross_entropy_loss(");
}

TN_TEST(frontends_cli, explain_and_why) {
  TN_CHECK_CONTAINS(succeeds("explain mul.Tensor")->out, "== mul.Tensor");
  const tt_result *r = succeeds("explain mul --json");
  TN_CHECK(check_lines(r->out) >= 2);
  fails("explain nothing_such", 1, "there is no operator 'nothing_such'");
  fails("why nothing_such cpu float32", 1, "there is no operator 'nothing_such'; `tenon ops` lists them");
  fails("why add cpu float32", 1, "there is no operator 'add'; of that name there are add.Tensor, add.out, add.Scalar");
  r = succeeds("why mm cpu float32 --json");
  TN_CHECK_INT(check_lines(r->out), 1);
  TN_CHECK_CONTAINS(r->out, "\"lines\": [\"");
  fails("why nothing_such cpu float32", 1, "nothing_such");
  fails("why mm cpu float31", 1, "'float31' is no dtype");
}

TN_TEST(frontends_cli, a_full_disk_is_a_failure) {
  FILE *full = fopen("/dev/full", "w");
  if (!full) return; /* not on this system */
  fclose(full);
  fails("ops > /dev/full", 1, "could not be written");
}

/* ------------------------------------------------------------------ training */

static const tt_result *train(const char *more) {
  char arguments[1024];
  snprintf(arguments, sizeof arguments, "train fashion-mnist --model mlp --data '%s' %s", tt_folder(), more);
  return tt_tenon(arguments);
}

static void weights(const char *out, char hash[65]) {
  const char *at = strstr(out, "\"weights_sha256\": \"");
  TN_CHECK_NOT_NULL(at);
  memcpy(hash, at + 19, 64);
  hash[64] = 0;
}

TN_TEST(frontends_cli, train_learns_and_repeats_its_bits) {
  char first[65], second[65], other[65];
  tt_write_images("train", 600);
  tt_write_images("t10k", 100);
  const tt_result *r = train("--epochs 3 --batch 32 --seed 4 --threads 2 --json");
  TN_CHECK_STR(r->words, "");
  TN_CHECK_INT(r->status, 0);
  TN_CHECK_INT(check_lines(r->out), 4);
  TN_CHECK_CONTAINS(r->out, "\"test_accuracy\": 1,");
  TN_CHECK_CONTAINS(r->out, "\"device\": \"cpu\"");
  TN_CHECK_CONTAINS(r->out, "\"epochs\": 3, \"seed\": 4, \"threads\": 2");
  weights(r->out, first);
  weights(train("--epochs 3 --batch 32 --seed 4 --threads 2 --json")->out, second);
  weights(train("--epochs 3 --batch 32 --seed 5 --threads 2 --json")->out, other);
  TN_CHECK_STR(first, second);
  TN_CHECK(strcmp(first, other) != 0);
}

TN_TEST(frontends_cli, train_says_who_served_it) {
  tt_write_images("train", 64);
  tt_write_images("t10k", 10);
  const tt_result *r = train("--epochs 1");
  TN_CHECK_INT(r->status, 0);
  TN_CHECK_CONTAINS(r->out, "epoch 1/1  loss ");
  TN_CHECK_CONTAINS(r->out, "test accuracy ");
  TN_CHECK_CONTAINS(r->out, "device cpu, served by plugin ");
}

TN_TEST(frontends_cli, train_chooses_devices_as_told) {
  tt_write_images("train", 64);
  tt_write_images("t10k", 10);
  const tt_result *r = train("--epochs 1 --device nonesuch,cpu");
  TN_CHECK_INT(r->status, 0);
  TN_CHECK_CONTAINS(r->words, "device nonesuch is not used: ");
  r = train("--epochs 1 --device nonesuch");
  TN_CHECK_INT(r->status, 1);
  TN_CHECK_CONTAINS(r->words, "nonesuch");
  r = train("--epochs 1 --device nonesuch,neither");
  TN_CHECK_INT(r->status, 1);
  TN_CHECK_CONTAINS(r->words, "none of the named devices is usable");
}

TN_TEST(frontends_cli, train_without_data_is_status_1) {
  fails("train fashion-mnist --data /nonexistent", 1,
        "/nonexistent/train-images-idx3-ubyte.gz: there is no such file");
}

TN_TEST(frontends_cli, train_interrupted_is_status_130) {
  char path[512];
  int status = 0;
  tt_write_images("train", 600);
  tt_write_images("t10k", 10);
  snprintf(path, sizeof path, "%s/interrupted", tt_folder());
  pid_t child = fork();
  if (child == 0) {
    if (!freopen(path, "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(99);
    execl(TN_TEST_CLI, "tenon", "train", "fashion-mnist", "--data", tt_folder(), "--epochs", "100000",
          "--json", (char *)NULL);
    _exit(99);
  }
  TN_CHECK(child > 0);
  for (int i = 0; i < 600; i++) { /* until the first line is there */
    FILE *file = fopen(path, "r");
    bool begun = file && fgetc(file) != EOF;
    if (file) fclose(file);
    if (begun) break;
    usleep(50000);
  }
  TN_CHECK_INT(kill(child, SIGINT), 0);
  TN_CHECK_INT(waitpid(child, &status, 0), child);
  TN_CHECK(WIFEXITED(status));
  TN_CHECK_INT(WEXITSTATUS(status), 130);
  static char out[1 << 20];
  FILE *file = fopen(path, "r");
  TN_CHECK_NOT_NULL(file);
  out[fread(out, 1, sizeof out - 1, file)] = 0;
  fclose(file);
  TN_CHECK(check_lines(out) >= 1); /* whole lines only */
  TN_CHECK_PTR_NULL(strstr(out, "test_accuracy"));
}

/* ------------------------------------------------------------------ saving and going on */

static const char *place(const char *name) {
  static char path[600];
  snprintf(path, sizeof path, "%s/%s", tt_folder(), name);
  return path;
}

/* `tenon train` with --save or --resume of files in the test's folder; status 0 and no words. */
static const tt_result *trains(const char *format, const char *file) {
  char more[700];
  snprintf(more, sizeof more, format, file);
  const tt_result *r = train(more);
  TN_CHECK_STR(r->words, "");
  TN_CHECK_INT(r->status, 0);
  return r;
}

static void train_fails(const char *format, const char *file, const char *words) {
  char more[700];
  snprintf(more, sizeof more, format, file);
  const tt_result *r = train(more);
  TN_CHECK_INT(r->status, 1);
  TN_CHECK(!strstr(r->out, "epoch 1"));
  TN_CHECK_CONTAINS(r->words, words);
}

TN_TEST(frontends_cli, resuming_gives_the_bits_of_one_run) {
  char straight[65], resumed[65], loaded[65], arguments[1400];
  tt_write_images("train", 600);
  tt_write_images("t10k", 100);
  weights(trains("--epochs 2 --batch 32 --seed 4 --threads 2 --json%s", "")->out, straight);
  trains("--epochs 1 --batch 32 --seed 4 --threads 2 --json --save '%s'", place("one"));
  snprintf(arguments, sizeof arguments, "--epochs 2 --threads 2 --json --resume '%s/one' --save '%s/two'",
           tt_folder(), tt_folder());
  const tt_result *r = trains("%s", arguments);
  weights(r->out, resumed);
  TN_CHECK_STR(resumed, straight);
  TN_CHECK_INT(check_lines(r->out), 2);
  TN_CHECK_CONTAINS(r->out, "\"epoch\": 2,");
  TN_CHECK_CONTAINS(r->out, "\"epochs\": 2, \"seed\": 4");
  snprintf(arguments, sizeof arguments, "eval fashion-mnist --threads 2 --json --data '%s' --load '%s'",
           tt_folder(), place("two"));
  r = succeeds(arguments);
  TN_CHECK_INT(check_lines(r->out), 1);
  weights(r->out, loaded);
  TN_CHECK_STR(loaded, straight);
}

/* Starts a training without end that saves after every seventh step; returns once a checkpoint is there. */
static pid_t train_without_end(const char *save) {
  unlink(save);
  pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(99);
    execl(TN_TEST_CLI, "tenon", "train", "fashion-mnist", "--data", tt_folder(), "--epochs", "100000",
          "--batch", "32", "--seed", "4", "--threads", "2", "--save", save, "--save-every", "7",
          (char *)NULL);
    _exit(99);
  }
  TN_CHECK(child > 0);
  for (int i = 0; i < 30000 && access(save, F_OK); i++) usleep(1000);
  return child;
}

/* Whatever the moment, the file is whole, and going on from it (nearly always from the middle of an epoch) gives
 * the bits of a run that was never stopped. */
TN_TEST(frontends_cli, a_killed_run_leaves_a_checkpoint_to_go_on_from) {
  char straight[65], resumed[65], arguments[700], epochs[32];
  int status = 0;
  int64_t epoch = 0;
  tn_safetensors *file = NULL;
  tn_tensor *t = NULL;
  tt_write_images("train", 600);
  tt_write_images("t10k", 100);
  pid_t child = train_without_end(place("killed"));
  TN_CHECK_INT(kill(child, SIGKILL), 0);
  TN_CHECK_INT(waitpid(child, &status, 0), child);
  TN_CHECK(WIFSIGNALED(status));
  TN_CHECK_OK(tn_safetensors_open(place("killed"), &file));
  TN_CHECK_OK(tn_safetensors_tensor(file, "progress.epoch", &t));
  TN_CHECK_OK(tn_tensor_item_int(t, &epoch));
  tn_tensor_release(t);
  tn_safetensors_close(file);
  snprintf(epochs, sizeof epochs, "%lld", (long long)epoch + 1);
  snprintf(arguments, sizeof arguments, "--epochs %s --threads 2 --json --resume '%s'", epochs,
           place("killed"));
  weights(trains("%s", arguments)->out, resumed);
  weights(trains("--epochs %s --batch 32 --seed 4 --threads 2 --json", epochs)->out, straight);
  TN_CHECK_STR(resumed, straight);
}

/* Files of the test's folder whose names begin so. */
static int count_files(const char *prefix) {
  int n = 0;
  DIR *dir = opendir(tt_folder());
  for (struct dirent *e; dir && (e = readdir(dir));) n += !strncmp(e->d_name, prefix, strlen(prefix));
  if (dir) closedir(dir);
  return n;
}

TN_TEST(frontends_cli, interrupting_a_run_that_saves_leaves_one_whole_file) {
  int status = 0;
  tn_safetensors *file = NULL;
  tt_write_images("train", 600);
  tt_write_images("t10k", 10);
  pid_t child = train_without_end(place("stopped"));
  TN_CHECK_INT(kill(child, SIGINT), 0);
  TN_CHECK_INT(waitpid(child, &status, 0), child);
  TN_CHECK(WIFEXITED(status));
  TN_CHECK_INT(WEXITSTATUS(status), 130);
  TN_CHECK_INT(count_files("stopped"), 1);
  TN_CHECK_OK(tn_safetensors_open(place("stopped"), &file));
  tn_safetensors_close(file);
}

TN_TEST(frontends_cli, checkpoints_that_do_not_fit) {
  tt_write_images("train", 64);
  tt_write_images("t10k", 10);
  trains("--epochs 1 --batch 16 --seed 3 --save '%s'", place("fit"));
  train_fails("--resume '%s'", place("fit"), "all 1 epochs are done");
  train_fails("--epochs 2 --resume '%s' --batch 8", place("fit"),
              "was made with --batch 16; it cannot go on with 8");
  train_fails("--epochs 2 --resume '%s' --seed 0", place("fit"),
              "was made with --seed 3; it cannot go on with 0");
  train_fails("--resume '%s'", place("missing"), "missing: there is no such file");
  train_fails("--resume '%s'", tt_file("damaged", "\x03\0\0\0\0\0\0\0{}!", 11),
              "byte 10: only spaces may follow");
  train_fails("--resume '%s'", tt_file("plain", "\x02\0\0\0\0\0\0\0{}", 10),
              "it does not say its 'train.dataset'");
  fails("eval fashion-mnist --load /nonexistent", 1, "/nonexistent: there is no such file");
}

TN_TEST(frontends_cli, places_where_nothing_can_be_saved) {
  char arguments[700], name[300];
  tt_write_images("train", 64);
  tt_write_images("t10k", 10);
  train_fails("--epochs 1 --save '%s/nowhere/a'", tt_folder(), "nowhere/a: cannot be written: No such file");
  train_fails("--epochs 1 --save '%s'", "", "an empty path");
  train_fails("--epochs 1 --save '%s'", "/proc/a", "/proc/a: cannot be written");
  memset(name, 'a', 250); /* a name that is short enough itself, but not with what stands behind it meanwhile */
  name[250] = 0;
  train_fails("--epochs 1 --save '%s'", place(name), "cannot be written: File name too long");
  train_fails("--epochs 1 --save '%s'", tt_folder(), "not a regular file");
  train_fails("--epochs 1 --save %s", "/dev/full", "not a regular file");
  /* The disk is full in the middle of a save: the old file stays, training ends, and the status tells. */
  tt_file("small", "old", 3);
  snprintf(arguments, sizeof arguments, "train fashion-mnist --data '%s' --epochs 1 --save '%s'", tt_folder(),
           place("small"));
  const tt_result *r = tt_limited("ulimit -f 100", arguments);
  TN_CHECK_INT(r->status, 1);
  TN_CHECK_CONTAINS(r->words, "tenon: not saved: ");
  TN_CHECK_CONTAINS(r->words, "cannot be written: File too large");
  TN_CHECK_CONTAINS(r->out, "test accuracy");
  TN_CHECK_INT(count_files("small"), 1);
}

/* ------------------------------------------------------------------ bench */

TN_TEST(frontends_cli, bench_loop_runs) {
  succeeds("bench --loop add_1_nograd 10");
  succeeds("bench --loop chain_backward 1");
}

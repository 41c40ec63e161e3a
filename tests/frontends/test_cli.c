/* SPDX-License-Identifier: Apache-2.0
 *
 * The command `tenon` as scripts use it: exit statuses, JSON a line at a time, what training prints. A small
 * Fashion-MNIST is written here, so that no data set need be installed.
 */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
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
  const char *const commands[] = {"devices", "plugins", "ops", "explain", "why", "train", "bench"};
  for (int i = 0; i < 7; i++) {
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

/* Images whose class shows: the pixels of one of ten bands are bright. */
static void write_set(const char *prefix, int n) {
  size_t size = 16 + (size_t)n * 784;
  unsigned char *images = calloc(1, size), *labels = calloc(1, 8 + (size_t)n);
  TN_CHECK(images && labels);
  memcpy(images,
         (const unsigned char[]){0, 0, 8, 3, 0, 0, (unsigned char)(n >> 8), (unsigned char)n, 0, 0, 0, 28, 0,
                                 0, 0, 28},
         16);
  memcpy(labels, (const unsigned char[]){0, 0, 8, 1, 0, 0, (unsigned char)(n >> 8), (unsigned char)n}, 8);
  for (int i = 0; i < n; i++) {
    int class = i * 7 % 10;
    labels[8 + i] = (unsigned char)class;
    for (int p = 0; p < 784; p++)
      images[16 + i * 784 + p] = p / 78 == class ? 200 : (unsigned char)(p * 31 + i * 17) % 64;
  }
  char name[64];
  snprintf(name, sizeof name, "%s-images-idx3-ubyte.gz", prefix);
  tt_file(name, images, size);
  snprintf(name, sizeof name, "%s-labels-idx1-ubyte.gz", prefix);
  tt_file(name, labels, 8 + (size_t)n);
  free(images);
  free(labels);
}

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
  write_set("train", 600);
  write_set("t10k", 100);
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
  write_set("train", 64);
  write_set("t10k", 10);
  const tt_result *r = train("--epochs 1");
  TN_CHECK_INT(r->status, 0);
  TN_CHECK_CONTAINS(r->out, "epoch 1/1  loss ");
  TN_CHECK_CONTAINS(r->out, "test accuracy ");
  TN_CHECK_CONTAINS(r->out, "device cpu, served by plugin ");
}

TN_TEST(frontends_cli, train_chooses_devices_as_told) {
  write_set("train", 64);
  write_set("t10k", 10);
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
  write_set("train", 600);
  write_set("t10k", 10);
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

/* ------------------------------------------------------------------ bench */

TN_TEST(frontends_cli, bench_loop_runs) {
  succeeds("bench --loop add_1_nograd 10");
  succeeds("bench --loop chain_backward 1");
}

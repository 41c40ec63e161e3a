/* SPDX-License-Identifier: Apache-2.0
 *
 * `tenon train` with the convnet, and what goes wrong under any model: no memory, a full disk, damaged checkpoints. The
 * perceptron is in test_cli.c, the transformer in test_text.c.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tenon/files.h>
#include <unistd.h>

#include "tools.h"

#define SMALL                                                                                          \
  "--model transformer --context 13 --layers 1 --width 32 --heads 2 --batch 8 --threads 2 --epochs 1 " \
  "--text '%s'"

static const char *place(const char *name) {
  static char paths[4][600];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", tt_folder(), name);
  return path;
}

static void write_text(void) {
  char text[1000];
  for (size_t i = 0; i < sizeof text; i++) text[i] = "abcdefgh"[i / 2 % 8];
  tt_file("text", text, sizeof text);
}

/* A whole file; the caller frees. */
static unsigned char *contents(const char *path, size_t *out_size) {
  struct stat about;
  TN_CHECK_INT(stat(path, &about), 0);
  unsigned char *bytes = malloc((size_t)about.st_size + 1);
  FILE *file = fopen(path, "rb");
  TN_CHECK(bytes && file);
  *out_size = fread(bytes, 1, (size_t)about.st_size, file);
  fclose(file);
  return bytes;
}

static void check_unchanged(const char *path, const unsigned char *bytes, size_t size) {
  size_t now;
  unsigned char *found = contents(path, &now);
  TN_CHECK_INT(now, size);
  TN_CHECK(memcmp(found, bytes, size) == 0);
  free(found);
}

/* ------------------------------------------------------------------ the convnet */

TN_TEST(frontends_train, the_convnet_learns_goes_on_and_is_evaluated) {
  char straight[65], hash[65];
  const char *options = "--batch 30 --seed 2 --threads 2 --json";
  tt_write_images("train", 300);
  tt_write_images("t10k", 50);
  const tt_result *r = tt_succeeds("train --model cnn --epochs 3 --data '%s' %s", tt_folder(), options);
  TN_CHECK_DOUBLE(tt_number(r->out, "test_accuracy"), 1, 0);
  TN_CHECK_STR(tt_text(r->out, "model"), "cnn");
  snprintf(straight, sizeof straight, "%s", tt_text(r->out, "weights_sha256"));
  tt_succeeds("train fashion-mnist --model cnn --epochs 1 --data '%s' %s --save '%s'", tt_folder(), options,
              place("one"));
  r = tt_succeeds("train --resume '%s' --epochs 3 --data '%s' --threads 2 --json --save '%s'", place("one"),
                  tt_folder(), place("three"));
  snprintf(hash, sizeof hash, "%s", tt_text(r->out, "weights_sha256"));
  TN_CHECK_STR(hash, straight);
  double loss = tt_number(r->out, "test_loss");
  r = tt_succeeds("eval --load '%s' --data '%s' --threads 2 --json", place("three"), tt_folder());
  TN_CHECK_DOUBLE(tt_number(r->out, "test_accuracy"), 1, 0);
  TN_CHECK_DOUBLE(tt_number(r->out, "test_loss"), loss, 0);
  tt_fails(1, "holds the model 'cnn', which writes no text", "generate --load '%s'", place("three"));
  tt_fails(1, "reads --data, not --text", "eval --load '%s' --text '%s'", place("three"), place("three"));
}

/* ------------------------------------------------------------------ memory */

/* Whatever the limit: the run ends well or with a sentence, and the old checkpoint is the old or a whole new one. */
TN_TEST(frontends_train, any_limit_of_memory_ends_a_run_with_words_or_well) {
  size_t size;
  int refused = 0, done = 0;
  char command[1600];
  tt_write_images("train", 60);
  tt_write_images("t10k", 10);
  tt_succeeds("train --model cnn --epochs 1 --batch 20 --data '%s' --save '%s'", tt_folder(), place("old"));
  unsigned char *old = contents(place("old"), &size);
  for (double mib = 0.001; mib < 1000; mib *= 3) {
    snprintf(command, sizeof command,
             "train --resume '%s' --epochs 2 --data '%s' --save '%s' --save-every 2 --memory %g",
             place("old"), tt_folder(), place("new"), mib);
    const tt_result *r = tt_tenon(command);
    TN_CHECK(r->status == 0 || r->status == 1);
    if (r->status == 1) TN_CHECK_CONTAINS(r->words, "memory");
    if (r->status == 1) TN_CHECK(strncmp(r->words, "tenon: ", 7) == 0);
    refused += r->status;
    done += !r->status;
    tn_safetensors *file = NULL;
    if (access(place("new"), F_OK) == 0) TN_CHECK_OK(tn_safetensors_open(place("new"), &file));
    tn_safetensors_close(file);
    check_unchanged(place("old"), old, size);
  }
  TN_CHECK(refused > 3 && done > 1);
  free(old);
}

TN_TEST(frontends_train, a_limit_of_memory_holds_for_eval_and_generate) {
  write_text();
  tt_succeeds("train " SMALL " --save '%s'", place("text"), place("m"));
  tt_fails(1, "memory", "eval --load '%s' --memory 0.001", place("m"));
  tt_fails(1, "memory", "generate --load '%s' --memory 0.001", place("m"));
}

/* ------------------------------------------------------------------ full disks */

/* A file system of 300 KiB that holds a checkpoint has no room for a second one beside it. Only where namespaces of
 * one's own are allowed. */
TN_TEST(frontends_train, a_full_file_system_leaves_the_old_checkpoint) {
  char command[3000], disk[600], old[600], kept[600];
  write_text();
  snprintf(disk, sizeof disk, "%s", place("disk"));
  snprintf(old, sizeof old, "%s", place("whole"));
  snprintf(kept, sizeof kept, "%s", place("kept"));
  TN_CHECK_INT(mkdir(disk, 0777), 0);
  tt_succeeds("train " SMALL " --save '%s'", place("text"), old);
  snprintf(command, sizeof command,
           "unshare -Urm sh -c 'mount -t tmpfs -o size=300k tmpfs \"$1\" || exit 77; cp \"$2\" \"$1/a\"; "
           "\"$3\" train --resume \"$2\" --epochs 2 --save \"$1/a\" >/dev/null 2>\"$4.words\"; s=$?; "
           "cp \"$1/a\" \"$4\"; [ $(ls \"$1\" | wc -l) = 1 ] || exit 9; exit $s' sh '%s' '%s' '%s' '%s' "
           "2>/dev/null",
           disk, old, TN_TEST_CLI, kept);
  int status = system(command);
  rmdir(disk);
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 77 || access(kept, F_OK)) return; /* not allowed here */
  TN_CHECK_INT(WEXITSTATUS(status), 1);
  size_t size;
  unsigned char *before = contents(old, &size);
  TN_CHECK(size > 150 * 1024 && size < 300 * 1024);
  check_unchanged(kept, before, size);
  free(before);
  snprintf(command, sizeof command, "%s.words", kept);
  unsigned char *words = contents(command, &size);
  words[size] = 0;
  TN_CHECK_CONTAINS((const char *)words, "not saved: ");
  TN_CHECK_CONTAINS((const char *)words, "No space left on device");
  free(words);
}

/* ------------------------------------------------------------------ damage */

/* Bytes all through the header, and lengths: each is read or refused with words, by whoever reads checkpoints. */
TN_TEST(frontends_train, damaged_checkpoints_are_refused_with_words) {
  size_t size, tries = 0, refused = 0;
  uint64_t header;
  char damaged[600], command[1600];
  write_text();
  tt_succeeds("train " SMALL " --save '%s'", place("text"), place("good"));
  snprintf(damaged, sizeof damaged, "%s", place("damaged"));
  unsigned char *bytes = contents(place("good"), &size);
  memcpy(&header, bytes, sizeof header);
  size_t end = header + 8;
  TN_CHECK(end > 1000 && end < size);
  for (size_t i = 0; i < end; i += i < 700 ? 11 : 61, tries++) {
    unsigned char kept = bytes[i];
    bytes[i] ^= (unsigned char)(1u << (i % 8));
    tt_file("damaged", bytes, size);
    bytes[i] = kept;
    snprintf(command, sizeof command,
             tries % 2 ? "generate --load '%s' --length 2" : "train --resume '%s' --epochs 2", damaged);
    const tt_result *r = tt_tenon(command);
    TN_CHECK(r->status == 0 || r->status == 1);
    TN_CHECK((r->status == 1) == (r->words[0] != 0));
    refused += r->status == 1;
  }
  for (size_t n = 0; n < size; n += n < end ? end / 4 : size / 4, tries++, refused++) {
    tt_file("damaged", bytes, n);
    tt_fails(1, "damaged: ", "generate --load '%s'", damaged);
  }
  TN_CHECK(refused > tries / 2);
  free(bytes);
}

/* Notes that are text to the file format and nonsense to us. */
static void refused_with(const char *key, const char *value, const char *words) {
  tn_safetensors *file = NULL;
  tn_state_dict *dict = NULL;
  static const char *const keys[] = {"tenon.format", "tenon.optimizer", "train.dataset", "train.model",
                                     "train.epochs", "train.batch",     "train.seed",    "train.lr",
                                     "train.clip",   "train.warmup",    "train.decay",   "train.samples",
                                     "train.loss",   "train.context",   "train.layers",  "train.width",
                                     "train.heads",  "train.dropout",   "train.text",    "train.text_sha256"};
  enum { KEYS = sizeof keys / sizeof *keys };
  tn_file_note notes[KEYS];
  TN_CHECK_OK(tn_safetensors_open(place("good"), &file));
  TN_CHECK_OK(tn_safetensors_read(place("good"), &dict));
  for (int i = 0; i < KEYS; i++) {
    notes[i] = (tn_file_note){keys[i], tn_safetensors_note(file, keys[i])};
    TN_CHECK_NOT_NULL(notes[i].value);
    if (!strcmp(keys[i], key)) notes[i].value = value;
  }
  TN_CHECK_OK(tn_safetensors_write(place("odd"), dict, notes, KEYS));
  tn_state_dict_release(dict);
  tn_safetensors_close(file);
  tt_fails(1, words, "train --epochs 2 --resume '%s'", place("odd"));
}

TN_TEST(frontends_train, notes_that_make_no_sense) {
  write_text();
  tt_succeeds("train " SMALL " --save '%s'", place("text"), place("good"));
  refused_with("tenon.format", "checkpoint 2", "'checkpoint 1' was expected");
  refused_with("tenon.optimizer", "Adam", "the checkpoint's optimiser is Adam; this one is AdamW");
  refused_with("train.model", "gpt", "a model 'gpt', which is not known here");
  refused_with("train.model", "cnn", "was trained on 'text', not on fashion-mnist");
  refused_with("train.dataset", "cifar", "was trained on 'cifar', not on text");
  refused_with("train.epochs", "many", "its 'train.epochs' is 'many'; a whole number from 1");
  refused_with("train.batch", "0", "its 'train.batch' is '0'");
  refused_with("train.seed", "-1", "its 'train.seed' is '-1'");
  refused_with("train.lr", "nan", "its 'train.lr' is 'nan'");
  refused_with("train.lr", "0", "a learning rate above 0 was expected");
  refused_with("train.clip", "-1", "its 'train.clip' is '-1'");
  refused_with("train.warmup", "1e3", "its 'train.warmup' is '1e3'");
  refused_with("train.context", "99999999999", "its 'train.context' is '99999999999'");
  refused_with("train.layers", "1000000", "its 'train.layers' is '1000000'");
  refused_with("train.layers", "2", "missing 'layers.1.");
  refused_with("train.width", "64", "must have shape");
  refused_with("train.heads", "3", "do not divide");
  refused_with("train.dropout", "2", "its 'train.dropout' is '2'");
  refused_with("train.text_sha256", "0", "was trained on another text than");
  refused_with("train.text", "/nonexistent", "/nonexistent: the text cannot be read");
  refused_with("train.samples", "", "its 'train.samples' is ''");
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The character-level transformer on the command line: what it learns, that it repeats and goes on bit for bit, the
 * bigram model beside it, the text that it writes; and texts that are none.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tenon/files.h>
#include <unistd.h>

#include "tools.h"

/* A model that trains in moments. Its context has no factor in common with the texts' periods, so that windows begin
 * everywhere in them. */
#define SMALL "--model transformer --context 13 --layers 1 --width 32 --heads 2 --batch 8 --threads 2 --json"

static const char *place(const char *name) {
  static char paths[4][600];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", tt_folder(), name);
  return path;
}

/* Each letter of a cycle stands twice: what follows a letter is a toss for a bigram model, and clear to one that sees
 * two letters. */
static void write_cycle(const char *name, size_t n) {
  static const char letters[] = "abcdefgh";
  char *text = malloc(n + 1);
  TN_CHECK(text != NULL);
  for (size_t i = 0; i < n; i++) text[i] = letters[i / 2 % 8];
  tt_file(name, text, n);
  free(text);
}

static void hash_of(const char *json, char hash[65]) {
  snprintf(hash, 65, "%s", tt_text(json, "weights_sha256"));
}

/* ------------------------------------------------------------------ learning */

TN_TEST(frontends_text, the_transformer_beats_the_bigram_model_and_repeats_its_bits) {
  char first[65], second[65], other[65];
  write_cycle("cycle", 4000);
  const tt_result *r =
      tt_succeeds("train text " SMALL " --epochs 8 --lr 0.003 --seed 3 --text '%s'", place("cycle"));
  TN_CHECK(tt_number(r->out, "test_loss") < 0.5 * tt_number(r->out, "bigram_loss"));
  TN_CHECK(tt_number(r->out, "test_accuracy") > 0.85);
  TN_CHECK_STR(tt_text(r->out, "model"), "transformer");
  hash_of(r->out, first);
  r = tt_succeeds("train " SMALL " --epochs 8 --lr 0.003 --seed 3 --text '%s'", place("cycle"));
  hash_of(r->out, second);
  r = tt_succeeds("train " SMALL " --epochs 8 --lr 0.003 --seed 4 --text '%s'", place("cycle"));
  hash_of(r->out, other);
  TN_CHECK_STR(first, second);
  TN_CHECK(strcmp(first, other) != 0);
}

/* 100 characters "abab...": 90 to learn from hold 45 pairs ab and 44 pairs ba; the 10 to test are 5 of each. With the
 * symbol for unknown ones the vocabulary has 3 entries. */
TN_TEST(frontends_text, the_bigram_model_counts_pairs_plus_one) {
  char text[101];
  for (int i = 0; i < 100; i++) text[i] = i % 2 ? 'b' : 'a';
  const tt_result *r = tt_succeeds("train " SMALL " --epochs 1 --text '%s'", tt_file("ab", text, 100));
  double expected = -(5 * log(46.0 / (45 + 3)) + 5 * log(45.0 / (44 + 3))) / 10;
  TN_CHECK_DOUBLE(tt_number(r->out, "bigram_loss"), expected, 1e-5);
}

TN_TEST(frontends_text, people_are_told_about_text_and_loss) {
  write_cycle("cycle", 1000);
  const tt_result *r = tt_succeeds(
      "train --model transformer --context 8 --layers 1 --width 8 --heads 1 --epochs 1 --text '%s'",
      place("cycle"));
  TN_CHECK_CONTAINS(r->out, "900 characters to learn from (8 different), 100 to test\n");
  TN_CHECK_CONTAINS(r->out, "test loss ");
  TN_CHECK_CONTAINS(r->out, " nats a character, add-one bigram model ");
  char text[100];
  for (int i = 0; i < 100; i++) text[i] = i < 95 ? 'a' : 'b';
  r = tt_succeeds(
      "train --model transformer --context 8 --layers 1 --width 8 --heads 1 --epochs 1 --text '%s'",
      tt_file("late", text, sizeof text));
  TN_CHECK_CONTAINS(r->out, "10 to test (5 of them unknown, counted as U+FFFD)\n");
}

/* ------------------------------------------------------------------ going on */

/* With dropout the random numbers are part of it; with a warm-up and a decay the step number is. */
#define COURSE SMALL " --dropout 0.2 --warmup 20 --decay 200 --seed 5"

TN_TEST(frontends_text, resuming_gives_the_bits_of_one_run) {
  char straight[65], resumed[65];
  write_cycle("cycle", 3000);
  hash_of(tt_succeeds("train " COURSE " --epochs 3 --text '%s'", place("cycle"))->out, straight);
  tt_succeeds("train " COURSE " --epochs 1 --text '%s' --save '%s'", place("cycle"), place("one"));
  const tt_result *r = tt_succeeds("train --epochs 3 --threads 2 --json --resume '%s' --save '%s'",
                                   place("one"), place("three"));
  hash_of(r->out, resumed);
  TN_CHECK_STR(resumed, straight);
  double loss = tt_number(r->out, "test_loss"), bigram = tt_number(r->out, "bigram_loss");
  r = tt_succeeds("eval --threads 2 --json --load '%s'", place("three"));
  hash_of(r->out, resumed);
  TN_CHECK_STR(resumed, straight);
  TN_CHECK_DOUBLE(tt_number(r->out, "test_loss"), loss, 0);
  TN_CHECK_DOUBLE(tt_number(r->out, "bigram_loss"), bigram, 0);
}

TN_TEST(frontends_text, a_killed_run_goes_on_from_the_middle_of_an_epoch) {
  char straight[65], resumed[65];
  int status = 0;
  int64_t epoch = 0;
  tn_safetensors *file = NULL;
  tn_tensor *t = NULL;
  write_cycle("cycle", 3000);
  unlink(place("killed"));
  pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(99);
    execl(TN_TEST_CLI, "tenon", "train", "--model", "transformer", "--context", "13", "--layers", "1",
          "--width", "32", "--heads", "2", "--batch", "8", "--threads", "2", "--dropout", "0.2", "--warmup",
          "20", "--decay", "200", "--seed", "5", "--epochs", "100000", "--save-every", "7", "--text",
          place("cycle"), "--save", place("killed"), (char *)NULL);
    _exit(99);
  }
  TN_CHECK(child > 0);
  for (int i = 0; i < 30000 && access(place("killed"), F_OK); i++) usleep(1000);
  TN_CHECK_INT(kill(child, SIGKILL), 0);
  TN_CHECK_INT(waitpid(child, &status, 0), child);
  TN_CHECK_OK(tn_safetensors_open(place("killed"), &file));
  TN_CHECK_OK(tn_safetensors_tensor(file, "progress.epoch", &t));
  TN_CHECK_OK(tn_tensor_item_int(t, &epoch));
  tn_tensor_release(t);
  tn_safetensors_close(file);
  int epochs = (int)epoch + 1;
  hash_of(tt_succeeds("train --epochs %d --threads 2 --json --resume '%s'", epochs, place("killed"))->out,
          resumed);
  hash_of(tt_succeeds("train " COURSE " --epochs %d --text '%s'", epochs, place("cycle"))->out, straight);
  TN_CHECK_STR(resumed, straight);
}

TN_TEST(frontends_text, what_contradicts_a_checkpoint_is_refused) {
  write_cycle("cycle", 1000);
  tt_succeeds("train " SMALL " --epochs 1 --text '%s' --save '%s'", place("cycle"), place("fit"));
  const char *fit = place("fit");
  tt_fails(1, "was made with --width 32; it cannot go on with 16",
           "train --epochs 2 --resume '%s' --width 16", fit);
  tt_fails(1, "was made with --context 13", "train --epochs 2 --resume '%s' --context 12", fit);
  tt_fails(1, "was made with --dropout 0", "train --epochs 2 --resume '%s' --dropout 0.5", fit);
  tt_fails(1, "holds the model 'transformer', not 'cnn'", "train --epochs 2 --resume '%s' --model cnn", fit);
  tt_fails(1, "holds the model 'transformer', not 'mlp'", "eval --model mlp --load '%s'", fit);
  tt_fails(1, "learns from text, not from fashion-mnist", "train fashion-mnist --epochs 2 --resume '%s'",
           fit);
  tt_fails(1, "is tested on text, not on fashion-mnist", "eval fashion-mnist --load '%s'", fit);
  tt_fails(1, "reads --text, not --data", "eval --data /tmp --load '%s'", fit);
  write_cycle("longer", 1001);
  tt_fails(1, "was trained on another text than", "train --epochs 2 --resume '%s' --text '%s'", fit,
           place("longer"));
  /* What only steers may be given anew. */
  tt_succeeds("train --epochs 2 --json --lr 0.002 --clip 0 --warmup 0 --decay 9 --resume '%s'", fit);
}

/* ------------------------------------------------------------------ writing */

/* Text of the JSON answer; escapes stay. */
static const char *written(const char *options) {
  static char text[1 << 12];
  const tt_result *r = tt_succeeds("generate --json --threads 2 --load '%s' %s", place("writer"), options);
  snprintf(text, sizeof text, "%s", tt_text(r->out, "text"));
  return text;
}

static void make_writer(void) {
  write_cycle("cycle", 4000);
  tt_succeeds("train " SMALL " --epochs 8 --lr 0.003 --text '%s' --save '%s'", place("cycle"),
              place("writer"));
}

TN_TEST(frontends_text, generate_writes_what_was_learnt_and_repeats_itself) {
  char first[1 << 12];
  make_writer();
  TN_CHECK_STR(written("--prompt aab --length 12 --temperature 0"), "bccddeeffggh");
  TN_CHECK_STR(written("--prompt aab --length 12 --temperature 0 --seed 9"), "bccddeeffggh");
  TN_CHECK_STR(written("--prompt aab --length 12 --top-k 1 --temperature 5"), "bccddeeffggh");
  snprintf(first, sizeof first, "%s", written("--length 40 --temperature 3 --seed 1"));
  TN_CHECK_INT(strlen(first), 40);
  TN_CHECK_STR(written("--length 40 --temperature 3 --seed 1"), first);
  TN_CHECK(strcmp(written("--length 40 --temperature 3 --seed 2"), first) != 0);
  TN_CHECK_INT(strspn(first, "abcdefgh"), 40);
  TN_CHECK_STR(written("--length 0 --prompt a"), "");
  /* For people: the prompt, what follows, a line end. */
  const tt_result *r =
      tt_succeeds("generate --load '%s' --prompt aab --length 5 --temperature 0", place("writer"));
  TN_CHECK_STR(r->out, "aabbccdd\n");
}

TN_TEST(frontends_text, prompts_that_cannot_be_read) {
  make_writer();
  tt_fails(1, "the prompt's character at byte 2 (U+0058) is none of the 8",
           "generate --load '%s' --prompt abX", place("writer"));
  tt_fails(1, "(U+20AC)", "generate --load '%s' --prompt '\xE2\x82\xAC'", place("writer"));
  tt_fails(1, "the prompt is not UTF-8 at byte 1 (0xFF)", "generate --load '%s' --prompt 'a\xFF'",
           place("writer"));
  tt_fails(1, "the prompt is not UTF-8 at byte 0 (0xE2)", "generate --load '%s' --prompt '\xE2\x82'",
           place("writer"));
  tt_fails(2, "--load FILE was expected", "generate --prompt a");
  tt_fails(2, "--temperature takes", "generate --load f --temperature -1");
  tt_fails(2, "--length takes", "generate --load f --length -1");
  tt_fails(1, "there is no such file", "generate --load '%s'", place("missing"));
  tt_fails(1, "could not be written", "generate --load '%s' --length 5 > /dev/full", place("writer"));
}

TN_TEST(frontends_text, characters_of_several_bytes_live_through_it_all) {
  static const char line[] =
      "\xC3\xA9t\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8C\xB3!"; /* of one, two, three, four */
  char text[64 * 20];
  size_t n = strlen(line);
  for (int i = 0; i < 60; i++) memcpy(text + (size_t)i * n, line, n);
  tt_file("bytes", text, 60 * n);
  tt_succeeds("train " SMALL " --epochs 50 --lr 0.003 --text '%s' --save '%s'", place("bytes"), place("b"));
  const tt_result *r =
      tt_succeeds("generate --load '%s' --prompt '%s' --length 8 --temperature 0", place("b"), line);
  char expected[64];
  snprintf(expected, sizeof expected, "%s%s\n", line, line);
  TN_CHECK_STR(r->out, expected);
}

TN_TEST(frontends_text, eval_counts_unknown_characters_as_one_symbol) {
  char text[400];
  make_writer();
  for (int i = 0; i < 400; i++) text[i] = i >= 390 ? "xyz"[i % 3] : "abcdefgh"[i / 2 % 8];
  tt_file("strange", text, sizeof text);
  const tt_result *r =
      tt_succeeds("eval --threads 2 --json --load '%s' --text '%s'", place("writer"), place("strange"));
  TN_CHECK_DOUBLE(tt_number(r->out, "unknown_characters"), 10, 0);
  TN_CHECK(isfinite(tt_number(r->out, "test_loss")));
  r = tt_succeeds("eval --load '%s' --text '%s'", place("writer"), place("strange"));
  TN_CHECK_CONTAINS(r->out, "10 characters that the model does not know counted as U+FFFD");
  r = tt_succeeds("eval --json --load '%s'", place("writer"));
  TN_CHECK_DOUBLE(tt_number(r->out, "unknown_characters"), 0, 0);
}

/* ------------------------------------------------------------------ texts that are none */

static void refused(const char *name, const void *data, size_t size, const char *words) {
  tt_fails(1, words, "train " SMALL " --epochs 1 --text '%s'", tt_file(name, data, size));
}

TN_TEST(frontends_text, what_is_no_text_is_refused_at_its_byte) {
  refused("empty", "", 0, "empty: the text is empty");
  refused("latin", "caf\xE9 au lait", 12, "latin: byte 3: the text is not UTF-8 there (0xE9)");
  refused("cut", "abc\xE2\x82", 5, "cut: byte 3: the text is not UTF-8 there");
  refused("overlong", "a\xC0\xAF", 3, "overlong: byte 1:");
  refused("overlong3", "\xE0\x80\xAF", 3, "overlong3: byte 0:");
  refused("surrogate", "ab\xED\xA0\x80", 5, "surrogate: byte 2:");
  refused("beyond", "\xF4\x90\x80\x80", 4, "beyond: byte 0:");
  refused("five", "\xF8\x88\x80\x80\x80", 5, "five: byte 0:");
  refused("tail", "\x80", 1, "tail: byte 0:");
  refused(
      "short", "abcdefghijkl", 12,
      "short: the text has 12 characters, of which the first 10 train; a context of 13 needs at least 14");
  tt_fails(1, "nothing: the text cannot be read: No such file", "train " SMALL " --text '%s'",
           place("nothing"));
  tt_fails(1, "a regular file was expected for a text", "train " SMALL " --text /dev/zero");
}

TN_TEST(frontends_text, the_shortest_text_trains) {
  tt_succeeds("train " SMALL " --epochs 1 --text '%s'", tt_file("sixteen", "abcdefghijklmnop", 16));
}

/* Files of a folder by their names; hidden ones, folders, and a second name of a file do not count. */
TN_TEST(frontends_text, a_folder_is_its_files_in_order) {
  char joined[65], apart[65], path[700], folder[600];
  snprintf(folder, sizeof folder, "%s", place("books"));
  TN_CHECK(mkdir(folder, 0777) == 0);
  tt_fails(1, "books: the folder holds no files", "train " SMALL " --text '%s'", folder);
  snprintf(path, sizeof path, "%s/inner", folder);
  TN_CHECK(mkdir(path, 0777) == 0);
  static const char *const names[] = {"books/b", "books/a", "books/.hidden"};
  static const char *const texts[] = {"the second book is this one. ", "the first book is this one, ",
                                      "\xFF"};
  for (int i = 0; i < 3; i++) tt_file(names[i], texts[i], strlen(texts[i]));
  snprintf(path, sizeof path, "%s/0", folder);
  TN_CHECK_INT(symlink("b", path), 0);
  const tt_result *r = tt_succeeds("train " SMALL " --epochs 1 --text '%s'", folder);
  hash_of(r->out, joined);
  const char both[] = "the first book is this one, the second book is this one. ";
  r = tt_succeeds("train " SMALL " --epochs 1 --text '%s'", tt_file("both", both, strlen(both)));
  hash_of(r->out, apart);
  TN_CHECK_STR(joined, apart);
  tt_file("books/c", "a\xFF", 2);
  tt_fails(1, "books/c: byte 1: the text is not UTF-8", "train " SMALL " --text '%s'", folder);
  static const char *const made[] = {"books/a", "books/b", "books/c", "books/.hidden", "books/0"};
  for (int i = 0; i < 5; i++) TN_CHECK_INT(unlink(place(made[i])), 0);
  snprintf(path, sizeof path, "%s/inner", folder);
  TN_CHECK_INT(rmdir(path), 0);
  TN_CHECK_INT(rmdir(folder), 0);
}

TN_TEST(frontends_text, options_that_make_no_model) {
  write_cycle("cycle", 1000);
  const char *text = place("cycle");
  tt_fails(1, "--heads 3 do not divide --width 16",
           "train --model transformer --width 16 --heads 3 --text '%s'", text);
  tt_fails(1, "a context of 1000 needs", "train --model transformer --context 1000 --text '%s'", text);
  tt_fails(2, "--context takes", "train --model transformer --context 0 --text '%s'", text);
  tt_fails(2, "--layers takes", "train --model transformer --layers 0 --text '%s'", text);
  tt_fails(2, "--heads takes", "train --model transformer --heads -1 --text '%s'", text);
  tt_fails(2, "--dropout takes", "train --model transformer --dropout 1.5 --text '%s'", text);
  tt_fails(2, "--epochs takes", "train --model transformer --epochs 99999999999999999999 --text '%s'", text);
  tt_fails(2, "--batch takes", "train --model transformer --batch 0 --text '%s'", text);
  tt_fails(2, "--clip takes", "train --model transformer --clip -1 --text '%s'", text);
  tt_fails(2, "--memory takes", "train --model transformer --memory 0 --text '%s'", text);
  tt_fails(2, "--threads takes a whole number from 1 to 1024, not '0'",
           "train --model transformer --threads 0");
  tt_fails(2, "from 1 to 1024, not '10000'", "train --model transformer --threads 10000");
  tt_fails(1, "the model 'mlp' reads no --text", "train --model mlp --text '%s'", text);
  tt_fails(1, "the model 'cnn' has one shape", "train --model cnn --layers 2");
  tt_fails(1, "the model 'transformer' reads --text, not --data", "train --model transformer --data /tmp");
  tt_fails(1, "learns from fashion-mnist, not from text", "train text --model cnn");
  tt_fails(1, "learns from text, not from fashion-mnist", "train fashion-mnist --model transformer");
}

TN_TEST(frontends_text, a_loss_that_is_no_number_ends_training_with_words) {
  write_cycle("cycle", 1000);
  tt_fails(1, "training went astray",
           "train " SMALL " --epochs 3 --lr 1e6 --warmup 0 --clip 0 --text '%s' --save '%s'", place("cycle"),
           place("astray"));
  TN_CHECK(access(place("astray"), F_OK) != 0);
}

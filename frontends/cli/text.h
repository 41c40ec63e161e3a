/* SPDX-License-Identifier: Apache-2.0
 *
 * Text as training sees it: code points of files (text_read.c); their vocabulary, datasets of windows, and the bigram
 * model to compare with (text_set.c).
 *
 * Note [Text data]
 * The first 90 % of the code points train, the rest tests. The vocabulary is that of the first part, in order of code
 * points, behind one declared symbol: entry 0 is U+FFFD, which stands for every character that the vocabulary lacks, in
 * the test part and in other texts. A window of `context` characters predicts, at each place, the next one. Training
 * cuts windows side by side; each epoch begins its first window at another place, drawn from (seed, epoch), so that
 * the cuts differ. In the test part each character is predicted exactly once, from at most `context` before it.
 */
#ifndef TENON_CLI_TEXT_H
#define TENON_CLI_TEXT_H

#include <stddef.h>
#include <tenon/data.h>

#define TNI_TEXT_FOLDER "/usr/share/common-licenses"
enum { TNI_TEXT_UNKNOWN = 0xFFFD, TNI_TEXT_POINTS = 0x110000 };

/* ------------------------------------------------------------------ reading (text_read.c) */

typedef struct tni_text {
  uint32_t *points;
  size_t count, capacity;
  char sha256[65]; /* of the bytes */
} tni_text;
/* A file, or the files of a folder (not of folders in it, nor hidden ones) joined in the order of their names as
 * bytes; a link to a file that is read anyway is left out. TN_ERR_DATA: empty, or a byte that is no UTF-8 (its offset
 * is named). out_text is zeroed on failure. */
tn_status tni_text_read(const char *path, tni_text *out_text);
void tni_text_free(tni_text *text);
/* Bytes of the first code point in n >= 1 bytes, 0 if they are not UTF-8. */
size_t tni_utf8_decode(const unsigned char *bytes, size_t n, uint32_t *out_point);
/* The code point as UTF-8 with a NUL; returns its number of bytes. */
size_t tni_utf8_encode(uint32_t point, char out_bytes[5]);

/* ------------------------------------------------------------------ vocabulary (text_set.c) */

typedef struct tni_vocabulary {
  uint32_t *points; /* of each entry; the first is TNI_TEXT_UNKNOWN, the others rise */
  int64_t count;
  int32_t *entries; /* of each code point; 0: unknown */
} tni_vocabulary;
tn_status tni_vocabulary_of(const uint32_t *points, size_t n, tni_vocabulary *out_vocabulary);
/* int64 [count] (owned), and back; what could not come from there is TN_ERR_DATA. */
tn_status tni_vocabulary_tensor(const tni_vocabulary *vocabulary, tn_tensor **out_tensor);
tn_status tni_vocabulary_from(tn_tensor *tensor, tni_vocabulary *out_vocabulary);
void tni_vocabulary_free(tni_vocabulary *vocabulary);

/* ------------------------------------------------------------------ data (text_set.c) */

/* See Note [Text data]. Fields of the sets: int64 [n, context] characters and, one place on, their successors; -100
 * (ignored by cross_entropy_loss) fills what lies behind the end. */
typedef struct tni_text_data {
  tni_vocabulary vocabulary;
  tn_dataset *train_set, *test_set;
  struct windows *train_windows; /* inside train_set */
  int64_t n_train, n_test;       /* characters */
  int64_t n_unknown;             /* of the test's characters */
  double bigram_loss; /* of the test's characters, in nats each, by counts of the training part plus one */
  char sha256[65];
} tni_text_data;
/* known: the vocabulary to use, copied; NULL: that of the training part. TN_ERR_DATA: too short for the context. */
tn_status tni_text_open(const char *path, int64_t context, const tni_vocabulary *known,
                        tni_text_data *out_data);
void tni_text_close(tni_text_data *data);
/* Cuts the training windows for an epoch; no loader may be running. */
void tni_text_begin_epoch(tni_text_data *data, uint64_t seed, int64_t epoch);

#endif

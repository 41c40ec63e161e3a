/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets and files: the tensor dataset, IDX files of every kind of damage, Fashion-MNIST with wrong parts.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <tenon/data.h>

#include "tools.h"

/* ------------------------------------------------------------------ tensor dataset */

TN_TEST(frontends_data, tensor_dataset_gathers_rows) {
  tn_tensor *a = TT_VECTOR(10, 11, 12), *b = TT_VECTOR(0, 1, 2), *out[2];
  tn_dataset *d = NULL;
  TN_CHECK_OK(tn_tensor_dataset_new((tn_tensor *[]){a, b}, 2, &d));
  TN_CHECK_INT(tn_dataset_length(d), 3);
  TN_CHECK_OK(tn_dataset_get(d, (const int64_t[]){2, 0}, 2, out, 2));
  TN_CHECK_DOUBLE(tt_at(out[0], 0), 12, 0);
  TN_CHECK_DOUBLE(tt_at(out[1], 1), 0, 0);
  tn_tensor_release(out[0]);
  tn_tensor_release(out[1]);
  TN_CHECK_FAILS(tn_dataset_get(d, (const int64_t[]){3}, 1, out, 2), TN_ERR_INVALID_ARGUMENT,
                 "index 3 is outside");
  TN_CHECK_PTR_NULL(out[0]);
  TN_CHECK_FAILS(tn_dataset_get(d, (const int64_t[]){0}, 1, out, 1), TN_ERR_INVALID_ARGUMENT, "2 fields");
  tn_dataset_release(d);
  tn_tensor *short_one = TT_VECTOR(1);
  TN_CHECK_FAILS(tn_tensor_dataset_new((tn_tensor *[]){a, short_one}, 2, &d), TN_ERR_INVALID_ARGUMENT,
                 "has 1 rows, the first 3");
  tn_tensor_release(short_one);
  tn_tensor_release(b);
  tn_tensor_release(a);
}

static tn_status wrong_rows(void *ctx, const int64_t *indices, size_t n, tn_tensor **out_fields,
                            size_t n_fields) {
  const tn_dim size = 1;
  return tn_zeros(&size, 1, NULL, &out_fields[0]);
}

TN_TEST(frontends_data, a_dataset_that_lies_is_caught) {
  static const tn_dataset_def def = {wrong_rows, NULL};
  tn_dataset *d = NULL;
  tn_tensor *out = NULL;
  TN_CHECK_OK(tn_dataset_new(&def, NULL, 4, 1, &d));
  TN_CHECK_FAILS(tn_dataset_get(d, (const int64_t[]){0, 1}, 2, &out, 1), TN_ERR_STATE, "a tensor of 2 rows");
  TN_CHECK_PTR_NULL(out);
  tn_dataset_release(d);
}

/* ------------------------------------------------------------------ IDX */

static const unsigned char bytes_2x3[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255};

TN_TEST(frontends_data, idx_of_bytes) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_idx_read(tt_file("a.idx", bytes_2x3, sizeof bytes_2x3), &t));
  TN_CHECK_INT(tn_tensor_dtype(t), TN_UINT8);
  TN_CHECK_INT(tn_tensor_ndim(t), 2);
  TN_CHECK_INT(tn_tensor_sizes(t)[1], 3);
  TN_CHECK_DOUBLE(tt_at(t, 5), 255, 0);
  tn_tensor_release(t);
}

TN_TEST(frontends_data, idx_of_big_endian_numbers) {
  static const unsigned char ints[] = {0, 0, 0x0C, 1, 0, 0, 0, 2, 0, 0, 1, 0, 255, 255, 255, 254};
  static const unsigned char reals[] = {0, 0, 0x0D, 1, 0, 0, 0, 1, 0x3F, 0xC0, 0, 0};
  static const unsigned char scalar[] = {0, 0, 0x08, 0, 9};
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_idx_read(tt_file("a.idx", ints, sizeof ints), &t));
  TN_CHECK_DOUBLE(tt_at(t, 0), 256, 0);
  TN_CHECK_DOUBLE(tt_at(t, 1), -2, 0);
  tn_tensor_release(t);
  TN_CHECK_OK(tn_idx_read(tt_file("a.idx", reals, sizeof reals), &t));
  TN_CHECK_DOUBLE(tt_at(t, 0), 1.5, 0);
  tn_tensor_release(t);
  TN_CHECK_OK(tn_idx_read(tt_file("a.idx", scalar, sizeof scalar), &t));
  TN_CHECK_INT(tn_tensor_ndim(t), 0);
  tn_tensor_release(t);
}

/* The same 18 bytes as one stored block of a gzip member. */
static const unsigned char gzipped[] = {0x1f, 0x8b, 8, 0, 0,   0,    0,    0,    0,    3,  1, 18, 0, 0xED,
                                        0xFF, 0,    0, 8, 2,   0,    0,    0,    2,    0,  0, 0,  3, 1,
                                        2,    3,    4, 5, 255, 0xF0, 0xDE, 0x5F, 0x21, 18, 0, 0,  0};

TN_TEST(frontends_data, idx_compressed) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_idx_read(tt_file("a.gz", gzipped, sizeof gzipped), &t));
  TN_CHECK_DOUBLE(tt_at(t, 5), 255, 0);
  tn_tensor_release(t);
}

TN_TEST(frontends_data, idx_compressed_and_damaged) {
  unsigned char damaged[sizeof gzipped];
  tn_tensor *t = NULL;
  memcpy(damaged, gzipped, sizeof damaged);
  damaged[30] ^= 1; /* the checksum no longer fits */
  TN_CHECK_FAILS(tn_idx_read(tt_file("a.gz", damaged, sizeof damaged), &t), TN_ERR_DATA,
                 "damaged compressed data");
  TN_CHECK_FAILS(tn_idx_read(tt_file("a.gz", gzipped, 25), &t), TN_ERR_DATA, "the header ends inside dim");
  TN_CHECK_FAILS(tn_idx_read(tt_file("a.gz", gzipped, 30), &t), TN_ERR_DATA,
                 "6 bytes of data were expected, 3");
  TN_CHECK_FAILS(tn_idx_read(tt_file("a.gz", gzipped, sizeof gzipped - 4), &t), TN_ERR_DATA, "truncated");
  TN_CHECK_PTR_NULL(t);
}

TN_TEST(frontends_data, idx_malformed) {
  unsigned char bad[sizeof bytes_2x3 + 1] = {0};
  tn_tensor *t = NULL;
  char missing[600];
  memcpy(bad, bytes_2x3, sizeof bytes_2x3);
  TN_CHECK_FAILS(tn_idx_read(tt_file("a.idx", bad, sizeof bad), &t), TN_ERR_DATA, "too long: 6 bytes");
  TN_CHECK_FAILS(tn_idx_read(tt_file("a.idx", bad, 16), &t), TN_ERR_DATA,
                 "truncated: 6 bytes of data were expected, 4");
  TN_CHECK_CONTAINS(tn_error_message(), "a.idx");
  TN_CHECK_FAILS(tn_idx_read(tt_file("a.idx", bad, 9), &t), TN_ERR_DATA, "the header ends inside dim 1 of 2");
  TN_CHECK_FAILS(tn_idx_read(tt_file("a.idx", bad, 0), &t), TN_ERR_DATA, "the file has 0");
  bad[2] = 7;
  TN_CHECK_FAILS(tn_idx_read(tt_file("a.idx", bad, 18), &t), TN_ERR_DATA, "unknown IDX type code 0x07");
  bad[0] = 'P';
  TN_CHECK_FAILS(tn_idx_read(tt_file("a.idx", bad, 18), &t), TN_ERR_DATA, "begins with 50 00");
  memcpy(bad, bytes_2x3, sizeof bytes_2x3);
  memset(bad + 4, 0xFF, 8); /* claims 2^64 bytes: nothing of that may be allocated */
  TN_CHECK_FAILS(tn_idx_read(tt_file("a.idx", bad, 18), &t), TN_ERR_DATA, "more than 2^63");
  memset(bad + 4, 0, 8);
  bad[4] = bad[8] = 0x7F;
  TN_CHECK_FAILS(tn_idx_read(tt_file("a.idx", bad, 18), &t), TN_ERR_DATA, "truncated");
  snprintf(missing, sizeof missing, "%s/none.idx", tt_folder());
  TN_CHECK_FAILS(tn_idx_read(missing, &t), TN_ERR_NOT_FOUND, "none.idx: there is no such file");
  TN_CHECK_FAILS(tn_idx_read(tt_folder(), &t), TN_ERR_IO, "cannot be read");
}

/* ------------------------------------------------------------------ Fashion-MNIST */

static void write_images(const char *name, uint32_t n, int side) {
  size_t size = 16 + n * (size_t)(side * side);
  unsigned char *file = calloc(1, size);
  TN_CHECK(file != NULL);
  memcpy(file,
         (const unsigned char[]){0, 0, 8, 3, 0, 0, 0, (unsigned char)n, 0, 0, 0, (unsigned char)side, 0, 0, 0,
                                 (unsigned char)side},
         16);
  file[16] = 51;
  tt_file(name, file, size);
  free(file);
}

static void write_labels(const char *name, unsigned char n, unsigned char value) {
  unsigned char file[8 + 255] = {0, 0, 8, 1, 0, 0, 0, n};
  memset(file + 8, value, n);
  tt_file(name, file, 8u + n);
}

TN_TEST(frontends_data, fashion_mnist_reads_and_scales) {
  tn_dataset *d = NULL;
  tn_tensor *out[2];
  write_images("t10k-images-idx3-ubyte.gz", 3, 28);
  write_labels("t10k-labels-idx1-ubyte.gz", 3, 7);
  TN_CHECK_OK(tn_fashion_mnist_new(tt_folder(), false, &d));
  TN_CHECK_INT(tn_dataset_length(d), 3);
  TN_CHECK_OK(tn_dataset_get(d, (const int64_t[]){1, 0}, 2, out, 2));
  TN_CHECK_INT(tn_tensor_ndim(out[0]), 4);
  TN_CHECK_INT(tn_tensor_sizes(out[0])[3], 28);
  TN_CHECK_DOUBLE(tt_at(out[0], 784), 0.2f, 0); /* 51 / 255 */
  TN_CHECK_INT(tn_tensor_dtype(out[1]), TN_INT64);
  TN_CHECK_DOUBLE(tt_at(out[1], 1), 7, 0);
  tn_tensor_release(out[0]);
  tn_tensor_release(out[1]);
  tn_dataset_release(d);
}

TN_TEST(frontends_data, fashion_mnist_with_wrong_files) {
  tn_dataset *d = NULL;
  char missing[600];
  snprintf(missing, sizeof missing, "%s/nowhere", tt_folder());
  TN_CHECK_FAILS(tn_fashion_mnist_new(missing, true, &d), TN_ERR_NOT_FOUND, "train-images-idx3-ubyte.gz");
  write_images("t10k-images-idx3-ubyte.gz", 3, 28);
  write_labels("t10k-labels-idx1-ubyte.gz", 4, 7);
  TN_CHECK_FAILS(tn_fashion_mnist_new(tt_folder(), false, &d), TN_ERR_DATA, "one for each image");
  write_labels("t10k-labels-idx1-ubyte.gz", 3, 10);
  TN_CHECK_FAILS(tn_fashion_mnist_new(tt_folder(), false, &d), TN_ERR_DATA, "label 0 is 10");
  write_images("t10k-images-idx3-ubyte.gz", 3, 27);
  TN_CHECK_FAILS(tn_fashion_mnist_new(tt_folder(), false, &d), TN_ERR_DATA,
                 "[N, 28, 28] were expected, uint8 [3, 27, 27]");
  TN_CHECK_PTR_NULL(d);
}

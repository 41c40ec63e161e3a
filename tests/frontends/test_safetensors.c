/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors files: what is written is read back in place, every rule of the header has a file that breaks it, and
 * a save that fails leaves the old file and nothing else.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <tenon/files.h>
#include <unistd.h>

#include "damage.h"

/* A path in the test's folder, borrowed until the next call. */
static const char *place(const char *name) {
  static char path[600];
  snprintf(path, sizeof path, "%s/%s", tt_folder(), name);
  return path;
}

/* Header and data as a file's bytes; returns the path. */
static const char *write_raw(const char *header, const void *data, size_t data_bytes) {
  unsigned char file[2048] = {0};
  size_t n = strlen(header);
  TN_CHECK(8 + n + data_bytes <= sizeof file);
  file[0] = (unsigned char)n;
  file[1] = (unsigned char)(n >> 8);
  memcpy(file + 8, header, n);
  memcpy(file + 8 + n, data, data_bytes);
  return tt_file("a.safetensors", file, 8 + n + data_bytes);
}

static tn_status open_raw(const char *header, size_t data_bytes) {
  static const unsigned char zeros[64];
  tn_safetensors *file = NULL;
  tn_status status = tn_safetensors_open(write_raw(header, zeros, data_bytes), &file);
  TN_CHECK((status == TN_OK) == (file != NULL));
  tn_safetensors_close(file);
  return status;
}

/* ------------------------------------------------------------------ round trip */

/* One tensor of each dtype, a scalar, an empty one, and one that is not contiguous. */
static tn_state_dict *make_dict(void) {
  static const tn_dtype dtypes[] = {TN_BOOL,  TN_UINT8,   TN_INT8,     TN_INT16,   TN_INT32,
                                    TN_INT64, TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64};
  const tn_dim sizes[] = {2, 3}, empty[] = {3, 0};
  tn_state_dict *dict = NULL;
  tn_tensor *t = NULL, *turned = NULL;
  TN_CHECK_OK(tn_state_dict_new(&dict));
  for (size_t i = 0; i < sizeof dtypes; i++) {
    unsigned char data[48];
    char name[32];
    for (size_t b = 0; b < sizeof data; b++)
      data[b] = dtypes[i] == TN_BOOL ? b & 1 : (unsigned char)(b * 7 + i);
    TN_CHECK_OK(tn_tensor_from_host(data, sizes, 2, TN_OPTIONS(.dtype = dtypes[i]), &t));
    snprintf(name, sizeof name, "of \"%s\"\n", tn_dtype_name(dtypes[i]));
    TN_CHECK_OK(tn_state_dict_put(dict, name, t));
    tn_tensor_release(t);
  }
  TN_CHECK_OK(tn_state_dict_put_number(dict, "\xC3\xA9", 0.5));
  TN_CHECK_OK(tn_zeros(empty, 2, NULL, &t));
  TN_CHECK_OK(tn_state_dict_put(dict, "", t));
  tn_tensor_release(t);
  TN_CHECK_OK(tn_t(tn_state_dict_get(dict, "of \"float32\"\n"), &turned));
  TN_CHECK(!tn_tensor_is_contiguous(turned));
  TN_CHECK_OK(tn_state_dict_put(dict, "turned", turned));
  tn_tensor_release(turned);
  return dict;
}

static void check_same(tn_tensor *a, tn_tensor *b) {
  unsigned char x[64], y[64];
  size_t size = (size_t)tn_tensor_numel(a) * tn_dtype_size(tn_tensor_dtype(a));
  TN_CHECK_NOT_NULL(b);
  TN_CHECK_INT(tn_tensor_dtype(a), tn_tensor_dtype(b));
  TN_CHECK_INT(tn_tensor_ndim(a), tn_tensor_ndim(b));
  for (int32_t d = 0; d < tn_tensor_ndim(a); d++) TN_CHECK_INT(tn_tensor_sizes(a)[d], tn_tensor_sizes(b)[d]);
  TN_CHECK(size <= sizeof x);
  TN_CHECK_OK(tn_tensor_to_host(a, x, size));
  TN_CHECK_OK(tn_tensor_to_host(b, y, size));
  TN_CHECK(memcmp(x, y, size) == 0);
}

TN_TEST(frontends_safetensors, round_trip) {
  tn_state_dict *dict = make_dict(), *back = NULL;
  const tn_file_note notes[] = {{"format", "tn"}, {"tab\t\x01", "\xF0\x9F\x99\x82 \\"}};
  TN_CHECK_OK(tn_safetensors_write(place("b.safetensors"), dict, notes, 2));
  TN_CHECK_OK(tn_safetensors_read(place("b.safetensors"), &back));
  TN_CHECK_INT(tn_state_dict_count(back), tn_state_dict_count(dict));
  for (size_t i = 0; i < tn_state_dict_count(dict); i++)
    check_same(tn_state_dict_tensor(dict, i), tn_state_dict_get(back, tn_state_dict_name(dict, i)));
  tn_safetensors *file = NULL;
  TN_CHECK_OK(tn_safetensors_open(place("b.safetensors"), &file));
  TN_CHECK_STR(tn_safetensors_note(file, "tab\t\x01"), "\xF0\x9F\x99\x82 \\");
  TN_CHECK_PTR_NULL(tn_safetensors_note(file, "nothing"));
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_safetensors_tensor(file, "turned", &t));
  TN_CHECK_INT(tn_tensor_sizes(t)[0], 3);
  tn_tensor_release(t);
  TN_CHECK_FAILS(tn_safetensors_tensor(file, "turn", &t), TN_ERR_NOT_FOUND, "no tensor 'turn'");
  tn_safetensors_close(file);
  tn_state_dict_release(back);
  tn_state_dict_release(dict);
}

TN_TEST(frontends_safetensors, read_tensors_lie_in_the_file_and_outlive_it) {
  tn_tensor *a = TT_VECTOR(1, 2, 3), *kept, *fresh = NULL;
  tn_state_dict *dict = NULL, *back = NULL;
  TN_CHECK_OK(tn_state_dict_new(&dict));
  TN_CHECK_OK(tn_state_dict_put(dict, "a", a));
  TN_CHECK_OK(tn_state_dict_put(dict, "b", a));
  TN_CHECK_OK(tn_safetensors_write(place("c.safetensors"), dict, NULL, 0));
  TN_CHECK_OK(tn_safetensors_read(place("c.safetensors"), &back));
  kept = tn_tensor_retain(tn_state_dict_get(back, "a"));
  TN_CHECK((char *)tn_tensor_data(tn_state_dict_get(back, "b")) - (char *)tn_tensor_data(kept) == 12);
  TN_CHECK_FAILS(tn_fill_(kept, tn_float(0)), TN_ERR_INVALID_ARGUMENT, "read-only");
  /* The file is replaced while it is mapped: a reader keeps what it has. */
  TN_CHECK_OK(tn_mul(a, a, &fresh));
  TN_CHECK_OK(tn_state_dict_put(dict, "a", fresh));
  TN_CHECK_OK(tn_safetensors_write(place("c.safetensors"), dict, NULL, 0));
  tn_state_dict_release(back);
  TN_CHECK_DOUBLE(tt_at(kept, 2), 3, 0);
  /* A file can be written from its own mapping. */
  TN_CHECK_OK(tn_safetensors_read(place("c.safetensors"), &back));
  TN_CHECK_OK(tn_safetensors_write(place("c.safetensors"), back, NULL, 0));
  TN_CHECK_DOUBLE(tt_at(tn_state_dict_get(back, "a"), 2), 9, 0);
  tn_state_dict_release(back);
  tn_state_dict_release(dict);
  tn_tensor_release(fresh);
  tn_tensor_release(kept);
  tn_tensor_release(a);
}

TN_TEST(frontends_safetensors, data_that_is_not_aligned_is_copied) {
  static const char header[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                               "\"f\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]}}";
  unsigned char data[9] = {7};
  const float values[] = {1.5f, -2.0f};
  tn_state_dict *back = NULL;
  memcpy(data + 1, values, sizeof values);
  TN_CHECK_OK(tn_safetensors_read(write_raw(header, data, sizeof data), &back));
  TN_CHECK_INT((uintptr_t)tn_tensor_data(tn_state_dict_get(back, "f")) % sizeof(float), 0);
  TN_CHECK_DOUBLE(tt_at(tn_state_dict_get(back, "f"), 1), -2, 0);
  TN_CHECK_STR(tn_state_dict_name(back, 0), "b");
  tn_state_dict_release(back);
}

TN_TEST(frontends_safetensors, the_writer_orders_and_pads) {
  tn_state_dict *dict = NULL;
  tn_tensor *byte = NULL, *a = TT_VECTOR(1);
  const tn_dim one = 1;
  unsigned char text[512];
  TN_CHECK_OK(tn_tensor_from_host("\x05", &one, 1, TN_OPTIONS(.dtype = TN_UINT8), &byte));
  TN_CHECK_OK(tn_state_dict_new(&dict));
  TN_CHECK_OK(tn_state_dict_put(dict, "a", byte));
  TN_CHECK_OK(tn_state_dict_put(dict, "z", a));
  TN_CHECK_OK(tn_state_dict_put(dict, "y", a));
  TN_CHECK_OK(tn_safetensors_write(place("d.safetensors"), dict, NULL, 0));
  FILE *file = fopen(place("d.safetensors"), "rb");
  TN_CHECK_NOT_NULL(file);
  size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[n] = 0;
  TN_CHECK_INT(text[0] % 8, 0);
  TN_CHECK_INT(8 + text[0] + 9, n);
  TN_CHECK(!strncmp((char *)text + 8,
                    "{\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                    "\"z\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
                    "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,9]}}",
                    150));
  tn_state_dict_release(dict);
  tn_tensor_release(a);
  tn_tensor_release(byte);
}

TN_TEST(frontends_safetensors, what_cannot_be_written_is_refused_before_a_file_is_made) {
  tn_state_dict *dict = NULL;
  tn_tensor *a = TT_VECTOR(1);
  TN_CHECK_OK(tn_state_dict_new(&dict));
  TN_CHECK_OK(tn_state_dict_put(dict, "bad \xFF", a));
  TN_CHECK_FAILS(tn_safetensors_write(place("none"), dict, NULL, 0), TN_ERR_INVALID_ARGUMENT, "not UTF-8");
  tn_state_dict_release(dict);
  TN_CHECK_OK(tn_state_dict_new(&dict));
  TN_CHECK_OK(tn_state_dict_put(dict, "__metadata__", a));
  TN_CHECK_FAILS(tn_safetensors_write(place("none"), dict, NULL, 0), TN_ERR_INVALID_ARGUMENT, "__metadata__");
  TN_CHECK_FAILS(tn_safetensors_write(place("none"), dict, &(tn_file_note){"a", NULL}, 1),
                 TN_ERR_INVALID_ARGUMENT, "");
  TN_CHECK_FAILS(tn_safetensors_write(place("none"), dict, (tn_file_note[]){{"a", "1"}, {"b", "2"}, {"a", "3"}}, 3),
                 TN_ERR_INVALID_ARGUMENT, "two notes have the key 'a'");
  tn_state_dict_release(dict);
  tn_tensor_release(a);
  TN_CHECK_INT(access(place("none"), F_OK), -1);
}

TN_TEST(frontends_safetensors, many_names) {
  enum { N = 3000 };
  tn_state_dict *dict = NULL, *back = NULL;
  char name[32];
  TN_CHECK_OK(tn_state_dict_new(&dict));
  for (int i = 0; i < N; i++) {
    snprintf(name, sizeof name, "layer.%d", i * 7 % N);
    TN_CHECK_OK(tn_state_dict_put_number(dict, name, i * 7 % N));
  }
  TN_CHECK_OK(tn_safetensors_write(place("many"), dict, NULL, 0));
  TN_CHECK_OK(tn_safetensors_read(place("many"), &back));
  TN_CHECK_INT(tn_state_dict_count(back), N);
  for (int i = 0; i < N; i++) {
    snprintf(name, sizeof name, "layer.%d", i);
    TN_CHECK_NOT_NULL(tn_state_dict_get(back, name));
    TN_CHECK_DOUBLE(tt_at(tn_state_dict_get(back, name), 0), i, 0);
  }
  TN_CHECK_PTR_NULL(tn_state_dict_get(back, "layer.3000"));
  tn_state_dict_release(back);
  tn_state_dict_release(dict);
}

/* ------------------------------------------------------------------ malformed */

#define ENTRY(dtype, shape, offsets) \
  "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define BAD(header, data_bytes, words) TN_CHECK_FAILS(open_raw(header, data_bytes), TN_ERR_DATA, words)

TN_TEST(frontends_safetensors, good_headers) {
  TN_CHECK_OK(open_raw("{}", 0));
  TN_CHECK_OK(open_raw("{}      ", 0));
  TN_CHECK_OK(open_raw("{ \"__metadata__\" : {} }", 0));
  TN_CHECK_OK(open_raw(ENTRY("F32", "[]", "[0,4]"), 4));
  TN_CHECK_OK(open_raw(ENTRY("F32", "[ 2 , 0 , 9 ]", "[0, 0]"), 0));
  TN_CHECK_OK(open_raw(ENTRY("F4", "[2]", "[0,1]"), 1));
  TN_CHECK_OK(open_raw("{\"\\ud83d\\ude42\\/\":{\"shape\":[],\"data_offsets\":[0,1],\"dtype\":\"U8\"}}", 1));
  tn_safetensors *file = NULL;
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_safetensors_open(write_raw(ENTRY("C64", "[1]", "[0,8]"), "12345678", 8), &file));
  TN_CHECK_FAILS(tn_safetensors_tensor(file, "a", &t), TN_ERR_UNSUPPORTED, "'a' has dtype C64");
  tn_safetensors_close(file);
}

TN_TEST(frontends_safetensors, malformed_text) {
  BAD("", 0, "byte 8: a header must begin with '{'");
  BAD(" {}", 0, "byte 8: a header must begin with '{'");
  BAD("{}\n", 0, "byte 10: only spaces may follow");
  BAD("{} {}", 0, "byte 11: only spaces may follow");
  BAD("{\"\xFF\":1}", 0, "byte 10: the header is not UTF-8");
  BAD("{\"\xC0\x80\":1}", 0, "byte 10: the header is not UTF-8");
  BAD("{\"\xED\xA0\x80\":1}", 0, "not UTF-8");
  BAD("{", 0, "byte 9: '\"' was expected, the end of the header is there");
  BAD("{\"a", 0, "byte 11: a string has no end");
  BAD("{\"a\\", 0, "a");
  BAD("{\"a\\\"", 0, "a string has no end");
  BAD("{\"\\q\":1}", 0, "byte 10: an unknown escape");
  BAD("{\"\\u12g4\":1}", 0, "four hex digits");
  BAD("{\"\\ud800\":1}", 0, "half of a surrogate pair");
  BAD("{\"\\ud800\\u0041\":1}", 0, "half of a surrogate pair");
  BAD("{\"\\udc00\":1}", 0, "half of a surrogate pair");
  BAD("{\"\\u0000\":1}", 0, "a NUL");
  BAD("{\"\t\":1}", 0, "control character 0x09");
  BAD("{\"a\":[[[[[[[[", 0, "byte 13: '{' was expected, '[' is there");
  BAD("{\"__metadata__\":{\"a\":1}}", 0, "'\"' was expected, '1' is there");
  BAD("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "a second \"__metadata__\"");
  BAD("{\"__metadata__\":{\"a\":\"1\",\"b\":\"2\",\"a\":\"3\"}}", 0, "byte 41: a second 'a'");
  BAD("{\"__metadata__\":{},}", 0, "'\"' was expected, '}' is there");
}

TN_TEST(frontends_safetensors, malformed_entries) {
  BAD("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 0, "is missing");
  BAD("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, "each once");
  BAD("{\"a\":{\"kind\":1}}", 0, "byte 14: dtype, shape and data_offsets were expected");
  BAD(ENTRY("F33", "[]", "[0,4]"), 4, "unknown dtype \"F33\"");
  BAD(ENTRY("U8", "[-1]", "[0,1]"), 1, "a whole number >= 0 was expected, '-' is there");
  BAD(ENTRY("U8", "[1.0]", "[0,1]"), 1, "']' was expected, '.' is there");
  BAD(ENTRY("U8", "[01]", "[0,1]"), 1, "a number begins with 0");
  BAD(ENTRY("U8", "[9223372036854775808]", "[0,1]"), 1, "2^63 or more");
  BAD(ENTRY("U8", "[4294967296,4294967296]", "[0,0]"), 0, "more than 2^63 bits");
  BAD(ENTRY("U8", "[4294967296,4294967296,0]", "[0,0]"), 0, "more than 2^63 bits");
  BAD(ENTRY("F32", "[4611686018427387904]", "[0,0]"), 0, "more than 2^63 bits");
  BAD(ENTRY("F4", "[3]", "[0,1]"), 1, "does not fill its last byte");
  BAD(ENTRY("F32", "[2]", "[0,4]"), 4, "has 8 bytes by its shape and 4 by its data_offsets");
  BAD(ENTRY("F32", "[1]", "[4,0]"), 4, "ends before it begins");
  BAD(ENTRY("U8", "[1]", "[1,2]"), 2, "begins at 1 of the data, 0 was expected");
  BAD(ENTRY("U8", "[1]", "[0,1]"), 2, "1 bytes of data were expected, 2 are there");
  BAD(ENTRY("U8", "[9]", "[0,9]"), 2, "9 bytes of data were expected, 2 are there");
  BAD("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
      3, "'b' begins at 1 of the data, 2 was expected");
  BAD("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
      "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
      0, "a second 'a'");
}

TN_TEST(frontends_safetensors, malformed_lengths_and_bools) {
  tn_safetensors *file = NULL;
  tn_state_dict *dict = NULL;
  TN_CHECK_FAILS(tn_safetensors_open(tt_file("e", "", 0), &file), TN_ERR_DATA, "byte 0: a header length");
  TN_CHECK_FAILS(tn_safetensors_open(tt_file("e", "\x02\0\0\0\0\0\0", 7), &file), TN_ERR_DATA, "byte 7");
  TN_CHECK_FAILS(tn_safetensors_open(tt_file("e", "\x03\0\0\0\0\0\0\0{}", 10), &file), TN_ERR_DATA,
                 "the file ends inside its header of 3 bytes");
  TN_CHECK_FAILS(tn_safetensors_open(tt_file("e", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10), &file),
                 TN_ERR_DATA, "at most 100000000");
  TN_CHECK_FAILS(tn_safetensors_open(place("nothing"), &file), TN_ERR_NOT_FOUND, "there is no such file");
  TN_CHECK_FAILS(tn_safetensors_open(tt_folder(), &file), TN_ERR_IO, "not a regular file");
  TN_CHECK_FAILS(tn_safetensors_read(write_raw(ENTRY("BOOL", "[3]", "[0,3]"), "\0\1\2", 3), &dict),
                 TN_ERR_DATA, "a bool must be 0 or 1, 2 is there");
  TN_CHECK_PTR_NULL(dict);
}

/* All tensors together are exactly the data. */
static tn_status read_whole(const char *path, size_t size_bytes) {
  tn_state_dict *dict = NULL;
  tn_status status = tn_safetensors_read(path, &dict);
  if (status != TN_OK) return status;
  size_t total = 0;
  for (size_t i = 0; i < tn_state_dict_count(dict); i++) {
    tn_tensor *t = tn_state_dict_tensor(dict, i);
    total += (size_t)tn_tensor_numel(t) * tn_dtype_size(tn_tensor_dtype(t));
    if (tn_tensor_numel(t)) tt_at(t, (size_t)tn_tensor_numel(t) - 1);
  }
  TN_CHECK(total + 8 + 2 <= size_bytes);
  tn_state_dict_release(dict);
  return TN_OK;
}

TN_TEST(frontends_safetensors, every_damaged_byte_is_a_status) {
  tn_tensor *a = TT_VECTOR(1, 2), *flag = NULL;
  tn_state_dict *dict = NULL;
  const tn_dim one = 1;
  unsigned char file[512];
  TN_CHECK_OK(tn_tensor_from_host("\x01", &one, 1, TN_OPTIONS(.dtype = TN_BOOL), &flag));
  TN_CHECK_OK(tn_state_dict_new(&dict));
  TN_CHECK_OK(tn_state_dict_put(dict, "w", a));
  TN_CHECK_OK(tn_state_dict_put(dict, "f\n", flag));
  TN_CHECK_OK(tn_safetensors_write(place("good"), dict, &(tn_file_note){"k", "v"}, 1));
  FILE *from = fopen(place("good"), "rb");
  TN_CHECK_NOT_NULL(from);
  size_t n = fread(file, 1, sizeof file, from);
  fclose(from);
  TN_CHECK(tt_damage(file, n, read_whole) > n + 1000);
  tn_state_dict_release(dict);
  tn_tensor_release(flag);
  tn_tensor_release(a);
}

/* ------------------------------------------------------------------ failing saves */

/* Files of the test's folder whose names begin so. */
static int count_files(const char *prefix) {
  int n = 0;
  DIR *dir = opendir(tt_folder());
  for (struct dirent *e; dir && (e = readdir(dir));) n += !strncmp(e->d_name, prefix, strlen(prefix));
  if (dir) closedir(dir);
  return n;
}

TN_TEST(frontends_safetensors, a_full_disk_leaves_the_old_file) {
  const tn_dim big = 100000;
  tn_state_dict *dict = NULL, *back = NULL;
  tn_tensor *a = TT_VECTOR(1, 2), *large = NULL;
  struct rlimit limit, small;
  TN_CHECK_OK(tn_state_dict_new(&dict));
  TN_CHECK_OK(tn_state_dict_put(dict, "a", a));
  TN_CHECK_OK(tn_safetensors_write(place("full"), dict, NULL, 0));
  TN_CHECK_OK(tn_zeros(&big, 1, NULL, &large));
  TN_CHECK_OK(tn_state_dict_put(dict, "large", large));
  TN_CHECK_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
  small = limit;
  small.rlim_cur = 100000;
  void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
  TN_CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
  tn_status status = tn_safetensors_write(place("full"), dict, NULL, 0);
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, old);
  TN_CHECK_FAILS(status, TN_ERR_IO, "full: cannot be written: File too large");
  TN_CHECK_INT(count_files("full"), 1);
  TN_CHECK_OK(tn_safetensors_read(place("full"), &back));
  TN_CHECK_INT(tn_state_dict_count(back), 1);
  tn_state_dict_release(back);
  TN_CHECK_OK(tn_safetensors_write(place("full"), dict, NULL, 0)); /* and then it can go on */
  TN_CHECK_INT(count_files("full"), 1);
  tn_state_dict_release(dict);
  tn_tensor_release(large);
  tn_tensor_release(a);
}

TN_TEST(frontends_safetensors, places_that_cannot_be_written) {
  tn_state_dict *dict = NULL;
  struct stat about;
  char link_path[600];
  TN_CHECK_OK(tn_state_dict_new(&dict));
  TN_CHECK_FAILS(tn_safetensors_write(place("nowhere/a"), dict, NULL, 0), TN_ERR_IO,
                 "nowhere/a: cannot be written");
  TN_CHECK_FAILS(tn_safetensors_write(tt_folder(), dict, NULL, 0), TN_ERR_IO, "not a regular file");
  TN_CHECK_FAILS(tn_safetensors_write("/dev/full", dict, NULL, 0), TN_ERR_IO, "not a regular file");
  TN_CHECK_FAILS(tn_safetensors_write(NULL, dict, NULL, 0), TN_ERR_INVALID_ARGUMENT, "path is NULL");
  /* A link stays one, and permissions stay. */
  tt_file("target", "old", 3);
  TN_CHECK_INT(chmod(place("target"), 0640), 0);
  snprintf(link_path, sizeof link_path, "%s", place("link"));
  TN_CHECK_INT(symlink("target", link_path), 0);
  TN_CHECK_OK(tn_safetensors_write(link_path, dict, NULL, 0));
  TN_CHECK_INT(lstat(link_path, &about), 0);
  TN_CHECK(S_ISLNK(about.st_mode));
  TN_CHECK_INT(stat(place("target"), &about), 0);
  TN_CHECK_INT(about.st_mode & 0777, 0640);
  TN_CHECK_INT(about.st_size, 16);
  tn_state_dict_release(dict);
}

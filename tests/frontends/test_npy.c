/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's files: headers of every version and order, archives stored, deflated and with zip64 fields, and damage.
 * The archives are built here byte by byte; one is as NumPy wrote it.
 */
#include <stdio.h>
#include <tenon/files.h>

#include "damage.h"

/* ------------------------------------------------------------------ npy */

typedef struct bytes {
  unsigned char at[2048];
  size_t n;
} bytes;

static void put(bytes *b, const void *data, size_t n) {
  TN_CHECK(b->n + n <= sizeof b->at);
  memcpy(b->at + b->n, data, n);
  b->n += n;
}

static void put_number(bytes *b, uint64_t value, int n) {
  for (int i = 0; i < n; i++, value >>= 8) put(b, &(unsigned char){(unsigned char)value}, 1);
}

/* An npy array with this dict text, of a version. */
static bytes npy(int major, const char *text, const void *data, size_t data_bytes) {
  bytes b = {.n = 0};
  put(&b, "\x93NUMPY", 6);
  put_number(&b, (uint64_t)major, 2);
  put_number(&b, strlen(text), major == 1 ? 2 : 4);
  put(&b, text, strlen(text));
  put(&b, data, data_bytes);
  return b;
}

static tn_status read_npy(const bytes *b, tn_tensor **out_tensor) {
  return tn_npy_read(tt_file("a.npy", b->at, b->n), out_tensor);
}

static tn_status read_text(const char *text, size_t data_bytes) {
  static const unsigned char zeros[64];
  bytes b = npy(1, text, zeros, data_bytes);
  tn_tensor *t = NULL;
  tn_status status = read_npy(&b, &t);
  TN_CHECK((status == TN_OK) == (t != NULL));
  tn_tensor_release(t);
  return status;
}

TN_TEST(frontends_npy, round_trip) {
  static const tn_dtype dtypes[] = {TN_BOOL,  TN_UINT8,   TN_INT8,    TN_INT16,  TN_INT32,
                                    TN_INT64, TN_FLOAT16, TN_FLOAT32, TN_FLOAT64};
  const tn_dim sizes[] = {2, 3};
  char path[600];
  snprintf(path, sizeof path, "%s/b.npy", tt_folder());
  for (size_t i = 0; i < sizeof dtypes; i++) {
    unsigned char data[48], back[48];
    tn_tensor *t = NULL, *turned = NULL, *read = NULL;
    for (size_t b = 0; b < sizeof data; b++)
      data[b] = dtypes[i] == TN_BOOL ? b & 1 : (unsigned char)(b * 5 + i);
    size_t size = 6 * tn_dtype_size(dtypes[i]);
    TN_CHECK_OK(tn_tensor_from_host(data, sizes, 2, TN_OPTIONS(.dtype = dtypes[i]), &t));
    TN_CHECK_OK(tn_t(t, &turned));
    TN_CHECK_OK(tn_npy_write(path, turned));
    TN_CHECK_OK(tn_npy_read(path, &read));
    TN_CHECK_INT(tn_tensor_dtype(read), dtypes[i]);
    TN_CHECK_INT(tn_tensor_sizes(read)[0], 3);
    TN_CHECK_OK(tn_tensor_to_host(turned, data, size));
    TN_CHECK_OK(tn_tensor_to_host(read, back, size));
    TN_CHECK(memcmp(data, back, size) == 0);
    tn_tensor_release(read);
    tn_tensor_release(turned);
    tn_tensor_release(t);
  }
}

TN_TEST(frontends_npy, what_is_written) {
  tn_tensor *t = TT_VECTOR(1, 2), *half = NULL;
  unsigned char text[256];
  char path[600];
  snprintf(path, sizeof path, "%s/c.npy", tt_folder());
  TN_CHECK_OK(tn_npy_write(path, t));
  FILE *file = fopen(path, "rb");
  TN_CHECK_NOT_NULL(file);
  TN_CHECK_INT(fread(text, 1, sizeof text, file), 128 + 8);
  fclose(file);
  TN_CHECK(!memcmp(text, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
                   67));
  TN_CHECK_INT(text[127], '\n');
  TN_CHECK_OK(tn_to_dtype(t, TN_BFLOAT16, false, false, TN_MEMORY_FORMAT_NONE, &half));
  TN_CHECK_FAILS(tn_npy_write(path, half), TN_ERR_UNSUPPORTED, "no dtype for bfloat16");
  tn_tensor_release(half);
  tn_tensor_release(t);
}

TN_TEST(frontends_npy, versions_and_orders) {
  static const char fortran[] = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }   \n";
  static const char big[] = "{\"shape\":(2,),\"fortran_order\":False,\"descr\":\">i2\"}";
  const float values[] = {1, 2, 3, 4, 5, 6};
  tn_tensor *t = NULL;
  for (int major = 1; major <= 3; major++) {
    bytes b = npy(major, fortran, values, sizeof values);
    TN_CHECK_OK(read_npy(&b, &t));
    TN_CHECK_INT(tn_tensor_sizes(t)[1], 3);
    TN_CHECK_DOUBLE(tt_at(t, 1), 3, 0);
    TN_CHECK_DOUBLE(tt_at(t, 3), 2, 0);
    tn_tensor_release(t);
  }
  bytes b = npy(1, big, "\x01\x02\xFF\xFE", 4);
  TN_CHECK_OK(read_npy(&b, &t));
  TN_CHECK_DOUBLE(tt_at(t, 0), 258, 0);
  TN_CHECK_DOUBLE(tt_at(t, 1), -2, 0);
  tn_tensor_release(t);
  b = npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': ()}", "\1", 1);
  TN_CHECK_OK(read_npy(&b, &t));
  TN_CHECK_INT(tn_tensor_ndim(t), 0);
  tn_tensor_release(t);
}

#define DICT(descr, shape)           "{'descr': " descr ", 'fortran_order': False, 'shape': " shape "}"
#define BAD(text, data_bytes, words) TN_CHECK_FAILS(read_text(text, data_bytes), TN_ERR_DATA, words)

TN_TEST(frontends_npy, malformed) {
  TN_CHECK_OK(read_text(DICT("'<f4'", "(2, 0, 3)"), 0));
  BAD(DICT("'|O'", "()"), 0, "dtype '|O'; a bool or a number was expected");
  BAD(DICT("'<U3'", "()"), 12, "dtype '<U3'");
  BAD(DICT("[('a', '<f4')]", "()"), 4, "an array of structures");
  BAD(DICT("'|f4'", "()"), 4, "lacks a byte order");
  BAD(DICT("'<f4'", "(2)"), 8, "ends with a comma");
  BAD(DICT("'<f4'", "(-1,)"), 0, "a whole number >= 0 was expected, '-'");
  BAD(DICT("'<f4'", "(1 2)"), 8, "',' was expected");
  BAD(DICT("'<f4'", "(4294967296, 4294967296)"), 0, "more than 2^63 bits");
  BAD(DICT("'<f4'", "(9223372036854775808,)"), 0, "2^63 or more");
  BAD(DICT("'<f4'", "(2,)"), 7, "8 bytes of data were expected, 7 are there");
  BAD(DICT("'<f4'", "(2,)"), 9, "8 bytes of data were expected, 9 are there");
  BAD(DICT("'<f4'", "(2,)") " x", 8, "only blanks may follow");
  BAD("{'descr': '<f4', 'shape': (2,)}", 8, "is missing");
  BAD("{'descr': '<f4', 'descr': '<f4'}", 8, "each once");
  BAD("{'descr': __import__('os')}", 8, "''' was expected");
  BAD("{'fortran_order': 1}", 8, "True or False");
  TN_CHECK_FAILS(read_text(DICT("'<c8'", "()"), 8), TN_ERR_UNSUPPORTED, "dtype '<c8'");
}

TN_TEST(frontends_npy, malformed_around_the_dict) {
  tn_tensor *t = NULL;
  bytes b = npy(4, DICT("'<f4'", "()"), "1234", 4);
  TN_CHECK_FAILS(read_npy(&b, &t), TN_ERR_DATA, "byte 6: version 4.0");
  b = npy(1, DICT("'<f4'", "()"), "1234", 4);
  b.at[1] = 'M';
  TN_CHECK_FAILS(read_npy(&b, &t), TN_ERR_DATA, "byte 0: not an npy array");
  b = npy(2, DICT("'<f4'", "()"), "1234", 4);
  b.at[11] = 0xFF;
  TN_CHECK_FAILS(read_npy(&b, &t), TN_ERR_DATA, "at most 9988 were expected");
  b.n = 9;
  TN_CHECK_FAILS(read_npy(&b, &t), TN_ERR_DATA, "byte 9: the file ends inside the header");
  b.n = 0;
  TN_CHECK_FAILS(read_npy(&b, &t), TN_ERR_DATA, "not an npy array");
  TN_CHECK_PTR_NULL(t);
}

/* ------------------------------------------------------------------ npz */

static uint32_t crc_of(const unsigned char *data, size_t n) {
  uint32_t crc = 0xFFFFFFFF;
  for (size_t i = 0; i < n; i++) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

/* How an archive is built: what it says may differ from what it holds. */
typedef struct packing {
  const char *name;
  int method;        /* 8: as one stored block of a deflate stream */
  bool wide;         /* zip64 fields everywhere */
  int64_t plain_lie; /* added to the plain size that the directory says */
  uint32_t crc_lie;
  int twice; /* entries of the directory for the one member */
} packing;

static void put_sizes(bytes *z, const packing *p, size_t packed, size_t plain) {
  put_number(z, p->wide ? 0xFFFFFFFF : packed, 4);
  put_number(z, p->wide ? 0xFFFFFFFF : plain, 4);
  put_number(z, strlen(p->name), 2);
}

static void put_directory(bytes *z, const packing *p, uint32_t crc, size_t packed, size_t plain) {
  put(z, "PK\1\2\x14\0\x14\0\0\0", 10);
  put_number(z, (uint64_t)p->method, 2);
  put_number(z, 0, 4);
  put_number(z, crc, 4);
  put_sizes(z, p, packed, plain);
  put_number(z, p->wide ? 28 : 0, 2);
  put_number(z, 0, 10);
  put_number(z, p->wide ? 0xFFFFFFFF : 0, 4);
  put(z, p->name, strlen(p->name));
  if (!p->wide) return;
  put(z, "\1\0\x18\0", 4);
  put_number(z, plain, 8);
  put_number(z, packed, 8);
  put_number(z, 0, 8);
}

static void put_end(bytes *z, const packing *p, size_t directory) {
  size_t size = z->n - directory, end64 = z->n, count = 1 + (size_t)p->twice;
  if (p->wide) {
    put(z, "PK\6\6\x2C\0\0\0\0\0\0\0\x2D\0\x2D\0\0\0\0\0\0\0\0\0", 24);
    put_number(z, count, 8);
    put_number(z, count, 8);
    put_number(z, size, 8);
    put_number(z, directory, 8);
    put(z, "PK\6\7\0\0\0\0", 8);
    put_number(z, end64, 8);
    put_number(z, 1, 4);
  }
  put(z, "PK\5\6\0\0\0\0", 8);
  put_number(z, p->wide ? 0xFFFF : count, 2);
  put_number(z, p->wide ? 0xFFFF : count, 2);
  put_number(z, p->wide ? 0xFFFFFFFF : size, 4);
  put_number(z, p->wide ? 0xFFFFFFFF : directory, 4);
  put_number(z, 0, 2);
}

static bytes zip(const packing *p, const bytes *content) {
  bytes z = {.n = 0}, packed = {.n = 0};
  if (p->method == 8) {
    put_number(&packed, 1, 1);
    put_number(&packed, content->n, 2);
    put_number(&packed, ~content->n, 2);
  }
  put(&packed, content->at, content->n);
  uint32_t crc = crc_of(content->at, content->n) + p->crc_lie;
  size_t plain = content->n + (size_t)p->plain_lie;
  put(&z, "PK\3\4\x14\0\0\0", 8);
  put_number(&z, (uint64_t)p->method, 2);
  put_number(&z, 0, 4);
  put_number(&z, crc, 4);
  put_sizes(&z, p, packed.n, plain);
  put_number(&z, 0, 2);
  put(&z, p->name, strlen(p->name));
  put(&z, packed.at, packed.n);
  size_t directory = z.n;
  for (int i = 0; i <= p->twice; i++) put_directory(&z, p, crc, packed.n, plain);
  put_end(&z, p, directory);
  return z;
}

static tn_status read_zip(const packing *p, const char *dict_text, tn_state_dict **out_dict) {
  const float values[] = {1, 2};
  bytes content = npy(1, dict_text, values, sizeof values), z = zip(p, &content);
  return tn_npz_read(tt_file("a.npz", z.at, z.n), out_dict);
}

#define TWO DICT("'<f4'", "(2,)")

TN_TEST(frontends_npy, archives_stored_deflated_wide) {
  for (int kind = 0; kind < 4; kind++) {
    packing p = {.name = "weight.npy", .method = kind & 1 ? 8 : 0, .wide = kind & 2};
    tn_state_dict *dict = NULL;
    TN_CHECK_OK(read_zip(&p, TWO, &dict));
    TN_CHECK_INT(tn_state_dict_count(dict), 1);
    TN_CHECK_DOUBLE(tt_at(tn_state_dict_get(dict, "weight"), 1), 2, 0);
    tn_state_dict_release(dict);
  }
}

TN_TEST(frontends_npy, archives_that_lie) {
  tn_state_dict *dict = NULL;
  for (int method = 0; method <= 8; method += 8) {
    TN_CHECK_FAILS(read_zip(&(packing){.name = "a.npy", .method = method, .crc_lie = 1}, TWO, &dict),
                   TN_ERR_DATA, "the checksum of member 'a.npy' does not fit");
    TN_CHECK_FAILS(read_zip(&(packing){.name = "a.npy", .method = method}, DICT("'<f4'", "(9,)"), &dict),
                   TN_ERR_DATA, "36 bytes of data were expected, 8 are there");
    TN_CHECK_FAILS(read_zip(&(packing){.name = "a.txt", .method = method}, TWO, &dict), TN_ERR_DATA,
                   "is no .npy");
  }
  TN_CHECK_FAILS(read_zip(&(packing){.name = "a.npy", .plain_lie = 1}, TWO, &dict), TN_ERR_DATA,
                 "two sizes differ");
  TN_CHECK_FAILS(
      read_zip(&(packing){.name = "a.npy", .method = 8, .plain_lie = 4}, DICT("'<f4'", "(3,)"), &dict),
      TN_ERR_DATA, "shorter than the directory says");
  TN_CHECK_FAILS(
      read_zip(&(packing){.name = "a.npy", .method = 8, .plain_lie = -4}, DICT("'<f4'", "(1,)"), &dict),
      TN_ERR_DATA, "longer than its array");
  /* A bomb: what the header claims is held against what so few bytes can hold, before memory is taken. */
  TN_CHECK_FAILS(read_zip(&(packing){.name = "a.npy", .method = 8, .plain_lie = 1LL << 40, .wide = true},
                          DICT("'<f4'", "(274877906946,)"), &dict),
                 TN_ERR_DATA, "cannot be packed into");
  TN_CHECK_FAILS(read_zip(&(packing){.name = "a.npy", .method = 99}, TWO, &dict), TN_ERR_DATA, "method 99");
  TN_CHECK_FAILS(read_zip(&(packing){.name = "a.npy", .twice = 1}, TWO, &dict), TN_ERR_DATA,
                 "a second member");
  TN_CHECK_FAILS(read_zip(&(packing){.name = "a.npy", .twice = 9}, TWO, &dict), TN_ERR_DATA,
                 "a second member");
  TN_CHECK_PTR_NULL(dict);
}

/* numpy.savez_compressed(file, a=numpy.arange(6, dtype='f4').reshape(2, 3)) of NumPy 2.4 */
static const unsigned char from_numpy[] = {
    0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x4f, 0xe9, 0x00,
    0x2a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x05, 0x00, 0x14, 0x00, 0x61, 0x2e, 0x6e, 0x70,
    0x79, 0x01, 0x00, 0x10, 0x00, 0x98, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x55, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17, 0xea, 0x1b, 0x10, 0xc9, 0xc8, 0x50, 0xc6, 0x50, 0xad, 0x9e,
    0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e, 0xa5, 0xa0, 0x6e, 0x93, 0x66, 0xa2, 0xae, 0xa3, 0xa0, 0x9e, 0x96,
    0x5f, 0x54, 0x52, 0x94, 0x98, 0x17, 0x9f, 0x5f, 0x94, 0x92, 0x0a, 0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e,
    0x05, 0x8a, 0x17, 0x67, 0x24, 0x16, 0xa4, 0x02, 0xf9, 0x1a, 0x46, 0x3a, 0x0a, 0xc6, 0x9a, 0x3a, 0x0a,
    0xb5, 0x0a, 0x64, 0x03, 0x2e, 0x06, 0x30, 0x68, 0xb0, 0x07, 0x12, 0x0e, 0x40, 0x04, 0xc4, 0x0d, 0x40,
    0xbc, 0xc0, 0x01, 0x00, 0x50, 0x4b, 0x01, 0x02, 0x2d, 0x03, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00,
    0x00, 0x21, 0x00, 0x4f, 0xe9, 0x00, 0x2a, 0x55, 0x00, 0x00, 0x00, 0x98, 0x00, 0x00, 0x00, 0x05, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x61,
    0x2e, 0x6e, 0x70, 0x79, 0x50, 0x4b, 0x05, 0x06, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x01, 0x00, 0x33,
    0x00, 0x00, 0x00, 0x8c, 0x00, 0x00, 0x00, 0x00, 0x00};

TN_TEST(frontends_npy, an_archive_of_numpy) {
  tn_state_dict *dict = NULL;
  TN_CHECK_OK(tn_npz_read(tt_file("n.npz", from_numpy, sizeof from_numpy), &dict));
  TN_CHECK_INT(tn_tensor_sizes(tn_state_dict_get(dict, "a"))[1], 3);
  TN_CHECK_DOUBLE(tt_at(tn_state_dict_get(dict, "a"), 5), 5, 0);
  tn_state_dict_release(dict);
}

/* ------------------------------------------------------------------ damage */

static tn_status read_npy_whole(const char *path, size_t size_bytes) {
  tn_tensor *t = NULL;
  tn_status status = tn_npy_read(path, &t);
  if (status != TN_OK) return status;
  TN_CHECK((size_t)tn_tensor_numel(t) * tn_dtype_size(tn_tensor_dtype(t)) + 10 <= size_bytes);
  if (tn_tensor_numel(t)) tt_at(t, (size_t)tn_tensor_numel(t) - 1);
  tn_tensor_release(t);
  return TN_OK;
}

static tn_status read_npz_whole(const char *path, size_t size_bytes) {
  tn_state_dict *dict = NULL;
  tn_status status = tn_npz_read(path, &dict);
  if (status != TN_OK) return status;
  for (size_t i = 0; i < tn_state_dict_count(dict); i++) {
    tn_tensor *t = tn_state_dict_tensor(dict, i);
    TN_CHECK((size_t)tn_tensor_numel(t) <= 1032 * size_bytes);
    if (tn_tensor_numel(t)) tt_at(t, (size_t)tn_tensor_numel(t) - 1);
  }
  tn_state_dict_release(dict);
  return TN_OK;
}

TN_TEST(frontends_npy, every_damaged_byte_is_a_status) {
  const float values[] = {1, 2};
  bytes b = npy(1, TWO, values, sizeof values);
  TN_CHECK(tt_damage(b.at, b.n, read_npy_whole) > b.n);
  for (int kind = 0; kind < 4; kind++) {
    packing p = {.name = "w.npy", .method = kind & 1 ? 8 : 0, .wide = kind & 2};
    bytes z = zip(&p, &b);
    TN_CHECK(tt_damage(z.at, z.n, read_npz_whole) > z.n);
  }
  TN_CHECK(tt_damage(from_numpy, sizeof from_numpy, read_npz_whole) > sizeof from_numpy);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What readers and writers of tensor files share: a file mapped to memory, tensors over it, a scanner for text
 * headers, and a file that appears whole or not at all. Words about malformed files begin "PATH: byte OFFSET:".
 */
#ifndef TENON_NN_FILE_INT_H
#define TENON_NN_FILE_INT_H

#include <stdatomic.h>

#include "frontends/c/src/support.h"

#define TNI_BIG_ENDIAN (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) /* this machine */
/* Reverses the bytes of each element. */
void tni_file_swap(unsigned char *data, uint64_t size_bytes, size_t itemsize);

/* ------------------------------------------------------------------ reading (file_map.c) */

/* A whole regular file, mapped read-only. Counted from any thread: each tensor over it holds one count, so the
 * mapping ends with the last of them. */
typedef struct tni_file_map {
  _Atomic uint32_t refs;
  unsigned char *at; /* never written to; NULL if the file is empty */
  uint64_t size_bytes;
  char *path;
} tni_file_map;
tn_status tni_file_map_open(const char *path, tni_file_map **out_map); /* owned */
void tni_file_map_release(tni_file_map *map);                          /* NULL is allowed */

/* TN_ERR_DATA with the words "PATH: byte OFFSET: ...". */
tn_status tni_file_bad(const char *path, uint64_t offset, const char *format, ...) TN_PRINTF(3, 4);

/* Product of sizes, each counted as 1 at least, so that strides fit too; TN_ERR_DATA at offset if it, times bits,
 * is no int64. *out_bits is the true product times bits (0 if a size is). */
tn_status tni_file_bits(const char *path, uint64_t offset, const tn_dim *sizes, int32_t ndim, uint32_t bits,
                        uint64_t *out_bits);

/* What a header says about one tensor. */
typedef struct tni_file_array {
  tn_dtype dtype;
  bool swapped; /* bytes of an element are in the other order */
  bool fortran; /* first dim runs fastest */
  int32_t ndim;
  const tn_dim *sizes;
} tni_file_array;
/* A read-only tensor over size_bytes at offset, which were checked to lie in the map: in place if the address is
 * aligned for the dtype, else a copy. A bool that is neither 0 nor 1 is TN_ERR_DATA. */
tn_status tni_file_tensor(tni_file_map *map, uint64_t offset, uint64_t size_bytes,
                          const tni_file_array *array, tn_tensor **out_tensor);
/* The same over memory from malloc, which is consumed. path and offset are for words. */
tn_status tni_file_tensor_owned(const char *path, uint64_t offset, unsigned char *data, uint64_t size_bytes,
                                const tni_file_array *array, tn_tensor **out_tensor);

/* ------------------------------------------------------------------ text headers (file_scan.c) */

typedef struct tni_scan {
  const char *path;
  uint64_t base; /* of text in the file, for words */
  const unsigned char *text;
  size_t size, at;
} tni_scan;
tn_status tni_scan_bad(const tni_scan *scan, size_t at, const char *format, ...) TN_PRINTF(3, 4);
/* The end of the UTF-8 that text begins with: size if it all is. */
size_t tni_utf8_end(const unsigned char *text, size_t size);
/* Skips blanks (space, tab, line feed, carriage return), then takes c if it is next. */
bool tni_scan_take(tni_scan *scan, char c);
/* As above; TN_ERR_DATA names what was expected and what is there. */
tn_status tni_scan_expect(tni_scan *scan, char c);
/* A whole number without sign or leading zeros, up to INT64_MAX. */
tn_status tni_scan_number(tni_scan *scan, int64_t *out_number);
/* A JSON string; *out_text is owned, UTF-8, without NUL inside. The text was checked to be UTF-8. */
tn_status tni_scan_json_string(tni_scan *scan, char **out_text);

/* ------------------------------------------------------------------ writing (file_write.c) */

/* A file that takes the place of `path` when it is complete and on disk. Until then it is a sibling with a name of
 * its own; a failure removes it and leaves the old file alone. */
typedef struct tni_file_out {
  char *path, *temporary;
  int fd;
} tni_file_out;
tn_status tni_file_out_begin(tni_file_out *out, const char *path);
tn_status tni_file_out_add(tni_file_out *out, const void *data, size_t size_bytes);
/* The elements, row-major, little-endian. */
tn_status tni_file_out_tensor(tni_file_out *out, tn_tensor *tensor);
/* Ends it: with status TN_OK so far syncs and renames, else removes. Returns the first failure. */
tn_status tni_file_out_end(tni_file_out *out, tn_status status);

#endif

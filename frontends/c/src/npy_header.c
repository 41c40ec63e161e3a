/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of an npy array: magic number, version, length, and a Python dict literal of which exactly the three
 * members that NumPy writes are read. Nothing is evaluated.
 */
#include <stdio.h>

#include "frontends/c/src/npy_int.h"

/* ------------------------------------------------------------------ members */

/* 'text' or "text" without escapes; the text stands in scan->text. */
static tn_status read_string(tni_scan *scan, const char **out_text, size_t *out_size) {
  char quote = tni_scan_take(scan, '"') ? '"' : '\'';
  if (quote == '\'') TN_TRY(tni_scan_expect(scan, '\''));
  size_t begin = scan->at;
  const unsigned char *end = memchr(scan->text + begin, quote, scan->size - begin);
  if (!end) return tni_scan_bad(scan, scan->size, "a string has no end");
  *out_text = (const char *)scan->text + begin;
  *out_size = (size_t)(end - scan->text) - begin;
  scan->at = begin + *out_size + 1;
  return TN_OK;
}

/* "<f4": byte order, kind, bytes. */
static tn_status read_descr(tni_scan *scan, tni_npy *npy) {
  static const struct {
    char text[3];
    tn_dtype dtype; /* TN_DTYPE_NONE: known, not ours */
  } known[] = {{"b1", TN_BOOL},       {"u1", TN_UINT8},      {"i1", TN_INT8},       {"i2", TN_INT16},
               {"i4", TN_INT32},      {"i8", TN_INT64},      {"f2", TN_FLOAT16},    {"f4", TN_FLOAT32},
               {"f8", TN_FLOAT64},    {"u2", TN_DTYPE_NONE}, {"u4", TN_DTYPE_NONE}, {"u8", TN_DTYPE_NONE},
               {"c8", TN_DTYPE_NONE}, {"f1", TN_DTYPE_NONE}};
  const char *text;
  size_t n, at = scan->at, i = 0, count = sizeof known / sizeof *known;
  if (tni_scan_take(scan, '['))
    return tni_scan_bad(scan, at, "an array of structures; numbers were expected");
  TN_TRY(read_string(scan, &text, &n));
  if (n == 3 && memchr("<>|=", *text, 4))
    while (i < count && memcmp(known[i].text, text + 1, 2)) i++;
  else
    i = count;
  if (i == count)
    return tni_scan_bad(scan, at, "dtype '%.*s'; a bool or a number was expected", (int)(n < 40 ? n : 40),
                        text);
  if (known[i].dtype == TN_DTYPE_NONE)
    return tn_fail(TN_ERR_UNSUPPORTED, "%s: dtype '%.3s', which Tenon does not compute with", scan->path,
                   text);
  npy->array.dtype = known[i].dtype;
  bool one_byte = tn_dtype_size(known[i].dtype) == 1;
  if (*text == '|' && !one_byte) return tni_scan_bad(scan, at, "dtype '%.3s' lacks a byte order", text);
  npy->array.swapped = !one_byte && *text == (TNI_BIG_ENDIAN ? '<' : '>');
  return TN_OK;
}

static bool take_word(tni_scan *scan, const char *word) {
  size_t n = strlen(word);
  if (scan->size - scan->at < n || memcmp(scan->text + scan->at, word, n)) return false;
  scan->at += n;
  return true;
}

static tn_status read_order(tni_scan *scan, tni_npy *npy) {
  while (tni_scan_take(scan, ' ')) continue;
  npy->array.fortran = take_word(scan, "True");
  if (npy->array.fortran || take_word(scan, "False")) return TN_OK;
  return tni_scan_bad(scan, scan->at, "True or False was expected");
}

/* (), (3,), (3, 4); a comma may follow the last. */
static tn_status read_shape(tni_scan *scan, tni_npy *npy) {
  int32_t n = 0;
  bool comma = true;
  TN_TRY(tni_scan_expect(scan, '('));
  while (!tni_scan_take(scan, ')')) {
    if (!comma) return tni_scan_expect(scan, ',');
    if (n == TN_MAX_RANK) return tni_scan_bad(scan, scan->at, "more than %d dims in the shape", TN_MAX_RANK);
    TN_TRY(tni_scan_number(scan, &npy->sizes[n++]));
    comma = tni_scan_take(scan, ',');
  }
  if (n == 1 && !comma) return tni_scan_bad(scan, scan->at - 1, "a shape of one dim ends with a comma");
  npy->array.ndim = n;
  npy->array.sizes = npy->sizes;
  return TN_OK;
}

static tn_status read_dict(tni_scan *scan, tni_npy *npy) {
  static const char *const names[] = {"descr", "fortran_order", "shape"};
  unsigned seen = 0;
  bool comma = true;
  TN_TRY(tni_scan_expect(scan, '{'));
  while (!tni_scan_take(scan, '}')) {
    const char *text;
    size_t n, at = scan->at;
    unsigned which = 0;
    if (!comma) return tni_scan_expect(scan, ',');
    TN_TRY(read_string(scan, &text, &n));
    while (which < 3 && (strlen(names[which]) != n || memcmp(names[which], text, n))) which++;
    if (which == 3 || (seen & 1u << which))
      return tni_scan_bad(scan, at, "descr, fortran_order and shape were expected, each once");
    seen |= 1u << which;
    TN_TRY(tni_scan_expect(scan, ':'));
    TN_TRY(which == 0 ? read_descr(scan, npy) : which == 1 ? read_order(scan, npy) : read_shape(scan, npy));
    comma = tni_scan_take(scan, ',');
  }
  if (seen != 7) return tni_scan_bad(scan, scan->at - 1, "descr, fortran_order or shape is missing");
  return TN_OK;
}

/* ------------------------------------------------------------------ around them */

/* Sets the range of the dict. */
static tn_status read_prefix(tni_scan *scan) {
  static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
  const unsigned char *text = scan->text;
  if (scan->size < sizeof magic || memcmp(text, magic, sizeof magic))
    return tni_scan_bad(scan, 0, "not an npy array: \\x93NUMPY was expected");
  size_t wide = scan->size > 6 && text[6] >= 2 ? 4 : 2, begin = 8 + wide, n = 0;
  if (scan->size < begin) return tni_scan_bad(scan, scan->size, "the file ends inside the header");
  if (text[6] < 1 || text[6] > 3 || text[7] != 0)
    return tni_scan_bad(scan, 6, "version %u.%u; 1.0, 2.0 or 3.0 was expected", (unsigned)text[6],
                        (unsigned)text[7]);
  for (size_t i = wide; i-- > 0;) n = n << 8 | text[8 + i];
  if (n > TNI_NPY_HEADER_LIMIT - TNI_NPY_PREFIX)
    return tni_scan_bad(scan, 8, "a header of %zu bytes; at most %d were expected", n,
                        TNI_NPY_HEADER_LIMIT - TNI_NPY_PREFIX);
  if (n > scan->size - begin) return tni_scan_bad(scan, scan->size, "the file ends inside the header");
  scan->at = begin;
  scan->size = begin + n;
  return TN_OK;
}

tn_status tni_npy_header_read(const char *path, uint64_t base, const unsigned char *text, size_t size,
                              tni_npy *out_npy) {
  uint64_t bits;
  tni_scan scan = {.path = path, .base = base, .text = text, .size = size};
  memset(out_npy, 0, sizeof *out_npy);
  TN_TRY(read_prefix(&scan));
  TN_TRY(read_dict(&scan, out_npy));
  tni_scan_take(&scan, '\n'); /* with the blanks before it */
  if (scan.at < scan.size) return tni_scan_bad(&scan, scan.at, "only blanks may follow the header's '}'");
  uint32_t unit = (uint32_t)(8 * tn_dtype_size(out_npy->array.dtype));
  TN_TRY(tni_file_bits(path, base, out_npy->sizes, out_npy->array.ndim, unit, &bits));
  out_npy->header_bytes = scan.size;
  out_npy->data_bytes = bits / 8;
  return TN_OK;
}

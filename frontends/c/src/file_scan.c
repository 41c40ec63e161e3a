/* SPDX-License-Identifier: Apache-2.0
 *
 * The scanner behind the headers of safetensors and npy: it reads what the caller expects next and refuses all
 * else at its offset. There is no tree of values and no recursion, so a header can neither nest deeply nor claim
 * memory.
 */
#include <stdarg.h>
#include <stdio.h>

#include "frontends/c/src/file_int.h"

tn_status tni_scan_bad(const tni_scan *scan, size_t at, const char *format, ...) {
  char words[512];
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  return tni_file_bad(scan->path, scan->base + at, "%s", words);
}

/* What stands at a place, for words. */
static const char *describe(const tni_scan *scan, size_t at, char buffer[16]) {
  if (at >= scan->size) return "the end of the header";
  unsigned char c = scan->text[at];
  snprintf(buffer, 16, c > 0x20 && c < 0x7F ? "'%c'" : "0x%02x", c);
  return buffer;
}

/* ------------------------------------------------------------------ UTF-8 */

/* Length of the sequence at s, of which n bytes are there; 0 if it is none. Overlong forms and surrogates are
 * none. */
static size_t sequence(const unsigned char *s, size_t n) {
  if (s[0] < 0x80) return 1;
  size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
  if (s[0] < 0xC2 || s[0] > 0xF4 || length > n) return 0;
  for (size_t i = 1; i < length; i++)
    if ((s[i] & 0xC0) != 0x80) return 0;
  if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F)) return 0;
  if ((s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F)) return 0;
  return length;
}

size_t tni_utf8_end(const unsigned char *text, size_t size) {
  size_t at = 0;
  for (size_t n; at < size && (n = sequence(text + at, size - at)) > 0;) at += n;
  return at;
}

static size_t put_utf8(char *to, uint32_t code) {
  if (code < 0x80) return to[0] = (char)code, 1;
  if (code < 0x800) return to[0] = (char)(0xC0 | code >> 6), to[1] = (char)(0x80 | (code & 0x3F)), 2;
  if (code < 0x10000) {
    to[0] = (char)(0xE0 | code >> 12);
    to[1] = (char)(0x80 | (code >> 6 & 0x3F));
    to[2] = (char)(0x80 | (code & 0x3F));
    return 3;
  }
  to[0] = (char)(0xF0 | code >> 18);
  to[1] = (char)(0x80 | (code >> 12 & 0x3F));
  to[2] = (char)(0x80 | (code >> 6 & 0x3F));
  to[3] = (char)(0x80 | (code & 0x3F));
  return 4;
}

/* ------------------------------------------------------------------ marks and numbers */

static void skip_blanks(tni_scan *scan) {
  while (scan->at < scan->size && memchr(" \t\n\r", scan->text[scan->at], 4)) scan->at++;
}

bool tni_scan_take(tni_scan *scan, char c) {
  skip_blanks(scan);
  if (scan->at >= scan->size || scan->text[scan->at] != (unsigned char)c) return false;
  scan->at++;
  return true;
}

tn_status tni_scan_expect(tni_scan *scan, char c) {
  char there[16];
  if (tni_scan_take(scan, c)) return TN_OK;
  return tni_scan_bad(scan, scan->at, "'%c' was expected, %s is there", c, describe(scan, scan->at, there));
}

static bool is_digit(const tni_scan *scan, size_t at) {
  return at < scan->size && scan->text[at] >= '0' && scan->text[at] <= '9';
}

tn_status tni_scan_number(tni_scan *scan, int64_t *out_number) {
  char there[16];
  skip_blanks(scan);
  size_t begin = scan->at;
  int64_t value = 0;
  if (!is_digit(scan, begin))
    return tni_scan_bad(scan, begin, "a whole number >= 0 was expected, %s is there",
                        describe(scan, begin, there));
  for (; is_digit(scan, scan->at); scan->at++)
    if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
        __builtin_add_overflow(value, (int64_t)(scan->text[scan->at] - '0'), &value))
      return tni_scan_bad(scan, begin, "a number is 2^63 or more");
  if (scan->text[begin] == '0' && scan->at > begin + 1)
    return tni_scan_bad(scan, begin, "a number begins with 0");
  *out_number = value;
  return TN_OK;
}

/* ------------------------------------------------------------------ JSON strings */

/* Four hex digits. */
static tn_status read_hex(tni_scan *scan, uint32_t *out_code) {
  *out_code = 0;
  for (int i = 0; i < 4; i++, scan->at++) {
    int c = scan->at < scan->size ? scan->text[scan->at] : 0;
    int digit = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                     : -1;
    if (digit < 0) return tni_scan_bad(scan, scan->at, "\\u needs four hex digits");
    *out_code = *out_code << 4 | (uint32_t)digit;
  }
  return TN_OK;
}

/* What follows a backslash; at most as many bytes as it took. */
static tn_status read_escape(tni_scan *scan, char *to, size_t *inout_n) {
  static const char from[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  size_t begin = scan->at - 1;
  char c = scan->at < scan->size ? (char)scan->text[scan->at] : 0;
  const char *at = c ? strchr(from, c) : NULL;
  scan->at++;
  if (at) {
    to[(*inout_n)++] = meant[at - from];
    return TN_OK;
  }
  uint32_t code, low = 0;
  if (c != 'u') return tni_scan_bad(scan, begin, "an unknown escape in a string");
  TN_TRY(read_hex(scan, &code));
  if (code >= 0xD800 && code < 0xDC00) {
    bool more = scan->at + 1 < scan->size && scan->text[scan->at] == '\\' && scan->text[scan->at + 1] == 'u';
    scan->at += 2;
    if (more) TN_TRY(read_hex(scan, &low));
    if (low < 0xDC00 || low > 0xDFFF) return tni_scan_bad(scan, begin, "half of a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
  } else if (code >= 0xDC00 && code < 0xE000) {
    return tni_scan_bad(scan, begin, "half of a surrogate pair");
  }
  if (code == 0) return tni_scan_bad(scan, begin, "a NUL in a string");
  *inout_n += put_utf8(to + *inout_n, code);
  return TN_OK;
}

/* to has room for the rest of the string. */
static tn_status read_string(tni_scan *scan, char *to) {
  size_t n = 0;
  for (;;) {
    if (scan->at >= scan->size) return tni_scan_bad(scan, scan->size, "a string has no end");
    unsigned char c = scan->text[scan->at++];
    if (c == '"') break;
    if (c < 0x20) return tni_scan_bad(scan, scan->at - 1, "a control character 0x%02x in a string", c);
    if (c == '\\')
      TN_TRY(read_escape(scan, to, &n));
    else
      to[n++] = (char)c;
  }
  to[n] = 0;
  return TN_OK;
}

tn_status tni_scan_json_string(tni_scan *scan, char **out_text) {
  *out_text = NULL;
  TN_TRY(tni_scan_expect(scan, '"'));
  size_t end = scan->at;
  while (end < scan->size && scan->text[end] != '"') end += scan->text[end] == '\\' ? 2 : 1;
  char *text = NULL; /* escapes take more room in the file than decoded */
  TN_TRY(tni_nn_alloc(end - scan->at + 3, 1, "a string", &text));
  tn_status status = read_string(scan, text);
  if (status == TN_OK)
    *out_text = text;
  else
    free(text);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer. Numbers are printed with as few digits as give the same double back.
 */
#include "frontends/cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Length of the UTF-8 sequence at s (1 to 4), 0 if it is none. Overlong forms and surrogates are none. */
static int sequence(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  int n = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
  if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
  for (int i = 1; i < n; i++)
    if ((s[i] & 0xC0) != 0x80) return 0; /* also stops at the NUL */
  if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F)) return 0;
  if ((s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F)) return 0;
  return n;
}

static void quoted(FILE *file, const char *text) {
  fputc('"', file);
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    int n = sequence(s);
    if (*s == '"' || *s == '\\')
      fprintf(file, "\\%c", *s);
    else if (*s == '\n')
      fputs("\\n", file);
    else if (*s == '\t')
      fputs("\\t", file);
    else if (*s < 0x20)
      fprintf(file, "\\u%04x", *s);
    else if (n == 0)
      fputs("\\ufffd", file);
    else
      fwrite(s, 1, (size_t)n, file);
    s += n ? n : 1;
  }
  fputc('"', file);
}

static void lead(tni_json *json, const char *key) {
  uint64_t bit = (uint64_t)1 << json->depth;
  if (json->depth > 0 && (json->filled & bit)) fputs(", ", json->file);
  json->filled |= bit;
  if (key) fprintf(json->file, "\"%s\": ", key);
}

void tni_json_open(tni_json *json, const char *key, char bracket) {
  lead(json, key);
  fputc(bracket, json->file);
  json->depth++;
  json->filled &= ~((uint64_t)1 << json->depth);
}

void tni_json_close(tni_json *json, char bracket) {
  fputc(bracket, json->file);
  if (--json->depth > 0) return;
  fputc('\n', json->file);
  fflush(json->file);
}

void tni_json_null(tni_json *json, const char *key) {
  lead(json, key);
  fputs("null", json->file);
}

void tni_json_string(tni_json *json, const char *key, const char *value) {
  if (!value) {
    tni_json_null(json, key);
    return;
  }
  lead(json, key);
  quoted(json->file, value);
}

void tni_json_int(tni_json *json, const char *key, int64_t value) {
  lead(json, key);
  fprintf(json->file, "%" PRId64, value);
}

void tni_json_uint(tni_json *json, const char *key, uint64_t value) {
  lead(json, key);
  fprintf(json->file, "%" PRIu64, value);
}

void tni_json_real(tni_json *json, const char *key, double value) {
  char text[40];
  if (!isfinite(value)) {
    tni_json_null(json, key);
    return;
  }
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  lead(json, key);
  fputs(text, json->file);
}

void tni_json_bool(tni_json *json, const char *key, bool value) {
  lead(json, key);
  fputs(value ? "true" : "false", json->file);
}

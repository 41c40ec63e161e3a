/* SPDX-License-Identifier: Apache-2.0
 *
 * A small JSON writer: one object a line. Keys are written as given (ours are plain ASCII); values are
 * escaped, and bytes that are no UTF-8 become U+FFFD, so that every line parses whatever a file name holds.
 */
#ifndef TENON_CLI_JSON_H
#define TENON_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct tni_json {
  FILE *file;
  uint64_t filled; /* bit d: something stands already at depth d */
  int depth;       /* at most 63 */
} tni_json;

/* key NULL: an element of an array, or the object of a line. */
void tni_json_open(tni_json *json, const char *key, char bracket); /* '{' or '[' */
void tni_json_close(tni_json *json, char bracket);                 /* '}' or ']'; ends the line at depth 0 */
void tni_json_string(tni_json *json, const char *key, const char *value); /* NULL: null */
void tni_json_int(tni_json *json, const char *key, int64_t value);
void tni_json_uint(tni_json *json, const char *key, uint64_t value);
void tni_json_real(tni_json *json, const char *key, double value); /* not finite: null */
void tni_json_bool(tni_json *json, const char *key, bool value);
void tni_json_null(tni_json *json, const char *key);

#endif

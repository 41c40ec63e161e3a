/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer of safetensors files. Everything that can be refused is refused before a file is made.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "frontends/c/src/safetensors_int.h"

/* ------------------------------------------------------------------ text */

typedef struct text {
  char *at;
  size_t count, capacity;
} text;

static tn_status add(text *t, const char *s, size_t n) {
  while (t->capacity < t->count + n)
    TN_TRY(tni_nn_grow(&t->at, &t->capacity, t->capacity, 1, "a safetensors header"));
  memcpy(t->at + t->count, s, n);
  t->count += n;
  return TN_OK;
}

static tn_status add_format(text *t, const char *format, ...) TN_PRINTF(2, 3);
static tn_status add_format(text *t, const char *format, ...) {
  char line[128]; /* numbers and fixed words only */
  va_list args;
  va_start(args, format);
  int n = vsnprintf(line, sizeof line, format, args);
  va_end(args);
  return add(t, line, (size_t)n);
}

static tn_status add_string(text *t, const char *what, const char *s) {
  TN_TRY(tni_nn_not_null(s, what));
  size_t n = strlen(s), utf8 = tni_utf8_end((const unsigned char *)s, n);
  if (utf8 < n)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "safetensors: %s is not UTF-8 at its byte %zu", what, utf8);
  TN_TRY(add(t, "\"", 1));
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '"' || c == '\\')
      TN_TRY(add_format(t, "\\%c", c));
    else if (c < 0x20)
      TN_TRY(add_format(t, "\\u%04x", (unsigned)c));
    else
      TN_TRY(add(t, s + i, 1));
  }
  return add(t, "\"", 1);
}

/* ------------------------------------------------------------------ the header */

typedef struct item {
  const char *name;
  tn_tensor *tensor;
  const tni_st_dtype *dtype;
} item;

static int by_alignment(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->dtype->bits != y->dtype->bits) return x->dtype->bits > y->dtype->bits ? -1 : 1;
  return strcmp(x->name, y->name);
}

static tn_status list_items(const tn_state_dict *dict, item *items) {
  size_t n = tn_state_dict_count(dict);
  for (size_t i = 0; i < n; i++) {
    item e = {.name = tn_state_dict_name(dict, i), .tensor = tn_state_dict_tensor(dict, i)};
    for (const tni_st_dtype *d = tni_st_dtypes; d->name && !e.dtype; d++)
      if (d->dtype == tn_tensor_dtype(e.tensor)) e.dtype = d;
    if (!e.dtype)
      return tn_fail(TN_ERR_UNSUPPORTED, "safetensors: '%s' has dtype %s, which the format lacks", e.name,
                     tn_dtype_name(tn_tensor_dtype(e.tensor)));
    if (!strcmp(e.name, TNI_SAFETENSORS_NOTES))
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "safetensors: a tensor cannot be named " TNI_SAFETENSORS_NOTES);
    items[i] = e;
  }
  if (n) qsort(items, n, sizeof *items, by_alignment);
  return TN_OK;
}

static int by_key(const void *a, const void *b) {
  return strcmp(((const tn_file_note *)a)->key, ((const tn_file_note *)b)->key);
}

/* A reader would take one of them, and which is not said. */
static tn_status check_keys(const tn_file_note *notes, size_t n) {
  tn_file_note *sorted = NULL;
  TN_TRY(tni_nn_alloc(n, sizeof *sorted, "a safetensors header", &sorted));
  tn_status status = TN_OK;
  for (size_t i = 0; status == TN_OK && i < n; i++) {
    status = tni_nn_not_null(notes[i].key, "a note's key");
    sorted[i] = notes[i];
  }
  if (status == TN_OK && n) qsort(sorted, n, sizeof *sorted, by_key);
  for (size_t i = 1; status == TN_OK && i < n; i++)
    if (!strcmp(sorted[i - 1].key, sorted[i].key))
      status = tn_fail(TN_ERR_INVALID_ARGUMENT, "safetensors: two notes have the key '%.80s'", sorted[i].key);
  free(sorted);
  return status;
}

static tn_status add_notes(text *t, const tn_file_note *notes, size_t n) {
  TN_TRY(add_format(t, "\"" TNI_SAFETENSORS_NOTES "\":{"));
  for (size_t i = 0; i < n; i++) {
    if (i) TN_TRY(add(t, ",", 1));
    TN_TRY(add_string(t, "a note's key", notes[i].key));
    TN_TRY(add(t, ":", 1));
    TN_TRY(add_string(t, "a note's value", notes[i].value));
  }
  return add(t, "}", 1);
}

static tn_status add_item(text *t, const item *e, uint64_t *inout_at) {
  uint64_t size = (uint64_t)tn_tensor_numel(e->tensor) * (e->dtype->bits / 8);
  TN_TRY(add_string(t, "a tensor's name", e->name));
  TN_TRY(add_format(t, ":{\"dtype\":\"%s\",\"shape\":[", e->dtype->name));
  for (int32_t d = 0; d < tn_tensor_ndim(e->tensor); d++)
    TN_TRY(add_format(t, "%s%" PRId64, d ? "," : "", tn_tensor_sizes(e->tensor)[d]));
  TN_TRY(add_format(t, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *inout_at, *inout_at + size));
  *inout_at += size;
  return TN_OK;
}

/* Eight bytes for the length, then the JSON, padded so that the data begins at a multiple of 8. */
static tn_status make_header(text *t, const item *items, size_t n, const tn_file_note *notes,
                             size_t n_notes) {
  uint64_t at = 0;
  TN_TRY(add(t, "\0\0\0\0\0\0\0\0{", 9));
  if (n_notes) TN_TRY(add_notes(t, notes, n_notes));
  for (size_t i = 0; i < n; i++) {
    if (i || n_notes) TN_TRY(add(t, ",", 1));
    TN_TRY(add_item(t, &items[i], &at));
  }
  TN_TRY(add(t, "}", 1));
  while (t->count % 8) TN_TRY(add(t, " ", 1));
  uint64_t size = t->count - 8;
  if (size > TNI_SAFETENSORS_HEADER_LIMIT)
    return tn_fail(TN_ERR_UNSUPPORTED,
                   "safetensors: names and shapes take %llu bytes; the format has room for %d",
                   (unsigned long long)size, TNI_SAFETENSORS_HEADER_LIMIT);
  for (int i = 0; i < 8; i++) t->at[i] = (char)(size >> (8 * i));
  return TN_OK;
}

/* ------------------------------------------------------------------ the file */

static tn_status write_file(const char *path, const text *header, const item *items, size_t n) {
  tni_file_out out;
  TN_TRY(tni_file_out_begin(&out, path));
  tn_status status = tni_file_out_add(&out, header->at, header->count);
  for (size_t i = 0; status == TN_OK && i < n; i++) status = tni_file_out_tensor(&out, items[i].tensor);
  return tni_file_out_end(&out, status);
}

tn_status tn_safetensors_write(const char *path, const tn_state_dict *dict, const tn_file_note *notes,
                               size_t n_notes) {
  TN_TRY(tni_nn_not_null(path, "tn_safetensors_write: the path"));
  TN_TRY(tni_nn_not_null(dict, "tn_safetensors_write: the dict"));
  size_t n = tn_state_dict_count(dict);
  item *items = NULL;
  text header = {0};
  TN_TRY(check_keys(notes, n_notes));
  TN_TRY(tni_nn_alloc(n, sizeof *items, "a safetensors header", &items));
  tn_status status = list_items(dict, items);
  if (status == TN_OK) status = make_header(&header, items, n, notes, n_notes);
  if (status == TN_OK) status = write_file(path, &header, items, n);
  free(header.at);
  free(items);
  return status;
}

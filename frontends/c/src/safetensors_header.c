/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a safetensors file: length, JSON, and the rules that make its ranges cover the buffer exactly once.
 * Stricter than the reference where that is laxer than the format's text: the JSON begins with its brace and is
 * followed by spaces only, no name occurs twice, entries have the three members and no other.
 */
#include <stdio.h>

#include "frontends/c/src/safetensors_int.h"

const tni_st_dtype tni_st_dtypes[] = {{"BOOL", 8, TN_BOOL},
                                      {"U8", 8, TN_UINT8},
                                      {"I8", 8, TN_INT8},
                                      {"I16", 16, TN_INT16},
                                      {"I32", 32, TN_INT32},
                                      {"I64", 64, TN_INT64},
                                      {"F16", 16, TN_FLOAT16},
                                      {"BF16", 16, TN_BFLOAT16},
                                      {"F32", 32, TN_FLOAT32},
                                      {"F64", 64, TN_FLOAT64},
                                      {"U16", 16, TN_DTYPE_NONE},
                                      {"U32", 32, TN_DTYPE_NONE},
                                      {"U64", 64, TN_DTYPE_NONE},
                                      {"C64", 64, TN_DTYPE_NONE},
                                      {"F8_E4M3", 8, TN_DTYPE_NONE},
                                      {"F8_E5M2", 8, TN_DTYPE_NONE},
                                      {"F8_E8M0", 8, TN_DTYPE_NONE},
                                      {"F8_E4M3FNUZ", 8, TN_DTYPE_NONE},
                                      {"F8_E5M2FNUZ", 8, TN_DTYPE_NONE},
                                      {"F6_E2M3", 6, TN_DTYPE_NONE},
                                      {"F6_E3M2", 6, TN_DTYPE_NONE},
                                      {"F4", 4, TN_DTYPE_NONE},
                                      {NULL, 0, TN_DTYPE_NONE}};

/* ------------------------------------------------------------------ members of an entry */

static tn_status read_dtype(tni_scan *scan, tni_st_entry *e) {
  char *name = NULL;
  size_t at = scan->at;
  TN_TRY(tni_scan_json_string(scan, &name));
  for (const tni_st_dtype *d = tni_st_dtypes; d->name && !e->dtype; d++)
    if (!strcmp(d->name, name)) e->dtype = d;
  tn_status status = e->dtype ? TN_OK : tni_scan_bad(scan, at, "unknown dtype \"%.40s\"", name);
  free(name);
  return status;
}

static tn_status read_shape(tn_safetensors *file, tni_scan *scan, tni_st_entry *e) {
  e->first_size = file->n_sizes;
  TN_TRY(tni_scan_expect(scan, '['));
  if (tni_scan_take(scan, ']')) return TN_OK;
  do {
    if (e->ndim == TN_MAX_RANK)
      return tni_scan_bad(scan, scan->at, "more than %d dims in a shape", TN_MAX_RANK);
    TN_TRY(
        tni_nn_grow(&file->sizes, &file->sizes_capacity, file->n_sizes, sizeof(tn_dim), "a file's shapes"));
    TN_TRY(tni_scan_number(scan, &file->sizes[file->n_sizes++]));
    e->ndim++;
  } while (tni_scan_take(scan, ','));
  return tni_scan_expect(scan, ']');
}

static tn_status read_offsets(tni_scan *scan, tni_st_entry *e) {
  int64_t begin, end;
  TN_TRY(tni_scan_expect(scan, '['));
  TN_TRY(tni_scan_number(scan, &begin));
  TN_TRY(tni_scan_expect(scan, ','));
  TN_TRY(tni_scan_number(scan, &end));
  TN_TRY(tni_scan_expect(scan, ']'));
  e->begin = (uint64_t)begin;
  e->end = (uint64_t)end;
  return TN_OK;
}

/* Each member once, in any order. */
static tn_status read_members(tn_safetensors *file, tni_scan *scan, tni_st_entry *e) {
  static const char *const names[] = {"dtype", "shape", "data_offsets"};
  unsigned seen = 0;
  TN_TRY(tni_scan_expect(scan, '{'));
  do {
    char *name = NULL;
    size_t at = scan->at;
    TN_TRY(tni_scan_json_string(scan, &name));
    unsigned which = 0;
    while (which < 3 && strcmp(names[which], name)) which++;
    free(name);
    if (which == 3 || (seen & 1u << which))
      return tni_scan_bad(scan, at, "dtype, shape and data_offsets were expected, each once");
    seen |= 1u << which;
    TN_TRY(tni_scan_expect(scan, ':'));
    TN_TRY(which == 0 ? read_dtype(scan, e) : which == 1 ? read_shape(file, scan, e) : read_offsets(scan, e));
  } while (tni_scan_take(scan, ','));
  TN_TRY(tni_scan_expect(scan, '}'));
  if (seen != 7) return tni_scan_bad(scan, scan->at - 1, "dtype, shape or data_offsets is missing");
  return TN_OK;
}

static tn_status check_entry(const tn_safetensors *file, const tni_st_entry *e) {
  uint64_t bits;
  const char *path = file->map->path;
  if (e->end < e->begin) return tni_file_bad(path, e->at, "'%.80s' ends before it begins", e->name);
  TN_TRY(tni_file_bits(path, e->at, file->sizes + e->first_size, e->ndim, e->dtype->bits, &bits));
  if (bits % 8) return tni_file_bad(path, e->at, "'%.80s' does not fill its last byte", e->name);
  if (bits / 8 != e->end - e->begin)
    return tni_file_bad(path, e->at, "'%.80s' has %llu bytes by its shape and %llu by its data_offsets",
                        e->name, (unsigned long long)(bits / 8), (unsigned long long)(e->end - e->begin));
  return TN_OK;
}

/* ------------------------------------------------------------------ the object */

static tn_status read_notes(tn_safetensors *file, tni_scan *scan) {
  TN_TRY(tni_scan_expect(scan, '{'));
  if (tni_scan_take(scan, '}')) return TN_OK;
  do {
    tni_st_note note = {.at = scan->base + scan->at};
    TN_TRY(tni_nn_grow(&file->notes, &file->notes_capacity, file->n_notes, sizeof note, "a file's notes"));
    tn_status status = tni_scan_json_string(scan, &note.key);
    if (status == TN_OK) status = tni_scan_expect(scan, ':');
    if (status == TN_OK) status = tni_scan_json_string(scan, &note.value);
    file->notes[file->n_notes++] = note; /* freed with the file */
    TN_TRY(status);
  } while (tni_scan_take(scan, ','));
  return tni_scan_expect(scan, '}');
}

/* name is consumed. */
static tn_status read_entry(tn_safetensors *file, tni_scan *scan, size_t at, char *name) {
  tni_st_entry e = {.name = name, .at = scan->base + at};
  tn_status status = tni_nn_grow(&file->entries, &file->capacity, file->count, sizeof e, "a file's entries");
  if (status == TN_OK) status = read_members(file, scan, &e);
  if (status == TN_OK) status = check_entry(file, &e);
  if (status == TN_OK)
    file->entries[file->count++] = e;
  else
    free(name);
  return status;
}

static tn_status read_object(tn_safetensors *file, tni_scan *scan) {
  bool notes = false;
  TN_TRY(tni_scan_expect(scan, '{'));
  if (tni_scan_take(scan, '}')) return TN_OK;
  do {
    char *name = NULL;
    size_t at = scan->at;
    TN_TRY(tni_scan_json_string(scan, &name));
    tn_status status = tni_scan_expect(scan, ':');
    bool is_notes = !strcmp(name, TNI_SAFETENSORS_NOTES);
    if (status == TN_OK && is_notes && notes)
      status = tni_scan_bad(scan, at, "a second \"" TNI_SAFETENSORS_NOTES "\"");
    if (status == TN_OK && !is_notes) {
      TN_TRY(read_entry(file, scan, at, name));
      continue;
    }
    free(name);
    TN_TRY(status);
    notes = true;
    TN_TRY(read_notes(file, scan));
  } while (tni_scan_take(scan, ','));
  return tni_scan_expect(scan, '}');
}

/* ------------------------------------------------------------------ order */

static int by_range(const void *a, const void *b) {
  const tni_st_entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int by_key(const void *a, const void *b) {
  const tni_st_note *x = a, *y = b;
  int order = strcmp(x->key, y->key);
  return order ? order : (x->at > y->at) - (x->at < y->at);
}

static int by_name(const void *a, const void *b, void *entries) {
  const tni_st_entry *e = entries;
  return strcmp(e[*(const size_t *)a].name, e[*(const size_t *)b].name);
}

/* Ranges cover the buffer without gap or overlap. */
static tn_status check_ranges(tn_safetensors *file) {
  uint64_t at = 0, size = file->map->size_bytes - file->buffer_at;
  if (file->count) qsort(file->entries, file->count, sizeof *file->entries, by_range);
  for (size_t i = 0; i < file->count; i++) {
    const tni_st_entry *e = &file->entries[i];
    if (e->begin != at)
      return tni_file_bad(file->map->path, e->at, "'%.80s' begins at %llu of the data, %llu was expected",
                          e->name, (unsigned long long)e->begin, (unsigned long long)at);
    at = e->end;
  }
  if (at != size)
    return tni_file_bad(file->map->path, file->buffer_at + (at < size ? at : size),
                        "%llu bytes of data were expected, %llu are there", (unsigned long long)at,
                        (unsigned long long)size);
  return TN_OK;
}

static tn_status check_names(tn_safetensors *file) {
  TN_TRY(tni_nn_alloc(file->count, sizeof *file->by_name, "a file's names", &file->by_name));
  for (size_t i = 0; i < file->count; i++) file->by_name[i] = i;
  qsort_r(file->by_name, file->count, sizeof *file->by_name, by_name, file->entries);
  for (size_t i = 1; i < file->count; i++) {
    const tni_st_entry *a = &file->entries[file->by_name[i - 1]], *b = &file->entries[file->by_name[i]];
    if (!strcmp(a->name, b->name))
      return tni_file_bad(file->map->path, a->at > b->at ? a->at : b->at, "a second '%.80s'", a->name);
  }
  return TN_OK;
}

static tn_status check_keys(tn_safetensors *file) {
  if (file->n_notes) qsort(file->notes, file->n_notes, sizeof *file->notes, by_key);
  for (size_t i = 1; i < file->n_notes; i++) {
    const tni_st_note *note = &file->notes[i];
    if (!strcmp(note[-1].key, note->key))
      return tni_file_bad(file->map->path, note->at, "a second '%.80s' in \"" TNI_SAFETENSORS_NOTES "\"",
                          note->key);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ all of it */

tn_status tni_st_header_read(tn_safetensors *file) {
  const tni_file_map *map = file->map;
  uint64_t n = 0;
  if (map->size_bytes < 8)
    return tni_file_bad(map->path, map->size_bytes, "a header length of 8 bytes was expected, the file ends");
  for (int i = 7; i >= 0; i--) n = n << 8 | map->at[i];
  if (n > TNI_SAFETENSORS_HEADER_LIMIT)
    return tni_file_bad(map->path, 0, "a header of %llu bytes; at most %d were expected",
                        (unsigned long long)n, TNI_SAFETENSORS_HEADER_LIMIT);
  if (n > map->size_bytes - 8)
    return tni_file_bad(map->path, map->size_bytes, "the file ends inside its header of %llu bytes",
                        (unsigned long long)n);
  file->buffer_at = 8 + n;
  tni_scan scan = {.path = map->path, .base = 8, .text = map->at + 8, .size = (size_t)n};
  size_t utf8 = tni_utf8_end(scan.text, scan.size);
  if (utf8 < scan.size) return tni_scan_bad(&scan, utf8, "the header is not UTF-8");
  if (n == 0 || scan.text[0] != '{') return tni_scan_bad(&scan, 0, "a header must begin with '{'");
  TN_TRY(read_object(file, &scan));
  while (scan.at < scan.size && scan.text[scan.at] == ' ') scan.at++;
  if (scan.at < scan.size) return tni_scan_bad(&scan, scan.at, "only spaces may follow the header's '}'");
  TN_TRY(check_ranges(file));
  TN_TRY(check_keys(file));
  return check_names(file);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors files as an application opens them.
 */
#include "frontends/c/src/safetensors_int.h"

tn_status tn_safetensors_open(const char *path, tn_safetensors **out_file) {
  *out_file = NULL;
  tn_safetensors *file = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *file, "a safetensors file", &file));
  tn_status status = tni_file_map_open(path, &file->map);
  if (status == TN_OK) status = tni_st_header_read(file);
  if (status == TN_OK)
    *out_file = file;
  else
    tn_safetensors_close(file);
  return status;
}

void tn_safetensors_close(tn_safetensors *file) {
  if (!file) return;
  for (size_t i = 0; i < file->count; i++) free(file->entries[i].name);
  for (size_t i = 0; i < file->n_notes; i++) {
    free(file->notes[i].key);
    free(file->notes[i].value);
  }
  free(file->notes);
  free(file->sizes);
  free(file->by_name);
  free(file->entries);
  tni_file_map_release(file->map);
  free(file);
}

size_t tn_safetensors_count(const tn_safetensors *file) { return file ? file->count : 0; }

const char *tn_safetensors_name(const tn_safetensors *file, size_t i) {
  return i < tn_safetensors_count(file) ? file->entries[i].name : NULL;
}

const char *tn_safetensors_note(const tn_safetensors *file, const char *key) {
  size_t low = 0, high = file && key ? file->n_notes : 0;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(file->notes[middle].key, key);
    if (order == 0) return file->notes[middle].value;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

static const tni_st_entry *find(const tn_safetensors *file, const char *name) {
  size_t low = 0, high = file->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const tni_st_entry *e = &file->entries[file->by_name[middle]];
    int order = strcmp(e->name, name);
    if (order == 0) return e;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

static tn_status entry_tensor(tn_safetensors *file, const tni_st_entry *e, tn_tensor **out_tensor) {
  if (e->dtype->dtype == TN_DTYPE_NONE)
    return tn_fail(TN_ERR_UNSUPPORTED, "%s: '%.80s' has dtype %s, which Tenon does not compute with",
                   file->map->path, e->name, e->dtype->name);
  tni_file_array array = {.dtype = e->dtype->dtype,
                          .swapped = TNI_BIG_ENDIAN && e->dtype->bits > 8,
                          .ndim = e->ndim,
                          .sizes = file->sizes + e->first_size};
  return tni_file_tensor(file->map, file->buffer_at + e->begin, e->end - e->begin, &array, out_tensor);
}

tn_status tn_safetensors_tensor(tn_safetensors *file, const char *name, tn_tensor **out_tensor) {
  *out_tensor = NULL;
  TN_TRY(tni_nn_not_null(file, "tn_safetensors_tensor: the file"));
  TN_TRY(tni_nn_not_null(name, "tn_safetensors_tensor: the name"));
  const tni_st_entry *e = find(file, name);
  if (!e) return tn_fail(TN_ERR_NOT_FOUND, "%s: there is no tensor '%s'", file->map->path, name);
  return entry_tensor(file, e, out_tensor);
}

tn_status tn_safetensors_read(const char *path, tn_state_dict **out_dict) {
  *out_dict = NULL;
  tn_safetensors *file = NULL;
  tn_state_dict *dict = NULL;
  TN_TRY(tn_safetensors_open(path, &file));
  tn_status status = tn_state_dict_new(&dict);
  for (size_t i = 0; status == TN_OK && i < file->count; i++) {
    tn_tensor *tensor = NULL;
    status = entry_tensor(file, &file->entries[i], &tensor);
    if (status == TN_OK) status = tn_state_dict_put(dict, file->entries[i].name, tensor);
    tn_tensor_release(tensor);
  }
  tn_safetensors_close(file);
  if (status == TN_OK)
    *out_dict = dict;
  else
    tn_state_dict_release(dict);
  return status;
}

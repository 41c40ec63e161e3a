/* SPDX-License-Identifier: Apache-2.0
 *
 * The ordered list of names and tensors that modules and optimisers are restored from. Lookup is linear:
 * dicts have tens to hundreds of entries and are read once. Writing one to a file is not here.
 */
#include <tenon/nn.h>

#include "frontends/c/src/support.h"

typedef struct entry {
  char *name;
  tn_tensor *tensor;
} entry;

struct tn_state_dict {
  entry *entries;
  size_t count, capacity;
};

tn_status tn_state_dict_new(tn_state_dict **out_dict) {
  return tni_nn_alloc(1, sizeof **out_dict, "a state dict", out_dict);
}

void tn_state_dict_release(tn_state_dict *dict) {
  if (!dict) return;
  for (size_t i = 0; i < dict->count; i++) {
    free(dict->entries[i].name);
    tn_tensor_release(dict->entries[i].tensor);
  }
  free(dict->entries);
  free(dict);
}

static entry *find(const tn_state_dict *dict, const char *name) {
  for (size_t i = 0; dict && i < dict->count; i++)
    if (!strcmp(dict->entries[i].name, name)) return &dict->entries[i];
  return NULL;
}

tn_status tn_state_dict_put(tn_state_dict *dict, const char *name, tn_tensor *tensor) {
  TN_TRY(tni_nn_not_null(dict, "tn_state_dict_put: the dict"));
  TN_TRY(tni_nn_not_null(name, "tn_state_dict_put: the name"));
  TN_TRY(tni_nn_not_null(tensor, "tn_state_dict_put: the tensor"));
  entry *old = find(dict, name);
  if (old) {
    tn_tensor_retain(tensor);
    tn_tensor_release(old->tensor);
    old->tensor = tensor;
    return TN_OK;
  }
  TN_TRY(tni_nn_grow(&dict->entries, &dict->capacity, dict->count, sizeof(entry), "a state dict"));
  entry fresh = {NULL, tensor};
  TN_TRY(tni_nn_strdup(name, &fresh.name));
  tn_tensor_retain(tensor);
  dict->entries[dict->count++] = fresh;
  return TN_OK;
}

tn_status tn_state_dict_put_number(tn_state_dict *dict, const char *name, double value) {
  tn_tensor *t = NULL;
  TN_TRY(tn_tensor_from_host(&value, NULL, 0, TN_OPTIONS(.dtype = TN_FLOAT64, .has_device = true), &t));
  tn_status status = tn_state_dict_put(dict, name, t);
  tn_tensor_release(t);
  return status;
}

tn_tensor *tn_state_dict_get(const tn_state_dict *dict, const char *name) {
  entry *e = name ? find(dict, name) : NULL;
  return e ? e->tensor : NULL;
}

size_t tn_state_dict_count(const tn_state_dict *dict) { return dict ? dict->count : 0; }

const char *tn_state_dict_name(const tn_state_dict *dict, size_t i) {
  return i < tn_state_dict_count(dict) ? dict->entries[i].name : NULL;
}

tn_tensor *tn_state_dict_tensor(const tn_state_dict *dict, size_t i) {
  return i < tn_state_dict_count(dict) ? dict->entries[i].tensor : NULL;
}

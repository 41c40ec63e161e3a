/* SPDX-License-Identifier: Apache-2.0
 *
 * The ordered list of names and tensors that modules and optimisers are restored from, with a hash table of
 * positions beside it: a file may hold a million names. Files are not here (safetensors.c).
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
  size_t *slots;  /* positions + 1 by hash, open addressing; 0: free */
  size_t n_slots; /* 0 or a power of two, more than twice count */
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
  free(dict->slots);
  free(dict);
}

/* The slot of a name, or the free one where it belongs; there are slots. FNV-1a. */
static size_t *find_slot(const tn_state_dict *dict, const char *name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001B3u;
  size_t at = (size_t)(hash ^ hash >> 32) & (dict->n_slots - 1);
  while (dict->slots[at] && strcmp(dict->entries[dict->slots[at] - 1].name, name) != 0)
    at = (at + 1) & (dict->n_slots - 1);
  return &dict->slots[at];
}

static entry *find(const tn_state_dict *dict, const char *name) {
  if (!dict || !dict->n_slots) return NULL;
  size_t position = *find_slot(dict, name);
  return position ? &dict->entries[position - 1] : NULL;
}

/* Room for one more. */
static tn_status grow_slots(tn_state_dict *dict) {
  if (2 * (dict->count + 1) < dict->n_slots) return TN_OK;
  size_t wanted = dict->n_slots ? 2 * dict->n_slots : 16;
  size_t *slots = NULL;
  TN_TRY(tni_nn_alloc(wanted, sizeof *slots, "a state dict", &slots));
  free(dict->slots);
  dict->slots = slots;
  dict->n_slots = wanted;
  for (size_t i = 0; i < dict->count; i++) *find_slot(dict, dict->entries[i].name) = i + 1;
  return TN_OK;
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
  TN_TRY(grow_slots(dict));
  entry fresh = {NULL, tensor};
  TN_TRY(tni_nn_strdup(name, &fresh.name));
  tn_tensor_retain(tensor);
  dict->entries[dict->count++] = fresh;
  *find_slot(dict, name) = dict->count;
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

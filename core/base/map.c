/* SPDX-License-Identifier: Apache-2.0
 *
 * A string map: open addressing, linear probing, at most half full. FNV-1a hashing (Fowler, Noll, Vo).
 */
#include "core/base/base.h"

struct tni_map_entry {
  const char *key; /* NULL: empty */
  void *value;
};

static uint64_t hash_of(const char *s) {
  uint64_t h = 14695981039346656037u;
  for (; *s; ++s) h = (h ^ (unsigned char)*s) * 1099511628211u;
  return h;
}

static struct tni_map_entry *slot(struct tni_map_entry *entries, size_t capacity, const char *key) {
  size_t i = hash_of(key) & (capacity - 1);
  while (entries[i].key && strcmp(entries[i].key, key) != 0) i = (i + 1) & (capacity - 1);
  return &entries[i];
}

void tni_map_deinit(tni_map *map) {
  tni_free(map->entries);
  *map = (tni_map){0};
}

static tn_status map_grow(tni_map *map) {
  size_t capacity = map->capacity ? map->capacity * 2 : 64;
  struct tni_map_entry *entries = tni_alloc_zero(capacity * sizeof *entries);
  if (!entries) return tni_oom(capacity * sizeof *entries, "a name table");
  for (size_t i = 0; i < map->capacity; ++i)
    if (map->entries[i].key) *slot(entries, capacity, map->entries[i].key) = map->entries[i];
  tni_free(map->entries);
  map->entries = entries;
  map->capacity = capacity;
  return TN_OK;
}

tn_status tni_map_put(tni_map *map, const char *key, void *value) {
  if (map->count * 2 >= map->capacity) TN_TRY(map_grow(map));
  struct tni_map_entry *e = slot(map->entries, map->capacity, key);
  if (!e->key) map->count++;
  e->key = key;
  e->value = value;
  return TN_OK;
}

void *tni_map_get(const tni_map *map, const char *key) {
  return map->capacity ? slot(map->entries, map->capacity, key)->value : NULL;
}

/* Moves later entries of the probe sequence up, so that no gap hides one (Knuth, vol. 3, 6.4 R). */
void tni_map_remove(tni_map *map, const char *key) {
  if (!map->capacity) return;
  struct tni_map_entry *e = slot(map->entries, map->capacity, key);
  if (!e->key) return;
  size_t mask = map->capacity - 1, hole = (size_t)(e - map->entries);
  map->count--;
  for (size_t i = (hole + 1) & mask; map->entries[i].key; i = (i + 1) & mask) {
    size_t home = hash_of(map->entries[i].key) & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    map->entries[hole] = map->entries[i];
    hole = i;
  }
  map->entries[hole] = (struct tni_map_entry){0};
}

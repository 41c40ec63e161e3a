/* SPDX-License-Identifier: Apache-2.0
 *
 * Chained hash table and list by last use; see cache.h.
 */
#include "plugins/onednn/cache.h"

#include <stdlib.h>
#include <string.h>
#include <tenon/kit/status.h>

/* Followed by the value, then the key. */
typedef struct od_cache_entry {
  struct od_cache_entry *chained, *newer, *older;
  const od_kind *kind;
  uint64_t hash;
  uint32_t uses;
  max_align_t value[];
} entry;

static void *key_of(entry *e) { return (char *)e->value + e->kind->value_bytes; }
static entry *entry_of(const void *value) {
  return (entry *)(void *)((char *)(uintptr_t)value - offsetof(entry, value));
}

void od_cache_lock(od_cache *cache) { pthread_mutex_lock(&cache->lock); }
void od_cache_unlock(od_cache *cache) { pthread_mutex_unlock(&cache->lock); }

void od_cache_open(od_cache *cache, uint32_t most) {
  *cache = (od_cache){.most = most > 0 ? most : 1};
  pthread_mutex_init(&cache->lock, NULL);
}

static tn_status make_chains(od_cache *cache) {
  uint32_t n = 16;
  while (n < cache->most) n *= 2;
  cache->chains = calloc(n, sizeof *cache->chains);
  if (!cache->chains) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "onednn: no memory for %u chains of a cache", n);
  cache->n_chains = n;
  return TN_OK;
}

/* Eight bytes a step; keys are a hundred or two. */
static uint64_t hash_of(const od_kind *kind, const void *key) {
  uint64_t hash = (uint64_t)(uintptr_t)kind, word;
  const char *at = key;
  for (size_t left = kind->key_bytes; left > 0;) {
    size_t n = left < sizeof word ? left : sizeof word;
    word = 0;
    memcpy(&word, at, n);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    at += n;
    left -= n;
  }
  return hash;
}

/* ------------------------------------------------------------------ the list by last use */

static void unlist(od_cache *cache, entry *e) {
  *(e->newer ? &e->newer->older : &cache->newest) = e->older;
  *(e->older ? &e->older->newer : &cache->oldest) = e->newer;
}

static void list_newest(od_cache *cache, entry *e) {
  e->newer = NULL;
  e->older = cache->newest;
  *(cache->newest ? &cache->newest->newer : &cache->oldest) = e;
  cache->newest = e;
}

static void drop(od_cache *cache, entry *e) {
  entry **at = &cache->chains[e->hash & (cache->n_chains - 1)];
  while (*at != e) at = &(*at)->chained;
  *at = e->chained;
  unlist(cache, e);
  --cache->count;
  e->kind->drop(e->value);
  free(e);
}

/* Least recently used first, those in use excepted, until at most `most` are there. */
static void shrink(od_cache *cache, uint32_t most) {
  for (entry *e = cache->oldest, *newer; e && cache->count > most; e = newer) {
    newer = e->newer;
    if (e->uses == 0) drop(cache, e);
  }
}

void od_cache_close(od_cache *cache) {
  od_cache_lock(cache);
  shrink(cache, 0);
  if (cache->count == 0) {
    free(cache->chains);
    cache->chains = NULL;
    cache->n_chains = 0;
  }
  od_cache_unlock(cache);
}

/* ------------------------------------------------------------------ take and give */

static entry *find(const od_cache *cache, const od_kind *kind, const void *key, uint64_t hash) {
  entry *e = cache->chains[hash & (cache->n_chains - 1)];
  while (e && !(e->hash == hash && e->kind == kind && memcmp(key_of(e), key, kind->key_bytes) == 0))
    e = e->chained;
  return e;
}

static tn_status add(od_cache *cache, const od_kind *kind, const void *key, uint64_t hash, entry **out) {
  entry *e = calloc(1, sizeof *e + kind->value_bytes + kind->key_bytes);
  if (!e) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "onednn: no memory for an entry of a cache");
  e->kind = kind;
  e->hash = hash;
  memcpy(key_of(e), key, kind->key_bytes);
  tn_status status = kind->make(key_of(e), e->value);
  if (status != TN_OK) {
    free(e);
    return status;
  }
  shrink(cache, cache->most - 1);
  entry **chain = &cache->chains[hash & (cache->n_chains - 1)];
  e->chained = *chain;
  *chain = e;
  list_newest(cache, e);
  ++cache->count;
  *out = e;
  return TN_OK;
}

static tn_status take(od_cache *cache, const od_kind *kind, const void *key, uint64_t hash, entry **out) {
  if (!cache->chains) TN_TRY(make_chains(cache));
  entry *e = find(cache, kind, key, hash);
  if (!e) {
    TN_TRY(add(cache, kind, key, hash, &e));
  } else if (e != cache->newest) {
    unlist(cache, e);
    list_newest(cache, e);
  }
  ++e->uses;
  *out = e;
  return TN_OK;
}

tn_status od_cache_take(od_cache *cache, const od_kind *kind, const void *key, const void **out_value) {
  entry *e = NULL;
  uint64_t hash = hash_of(kind, key);
  od_cache_lock(cache);
  tn_status status = take(cache, kind, key, hash, &e);
  od_cache_unlock(cache);
  if (status == TN_OK) *out_value = e->value;
  return status;
}

void od_cache_give(od_cache *cache, const void *value) {
  if (!value) return;
  od_cache_lock(cache);
  --entry_of(value)->uses;
  shrink(cache, cache->most);
  od_cache_unlock(cache);
}

uint32_t od_cache_count(od_cache *cache) {
  od_cache_lock(cache);
  uint32_t n = cache->count;
  od_cache_unlock(cache);
  return n;
}

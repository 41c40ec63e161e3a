/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded cache of things that are made from a plain key: primitives by problem. Knows nothing of oneDNN.
 *
 * Note [Made under the lock]
 * A primitive is generated code, made once in 0.1 to 10 ms, so what is missing is made while the cache's lock is
 * held: threads that want the same thing wait instead of making it twice. It also makes fork safe: whoever
 * forks takes this lock first (library.c), so no child begins life inside the library's own locks.
 */
#ifndef TENON_ONEDNN_CACHE_H
#define TENON_ONEDNN_CACHE_H

#include <pthread.h>
#include <tenon/types.h>

/* One kind of thing. Keys are compared as bytes: zeroed, without holes. */
typedef struct od_kind {
  size_t key_bytes, value_bytes;
  /* Fills a zeroed value. On failure it leaves nothing to drop, and nothing is kept. */
  tn_status (*make)(const void *key, void *value);
  void (*drop)(void *value); /* frees what make made */
} od_kind;

struct od_cache_entry;
typedef struct od_cache {
  pthread_mutex_t lock;
  uint32_t most, count, n_chains;
  struct od_cache_entry **chains;         /* by hash */
  struct od_cache_entry *newest, *oldest; /* by last use */
} od_cache;

/* most: entries kept, at least 1. Memory is taken at the first od_cache_take. */
void od_cache_open(od_cache *cache, uint32_t most);
/* Drops everything. No value may be in use. The cache may be used again. */
void od_cache_close(od_cache *cache);

/* The value for a key, made if it is not there; in use until od_cache_give. Any thread. A value in use is never
 * dropped: with more than `most` of them in use the cache is larger for that long. */
tn_status od_cache_take(od_cache *cache, const od_kind *kind, const void *key, const void **out_value);
void od_cache_give(od_cache *cache, const void *value); /* NULL is allowed */
uint32_t od_cache_count(od_cache *cache);

/* Around fork: od_cache_lock before, od_cache_unlock on both sides after. */
void od_cache_lock(od_cache *cache);
void od_cache_unlock(od_cache *cache);

#endif

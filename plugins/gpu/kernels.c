/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled kernels by key: compiled when first asked for, one family and type at a time (a compiler takes 30 to 100 ms for
 * each), kept for the life of the process.
 *
 * Look-ups share a lock; a compilation holds only the lock of compilations, so that kernels that are there go on running while
 * another is made.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/gpu/gpu.h"
#include "plugins/gpu/text.h"

typedef struct entry {
  gpu_key key;
  void *kernel; /* NULL: the slot is free */
} entry;

/* Open addressing; capacity is a power of two, at most half full. */
static struct {
  pthread_rwlock_t lock;
  pthread_mutex_t building;
  entry *entries;
  size_t capacity, used;
} cache = {.lock = PTHREAD_RWLOCK_INITIALIZER, .building = PTHREAD_MUTEX_INITIALIZER};

static uint64_t hash(const gpu_key *key) {
  uint64_t h = 0xcbf29ce484222325u;
  const unsigned char *bytes = (const unsigned char *)key;
  for (size_t i = 0; i < sizeof *key; ++i) h = (h ^ bytes[i]) * 0x100000001b3u;
  return h ^ h >> 29;
}

/* The key's entry, or the free one where it belongs. NULL without a table. */
static entry *find(entry *entries, size_t capacity, const gpu_key *key) {
  for (size_t i = capacity ? hash(key) & (capacity - 1) : 0; capacity; i = (i + 1) & (capacity - 1)) {
    entry *e = &entries[i];
    if (!e->kernel || memcmp(&e->key, key, sizeof *key) == 0) return e;
  }
  return NULL;
}

static void *lookup(const gpu_key *key) {
  pthread_rwlock_rdlock(&cache.lock);
  const entry *e = find(cache.entries, cache.capacity, key);
  void *kernel = e ? e->kernel : NULL;
  pthread_rwlock_unlock(&cache.lock);
  return kernel;
}

/* With the write lock. */
static tn_status make_room(void) {
  if (2 * (cache.used + 1) <= cache.capacity) return TN_OK;
  size_t capacity = cache.capacity ? 2 * cache.capacity : 64;
  entry *entries = calloc(capacity, sizeof *entries);
  if (!entries)
    return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "out of memory: a table of %zu device kernels", capacity);
  for (size_t i = 0; i < cache.capacity; ++i)
    if (cache.entries[i].kernel) *find(entries, capacity, &cache.entries[i].key) = cache.entries[i];
  free(cache.entries);
  cache.entries = entries;
  cache.capacity = capacity;
  return TN_OK;
}

static tn_status insert(const gpu_key *key, void *kernel) {
  pthread_rwlock_wrlock(&cache.lock);
  tn_status status = make_room();
  if (status == TN_OK) {
    *find(cache.entries, cache.capacity, key) = (entry){*key, kernel};
    ++cache.used;
  }
  pthread_rwlock_unlock(&cache.lock);
  return status;
}

void gpu_define(gpu_defines *d, const char *format, ...) {
  if (d->used >= sizeof d->text) return; /* seen by whoever compiles */
  va_list args;
  va_start(args, format);
  int n = vsnprintf(d->text + d->used, sizeof d->text - d->used, format, args);
  va_end(args);
  d->used += n < 0 ? sizeof d->text : (size_t)n;
}

static const char *body_of(uint8_t family) {
  switch (family) {
    case GPU_REDUCE: return gpu_text_reduce;
    case GPU_PRODUCT: return gpu_text_matmul;
    case GPU_ROWS: return gpu_text_rows;
    case GPU_LOSS: return gpu_text_loss;
    case GPU_OPTIM: return gpu_text_optim;
    case GPU_PICK: return gpu_text_pick;
    default: return gpu_text_elementwise;
  }
}

/* The word behind "#define NAME ". */
static bool name_of(const gpu_defines *d, char *name, size_t size) {
  static const char mark[] = "#define NAME ";
  const char *at = strstr(d->text, mark);
  if (!at) return false;
  at += sizeof mark - 1;
  size_t n = strcspn(at, "\n");
  if (n == 0 || n >= size) return false;
  memcpy(name, at, n);
  name[n] = 0;
  return true;
}

static tn_status compile(const gpu_key *key, const gpu_defines *d, void **out_kernel) {
  char name[128];
  if (d->used >= sizeof d->text || !name_of(d, name, sizeof name))
    return TN_FAIL(TN_ERR_INTERNAL, "the defines of a device kernel do not fit: %zu bytes", d->used);
  const char *texts[8] = {d->text, gpu_text_dialect, gpu_text_types};
  uint32_t n = 3;
  if (key->family == GPU_MAP || key->family == GPU_RANDOM) {
    texts[n++] = gpu_text_math;
    texts[n++] = key->family == GPU_MAP ? gpu_text_expressions : gpu_text_random;
  }
  texts[n++] = body_of(key->family);
  tn_status status = gpu_now->build(key->device, texts, n, name, out_kernel);
  return status == TN_OK ? TN_OK : TN_WRAP(status, "device kernel %s", name);
}

static tn_status compile_once(const gpu_key *key, const gpu_defines *d, void **out_kernel) {
  *out_kernel = lookup(key); /* another thread may have been faster */
  if (*out_kernel) return TN_OK;
  TN_TRY(compile(key, d, out_kernel));
  return insert(key, *out_kernel);
}

tn_status gpu_kernel_get(const gpu_key *key, void (*write)(gpu_defines *d, const void *ctx), const void *ctx,
                         void **out_kernel) {
  *out_kernel = lookup(key);
  if (__builtin_expect(*out_kernel != NULL, 1)) return TN_OK;
  gpu_caps caps;
  gpu_defines d = {.used = 0, .text = ""};
  TN_TRY(gpu_now->caps(key->device, &caps));
  gpu_define(&d, "#define HAS_DOUBLE %d\n", caps.has_double);
  write(&d, ctx);
  pthread_mutex_lock(&cache.building);
  tn_status status = compile_once(key, &d, out_kernel);
  pthread_mutex_unlock(&cache.building);
  return status;
}

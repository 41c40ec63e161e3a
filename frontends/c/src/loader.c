/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader: an epoch's order, and batches made on demand or by one thread that runs ahead.
 *
 * Note [Prefetch queue]
 * A ring of `prefetch` batches under one mutex. The thread waits for room, next() waits for a batch; each
 * slot carries a status and its words, so a failure comes out in its place of the order. `stop` ends the
 * thread at its next look; a dataset's get is never interrupted. The thread lives for one epoch.
 */
#include <pthread.h>
#include <tenon/data.h>

#include "frontends/c/src/support.h"

typedef struct batch {
  tn_status status;
  char *words; /* of a failure; owned; NULL if there was no memory for them */
  tn_tensor **fields;
} batch;

struct tn_loader {
  tn_dataset *dataset;
  tn_loader_options options;
  size_t n_fields;
  int64_t *order;
  int64_t next;  /* batch that next() gives, or, with a thread, that the thread makes; -1: no epoch runs */
  int64_t given; /* batches that next() has given */
  bool failed;
  /* see Note [Prefetch queue] */
  pthread_t thread;
  bool threaded; /* the thread was started and not joined */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  batch *ring;
  int32_t first, count;
  bool stop;
};

int64_t tn_loader_batches(const tn_loader *loader) {
  if (!loader) return 0;
  int64_t n = tn_dataset_length(loader->dataset), size = loader->options.batch_size;
  return n / size + (!loader->options.drop_last && n % size != 0);
}

/* ------------------------------------------------------------------ one batch */

static tn_status make_batch(tn_loader *l, int64_t number, tn_tensor **out_fields) {
  int64_t first = number * l->options.batch_size;
  int64_t left = tn_dataset_length(l->dataset) - first;
  int64_t n = left < l->options.batch_size ? left : l->options.batch_size;
  return tn_dataset_get(l->dataset, l->order + first, (size_t)n, out_fields, l->n_fields);
}

static void drop_fields(const tn_loader *l, tn_tensor **fields) {
  for (size_t f = 0; f < l->n_fields; f++) {
    tn_tensor_release(fields[f]);
    fields[f] = NULL;
  }
}

/* ------------------------------------------------------------------ the thread */

static void *run_ahead(void *ctx) {
  tn_loader *l = ctx;
  int64_t total = tn_loader_batches(l);
  bool ended = false;
  pthread_mutex_lock(&l->mutex);
  while (!ended && l->next < total) {
    while (!l->stop && l->count == l->options.prefetch) pthread_cond_wait(&l->changed, &l->mutex);
    if (l->stop) break;
    batch *slot = &l->ring[(l->first + l->count) % l->options.prefetch]; /* free: nobody else touches it */
    int64_t number = l->next++;
    pthread_mutex_unlock(&l->mutex);
    slot->status = make_batch(l, number, slot->fields);
    ended = slot->status != TN_OK;
    slot->words = ended ? strdup(tn_error_message()) : NULL;
    pthread_mutex_lock(&l->mutex);
    l->count++;
    pthread_cond_broadcast(&l->changed);
  }
  pthread_mutex_unlock(&l->mutex);
  return NULL;
}

static void end_epoch(tn_loader *l) {
  if (l->threaded) {
    pthread_mutex_lock(&l->mutex);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    pthread_join(l->thread, NULL);
    l->threaded = false;
  }
  for (; l->count > 0; l->count--, l->first = (l->first + 1) % l->options.prefetch) {
    drop_fields(l, l->ring[l->first].fields);
    free(l->ring[l->first].words);
    l->ring[l->first].words = NULL;
  }
  l->next = -1;
}

/* Takes the oldest batch out of the ring. */
static tn_status take(tn_loader *l, tn_tensor **out_fields) {
  pthread_mutex_lock(&l->mutex);
  while (l->count == 0) pthread_cond_wait(&l->changed, &l->mutex);
  batch *slot = &l->ring[l->first];
  batch got = *slot;
  memcpy(out_fields, slot->fields, l->n_fields * sizeof *out_fields);
  memset(slot->fields, 0, l->n_fields * sizeof *slot->fields);
  slot->words = NULL;
  l->first = (l->first + 1) % l->options.prefetch;
  l->count--;
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->mutex);
  if (got.status == TN_OK) return TN_OK;
  tn_fail(got.status, "%s",
          got.words ? got.words : "the loader's thread failed, and had no memory for its words");
  free(got.words);
  return got.status;
}

/* ------------------------------------------------------------------ public */

static tn_status make_rooms(tn_loader *l) {
  TN_TRY(
      tni_nn_alloc((size_t)tn_dataset_length(l->dataset), sizeof *l->order, "a loader's order", &l->order));
  TN_TRY(tni_nn_alloc((size_t)l->options.prefetch, sizeof *l->ring, "a loader's queue", &l->ring));
  for (int32_t i = 0; i < l->options.prefetch; i++)
    TN_TRY(tni_nn_alloc(l->n_fields, sizeof(tn_tensor *), "a loader's queue", &l->ring[i].fields));
  return TN_OK;
}

tn_status tn_loader_new(tn_dataset *dataset, const tn_loader_options *options, tn_loader **out_loader) {
  *out_loader = NULL;
  TN_TRY(tni_nn_not_null(dataset, "tn_loader_new: the dataset"));
  TN_TRY(tni_nn_not_null(options, "tn_loader_new: the options"));
  if (options->batch_size < 1 || options->prefetch < 0)
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "tn_loader_new: batch_size >= 1 and prefetch >= 0 were expected, not %lld and %d",
                   (long long)options->batch_size, options->prefetch);
  tn_loader *l = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *l, "a loader", &l));
  pthread_mutex_init(&l->mutex, NULL);
  pthread_cond_init(&l->changed, NULL);
  l->dataset = tn_dataset_retain(dataset);
  l->options = *options;
  l->n_fields = tn_dataset_fields(dataset);
  l->next = -1;
  tn_status status = make_rooms(l);
  if (status != TN_OK) {
    tn_loader_release(l);
    return status;
  }
  *out_loader = l;
  return TN_OK;
}

void tn_loader_release(tn_loader *loader) {
  if (!loader) return;
  end_epoch(loader);
  for (int32_t i = 0; loader->ring && i < loader->options.prefetch; i++) free(loader->ring[i].fields);
  free(loader->ring);
  free(loader->order);
  pthread_cond_destroy(&loader->changed);
  pthread_mutex_destroy(&loader->mutex);
  tn_dataset_release(loader->dataset);
  free(loader);
}

tn_status tn_loader_begin(tn_loader *loader, uint64_t epoch) { return tn_loader_begin_at(loader, epoch, 0); }

tn_status tn_loader_begin_at(tn_loader *loader, uint64_t epoch, int64_t first) {
  TN_TRY(tni_nn_not_null(loader, "tn_loader_begin: the loader"));
  if (first < 0 || first > tn_loader_batches(loader))
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "tn_loader_begin_at: an epoch has %lld batches; it cannot begin at %lld",
                   (long long)tn_loader_batches(loader), (long long)first);
  end_epoch(loader);
  int64_t n = tn_dataset_length(loader->dataset);
  if (loader->options.shuffle) TN_TRY(tn_shuffle(loader->options.seed, epoch, loader->order, n));
  for (int64_t i = 0; i < n && !loader->options.shuffle; i++) loader->order[i] = i;
  loader->next = loader->given = first;
  loader->failed = loader->stop = false;
  if (loader->options.prefetch == 0) return TN_OK;
  int code = pthread_create(&loader->thread, NULL, run_ahead, loader);
  if (code) {
    loader->next = -1;
    return tn_fail(TN_ERR_OUT_OF_MEMORY, "tn_loader_begin: no thread could be started: %s", strerror(code));
  }
  loader->threaded = true;
  return TN_OK;
}

tn_status tn_loader_next(tn_loader *loader, tn_tensor **out_fields, size_t n_fields) {
  for (size_t f = 0; f < n_fields; f++) out_fields[f] = NULL;
  TN_TRY(tni_nn_not_null(loader, "tn_loader_next: the loader"));
  if (n_fields != loader->n_fields)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_loader_next: the dataset has %zu fields, room for %zu came",
                   loader->n_fields, n_fields);
  bool running = loader->threaded || loader->next >= 0;
  if (!running) return tn_fail(TN_ERR_STATE, "tn_loader_next: no epoch runs; call tn_loader_begin first");
  if (loader->failed || loader->given == tn_loader_batches(loader)) return TN_OK;
  tn_status status =
      loader->threaded ? take(loader, out_fields) : make_batch(loader, loader->next++, out_fields);
  loader->failed = status != TN_OK;
  loader->given++;
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets and the loader that turns them into shuffled batches, ahead of the training loop if asked.
 *
 * The order of an epoch depends on (seed, epoch, length) only: not on prefetching, threads or platform.
 */
#ifndef TENON_DATA_H
#define TENON_DATA_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ datasets */

typedef struct tn_dataset tn_dataset; /* counted */

/* What a dataset does. Copied. get may run on a loader's thread; never twice at once for one loader. */
typedef struct tn_dataset_def {
  /* Stores n_fields owned tensors whose dim 0 is n: sample indices[i] at row i. 0 <= index < length. */
  tn_status (*get)(void *ctx, const int64_t *indices, size_t n, tn_tensor **out_fields, size_t n_fields);
  void (*free_ctx)(void *ctx); /* NULL: none */
} tn_dataset_def;
/* ctx is consumed, also on failure. length >= 0, n_fields >= 1 (image and label: 2). */
TN_EXPORT tn_status tn_dataset_new(const tn_dataset_def *def, void *ctx, int64_t length, size_t n_fields,
                                   tn_dataset **out_dataset);
TN_EXPORT tn_dataset *tn_dataset_retain(tn_dataset *dataset);
TN_EXPORT void tn_dataset_release(tn_dataset *dataset); /* NULL is allowed */
TN_EXPORT int64_t tn_dataset_length(const tn_dataset *dataset);
TN_EXPORT size_t tn_dataset_fields(const tn_dataset *dataset);
/* A batch by indices, which are checked. out_fields: n_fields owned tensors, all NULL on failure. */
TN_EXPORT tn_status tn_dataset_get(tn_dataset *dataset, const int64_t *indices, size_t n,
                                   tn_tensor **out_fields, size_t n_fields);
/* Row i of every tensor is sample i. The tensors are shared and must have the same size in dim 0. */
TN_EXPORT tn_status tn_tensor_dataset_new(tn_tensor *const *tensors, size_t n, tn_dataset **out_dataset);

/* ------------------------------------------------------------------ files */

/* Reads an IDX file, plain or gzip-compressed (by content, not by name), of unsigned bytes, int8, int16,
 * int32, float32 or float64. TN_ERR_NOT_FOUND: no such file; TN_ERR_IO: it cannot be read; TN_ERR_DATA: the
 * magic number, the sizes, or the length is wrong. The words name the file, what was expected and what was
 * found. */
TN_EXPORT tn_status tn_idx_read(const char *path, tn_tensor **out_tensor);

/* Fashion-MNIST from the four IDX .gz files in folder (NULL: where Debian's dataset-fashion-mnist puts them).
 * Fields: images float32 [n, 1, 28, 28] in 0..1, labels int64 [n]. */
#define TN_FASHION_MNIST_FOLDER "/usr/share/datasets/fashion-mnist"
TN_EXPORT tn_status tn_fashion_mnist_new(const char *folder, bool train, tn_dataset **out_dataset);

/* ------------------------------------------------------------------ loader */

typedef struct tn_loader tn_loader;

typedef struct tn_loader_options {
  int64_t batch_size; /* at least 1 */
  bool shuffle;
  bool drop_last;   /* leave out a last batch that is not full */
  uint64_t seed;    /* of the shuffles */
  int32_t prefetch; /* batches made ahead by a thread; 0: made when asked for */
} tn_loader_options;

/* The dataset is shared. */
TN_EXPORT tn_status tn_loader_new(tn_dataset *dataset, const tn_loader_options *options,
                                  tn_loader **out_loader);
/* Ends a running epoch, stops its thread, frees what it had made. NULL is allowed. */
TN_EXPORT void tn_loader_release(tn_loader *loader);
TN_EXPORT int64_t tn_loader_batches(const tn_loader *loader); /* of one epoch */
/* Starts an epoch from its first batch; a running one is ended. */
TN_EXPORT tn_status tn_loader_begin(tn_loader *loader, uint64_t epoch);
/* ... from batch number `batch` (0: the first), without making those before: to go on where a run stopped. */
TN_EXPORT tn_status tn_loader_begin_at(tn_loader *loader, uint64_t epoch, int64_t batch);
/* The next batch: n_fields owned tensors. At the end of the epoch TN_OK and every entry NULL. A failure of
 * the dataset comes out here, with its words, in its place of the order; the epoch is then over. */
TN_EXPORT tn_status tn_loader_next(tn_loader *loader, tn_tensor **out_fields, size_t n_fields);
/* The scoped form: true as long as there is a batch, which the thread's scope then owns. */
static inline bool tns_loader_next(tn_loader *loader, tn_tensor **out_fields, size_t n_fields) {
  tn_status status = tn_loader_next(loader, out_fields, n_fields);
  if (status != TN_OK) tn_scope_note(status);
  if (status != TN_OK || n_fields == 0 || !out_fields[0]) return false;
  bool whole = true;
  for (size_t i = 0; i < n_fields; i++) whole &= (out_fields[i] = tn_scope_add(out_fields[i])) != NULL;
  return whole; /* else the scope has noted why */
}

/* 0..n-1 in the order of (seed, epoch): Fisher-Yates over Philox4x32-10. */
TN_EXPORT tn_status tn_shuffle(uint64_t seed, uint64_t epoch, int64_t *out_indices, int64_t n);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The dataset object, with all checks of indices and results in one place, and the dataset over tensors.
 */
#include <stdatomic.h>
#include <tenon/data.h>

#include "frontends/c/src/support.h"

struct tn_dataset {
  _Atomic uint32_t refs;
  tn_dataset_def def;
  void *ctx;
  int64_t length;
  size_t n_fields;
};

tn_status tn_dataset_new(const tn_dataset_def *def, void *ctx, int64_t length, size_t n_fields,
                         tn_dataset **out_dataset) {
  *out_dataset = NULL;
  tn_dataset *d = NULL;
  tn_status status = TN_OK;
  if (!def || !def->get || length < 0 || n_fields < 1)
    status = tn_fail(TN_ERR_INVALID_ARGUMENT,
                     "tn_dataset_new: get, a length >= 0 and at least one field were expected");
  if (status == TN_OK) status = tni_nn_alloc(1, sizeof *d, "a dataset", &d);
  if (status != TN_OK) {
    if (def && def->free_ctx) def->free_ctx(ctx);
    return status;
  }
  atomic_init(&d->refs, 1);
  d->def = *def;
  d->ctx = ctx;
  d->length = length;
  d->n_fields = n_fields;
  *out_dataset = d;
  return TN_OK;
}

tn_dataset *tn_dataset_retain(tn_dataset *dataset) {
  if (dataset) atomic_fetch_add_explicit(&dataset->refs, 1, memory_order_relaxed);
  return dataset;
}

void tn_dataset_release(tn_dataset *dataset) {
  if (!dataset || atomic_fetch_sub_explicit(&dataset->refs, 1, memory_order_acq_rel) != 1) return;
  if (dataset->def.free_ctx) dataset->def.free_ctx(dataset->ctx);
  free(dataset);
}

int64_t tn_dataset_length(const tn_dataset *dataset) { return dataset ? dataset->length : 0; }
size_t tn_dataset_fields(const tn_dataset *dataset) { return dataset ? dataset->n_fields : 0; }

static tn_status check_request(const tn_dataset *d, const int64_t *indices, size_t n, size_t n_fields) {
  TN_TRY(tni_nn_not_null(d, "tn_dataset_get: the dataset"));
  if (n_fields != d->n_fields)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_dataset_get: the dataset has %zu fields, room for %zu came",
                   d->n_fields, n_fields);
  for (size_t i = 0; i < n; i++)
    if (indices[i] < 0 || indices[i] >= d->length)
      return tn_fail(TN_ERR_INVALID_ARGUMENT,
                     "tn_dataset_get: index %lld is outside of a dataset of %lld samples",
                     (long long)indices[i], (long long)d->length);
  return TN_OK;
}

static tn_status check_answer(tn_tensor *const *fields, size_t n_fields, size_t n) {
  for (size_t f = 0; f < n_fields; f++)
    if (!fields[f] || tn_tensor_ndim(fields[f]) < 1 || tn_tensor_sizes(fields[f])[0] != (tn_dim)n)
      return tn_fail(TN_ERR_STATE, "a dataset answered field %zu without a tensor of %zu rows", f, n);
  return TN_OK;
}

tn_status tn_dataset_get(tn_dataset *dataset, const int64_t *indices, size_t n, tn_tensor **out_fields,
                         size_t n_fields) {
  for (size_t f = 0; f < n_fields; f++) out_fields[f] = NULL;
  TN_TRY(check_request(dataset, indices, n, n_fields));
  tn_status status = dataset->def.get(dataset->ctx, indices, n, out_fields, n_fields);
  if (status == TN_OK) status = check_answer(out_fields, n_fields, n);
  for (size_t f = 0; f < n_fields && status != TN_OK; f++) {
    tn_tensor_release(out_fields[f]);
    out_fields[f] = NULL;
  }
  return status;
}

/* ------------------------------------------------------------------ over tensors */

typedef struct columns {
  size_t n;
  tn_tensor *tensors[];
} columns;

static void columns_free(void *ctx) {
  columns *c = ctx;
  for (size_t i = 0; i < c->n; i++) tn_tensor_release(c->tensors[i]);
  free(c);
}

static tn_status columns_get(void *ctx, const int64_t *indices, size_t n, tn_tensor **out_fields,
                             size_t n_fields) {
  columns *c = ctx;
  tn_tensor *host = NULL;
  tn_dim size = (tn_dim)n;
  TN_TRY(tn_tensor_from_host(indices, &size, 1, TN_OPTIONS(.dtype = TN_INT64, .has_device = true), &host));
  tn_status status = TN_OK;
  for (size_t f = 0; f < n_fields && status == TN_OK; f++) {
    tn_tensor *index = NULL;
    status = tn_to_device(host, tn_tensor_device(c->tensors[f]), TN_INT64, false, false,
                          TN_MEMORY_FORMAT_NONE, &index);
    if (status == TN_OK) status = tn_index_select(c->tensors[f], 0, index, &out_fields[f]);
    tn_tensor_release(index);
  }
  tn_tensor_release(host);
  return status;
}

tn_status tn_tensor_dataset_new(tn_tensor *const *tensors, size_t n, tn_dataset **out_dataset) {
  static const tn_dataset_def def = {columns_get, columns_free};
  *out_dataset = NULL;
  if (n == 0)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_dataset_new: at least one tensor was expected");
  for (size_t i = 0; i < n; i++) {
    if (!tensors[i] || tn_tensor_ndim(tensors[i]) < 1)
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_dataset_new: tensor %zu is NULL or has no dim", i);
    if (tn_tensor_sizes(tensors[i])[0] != tn_tensor_sizes(tensors[0])[0])
      return tn_fail(TN_ERR_INVALID_ARGUMENT,
                     "tn_tensor_dataset_new: tensor %zu has %lld rows, the first %lld", i,
                     (long long)tn_tensor_sizes(tensors[i])[0], (long long)tn_tensor_sizes(tensors[0])[0]);
  }
  columns *c = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *c + n * sizeof(tn_tensor *), "a dataset", &c));
  c->n = n;
  for (size_t i = 0; i < n; i++) c->tensors[i] = tn_tensor_retain(tensors[i]);
  return tn_dataset_new(&def, c, tn_tensor_sizes(tensors[0])[0], n, out_dataset);
}

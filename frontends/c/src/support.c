/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory with words, and a few questions to a tensor that several files ask.
 */
#include "frontends/c/src/support.h"

tn_status tni_nn_alloc(size_t count, size_t size_bytes, const char *what, void *out) {
  void *p = calloc(count ? count : 1, size_bytes ? size_bytes : 1);
  memcpy(out, &p, sizeof p);
  if (!p)
    return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu x %zu bytes for %s", count, size_bytes, what);
  return TN_OK;
}

tn_status tni_nn_grow(void *items, size_t *capacity, size_t count, size_t size_bytes, const char *what) {
  if (count < *capacity) return TN_OK;
  size_t wanted = *capacity ? *capacity * 2 : 8;
  void *old;
  memcpy(&old, items, sizeof old);
  void *p = wanted <= SIZE_MAX / size_bytes ? realloc(old, wanted * size_bytes) : NULL;
  if (!p)
    return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu x %zu bytes for %s", wanted, size_bytes, what);
  memcpy(items, &p, sizeof p);
  *capacity = wanted;
  return TN_OK;
}

tn_status tni_nn_strdup(const char *s, char **out_copy) {
  size_t n = strlen(s) + 1;
  TN_TRY(tni_nn_alloc(n, 1, "a name", out_copy));
  memcpy(*out_copy, s, n);
  return TN_OK;
}

const char *tni_nn_shape(const tn_tensor *tensor, char *buffer, size_t size_bytes) {
  size_t at = 0;
  int32_t ndim = tn_tensor_ndim(tensor);
  at += (size_t)snprintf(buffer, size_bytes, "[");
  for (int32_t d = 0; d < ndim && at + 32 < size_bytes; d++)
    at += (size_t)snprintf(buffer + at, size_bytes - at, "%s%lld", d ? ", " : "",
                           (long long)tn_tensor_sizes(tensor)[d]);
  bool whole = at + 32 < size_bytes || ndim == 0;
  snprintf(buffer + at, size_bytes - at, whole ? "]" : ", ...]");
  return buffer;
}

bool tni_nn_same_shape(const tn_tensor *a, const tn_tensor *b) {
  int32_t ndim = tn_tensor_ndim(a);
  return ndim == tn_tensor_ndim(b) &&
         (ndim == 0 || !memcmp(tn_tensor_sizes(a), tn_tensor_sizes(b), (size_t)ndim * sizeof(tn_dim)));
}

bool tni_nn_is_floating(const tn_tensor *tensor) {
  return (TN_DTYPE_BIT(tn_tensor_dtype(tensor)) & TN_DTYPES_FLOAT) != 0;
}

tn_status tni_nn_not_null(const void *p, const char *what) {
  return p ? TN_OK : tn_fail(TN_ERR_INVALID_ARGUMENT, "%s is NULL", what);
}

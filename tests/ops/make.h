/* SPDX-License-Identifier: Apache-2.0
 *
 * Small tensors for the hand-written tests of this folder: 0, 1, 2, ... in row-major order on the CPU.
 */
#ifndef TN_TESTS_OPS_MAKE_H
#define TN_TESTS_OPS_MAKE_H

#include <tenon/tenon.h>

#include "tn_test.h"

#define SIZES(...) (const tn_dim[]){__VA_ARGS__}, (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

enum { MAKE_MOST = 256 };

static inline tn_tensor *make_float(const tn_dim *sizes, int nd) {
  float values[MAKE_MOST];
  tn_tensor *t = NULL;
  for (int i = 0; i < MAKE_MOST; i++) values[i] = (float)i;
  TN_CHECK_OK(tn_tensor_from_host(values, sizes, nd, NULL, &t));
  return t;
}

static inline tn_tensor *make_int(const tn_dim *sizes, int nd) {
  int64_t values[MAKE_MOST];
  tn_tensor *t = NULL;
  for (int i = 0; i < MAKE_MOST; i++) values[i] = i;
  TN_CHECK_OK(tn_tensor_from_host(values, sizes, nd, TN_OPTIONS(.dtype = TN_INT64), &t));
  return t;
}

/* The tensor still holds 0, 1, 2, ... */
static inline void check_untouched(tn_tensor *t) {
  tn_tensor *wide = NULL;
  double values[MAKE_MOST];
  size_t n = (size_t)tn_tensor_numel(t);
  TN_CHECK_OK(tn_to_dtype(t, TN_FLOAT64, false, true, TN_CONTIGUOUS_FORMAT, &wide));
  TN_CHECK_OK(tn_tensor_to_host(wide, values, n * sizeof *values));
  for (size_t i = 0; i < n; i++) TN_CHECK_DOUBLE(values[i], (double)i, 0);
  tn_tensor_release(wide);
}

static inline uint32_t version_of(const tn_tensor *t) {
  uint32_t version = 0;
  TN_CHECK_OK(tn_tensor_version(t, &version));
  return version;
}

#endif

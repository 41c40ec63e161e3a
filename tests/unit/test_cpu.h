/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the CPU backend share: tensors from a fixed sequence, reading one back as doubles, and
 * a comparison of bits. They go through the public calls; TENON_CPU_ISA=scalar|avx2|avx512 chooses the set
 * under test.
 */
#ifndef TN_TESTS_UNIT_TEST_CPU_H
#define TN_TESTS_UNIT_TEST_CPU_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>
#include <tenon/tenon.h>

#include "tn_test.h"

#define CPU_SIZES(...) \
  (const int64_t[]){__VA_ARGS__}, (size_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* Numbers in [low, high), the same on every run. */
static inline double cpu_next(uint64_t *state, double low, double high) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return low + (high - low) * (double)(*state >> 11) * 0x1p-53;
}

static inline tn_tensor *cpu_tensor(const int64_t *sizes, size_t nd, tn_dtype dtype, double low, double high,
                                    uint64_t seed) {
  int64_t n = 1;
  for (size_t d = 0; d < nd; ++d) n *= sizes[d];
  double *values = calloc((size_t)n + 1, sizeof *values);
  tn_tensor *wide = NULL, *t = NULL;
  for (int64_t i = 0; i < n; ++i) values[i] = cpu_next(&seed, low, high);
  TN_CHECK_OK(tn_tensor_from_host(values, sizes, (int32_t)nd, TN_OPTIONS(.dtype = TN_FLOAT64), &wide));
  TN_CHECK_OK(tn_to_dtype(wide, dtype, false, false, TN_PRESERVE_FORMAT, &t));
  tn_tensor_release(wide);
  free(values);
  return t;
}

/* Row-major values; the caller frees them. */
static inline double *cpu_values(tn_tensor *t) {
  tn_tensor *wide = NULL;
  size_t n = (size_t)tn_tensor_numel(t);
  double *values = malloc((n + 1) * sizeof *values);
  TN_CHECK_OK(tn_to_dtype(t, TN_FLOAT64, false, false, TN_PRESERVE_FORMAT, &wide));
  TN_CHECK_OK(tn_tensor_to_host(wide, values, n * sizeof *values));
  tn_tensor_release(wide);
  return values;
}

/* Same dtype, same count, same bytes in row-major order. */
static inline void cpu_check_same_bits(tn_tensor *a, tn_tensor *b) {
  size_t bytes = (size_t)tn_tensor_numel(a) * tn_dtype_size(tn_tensor_dtype(a));
  TN_CHECK_INT(tn_tensor_dtype(a), tn_tensor_dtype(b));
  TN_CHECK_INT(tn_tensor_numel(a), tn_tensor_numel(b));
  char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
  TN_CHECK_OK(tn_tensor_to_host(a, x, bytes));
  TN_CHECK_OK(tn_tensor_to_host(b, y, bytes));
  TN_CHECK_INT(memcmp(x, y, bytes), 0);
  free(x);
  free(y);
}

#endif

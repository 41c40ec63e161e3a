/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of the CPU backend: casts at the borders of their ranges, every half, transposes larger than a
 * tile, and strided targets.
 */
#include <tenon/kit/dtype.h>

#include "test_cpu.h"

TN_TEST(cpu_copy, every_half_through_float32_and_back) {
  enum { ALL = 65536 };
  const tn_dtype halves[] = {TN_FLOAT16, TN_BFLOAT16};
  uint16_t *bits = malloc(ALL * sizeof *bits), *back = malloc(ALL * sizeof *back);
  float *wide = malloc(ALL * sizeof *wide);
  for (int i = 0; i < ALL; ++i) bits[i] = (uint16_t)i;
  for (int h = 0; h < 2; ++h) {
    tn_tensor *half = NULL, *floats, *again;
    TN_CHECK_OK(tn_tensor_from_host(bits, (const tn_dim[]){ALL}, 1, TN_OPTIONS(.dtype = halves[h]), &half));
    TN_CHECK_OK(tn_to_dtype(half, TN_FLOAT32, false, false, TN_PRESERVE_FORMAT, &floats));
    TN_CHECK_OK(tn_to_dtype(floats, halves[h], false, false, TN_PRESERVE_FORMAT, &again));
    TN_CHECK_OK(tn_tensor_to_host(floats, wide, ALL * sizeof *wide));
    TN_CHECK_OK(tn_tensor_to_host(again, back, ALL * sizeof *back));
    for (int i = 0; i < ALL; ++i) {
      float expected =
          h == 0 ? tn_float16_to_float((tn_float16){bits[i]}) : tn_bfloat16_to_float((tn_bfloat16){bits[i]});
      TN_CHECK_INT(tn_float_bits(wide[i]), tn_float_bits(expected));
      if (!isnan(expected)) TN_CHECK_INT(back[i], bits[i]);
    }
    tn_tensor_release(half);
    tn_tensor_release(floats);
    tn_tensor_release(again);
  }
  free(bits);
  free(back);
  free(wide);
}

/* Bodies and tails of the vector loops must agree on values that do not fit. */
TN_TEST(cpu_copy, floats_that_do_not_fit_an_integer_give_one_answer) {
  enum { N = 67 };
  const double odd[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 300.5, -129.5, 0.5};
  const tn_dtype targets[] = {TN_UINT8, TN_INT8, TN_INT16, TN_INT32, TN_INT64, TN_BOOL};
  for (int v = 0; v < 8; ++v)
    for (int d = 0; d < 6; ++d) {
      const int64_t n = N;
      tn_tensor *x = NULL, *y;
      TN_CHECK_OK(tn_full(&n, 1, tn_float(odd[v]), TN_OPTIONS(.dtype = TN_FLOAT32), &x));
      TN_CHECK_OK(tn_to_dtype(x, targets[d], false, false, TN_PRESERVE_FORMAT, &y));
      double *values = cpu_values(y);
      for (int i = 1; i < N; ++i) TN_CHECK_DOUBLE(values[i], values[0], 0);
      if (targets[d] == TN_BOOL) TN_CHECK_DOUBLE(values[0], 1, 0);
      free(values);
      tn_tensor_release(x);
      tn_tensor_release(y);
    }
}

TN_TEST(cpu_copy, transposes_and_permutations_keep_their_elements) {
  const tn_dtype dtypes[] = {TN_INT8, TN_INT16, TN_FLOAT32, TN_INT64};
  for (int d = 0; d < 4; ++d) {
    tn_tensor *x = cpu_tensor(CPU_SIZES(130, 7, 75), dtypes[d], -100, 100, 3), *p, *c;
    TN_CHECK_OK(tn_permute(x, CPU_SIZES(2, 0, 1), &p));
    TN_CHECK_OK(tn_contiguous(p, TN_CONTIGUOUS_FORMAT, &c));
    double *a = cpu_values(x), *b = cpu_values(c);
    for (int i = 0; i < 130; ++i)
      for (int j = 0; j < 7; ++j)
        for (int k = 0; k < 75; ++k) TN_CHECK_DOUBLE(b[(k * 130 + i) * 7 + j], a[(i * 7 + j) * 75 + k], 0);
    free(a);
    free(b);
    tn_tensor_release(x);
    tn_tensor_release(p);
    tn_tensor_release(c);
  }
}

TN_TEST(cpu_copy, a_strided_target_changes_only_its_own_elements) {
  const int64_t n = 1000, begin = 3, end = 900;
  tn_tensor *x = NULL, *part, *ones = NULL;
  TN_CHECK_OK(tn_zeros(&n, 1, TN_OPTIONS(.dtype = TN_FLOAT32), &x));
  TN_CHECK_OK(tn_slice(x, 0, &begin, &end, 3, &part));
  TN_CHECK_OK(tn_ones((const int64_t[]){1}, 1, TN_OPTIONS(.dtype = TN_INT64), &ones));
  TN_CHECK_OK(tn_copy_(part, ones, false));
  double *values = cpu_values(x);
  for (int i = 0; i < n; ++i) TN_CHECK_DOUBLE(values[i], i >= 3 && i < 900 && i % 3 == 0, 0);
  free(values);
  tn_tensor_release(x);
  tn_tensor_release(part);
  tn_tensor_release(ones);
}

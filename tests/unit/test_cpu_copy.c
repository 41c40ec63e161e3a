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

static tn_tensor *cast_to(tn_tensor *x, tn_dtype dtype) {
  tn_tensor *y = NULL;
  TN_CHECK_OK(tn_to_dtype(x, dtype, false, false, TN_PRESERVE_FORMAT, &y));
  return y;
}

static int64_t bytes_that_differ(tn_tensor *a, tn_tensor *b, int64_t n, tn_dtype dtype) {
  const size_t size_bytes = (size_t)n * tn_dtype_size(dtype);
  uint8_t *x = malloc(size_bytes), *y = malloc(size_bytes);
  TN_CHECK_OK(tn_tensor_to_host(a, x, size_bytes));
  TN_CHECK_OK(tn_tensor_to_host(b, y, size_bytes));
  int64_t differ = 0;
  for (size_t i = 0; i < size_bytes; ++i) differ += x[i] != y[i];
  free(x);
  free(y);
  return differ;
}

/* Longer than the blocks in which such casts are done, with a last block that is not full. */
TN_TEST(cpu_copy, halves_are_cast_as_through_float32) {
  enum { N = 1311 };
  const tn_dtype halves[] = {TN_FLOAT16, TN_BFLOAT16};
  const tn_dtype others[] = {TN_BOOL,  TN_UINT8,   TN_INT8,    TN_INT16,   TN_INT32,
                             TN_INT64, TN_FLOAT16, TN_BFLOAT16, TN_FLOAT64};
  for (int h = 0; h < 2; ++h)
    for (int d = 0; d < 9; ++d) {
      tn_tensor *values = cpu_tensor(CPU_SIZES(N), TN_FLOAT64, -3, 120, 7);
      tn_tensor *other = cast_to(values, others[d]), *there = cast_to(other, halves[h]);
      tn_tensor *wide = cast_to(other, TN_FLOAT32), *expected = cast_to(wide, halves[h]);
      TN_CHECK_INT(bytes_that_differ(there, expected, N, halves[h]), 0);
      tn_tensor *half_wide = cast_to(expected, TN_FLOAT32), *back = cast_to(half_wide, others[d]);
      tn_tensor *direct = cast_to(expected, others[d]);
      TN_CHECK_INT(bytes_that_differ(direct, back, N, others[d]), 0);
      tn_tensor *const made[] = {values, other, there, wide, expected, half_wide, back, direct};
      for (int i = 0; i < 8; ++i) tn_tensor_release(made[i]);
    }
}

static void check_rounded(const float *values, int64_t n) {
  tn_tensor *x = NULL, *y;
  uint16_t *got = malloc((size_t)n * sizeof *got);
  TN_CHECK_OK(tn_tensor_from_host(values, &n, 1, TN_OPTIONS(.dtype = TN_FLOAT32), &x));
  TN_CHECK_OK(tn_to_dtype(x, TN_BFLOAT16, false, false, TN_PRESERVE_FORMAT, &y));
  TN_CHECK_OK(tn_tensor_to_host(y, got, (size_t)n * sizeof *got));
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) wrong += got[i] != tn_bfloat16_from_float(values[i]).bits;
  TN_CHECK_INT(wrong, 0);
  tn_tensor_release(x);
  tn_tensor_release(y);
  free(got);
}

/* Every upper half with lower halves below, at and above the tie, so NaN, subnormals and both parities too; in numbers
 * that vectors do not divide, and in one that is stored past the caches. */
TN_TEST(cpu_copy, floats_are_rounded_to_the_nearest_even_bfloat16) {
  const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  enum { LOWER = 6, UPPER = 65536, TIMES = 24 };
  const int64_t all = (int64_t)LOWER * UPPER;
  float *values = malloc((size_t)(TIMES * all) * sizeof *values);
  for (int64_t i = 0; i < TIMES * all; ++i) {
    const uint32_t bits = (uint32_t)(i / LOWER % UPPER) << 16 | lower[i % LOWER];
    memcpy(values + i, &bits, sizeof bits);
  }
  check_rounded(values, all);
  for (int64_t n = 1; n < 70; ++n) check_rounded(values + all - 16 * LOWER - n, n);
  check_rounded(values, TIMES * all - 5);
  free(values);
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

/* Turns a rows x columns matrix inside a larger one, at an odd place, into dtype and checks every element. */
static void check_turned(int64_t rows, int64_t columns, tn_dtype from, tn_dtype to) {
  const int64_t n = (rows + 2) * (columns + 3), outer[2] = {rows + 2, columns + 3}, one = 1, r_end = rows + 1,
                c_end = columns + 1;
  tn_tensor *flat, *x, *a, *b, *turned, *y;
  TN_CHECK_OK(tn_arange(tn_int(n), TN_OPTIONS(.dtype = TN_INT64), &flat));
  TN_CHECK_OK(tn_reshape(flat, outer, 2, &a));
  TN_CHECK_OK(tn_to_dtype(a, from, false, false, TN_PRESERVE_FORMAT, &x));
  tn_tensor_release(a);
  TN_CHECK_OK(tn_slice(x, 0, &one, &r_end, 1, &a));
  TN_CHECK_OK(tn_slice(a, 1, &one, &c_end, 1, &b));
  TN_CHECK_OK(tn_t(b, &turned));
  TN_CHECK_OK(tn_empty((const int64_t[]){columns, rows}, 2, TN_OPTIONS(.dtype = to), TN_MEMORY_FORMAT_NONE,
                       &y));
  TN_CHECK_OK(tn_copy_(y, turned, false));
  double *got = cpu_values(y), *all = cpu_values(x);
  int64_t wrong = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      wrong += got[j * rows + i] != all[(i + 1) * (columns + 3) + j + 1];
  TN_CHECK_INT(wrong, 0);
  free(got);
  free(all);
  tn_tensor *const made[] = {flat, x, a, b, turned, y};
  for (int i = 0; i < 6; ++i) tn_tensor_release(made[i]);
}

/* Around the sides of register squares and of tiles, for each size of an element, and with a cast. */
TN_TEST(cpu_copy, transposes_of_every_size_and_element) {
  const int64_t sides[] = {1, 3, 8, 15, 16, 17, 63, 65, 130, 300};
  const tn_dtype dtypes[] = {TN_UINT8, TN_INT16, TN_INT32, TN_FLOAT32, TN_FLOAT64};
  for (int d = 0; d < 5; ++d)
    for (int i = 0; i < 10; ++i)
      for (int j = 0; j < 10; ++j) check_turned(sides[i], sides[j], dtypes[d], dtypes[d]);
  for (int i = 0; i < 10; ++i) {
    check_turned(sides[i], sides[9 - i], TN_INT16, TN_FLOAT64);
    check_turned(sides[i], sides[9 - i], TN_FLOAT64, TN_INT64);
    check_turned(sides[i], sides[i], TN_INT32, TN_FLOAT32);
  }
}

/* Target rows a multiple of 4 KiB apart are stored past the caches; where no cache holds the whole, in tiles of other
 * sides: more than one of them both ways, with a part of a register square left over. */
TN_TEST(cpu_copy, transposes_past_the_caches) {
  check_turned(2048, 1301, TN_FLOAT32, TN_FLOAT32);
  check_turned(4096, 1301, TN_FLOAT32, TN_FLOAT32);
  check_turned(3072, 1037, TN_FLOAT64, TN_FLOAT64);
}

/* The source's short dim stands third, so planes are turned one by one; and three channels go innermost. */
TN_TEST(cpu_copy, planes_and_channels_are_turned) {
  const int64_t sizes[][4] = {{5, 3, 33, 18}, {2, 40, 17, 66}};
  const int64_t orders[][4] = {{0, 2, 3, 1}, {3, 0, 2, 1}, {2, 3, 0, 1}, {0, 3, 1, 2}};
  for (int s = 0; s < 2; ++s)
    for (int o = 0; o < 4; ++o) {
      const int64_t *z = sizes[s], *p = orders[o];
      tn_tensor *x = cpu_tensor(z, 4, TN_FLOAT32, -100, 100, 3), *turned, *y;
      TN_CHECK_OK(tn_permute(x, p, 4, &turned));
      TN_CHECK_OK(tn_contiguous(turned, TN_CONTIGUOUS_FORMAT, &y));
      double *a = cpu_values(x), *b = cpu_values(y);
      int64_t step[4] = {z[1] * z[2] * z[3], z[2] * z[3], z[3], 1}, at = 0, wrong = 0, i[4];
      for (i[0] = 0; i[0] < z[p[0]]; ++i[0])
        for (i[1] = 0; i[1] < z[p[1]]; ++i[1])
          for (i[2] = 0; i[2] < z[p[2]]; ++i[2])
            for (i[3] = 0; i[3] < z[p[3]]; ++i[3])
              wrong += b[at++] !=
                       a[i[0] * step[p[0]] + i[1] * step[p[1]] + i[2] * step[p[2]] + i[3] * step[p[3]]];
      TN_CHECK_INT(wrong, 0);
      free(a);
      free(b);
      tn_tensor_release(x);
      tn_tensor_release(turned);
      tn_tensor_release(y);
    }
}

/* Masks and values that are repeated along rows or columns, into a strided target. */
TN_TEST(cpu_copy, choices_take_broadcast_and_strided_operands) {
  enum { R = 37, C = 1100 };
  tn_tensor *a = cpu_tensor(CPU_SIZES(R, C), TN_FLOAT32, -1, 1, 1),
            *b = cpu_tensor(CPU_SIZES(C, R), TN_FLOAT32, -1, 1, 2),
            *m = cpu_tensor(CPU_SIZES(R, 1), TN_FLOAT32, -1, 1, 3), *mask, *turned, *y;
  TN_CHECK_OK(tn_gt_scalar(m, tn_int(0), &mask));
  TN_CHECK_OK(tn_t(b, &turned));
  TN_CHECK_OK(tn_where(mask, a, turned, &y));
  double *u = cpu_values(a), *v = cpu_values(b), *w = cpu_values(m), *z = cpu_values(y);
  int64_t wrong = 0;
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) wrong += z[i * C + j] != (w[i] > 0 ? u[i * C + j] : v[j * R + i]);
  TN_CHECK_OK(tn_masked_fill_(turned, mask, tn_float(0.25)));
  free(z);
  z = cpu_values(b);
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) wrong += z[j * R + i] != (w[i] > 0 ? 0.25 : v[j * R + i]);
  TN_CHECK_INT(wrong, 0);
  tn_tensor *const made[] = {a, b, m, mask, turned, y};
  double *const values[] = {u, v, w, z};
  for (int i = 0; i < 6; ++i) tn_tensor_release(made[i]);
  for (int i = 0; i < 4; ++i) free(values[i]);
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

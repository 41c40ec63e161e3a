/* SPDX-License-Identifier: Apache-2.0
 *
 * kit/shape: words, sizes and strides, dims, broadcasting, reshapes. The reshape is also held against a naive
 * one: strides of a view are right if and only if they visit the same elements in the same order.
 */
#include <string.h>
#include <tenon/kit/shape.h>

#include "tn_test.h"

#define D(...) ((const tn_dim[]){__VA_ARGS__})

static void check_dims(const tn_dim *got, uint32_t n, const tn_dim *expected) {
  for (uint32_t d = 0; d < n; d++) TN_CHECK_INT(got[d], expected[d]);
}

TN_TEST(kit_shape, format) {
  TN_CHECK_STR(tn_shape_format(0, NULL, TN_SHAPE_TEXT), "[]");
  TN_CHECK_STR(tn_shape_format(2, D(2, 3), TN_SHAPE_TEXT), "[2, 3]");
  TN_CHECK_STR(tn_shape_format(1, D(-1), TN_SHAPE_TEXT), "[-1]");
  tn_dim longest[TN_MAX_RANK];
  for (int d = 0; d < TN_MAX_RANK; d++) longest[d] = INT64_MIN;
  char text[TN_SHAPE_TEXT_BYTES];
  tn_shape_format(TN_MAX_RANK, longest, text, sizeof text);
  TN_CHECK_STR(text + strlen(text) - 3, "08]");
  char small[12];
  TN_CHECK_STR(tn_shape_format(4, D(1, 2, 3, 4), small, sizeof small), "[1, 2...]");
  TN_CHECK_STR(tn_shape_format(1, D(1), small, 3), "");
}

TN_TEST(kit_shape, numel) {
  tn_dim n = -1;
  TN_CHECK_OK(tn_shape_numel(0, NULL, &n));
  TN_CHECK_INT(n, 1);
  TN_CHECK_OK(tn_shape_numel(3, D(2, 3, 4), &n));
  TN_CHECK_INT(n, 24);
  TN_CHECK_OK(tn_shape_numel(3, D(INT64_MAX, 0, INT64_MAX), &n));
  TN_CHECK_INT(n, 0);
  TN_CHECK_FAILS(tn_shape_numel(2, D(3, -1), &n), TN_ERR_INVALID_ARGUMENT, "negative, found [3, -1]");
  TN_CHECK_FAILS(tn_shape_numel(2, D(INT64_MAX, 2), &n), TN_ERR_INVALID_ARGUMENT, "more elements");
  TN_CHECK_FAILS(tn_shape_numel(65, NULL, &n), TN_ERR_INVALID_ARGUMENT, "at most 64 dims, 65");
}

TN_TEST(kit_shape, strides) {
  tn_dim s[TN_MAX_RANK];
  tn_shape_contiguous_strides(3, D(2, 3, 4), s);
  check_dims(s, 3, D(12, 4, 1));
  tn_shape_contiguous_strides(3, D(2, 0, 4), s);
  check_dims(s, 3, D(4, 4, 1));
  TN_CHECK(tn_shape_is_contiguous(0, NULL, NULL));
  TN_CHECK(tn_shape_is_contiguous(3, D(2, 1, 4), D(4, 77, 1)));
  TN_CHECK(!tn_shape_is_contiguous(2, D(2, 3), D(1, 2)));
  TN_CHECK(tn_shape_is_contiguous(2, D(0, 3), D(1, 2)));
  TN_CHECK(tn_shape_is_dense(2, D(2, 3), D(1, 2)));
  TN_CHECK(tn_shape_is_dense(4, D(2, 3, 4, 5), D(60, 1, 15, 3)));
  TN_CHECK(!tn_shape_is_dense(2, D(2, 3), D(4, 1)));
  TN_CHECK(!tn_shape_is_dense(2, D(2, 3), D(0, 1)));
  TN_CHECK(!tn_shape_is_dense(1, D(3), D(-1)));
  TN_CHECK(!tn_shape_is_dense(1, D(3), D(2)));
  tn_shape_dense_strides_like(3, D(2, 3, 4), D(1, 20, 5), s);
  check_dims(s, 3, D(1, 8, 2));
  tn_shape_dense_strides_like(2, D(2, 3), D(0, 0), s);
  check_dims(s, 2, D(3, 1));
  tn_shape_dense_strides_like(3, D(1, 1, 4), D(0, 9, 3), s);
  check_dims(s, 3, D(1, 1, 1));
}

TN_TEST(kit_shape, wrap_dim) {
  uint32_t d = 9;
  TN_CHECK_OK(tn_shape_wrap_dim(-1, 3, &d));
  TN_CHECK_INT(d, 2);
  TN_CHECK_OK(tn_shape_wrap_dim(0, 0, &d));
  TN_CHECK_INT(d, 0);
  TN_CHECK_OK(tn_shape_wrap_dim(-1, 0, &d));
  TN_CHECK_INT(d, 0);
  TN_CHECK_FAILS(tn_shape_wrap_dim(3, 3, &d), TN_ERR_INVALID_ARGUMENT,
                 "dim out of range (expected [-3, 2], got 3)");
  TN_CHECK_FAILS(tn_shape_wrap_dim(1, 0, &d), TN_ERR_INVALID_ARGUMENT, "expected [-1, 0], got 1");
  TN_CHECK_FAILS(tn_shape_wrap_dim(INT64_MIN, 2, &d), TN_ERR_INVALID_ARGUMENT, "out of range");
}

TN_TEST(kit_shape, reduced_dims) {
  uint64_t mask = 0;
  TN_CHECK_OK(tn_shape_dim_mask(D(0, -1), 2, 3, true, &mask));
  TN_CHECK_INT(mask, 5);
  TN_CHECK_OK(tn_shape_dim_mask(NULL, 0, 3, true, &mask));
  TN_CHECK_INT(mask, 7);
  TN_CHECK_OK(tn_shape_dim_mask(NULL, 0, 3, false, &mask));
  TN_CHECK_INT(mask, 0);
  TN_CHECK_OK(tn_shape_dim_mask(NULL, 0, 64, true, &mask));
  TN_CHECK_INT(mask, -1);
  TN_CHECK_OK(tn_shape_dim_mask(NULL, 0, 0, true, &mask));
  TN_CHECK_INT(mask, 0);
  TN_CHECK_FAILS(tn_shape_dim_mask(D(1, -2), 2, 3, true, &mask), TN_ERR_INVALID_ARGUMENT,
                 "dim -2 appears twice");
  TN_CHECK_FAILS(tn_shape_dim_mask(D(3), 1, 3, true, &mask), TN_ERR_INVALID_ARGUMENT, "out of range");
  uint32_t n = 0;
  tn_dim out[TN_MAX_RANK];
  tn_shape_reduce(3, D(2, 3, 4), 5, true, &n, out);
  TN_CHECK_INT(n, 3);
  check_dims(out, 3, D(1, 3, 1));
  tn_shape_reduce(3, D(2, 3, 4), 5, false, &n, out);
  TN_CHECK_INT(n, 1);
  check_dims(out, 1, D(3));
}

TN_TEST(kit_shape, broadcast) {
  uint32_t n = 0;
  tn_dim out[TN_MAX_RANK];
  TN_CHECK_OK(tn_shape_broadcast(2, D(3, 1), 3, D(5, 1, 4), &n, out));
  TN_CHECK_INT(n, 3);
  check_dims(out, 3, D(5, 3, 4));
  TN_CHECK_OK(tn_shape_broadcast(3, D(5, 1, 4), 0, NULL, &n, out));
  check_dims(out, 3, D(5, 1, 4));
  TN_CHECK_OK(tn_shape_broadcast(1, D(0), 1, D(1), &n, out));
  check_dims(out, 1, D(0));
  TN_CHECK_FAILS(tn_shape_broadcast(2, D(2, 3), 1, D(4), &n, out), TN_ERR_INVALID_ARGUMENT,
                 "shapes [2, 3] and [4] do not broadcast: sizes 3 and 4 at dim -1");
  TN_CHECK_FAILS(tn_shape_broadcast(1, D(0), 1, D(2), &n, out), TN_ERR_INVALID_ARGUMENT, "[0] and [2]");
  tn_view a = {.sizes = D(2, 1), .ndim = 2}, b = {.sizes = D(3), .ndim = 1};
  const tn_view *views[] = {&a, NULL, &b};
  TN_CHECK_OK(tn_shape_broadcast_views(3, views, &n, out));
  TN_CHECK_INT(n, 2);
  check_dims(out, 2, D(2, 3));
  n = 2;
  TN_CHECK_FAILS(tn_shape_broadcast_into(&n, out, 4, D(9, 9, 2, 4)), TN_ERR_INVALID_ARGUMENT,
                 "do not broadcast");
  TN_CHECK_INT(n, 2);
  check_dims(out, 2, D(2, 3));
}

TN_TEST(kit_shape, expand) {
  tn_dim s[TN_MAX_RANK];
  TN_CHECK_OK(tn_shape_check_expand(2, D(3, 1), 3, D(2, 3, 4)));
  TN_CHECK_FAILS(tn_shape_check_expand(2, D(3, 2), 2, D(3, 4)), TN_ERR_INVALID_ARGUMENT,
                 "shape [3, 2] cannot be expanded to [3, 4]");
  TN_CHECK_FAILS(tn_shape_check_expand(2, D(1, 2), 1, D(2)), TN_ERR_INVALID_ARGUMENT, "[1, 2]");
  tn_shape_expand_strides(2, D(3, 1), D(7, 5), 3, D(2, 3, 4), s);
  check_dims(s, 3, D(0, 7, 0));
}

TN_TEST(kit_shape, infer) {
  tn_dim out[4];
  TN_CHECK_OK(tn_shape_infer(2, D(-1, 4), 12, out));
  check_dims(out, 2, D(3, 4));
  TN_CHECK_OK(tn_shape_infer(2, D(0, 5), 0, out));
  check_dims(out, 2, D(0, 5));
  TN_CHECK_OK(tn_shape_infer(2, D(-1, 5), 0, out));
  check_dims(out, 2, D(0, 5));
  TN_CHECK_OK(tn_shape_infer(0, NULL, 1, out));
  TN_CHECK_FAILS(tn_shape_infer(2, D(-1, -1), 4, out), TN_ERR_INVALID_ARGUMENT, "only one size may be -1");
  TN_CHECK_FAILS(tn_shape_infer(2, D(-1, 0), 0, out), TN_ERR_INVALID_ARGUMENT, "could be any size");
  TN_CHECK_FAILS(tn_shape_infer(2, D(-1, 5), 12, out), TN_ERR_INVALID_ARGUMENT,
                 "shape [-1, 5] does not fit 12");
  TN_CHECK_FAILS(tn_shape_infer(1, D(-2), 2, out), TN_ERR_INVALID_ARGUMENT, "at least -1");
  TN_CHECK_FAILS(tn_shape_infer(3, D(-1, INT64_MAX, 2), 8, out), TN_ERR_INVALID_ARGUMENT, "does not fit");
  TN_CHECK_FAILS(tn_shape_infer(3, D(INT64_C(1) << 32, INT64_C(1) << 32, -1), 8, out),
                 TN_ERR_INVALID_ARGUMENT, "does not fit");
}

static tn_dim offset_of(uint32_t ndim, const tn_dim *sizes, const tn_dim *strides, tn_dim index) {
  tn_dim offset = 0;
  for (uint32_t d = ndim; d-- > 0; index /= sizes[d]) offset += index % sizes[d] * strides[d];
  return offset;
}

/* Do any strides exist that visit the old elements in order? Each new dim's stride is fixed by its second
 * index. */
static bool naive_view(uint32_t ndim, const tn_dim *sizes, const tn_dim *strides, uint32_t n,
                       const tn_dim *to, tn_dim numel) {
  tn_dim found[8], step = 1;
  for (uint32_t d = n; d-- > 0; step *= to[d])
    found[d] = to[d] > 1 ? offset_of(ndim, sizes, strides, step) : 0;
  for (tn_dim i = 0; i < numel; i++) {
    if (offset_of(n, to, found, i) != offset_of(ndim, sizes, strides, i)) return false;
  }
  return true;
}

TN_TEST(kit_shape, view_strides_against_naive) {
  static const tn_dim targets[][4] = {{24, 1, 1, 1}, {4, 6, 1, 1},  {2, 12, 1, 1}, {2, 3, 4, 1},
                                      {3, 2, 2, 2},  {1, 24, 1, 1}, {6, 1, 4, 1},  {2, 2, 3, 2},
                                      {8, 3, 1, 1},  {12, 1, 2, 1}};
  static const tn_dim sources[][2][3] = {
      {{2, 3, 4}, {12, 4, 1}}, {{2, 3, 4}, {1, 2, 6}},  {{4, 3, 2}, {1, 8, 4}},
      {{2, 3, 4}, {24, 4, 1}}, {{2, 3, 4}, {12, 4, 2}}, {{6, 1, 4}, {4, 99, 1}},
      {{6, 1, 4}, {0, 0, 0}},  {{2, 3, 4}, {12, 8, 2}}, {{4, 6, 1}, {-6, -1, 5}}};
  int possible = 0;
  for (size_t s = 0; s < sizeof sources / sizeof sources[0]; s++) {
    const tn_dim *sizes = sources[s][0], *strides = sources[s][1];
    for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
      tn_dim out[4];
      bool expected = naive_view(3, sizes, strides, 4, targets[t], 24);
      TN_CHECK_INT(tn_shape_view_strides(3, sizes, strides, 4, targets[t], out), expected);
      for (tn_dim i = 0; expected && i < 24; i++) {
        TN_CHECK_INT(offset_of(4, targets[t], out, i), offset_of(3, sizes, strides, i));
      }
      possible += expected;
    }
  }
  TN_CHECK(possible > 20 && possible < 80);
}

TN_TEST(kit_shape, view_strides_of_empty_and_0d) {
  tn_dim out[4];
  TN_CHECK(tn_shape_view_strides(2, D(0, 3), D(9, 5), 2, D(0, 3), out));
  check_dims(out, 2, D(9, 5));
  TN_CHECK(tn_shape_view_strides(2, D(0, 3), D(9, 5), 2, D(3, 0), out));
  check_dims(out, 2, D(1, 1));
  TN_CHECK(tn_shape_view_strides(0, NULL, NULL, 2, D(1, 1), out));
  check_dims(out, 2, D(1, 1));
  TN_CHECK(tn_shape_view_strides(2, D(1, 1), D(4, 4), 0, NULL, out));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What samples cannot say of sorting and indexing: where NaN goes, that ties keep their place, which indices are refused,
 * and that a refused write leaves everything as it was.
 */
#include <math.h>

#include "make.h"

static void check_order(tn_tensor *x, bool descending, const int64_t *expected) {
  tn_tensor *values = NULL, *indices = NULL;
  TN_CHECK_OK(tn_sort(x, 0, descending, &values, &indices));
  const int64_t *places = tn_tensor_data(indices);
  for (int i = 0; i < tn_tensor_numel(x); i++) TN_CHECK_INT(places[i], expected[i]);
  tn_tensor_release(values);
  tn_tensor_release(indices);
}

TN_TEST(ops_sorting, nan_is_largest_and_ties_keep_their_place) {
  const float values[] = {1, NAN, -INFINITY, 1, -0.0f, 0.0f, INFINITY};
  const int64_t up[] = {2, 4, 5, 0, 3, 6, 1}, down[] = {1, 6, 0, 3, 4, 5, 2};
  tn_tensor *x = NULL, *top = NULL, *places = NULL;
  TN_CHECK_OK(tn_tensor_from_host(values, SIZES(7), NULL, &x));
  check_order(x, false, up);
  check_order(x, true, down);
  TN_CHECK_OK(tn_topk(x, 3, 0, true, true, &top, &places));
  for (int i = 0; i < 3; i++) TN_CHECK_INT(((const int64_t *)tn_tensor_data(places))[i], down[i]);
  tn_tensor_release(top);
  tn_tensor_release(places);
  TN_CHECK_FAILS(tn_topk(x, 8, 0, true, true, &top, &places), TN_ERR_INVALID_ARGUMENT, "from 0 to 7");
  tn_tensor_release(x);
}

TN_TEST(ops_sorting, extremes_of_int64_are_in_order) {
  const int64_t values[] = {INT64_MAX, INT64_MIN, INT64_MAX - 1, -1, 0}, up[] = {1, 3, 4, 2, 0};
  tn_tensor *x = NULL;
  TN_CHECK_OK(tn_tensor_from_host(values, SIZES(5), TN_OPTIONS(.dtype = TN_INT64), &x));
  check_order(x, false, up);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ indices */

TN_TEST(ops_indexing, bad_indices_are_refused_and_nothing_is_written) {
  tn_tensor *x = make_float(SIZES(2, 3)), *far = make_int(SIZES(3)), *y = NULL, *long_mask = NULL, *mask = NULL;
  TN_CHECK_OK(tn_zeros(SIZES(3), TN_OPTIONS(.dtype = TN_BOOL), &long_mask));
  TN_CHECK_OK(tn_ones(SIZES(2), TN_OPTIONS(.dtype = TN_BOOL), &mask));
  TN_CHECK_FAILS(tn_index(x, &far, 1, &y), TN_ERR_INVALID_ARGUMENT, "index 2 is out of range");
  TN_CHECK_FAILS(tn_index_put_(x, &far, 1, x, false), TN_ERR_INVALID_ARGUMENT, "");
  TN_CHECK_FAILS(tn_index(x, &x, 1, &y), TN_ERR_DTYPE, "int64");
  TN_CHECK_FAILS(tn_index(x, &long_mask, 1, &y), TN_ERR_INVALID_ARGUMENT, "mask");
  TN_CHECK_FAILS(tn_index(x, (tn_tensor *[]){far, far, far}, 3, &y), TN_ERR_INVALID_ARGUMENT, "at most the 2 dims");
  TN_CHECK_FAILS(tn_index_put_(x, &mask, 1, far, false), TN_ERR_DTYPE, "float32");
  check_untouched(x);
  tn_tensor_release(x);
  tn_tensor_release(far);
  tn_tensor_release(mask);
  tn_tensor_release(long_mask);
}

/* Values that do not fit a mask's count are found by the kernel, before it writes. */
TN_TEST(ops_indexing, values_must_fit_what_a_mask_selects) {
  tn_tensor *x = make_float(SIZES(4)), *mask = NULL, *values = make_float(SIZES(3));
  const uint8_t two[4] = {1, 0, 1, 0};
  TN_CHECK_OK(tn_tensor_from_host(two, SIZES(4), TN_OPTIONS(.dtype = TN_BOOL), &mask));
  TN_CHECK_FAILS(tn_index_put_(x, &mask, 1, values, false), TN_ERR_INVALID_ARGUMENT, "[2]");
  check_untouched(x);
  tn_tensor_release(x);
  tn_tensor_release(mask);
  tn_tensor_release(values);
}

/* One 0-d index chooses a row; a number and a row of stride 0 are spread over it. */
TN_TEST(ops_indexing, spread_values_reach_what_a_0d_index_chooses) {
  const int64_t one = 1;
  const float expected[2][6] = {{0, 1, 7, 7, 4, 5}, {0, 1, 9, 10, 4, 5}};
  tn_tensor *place = NULL, *x = make_float(SIZES(3, 2)), *y[2] = {NULL}, *number = NULL, *row = NULL;
  TN_CHECK_OK(tn_tensor_from_host(&one, NULL, 0, TN_OPTIONS(.dtype = TN_INT64), &place));
  TN_CHECK_OK(tn_full(NULL, 0, tn_float(7), NULL, &number));
  TN_CHECK_OK(tn_expand(number, SIZES(2), false, &row));
  TN_CHECK_OK(tn_index_put(x, &place, 1, number, false, &y[0]));
  TN_CHECK_OK(tn_index_put(x, &place, 1, row, true, &y[1]));
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < 6; i++) TN_CHECK_DOUBLE(((const float *)tn_tensor_data(y[k]))[i], expected[k][i], 0);
  tn_tensor_release(place);
  tn_tensor_release(x);
  tn_tensor_release(y[0]);
  tn_tensor_release(y[1]);
  tn_tensor_release(number);
  tn_tensor_release(row);
}

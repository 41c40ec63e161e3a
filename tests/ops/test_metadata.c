/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that no sample can describe, because they change a tensor's metadata or name a device, and rules
 * that hold across operators: promotion of dtypes, numbers against tensors, defaults.
 */
#include "make.h"

TN_TEST(ops_metadata, empty_tensors_have_the_asked_geometry) {
  tn_tensor *x = NULL, *like = NULL, *other = NULL;
  TN_CHECK_OK(tn_empty_strided(SIZES(2, 3), SIZES(1, 2), TN_OPTIONS(.dtype = TN_INT8), &x));
  TN_CHECK_INT(tn_tensor_dtype(x), TN_INT8);
  TN_CHECK_INT(tn_tensor_strides(x)[1], 2);
  TN_CHECK_OK(tn_empty_like(x, NULL, TN_PRESERVE_FORMAT, &like));
  TN_CHECK_INT(tn_tensor_dtype(like), TN_INT8);
  TN_CHECK_INT(tn_tensor_strides(like)[0], 1);
  TN_CHECK_INT(tn_tensor_strides(like)[1], 2);
  TN_CHECK_OK(tn_new_empty(x, SIZES(4, 0), TN_OPTIONS(.dtype = TN_FLOAT64), &other));
  TN_CHECK_INT(tn_tensor_dtype(other), TN_FLOAT64);
  TN_CHECK_INT(tn_tensor_numel(other), 0);
  tn_tensor_release(other);
  tn_tensor_release(like);
  tn_tensor_release(x);
  TN_CHECK_FAILS(tn_empty_strided(SIZES(2, 3), SIZES(1), NULL, &x), TN_ERR_INVALID_ARGUMENT, "empty_strided");
  TN_CHECK_PTR_NULL(x);
}

TN_TEST(ops_metadata, resize_keeps_what_fits) {
  tn_tensor *x = make_float(SIZES(6));
  TN_CHECK_OK(tn_resize_(x, SIZES(2, 3), 0));
  TN_CHECK_INT(tn_tensor_ndim(x), 2);
  check_untouched(x);
  TN_CHECK_OK(tn_resize_(x, SIZES(2), 0));
  TN_CHECK_INT(tn_tensor_numel(x), 2);
  check_untouched(x);
  TN_CHECK_OK(tn_resize_(x, SIZES(40), 0));
  TN_CHECK_INT(tn_tensor_numel(x), 40);
  TN_CHECK_FAILS(tn_resize_(x, SIZES(-1), 0), TN_ERR_INVALID_ARGUMENT, "resize_");
  TN_CHECK_INT(tn_tensor_numel(x), 40);
  tn_tensor_release(x);
}

TN_TEST(ops_metadata, growing_shared_memory_is_refused) {
  tn_tensor *x = make_float(SIZES(6)), *view = NULL;
  TN_CHECK_OK(tn_narrow(x, 0, 0, 3, &view));
  TN_CHECK(tn_resize_(x, SIZES(100), 0) != TN_OK);
  TN_CHECK_INT(tn_tensor_numel(x), 6);
  check_untouched(view);
  tn_tensor_release(view);
  tn_tensor_release(x);
}

TN_TEST(ops_metadata, set_shares_the_source) {
  tn_tensor *x = make_float(SIZES(2)), *source = make_float(SIZES(2, 3));
  TN_CHECK_OK(tn_set_(x, source));
  TN_CHECK_INT(tn_tensor_ndim(x), 2);
  TN_CHECK(tn_tensor_data(x) == tn_tensor_data(source));
  tn_tensor_release(source);
  check_untouched(x);
  tn_tensor_release(x);
}

TN_TEST(ops_metadata, to_device_returns_self_where_nothing_changes) {
  tn_tensor *x = make_float(SIZES(2, 3)), *same = NULL, *copy = NULL, *wide = NULL;
  tn_device cpu = tn_tensor_device(x);
  TN_CHECK_OK(tn_to_device(x, cpu, TN_FLOAT32, false, false, TN_PRESERVE_FORMAT, &same));
  TN_CHECK(same == x);
  TN_CHECK_OK(tn_to_device(x, cpu, TN_FLOAT32, false, true, TN_PRESERVE_FORMAT, &copy));
  TN_CHECK(tn_tensor_data(copy) != tn_tensor_data(x));
  TN_CHECK_OK(tn_to_device(x, cpu, TN_FLOAT64, false, false, TN_PRESERVE_FORMAT, &wide));
  TN_CHECK_INT(tn_tensor_dtype(wide), TN_FLOAT64);
  check_untouched(copy);
  check_untouched(wide);
  tn_tensor_release(wide);
  tn_tensor_release(copy);
  tn_tensor_release(same);
  tn_tensor_release(x);
}

/* ------------------------------------------------------------------ promotion */

static tn_tensor *of_dtype(tn_dtype dtype, bool zero_dim) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_ones(SIZES(2), TN_OPTIONS(.dtype = dtype), &t));
  if (!zero_dim) return t;
  tn_tensor *element = NULL;
  TN_CHECK_OK(tn_select(t, 0, 0, &element));
  tn_tensor_release(t);
  return element;
}

static void check_sum_dtype(tn_tensor *a, tn_tensor *b, tn_dtype expected) {
  tn_tensor *sum = NULL;
  TN_CHECK_OK(tn_add(a, b, tn_int(1), &sum));
  TN_CHECK_STR(tn_dtype_name(tn_tensor_dtype(sum)), tn_dtype_name(expected));
  tn_tensor_release(sum);
  tn_tensor_release(a);
  tn_tensor_release(b);
}

TN_TEST(ops_promotion, common_dtype_of_two_tensors) {
  static const tn_dtype table[][3] = {
      {TN_BOOL, TN_BOOL, TN_BOOL},        {TN_BOOL, TN_UINT8, TN_UINT8},       {TN_UINT8, TN_INT8, TN_INT16},
      {TN_UINT8, TN_INT64, TN_INT64},     {TN_INT8, TN_INT32, TN_INT32},       {TN_INT64, TN_FLOAT16, TN_FLOAT16},
      {TN_INT64, TN_FLOAT32, TN_FLOAT32}, {TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32}, {TN_FLOAT16, TN_FLOAT32, TN_FLOAT32},
      {TN_BFLOAT16, TN_INT32, TN_BFLOAT16}, {TN_FLOAT32, TN_FLOAT64, TN_FLOAT64}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    check_sum_dtype(of_dtype(table[i][0], false), of_dtype(table[i][1], false), table[i][2]);
    check_sum_dtype(of_dtype(table[i][1], false), of_dtype(table[i][0], false), table[i][2]);
  }
}

TN_TEST(ops_promotion, zero_dim_tensors_give_way_within_a_category) {
  check_sum_dtype(of_dtype(TN_FLOAT32, false), of_dtype(TN_FLOAT64, true), TN_FLOAT32);
  check_sum_dtype(of_dtype(TN_FLOAT64, true), of_dtype(TN_FLOAT16, false), TN_FLOAT16);
  check_sum_dtype(of_dtype(TN_INT8, false), of_dtype(TN_INT64, true), TN_INT8);
  check_sum_dtype(of_dtype(TN_INT8, false), of_dtype(TN_FLOAT64, true), TN_FLOAT64);
  check_sum_dtype(of_dtype(TN_BOOL, false), of_dtype(TN_INT16, true), TN_INT16);
  check_sum_dtype(of_dtype(TN_FLOAT32, true), of_dtype(TN_FLOAT64, true), TN_FLOAT64);
}

static void check_number_dtype(tn_dtype dtype, tn_scalar number, tn_dtype expected) {
  tn_tensor *x = of_dtype(dtype, false), *out = NULL;
  TN_CHECK_OK(tn_mul_scalar(x, number, &out));
  TN_CHECK_STR(tn_dtype_name(tn_tensor_dtype(out)), tn_dtype_name(expected));
  tn_tensor_release(out);
  tn_tensor_release(x);
}

TN_TEST(ops_promotion, numbers_change_the_category_only) {
  check_number_dtype(TN_INT8, tn_int(1000), TN_INT8);
  check_number_dtype(TN_INT8, tn_float(0.5), TN_FLOAT32);
  check_number_dtype(TN_FLOAT16, tn_float(0.5), TN_FLOAT16);
  check_number_dtype(TN_BOOL, tn_int(2), TN_INT64);
  check_number_dtype(TN_BOOL, tn_bool(true), TN_BOOL);
  check_number_dtype(TN_UINT8, tn_bool(true), TN_UINT8);
}

TN_TEST(ops_promotion, default_dtype_of_integers_made_floating) {
  tn_tensor *x = of_dtype(TN_INT32, false), *out = NULL;
  TN_CHECK_OK(tn_div(x, x, &out));
  TN_CHECK_INT(tn_tensor_dtype(out), TN_FLOAT32);
  tn_tensor_release(out);
  TN_CHECK_OK(tn_default_dtype_set(TN_FLOAT64));
  tn_status status = tn_sqrt(x, &out);
  TN_CHECK_OK(tn_default_dtype_set(TN_FLOAT32));
  TN_CHECK_OK(status);
  TN_CHECK_INT(tn_tensor_dtype(out), TN_FLOAT64);
  tn_tensor_release(out);
  tn_tensor_release(x);
}

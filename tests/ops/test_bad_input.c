/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that must fail: each gives a status whose words name the operator and what came, the result is NULL,
 * and nothing that was passed in has changed, its version counter included.
 */
#include <math.h>

#include "make.h"

/* Two operands that are wrong together under a binary call. */
typedef tn_status (*binary_fn)(tn_tensor *a, tn_tensor *b, tn_tensor **out);

static void check_refused(binary_fn fn, tn_tensor *a, tn_tensor *b, tn_status code, const char *words) {
  tn_tensor *out = (tn_tensor *)(uintptr_t)8; /* must be overwritten */
  TN_CHECK_FAILS(fn(a, b, &out), code, words);
  TN_CHECK_PTR_NULL(out);
}

TN_TEST(ops_bad_input, null_handles_are_named) {
  tn_tensor *x = make_float(SIZES(2, 3)), *out = x;
  TN_CHECK_FAILS(tn_add(NULL, x, tn_int(1), &out), TN_ERR_INVALID_ARGUMENT, "self");
  TN_CHECK_PTR_NULL(out);
  TN_CHECK_FAILS(tn_add(x, NULL, tn_int(1), &out), TN_ERR_INVALID_ARGUMENT, "other");
  TN_CHECK_FAILS(tn_relu(NULL, &out), TN_ERR_INVALID_ARGUMENT, "relu");
  TN_CHECK_FAILS(tn_add_(NULL, x, tn_int(1)), TN_ERR_INVALID_ARGUMENT, "self");
  TN_CHECK_FAILS(tn_linear(x, NULL, NULL, &out), TN_ERR_INVALID_ARGUMENT, "weight");
  TN_CHECK_FAILS(tn_add(x, x, tn_int(1), NULL), TN_ERR_INVALID_ARGUMENT, "add");
  check_untouched(x);
  tn_tensor_release(x);
}

TN_TEST(ops_bad_input, null_entries_of_lists) {
  tn_tensor *x = make_float(SIZES(2, 3)), *out = NULL;
  tn_tensor *list[] = {x, NULL};
  TN_CHECK_FAILS(tn_cat(list, 2, 0, &out), TN_ERR_INVALID_ARGUMENT, "cat");
  TN_CHECK_FAILS(tn_stack(list, 2, 0, &out), TN_ERR_INVALID_ARGUMENT, "stack");
  TN_CHECK_FAILS(tn_cat(list, 0, 0, &out), TN_ERR_INVALID_ARGUMENT, "cat");
  TN_CHECK_FAILS(tn_cat(NULL, 2, 0, &out), TN_ERR_INVALID_ARGUMENT, "cat");
  TN_CHECK_PTR_NULL(out);
  tn_tensor_release(x);
}

TN_TEST(ops_bad_input, shapes_that_do_not_broadcast) {
  tn_tensor *a = make_float(SIZES(2, 3)), *b = make_float(SIZES(2, 4));
  check_refused(tn_mul, a, b, TN_ERR_INVALID_ARGUMENT, "mul.Tensor");
  check_refused(tn_maximum, a, b, TN_ERR_INVALID_ARGUMENT, "maximum");
  check_refused(tn_eq, a, b, TN_ERR_INVALID_ARGUMENT, "eq.Tensor");
  tn_tensor_release(a);
  tn_tensor_release(b);
}

TN_TEST(ops_bad_input, in_place_result_would_not_fit) {
  tn_tensor *a = make_float(SIZES(1, 3)), *b = make_float(SIZES(2, 3));
  uint32_t version = version_of(a);
  TN_CHECK_FAILS(tn_mul_(a, b), TN_ERR_INVALID_ARGUMENT, "mul_");
  TN_CHECK_INT(version_of(a), version);
  check_untouched(a);
  tn_tensor_release(a);
  tn_tensor_release(b);
}

TN_TEST(ops_bad_input, in_place_result_of_a_higher_category) {
  tn_tensor *a = make_int(SIZES(3)), *b = make_float(SIZES(3));
  uint32_t version = version_of(a);
  TN_CHECK_FAILS(tn_add_(a, b, tn_int(1)), TN_ERR_DTYPE, "add_");
  TN_CHECK_FAILS(tn_div_(a, a), TN_ERR_DTYPE, "div_");
  TN_CHECK_FAILS(tn_exp_(a), TN_ERR_DTYPE, "exp_");
  TN_CHECK_INT(version_of(a), version);
  check_untouched(a);
  tn_tensor_release(a);
  tn_tensor_release(b);
}

TN_TEST(ops_bad_input, matrices_that_do_not_fit) {
  tn_tensor *a = make_float(SIZES(2, 3)), *b = make_float(SIZES(4, 2)), *v = make_float(SIZES(3));
  tn_tensor *three = make_float(SIZES(2, 3, 2)), *out = NULL;
  check_refused(tn_mm, a, b, TN_ERR_INVALID_ARGUMENT, "mm");
  check_refused(tn_mm, a, v, TN_ERR_INVALID_ARGUMENT, "mm");
  check_refused(tn_mm, a, three, TN_ERR_INVALID_ARGUMENT, "mm");
  check_refused(tn_bmm, three, three, TN_ERR_INVALID_ARGUMENT, "bmm");
  check_refused(tn_dot, v, a, TN_ERR_INVALID_ARGUMENT, "dot");
  check_refused(tn_matmul, a, b, TN_ERR_INVALID_ARGUMENT, "2");
  TN_CHECK_FAILS(tn_addmm(b, a, v, tn_int(1), tn_int(1), &out), TN_ERR_INVALID_ARGUMENT, "addmm");
  TN_CHECK_FAILS(tn_linear(a, b, NULL, &out), TN_ERR_INVALID_ARGUMENT, "2");
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(v);
  tn_tensor_release(three);
}

TN_TEST(ops_bad_input, dtypes_that_an_operator_does_not_take) {
  tn_tensor *ints = make_int(SIZES(2, 3)), *floats = make_float(SIZES(2, 3)), *out = NULL;
  TN_CHECK_FAILS(tn_mean(ints, TN_DTYPE_NONE, &out), TN_ERR_DTYPE, "mean");
  check_refused(tn_mm, ints, floats, TN_ERR_DTYPE, "mm");
  TN_CHECK_FAILS(tn_bitwise_not(floats, &out), TN_ERR_DTYPE, "bitwise_not");
  TN_CHECK_FAILS(tn_gather(floats, 0, floats, false, &out), TN_ERR_DTYPE, "gather");
  TN_CHECK_FAILS(tn_embedding(floats, floats, -1, false, false, &out), TN_ERR_DTYPE, "embedding");
  TN_CHECK_PTR_NULL(out);
  tn_tensor_release(ints);
  tn_tensor_release(floats);
}

TN_TEST(ops_bad_input, dims_out_of_range) {
  tn_tensor *x = make_float(SIZES(2, 3)), *out = NULL;
  TN_CHECK_FAILS(tn_sum_dim(x, SIZES(2), false, TN_DTYPE_NONE, &out), TN_ERR_INVALID_ARGUMENT, "sum.dim");
  TN_CHECK_FAILS(tn_sum_dim(x, SIZES(0, 0), false, TN_DTYPE_NONE, &out), TN_ERR_INVALID_ARGUMENT, "sum.dim");
  TN_CHECK_FAILS(tn_sum_dim(x, SIZES(1, -1), false, TN_DTYPE_NONE, &out), TN_ERR_INVALID_ARGUMENT, "sum.dim");
  TN_CHECK_FAILS(tn_transpose(x, 0, -3, &out), TN_ERR_INVALID_ARGUMENT, "transpose");
  TN_CHECK_FAILS(tn_permute(x, SIZES(0), &out), TN_ERR_INVALID_ARGUMENT, "permute");
  TN_CHECK_FAILS(tn_permute(x, SIZES(1, 1), &out), TN_ERR_INVALID_ARGUMENT, "permute");
  TN_CHECK_FAILS(tn_select(x, 0, 2, &out), TN_ERR_INVALID_ARGUMENT, "select");
  TN_CHECK_FAILS(tn_select(x, 0, -3, &out), TN_ERR_INVALID_ARGUMENT, "select");
  TN_CHECK_FAILS(tn_narrow(x, 1, 2, 2, &out), TN_ERR_INVALID_ARGUMENT, "narrow");
  TN_CHECK_FAILS(tn_slice(x, 0, NULL, NULL, 0, &out), TN_ERR_INVALID_ARGUMENT, "slice");
  TN_CHECK_FAILS(tn_unsqueeze(x, 3, &out), TN_ERR_INVALID_ARGUMENT, "unsqueeze");
  TN_CHECK_FAILS(tn_softmax(x, 2, TN_DTYPE_NONE, &out), TN_ERR_INVALID_ARGUMENT, "softmax");
  TN_CHECK_FAILS(tn_expand(x, SIZES(2, 4), false, &out), TN_ERR_INVALID_ARGUMENT, "expand");
  TN_CHECK_FAILS(tn_reshape(x, SIZES(4, 2), &out), TN_ERR_INVALID_ARGUMENT, "6");
  TN_CHECK_FAILS(tn_reshape(x, SIZES(-1, -1), &out), TN_ERR_INVALID_ARGUMENT, "-1");
  TN_CHECK_PTR_NULL(out);
  check_untouched(x);
  tn_tensor_release(x);
}

TN_TEST(ops_bad_input, extremes_of_integers) {
  tn_tensor *x = make_float(SIZES(2, 3)), *out = NULL;
  TN_CHECK_FAILS(tn_select(x, INT64_MIN, 0, &out), TN_ERR_INVALID_ARGUMENT, "select");
  TN_CHECK_FAILS(tn_select(x, 0, INT64_MAX, &out), TN_ERR_INVALID_ARGUMENT, "select");
  TN_CHECK_FAILS(tn_narrow(x, 0, 1, INT64_MAX, &out), TN_ERR_INVALID_ARGUMENT, "narrow");
  TN_CHECK_FAILS(tn_zeros(SIZES(-1), NULL, &out), TN_ERR_INVALID_ARGUMENT, "-1");
  TN_CHECK(tn_zeros(SIZES(INT64_MAX / 2, 3), NULL, &out) != TN_OK);
  TN_CHECK(tn_expand(x, SIZES(INT64_MAX, 2, 3), false, &out) != TN_OK);
  TN_CHECK(tn_zeros(SIZES(INT64_MAX / 8), NULL, &out) != TN_OK);
  TN_CHECK_PTR_NULL(out);
  TN_CHECK_OK(tn_slice(x, 0, &(int64_t){INT64_MIN}, &(int64_t){INT64_MAX}, INT64_MAX, &out));
  TN_CHECK_INT(tn_tensor_sizes(out)[0], 1);
  tn_tensor_release(out);
  tn_tensor_release(x);
}

TN_TEST(ops_bad_input, index_values_out_of_range) {
  tn_tensor *x = make_float(SIZES(3, 4)), *rows = make_int(SIZES(5)), *square = make_int(SIZES(3, 4)), *out = NULL;
  TN_CHECK_FAILS(tn_index_select(x, 0, rows, &out), TN_ERR_INVALID_ARGUMENT, "index_select");
  TN_CHECK_FAILS(tn_gather(x, 0, square, false, &out), TN_ERR_INVALID_ARGUMENT, "gather");
  TN_CHECK_FAILS(tn_embedding(x, rows, -1, false, false, &out), TN_ERR_INVALID_ARGUMENT, "embedding");
  TN_CHECK_FAILS(tn_scatter_add(x, 0, square, x, &out), TN_ERR_INVALID_ARGUMENT, "scatter_add");
  TN_CHECK_FAILS(tn_scatter_add_(x, 0, square, square), TN_ERR_DTYPE, "scatter_add");
  TN_CHECK_FAILS(tn_nll_loss(x, rows, NULL, 1, -100, &out), TN_ERR_INVALID_ARGUMENT, "nll_loss");
  TN_CHECK_PTR_NULL(out);
  check_untouched(x);
  tn_tensor_release(x);
  tn_tensor_release(rows);
  tn_tensor_release(square);
}

/* Where there is nothing to move, an index that is out of range is one all the same. */
TN_TEST(ops_bad_input, index_values_out_of_range_of_nothing) {
  tn_tensor *thin = make_float(SIZES(3, 0)), *none = make_float(SIZES(0)), *two = make_int(SIZES(4)), *one = NULL,
            *grad = make_float(SIZES(4, 0)), *few = make_float(SIZES(4)), *out = NULL;
  const tn_status code = TN_ERR_INVALID_ARGUMENT;
  TN_CHECK_OK(tn_narrow(two, 0, 0, 1, &one));
  TN_CHECK_FAILS(tn_index_select(thin, 0, two, &out), code, "index 3 is out of range for a dim of size 3");
  TN_CHECK_FAILS(tn_index_select(thin, 1, one, &out), code, "index 0 is out of range for a dim of size 0");
  TN_CHECK_FAILS(tn_index_select(none, 0, one, &out), code, "index_select");
  TN_CHECK_FAILS(tn_index_add(thin, 0, two, grad, tn_int(1), &out), code, "index_add");
  TN_CHECK_FAILS(tn_index_add_(thin, 0, two, grad, tn_int(1)), code, "index_add");
  TN_CHECK_FAILS(tn_embedding(thin, two, -1, false, false, &out), code, "embedding");
  TN_CHECK_FAILS(tn_embedding_dense_backward(grad, two, 3, -1, false, &out), code, "embedding_dense_backward");
  TN_CHECK_FAILS(tn_gather(none, 0, one, false, &out), code, "gather");
  TN_CHECK_FAILS(tn_scatter_add(none, 0, two, few, &out), code, "scatter_add");
  TN_CHECK_FAILS(tn_scatter_(none, 0, two, few), code, "scatter");
  TN_CHECK_FAILS(tn_scatter_value(none, 0, two, tn_int(1), &out), code, "scatter");
  TN_CHECK_FAILS(tn_index(thin, &two, 1, &out), code, "index");
  TN_CHECK_FAILS(tn_index_put(thin, &two, 1, grad, false, &out), code, "index_put");
  TN_CHECK_PTR_NULL(out);
  TN_CHECK_OK(tn_index_select(thin, 0, one, &out));
  TN_CHECK_INT(tn_tensor_sizes(out)[0], 1);
  tn_tensor *all[] = {thin, none, two, one, grad, few, out};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}

TN_TEST(ops_bad_input, class_targets_out_of_range) {
  tn_tensor *scores = make_float(SIZES(5, 3)), *target = make_int(SIZES(5)), *out = NULL;
  TN_CHECK_FAILS(tn_nll_loss(scores, target, NULL, 1, -100, &out), TN_ERR_INVALID_ARGUMENT, "nll_loss");
  TN_CHECK_PTR_NULL(out);
  tn_tensor_release(scores);
  tn_tensor_release(target);
}

TN_TEST(ops_bad_input, overlapping_writes_are_refused) {
  tn_tensor *row = make_float(SIZES(4)), *wide = NULL, *left = NULL, *right = NULL;
  TN_CHECK_OK(tn_expand(row, SIZES(3, 4), false, &wide));
  TN_CHECK_FAILS(tn_add_scalar_(wide, tn_int(1), tn_int(1)), TN_ERR_OVERLAP, "add_");
  TN_CHECK_FAILS(tn_zero_(wide), TN_ERR_OVERLAP, "zero_");
  TN_CHECK_OK(tn_narrow(row, 0, 0, 3, &left));
  TN_CHECK_OK(tn_narrow(row, 0, 1, 3, &right));
  TN_CHECK_FAILS(tn_add_(left, right, tn_int(1)), TN_ERR_OVERLAP, "add_");
  TN_CHECK_FAILS(tn_add_out(right, right, tn_int(1), left), TN_ERR_OVERLAP, "add");
  check_untouched(row);
  tn_tensor_release(left);
  tn_tensor_release(right);
  tn_tensor_release(wide);
  tn_tensor_release(row);
}

TN_TEST(ops_bad_input, out_of_the_wrong_dtype) {
  tn_tensor *x = make_float(SIZES(2, 3)), *ints = make_int(SIZES(2, 3));
  TN_CHECK_FAILS(tn_add_out(x, x, tn_int(1), ints), TN_ERR_DTYPE, "add");
  check_untouched(ints);
  tn_tensor_release(ints);
  tn_tensor_release(x);
}

TN_TEST(ops_bad_input, tensors_on_different_devices) {
  tn_tensor *x = make_float(SIZES(2, 3)), *meta = NULL, *out = NULL;
  TN_CHECK_OK(tn_empty(SIZES(2, 3), TN_OPTIONS(.has_device = true, .device = {.backend = TN_BACKEND_META}), 0, &meta));
  TN_CHECK_FAILS(tn_tensor_to_host(meta, (float[6]){0}, 24), TN_ERR_DEVICE, "meta");
  TN_CHECK_OK(tn_mul(x, meta, &out)); /* meta wins over every device */
  TN_CHECK_INT(tn_tensor_device(out).backend, TN_BACKEND_META);
  TN_CHECK_FAILS(tn_add_out(x, x, tn_int(1), meta), TN_ERR_DEVICE, "target on meta"); /* but no target alone does */
  tn_tensor_release(out);
  tn_tensor_release(meta);
  tn_tensor_release(x);
}

TN_TEST(ops_bad_input, optimiser_lists_of_different_lengths) {
  tn_tensor *x = make_float(SIZES(3)), *g = make_float(SIZES(3)), *other = make_float(SIZES(4));
  tn_tensor *two[] = {g, g}, *wrong[] = {other};
  TN_CHECK_FAILS(tn_fused_sgd_(&x, 1, two, 2, NULL, 0, 0, 0, 0.1, 0, false, false, false, NULL, NULL),
                 TN_ERR_INVALID_ARGUMENT, "_fused_sgd_");
  TN_CHECK_FAILS(tn_fused_sgd_(&x, 1, wrong, 1, NULL, 0, 0, 0, 0.1, 0, false, false, false, NULL, NULL),
                 TN_ERR_INVALID_ARGUMENT, "_fused_sgd_");
  TN_CHECK_INT(version_of(x), 0);
  check_untouched(x);
  tn_tensor_release(x);
  tn_tensor_release(g);
  tn_tensor_release(other);
}

TN_TEST(ops_bad_input, too_many_dims) {
  tn_dim sizes[TN_MAX_RANK + 1];
  tn_tensor *out = NULL;
  for (int d = 0; d <= TN_MAX_RANK; d++) sizes[d] = 1;
  TN_CHECK_OK(tn_zeros(sizes, TN_MAX_RANK, NULL, &out));
  tn_tensor *more = NULL;
  TN_CHECK_FAILS(tn_unsqueeze(out, 0, &more), TN_ERR_INVALID_ARGUMENT, "unsqueeze");
  tn_tensor_release(out);
  TN_CHECK_FAILS(tn_zeros(sizes, TN_MAX_RANK + 1, NULL, &out), TN_ERR_INVALID_ARGUMENT, "65");
  TN_CHECK_PTR_NULL(out);
}

/* What is stored or bounds must not become another number; infinities are numbers of a floating dtype. */
TN_TEST(ops_bad_input, numbers_that_a_dtype_cannot_hold) {
  tn_tensor *x = NULL, *y = NULL, *mask = NULL, *place = NULL;
  const int8_t values[] = {44, 100, -100};
  const int64_t zero = 0;
  TN_CHECK_OK(tn_tensor_from_host(values, SIZES(3), TN_OPTIONS(.dtype = TN_INT8), &x));
  TN_CHECK_OK(tn_ones(SIZES(3), TN_OPTIONS(.dtype = TN_BOOL), &mask));
  TN_CHECK_OK(tn_tensor_from_host(&zero, SIZES(1), TN_OPTIONS(.dtype = TN_INT64), &place));
  TN_CHECK_FAILS(tn_fill_(x, tn_int(128)), TN_ERR_INVALID_ARGUMENT, "that int8 can hold as 'value', got 128");
  TN_CHECK_FAILS(tn_fill_(x, tn_float(NAN)), TN_ERR_INVALID_ARGUMENT, "got nan");
  TN_CHECK_FAILS(tn_masked_fill(x, mask, tn_int(-129), &y), TN_ERR_INVALID_ARGUMENT, "got -129");
  TN_CHECK_FAILS(tn_scatter_value_(x, 0, place, tn_int(300)), TN_ERR_INVALID_ARGUMENT, "got 300");
  TN_CHECK_FAILS(tn_clamp_min(x, tn_int(-300), &y), TN_ERR_INVALID_ARGUMENT, "that int8 can hold as 'bound'");
  TN_CHECK_FAILS(tn_clamp(x, tn_int(-300), tn_int(300), &y), TN_ERR_INVALID_ARGUMENT,
                 "got -300");
  TN_CHECK_FAILS(tn_full(SIZES(1), tn_float(1e300), NULL, &y), TN_ERR_INVALID_ARGUMENT, "float32");
  TN_CHECK_FAILS(tn_full(SIZES(1), tn_float(65505), TN_OPTIONS(.dtype = TN_FLOAT16), &y), TN_ERR_INVALID_ARGUMENT,
                 "float16");
  TN_CHECK_FAILS(tn_full(SIZES(1), tn_float(0x1p63), TN_OPTIONS(.dtype = TN_INT64), &y), TN_ERR_INVALID_ARGUMENT,
                 "int64");
  TN_CHECK_OK(tn_full(SIZES(1), tn_float(-INFINITY), TN_OPTIONS(.dtype = TN_FLOAT16), &y));
  tn_tensor_release(y);
  TN_CHECK_OK(tn_full(SIZES(1), tn_int(-1), TN_OPTIONS(.dtype = TN_UINT8), &y));
  TN_CHECK_INT(*(uint8_t *)tn_tensor_data(y), 255);
  tn_tensor_release(y);
  TN_CHECK_OK(tn_add_scalar(x, tn_int(300), tn_int(1), &y)); /* arithmetic in int8 wraps */
  TN_CHECK_INT(*(int8_t *)tn_tensor_data(y), 88);
  TN_CHECK_INT(*(int8_t *)tn_tensor_data(x), 44);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_tensor_release(mask);
  tn_tensor_release(place);
}

static tn_tensor *number(double value, tn_dtype dtype) {
  tn_tensor *wide = NULL, *t = NULL;
  TN_CHECK_OK(tn_scalar_tensor(tn_float(value), TN_OPTIONS(.dtype = TN_FLOAT64), &wide));
  TN_CHECK_OK(tn_to_dtype(wide, dtype, false, true, TN_CONTIGUOUS_FORMAT, &t));
  tn_tensor_release(wide);
  return t;
}

static void check_stored(tn_dtype to, double value, tn_dtype dtype, const char *words) {
  tn_tensor *x = NULL, *mask = NULL, *v = number(value, dtype), *y = NULL;
  TN_CHECK_OK(tn_zeros(SIZES(3), TN_OPTIONS(.dtype = to), &x));
  TN_CHECK_OK(tn_ones(SIZES(3), TN_OPTIONS(.dtype = TN_BOOL), &mask));
  const uint32_t version = version_of(x);
  if (words) {
    TN_CHECK_FAILS(tn_fill_tensor_(x, v), TN_ERR_INVALID_ARGUMENT, words);
    TN_CHECK_FAILS(tn_masked_fill_tensor_(x, mask, v), TN_ERR_INVALID_ARGUMENT, words);
    TN_CHECK_FAILS(tn_masked_fill_tensor(x, mask, v, &y), TN_ERR_INVALID_ARGUMENT, words);
    TN_CHECK_PTR_NULL(y);
    TN_CHECK_INT(version_of(x), version);
  } else {
    TN_CHECK_OK(tn_masked_fill_tensor(x, mask, v, &y));
    TN_CHECK_OK(tn_fill_tensor_(x, v));
  }
  tn_tensor *all[] = {x, mask, v, y};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}

/* A tensor that stands for a number is stored as one, under the same rule. */
TN_TEST(ops_bad_input, tensors_whose_number_a_dtype_cannot_hold) {
  check_stored(TN_UINT8, 300, TN_INT64, "that uint8 can hold as 'value', got 300");
  check_stored(TN_UINT8, -1, TN_INT64, NULL);
  check_stored(TN_INT32, NAN, TN_FLOAT32, "got nan");
  check_stored(TN_INT32, 1.5, TN_FLOAT64, NULL);
  check_stored(TN_FLOAT16, 1e6, TN_FLOAT32, "that float16 can hold as 'value', got 1000000");
  check_stored(TN_FLOAT16, INFINITY, TN_FLOAT32, NULL);
  check_stored(TN_FLOAT32, 1e39, TN_FLOAT64, "float32");
  check_stored(TN_FLOAT32, 3, TN_BOOL, NULL);
  check_stored(TN_BOOL, 300, TN_INT64, NULL);
}

static tn_status divide_down(tn_tensor *a, tn_tensor *b, tn_tensor **out) { return tn_div_tensor_mode(a, b, "floor", out); }
static tn_status divide_off(tn_tensor *a, tn_tensor *b, tn_tensor **out) { return tn_div_tensor_mode(a, b, "trunc", out); }

/* Refused before anything is written, whatever the divisor's layout; what is floating has infinities. */
TN_TEST(ops_bad_input, integers_divided_by_zero) {
  static const binary_fn divisions[] = {tn_fmod, tn_remainder, tn_floor_divide, divide_down, divide_off};
  static const tn_dtype dtypes[] = {TN_UINT8, TN_INT8, TN_INT16, TN_INT32, TN_INT64};
  tn_tensor *wide = make_int(SIZES(6, 7)), *out = NULL;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; ++i) {
    tn_tensor *x = NULL, *row = NULL, *column = NULL, *first = NULL, *rest = NULL;
    TN_CHECK_OK(tn_to_dtype(wide, dtypes[i], false, true, TN_CONTIGUOUS_FORMAT, &x));
    TN_CHECK_OK(tn_select(x, 0, 0, &row));
    TN_CHECK_OK(tn_select(row, 0, 0, &first));
    TN_CHECK_OK(tn_narrow(x, 1, 0, 1, &column));
    TN_CHECK_OK(tn_narrow(x, 1, 1, 6, &rest));
    for (size_t k = 0; k < sizeof divisions / sizeof *divisions; ++k) {
      tn_tensor *zeros[] = {x, row, column, first};
      for (size_t z = 0; z < sizeof zeros / sizeof *zeros; ++z)
        check_refused(divisions[k], x, zeros[z], TN_ERR_INVALID_ARGUMENT, "expected no 0 among the divisors");
      TN_CHECK_OK(divisions[k](rest, rest, &out));
      tn_tensor_release(out);
    }
    TN_CHECK_FAILS(tn_remainder_(x, x), TN_ERR_INVALID_ARGUMENT, "remainder_");
    TN_CHECK_FAILS(tn_remainder_scalar(x, tn_int(0), &out), TN_ERR_INVALID_ARGUMENT, "divisors");
    check_untouched(x);
    tn_tensor *all[] = {x, row, column, first, rest};
    for (size_t t = 0; t < sizeof all / sizeof *all; ++t) tn_tensor_release(all[t]);
  }
  tn_tensor_release(wide);
}

TN_TEST(ops_bad_input, what_may_be_divided_by_zero) {
  tn_tensor *x = make_float(SIZES(2, 3)), *none = make_int(SIZES(0, 3)), *zero = make_int(SIZES(1)), *out = NULL;
  TN_CHECK_OK(tn_floor_divide(x, x, &out));
  tn_tensor_release(out);
  TN_CHECK_OK(tn_fmod(x, zero, &out)); /* promoted */
  tn_tensor_release(out);
  TN_CHECK_OK(tn_remainder(none, zero, &out)); /* nothing is divided */
  tn_tensor_release(out);
  TN_CHECK_OK(tn_div(zero, zero, &out)); /* a float */
  TN_CHECK(isnan(*(const float *)tn_tensor_data(out)));
  tn_tensor *all[] = {x, none, zero, out};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}

/* Beside floats it is infinite, whichever way the call takes: a transposed operand does not go the fast one. */
TN_TEST(ops_bad_input, a_bound_beyond_a_floating_dtype_is_infinite) {
  tn_tensor *x = make_float(SIZES(4, 4)), *half = NULL, *turned = NULL, *y = NULL, *back = NULL;
  TN_CHECK_OK(tn_to_dtype(x, TN_FLOAT16, false, true, TN_CONTIGUOUS_FORMAT, &half));
  TN_CHECK_OK(tn_clamp_max(half, tn_float(100000), &y));
  check_untouched(y);
  tn_tensor_release(y);
  TN_CHECK_OK(tn_t(half, &turned));
  TN_CHECK_OK(tn_clamp(turned, tn_float(-1e39), tn_float(1e39), &y));
  TN_CHECK_OK(tn_t(y, &back));
  check_untouched(back);
  tn_tensor *made[] = {x, half, turned, y, back};
  for (size_t i = 0; i < sizeof made / sizeof *made; ++i) tn_tensor_release(made[i]);
}

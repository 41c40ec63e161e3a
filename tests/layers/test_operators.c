/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that plugins add: examples/operators-softmax against the built-in softmax, and operators that lack
 * something.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools.h"

static tn_status call(const char *name, tn_tensor *const *in, size_t n, tn_tensor **out) {
  const tn_op *op;
  tn_value args[2] = {tn_value_tensor(in[0]), n > 1 ? tn_value_tensor(in[1]) : tn_value_none()};
  tn_value result = tn_value_none();
  *out = NULL;
  tn_status status = tn_op_find(name, &op);
  if (status == TN_OK) status = tn_op_call(op, args, n, &result, 1);
  if (status == TN_OK) *out = result.u.t;
  return status;
}

/* The largest difference of two tensors of one shape, relative to 1. */
static double distance(tn_tensor *a, tn_tensor *b) {
  tn_tensor *difference, *size, *most, *wide;
  double value;
  TN_CHECK_OK(tn_sub(a, b, tn_int(1), &difference));
  TN_CHECK_OK(tn_abs(difference, &size));
  TN_CHECK_OK(tn_amax(size, NULL, 0, false, &most));
  TN_CHECK_OK(tn_to(most, TN_OPTIONS(.dtype = TN_FLOAT64), false, false, TN_MEMORY_FORMAT_NONE, &wide));
  TN_CHECK_OK(tn_tensor_to_host(wide, &value, sizeof value));
  tn_tensor_release(wide);
  tn_tensor_release(most);
  tn_tensor_release(size);
  tn_tensor_release(difference);
  return value;
}

/* Forward and gradient agree with softmax's. */
static void compare(tn_dtype dtype, const tn_dim *sizes, size_t ndim, bool transposed, double tolerance) {
  tn_tensor *made, *x, *weights, *y[2], *grads[2];
  TN_CHECK_OK(tn_randn(sizes, ndim, TN_OPTIONS(.dtype = dtype), &made));
  if (transposed) {
    TN_CHECK_OK(tn_transpose(made, 0, 1, &x));
    tn_tensor_release(made);
    made = x;
  }
  TN_CHECK_OK(tn_detach(made, &x));
  TN_CHECK_OK(tn_mul_scalar_(x, tn_int(10)));
  TN_CHECK_OK(tn_randn_like(x, NULL, TN_MEMORY_FORMAT_NONE, &weights));
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  for (int k = 0; k < 2; ++k) {
    if (k)
      TN_CHECK_OK(call("acme::row_softmax", &x, 1, &y[1]));
    else
      TN_CHECK_OK(tn_softmax(x, -1, TN_DTYPE_NONE, &y[0]));
    TN_CHECK_OK(tn_backward_run(y[k], weights));
    TN_CHECK_OK(tn_clone(tn_grad(x), TN_MEMORY_FORMAT_NONE, &grads[k]));
    TN_CHECK_OK(tn_zero_(tn_grad(x)));
  }
  TN_CHECK(distance(y[0], y[1]) <= tolerance);
  TN_CHECK(distance(grads[0], grads[1]) <= 8 * tolerance);
  for (int k = 0; k < 2; ++k) {
    tn_tensor_release(y[k]);
    tn_tensor_release(grads[k]);
  }
  tn_tensor_release(weights);
  tn_tensor_release(x);
  tn_tensor_release(made);
}

TN_TEST(row_softmax, agrees_with_softmax) {
  layers_start();
  compare(TN_FLOAT32, (const tn_dim[]){7, 100}, 2, false, 1e-6);
  compare(TN_FLOAT64, (const tn_dim[]){7, 33}, 2, false, 1e-14);
  compare(TN_FLOAT32, (const tn_dim[]){40, 6}, 2, true, 1e-6);
  compare(TN_FLOAT32, (const tn_dim[]){3, 5, 1000}, 3, false, 1e-6);
  compare(TN_FLOAT32, (const tn_dim[]){300, 300}, 2, false, 1e-6); /* more than one chunk */
  compare(TN_FLOAT16, (const tn_dim[]){4, 20}, 2, false, 4e-3);    /* its body */
}

TN_TEST(row_softmax, has_a_second_derivative) {
  layers_start();
  const tn_dim sizes[] = {2, 5};
  tn_tensor *x, *y, *squares, *sum, *grad, *total;
  TN_CHECK_OK(tn_randn(sizes, 2, TN_OPTIONS(.dtype = TN_FLOAT64), &x));
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  double results[2];
  for (int k = 0; k < 2; ++k) {
    if (k)
      TN_CHECK_OK(call("acme::row_softmax", &x, 1, &y));
    else
      TN_CHECK_OK(tn_softmax(x, -1, TN_DTYPE_NONE, &y));
    TN_CHECK_OK(tn_mul(y, y, &squares));
    TN_CHECK_OK(tn_sum(squares, TN_DTYPE_NONE, &sum));
    TN_CHECK_OK(tn_grad_of(&sum, NULL, 1, &x, 1, &(tn_backward_options){.create_graph = true}, &grad));
    tn_tensor_release(squares);
    TN_CHECK_OK(tn_mul(grad, grad, &squares));
    TN_CHECK_OK(tn_sum(squares, TN_DTYPE_NONE, &total));
    TN_CHECK_OK(tn_backward_run(total, NULL));
    tn_tensor *norm, *of_all;
    TN_CHECK_OK(tn_mul(tn_grad(x), tn_grad(x), &norm));
    TN_CHECK_OK(tn_sum(norm, TN_DTYPE_NONE, &of_all));
    TN_CHECK_OK(tn_tensor_to_host(of_all, &results[k], sizeof results[k]));
    tn_tensor *const all[] = {of_all, norm, total, grad, sum, squares, y};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
    TN_CHECK_OK(tn_zero_(tn_grad(x)));
  }
  TN_CHECK(results[0] > 0);
  TN_CHECK_DOUBLE(results[0], results[1], 1e-12);
  tn_tensor_release(x);
}

TN_TEST(row_softmax, keeps_zeros_and_nans) {
  layers_start();
  const float values[] = {0, -INFINITY, -200, 1, NAN, 2};
  const tn_dim sizes[] = {2, 3};
  float results[6];
  tn_tensor *x, *y;
  TN_CHECK_OK(tn_tensor_from_host(values, sizes, 2, NULL, &x));
  TN_CHECK_OK(call("acme::row_softmax", &x, 1, &y));
  TN_CHECK_OK(tn_tensor_to_host(y, results, sizeof results));
  TN_CHECK(results[0] == 1 && results[1] == 0 && results[2] == 0);
  TN_CHECK(isnan(results[3]) && isnan(results[4]) && isnan(results[5]));
  tn_tensor_release(y);
  tn_tensor_release(x);
}

TN_TEST(row_softmax, refuses_what_has_no_rows) {
  layers_start();
  tn_tensor *x, *y, *narrow, *pair[2];
  TN_CHECK_OK(tn_full(NULL, 0, tn_float(1), NULL, &x));
  TN_CHECK_FAILS(call("acme::row_softmax", &x, 1, &y), TN_ERR_INVALID_ARGUMENT, "acme::row_softmax: expected rows");
  tn_tensor_release(x);
  x = row((const float[]){1, 2}, 2);
  narrow = row((const float[]){1}, 1);
  pair[0] = narrow, pair[1] = x;
  TN_CHECK_FAILS(call("acme::row_softmax_backward", pair, 2, &y), TN_ERR_INVALID_ARGUMENT, "shape [2]");
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(call("acme::row_choice", &x, 1, &y));
  TN_CHECK(!tn_requires_grad(y));
  tn_tensor_release(y);
  tn_tensor_release(narrow);
  tn_tensor_release(x);
}

TN_TEST(plugin_operators, schema_text_alone_is_found_and_has_no_kernel) {
  layers_start();
  tn_tensor *x = row((const float[]){1, 2}, 2), *y;
  TN_CHECK_FAILS(call("bare::text", &x, 1, &y), TN_ERR_MISSING_KERNEL, "no kernel for cpu and no composite serves bare::text");
  tn_tensor_release(x);
}

TN_TEST(plugin_operators, without_a_gradient_backward_is_an_error) {
  layers_start();
  tn_tensor *x = row((const float[]){1, 2}, 2), *y, *sum;
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(call("bare::twice", &x, 1, &y));
  TN_CHECK_OK(tn_sum(y, TN_DTYPE_NONE, &sum));
  TN_CHECK_FAILS(tn_backward_run(sum, NULL), TN_ERR_NOT_DIFFERENTIABLE, "bare::twice");
  tn_tensor_release(sum);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

TN_TEST(plugin_operators, a_gradient_in_c_calls_operators) {
  layers_start();
  tn_tensor *x = row((const float[]){1, 2}, 2), *y, *sum, *grad, *again;
  float values[2];
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(call("bare::cube", &x, 1, &y));
  TN_CHECK_OK(tn_sum(y, TN_DTYPE_NONE, &sum));
  TN_CHECK_OK(tn_grad_of(&sum, NULL, 1, &x, 1, &(tn_backward_options){.create_graph = true}, &grad));
  TN_CHECK_OK(tn_tensor_to_host(grad, values, sizeof values));
  TN_CHECK_DOUBLE(values[1], 12, 0);
  TN_CHECK_OK(tn_sum(grad, TN_DTYPE_NONE, &again));
  TN_CHECK_OK(tn_backward_run(again, NULL));
  TN_CHECK_OK(tn_tensor_to_host(tn_grad(x), values, sizeof values));
  TN_CHECK_DOUBLE(values[1], 12, 0); /* 6 * x */
  tn_tensor *const all[] = {again, grad, sum, y, x};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}

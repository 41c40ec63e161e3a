/* SPDX-License-Identifier: Apache-2.0
 *
 * What samples cannot say of reductions: what nothing at all sums up to, and where the gradient of an extreme goes
 * when it is NaN.
 */
#include <math.h>

#include "make.h"

TN_TEST(ops_reductions, logsumexp_of_nothing_is_the_logarithm_of_0) {
  tn_tensor *x = NULL, *y = NULL;
  TN_CHECK_OK(tn_zeros(SIZES(0, 3), NULL, &x));
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(tn_logsumexp(x, (const int64_t[]){0}, 1, false, &y));
  TN_CHECK_INT(tn_tensor_numel(y), 3);
  for (int i = 0; i < 3; i++) TN_CHECK_DOUBLE(((const float *)tn_tensor_data(y))[i], -INFINITY, 0);
  TN_CHECK_OK(tn_backward_run(y, y));
  TN_CHECK_INT(tn_tensor_numel(tn_grad(x)), 0);
  tn_tensor_release(y);
  TN_CHECK_OK(tn_logsumexp(x, (const int64_t[]){1}, 1, true, &y));
  TN_CHECK_INT(tn_tensor_numel(y), 0);
  tn_tensor_release(x);
  tn_tensor_release(y);
}

TN_TEST(ops_reductions, logsumexp_of_integers_is_a_float) {
  tn_tensor *x = make_int(SIZES(2)), *y = NULL;
  double value = 0;
  TN_CHECK_OK(tn_logsumexp(x, NULL, 0, false, &y));
  TN_CHECK_INT(tn_tensor_dtype(y), TN_FLOAT32);
  TN_CHECK_OK(tn_tensor_item_double(y, &value));
  TN_CHECK_DOUBLE(value, log(1 + exp(1)), 1e-6);
  tn_tensor_release(x);
  tn_tensor_release(y);
}

TN_TEST(ops_reductions, gradient_of_an_extreme_that_is_nan_goes_to_the_nans) {
  const float values[] = {1, NAN, 3, NAN}, expected[] = {0, 0.5f, 0, 0.5f};
  tn_tensor *x = NULL, *y = NULL;
  TN_CHECK_OK(tn_tensor_from_host(values, SIZES(4), NULL, &x));
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  TN_CHECK_OK(tn_max(x, &y));
  TN_CHECK_OK(tn_backward_run(y, NULL));
  for (int i = 0; i < 4; i++)
    TN_CHECK_DOUBLE(((const float *)tn_tensor_data(tn_grad(x)))[i], expected[i], 0);
  tn_tensor_release(x);
  tn_tensor_release(y);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What samples cannot say of batch norm: running statistics are moved in place, once, and only in training.
 */
#include "make.h"

static tn_tensor *filled(double value, const tn_dim *sizes, int nd) {
  tn_tensor *t = NULL;
  TN_CHECK_OK(tn_full(sizes, (size_t)nd, tn_float(value), TN_OPTIONS(.dtype = TN_FLOAT64), &t));
  return t;
}
static double element(tn_tensor *t, int64_t i) { return ((const double *)tn_tensor_data(t))[i]; }

/* Channel 0 holds 0 and 2, channel 1 holds 1 and 3: means 1 and 2, unbiased variances 2. */
TN_TEST(ops_norm_state, training_moves_running_statistics_once) {
  const double values[] = {0, 1, 2, 3};
  tn_tensor *x = NULL, *mean = filled(5, SIZES(2)), *var = filled(3, SIZES(2)), *y = NULL;
  TN_CHECK_OK(tn_tensor_from_host(values, SIZES(2, 2), TN_OPTIONS(.dtype = TN_FLOAT64), &x));
  TN_CHECK_OK(tn_batch_norm(x, NULL, NULL, mean, var, true, 0.25, 0, true, &y));
  TN_CHECK_DOUBLE(element(mean, 0), 0.75 * 5 + 0.25 * 1, 1e-12);
  TN_CHECK_DOUBLE(element(mean, 1), 0.75 * 5 + 0.25 * 2, 1e-12);
  TN_CHECK_DOUBLE(element(var, 0), 0.75 * 3 + 0.25 * 2, 1e-12);
  TN_CHECK_DOUBLE(element(y, 0), -1, 1e-12);
  tn_tensor_release(y);
  uint32_t version = version_of(mean);
  TN_CHECK_OK(tn_batch_norm(x, NULL, NULL, mean, var, false, 0.25, 0, true, &y));
  TN_CHECK_INT(version_of(mean), version);
  TN_CHECK_DOUBLE(element(y, 0), (0 - 4) / 1.6583123951777, 1e-9);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_tensor_release(mean);
  tn_tensor_release(var);
}

TN_TEST(ops_norm_state, wrong_statistics_are_refused_and_stay) {
  tn_tensor *x = make_float(SIZES(1, 2)), *mean = make_float(SIZES(2)), *long_mean = make_float(SIZES(3)), *y = NULL;
  TN_CHECK_FAILS(tn_batch_norm(x, NULL, NULL, mean, mean, true, 0.1, 0, true, &y), TN_ERR_INVALID_ARGUMENT,
                 "more than 1 value");
  TN_CHECK_FAILS(tn_batch_norm(x, NULL, NULL, long_mean, mean, false, 0.1, 0, true, &y), TN_ERR_INVALID_ARGUMENT,
                 "running_mean");
  TN_CHECK_FAILS(tn_batch_norm(x, NULL, NULL, NULL, NULL, false, 0.1, 0, true, &y), TN_ERR_INVALID_ARGUMENT,
                 "outside training");
  check_untouched(mean);
  tn_tensor_release(x);
  tn_tensor_release(mean);
  tn_tensor_release(long_mean);
}

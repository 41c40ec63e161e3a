/* SPDX-License-Identifier: Apache-2.0
 *
 * Section K: what gradients are where a function has a corner, a tie or a pole.
 */
#include <math.h>

#include "tools.h"

TN_TEST(autograd, K1_corners) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(-1, 0, 2);
  VALUES(grad_one(total(tns_relu(x)), x, false), 0, 0, 1);
  VALUES(grad_one(total(tns_abs(x)), x, false), -1, 0, 1);
  VALUES(grad_one(total(tns_leaky_relu(x, tn_float(0.1))), x, false), 0.1, 0.1, 1);
  VALUES(grad_one(total(tns_clamp(x, tn_int(0), tn_int(2))), x, false), 0, 1, 1);
  VALUES(grad_one(total(tns_sign(x)), x, false), 0, 0, 0);
  VALUES(grad_one(total(tns_round(x)), x, false), 0, 0, 0);
  VALUES(grad_one(total(tns_pow_tensor_scalar(x, tn_int(0))), x, false), 0, 0, 0);
  VALUES(grad_one(total(tns_pow_tensor_scalar(x, tn_int(1))), x, false), 1, 1, 1);
  tn_tensor *zero = LEAF(0, 0);
  VALUES(grad_one(total(tns_sqrt(zero)), zero, false), INFINITY, INFINITY);
  VALUES(grad_one(tns_norm(zero, tn_int(2)), zero, false), 0, 0);
  close_scope(scope);
}

TN_TEST(autograd, K2_ties) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(3, 1, 3), *w = LEAF(3, 2, 1), *values, *indices;
  VALUES(grad_one(tns_max(x), x, false), 0.5, 0, 0.5);
  VALUES(grad_one(tns_amax(x, NULL, 0, false), x, false), 0.5, 0, 0.5);
  VALUES(grad_one(total(tns_maximum(x, w)), x, false), 0.5, 0, 1);
  TN_CHECK_OK(tn_max_dim(x, 0, false, &values, &indices));
  int64_t at;
  TN_CHECK_OK(tn_tensor_item_int(indices, &at));
  VALUES(grad_one(values, x, false), at == 0, 0, at == 2);
  tn_tensor_release(values);
  tn_tensor_release(indices);
  close_scope(scope);
}

TN_TEST(autograd, K3_prod_with_zeros) {
  tn_scope *scope = open_scope();
  tn_tensor *one = LEAF(2, 0, 3), *two = LEAF(0, 5, 0);
  VALUES(grad_one(tns_prod(one, TN_DTYPE_NONE), one, false), 0, 6, 0);
  VALUES(grad_one(tns_prod(two, TN_DTYPE_NONE), two, false), 0, 0, 0);
  close_scope(scope);
}

TN_TEST(autograd, K4_repeated_indices_add_up) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2, 3), *index = tools_of_dtype((double[]){2, 0, 2}, 3, TN_INT64, false);
  VALUES(grad_one(total(tns_index_select(x, 0, index)), x, false), 1, 0, 2);
  VALUES(grad_one(total(tns_gather(x, 0, index, false)), x, false), 1, 0, 2);
  close_scope(scope);
}

TN_TEST(autograd, K5_where_does_not_shield) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(0, 4), *safe = tns_gt_scalar(x, tn_int(0));
  VALUES(grad_one(total(tns_where(safe, tns_sqrt(x), x)), x, false), NAN, 0.25);
  close_scope(scope);
}

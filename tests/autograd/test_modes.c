/* SPDX-License-Identifier: Apache-2.0
 *
 * Section F: grad mode and inference mode.
 */
#include "core/autograd/autograd_int.h"
#include "tools.h"

TN_TEST(autograd, F1_modes_nest_and_restore) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2);
  bool outer = tn_grad_mode_set(false);
  TN_CHECK(outer && !tn_grad_mode());
  bool inner = tn_grad_mode_set(true);
  TN_CHECK(!inner && tn_requires_grad(tns_mul(x, x)));
  tn_grad_mode_set(inner);
  TN_CHECK(!tn_requires_grad(tns_mul(x, x)));
  tn_grad_mode_set(outer);
  TN_CHECK(tn_grad_mode());
  close_scope(scope);
}

TN_TEST(autograd, F2_requiring_leaf_under_no_grad) {
  tn_scope *scope = open_scope();
  bool mode = tn_grad_mode_set(false);
  tn_tensor *x = LEAF(1, 2);
  tn_grad_mode_set(mode);
  TN_CHECK(tn_requires_grad(x) && tn_is_leaf(x));
  close_scope(scope);
}

static void look_at_mode(void *ctx) { *(bool *)ctx = tn_grad_mode(); }

TN_TEST(autograd, F3_mode_is_per_thread) {
  bool there = false;
  tni_worker *worker;
  bool mode = tn_grad_mode_set(false);
  TN_CHECK_OK(tni_worker_start(look_at_mode, &there, "look", &worker));
  tni_worker_join(worker);
  tn_grad_mode_set(mode);
  TN_CHECK(there);
}

static tn_status look_in_hook(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  *(bool *)ctx = tn_grad_mode();
  return TN_OK;
}

TN_TEST(autograd, F4_backward_runs_with_grad_on_only_under_create_graph) {
  tn_scope *scope = open_scope();
  bool on = true;
  tn_tensor *x = LEAF(1, 2), *y = total(tns_mul(x, x));
  TN_CHECK_OK(tn_register_hook(x, look_in_hook, &on, NULL, NULL));
  VALUES(grad_one(y, x, false), 2, 4);
  TN_CHECK(!on && tn_grad_mode());
  VALUES(grad_one(y, x, true), 2, 4);
  TN_CHECK(on);
  close_scope(scope);
}

TN_TEST(autograd, F5_inference_results) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2);
  uint32_t version;
  bool before = tn_inference_mode_set(true);
  TN_CHECK(!before && tn_inference_mode() && !tn_grad_mode());
  tn_tensor *y = tns_mul(x, x);
  tn_inference_mode_set(before);
  TN_CHECK(!tn_requires_grad(y) && tn_grad_mode());
  TN_CHECK_FAILS(tn_tensor_version(y, &version), TN_ERR_STATE, "");
  tn_tensor *z;
  TN_CHECK_FAILS(tn_mul(x, y, &z), TN_ERR_STATE, "saved for backward");
  TN_CHECK_FAILS(tn_add_(y, VEC(1, 1), ONE), TN_ERR_STATE, "inference");
  TN_CHECK(!tn_requires_grad(tns_select(y, 0, 0)));
  TN_CHECK(tn_requires_grad(tns_add(x, y, ONE))); /* F7: nothing is saved */
  close_scope(scope);
}

TN_TEST(autograd, F6_normal_tensors_in_inference_mode) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, VEC(1, 1));
  uint32_t version = 0;
  bool before = tn_inference_mode_set(true);
  tns_add_(x, VEC(1, 1), ONE);
  tns_add_(h, VEC(1, 1), ONE);
  tn_tensor *v = tns_select(h, 0, 0);
  TN_CHECK_OK(tn_tensor_version(v, &version));
  tn_inference_mode_set(before);
  TN_CHECK_INT(version, 1);
  TN_CHECK_STR(tn_grad_fn_name(h, NULL), "MulBackward0");
  TN_CHECK(tn_is_leaf(x));
  close_scope(scope);
}

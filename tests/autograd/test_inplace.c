/* SPDX-License-Identifier: Apache-2.0
 *
 * Section E: writing in place, version counts, and views. b is plain, x a leaf, h an inner tensor, v a
 * view.
 */
#include "tools.h"

static uint32_t version(const tn_tensor *t) {
  uint32_t v = 0;
  TN_CHECK_OK(tn_tensor_version(t, &v));
  return v;
}

TN_TEST(autograd, E1_leaf_and_its_views_are_not_written) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *v = tns_select(x, 0, 0);
  TN_CHECK_FAILS(tn_add_(x, VEC(1, 1), ONE), TN_ERR_STATE, "leaf");
  TN_CHECK_FAILS(tn_add_scalar_(v, ONE, ONE), TN_ERR_STATE, "view of a leaf");
  VALUES(x, 1, 2);
  TN_CHECK_INT(version(x), 0);
  close_scope(scope);
}

TN_TEST(autograd, E2_leaf_is_written_under_no_grad) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2);
  bool mode = tn_grad_mode_set(false);
  tns_add_(x, VEC(1, 1), ONE);
  tn_grad_mode_set(mode);
  TN_CHECK(tn_is_leaf(x) && tn_requires_grad(x));
  TN_CHECK_INT(version(x), 1);
  VALUES(x, 2, 3);
  close_scope(scope);
}

TN_TEST(autograd, E3_one_counter_for_base_views_and_aliases) {
  tn_scope *scope = open_scope();
  tn_tensor *b = VEC(1, 2), *v = tns_select(b, 0, 0), *d = tns_detach(b);
  tns_add_scalar_(v, ONE, ONE);
  tns_add_(d, VEC(1, 1), ONE);
  tns_add_(b, VEC(1, 1), ONE);
  TN_CHECK_INT(version(b), 3);
  TN_CHECK_INT(version(v), 3);
  TN_CHECK_INT(version(d), 3);
  close_scope(scope);
}

TN_TEST(autograd, E4_changed_saved_tensor) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *c = VEC(3, 4), *y = total(tns_mul(x, c));
  tns_add_(c, VEC(1, 1), ONE);
  TN_CHECK_FAILS(tn_backward_run(y, NULL), TN_ERR_VERSION, "MulBackward0");
  TN_CHECK_CONTAINS(tn_error_message(), "[2]");
  TN_CHECK_CONTAINS(tn_error_message(), "expected version 0");
  TN_CHECK_CONTAINS(tn_error_message(), "found version 1");
  tn_tensor *h = tns_exp(x), *z = total(h);
  tns_add_(h, VEC(1, 1), ONE); /* exp saved its result */
  TN_CHECK_FAILS(tn_backward_run(z, NULL), TN_ERR_VERSION, "version");
  close_scope(scope);
}

TN_TEST(autograd, E5_changed_but_not_saved) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *c = VEC(3, 4), *y = total(tns_add(x, c, ONE));
  tns_add_(c, VEC(1, 1), ONE);
  TN_CHECK_OK(tn_backward_run(y, NULL));
  VALUES(tn_grad(x), 1, 1);
  close_scope(scope);
}

TN_TEST(autograd, E7_write_rebases_history) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *h = tns_mul_scalar(x, tn_int(2)), *same = h;
  h = tns_mul_(h, tns_add(x, VEC(1, 1), ONE)); /* 2x(x+1) */
  TN_CHECK(h == same);
  TN_CHECK_STR(tn_grad_fn_name(h, NULL), "MulBackward0");
  h = tns_exp_(h);
  TN_CHECK_STR(tn_grad_fn_name(h, NULL), "ExpBackward0");
  back(tns_log(h));
  VALUES(tn_grad(x), 6, 10);
  close_scope(scope);
}

TN_TEST(autograd, E8_requiring_operand_makes_it_require) {
  tn_scope *scope = open_scope();
  tn_tensor *b = VEC(1, 2), *w = LEAF(3, 4), *v = tns_select(b, 0, 1);
  TN_CHECK(!tn_requires_grad(b) && !tn_requires_grad(v));
  tns_mul_(b, w);
  TN_CHECK(tn_requires_grad(b) && !tn_is_leaf(b));
  TN_CHECK(tn_requires_grad(v));
  TN_CHECK_OK(tn_backward_run(v, NULL));
  VALUES(tn_grad(w), 0, 2);
  close_scope(scope);
}

TN_TEST(autograd, E9_write_into_a_view) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2, 3), *w = NUMBER(10), *h = tns_mul(x, x), *v = tns_select(h, 0, 1);
  tns_mul_(v, w);
  TN_CHECK_STR(tn_grad_fn_name(h, NULL), "CopySlices");
  TN_CHECK_STR(tn_grad_fn_name(v, NULL), "SelectBackward0");
  back(h);
  VALUES(tn_grad(x), 2, 40, 6);
  VALUES(tn_grad(w), 4);
  close_scope(scope);
}

TN_TEST(autograd, E9_plain_base_written_through_a_view) {
  tn_scope *scope = open_scope();
  tn_tensor *b = tools_matrix((double[]){1, 2, 3, 4}, 2, 2, false), *w = LEAF(5, 6), *v = tns_select(b, 0, 0);
  tns_copy_(v, w, false);
  TN_CHECK(tn_requires_grad(b));
  VALUES(grad_one(total(b), w, false), 1, 1);
  VALUES(b, 5, 6, 3, 4);
  close_scope(scope);
}

TN_TEST(autograd, E10_view_of_a_plain_base_that_is_then_written) {
  tn_scope *scope = open_scope();
  tn_tensor *b = tools_matrix((double[]){1, 2, 3, 4}, 2, 2, false), *v = tns_select(b, 0, 0);
  tn_tensor *w = tools_matrix((double[]){5, 6, 7, 8}, 2, 2, true);
  tns_copy_(b, w, false);
  VALUES(grad_one(total(v), w, false), 1, 1, 0, 0);
  close_scope(scope);
}

TN_TEST(autograd, E10_view_made_before_its_base_got_history) {
  tn_scope *scope = open_scope();
  tn_tensor *x = VEC(1, 2), *w = LEAF(3, 4), *v = tns_select(x, 0, 0);
  tns_add_(x, w, ONE);
  TN_CHECK_OK(tn_backward_run(tns_mul_scalar(v, tn_int(3)), NULL));
  VALUES(tn_grad(w), 3, 0);
  close_scope(scope);
}

TN_TEST(autograd, E10_base_write_regenerates_views) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2, 3), *h = tns_mul(x, x), *v = tns_slice(h, 0, &(int64_t){1}, NULL, 1);
  TN_CHECK_STR(tn_grad_fn_name(v, NULL), "SliceBackward0");
  tns_mul_scalar_(h, tn_int(10));
  back(v);
  VALUES(tn_grad(x), 0, 40, 60);
  close_scope(scope);
}

TN_TEST(autograd, E11_chains_and_overlapping_views) {
  tn_scope *scope = open_scope();
  tn_tensor *x = tools_matrix((double[]){1, 2, 3, 4, 5, 6}, 2, 3, true), *h = tns_mul_scalar(x, ONE);
  tn_tensor *chain =
      tns_slice(tns_select(tns_transpose(h, 0, 1), 0, 1), 0, &(int64_t){1}, NULL, 1); /* h[1][1] */
  tn_tensor *row = tns_select(h, 0, 1);
  tns_mul_scalar_(chain, tn_int(10));
  tns_mul_(row, row); /* written after chain, and overlaps it */
  VALUES(chain, 2500);
  back(h);
  VALUES(tn_grad(x), 1, 1, 1, 8, 1000, 12);
  TN_CHECK_OK(tn_set_grad(x, NULL));
  close_scope(scope);
}

TN_TEST(autograd, E12_overwritten_elements_get_zero) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2, 3), *w = LEAF(9.0), *h = tns_mul(x, x);
  tn_tensor *v = tns_slice(h, 0, &(int64_t){0}, &(int64_t){2}, 1);
  tns_copy_(v, w, false); /* broadcast into two places */
  back(tns_mul(h, VEC(1, 10, 100)));
  VALUES(tn_grad(x), 0, 0, 600);
  VALUES(tn_grad(w), 11);
  tn_tensor *k = tns_mul(x, x);
  tns_fill_(tns_select(k, 0, 2), tn_int(0));
  TN_CHECK_OK(tn_set_grad(x, NULL));
  back(k);
  VALUES(tn_grad(x), 2, 4, 0);
  close_scope(scope);
}

TN_TEST(autograd, E13_multi_output_views_are_not_written) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x), *parts[2];
  size_t n;
  TN_CHECK_OK(tn_unbind(h, 0, parts, 2, &n));
  TN_CHECK_FAILS(tn_mul_scalar_(parts[0], tn_int(2)), TN_ERR_STATE, "several views");
  TN_CHECK_OK(tn_backward_run(parts[1], NULL));
  VALUES(tn_grad(x), 0, 4);
  tn_tensor_release(parts[0]);
  tn_tensor_release(parts[1]);
  close_scope(scope);
}

TN_TEST(autograd, E14_view_made_under_no_grad_is_not_written) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x);
  bool mode = tn_grad_mode_set(false);
  tn_tensor *v = tns_select(h, 0, 0);
  tn_grad_mode_set(mode);
  TN_CHECK_FAILS(tn_mul_scalar_(v, tn_int(2)), TN_ERR_STATE, "gradients were off");
  close_scope(scope);
}

TN_TEST(autograd, E16_overlapping_memory_is_not_written) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1.0), *h = tns_mul(x, x), *wide = tns_expand(h, (const int64_t[]){3}, 1, false);
  TN_CHECK_FAILS(tn_add_(wide, VEC(1, 1, 1), ONE), TN_ERR_OVERLAP, "");
  TN_CHECK_STR(tn_grad_fn_name(h, NULL), "MulBackward0"); /* untouched */
  close_scope(scope);
}

TN_TEST(autograd, E17_out_is_refused) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *plain = VEC(1, 1), *target = VEC(0, 0);
  TN_CHECK_FAILS(tn_add_out(x, plain, ONE, target), TN_ERR_STATE, "out=");
  TN_CHECK_FAILS(tn_add_out(plain, plain, ONE, x), TN_ERR_STATE, "out=");
  TN_CHECK_OK(tn_add_out(plain, plain, ONE, target));
  VALUES(target, 2, 2);
  close_scope(scope);
}

TN_TEST(autograd, E18_resize) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *b = VEC(1, 2);
  TN_CHECK_FAILS(tn_resize_(x, (const int64_t[]){3}, 1, TN_MEMORY_FORMAT_NONE), TN_ERR_STATE,
                 "requires grad");
  TN_CHECK_OK(tn_resize_(b, (const int64_t[]){2}, 1, TN_MEMORY_FORMAT_NONE));
  TN_CHECK_INT(version(b), 0);
  TN_CHECK_OK(tn_resize_(b, (const int64_t[]){1}, 1, TN_MEMORY_FORMAT_NONE));
  TN_CHECK_INT(version(b), 1);
  close_scope(scope);
}

TN_TEST(autograd, E19_detach) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x), *v = tns_select(h, 0, 0), *d = tns_detach(h);
  TN_CHECK(tn_tensor_data(d) == tn_tensor_data(h));
  TN_CHECK_FAILS(tn_detach_(v), TN_ERR_STATE, "view");
  tns_detach_(h);
  TN_CHECK(tn_is_leaf(h) && !tn_requires_grad(h));
  close_scope(scope);
}

TN_TEST(autograd, E7_failed_write_leaves_history_alone) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x);
  TN_CHECK_FAILS(tn_mul_(h, VEC(1, 2, 3)), TN_ERR_INVALID_ARGUMENT, "");
  TN_CHECK_INT(version(h), 0);
  back(h);
  VALUES(tn_grad(x), 2, 4);
  close_scope(scope);
}

TN_TEST(autograd, E7_same_tensor_on_both_sides) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(2, 3), *h = tns_mul_scalar(x, ONE);
  tns_mul_(h, h);
  back(h);
  VALUES(tn_grad(x), 4, 6);
  close_scope(scope);
}

TN_TEST(autograd, E9_second_derivative_through_a_view_write) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(2, 3), *h = tns_mul(x, x), *v = tns_select(h, 0, 1);
  tns_mul_(v, v); /* x0^2, x1^4 */
  tn_tensor *g = grad_one(total(h), x, true);
  VALUES(g, 4, 108);
  VALUES(grad_one(total(g), x, false), 2, 108);
  close_scope(scope);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Section B: what backward() and grad() take, refuse, keep and return.
 */
#include "tools.h"

TN_TEST(autograd, B1_implicit_seed_only_for_one_element) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = tns_mul(x, x);
  TN_CHECK_FAILS(tn_backward_run(y, NULL), TN_ERR_INVALID_ARGUMENT, "one element");
  TN_CHECK_PTR_NULL(tn_grad(x));
  TN_CHECK_OK(tn_backward_run(y, VEC(1, 10)));
  VALUES(tn_grad(x), 2, 40);
  close_scope(scope);
}

TN_TEST(autograd, B2_seed_has_the_shape_of_its_root) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = tns_mul(x, x);
  TN_CHECK_FAILS(tn_backward_run(y, VEC(1, 1, 1)), TN_ERR_INVALID_ARGUMENT, "shape");
  TN_CHECK_FAILS(tn_backward_run(y, VEC(1.0)), TN_ERR_INVALID_ARGUMENT, "shape");
  close_scope(scope);
}

TN_TEST(autograd, B3_root_without_history) {
  tn_scope *scope = open_scope();
  TN_CHECK_FAILS(tn_backward_run(VEC(1.0), NULL), TN_ERR_STATE, "require grad");
  TN_CHECK_FAILS(tn_backward_run(NULL, NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  close_scope(scope);
}

TN_TEST(autograd, B4_second_backward) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = total(tns_mul(x, x)), *z = total(tns_add(x, x, ONE));
  TN_CHECK_OK(tn_backward_run(y, NULL));
  TN_CHECK_FAILS(tn_backward_run(y, NULL), TN_ERR_STATE, "retain_graph");
  TN_CHECK_OK(tn_set_grad(x, NULL));
  TN_CHECK_OK(tn_backward_run(z, NULL)); /* saved nothing */
  TN_CHECK_OK(tn_backward_run(z, NULL));
  VALUES(tn_grad(x), 4, 4);
  close_scope(scope);
}

static const tn_backward_options retain = {.retain_graph = true};

TN_TEST(autograd, B5_retain_graph_adds_the_same_again) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = total(tns_mul(x, x));
  for (int i = 0; i < 2; ++i) TN_CHECK_OK(tn_backward_from(&y, NULL, 1, NULL, 0, &retain));
  VALUES(tn_grad(x), 4, 8);
  close_scope(scope);
}

TN_TEST(autograd, B6_create_graph) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(2, 3), *y = total(tns_mul(tns_mul(x, x), x));
  tn_tensor *g = grad_one(y, x, true);
  VALUES(g, 12, 27);
  TN_CHECK(tn_requires_grad(g));
  tn_tensor *h = grad_one(total(g), x, true);
  VALUES(h, 12, 18);
  VALUES(grad_one(total(h), x, false), 6, 6);
  VALUES(grad_one(y, x, false), 12, 27); /* retained by default */
  TN_CHECK(!tn_requires_grad(grad_one(y, x, false)));
  close_scope(scope);
}

TN_TEST(autograd, B8_grad_leaves_fields_alone) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *w = LEAF(5, 5), *y = total(tns_mul(x, w));
  VALUES(grad_one(y, x, false), 5, 5);
  TN_CHECK_PTR_NULL(tn_grad(x));
  TN_CHECK_PTR_NULL(tn_grad(w));
  close_scope(scope);
}

TN_TEST(autograd, B9_unreached_input) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *other = LEAF(3, 4), *y = total(tns_mul(x, x)), *g;
  tn_tensor *plain = VEC(1, 1);
  TN_CHECK_FAILS(tn_grad_of(&y, NULL, 1, &other, 1, &retain, &g), TN_ERR_STATE, "allow_unused");
  TN_CHECK_PTR_NULL(g);
  TN_CHECK_OK(tn_grad_of(&y, NULL, 1, &other, 1,
                         &(tn_backward_options){.retain_graph = true, .allow_unused = true}, &g));
  TN_CHECK_PTR_NULL(g);
  TN_CHECK_OK(tn_grad_of(&y, NULL, 1, &other, 1,
                         &(tn_backward_options){.retain_graph = true, .materialize = true}, &g));
  VALUES(g, 0, 0);
  tn_tensor_release(g);
  TN_CHECK_FAILS(tn_grad_of(&y, NULL, 1, &plain, 1, &(tn_backward_options){.allow_unused = true}, &g),
                 TN_ERR_STATE, "require grad");
  close_scope(scope);
}

TN_TEST(autograd, B10_grad_of_an_inner_tensor) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x), *y = total(tns_mul(h, h));
  VALUES(grad_one(y, h, false), 2, 8);
  TN_CHECK_PTR_NULL(tn_grad(x));
  close_scope(scope);
}

TN_TEST(autograd, B11_inputs_of_backward) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *w = LEAF(3, 3), *h = tns_mul(x, w), *y = total(tns_mul(h, h));
  tn_tensor *inputs[] = {w, h};
  TN_CHECK_OK(tn_backward_from(&y, NULL, 1, inputs, 2, &retain));
  VALUES(tn_grad(w), 6, 24);
  VALUES(tn_grad(h), 6, 12);
  TN_CHECK_PTR_NULL(tn_grad(x));
  TN_CHECK_FAILS(tn_backward_from(&y, NULL, 1, inputs, 0, NULL), TN_ERR_INVALID_ARGUMENT, "empty");
  tn_tensor *g;
  TN_CHECK_FAILS(tn_grad_of(&y, NULL, 1, inputs, 0, NULL, &g), TN_ERR_INVALID_ARGUMENT, "at least one input");
  close_scope(scope);
}

static tn_status count_call(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  ++*(int *)ctx;
  return TN_OK;
}

TN_TEST(autograd, B12_only_paths_to_inputs_run) {
  tn_scope *scope = open_scope();
  int side = 0, path = 0;
  tn_tensor *x = LEAF(1, 2), *w = LEAF(3, 3), *lost = LEAF(0, 0);
  tn_tensor *a = tns_exp(x), *b = tns_mul(w, w), *y = total(tns_mul(a, b));
  TN_CHECK_OK(tn_register_hook(a, count_call, &side, NULL, NULL));
  TN_CHECK_OK(tn_register_hook(x, count_call, &side, NULL, NULL));
  TN_CHECK_OK(tn_register_hook(b, count_call, &path, NULL, NULL));
  tn_tensor *inputs[] = {w, lost}, *grads[2];
  TN_CHECK_OK(tn_grad_of(&y, NULL, 1, inputs, 2, &(tn_backward_options){.allow_unused = true}, grads));
  TN_CHECK_INT(side, 0);
  TN_CHECK_INT(path, 1);
  TN_CHECK_PTR_NULL(grads[1]);
  tn_tensor_release(grads[0]);
  close_scope(scope);
}

TN_TEST(autograd, B13_several_roots_add_up) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1.0), *a = tns_mul(x, x), *b = tns_mul(a, x);
  tn_tensor *roots[] = {a, b, a};
  TN_CHECK_OK(tn_backward_from(roots, NULL, 3, NULL, 0, NULL)); /* 2x + 3x^2 + 2x; a feeds b */
  VALUES(tn_grad(x), 7);
  close_scope(scope);
}

TN_TEST(autograd, B14_root_is_leaf_or_input) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(5.0), *seed = VEC(3.0), *y = tns_mul(x, x), *g;
  TN_CHECK_OK(tn_backward_run(x, seed));
  VALUES(tn_grad(x), 3);
  TN_CHECK(tn_grad(x) != seed);
  TN_CHECK_OK(tn_grad_of(&y, NULL, 1, &y, 1, NULL, &g));
  VALUES(g, 1);
  tn_tensor_release(g);
  close_scope(scope);
}

static tn_status fail_once(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  int *left = ctx;
  return (*left)-- > 0 ? tn_fail(TN_ERR_INTERRUPTED, "the hook says no") : TN_OK;
}

TN_TEST(autograd, B17_usable_after_a_failure) {
  tn_scope *scope = open_scope();
  int left = 1;
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x), *y = total(tns_exp(h));
  TN_CHECK_OK(tn_register_hook(h, fail_once, &left, NULL, NULL));
  TN_CHECK_FAILS(tn_backward_from(&y, NULL, 1, NULL, 0, &retain), TN_ERR_INTERRUPTED, "says no");
  TN_CHECK_PTR_NULL(tn_grad(x));
  TN_CHECK_OK(tn_backward_run(y, NULL));
  VALUES(tn_grad(x), 2 * 2.718281828459045, 4 * 54.598150033144236);
  close_scope(scope);
}

/* A node whose function did not succeed has freed nothing: the second try is told the same. */
TN_TEST(autograd, B17_failed_node_keeps_what_it_saved) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(2.0), *w = VEC(3.0), *y = tns_mul(x, w);
  TN_CHECK_OK(tn_add_(w, VEC(1.0), tn_int(1)));
  for (int i = 0; i < 2; ++i) TN_CHECK_FAILS(tn_backward_run(y, NULL), TN_ERR_VERSION, "changed in place");
  TN_CHECK_PTR_NULL(tn_grad(x));
  close_scope(scope);
}

TN_TEST(autograd, B18_refused_before_any_node_runs) {
  tn_scope *scope = open_scope();
  int calls = 0;
  tn_tensor *x = LEAF(1.0), *y = tns_mul(x, x), *plain = VEC(1.0);
  TN_CHECK_OK(tn_register_hook(y, count_call, &calls, NULL, NULL));
  tn_tensor *roots[] = {y, plain};
  TN_CHECK_FAILS(tn_backward_from(roots, NULL, 2, NULL, 0, NULL), TN_ERR_STATE, "root 1");
  TN_CHECK_FAILS(tn_backward_from(roots, NULL, 0, NULL, 0, NULL), TN_ERR_INVALID_ARGUMENT, "root");
  tn_tensor *nothing = NULL;
  TN_CHECK_FAILS(tn_backward_from(roots, NULL, 1, &nothing, 1, NULL), TN_ERR_INVALID_ARGUMENT, "input 0");
  TN_CHECK_INT(calls, 0);
  close_scope(scope);
}

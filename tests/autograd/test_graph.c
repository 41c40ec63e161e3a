/* SPDX-License-Identifier: Apache-2.0
 *
 * Section A: leaves and nodes, what is recorded and saved, and when a graph goes away.
 */
#include "core/autograd/autograd_int.h"
#include "tools.h"

TN_TEST(autograd, A1_leaf_and_inner) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *c = VEC(3, 4), *y = tns_mul(x, c);
  uint32_t nr = 9;
  TN_CHECK(tn_is_leaf(x) && tn_is_leaf(c) && !tn_is_leaf(y));
  TN_CHECK(tn_requires_grad(x) && !tn_requires_grad(c) && tn_requires_grad(y));
  TN_CHECK_PTR_NULL(tn_grad_fn_name(x, NULL));
  TN_CHECK_STR(tn_grad_fn_name(y, &nr), "MulBackward0");
  TN_CHECK_INT(nr, 0);
  close_scope(scope);
}

TN_TEST(autograd, A2_only_floating_dtypes) {
  tn_scope *scope = open_scope();
  const tn_dtype refused[] = {TN_BOOL, TN_UINT8, TN_INT64};
  for (int i = 0; i < 3; ++i) {
    tn_tensor *t = tools_of_dtype((double[]){1, 0}, 2, refused[i], false);
    TN_CHECK_FAILS(tn_set_requires_grad(t, true), TN_ERR_DTYPE, "floating");
  }
  TN_CHECK_OK(tn_set_requires_grad(tools_of_dtype((double[]){1, 0}, 2, TN_FLOAT16, false), true));
  close_scope(scope);
}

TN_TEST(autograd, A3_integer_results_never_require) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 3, 2), *values, *indices;
  TN_CHECK(!tn_requires_grad(tns_argmax(x, NULL, false)));
  TN_CHECK(!tn_requires_grad(tns_gt(x, VEC(2, 2, 2))));
  TN_CHECK_OK(tn_max_dim(x, 0, false, &values, &indices));
  TN_CHECK(tn_requires_grad(values) && !tn_requires_grad(indices));
  tn_tensor_release(values);
  tn_tensor_release(indices);
  close_scope(scope);
}

TN_TEST(autograd, A4_nothing_requires_nothing_recorded) {
  tn_scope *scope = open_scope();
  tn_tensor *y = tns_mul(VEC(1, 2), VEC(3, 4));
  TN_CHECK(!tn_requires_grad(y) && tn_is_leaf(y));
  TN_CHECK_PTR_NULL(y->autograd);
  close_scope(scope);
}

TN_TEST(autograd, A5_one_accumulation_node_per_leaf) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *c = VEC(1, 1);
  tn_tensor *a = tns_mul(x, x), *b = tns_mul(c, x);
  tni_node *first = a->autograd->grad_fn, *second = b->autograd->grad_fn;
  TN_CHECK(first->edges[0].fn && first->edges[0].fn == first->edges[1].fn);
  TN_CHECK_PTR_NULL(second->edges[0].fn);
  TN_CHECK(second->edges[1].fn == first->edges[0].fn);
  TN_CHECK_STR(second->edges[1].fn->name, "AccumulateGrad");
  close_scope(scope);
}

TN_TEST(autograd, A6_last_handle_frees_the_graph) {
  tn_scope *scope = open_scope();
  int freed = 0;
  tn_tensor *c = tools_watched(&freed), *x = LEAF(1, 2, 3), *y, *z;
  TN_CHECK_OK(tn_mul(x, c, &y));
  tn_tensor_release(c);
  TN_CHECK_OK(tn_mul_scalar(y, tn_float(2), &z));
  TN_CHECK_OK(tn_retain_grad(y));
  tn_tensor_release(y);
  TN_CHECK_INT(freed, 0); /* saved by the product */
  tn_tensor_release(z);
  TN_CHECK_INT(freed, 1);
  close_scope(scope);
}

static tn_tensor *chain(tn_tensor *x, int n) {
  tn_tensor *y = tn_tensor_retain(x), *next;
  tn_scope *scope = open_scope();
  tn_tensor *c = VEC(1.0);
  for (int i = 0; i < n; ++i) {
    TN_CHECK_OK(i % 2 ? tn_mul(y, c, &next) : tn_mul(y, y, &next));
    tn_tensor_release(y);
    y = next;
  }
  close_scope(scope);
  return y;
}

TN_TEST(autograd, A7_deep_graph_without_recursion) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1.0);
  tn_tensor *y = chain(x, 150001);
  tn_tensor_release(y); /* freed without having run */
  y = chain(x, 150001);
  TN_CHECK_OK(tn_backward_run(y, NULL));
  tn_tensor_release(y);
  TN_CHECK_NOT_NULL(tn_grad(x));
  close_scope(scope);
}

TN_TEST(autograd, A8_saved_only_if_needed) {
  tn_scope *scope = open_scope();
  int freed = 0;
  tn_tensor *c = VEC(5, 5, 5), *watched = tools_watched(&freed), *y, *z;
  TN_CHECK_OK(tn_set_requires_grad(watched, true));
  TN_CHECK_OK(tn_mul(watched, c, &y)); /* c is kept, watched is not */
  tn_tensor_release(watched);
  TN_CHECK_INT(freed, 1);
  tn_tensor_release(y);
  freed = 0;
  watched = tools_watched(&freed);
  TN_CHECK_OK(tn_set_requires_grad(watched, true));
  TN_CHECK_OK(tn_clone(watched, TN_MEMORY_FORMAT_NONE, &y));
  TN_CHECK_OK(tn_add(watched, y, ONE, &z));
  tn_tensor_release(watched);
  TN_CHECK_INT(freed, 1);
  tn_tensor_release(y);
  tn_tensor_release(z);
  close_scope(scope);
}

TN_TEST(autograd, A9_saved_result_makes_no_cycle) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(0, 1), *y, *g;
  TN_CHECK_OK(tn_exp(x, &y)); /* saves its result; a cycle would be a leak */
  tn_tensor_release(y);
  TN_CHECK_OK(tn_exp(x, &y));
  tn_tensor *root = total(y);
  TN_CHECK_OK(tn_grad_of(&root, NULL, 1, &x, 1, &(tn_backward_options){.create_graph = true}, &g));
  tn_tensor_release(y);
  VALUES(g, 1, 2.718281828459045);
  VALUES(grad_one(total(g), x, false), 1, 2.718281828459045);
  tn_tensor_release(g);
  close_scope(scope);
}

TN_TEST(autograd, A10_switch_off_only_on_leaves) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = tns_mul(x, x);
  TN_CHECK_FAILS(tn_set_requires_grad(y, false), TN_ERR_STATE, "leaf");
  tn_tensor *d = tns_detach(y);
  TN_CHECK(!tn_requires_grad(d) && tn_is_leaf(d));
  TN_CHECK_OK(tn_set_requires_grad(x, false));
  TN_CHECK(!tn_requires_grad(x) && !tn_requires_grad(tns_mul(x, x)));
  close_scope(scope);
}

TN_TEST(autograd, A6_write_of_a_value_made_from_itself) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, VEC(3, 3));
  tns_mul_(h, tns_mul(h, x)); /* the factor saved h: a handle would close a circle */
  tn_tensor *v = tns_select(h, 0, 0);
  tns_add_(h, tns_mul(v, x), ONE); /* the same through a view */
  TN_CHECK(tn_requires_grad(h));
  close_scope(scope);
}

TN_TEST(autograd, A6_plain_tensor_written_with_its_own_product) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *c = VEC(3, 4);
  tns_add_(c, tns_mul(x, c), ONE); /* the product saved c itself: a leak if it kept the handle */
  TN_CHECK_FAILS(tn_backward_run(c, VEC(1, 1)), TN_ERR_VERSION, "changed in place");
  tn_tensor *b = tools_matrix((double[]){1, 2, 3, 4}, 2, 2, false);
  tns_copy_(tns_select(b, 0, 0), tns_select(tns_mul(b, NUMBER(2)), 0, 1), false);
  TN_CHECK(tn_requires_grad(b));
  close_scope(scope);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Section C: order of nodes, sums of gradients, and what becomes the grad field.
 */
#include "core/autograd/autograd_int.h"
#include "tools.h"

typedef struct order {
  int n;
  char names[8];
} order;

typedef struct mark {
  order *list;
  char name;
} mark;

static tn_status note(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  mark *m = ctx;
  m->list->names[m->list->n++] = m->name;
  return TN_OK;
}

TN_TEST(autograd, C1_fan_out_is_summed_first) {
  tn_scope *scope = open_scope();
  order list = {0};
  mark m = {&list, 'h'};
  tn_tensor *x = LEAF(3.0), *h = tns_mul(x, x),
            *y = tns_add(tns_mul(h, h), tns_mul_scalar(h, tn_int(5)), ONE);
  TN_CHECK_OK(tn_register_hook(h, note, &m, NULL, NULL));
  TN_CHECK_OK(tn_backward_run(y, NULL));
  TN_CHECK_INT(list.n, 1);
  VALUES(tn_grad(x), (2 * 9 + 5) * 6);
  close_scope(scope);
}

TN_TEST(autograd, C2_latest_node_first_leaves_at_once) {
  tn_scope *scope = open_scope();
  order list = {0};
  mark marks[] = {{&list, 'a'}, {&list, 'b'}, {&list, 'x'}, {&list, 'w'}};
  tn_tensor *x = LEAF(1.0), *w = LEAF(1.0);
  tn_tensor *a = tns_mul_scalar(x, tn_int(2)), *b = tns_mul_scalar(w, tn_int(3)), *y = tns_add(a, b, ONE);
  tn_tensor *watched[] = {a, b, x, w};
  for (int i = 0; i < 4; ++i) TN_CHECK_OK(tn_register_hook(watched[i], note, &marks[i], NULL, NULL));
  TN_CHECK_OK(tn_backward_run(y, NULL));
  TN_CHECK_STR(list.names, "bwax");
  close_scope(scope);
}

TN_TEST(autograd, C3_later_gradients_go_into_the_same_tensor) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = total(tns_mul(x, x));
  const tn_backward_options retain = {.retain_graph = true};
  TN_CHECK_OK(tn_backward_from(&y, NULL, 1, NULL, 0, &retain));
  tn_tensor *first = tn_grad(x);
  TN_CHECK_OK(tn_backward_from(&y, NULL, 1, NULL, 0, &retain));
  TN_CHECK(tn_grad(x) == first);
  VALUES(first, 4, 8);
  close_scope(scope);
}

static int warnings;
static void count_warning(void *ctx, int32_t level, const char *words) { warnings += level == TN_LOG_WARN; }

TN_TEST(autograd, C4_create_graph_accumulates_out_of_place) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *y = total(tns_mul(x, x));
  const tn_backward_options create = {.create_graph = true};
  tn_log_set(count_warning, NULL); /* B7: the first such run of a process warns */
  TN_CHECK_OK(tn_backward_from(&y, NULL, 1, NULL, 0, &create));
  tn_log_set(NULL, NULL);
  tn_tensor *first = tn_scope_keep(tn_grad(x));
  TN_CHECK_OK(tn_backward_from(&y, NULL, 1, NULL, 0, &create));
  TN_CHECK(tn_grad(x) != first);
  VALUES(first, 2, 4);
  VALUES(tn_grad(x), 4, 8);
  tn_tensor_release(first);
  TN_CHECK_OK(tn_set_grad(x, NULL)); /* a gradient with a graph leads back to x */
  close_scope(scope);
}

static tn_status keep_address(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  *(void **)ctx = tn_tensor_data(grad);
  return TN_OK;
}

TN_TEST(autograd, C5_steal_or_clone) {
  tn_scope *scope = open_scope();
  void *arrived = NULL;
  tn_tensor *x = LEAF(1, 2), *w = LEAF(3, 4), *seed = VEC(1, 1);
  TN_CHECK_OK(tn_register_hook(x, keep_address, &arrived, NULL, NULL));
  back(tns_mul(x, VEC(5, 5)));
  TN_CHECK(tn_tensor_data(tn_grad(x)) == arrived); /* fresh: taken over */
  TN_CHECK_OK(tn_set_grad(x, NULL));

  TN_CHECK_OK(tn_backward_run(tns_add(x, w, ONE),
                              seed)); /* the seed reaches two leaves: never shared, never written */
  TN_CHECK(tn_grad(x) != seed && tn_grad(w) != seed && tn_grad(x) != tn_grad(w));
  TN_CHECK(tn_tensor_data(tn_grad(x)) != tn_tensor_data(tn_grad(w)));
  TN_CHECK_OK(tn_backward_run(tns_add(x, w, ONE), seed));
  VALUES(seed, 1, 1);
  VALUES(tn_grad(x), 2, 2);

  TN_CHECK_OK(tn_set_grad(x, NULL));
  back(x); /* an expanded 1: copied */
  TN_CHECK_INT(tn_tensor_strides(tn_grad(x))[0], 1);
  close_scope(scope);
}

/* The gradient of a matrix that stands transposed in a product lies as the matrix does: taken over, not copied. */
static void check_taken_over(tn_tensor *leaf, tn_tensor *product, double sum_of_grads) {
  void *arrived = NULL;
  uint64_t hook;
  TN_CHECK_OK(tn_register_hook(leaf, keep_address, &arrived, NULL, &hook));
  back(product);
  TN_CHECK(tn_tensor_data(tn_grad(leaf)) == arrived);
  TN_CHECK_INT(tn_tensor_strides(tn_grad(leaf))[1], 1);
  VALUES(total(tn_grad(leaf)), sum_of_grads);
}

TN_TEST(autograd, C5_gradients_of_transposed_factors_are_not_copied) {
  tn_scope *scope = open_scope();
  tn_tensor *x = tools_matrix((double[]){1, 2, 3, 4, 5, 6}, 2, 3, false), *bias = VEC(1, 1);
  const double six[] = {1, 0, 2, 0, 3, 0};
#define LEAF_2x3() tools_matrix(six, 2, 3, true)
  tn_tensor *w = LEAF_2x3();
  check_taken_over(w, tns_linear(x, w, NULL), 2 * 21);
  w = LEAF_2x3();
  check_taken_over(w, tns_linear(x, w, bias), 2 * 21);
  w = LEAF_2x3();
  check_taken_over(w, tns_mm(tns_t(w), x), 21 * 3);
  w = LEAF_2x3();
  check_taken_over(w, tns_addmm(VEC(1, 1, 1), tns_t(w), x, tn_int(1), tn_int(1)), 21 * 3);
#undef LEAF_2x3
  close_scope(scope);
}

static tn_status keep_gradient(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  *(tn_tensor **)ctx = tn_tensor_retain(grad);
  return TN_OK;
}

TN_TEST(autograd, C5_a_transposed_gradient_that_somebody_holds_is_copied) {
  tn_scope *scope = open_scope();
  tn_tensor *x = tools_matrix((double[]){1, 2, 3, 4, 5, 6}, 2, 3, false), *held = NULL;
  tn_tensor *w = tools_matrix((double[]){1, 0, 2, 0, 3, 0}, 2, 3, true);
  TN_CHECK_OK(tn_register_hook(w, keep_gradient, &held, NULL, NULL));
  back(tns_linear(x, w, NULL));
  TN_CHECK(held && tn_tensor_data(tn_grad(w)) != tn_tensor_data(held));
  TN_CHECK_OK(tn_zero_(tn_grad(w)));
  VALUES(held, 5, 7, 9, 5, 7, 9);
  tn_tensor_release(held);
  close_scope(scope);
}

TN_TEST(autograd, C5_buffer_sums_never_write_what_a_user_holds) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(2.0), *a = tns_mul(x, x), *b = tns_mul(x, x), *seed = VEC(1.0);
  tn_tensor *roots[] = {a, b, a}, *seeds[] = {seed, seed, seed};
  TN_CHECK_OK(tn_backward_from(roots, seeds, 3, NULL, 0, NULL));
  VALUES(seed, 1);
  VALUES(tn_grad(x), 12);
  close_scope(scope);
}

TN_TEST(autograd, C6_strides_follow_the_parameter) {
  tn_scope *scope = open_scope();
  tn_tensor *plain = tools_matrix((double[]){1, 2, 3, 4, 5, 6}, 2, 3, false), *x;
  x = tns_detach(tns_transpose(plain, 0, 1));
  TN_CHECK_OK(tn_set_requires_grad(x, true));
  tn_tensor *y = tns_mul(x, tools_matrix((double[]){1, 1, 1, 1, 1, 1}, 3, 2, false));
  TN_CHECK_OK(tn_backward_run(y, tools_matrix((double[]){1, 2, 3, 4, 5, 6}, 3, 2, false)));
  TN_CHECK_INT(tn_tensor_strides(tn_grad(x))[0], 1);
  TN_CHECK_INT(tn_tensor_strides(tn_grad(x))[1], 3);
  VALUES(tn_grad(x), 1, 2, 3, 4, 5, 6);
  close_scope(scope);
}

TN_TEST(autograd, C7_no_gradient_is_no_zeros) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x), *y;
  const int64_t sizes[1] = {2};
  TN_CHECK_OK(tn_zeros(sizes, 1, TN_OPTIONS(.dtype = TN_FLOAT64), &y));
  TN_CHECK_OK(tn_set_requires_grad(y, true));
  tn_tensor *parts[2];
  size_t n;
  TN_CHECK_OK(tn_unbind(h, 0, parts, 2, &n));
  TN_CHECK_OK(tn_backward_run(parts[0], NULL)); /* one of two gradients is missing: counts as zero */
  VALUES(tn_grad(x), 2, 0);
  TN_CHECK_PTR_NULL(tn_grad(y));
  tn_tensor_release(parts[0]);
  tn_tensor_release(parts[1]);
  tn_tensor_release(y);
  close_scope(scope);
}

TN_TEST(autograd, C8_retain_grad) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x), *y = total(tns_mul(h, h));
  warnings = 0;
  tn_log_set(count_warning, NULL);
  TN_CHECK_PTR_NULL(tn_grad(h));
  tn_log_set(NULL, NULL);
  TN_CHECK_INT(warnings, 1);
  TN_CHECK_OK(tn_retain_grad(h));
  TN_CHECK_OK(tn_retain_grad(h));
  TN_CHECK_OK(tn_retain_grad(x));
  TN_CHECK_FAILS(tn_retain_grad(VEC(1.0)), TN_ERR_STATE, "require grad");
  TN_CHECK_OK(tn_backward_run(y, NULL));
  VALUES(tn_grad(h), 2, 8);
  VALUES(tn_grad(x), 4, 32);
  close_scope(scope);
}

TN_TEST(autograd, C9_set_grad_checks) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *g = VEC(7, 8);
  TN_CHECK_FAILS(tn_set_grad(x, VEC(1, 2, 3)), TN_ERR_INVALID_ARGUMENT, "shape");
  TN_CHECK_FAILS(tn_set_grad(x, tools_of_dtype((double[]){1, 2}, 2, TN_FLOAT32, false)), TN_ERR_DTYPE,
                 "float64");
  TN_CHECK_FAILS(tn_set_grad(x, x), TN_ERR_INVALID_ARGUMENT, "own gradient");
  TN_CHECK_OK(tn_set_grad(x, g));
  TN_CHECK(tn_grad(x) == g);
  back(tns_mul(x, VEC(1, 1)));
  VALUES(g, 8, 9);
  TN_CHECK_OK(tn_set_grad(x, NULL));
  TN_CHECK_PTR_NULL(tn_grad(x));
  close_scope(scope);
}

TN_TEST(autograd, C10_zero_elements) {
  tn_scope *scope = open_scope();
  tn_tensor *x = tools_matrix((double[]){0}, 0, 3, true);
  back(tns_mul(x, x));
  TN_CHECK_NOT_NULL(tn_grad(x));
  TN_CHECK_INT(tn_tensor_sizes(tn_grad(x))[0], 0);
  TN_CHECK_INT(tn_tensor_sizes(tn_grad(x))[1], 3);
  close_scope(scope);
}

TN_TEST(autograd, C11_gradient_has_the_inputs_dtype) {
  tn_scope *scope = open_scope();
  tn_tensor *x = tools_of_dtype((double[]){1, 2}, 2, TN_FLOAT32, true), *w = LEAF(3, 4);
  back(tns_mul(x, w));
  TN_CHECK_INT(tn_tensor_dtype(tn_grad(x)), TN_FLOAT32);
  TN_CHECK_INT(tn_tensor_dtype(tn_grad(w)), TN_FLOAT64);
  VALUES(tn_grad(x), 3, 4);
  back(tns_to_dtype(x, TN_FLOAT64, false, false, TN_MEMORY_FORMAT_NONE));
  TN_CHECK_INT(tn_tensor_dtype(tn_grad(x)), TN_FLOAT32);
  VALUES(tn_grad(x), 4, 5);
  close_scope(scope);
}

TN_TEST(autograd, C12_broadcast_inputs_are_summed_back) {
  tn_scope *scope = open_scope();
  tn_tensor *m = tools_matrix((double[]){1, 2, 3, 4, 5, 6}, 2, 3, true), *row = LEAF(1, 10, 100),
            *one = LEAF(2.0);
  tn_tensor *column = tools_matrix((double[]){1, 2}, 2, 1, true);
  back(tns_mul(tns_mul(tns_mul(m, row), one), column));
  VALUES(tn_grad(row), 2 * (1 + 2 * 4), 2 * (2 + 2 * 5), 2 * (3 + 2 * 6));
  VALUES(tn_grad(one), 321 + 2 * 654);
  VALUES(tn_grad(column), 2 * 321, 2 * 654);
  TN_CHECK_INT(tn_tensor_ndim(tn_grad(column)), 2);
  close_scope(scope);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Section D: hooks on tensors and leaves, their order, and retained gradients.
 */
#include "tools.h"

typedef struct times {
  double factor; /* 0: only count */
  int calls;
  int *freed;
} times;

static tn_status multiply(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  times *t = ctx;
  t->calls++;
  return t->factor != 0 ? tn_mul_scalar(grad, tn_float(t->factor), out_replacement) : TN_OK;
}

static tn_status add_one(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  return tn_add_scalar(grad, tn_int(1), ONE, out_replacement);
}

static void freed(void *ctx) { ++*((times *)ctx)->freed; }

TN_TEST(autograd, D1_hook_sees_and_replaces_the_full_gradient) {
  tn_scope *scope = open_scope();
  times look = {0}, twice = {.factor = 2};
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x);
  TN_CHECK_OK(tn_register_hook(h, multiply, &look, NULL, NULL));
  TN_CHECK_OK(tn_register_hook(h, multiply, &twice, NULL, NULL));
  back(tns_add(h, h, ONE));
  TN_CHECK_INT(look.calls, 1);
  VALUES(tn_grad(x), 8, 16);
  close_scope(scope);
}

TN_TEST(autograd, D2_order_and_removal) {
  tn_scope *scope = open_scope();
  times ten = {.factor = 10};
  uint64_t first, second;
  tn_tensor *x = LEAF(1.0);
  TN_CHECK_OK(tn_register_hook(x, multiply, &ten, NULL, &first));
  TN_CHECK_OK(tn_register_hook(x, add_one, NULL, NULL, &second));
  back(tns_mul(x, VEC(1.0)));
  VALUES(tn_grad(x), 11); /* (1 * 10) + 1 */
  TN_CHECK_OK(tn_remove_hook(x, first));
  TN_CHECK_FAILS(tn_remove_hook(x, first), TN_ERR_NOT_FOUND, "no hook");
  TN_CHECK_OK(tn_set_grad(x, NULL));
  back(tns_mul(x, VEC(1.0)));
  VALUES(tn_grad(x), 2);
  close_scope(scope);
}

typedef struct remover {
  tn_tensor *x;
  uint64_t id;
} remover;

static tn_status remove_other(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  remover *r = ctx;
  return tn_remove_hook(r->x, r->id);
}

TN_TEST(autograd, D2_removal_during_a_run) {
  tn_scope *scope = open_scope();
  int gone = 0;
  times never = {.freed = &gone};
  tn_tensor *x = LEAF(1.0);
  remover r = {.x = x};
  TN_CHECK_OK(tn_register_hook(x, remove_other, &r, NULL, NULL));
  TN_CHECK_OK(tn_register_hook(x, multiply, &never, freed, &r.id));
  back(tns_mul(x, VEC(1.0)));
  TN_CHECK_INT(never.calls, 0);
  TN_CHECK_INT(gone, 1);
  close_scope(scope);
}

static tn_status wrong_shape(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  const int64_t sizes[1] = {5};
  return tn_zeros(sizes, 1, TN_OPTIONS(.dtype = TN_FLOAT64), out_replacement);
}

TN_TEST(autograd, D3_refused_hooks) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2);
  TN_CHECK_FAILS(tn_register_hook(VEC(1.0), add_one, NULL, NULL, NULL), TN_ERR_STATE, "require grad");
  TN_CHECK_OK(tn_register_hook(x, wrong_shape, NULL, NULL, NULL));
  tn_tensor *y = total(x);
  TN_CHECK_FAILS(tn_backward_run(y, NULL), TN_ERR_INVALID_ARGUMENT, "hook");
  close_scope(scope);
}

static tn_status see_no_grad(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  return tn_grad(ctx) ? tn_fail(TN_ERR_INTERNAL, "accumulated before the hook") : TN_OK;
}

TN_TEST(autograd, D4_leaf_hook_before_accumulation) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2);
  TN_CHECK_OK(tn_register_hook(x, see_no_grad, x, NULL, NULL));
  back(tns_mul(x, x));
  VALUES(tn_grad(x), 2, 4);
  close_scope(scope);
}

static tn_status refuse(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  return tn_fail(TN_ERR_INTERRUPTED, "enough");
}

TN_TEST(autograd, D5_failure_surfaces_and_stops) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x), *y = total(h);
  TN_CHECK_OK(tn_register_hook(h, refuse, NULL, NULL, NULL));
  TN_CHECK_FAILS(tn_backward_run(y, NULL), TN_ERR_INTERRUPTED, "enough");
  TN_CHECK_PTR_NULL(tn_grad(x));
  close_scope(scope);
}

typedef struct seen {
  tn_tensor *inner;
  double retained;
} seen;

static tn_status read_retained(void *ctx, tn_tensor *leaf) {
  seen *s = ctx;
  return tn_tensor_item_double(tn_grad(s->inner), &s->retained);
}

TN_TEST(autograd, D7_hooks_before_the_retained_gradient) {
  tn_scope *scope = open_scope();
  times twice = {.factor = 2};
  tn_tensor *x = LEAF(3.0), *h = tns_mul(x, x);
  seen s = {.inner = h};
  TN_CHECK_OK(tn_retain_grad(h));
  TN_CHECK_OK(tn_register_hook(h, multiply, &twice, NULL, NULL)); /* registered later, still runs first */
  TN_CHECK_OK(tn_register_post_accumulate_hook(x, read_retained, &s, NULL, NULL));
  TN_CHECK_OK(tn_backward_run(h, NULL));
  TN_CHECK_DOUBLE(s.retained, 2, 0);
  close_scope(scope);
}

static tn_status clear(void *ctx, tn_tensor *leaf) {
  ++*(int *)ctx;
  return tn_set_grad(leaf, NULL);
}

TN_TEST(autograd, D8_post_accumulate_hooks) {
  tn_scope *scope = open_scope();
  int calls = 0;
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x);
  TN_CHECK_FAILS(tn_register_post_accumulate_hook(h, clear, &calls, NULL, NULL), TN_ERR_STATE, "leaf");
  TN_CHECK_OK(tn_register_post_accumulate_hook(x, clear, &calls, NULL, NULL));
  back(h);
  TN_CHECK_INT(calls, 1);
  TN_CHECK_PTR_NULL(tn_grad(x));
  close_scope(scope);
}

TN_TEST(autograd, D9_hook_of_an_input_whose_node_does_not_run) {
  tn_scope *scope = open_scope();
  times look = {0}, twice = {.factor = 2};
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, x), *y = total(tns_mul(h, h));
  TN_CHECK_OK(tn_register_hook(h, multiply, &twice, NULL, NULL));
  TN_CHECK_OK(tn_register_hook(x, multiply, &look, NULL, NULL));
  VALUES(grad_one(y, h, false), 4, 16);
  TN_CHECK_INT(twice.calls, 1);
  TN_CHECK_INT(look.calls, 0);
  close_scope(scope);
}

TN_TEST(autograd, D10_hooks_stay_with_their_value) {
  tn_scope *scope = open_scope();
  times old = {0}, late = {0};
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, VEC(1, 1));
  uint64_t id;
  TN_CHECK_OK(tn_register_hook(h, multiply, &old, NULL, &id));
  tns_mul_scalar_(h, tn_int(3));
  TN_CHECK_OK(tn_register_hook(h, multiply, &late, NULL, NULL));
  old.factor = 10;
  back(h);
  TN_CHECK_INT(old.calls, 1);
  TN_CHECK_INT(late.calls, 1);
  VALUES(tn_grad(x), 30, 30);
  TN_CHECK_OK(tn_remove_hook(h, id)); /* found, though h has another node now */
  close_scope(scope);
}

TN_TEST(autograd, D11_retain_grad_follows_the_tensor) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2), *h = tns_mul(x, VEC(1, 1));
  TN_CHECK_OK(tn_retain_grad(h));
  tns_mul_scalar_(h, tn_int(3));
  back(tns_mul(h, VEC(5, 7)));
  VALUES(tn_grad(h), 5, 7);
  VALUES(tn_grad(x), 15, 21);
  close_scope(scope);
}

TN_TEST(autograd, D14_hook_contexts_are_freed_with_the_graph) {
  tn_scope *scope = open_scope();
  int gone = 0;
  times on_inner = {.freed = &gone}, on_leaf = {.freed = &gone};
  tn_tensor *x = LEAF(1, 2), *y, *leaf;
  TN_CHECK_OK(tn_mul(x, x, &y));
  TN_CHECK_OK(tn_register_hook(y, multiply, &on_inner, freed, NULL));
  tn_tensor_release(y);
  TN_CHECK_INT(gone, 1);
  TN_CHECK_OK(tn_clone(VEC(1, 2), TN_MEMORY_FORMAT_NONE, &leaf));
  TN_CHECK_OK(tn_set_requires_grad(leaf, true));
  TN_CHECK_OK(tn_register_hook(leaf, multiply, &on_leaf, freed, NULL));
  tn_tensor_release(leaf);
  TN_CHECK_INT(gone, 2);
  close_scope(scope);
}

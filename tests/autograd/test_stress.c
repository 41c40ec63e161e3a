/* SPDX-License-Identifier: Apache-2.0
 *
 * Out of memory while recording and running: a status, nothing leaked, nothing changed, and the graph still
 * good.
 */
#include <tenon/kit/status.h>

#include "tn_stress.h"
#include "tools.h"

typedef struct world {
  tn_tensor *x, *w, *h, *b, *v;
  tn_tensor *out;
} world;

static tn_status record(void *ctx) {
  world *t = ctx;
  return tn_mul(t->x, t->w, &t->out);
}

static void after_record(void *ctx, tn_status status) {
  world *t = ctx;
  if (status != TN_OK) TN_CHECK_PTR_NULL(t->out);
  tn_tensor_release(t->out);
  t->out = NULL;
}

TN_TEST(autograd_stress, recording) {
  tn_scope *scope = open_scope();
  world t = {.x = LEAF(1, 2), .w = LEAF(3, 4)};
  tn_stress_run(record, after_record, &t);
  close_scope(scope);
}

/* A write into a view of an inner tensor, after which the tensor is put back. */
static tn_status write_view(void *ctx) {
  world *t = ctx;
  return tn_mul_(t->v, t->w);
}

static void after_write(void *ctx, tn_status status) {
  world *t = ctx;
  uint32_t version = 9;
  TN_CHECK_OK(tn_tensor_version(t->h, &version));
  if (status == TN_OK) {
    TN_CHECK_INT(version, 1);
    TN_CHECK_STR(tn_grad_fn_name(t->h, NULL), "CopySlices");
    return;
  }
  TN_CHECK_INT(version, 0);
  TN_CHECK_STR(tn_grad_fn_name(t->h, NULL), "MulBackward0");
  VALUES(t->h, 1, 4, 9);
}

TN_TEST(autograd_stress, writing_into_a_view) {
  tn_scope *scope = open_scope();
  tn_tensor *x = LEAF(1, 2, 3);
  world t = {.w = NUMBER(10), .h = tns_mul(x, x)};
  t.v = tns_select(t.h, 0, 1);
  tn_stress_run(write_view, after_write, &t);
  back(t.h);
  VALUES(tn_grad(x), 2, 40, 6);
  close_scope(scope);
}

/* One backward over everything that has a node of its own: broadcast, saved result, view write, fan-out. */
static tn_status run_backward(void *ctx) {
  world *t = ctx;
  return tn_backward_from(&t->h, NULL, 1, NULL, 0, &(tn_backward_options){.retain_graph = true});
}

static void after_backward(void *ctx, tn_status status) {
  world *t = ctx;
  if (status == TN_OK) VALUES(tn_grad(t->w), 3);
  TN_CHECK_OK(tn_set_grad(t->x, NULL));
  TN_CHECK_OK(tn_set_grad(t->w, NULL));
}

TN_TEST(autograd_stress, backward) {
  tn_scope *scope = open_scope();
  world t = {.x = LEAF(0, 0, 0), .w = LEAF(1.0)};
  tn_tensor *h = tns_mul(tns_exp(t.x), t.w);
  tns_mul_scalar_(tns_slice(h, 0, NULL, &(int64_t){1}, 1), ONE);
  t.h = total(h);
  tn_stress_run(run_backward, after_backward, &t);
  close_scope(scope);
}

static tn_status run_grad(void *ctx) {
  world *t = ctx;
  tn_tensor *inputs[] = {t->x, t->w}, *grads[2];
  tn_status status =
      tn_grad_of(&t->h, NULL, 1, inputs, 2, &(tn_backward_options){.create_graph = true}, grads);
  for (int i = 0; i < 2; ++i) tn_tensor_release(grads[i]);
  return status;
}

static void after_grad(void *ctx, tn_status status) {
  world *t = ctx;
  TN_CHECK_PTR_NULL(tn_grad(t->x));
}

TN_TEST(autograd_stress, grad_with_create_graph) {
  tn_scope *scope = open_scope();
  world t = {.x = LEAF(0, 1, 2), .w = LEAF(1.0)};
  t.h = total(tns_mul(tns_exp(t.x), tns_mul(t.w, t.x)));
  tn_stress_run(run_grad, after_grad, &t);
  close_scope(scope);
}

static tn_status ignore(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) { return TN_OK; }

static tn_status flags_and_hooks(void *ctx) {
  world *t = ctx;
  uint64_t id;
  TN_TRY(tn_set_requires_grad(t->out, true));
  TN_TRY(tn_register_hook(t->out, ignore, NULL, NULL, &id));
  TN_TRY(tn_remove_hook(t->out, id));
  return tn_set_grad(t->out, t->x);
}

static void after_flags(void *ctx, tn_status status) {
  world *t = ctx;
  tn_tensor_release(t->out);
  TN_CHECK_OK(tn_clone(t->x, TN_MEMORY_FORMAT_NONE, &t->out));
}

TN_TEST(autograd_stress, flags_and_hooks) {
  tn_scope *scope = open_scope();
  world t = {.x = VEC(1, 2)};
  TN_CHECK_OK(tn_clone(t.x, TN_MEMORY_FORMAT_NONE, &t.out));
  tn_stress_run(flags_and_hooks, after_flags, &t);
  tn_tensor_release(t.out);
  close_scope(scope);
}

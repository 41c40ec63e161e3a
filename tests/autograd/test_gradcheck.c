/* SPDX-License-Identifier: Apache-2.0
 *
 * Section L: the checker finds right gradients right and wrong ones wrong.
 */
#include "core/autograd/autograd_int.h"
#include "tools.h"

static tn_status product(void *ctx, tn_tensor *const *in, size_t n_in, tn_tensor **out, size_t n_out) {
  tn_tensor *e;
  TN_TRY(tn_exp(in[0], &e));
  tn_status status = tn_mul(e, in[1], &out[0]);
  tn_tensor_release(e);
  return status == TN_OK ? tn_tanh(in[1], &out[1]) : status;
}

TN_TEST(autograd, L1_right_gradients_pass) {
  tn_scope *scope = open_scope();
  tn_tensor *in[] = {LEAF(0.3, -0.2, 1.1), LEAF(0.5, 2, -1)};
  TN_CHECK_OK(tn_gradcheck(product, NULL, in, 2, 2, 0, 0, 0, false));
  VALUES(in[0], 0.3, -0.2, 1.1); /* put back */
  TN_CHECK_PTR_NULL(tn_grad(in[0]));
  close_scope(scope);
}

TN_TEST(autograd, L2_second_order) {
  tn_scope *scope = open_scope();
  tn_tensor *in[] = {LEAF(0.3, -0.2, 1.1), LEAF(0.5, 2, -1)};
  TN_CHECK_OK(tn_gradcheck(product, NULL, in, 2, 2, 0, 0, 0, true));
  close_scope(scope);
}

TN_TEST(autograd, L1_float32_is_refused) {
  tn_scope *scope = open_scope();
  tn_tensor *in[] = {tools_of_dtype((double[]){0.3, 1}, 2, TN_FLOAT32, true), LEAF(0.5, 2)};
  TN_CHECK_FAILS(tn_gradcheck(product, NULL, in, 2, 2, 0, 0, 0, false), TN_ERR_DTYPE, "float64");
  close_scope(scope);
}

static tn_status triple(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  return tn_mul_scalar(grad, tn_float(*(double *)ctx), out_replacement);
}

/* x^2 with a gradient that a hook falsifies by the factor in ctx. */
static tn_status falsified(void *ctx, tn_tensor *const *in, size_t n_in, tn_tensor **out, size_t n_out) {
  TN_TRY(tn_mul(in[0], in[0], &out[0]));
  return tni_requires_grad(out[0]) ? tn_register_hook(out[0], triple, ctx, NULL, NULL) : TN_OK;
}

TN_TEST(autograd, L4_wrong_formula_fails) {
  tn_scope *scope = open_scope();
  double right = 1, wrong = 1.01;
  tn_tensor *in[] = {LEAF(0.3, -0.2)};
  TN_CHECK_OK(tn_gradcheck(falsified, &right, in, 1, 1, 0, 0, 0, false));
  TN_CHECK_FAILS(tn_gradcheck(falsified, &wrong, in, 1, 1, 0, 0, 0, false), TN_ERR_DATA, "differences say");
  close_scope(scope);
}

/* The first derivative is right, the second is cut off. */
static tn_status cut(void *ctx, tn_tensor *grad, tn_tensor **out_replacement) {
  return tn_detach(grad, out_replacement);
}

static tn_status once(void *ctx, tn_tensor *const *in, size_t n_in, tn_tensor **out, size_t n_out) {
  tn_tensor *square;
  TN_TRY(tn_mul(in[0], in[0], &square));
  tn_status status = tni_requires_grad(square) ? tn_register_hook(square, cut, NULL, NULL, NULL) : TN_OK;
  if (status == TN_OK) status = tn_mul(square, square, &out[0]);
  tn_tensor_release(square);
  return status;
}

TN_TEST(autograd, L4_wrong_second_derivative_fails) {
  tn_scope *scope = open_scope();
  tn_tensor *in[] = {LEAF(0.3, -0.2)};
  TN_CHECK_OK(tn_gradcheck(once, NULL, in, 1, 1, 0, 0, 0, false));
  TN_CHECK_FAILS(tn_gradcheck(once, NULL, in, 1, 1, 0, 0, 0, true), TN_ERR_DATA, "second order");
  close_scope(scope);
}

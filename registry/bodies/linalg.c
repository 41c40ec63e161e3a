/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul, linear and outer over mm, addmm, bmm, mv and dot. matmul folds a stack on the left into
 * one tall matrix when the right side is one matrix; two stacks are broadcast and go to bmm.
 */
#include "registry/bodies/compose.h"

TN_BODY(outer) {
  tn_tensor *self = args[0].u.t, *vec = args[1].u.t, *t[2] = {NULL};
  if (tni_ndim(self) != 1 || tni_ndim(vec) != 1)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected two vectors, got shapes %s and %s",
                   tni_shape_text(self, TN_SHAPE_TEXT), tni_shape_text(vec, TN_SHAPE_TEXT));
  tn_status status;
  TNI_STEP(tn_unsqueeze(self, 1, &t[0]));
  TNI_STEP(tn_mul(t[0], vec, &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[1]));
done:
  TNI_RELEASE(t);
  return status;
}

/* [.., m, k] times [k, n] or [k]: the stack becomes rows of one matrix. */
static tn_status fold_left(tn_tensor *a, tn_tensor *b, tn_tensor **out_result) {
  tn_tensor *t[3] = {NULL};
  uint32_t ndim = tni_ndim(a);
  const tn_dim *sizes = tn_tensor_sizes(a);
  tn_dim shape[TN_MAX_RANK], rows = TN_DIM(1);
  for (uint32_t i = 0; i + 1 < ndim; i++) {
    shape[i] = sizes[i];
    rows = TN_DIM_MUL(rows, sizes[i]);
  }
  bool matrix = tni_ndim(b) == 2;
  if (matrix) shape[ndim - 1] = tn_tensor_sizes(b)[1];
  tn_status status;
  TNI_STEP(tn_reshape(a, (const int64_t[]){rows, sizes[ndim - 1]}, 2, &t[0]));
  TNI_STEP(matrix ? tn_mm(t[0], b, &t[1]) : tn_mv(t[0], b, &t[1]));
  TNI_STEP(tn_reshape(t[1], shape, matrix ? ndim : ndim - 1, &t[2]));
  *out_result = tni_take(&t[2]);
done:
  TNI_RELEASE(t);
  return status;
}

/* The dims before the last two, broadcast; *out_stack is their product. */
static tn_status broadcast_stacks(tn_tensor *a, tn_tensor *b, uint32_t *out_ndim, tn_dim *out_sizes,
                                  tn_dim *out_stack) {
  TN_TRY(tn_shape_broadcast(tni_ndim(a) - 2, tn_tensor_sizes(a), tni_ndim(b) - 2, tn_tensor_sizes(b),
                            out_ndim, out_sizes));
  return tn_shape_numel(*out_ndim, out_sizes, out_stack);
}

/* [stack, rows, cols] of a tensor whose stack is broadcast to sizes[0..ndim). */
static tn_status as_stack(tn_tensor *a, uint32_t ndim, tn_dim *sizes, tn_dim stack, tn_tensor **out_stacked) {
  tn_tensor *wide = NULL;
  tn_dim rows = tn_tensor_sizes(a)[tni_ndim(a) - 2], cols = tn_tensor_sizes(a)[tni_ndim(a) - 1];
  sizes[ndim] = rows;
  sizes[ndim + 1] = cols;
  tn_status status = tn_expand(a, sizes, ndim + 2, false, &wide);
  if (status == TN_OK) status = tn_reshape(wide, (const int64_t[]){stack, rows, cols}, 3, out_stacked);
  tn_tensor_release(wide);
  return status;
}

/* Both with at least 2 dims. */
static tn_status multiply_stacks(tn_tensor *a, tn_tensor *b, tn_tensor **out_result) {
  tn_tensor *t[4] = {NULL};
  uint32_t ndim;
  tn_dim sizes[TN_MAX_RANK], stack;
  TN_TRY(broadcast_stacks(a, b, &ndim, sizes, &stack));
  tn_status status;
  TNI_STEP(as_stack(a, ndim, sizes, stack, &t[0]));
  TNI_STEP(as_stack(b, ndim, sizes, stack, &t[1]));
  TNI_STEP(tn_bmm(t[0], t[1], &t[2]));
  sizes[ndim] = tn_tensor_sizes(t[2])[1];
  sizes[ndim + 1] = tn_tensor_sizes(t[2])[2];
  TNI_STEP(tn_reshape(t[2], sizes, ndim + 2, &t[3]));
  *out_result = tni_take(&t[3]);
done:
  TNI_RELEASE(t);
  return status;
}

/* A vector on one side becomes a matrix for the product and its dim goes again afterwards. */
static tn_status vector_times(tn_tensor *a, tn_tensor *b, tn_tensor **out_result) {
  tn_tensor *t[2] = {NULL};
  bool left = tni_ndim(a) == 1;
  tn_status status;
  TNI_STEP(tn_unsqueeze(left ? a : b, left ? 0 : 1, &t[0]));
  if (left)
    TNI_STEP(tni_ndim(b) == 2 ? tn_mm(t[0], b, &t[1]) : multiply_stacks(t[0], b, &t[1]));
  else
    TNI_STEP(multiply_stacks(a, t[0], &t[1]));
  TNI_STEP(tn_squeeze_dim(t[1], left ? -2 : -1, out_result));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status check_inner(tn_tensor *a, tn_tensor *b) {
  uint32_t na = tni_ndim(a), nb = tni_ndim(b);
  bool fits = na && nb;
  if (fits) fits = TN_DIM_EQ(tn_tensor_sizes(a)[na - 1], tn_tensor_sizes(b)[nb == 1 ? 0 : nb - 2]);
  if (fits) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected inner sizes that agree, got shapes %s and %s",
                 tni_shape_text(a, TN_SHAPE_TEXT), tni_shape_text(b, TN_SHAPE_TEXT));
}

static tn_status product(tn_tensor *a, tn_tensor *b, tn_tensor **out_result) {
  uint32_t na = tni_ndim(a), nb = tni_ndim(b);
  if (na == 2 && nb == 2) return tn_mm(a, b, out_result);
  if (na == 1 && nb == 1) return tn_dot(a, b, out_result);
  if (na == 2 && nb == 1) return tn_mv(a, b, out_result);
  if (na >= 3 && nb <= 2) return fold_left(a, b, out_result);
  if (na == 1) return vector_times(a, b, out_result);
  return multiply_stacks(a, b, out_result);
}

TN_BODY(matmul) {
  tn_tensor *result = NULL;
  TN_TRY(check_inner(args[0].u.t, args[1].u.t));
  return tni_result(product(args[0].u.t, args[1].u.t, &result), &result, out);
}

static tn_status check_linear(tn_tensor *input, tn_tensor *weight) {
  uint32_t ni = tni_ndim(input), nw = tni_ndim(weight);
  bool fits = ni >= 1 && (nw == 1 || nw == 2);
  if (fits) fits = TN_DIM_EQ(tn_tensor_sizes(input)[ni - 1], tn_tensor_sizes(weight)[nw - 1]);
  if (fits) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT,
                 "expected 'input' [.., in] and 'weight' [out, in], got shapes %s and %s",
                 tni_shape_text(input, TN_SHAPE_TEXT), tni_shape_text(weight, TN_SHAPE_TEXT));
}

/* With a bias the rows go through one addmm, whatever the rank of input is. */
static tn_status linear_bias(tn_tensor *input, tn_tensor *weight, tn_tensor *bias, tn_tensor **out_result) {
  tn_tensor *t[3] = {NULL};
  uint32_t ndim = tni_ndim(input);
  tn_dim shape[TN_MAX_RANK], rows = TN_DIM(1);
  for (uint32_t i = 0; i + 1 < ndim; i++) {
    shape[i] = tn_tensor_sizes(input)[i];
    rows = TN_DIM_MUL(rows, shape[i]);
  }
  tn_dim features = tn_tensor_sizes(input)[ndim - 1];
  shape[ndim - 1] = tn_tensor_sizes(weight)[0];
  tn_status status;
  TNI_STEP(tn_t(weight, &t[0]));
  if (ndim == 2) {
    TNI_STEP(tn_addmm(bias, input, t[0], tn_int(1), tn_int(1), out_result));
  } else {
    TNI_STEP(tn_reshape(input, (const int64_t[]){rows, features}, 2, &t[1]));
    TNI_STEP(tn_addmm(bias, t[1], t[0], tn_int(1), tn_int(1), &t[2]));
    TNI_STEP(tn_reshape(t[2], shape, ndim, out_result));
  }
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(linear) {
  tn_tensor *input = args[0].u.t, *weight = args[1].u.t, *bias = tni_tensor_or_null(&args[2]);
  tn_tensor *t[3] = {NULL};
  TN_TRY(check_linear(input, weight));
  tn_status status;
  if (bias && tni_ndim(weight) == 2 && tni_ndim(bias) <= 1) {
    TNI_STEP(linear_bias(input, weight, bias, &t[2]));
  } else {
    TNI_STEP(tn_t(weight, &t[0]));
    TNI_STEP(product(input, t[0], bias ? &t[1] : &t[2]));
    if (bias) TNI_STEP(tn_add(t[1], bias, tn_int(1), &t[2]));
  }
  out[0] = tn_value_tensor(tni_take(&t[2]));
done:
  TNI_RELEASE(t);
  return status;
}

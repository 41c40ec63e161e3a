/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax with a dtype, layer norm and its gradient, and the second derivative of embedding. Losses are in loss.c.
 */
#include "registry/bodies/compose.h"

/* ------------------------------------------------------------------ softmax */

static tn_status softmax(const tn_value *args, bool logarithm, tn_value *out) {
  tn_tensor *self = args[0].u.t, *t[2] = {NULL};
  tn_status status;
  TNI_STEP(tn_to_dtype(self, tni_has(&args[2]) ? (tn_dtype)args[2].u.i : tn_tensor_dtype(self), false, false, 0,
                       &t[0]));
  TNI_STEP(logarithm ? tn__log_softmax(t[0], args[1].u.i, false, &t[1])
                     : tn__softmax(t[0], args[1].u.i, false, &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[1]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(softmax) { return softmax(args, false, out); }
TN_BODY(log_softmax) { return softmax(args, true, out); }

/* ------------------------------------------------------------------ embedding */

TN_BODY(embedding_dense_double_backward) {
  tn_tensor *grad = args[0].u.t, *indices = args[1].u.t, *t[6] = {NULL};
  if (args[3].u.i)
    return tn_fail(TN_ERR_UNSUPPORTED, "the second derivative of embedding needs scale_grad_by_freq false");
  uint32_t ndim = tni_ndim(indices);
  tn_dim shape[TN_MAX_RANK];
  for (uint32_t i = 0; i < ndim; i++) shape[i] = tn_tensor_sizes(indices)[i];
  shape[ndim] = tn_tensor_sizes(grad)[1];
  tn_status status;
  TNI_STEP(tn_reshape(indices, (const int64_t[]){-1}, 1, &t[0]));
  TNI_STEP(tn_index_select(grad, 0, t[0], &t[1]));
  TNI_STEP(tn_reshape(t[1], shape, ndim + 1, &t[2]));
  if (args[2].u.i >= 0) {
    TNI_STEP(tn_eq_scalar(indices, args[2], &t[3]));
    TNI_STEP(tn_unsqueeze(t[3], -1, &t[4]));
    TNI_STEP(tn_masked_fill(t[2], t[4], tn_int(0), &t[5]));
  } else {
    t[5] = tni_take(&t[2]);
  }
  out[0] = tn_value_tensor(tni_take(&t[5]));
done:
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ layer norm */

TN_BODY(layer_norm) {
  tn_tensor *t[3] = {NULL};
  tn_status status;
  TNI_STEP(tn_native_layer_norm(args[0].u.t, args[1].u.ints, args[1].count, tni_tensor_or_null(&args[2]),
                                tni_tensor_or_null(&args[3]), args[4].u.f, &t[0], &t[1], &t[2]));
  out[0] = tn_value_tensor(tni_take(&t[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* The last n dims of a tensor with ndim dims, as a list. */
static void last_dims(uint32_t ndim, uint32_t n, int64_t *out_dims) {
  for (uint32_t i = 0; i < n; i++) out_dims[i] = ndim - n + i;
}

/* Half types are normalized in float32. */
static tn_dtype wide_dtype(const tn_tensor *tensor) {
  return tn_tensor_dtype(tensor) == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32;
}

static tn_status check_tail(const tn_tensor *input, const tn_value *shape) {
  uint32_t ndim = tni_ndim(input), n = shape->count;
  if (n && n <= ndim && tn_shape_equal(n, shape->u.ints, n, tn_tensor_sizes(input) + ndim - n)) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected the last sizes of shape %s as normalized_shape, got %s",
                 tni_shape_text(input, TN_SHAPE_TEXT), tn_shape_format(n, shape->u.ints, TN_SHAPE_TEXT));
}

TN_BODY(native_layer_norm) {
  enum { WIDE, MEAN, CENTRED, SQUARE, VAR, SHIFTED, RSTD, NORMAL, SCALED, MOVED, RESULT, N };
  tn_tensor *input = args[0].u.t, *weight = tni_tensor_or_null(&args[2]), *bias = tni_tensor_or_null(&args[3]);
  tn_tensor *t[N] = {NULL};
  int64_t dims[TN_MAX_RANK];
  uint32_t n = args[1].count;
  TN_TRY(check_tail(input, &args[1]));
  last_dims(tni_ndim(input), n, dims);
  tn_status status;
  TNI_STEP(tn_to_dtype(input, wide_dtype(input), false, false, 0, &t[WIDE]));
  TNI_STEP(tn_mean_dim(t[WIDE], dims, n, true, TN_DTYPE_NONE, &t[MEAN]));
  TNI_STEP(tn_sub(t[WIDE], t[MEAN], tn_int(1), &t[CENTRED]));
  TNI_STEP(tn_square(t[CENTRED], &t[SQUARE]));
  TNI_STEP(tn_mean_dim(t[SQUARE], dims, n, true, TN_DTYPE_NONE, &t[VAR]));
  TNI_STEP(tn_add_scalar(t[VAR], args[4], tn_int(1), &t[SHIFTED]));
  TNI_STEP(tn_rsqrt(t[SHIFTED], &t[RSTD]));
  TNI_STEP(tn_mul(t[CENTRED], t[RSTD], &t[NORMAL]));
  t[SCALED] = tn_tensor_retain(t[NORMAL]);
  if (weight) {
    tn_tensor_release(tni_take(&t[SCALED]));
    TNI_STEP(tn_mul(t[NORMAL], weight, &t[SCALED]));
  }
  t[MOVED] = tn_tensor_retain(t[SCALED]);
  if (bias) {
    tn_tensor_release(tni_take(&t[MOVED]));
    TNI_STEP(tn_add(t[SCALED], bias, tn_int(1), &t[MOVED]));
  }
  TNI_STEP(tn_to_dtype(t[MOVED], tn_tensor_dtype(input), false, false, 0, &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
  out[1] = tn_value_tensor(tni_take(&t[MEAN]));
  out[2] = tn_value_tensor(tni_take(&t[RSTD]));
done:
  TNI_RELEASE(t);
  return status;
}

/* Note [Layer norm twice]
 * mean and rstd come in without history, but for a second derivative they are functions of input. If one is
 * being recorded, they are computed again; eps is not known here, so it is recovered from rstd as a constant:
 * 1 / rstd^2 - var. Values stay those that came in, up to rounding. */
static tn_status again(tn_tensor *wide, const int64_t *dims, uint32_t n, tn_tensor *rstd, tn_tensor **out_mean,
                       tn_tensor **out_rstd) {
  enum { CENTRED, SQUARE, VAR, INVERSE, CONSTANT, EPS, SHIFTED, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_mean_dim(wide, dims, n, true, TN_DTYPE_NONE, out_mean));
  TNI_STEP(tn_sub(wide, *out_mean, tn_int(1), &t[CENTRED]));
  TNI_STEP(tn_square(t[CENTRED], &t[SQUARE]));
  TNI_STEP(tn_mean_dim(t[SQUARE], dims, n, true, TN_DTYPE_NONE, &t[VAR]));
  TNI_STEP(tn_pow_tensor_scalar(rstd, tn_int(-2), &t[INVERSE]));
  TNI_STEP(tn_detach(t[VAR], &t[CONSTANT]));
  TNI_STEP(tn_sub(t[INVERSE], t[CONSTANT], tn_int(1), &t[EPS]));
  TNI_STEP(tn_add(t[VAR], t[EPS], tn_int(1), &t[SHIFTED]));
  TNI_STEP(tn_rsqrt(t[SHIFTED], out_rstd));
done:
  TNI_RELEASE(t);
  return status;
}

/* rstd * (g - mean(g) - normal * mean(g * normal)) over the normalized dims. */
static tn_status input_grad(tn_tensor *g, tn_tensor *normal, tn_tensor *rstd, const int64_t *dims, uint32_t n,
                            tn_tensor **out_grad) {
  enum { G_MEAN, PRODUCT, P_MEAN, PART, LESS, REST, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_mean_dim(g, dims, n, true, TN_DTYPE_NONE, &t[G_MEAN]));
  TNI_STEP(tn_mul(g, normal, &t[PRODUCT]));
  TNI_STEP(tn_mean_dim(t[PRODUCT], dims, n, true, TN_DTYPE_NONE, &t[P_MEAN]));
  TNI_STEP(tn_mul(normal, t[P_MEAN], &t[PART]));
  TNI_STEP(tn_sub(g, t[G_MEAN], tn_int(1), &t[LESS]));
  TNI_STEP(tn_sub(t[LESS], t[PART], tn_int(1), &t[REST]));
  TNI_STEP(tn_mul(t[REST], rstd, out_grad));
done:
  TNI_RELEASE(t);
  return status;
}

/* Sum over the dims in front of the normalized ones, in the result's dtype. */
static tn_status sum_outer(tn_tensor *tensor, uint32_t n, tn_dtype dtype, tn_tensor **out_sum) {
  int64_t dims[TN_MAX_RANK];
  uint32_t outer = tni_ndim(tensor) - n;
  for (uint32_t i = 0; i < outer; i++) dims[i] = i;
  tn_tensor *sum = NULL;
  tn_status status = outer ? tn_sum_dim(tensor, dims, outer, false, TN_DTYPE_NONE, &sum) : TN_OK;
  if (status == TN_OK) status = tn_to_dtype(outer ? sum : tensor, dtype, false, false, 0, out_sum);
  tn_tensor_release(sum);
  return status;
}

TN_BODY(native_layer_norm_backward) {
  enum { WIDE, GRAD, MEAN, RSTD, CENTRED, NORMAL, SCALED, INPUT, PRODUCT, R0, R1, R2, N };
  tn_tensor *grad = args[0].u.t, *input = args[1].u.t, *weight = tni_tensor_or_null(&args[5]);
  tn_tensor *t[N] = {NULL};
  const uint8_t *wanted = args[7].u.bools;
  int64_t dims[TN_MAX_RANK];
  uint32_t n = args[2].count;
  tn_dtype dtype = tn_tensor_dtype(input);
  TN_TRY(check_tail(input, &args[2]));
  last_dims(tni_ndim(input), n, dims);
  tn_status status;
  TNI_STEP(tn_to_dtype(input, wide_dtype(input), false, false, 0, &t[WIDE]));
  TNI_STEP(tn_to_dtype(grad, wide_dtype(input), false, false, 0, &t[GRAD]));
  if (tn_grad_mode() && tn_requires_grad(input)) { /* See Note [Layer norm twice] */
    TNI_STEP(again(t[WIDE], dims, n, args[4].u.t, &t[MEAN], &t[RSTD]));
  } else {
    t[MEAN] = tn_tensor_retain(args[3].u.t);
    t[RSTD] = tn_tensor_retain(args[4].u.t);
  }
  TNI_STEP(tn_sub(t[WIDE], t[MEAN], tn_int(1), &t[CENTRED]));
  TNI_STEP(tn_mul(t[CENTRED], t[RSTD], &t[NORMAL]));
  if (wanted[0]) {
    if (weight) TNI_STEP(tn_mul(t[GRAD], weight, &t[SCALED]));
    TNI_STEP(input_grad(weight ? t[SCALED] : t[GRAD], t[NORMAL], t[RSTD], dims, n, &t[INPUT]));
    TNI_STEP(tn_to_dtype(t[INPUT], dtype, false, false, 0, &t[R0]));
  }
  if (wanted[1]) {
    TNI_STEP(tn_mul(t[GRAD], t[NORMAL], &t[PRODUCT]));
    TNI_STEP(sum_outer(t[PRODUCT], n, dtype, &t[R1]));
  }
  if (wanted[2]) TNI_STEP(sum_outer(t[GRAD], n, dtype, &t[R2]));
  for (int i = 0; i < 3; i++) out[i] = tn_value_tensor(tni_take(&t[R0 + i]));
done:
  TNI_RELEASE(t);
  return status;
}

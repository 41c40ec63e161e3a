/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax with a dtype, layer norm and its gradient, and the second derivative of embedding. Losses
 * are in loss.c.
 */
#include "registry/bodies/compose.h"

/* ------------------------------------------------------------------ softmax */

static tn_status softmax(const tn_value *args, bool logarithm, tn_value *out) {
  tn_tensor *self = args[0].u.t, *t[2] = {NULL};
  tn_status status;
  TNI_STEP(tn_to_dtype(self, tni_has(&args[2]) ? (tn_dtype)args[2].u.i : tn_tensor_dtype(self), false, false,
                       0, &t[0]));
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

/* Each row divided by how often its index occurs. */
static tn_status share_rows(tn_tensor *rows, tn_tensor *index, tn_dim n_weights, tn_tensor **out_shares) {
  enum { ZEROS, ONES, COUNTS, PICKED, COLUMN, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_new_zeros(rows, &n_weights, 1, NULL, &t[ZEROS]));
  TNI_STEP(tn_new_full(rows, tn_tensor_sizes(index), 1, tn_int(1), NULL, &t[ONES]));
  TNI_STEP(tn_index_add(t[ZEROS], 0, index, t[ONES], tn_int(1), &t[COUNTS]));
  TNI_STEP(tn_index_select(t[COUNTS], 0, index, &t[PICKED]));
  TNI_STEP(tn_unsqueeze(t[PICKED], 1, &t[COLUMN]));
  TNI_STEP(tn_div(rows, t[COLUMN], out_shares));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(embedding_dense_double_backward) {
  enum { INDEX, ROWS, SHARES, SHAPED, PADDING, MASK, RESULT, N };
  tn_tensor *grad = args[0].u.t, *indices = args[1].u.t, *t[N] = {NULL};
  uint32_t ndim = tni_ndim(indices);
  tn_dim shape[TN_MAX_RANK];
  if (tni_ndim(grad) != 2 || ndim >= TN_MAX_RANK)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected 'grad' with 2 dims, got shape %s",
                   tni_shape_text(grad, TN_SHAPE_TEXT));
  for (uint32_t i = 0; i < ndim; i++) shape[i] = tn_tensor_sizes(indices)[i];
  shape[ndim] = tn_tensor_sizes(grad)[1];
  tn_status status;
  TNI_STEP(tn_reshape(indices, (const int64_t[]){-1}, 1, &t[INDEX]));
  TNI_STEP(tn_index_select(grad, 0, t[INDEX], &t[ROWS]));
  if (args[3].u.i)
    TNI_STEP(share_rows(t[ROWS], t[INDEX], tn_tensor_sizes(grad)[0], &t[SHARES]));
  else
    t[SHARES] = tni_take(&t[ROWS]);
  TNI_STEP(tn_reshape(t[SHARES], shape, ndim + 1, &t[SHAPED]));
  if (args[2].u.i >= 0) {
    TNI_STEP(tn_eq_scalar(indices, args[2], &t[PADDING]));
    TNI_STEP(tn_unsqueeze(t[PADDING], -1, &t[MASK]));
    TNI_STEP(tn_masked_fill(t[SHAPED], t[MASK], tn_int(0), &t[RESULT]));
  } else {
    t[RESULT] = tni_take(&t[SHAPED]);
  }
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
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

static tn_status check_shape(const char *name, const tn_tensor *tensor, uint32_t ndim, const tn_dim *sizes) {
  if (!tensor || tn_shape_equal(tni_ndim(tensor), tn_tensor_sizes(tensor), ndim, sizes)) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected shape %s for '%s', got %s",
                 tn_shape_format(ndim, sizes, TN_SHAPE_TEXT), name, tni_shape_text(tensor, TN_SHAPE_TEXT));
}

/* What the meta rules check, for backends without a kernel: there the body runs alone. */
static tn_status check_norm(const tn_tensor *input, const tn_value *shape, const tn_tensor *weight,
                            const tn_tensor *bias) {
  uint32_t ndim = tni_ndim(input), n = shape->count;
  bool fits = n && n <= ndim;
  if (fits) fits = tn_shape_equal(n, shape->u.ints, n, tn_tensor_sizes(input) + ndim - n);
  if (!fits)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected the last sizes of shape %s as normalized_shape, got %s",
                   tni_shape_text(input, TN_SHAPE_TEXT), tn_shape_format(n, shape->u.ints, TN_SHAPE_TEXT));
  TN_TRY(check_shape("weight", weight, n, shape->u.ints));
  return check_shape("bias", bias, n, shape->u.ints);
}

static tn_status check_norm_backward(const tn_value *args) {
  tn_tensor *input = args[1].u.t;
  uint32_t ndim = tni_ndim(input), n = args[2].count;
  TN_TRY(check_norm(input, &args[2], tni_tensor_or_null(&args[5]), tni_tensor_or_null(&args[6])));
  TN_TRY(check_shape("grad_out", args[0].u.t, ndim, tn_tensor_sizes(input)));
  tn_dim sizes[TN_MAX_RANK];
  for (uint32_t i = 0; i < ndim; i++) sizes[i] = i < ndim - n ? tn_tensor_sizes(input)[i] : TN_DIM(1);
  TN_TRY(check_shape("mean", args[3].u.t, ndim, sizes));
  TN_TRY(check_shape("rstd", args[4].u.t, ndim, sizes));
  if (args[7].count == 3) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected 3 entries in output_mask, got %u", args[7].count);
}

TN_BODY(native_layer_norm) {
  enum { WIDE, MEAN, CENTRED, SQUARE, VAR, SHIFTED, RSTD, NORMAL, SCALED, MOVED, RESULT, N };
  tn_tensor *input = args[0].u.t, *weight = tni_tensor_or_null(&args[2]),
            *bias = tni_tensor_or_null(&args[3]);
  tn_tensor *t[N] = {NULL};
  int64_t dims[TN_MAX_RANK];
  uint32_t n = args[1].count;
  TN_TRY(check_norm(input, &args[1], weight, bias));
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
  enum { WIDE, GRAD, CENTRED, NORMAL, SCALED, INPUT, PRODUCT, R0, R1, R2, N };
  tn_tensor *grad = args[0].u.t, *input = args[1].u.t, *weight = tni_tensor_or_null(&args[5]);
  tn_tensor *t[N] = {NULL};
  const uint8_t *wanted = args[7].u.bools;
  int64_t dims[TN_MAX_RANK];
  uint32_t n = args[2].count;
  tn_dtype dtype = tn_tensor_dtype(input);
  TN_TRY(check_norm_backward(args));
  last_dims(tni_ndim(input), n, dims);
  tn_status status;
  TNI_STEP(tn_to_dtype(input, wide_dtype(input), false, false, 0, &t[WIDE]));
  TNI_STEP(tn_to_dtype(grad, wide_dtype(input), false, false, 0, &t[GRAD]));
  TNI_STEP(tn_sub(t[WIDE], args[3].u.t, tn_int(1), &t[CENTRED]));
  TNI_STEP(tn_mul(t[CENTRED], args[4].u.t, &t[NORMAL]));
  if (wanted[0]) {
    if (weight) TNI_STEP(tn_mul(t[GRAD], weight, &t[SCALED]));
    TNI_STEP(input_grad(weight ? t[SCALED] : t[GRAD], t[NORMAL], args[4].u.t, dims, n, &t[INPUT]));
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

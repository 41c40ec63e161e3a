/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch, group and rms norm, and their gradients, out of other operators, for backends without kernels. Half types are normalized in float32 and rounded once.
 *
 * Note [Running statistics]
 * batch_norm is the one body that writes into its arguments: running_mean and running_var move towards the
 * batch's statistics by momentum, through in-place operators and without history, after the result is there.
 */
#include <float.h>
#include <tenon/kit/dtype.h>

#include "registry/bodies/compose.h"

static tn_dtype wide_dtype(const tn_tensor *t) {
  return tn_tensor_dtype(t) == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32;
}

static tn_status check_float(const tn_tensor *input) {
  if (tn_kit_dtype_is_float(tn_tensor_dtype(input))) return TN_OK;
  return tn_fail(TN_ERR_DTYPE, "expected a floating dtype for 'input', got %s",
                 tn_kit_dtype_name(tn_tensor_dtype(input)));
}

static tn_status check_channels(const char *name, const tn_tensor *t, tn_dim channels) {
  if (!t || tn_shape_equal(tni_ndim(t), tn_tensor_sizes(t), 1, &channels)) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected shape %s for '%s', got %s",
                 tn_shape_format(1, &channels, TN_SHAPE_TEXT), name, tni_shape_text(t, TN_SHAPE_TEXT));
}

/* A vector of channels as [C, 1, ...], to broadcast over [N, C, ...]. */
static tn_status as_channels(tn_tensor *vector, uint32_t ndim, tn_tensor **out_view) {
  int64_t shape[TN_MAX_RANK] = {-1};
  for (uint32_t i = 1; i + 1 < ndim; i++) shape[i] = 1;
  return tn_reshape(vector, shape, ndim - 1, out_view);
}

/* normal * weight + bias in dtype; weight and bias may be NULL. channels: they are vectors of dim 1. */
static tn_status scale_and_move(tn_tensor *normal, tn_tensor *weight, tn_tensor *bias, bool channels,
                                tn_dtype dtype, tn_tensor **out_result) {
  enum { W, B, SCALED, MOVED, N };
  tn_tensor *t[N] = {NULL}, *last = normal;
  uint32_t ndim = tni_ndim(normal);
  tn_status status;
  if (weight) {
    if (channels) TNI_STEP(as_channels(weight, ndim, &t[W]));
    TNI_STEP(tn_mul(last, channels ? t[W] : weight, &t[SCALED]));
    last = t[SCALED];
  }
  if (bias) {
    if (channels) TNI_STEP(as_channels(bias, ndim, &t[B]));
    TNI_STEP(tn_add(last, channels ? t[B] : bias, tn_int(1), &t[MOVED]));
    last = t[MOVED];
  }
  TNI_STEP(tn_to_dtype(last, dtype, false, false, 0, out_result));
done:
  TNI_RELEASE(t);
  return status;
}

/* 1 / sqrt(x + eps) */
static tn_status inverse_root(tn_tensor *x, double eps, tn_tensor **out_root) {
  tn_tensor *shifted = NULL;
  tn_status status = tn_add_scalar(x, tn_float(eps), tn_int(1), &shifted);
  if (status == TN_OK) status = tn_rsqrt(shifted, out_root);
  tn_tensor_release(shifted);
  return status;
}

/* ------------------------------------------------------------------ batch norm */

/* Mean and variance of each channel, as vectors. */
static tn_status batch_statistics(tn_tensor *wide, tn_tensor **out_mean, tn_tensor **out_var) {
  tn_tensor *t[3] = {NULL};
  int64_t dims[TN_MAX_RANK] = {0};
  uint32_t ndim = tni_ndim(wide);
  for (uint32_t i = 2; i < ndim; i++) dims[i - 1] = i;
  tn_status status;
  TNI_STEP(tn_mean_dim(wide, dims, ndim - 1, false, TN_DTYPE_NONE, out_mean));
  TNI_STEP(as_channels(*out_mean, ndim, &t[0]));
  TNI_STEP(tn_sub(wide, t[0], tn_int(1), &t[1]));
  TNI_STEP(tn_square(t[1], &t[2]));
  TNI_STEP(tn_mean_dim(t[2], dims, ndim - 1, false, TN_DTYPE_NONE, out_var));
done:
  TNI_RELEASE(t);
  return status;
}

/* running += momentum * (factor * statistic - running) */
static tn_status move_running(tn_tensor *running, tn_tensor *statistic, double momentum, double factor) {
  tn_tensor *plain = NULL;
  if (!running) return TN_OK;
  tn_status status;
  TNI_STEP(tn_detach(statistic, &plain));
  TNI_STEP(tn_mul_scalar_(running, tn_float(1 - momentum)));
  TNI_STEP(tn_add_(running, plain, tn_float(momentum * factor)));
done:
  tn_tensor_release(plain);
  return status;
}

/* args: input weight bias running_mean running_var training momentum eps */
static tn_status check_batch_norm(const tn_value *args) {
  tn_tensor *input = args[0].u.t;
  TN_TRY(check_float(input));
  if (tni_ndim(input) < 2)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected 'input' with at least 2 dims, got shape %s",
                   tni_shape_text(input, TN_SHAPE_TEXT));
  tn_dim channels = tn_tensor_sizes(input)[1];
  TN_TRY(check_channels("weight", tni_tensor_or_null(&args[1]), channels));
  TN_TRY(check_channels("bias", tni_tensor_or_null(&args[2]), channels));
  TN_TRY(check_channels("running_mean", tni_tensor_or_null(&args[3]), channels));
  TN_TRY(check_channels("running_var", tni_tensor_or_null(&args[4]), channels));
  if (tni_has(&args[3]) != tni_has(&args[4]) || (!args[5].u.i && !tni_has(&args[3])))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected running_mean and running_var%s",
                   args[5].u.i ? " both or neither" : " outside training");
  tn_dim n = tni_count_along(input, ~(uint64_t)2);
  if (args[5].u.i && TN_DIM_LT(n, 2))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected more than 1 value a channel in training, got shape %s",
                   tni_shape_text(input, TN_SHAPE_TEXT));
  return TN_OK;
}

/* args: input weight bias mean var eps */
TN_BODY(batch_norm_forward) {
  enum { WIDE, MEAN, VAR, RSTD, M, R, CENTRED, NORMAL, RESULT, N };
  tn_tensor *input = args[0].u.t, *t[N] = {NULL};
  uint32_t ndim = tni_ndim(input);
  tn_status status;
  TNI_STEP(tn_to_dtype(input, wide_dtype(input), false, false, 0, &t[WIDE]));
  if (!tni_has(&args[3])) {
    TNI_STEP(batch_statistics(t[WIDE], &t[MEAN], &t[VAR]));
  } else {
    TNI_STEP(tn_to_dtype(args[3].u.t, wide_dtype(input), false, true, 0, &t[MEAN]));
    TNI_STEP(tn_to_dtype(args[4].u.t, wide_dtype(input), false, true, 0, &t[VAR]));
  }
  TNI_STEP(inverse_root(t[VAR], args[5].u.f, &t[RSTD]));
  TNI_STEP(as_channels(t[MEAN], ndim, &t[M]));
  TNI_STEP(as_channels(t[RSTD], ndim, &t[R]));
  TNI_STEP(tn_sub(t[WIDE], t[M], tn_int(1), &t[CENTRED]));
  TNI_STEP(tn_mul(t[CENTRED], t[R], &t[NORMAL]));
  TNI_STEP(scale_and_move(t[NORMAL], tni_tensor_or_null(&args[1]), tni_tensor_or_null(&args[2]), true,
                          tn_tensor_dtype(input), &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
  out[1] = tn_value_tensor(tni_take(&t[MEAN]));
  out[2] = tn_value_tensor(tni_take(&t[RSTD]));
  out[3] = tn_value_tensor(tni_take(&t[VAR]));
done:
  TNI_RELEASE(t);
  return status;
}

/* _batch_norm_forward takes statistics as constants: where a gradient flows into given ones, it is that of the parts.
 * args: those of native_batch_norm */
static tn_status normalize_batch(tn_call *call, const tn_value *args, tn_tensor **t) {
  bool training = args[5].u.i;
  tn_tensor *mean = training ? NULL : args[3].u.t, *var = training ? NULL : args[4].u.t;
  bool flows = mean && tn_grad_mode() && (tn_requires_grad(mean) || tn_requires_grad(var));
  if (!flows)
    return tn__batch_norm_forward(args[0].u.t, tni_tensor_or_null(&args[1]), tni_tensor_or_null(&args[2]),
                                  mean, var, args[7].u.f, &t[0], &t[1], &t[2], &t[3]);
  const tn_value parts[] = {args[0], args[1], args[2], args[3], args[4], args[7]};
  tn_value out[4] = {0};
  TN_TRY(tn_body_batch_norm_forward(call, parts, out));
  for (int i = 0; i < 4; i++) t[i] = out[i].u.t;
  return TN_OK;
}

TN_BODY(native_batch_norm) {
  enum { RESULT, MEAN, RSTD, VAR, EMPTY, N }; /* the first four as normalize_batch makes them */
  tn_tensor *input = args[0].u.t, *t[N] = {NULL};
  bool training = args[5].u.i;
  TN_TRY(check_batch_norm(args));
  tn_status status;
  TNI_STEP(normalize_batch(call, args, t));
  if (training) { /* See Note [Running statistics] */
    double n = (double)TN_DIM_INT(tni_count_along(input, ~(uint64_t)2));
    TNI_STEP(move_running(tni_tensor_or_null(&args[3]), t[MEAN], args[6].u.f, 1));
    TNI_STEP(move_running(tni_tensor_or_null(&args[4]), t[VAR], args[6].u.f, n / (n - 1)));
  } else {
    TNI_STEP(tn_new_zeros(t[MEAN], (const tn_dim[]){TN_DIM(0)}, 1, NULL, &t[EMPTY]));
  }
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
  out[1] = tn_value_tensor(training ? tni_take(&t[MEAN]) : tn_tensor_retain(t[EMPTY]));
  out[2] = tn_value_tensor(tni_take(&t[training ? RSTD : EMPTY]));
done:
  TNI_RELEASE(t);
  return status;
}

/* The sum of each channel, as a vector in dtype. */
static tn_status sum_channels(tn_tensor *wide, tn_dtype dtype, tn_tensor **out_sum) {
  int64_t dims[TN_MAX_RANK] = {0};
  uint32_t ndim = tni_ndim(wide);
  tn_tensor *sum = NULL;
  for (uint32_t i = 2; i < ndim; i++) dims[i - 1] = i;
  tn_status status = tn_sum_dim(wide, dims, ndim - 1, false, TN_DTYPE_NONE, &sum);
  if (status == TN_OK) status = tn_to_dtype(sum, dtype, false, false, 0, out_sum);
  tn_tensor_release(sum);
  return status;
}

/* rstd * (v - mean of v - normal * mean of v * normal); the means over dims. */
static tn_status through_statistics(tn_tensor *v, tn_tensor *normal, tn_tensor *rstd, const int64_t *dims,
                                    uint32_t n, tn_tensor **out_grad) {
  enum { MEAN, PRODUCT, SLOPE, PART, LESS, REST, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_mean_dim(v, dims, n, true, TN_DTYPE_NONE, &t[MEAN]));
  TNI_STEP(tn_mul(v, normal, &t[PRODUCT]));
  TNI_STEP(tn_mean_dim(t[PRODUCT], dims, n, true, TN_DTYPE_NONE, &t[SLOPE]));
  TNI_STEP(tn_mul(normal, t[SLOPE], &t[PART]));
  TNI_STEP(tn_sub(v, t[MEAN], tn_int(1), &t[LESS]));
  TNI_STEP(tn_sub(t[LESS], t[PART], tn_int(1), &t[REST]));
  TNI_STEP(tn_mul(t[REST], rstd, out_grad));
done:
  TNI_RELEASE(t);
  return status;
}

/* args: grad_out input weight running_mean running_var save_mean save_invstd train eps output_mask */
TN_BODY(native_batch_norm_backward) {
  enum { WIDE, GRAD, VAR, RSTD, MEAN, M, R, W, CENTRED, NORMAL, SCALED, INPUT, SHARE, R0, R1, R2, N };
  tn_tensor *input = args[1].u.t, *weight = tni_tensor_or_null(&args[2]), *t[N] = {NULL};
  bool train = args[7].u.i;
  uint32_t ndim = tni_ndim(input);
  tn_dtype dtype = tn_tensor_dtype(input), wide = wide_dtype(input);
  const uint8_t *wanted = args[9].u.bools;
  int64_t dims[TN_MAX_RANK] = {0};
  for (uint32_t i = 2; i < ndim; i++) dims[i - 1] = i;
  tn_status status;
  TNI_STEP(tn_to_dtype(input, wide, false, false, 0, &t[WIDE]));
  TNI_STEP(tn_to_dtype(args[0].u.t, wide, false, false, 0, &t[GRAD]));
  TNI_STEP(tn_to_dtype(args[train ? 5 : 3].u.t, wide, false, false, 0, &t[MEAN]));
  if (train) {
    TNI_STEP(tn_to_dtype(args[6].u.t, wide, false, false, 0, &t[RSTD]));
  } else {
    TNI_STEP(tn_to_dtype(args[4].u.t, wide, false, false, 0, &t[VAR]));
    TNI_STEP(inverse_root(t[VAR], args[8].u.f, &t[RSTD]));
  }
  TNI_STEP(as_channels(t[MEAN], ndim, &t[M]));
  TNI_STEP(as_channels(t[RSTD], ndim, &t[R]));
  TNI_STEP(tn_sub(t[WIDE], t[M], tn_int(1), &t[CENTRED]));
  TNI_STEP(tn_mul(t[CENTRED], t[R], &t[NORMAL]));
  if (wanted[0]) {
    if (weight) TNI_STEP(as_channels(weight, ndim, &t[W]));
    if (weight) TNI_STEP(tn_mul(t[GRAD], t[W], &t[SCALED]));
    tn_tensor *v = weight ? t[SCALED] : t[GRAD];
    if (train)
      TNI_STEP(through_statistics(v, t[NORMAL], t[R], dims, ndim - 1, &t[INPUT]));
    else
      TNI_STEP(tn_mul(v, t[R], &t[INPUT]));
    TNI_STEP(tn_to_dtype(t[INPUT], dtype, false, false, 0, &t[R0]));
  }
  if (wanted[1]) {
    TNI_STEP(tn_mul(t[GRAD], t[NORMAL], &t[SHARE]));
    TNI_STEP(sum_channels(t[SHARE], dtype, &t[R1]));
  }
  if (wanted[2]) TNI_STEP(sum_channels(t[GRAD], dtype, &t[R2]));
  for (int i = 0; i < 3; i++) out[i] = tn_value_tensor(tni_take(&t[R0 + i]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(batch_norm) {
  tn_tensor *t[3] = {NULL};
  tn_status status;
  TNI_STEP(tn_native_batch_norm(args[0].u.t, tni_tensor_or_null(&args[1]), tni_tensor_or_null(&args[2]),
                                tni_tensor_or_null(&args[3]), tni_tensor_or_null(&args[4]), args[5].u.i,
                                args[6].u.f, args[7].u.f, &t[0], &t[1], &t[2]));
  out[0] = tn_value_tensor(tni_take(&t[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ group norm */

/* A tensor as [N, groups, elements of a group]. */
static tn_status as_groups(tn_tensor *tensor, int64_t groups, tn_tensor **out_view) {
  tn_dim images = tn_tensor_sizes(tensor)[0], n = TN_DIM(tn_tensor_numel(tensor));
  tn_dim rows = TN_DIM_MUL(images, groups);
  n = TN_DIM_GT(rows, 0) ? TN_DIM_DIV(n, rows) : TN_DIM(1);
  return tn_reshape(tensor, (const int64_t[]){images, groups, n}, 3, out_view);
}

static tn_status check_group_norm(const tn_tensor *input, int64_t groups, const tn_tensor *weight,
                                  const tn_tensor *bias) {
  TN_TRY(check_float(input));
  if (tni_ndim(input) < 2 || groups < 1 || TN_DIM_NE(TN_DIM_MOD(tn_tensor_sizes(input)[1], groups), 0))
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "expected 'input' [N, C, ...] with C divisible by %lld groups, got shape %s",
                   (long long)groups, tni_shape_text(input, TN_SHAPE_TEXT));
  TN_TRY(check_channels("weight", weight, tn_tensor_sizes(input)[1]));
  return check_channels("bias", bias, tn_tensor_sizes(input)[1]);
}

/* Each group a row of layer norm without weight. args: input weight bias N C HxW group eps */
TN_BODY(native_group_norm) {
  enum { ROWS, ROWS_NORMAL, NORMAL, ROWS_MEAN, ROWS_RSTD, MEAN, RSTD, RESULT, N };
  tn_tensor *input = args[0].u.t, *t[N] = {NULL};
  tn_tensor *weight = tni_tensor_or_null(&args[1]), *bias = tni_tensor_or_null(&args[2]);
  int64_t groups = args[6].u.i;
  TN_TRY(check_group_norm(input, groups, weight, bias));
  tn_status status;
  TNI_STEP(as_groups(input, groups, &t[ROWS]));
  tn_dim n = tn_tensor_sizes(t[ROWS])[2];
  TNI_STEP(tn_native_layer_norm(t[ROWS], &n, 1, NULL, NULL, args[7].u.f, &t[ROWS_NORMAL], &t[ROWS_MEAN],
                                &t[ROWS_RSTD]));
  TNI_STEP(tn_reshape(t[ROWS_NORMAL], tn_tensor_sizes(input), tni_ndim(input), &t[NORMAL]));
  TNI_STEP(tn_squeeze_dim(t[ROWS_MEAN], 2, &t[MEAN]));
  TNI_STEP(tn_squeeze_dim(t[ROWS_RSTD], 2, &t[RSTD]));
  TNI_STEP(scale_and_move(t[NORMAL], weight, bias, true, tn_tensor_dtype(input), &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
  out[1] = tn_value_tensor(tni_take(&t[MEAN]));
  out[2] = tn_value_tensor(tni_take(&t[RSTD]));
done:
  TNI_RELEASE(t);
  return status;
}

/* args: input num_groups weight bias eps cudnn_enabled */
TN_BODY(group_norm) {
  tn_tensor *input = args[0].u.t, *t[3] = {NULL};
  tn_tensor *weight = tni_tensor_or_null(&args[2]), *bias = tni_tensor_or_null(&args[3]);
  TN_TRY(check_group_norm(input, args[1].u.i, weight, bias));
  tn_dim area = TN_DIM(1);
  for (uint32_t i = 2; i < tni_ndim(input); i++) area = TN_DIM_MUL(area, tn_tensor_sizes(input)[i]);
  tn_status status;
  TNI_STEP(tn_native_group_norm(input, weight, bias, tn_tensor_sizes(input)[0], tn_tensor_sizes(input)[1],
                                area, args[1].u.i, args[4].u.f, &t[0], &t[1], &t[2]));
  out[0] = tn_value_tensor(tni_take(&t[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* args: grad_out input mean rstd weight N C HxW group output_mask */
TN_BODY(native_group_norm_backward) {
  enum {
    WIDE,
    GRAD,
    ROWS,
    M,
    R,
    CENTRED,
    ROWS_NORMAL,
    NORMAL,
    W,
    SCALED,
    ROWS_V,
    ROWS_INPUT,
    INPUT,
    SHARE,
    R0,
    R1,
    R2,
    N
  };
  tn_tensor *input = args[1].u.t, *weight = tni_tensor_or_null(&args[4]), *t[N] = {NULL};
  int64_t groups = args[8].u.i, last = 2;
  uint32_t ndim = tni_ndim(input);
  tn_dtype dtype = tn_tensor_dtype(input), wide = wide_dtype(input);
  const uint8_t *wanted = args[9].u.bools;
  const tn_dim *sizes = tn_tensor_sizes(input);
  TN_TRY(check_group_norm(input, groups, weight, NULL));
  tn_status status;
  TNI_STEP(tn_to_dtype(input, wide, false, false, 0, &t[WIDE]));
  TNI_STEP(tn_to_dtype(args[0].u.t, wide, false, false, 0, &t[GRAD]));
  TNI_STEP(as_groups(t[WIDE], groups, &t[ROWS]));
  TNI_STEP(tn_unsqueeze(args[2].u.t, 2, &t[M]));
  TNI_STEP(tn_unsqueeze(args[3].u.t, 2, &t[R]));
  TNI_STEP(tn_sub(t[ROWS], t[M], tn_int(1), &t[CENTRED]));
  TNI_STEP(tn_mul(t[CENTRED], t[R], &t[ROWS_NORMAL]));
  TNI_STEP(tn_reshape(t[ROWS_NORMAL], sizes, ndim, &t[NORMAL]));
  if (wanted[0]) {
    if (weight) TNI_STEP(as_channels(weight, ndim, &t[W]));
    if (weight) TNI_STEP(tn_mul(t[GRAD], t[W], &t[SCALED]));
    TNI_STEP(as_groups(weight ? t[SCALED] : t[GRAD], groups, &t[ROWS_V]));
    TNI_STEP(through_statistics(t[ROWS_V], t[ROWS_NORMAL], t[R], &last, 1, &t[ROWS_INPUT]));
    TNI_STEP(tn_reshape(t[ROWS_INPUT], sizes, ndim, &t[INPUT]));
    TNI_STEP(tn_to_dtype(t[INPUT], dtype, false, false, 0, &t[R0]));
  }
  if (wanted[1]) {
    TNI_STEP(tn_mul(t[GRAD], t[NORMAL], &t[SHARE]));
    TNI_STEP(sum_channels(t[SHARE], dtype, &t[R1]));
  }
  if (wanted[2]) TNI_STEP(sum_channels(t[GRAD], dtype, &t[R2]));
  for (int i = 0; i < 3; i++) out[i] = tn_value_tensor(tni_take(&t[R0 + i]));
done:
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ rms norm */

static double epsilon_of(tn_dtype dtype) {
  return dtype == TN_FLOAT64   ? DBL_EPSILON
         : dtype == TN_FLOAT32 ? FLT_EPSILON
         : dtype == TN_FLOAT16 ? 0x1p-10
                               : 0x1p-7;
}

/* What the meta rules check, for backends without a kernel: there the bodies run alone. */
static tn_status check_rms_norm(const tn_tensor *input, const tn_value *shape, const tn_tensor *weight) {
  uint32_t n = shape->count, ndim = tni_ndim(input);
  TN_TRY(check_float(input));
  if (n && n <= ndim && tn_shape_equal(n, shape->u.ints, n, tn_tensor_sizes(input) + ndim - n) &&
      (!weight || tn_shape_equal(tni_ndim(weight), tn_tensor_sizes(weight), n, shape->u.ints)))
    return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT,
                 "expected the last sizes of shape %s as normalized_shape and shape of 'weight', got %s",
                 tni_shape_text(input, TN_SHAPE_TEXT), tn_shape_format(n, shape->u.ints, TN_SHAPE_TEXT));
}

static void last_dims(uint32_t ndim, uint32_t n, int64_t *out_dims) {
  for (uint32_t i = 0; i < n; i++) out_dims[i] = ndim - n + i;
}

/* args: input normalized_shape weight eps */
TN_BODY(fused_rms_norm) {
  enum { WIDE, SQUARE, MEAN, RSTD, NORMAL, RESULT, N };
  tn_tensor *input = args[0].u.t, *weight = tni_tensor_or_null(&args[2]), *t[N] = {NULL};
  int64_t dims[TN_MAX_RANK];
  TN_TRY(check_rms_norm(input, &args[1], weight));
  last_dims(tni_ndim(input), args[1].count, dims);
  double eps = tni_has(&args[3]) ? args[3].u.f : epsilon_of(tn_tensor_dtype(input));
  tn_status status;
  TNI_STEP(tn_to_dtype(input, wide_dtype(input), false, false, 0, &t[WIDE]));
  TNI_STEP(tn_square(t[WIDE], &t[SQUARE]));
  TNI_STEP(tn_mean_dim(t[SQUARE], dims, args[1].count, true, TN_DTYPE_NONE, &t[MEAN]));
  TNI_STEP(inverse_root(t[MEAN], eps, &t[RSTD]));
  TNI_STEP(tn_mul(t[WIDE], t[RSTD], &t[NORMAL]));
  TNI_STEP(scale_and_move(t[NORMAL], weight, NULL, false, tn_tensor_dtype(input), &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
  out[1] = tn_value_tensor(tni_take(&t[RSTD]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(rms_norm) {
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TN_TRY(check_rms_norm(args[0].u.t, &args[1], tni_tensor_or_null(&args[2])));
  const double *eps = tni_has(&args[3]) ? &args[3].u.f : NULL;
  TNI_STEP(tn__fused_rms_norm(args[0].u.t, args[1].u.ints, args[1].count, tni_tensor_or_null(&args[2]), eps,
                              &t[0], &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* With y the normalized input and v = grad * weight: rstd * (v - y * mean(v * y)), and the sums of grad * y.
 * args: grad_out input normalized_shape rstd weight output_mask */
TN_BODY(fused_rms_norm_backward) {
  enum { WIDE, GRAD, NORMAL, SCALED, PRODUCT, MEAN, PART, LESS, INPUT, SHARE, SUM, R0, R1, N };
  tn_tensor *input = args[1].u.t, *rstd = args[3].u.t, *weight = tni_tensor_or_null(&args[4]);
  tn_tensor *t[N] = {NULL};
  tn_dtype dtype = tn_tensor_dtype(input);
  const uint8_t *wanted = args[5].u.bools;
  uint32_t n = args[2].count, outer = tni_ndim(input) - n;
  int64_t dims[TN_MAX_RANK];
  TN_TRY(check_rms_norm(input, &args[2], weight));
  last_dims(tni_ndim(input), n, dims);
  tn_status status;
  TNI_STEP(tn_to_dtype(input, wide_dtype(input), false, false, 0, &t[WIDE]));
  TNI_STEP(tn_to_dtype(args[0].u.t, wide_dtype(input), false, false, 0, &t[GRAD]));
  TNI_STEP(tn_mul(t[WIDE], rstd, &t[NORMAL]));
  if (wanted[0]) {
    if (weight) TNI_STEP(tn_mul(t[GRAD], weight, &t[SCALED]));
    tn_tensor *v = weight ? t[SCALED] : t[GRAD];
    TNI_STEP(tn_mul(v, t[NORMAL], &t[PRODUCT]));
    TNI_STEP(tn_mean_dim(t[PRODUCT], dims, n, true, TN_DTYPE_NONE, &t[MEAN]));
    TNI_STEP(tn_mul(t[NORMAL], t[MEAN], &t[PART]));
    TNI_STEP(tn_sub(v, t[PART], tn_int(1), &t[LESS]));
    TNI_STEP(tn_mul(t[LESS], rstd, &t[INPUT]));
    TNI_STEP(tn_to_dtype(t[INPUT], dtype, false, false, 0, &t[R0]));
  }
  if (wanted[1]) {
    for (uint32_t i = 0; i < outer; i++) dims[i] = i;
    TNI_STEP(tn_mul(t[GRAD], t[NORMAL], &t[SHARE]));
    if (outer) TNI_STEP(tn_sum_dim(t[SHARE], dims, outer, false, TN_DTYPE_NONE, &t[SUM]));
    TNI_STEP(tn_to_dtype(outer ? t[SUM] : t[SHARE], dtype, false, false, 0, &t[R1]));
  }
  for (int i = 0; i < 2; i++) out[i] = tn_value_tensor(tni_take(&t[R0 + i]));
done:
  TNI_RELEASE(t);
  return status;
}

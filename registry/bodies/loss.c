/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses. Each is computed per element or row and then reduced (0 none, 1 mean, 2 sum); cross
 * entropy brings every shape to the [rows, classes] that nll_loss_forward knows.
 */
#include "registry/bodies/compose.h"

enum { REDUCE_NONE = 0, REDUCE_MEAN = 1, REDUCE_SUM = 2 };

static tn_status check_reduction(int64_t reduction) {
  if (reduction >= REDUCE_NONE && reduction <= REDUCE_SUM) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected reduction 0 (none), 1 (mean) or 2 (sum), got %lld",
                 (long long)reduction);
}

/* The reduced loss (consumes nothing); none hands it back as it is. */
static tn_status reduce(tn_tensor *loss, int64_t reduction, tn_tensor **out_reduced) {
  if (reduction == REDUCE_MEAN) return tn_mean(loss, TN_DTYPE_NONE, out_reduced);
  if (reduction == REDUCE_SUM) return tn_sum(loss, TN_DTYPE_NONE, out_reduced);
  *out_reduced = tn_tensor_retain(loss);
  return TN_OK;
}

/* ------------------------------------------------------------------ differences */

TN_BODY(mse_loss) {
  tn_tensor *t[3] = {NULL};
  TN_TRY(check_reduction(args[2].u.i));
  tn_status status;
  TNI_STEP(tn_sub(args[0].u.t, args[1].u.t, tn_int(1), &t[0]));
  TNI_STEP(tn_square(t[0], &t[1]));
  TNI_STEP(reduce(t[1], args[2].u.i, &t[2]));
  out[0] = tn_value_tensor(tni_take(&t[2]));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(l1_loss) {
  tn_tensor *t[3] = {NULL};
  TN_TRY(check_reduction(args[2].u.i));
  tn_status status;
  TNI_STEP(tn_sub(args[0].u.t, args[1].u.t, tn_int(1), &t[0]));
  TNI_STEP(tn_abs(t[0], &t[1]));
  TNI_STEP(reduce(t[1], args[2].u.i, &t[2]));
  out[0] = tn_value_tensor(tni_take(&t[2]));
done:
  TNI_RELEASE(t);
  return status;
}

/* log(1 + exp(-x)) as m + log(exp(-m) + exp(-x - m)) with m = max(-x, 0): no overflow, and the
 * gradient is right at 0 because m cancels out of it. */
static tn_status softplus_negative(tn_tensor *x, tn_tensor **out_result) {
  enum { MINUS, M, MINUS_M, A, SHIFT, B, SUM, LOG, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(tn_neg(x, &t[MINUS]));
  TNI_STEP(tn_clamp_min(t[MINUS], tn_int(0), &t[M]));
  TNI_STEP(tn_neg(t[M], &t[MINUS_M]));
  TNI_STEP(tn_exp(t[MINUS_M], &t[A]));
  TNI_STEP(tn_sub(t[MINUS], t[M], tn_int(1), &t[SHIFT]));
  TNI_STEP(tn_exp(t[SHIFT], &t[B]));
  TNI_STEP(tn_add(t[A], t[B], tn_int(1), &t[SUM]));
  TNI_STEP(tn_log_op(t[SUM], &t[LOG]));
  TNI_STEP(tn_add(t[LOG], t[M], tn_int(1), out_result));
done:
  TNI_RELEASE(t);
  return status;
}

TN_BODY(binary_cross_entropy_with_logits) {
  enum { REST, LINEAR, SOFT, EXTRA, SCALED, FACTOR, POSITIVE, LOSS, WEIGHTED, RESULT, N };
  tn_tensor *self = args[0].u.t, *target = args[1].u.t, *t[N] = {NULL};
  tn_tensor *weight = tni_tensor_or_null(&args[2]), *pos_weight = tni_tensor_or_null(&args[3]);
  TN_TRY(check_reduction(args[4].u.i));
  if (!tni_same_shape(self, target))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected 'target' of shape %s, got %s",
                   tni_shape_text(self, TN_SHAPE_TEXT), tni_shape_text(target, TN_SHAPE_TEXT));
  tn_status status;
  TNI_STEP(tn_rsub_scalar(target, tn_int(1), tn_int(1), &t[REST]));
  TNI_STEP(tn_mul(t[REST], self, &t[LINEAR]));
  TNI_STEP(softplus_negative(self, &t[SOFT]));
  if (pos_weight) { /* factor of the soft part: 1 + (pos_weight - 1) * target */
    TNI_STEP(tn_sub_scalar(pos_weight, tn_int(1), tn_int(1), &t[EXTRA]));
    TNI_STEP(tn_mul(t[EXTRA], target, &t[SCALED]));
    TNI_STEP(tn_add_scalar(t[SCALED], tn_int(1), tn_int(1), &t[FACTOR]));
    TNI_STEP(tn_mul(t[FACTOR], t[SOFT], &t[POSITIVE]));
  }
  TNI_STEP(tn_add(t[LINEAR], pos_weight ? t[POSITIVE] : t[SOFT], tn_int(1), &t[LOSS]));
  if (weight) TNI_STEP(tn_mul(t[LOSS], weight, &t[WEIGHTED]));
  TNI_STEP(reduce(weight ? t[WEIGHTED] : t[LOSS], args[4].u.i, &t[RESULT]));
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
done:
  TNI_RELEASE(t);
  return status;
}

/* ------------------------------------------------------------------ cross entropy */

TN_BODY(nll_loss) {
  tn_tensor *t[2] = {NULL};
  tn_status status;
  TNI_STEP(tn_nll_loss_forward(args[0].u.t, args[1].u.t, tni_tensor_or_null(&args[2]), args[3].u.i,
                               args[4].u.i, &t[0], &t[1]));
  out[0] = tn_value_tensor(tni_take(&t[0]));
done:
  TNI_RELEASE(t);
  return status;
}

/* What the parts of cross entropy share. */
typedef struct entropy {
  tn_tensor *logp;   /* [rows, classes], or [classes] */
  tn_tensor *target; /* class of each row: [rows], or 0-d */
  tn_tensor *weight; /* [classes], or NULL; borrowed */
  int64_t reduction;
  int64_t ignore_index;
  double smoothing;
} entropy;

/* The mean over classes of -logp, in rows that count. Reduced as the loss is: a mean divides by the
 * rows' weights. */
static tn_status smooth_part(const entropy *e, tn_tensor *total_weight, tn_tensor **out_part) {
  enum { WEIGHTED, SUM, MINUS, IGNORED, KEPT, REDUCED, N };
  tn_tensor *t[N] = {NULL};
  double classes = (double)TN_DIM_INT(tn_tensor_sizes(e->logp)[tni_ndim(e->logp) - 1]);
  tn_status status;
  if (e->weight) TNI_STEP(tn_mul(e->logp, e->weight, &t[WEIGHTED]));
  TNI_STEP(
      tn_sum_dim(e->weight ? t[WEIGHTED] : e->logp, (const int64_t[]){-1}, 1, false, TN_DTYPE_NONE, &t[SUM]));
  TNI_STEP(tn_mul_scalar(t[SUM], tn_float(-e->smoothing / classes), &t[MINUS]));
  TNI_STEP(tn_eq_scalar(e->target, tn_int(e->ignore_index), &t[IGNORED]));
  TNI_STEP(tn_masked_fill(t[MINUS], t[IGNORED], tn_int(0), &t[KEPT]));
  if (e->reduction == REDUCE_MEAN) {
    TNI_STEP(tn_sum(t[KEPT], TN_DTYPE_NONE, &t[REDUCED]));
    TNI_STEP(tn_div(t[REDUCED], total_weight, out_part));
  } else {
    TNI_STEP(reduce(t[KEPT], e->reduction, out_part));
  }
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status entropy_of_classes(const entropy *e, tn_tensor **out_loss) {
  enum { LOSS, TOTAL, SHARE, SMOOTH, N };
  tn_tensor *t[N] = {NULL};
  tn_status status;
  TNI_STEP(
      tn_nll_loss_forward(e->logp, e->target, e->weight, e->reduction, e->ignore_index, &t[LOSS], &t[TOTAL]));
  if (e->smoothing > 0) {
    TNI_STEP(tn_mul_scalar(t[LOSS], tn_float(1 - e->smoothing), &t[SHARE]));
    TNI_STEP(smooth_part(e, t[TOTAL], &t[SMOOTH]));
    TNI_STEP(tn_add(t[SHARE], t[SMOOTH], tn_int(1), out_loss));
  } else {
    *out_loss = tni_take(&t[LOSS]);
  }
done:
  TNI_RELEASE(t);
  return status;
}

/* -sum of logp * target over classes; target [rows, classes] may be smoothed towards the uniform
 * distribution. */
static tn_status entropy_of_probabilities(const entropy *e, tn_tensor **out_loss) {
  enum { SHARE, SMOOTH, PRODUCT, WEIGHTED, SUM, ROWS, TOTAL, N };
  tn_tensor *t[N] = {NULL};
  int64_t classes = TN_DIM_INT(tn_tensor_sizes(e->logp)[tni_ndim(e->logp) - 1]);
  double rows = classes ? (double)tn_tensor_numel(e->logp) / (double)classes : 0;
  tn_status status;
  t[SMOOTH] = tn_tensor_retain(e->target);
  if (e->smoothing > 0) {
    tn_tensor_release(tni_take(&t[SMOOTH]));
    TNI_STEP(tn_mul_scalar(e->target, tn_float(1 - e->smoothing), &t[SHARE]));
    TNI_STEP(tn_add_scalar(t[SHARE], tn_float(e->smoothing / (double)classes), tn_int(1), &t[SMOOTH]));
  }
  TNI_STEP(tn_mul(e->logp, t[SMOOTH], &t[PRODUCT]));
  if (e->weight) TNI_STEP(tn_mul(t[PRODUCT], e->weight, &t[WEIGHTED]));
  TNI_STEP(tn_sum_dim(e->weight ? t[WEIGHTED] : t[PRODUCT], (const int64_t[]){-1}, 1, false, TN_DTYPE_NONE,
                      &t[SUM]));
  TNI_STEP(tn_neg(t[SUM], &t[ROWS]));
  if (e->reduction == REDUCE_MEAN) {
    TNI_STEP(tn_sum(t[ROWS], TN_DTYPE_NONE, &t[TOTAL]));
    TNI_STEP(tn_div_scalar(t[TOTAL], tn_float(rows), out_loss));
  } else {
    TNI_STEP(reduce(t[ROWS], e->reduction, out_loss));
  }
done:
  TNI_RELEASE(t);
  return status;
}

/* [N, C, d1, ..] as [N * d1 * .., C]; fewer dims stay. */
static tn_status rows_of(tn_tensor *tensor, tn_tensor **out_rows) {
  if (tni_ndim(tensor) <= 2) {
    *out_rows = tn_tensor_retain(tensor);
    return TN_OK;
  }
  tn_tensor *last = NULL;
  tn_dim classes = tn_tensor_sizes(tensor)[1];
  tn_dim n = TN_DIM_EQ(classes, 0) ? TN_DIM(0) : TN_DIM_DIV(TN_DIM(tn_tensor_numel(tensor)), classes);
  tn_status status = tn_movedim(tensor, 1, -1, &last);
  if (status == TN_OK) status = tn_reshape(last, (const int64_t[]){n, classes}, 2, out_rows);
  tn_tensor_release(last);
  return status;
}

/* self's shape without the class dim. */
static uint32_t shape_of_rows(const tn_tensor *self, tn_dim *out_sizes) {
  uint32_t n = 0, class_dim = tni_ndim(self) == 1 ? 0 : 1;
  for (uint32_t i = 0; i < tni_ndim(self); i++)
    if (i != class_dim) out_sizes[n++] = tn_tensor_sizes(self)[i];
  return n;
}

/* args: self target weight reduction ignore_index */
TN_BODY(nll_loss2d) {
  enum { ROWS, TARGET, LOSS, TOTAL, RESULT, N };
  tn_tensor *self = args[0].u.t, *target = args[1].u.t, *t[N] = {NULL};
  tn_dim sizes[TN_MAX_RANK];
  uint32_t n = tni_ndim(self) == 4 ? shape_of_rows(self, sizes) : 0;
  TN_TRY(check_reduction(args[3].u.i));
  if (n != 3 || !tn_shape_equal(tni_ndim(target), tn_tensor_sizes(target), n, sizes))
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "expected 'self' [N, C, H, W] and 'target' [N, H, W], got shapes %s and %s",
                   tni_shape_text(self, TN_SHAPE_TEXT), tni_shape_text(target, TN_SHAPE_TEXT));
  tn_status status;
  TNI_STEP(rows_of(self, &t[ROWS]));
  TNI_STEP(tn_reshape(target, (const int64_t[]){TN_DIM(tn_tensor_numel(target))}, 1, &t[TARGET]));
  TNI_STEP(tn_nll_loss_forward(t[ROWS], t[TARGET], tni_tensor_or_null(&args[2]), args[3].u.i, args[4].u.i,
                               &t[LOSS], &t[TOTAL]));
  if (args[3].u.i == REDUCE_NONE)
    TNI_STEP(tn_reshape(t[LOSS], sizes, n, &t[RESULT]));
  else
    t[RESULT] = tni_take(&t[LOSS]);
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
done:
  TNI_RELEASE(t);
  return status;
}

static tn_status check_entropy(tn_tensor *self, tn_tensor *target, bool probabilities, const tn_value *args) {
  TN_TRY(check_reduction(args[3].u.i));
  double smoothing = args[5].u.f;
  if (!(smoothing >= 0 && smoothing <= 1))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected label_smoothing between 0 and 1, got %g", smoothing);
  if (tni_ndim(self) == 0)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected 'self' with a dim of classes, got a 0-d tensor");
  if (probabilities && (tn_tensor_dtype(target) < TN_FLOAT16 || tn_tensor_dtype(target) > TN_FLOAT64))
    return tn_fail(TN_ERR_DTYPE,
                   "expected a floating 'target' in the shape of 'self' (probabilities), got %s",
                   tn_dtype_name(tn_tensor_dtype(target)));
  if (probabilities && args[4].u.i >= 0)
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "expected no ignore_index (-100) for a target of probabilities, got %lld",
                   (long long)args[4].u.i);
  tn_tensor *weight = tni_tensor_or_null(&args[2]);
  tn_dim classes = tn_tensor_sizes(self)[tni_ndim(self) == 1 ? 0 : 1];
  if (weight && !tn_shape_equal(tni_ndim(weight), tn_tensor_sizes(weight), 1, &classes))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected 'weight' of shape [%lld], got %s",
                   (long long)TN_DIM_INT(classes), tni_shape_text(weight, TN_SHAPE_TEXT));
  tn_dim sizes[TN_MAX_RANK];
  uint32_t n = shape_of_rows(self, sizes);
  if (probabilities || tn_shape_equal(tni_ndim(target), tn_tensor_sizes(target), n, sizes)) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT,
                 "expected 'target' of shape %s (classes) or %s (probabilities), got %s",
                 tn_shape_format(n, sizes, TN_SHAPE_TEXT), tni_shape_text(self, TN_SHAPE_TEXT),
                 tni_shape_text(target, TN_SHAPE_TEXT));
}

TN_BODY(cross_entropy_loss) {
  enum { ROWS, LOGP, TARGET, LOSS, RESULT, N };
  tn_tensor *self = args[0].u.t, *target = args[1].u.t, *t[N] = {NULL};
  bool probabilities = tni_same_shape(self, target), many = tni_ndim(self) > 2;
  TN_TRY(check_entropy(self, target, probabilities, args));
  tn_dim sizes[TN_MAX_RANK];
  uint32_t n = shape_of_rows(self, sizes);
  tn_status status;
  TNI_STEP(rows_of(self, &t[ROWS]));
  TNI_STEP(tn_log_softmax(t[ROWS], -1, TN_DTYPE_NONE, &t[LOGP]));
  if (probabilities)
    TNI_STEP(rows_of(target, &t[TARGET]));
  else if (many)
    TNI_STEP(tn_reshape(target, (const int64_t[]){-1}, 1, &t[TARGET]));
  else
    t[TARGET] = tn_tensor_retain(target);
  entropy e = {t[LOGP], t[TARGET], tni_tensor_or_null(&args[2]), args[3].u.i, args[4].u.i, args[5].u.f};
  TNI_STEP(probabilities ? entropy_of_probabilities(&e, &t[LOSS]) : entropy_of_classes(&e, &t[LOSS]));
  if (many && e.reduction == REDUCE_NONE)
    TNI_STEP(tn_reshape(t[LOSS], sizes, n, &t[RESULT]));
  else
    t[RESULT] = tni_take(&t[LOSS]);
  out[0] = tn_value_tensor(tni_take(&t[RESULT]));
done:
  TNI_RELEASE(t);
  return status;
}

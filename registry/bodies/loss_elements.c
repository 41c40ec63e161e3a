/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses that are one elementwise operator and a reduction: huber and smooth l1, divergence, cross entropy of
 * probabilities.
 */
#include <tenon/kit/dtype.h>

#include "registry/bodies/compose.h"

enum { REDUCE_NONE = 0, REDUCE_MEAN = 1, REDUCE_SUM = 2 };

/* Takes the loss over and stores it reduced. */
static tn_status finish(tn_tensor *loss, int64_t reduction, tn_value *out) {
  tn_tensor *result = NULL;
  tn_status status = TN_OK;
  if (reduction == REDUCE_NONE)
    result = tn_tensor_retain(loss);
  else
    status = reduction == REDUCE_MEAN ? tn_mean(loss, TN_DTYPE_NONE, &result)
                                      : tn_sum(loss, TN_DTYPE_NONE, &result);
  tn_tensor_release(loss);
  return tni_result(status, &result, out);
}

static tn_status check_loss(const tn_tensor *self, int64_t reduction) {
  if (!tn_kit_dtype_is_float(tn_tensor_dtype(self)))
    return tn_fail(TN_ERR_DTYPE, "expected a floating dtype for 'self', got %s",
                   tn_kit_dtype_name(tn_tensor_dtype(self)));
  if (reduction >= REDUCE_NONE && reduction <= REDUCE_SUM) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected reduction 0 (none), 1 (mean) or 2 (sum), got %lld",
                 (long long)reduction);
}

TN_BODY(huber_loss) {
  tn_tensor *loss = NULL;
  TN_TRY(check_loss(args[0].u.t, args[2].u.i));
  if (!(args[3].u.f > 0))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected a delta above 0, got %g", args[3].u.f);
  TN_TRY(tn__huber(args[0].u.t, args[1].u.t, args[3], &loss));
  return finish(loss, args[2].u.i, out);
}

TN_BODY(smooth_l1_loss) {
  tn_tensor *t[2] = {NULL};
  double beta = args[3].u.f;
  TN_TRY(check_loss(args[0].u.t, args[2].u.i));
  if (!(beta >= 0)) return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected a beta of at least 0, got %g", beta);
  tn_status status;
  if (beta == 0) { /* absolute differences */
    TNI_STEP(tn_sub(args[0].u.t, args[1].u.t, tn_int(1), &t[0]));
    TNI_STEP(tn_abs(t[0], &t[1]));
  } else {
    TNI_STEP(tn__huber(args[0].u.t, args[1].u.t, args[3], &t[0]));
    TNI_STEP(tn_div_scalar(t[0], args[3], &t[1]));
  }
  status = finish(tni_take(&t[1]), args[2].u.i, out);
done:
  TNI_RELEASE(t);
  return status;
}

/* args: self target reduction log_target */
TN_BODY(kl_div) {
  enum { POWER, SHIFT, OWN, CROSS, LOSS, N };
  tn_tensor *self = args[0].u.t, *target = args[1].u.t, *t[N] = {NULL};
  TN_TRY(check_loss(args[0].u.t, args[2].u.i));
  tn_status status;
  if (args[3].u.i) {
    TNI_STEP(tn_exp(target, &t[POWER]));
    TNI_STEP(tn_sub(target, self, tn_int(1), &t[SHIFT]));
    TNI_STEP(tn_mul(t[POWER], t[SHIFT], &t[LOSS]));
  } else {
    TNI_STEP(tn_xlogy(target, target, &t[OWN]));
    TNI_STEP(tn_mul(target, self, &t[CROSS]));
    TNI_STEP(tn_sub(t[OWN], t[CROSS], tn_int(1), &t[LOSS]));
  }
  status = finish(tni_take(&t[LOSS]), args[2].u.i, out);
done:
  TNI_RELEASE(t);
  return status;
}

/* max(log(x), -100) */
static tn_status held_log(tn_tensor *x, tn_tensor **out_log) {
  tn_tensor *log = NULL;
  tn_status status = tn_log_op(x, &log);
  if (status == TN_OK) status = tn_clamp_min(log, tn_int(-100), out_log);
  tn_tensor_release(log);
  return status;
}

/* args: self target weight reduction */
TN_BODY(binary_cross_entropy) {
  enum { YES, NO, REST, REST_LOG, LINEAR, DIFFERENCE, SCALED, LOSS, N };
  tn_tensor *self = args[0].u.t, *target = args[1].u.t, *weight = tni_tensor_or_null(&args[2]),
            *t[N] = {NULL};
  TN_TRY(check_loss(args[0].u.t, args[3].u.i));
  if (!tni_same_shape(self, target))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "expected 'target' of shape %s, got %s",
                   tni_shape_text(self, TN_SHAPE_TEXT), tni_shape_text(target, TN_SHAPE_TEXT));
  tn_status status;
  TNI_STEP(held_log(self, &t[YES]));
  TNI_STEP(tn_rsub_scalar(self, tn_int(1), tn_int(1), &t[REST]));
  TNI_STEP(held_log(t[REST], &t[REST_LOG]));
  /* (target - 1) * log(1 - self) - target * log(self) */
  TNI_STEP(tn_sub_scalar(target, tn_int(1), tn_int(1), &t[NO]));
  TNI_STEP(tn_mul(t[NO], t[REST_LOG], &t[LINEAR]));
  TNI_STEP(tn_mul(target, t[YES], &t[DIFFERENCE]));
  TNI_STEP(tn_sub(t[LINEAR], t[DIFFERENCE], tn_int(1), &t[SCALED]));
  if (weight)
    TNI_STEP(tn_mul(t[SCALED], weight, &t[LOSS]));
  else
    t[LOSS] = tni_take(&t[SCALED]);
  status = finish(tni_take(&t[LOSS]), args[3].u.i, out);
done:
  TNI_RELEASE(t);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused optimiser steps: lists of one length whose entries agree in shape and dtype with their
 * parameter. They describe no result; the written lists are the arguments themselves.
 */
#include "registry/meta/rules.h"

/* list[i] like self[i]; an empty list passes where may_be_empty says that it is not used. */
static tn_status check_like(const char *name, const tn_value *list, const tn_value *self, bool may_be_empty) {
  if (may_be_empty && list->count == 0) return TN_OK;
  if (list->count != self->count)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected %u tensors in '%s', one for each parameter, got %u",
                   self->count, name, list->count);
  for (uint32_t i = 0; i < self->count; i++) {
    const tn_view *param = self->u.vs[i];
    TN_TRY(tni_check_dtype_is(name, list->u.vs[i], param->dtype));
    TN_TRY(tni_check_shape_is(name, list->u.vs[i], param->ndim, param->sizes));
  }
  return TN_OK;
}

static tn_status check_params(const tn_value *self) {
  for (uint32_t i = 0; i < self->count; i++) TN_TRY(tni_check_float("self", self->u.vs[i]->dtype));
  return TN_OK;
}

/* An optional 0-d float32 tensor. */
static tn_status check_number(const char *name, const tn_value *value) {
  if (!tni_given(value)) return TN_OK;
  TN_TRY(tni_check_dtype_is(name, value->u.v, TN_FLOAT32));
  if (TN_DIM_EQ(TN_DIM(value->u.v->numel), 1)) return TN_OK;
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "expected 1 element in '%s', got %lld", name,
                 (long long)value->u.v->numel);
}

TN_META(fused_adam) {
  const tn_value *self = &args[0], *steps = &args[5];
  bool amsgrad = args[11].u.i;
  TN_TRY(check_params(self));
  TN_TRY(check_like("grads", &args[1], self, false));
  TN_TRY(check_like("exp_avgs", &args[2], self, false));
  TN_TRY(check_like("exp_avg_sqs", &args[3], self, false));
  TN_TRY(check_like("max_exp_avg_sqs", &args[4], self, !amsgrad));
  if (steps->count != self->count)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                   "expected %u tensors in 'state_steps', one for each parameter, got %u", self->count,
                   steps->count);
  for (uint32_t i = 0; i < steps->count; i++) {
    TN_TRY(tni_check_dtype_is("state_steps", steps->u.vs[i], TN_FLOAT32));
    TN_TRY(tni_check_ndim("state_steps", steps->u.vs[i], 0));
  }
  TN_TRY(check_number("grad_scale", &args[13]));
  return check_number("found_inf", &args[14]);
}

TN_META(fused_sgd) {
  const tn_value *self = &args[0];
  double momentum = args[4].u.f, dampening = args[6].u.f;
  TN_TRY(check_params(self));
  TN_TRY(check_like("grads", &args[1], self, false));
  TN_TRY(check_like("momentum_buffer_list", &args[2], self, momentum == 0));
  if (args[7].u.i && (momentum <= 0 || dampening != 0))
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                   "expected momentum above 0 and dampening 0 with nesterov, got momentum %g, dampening %g",
                   momentum, dampening);
  TN_TRY(check_number("grad_scale", &args[10]));
  return check_number("found_inf", &args[11]);
}

TN_META(fused_rmsprop) {
  const tn_value *self = &args[0];
  double momentum = args[9].u.f;
  bool centered = args[10].u.i;
  TN_TRY(check_params(self));
  TN_TRY(check_like("grads", &args[1], self, false));
  TN_TRY(check_like("square_avgs", &args[2], self, false));
  TN_TRY(check_like("grad_avgs", &args[3], self, !centered));
  TN_TRY(check_like("momentum_buffer_list", &args[4], self, momentum == 0));
  TN_TRY(check_number("grad_scale", &args[12]));
  return check_number("found_inf", &args[13]);
}

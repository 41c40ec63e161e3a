/* SPDX-License-Identifier: Apache-2.0
 *
 * SGD, Adam, AdamW and RMSprop: their options, and the step of one group as one fused operator call. State is made at
 * the first step that needs it, for all groups before anything is written.
 */
#include <math.h>

#include "frontends/c/src/optim_int.h"

/* Positions in tn_optimizer.lists. */
enum { PARAMS, GRADS, STEPS, SLOT0 };

static tn_status make_slots(tni_nn_param *p, unsigned slots) {
  for (int s = 0; s < TNI_NN_SLOTS; s++)
    if ((slots & (1u << s)) && !p->slots[s])
      TN_TRY(tn_zeros_like(p->tensor, NULL, TN_MEMORY_FORMAT_NONE, &p->slots[s]));
  return TN_OK;
}

/* Those slots of the group's parameters that have gradients. */
static tn_status make_group_slots(tn_optimizer *o, const tni_nn_group *g, unsigned slots) {
  for (size_t i = g->first; i < g->first + g->count; i++)
    if (tn_grad(o->params[i].tensor)) TN_TRY(make_slots(&o->params[i], slots));
  return TN_OK;
}

/* ------------------------------------------------------------------ SGD */

static tn_status sgd_prepare(tn_optimizer *o, tni_nn_group *g) {
  return make_group_slots(o, g, g->options.sgd.momentum != 0.0 ? 1 : 0);
}

/* One call for the parameters of the group whose momentum buffer is new (the operator then fills it with the
 * gradient, undamped) or, with fresh false, for the others. A parameter has step 0 until its first one. */
static tn_status sgd_run(tn_optimizer *o, tni_nn_group *g, bool fresh) {
  const tn_sgd_options *s = &g->options.sgd;
  tn_tensor ***l = o->lists;
  size_t n = 0;
  for (size_t i = g->first; i < g->first + g->count; i++) {
    tni_nn_param *p = &o->params[i];
    tn_tensor *grad = tn_grad(p->tensor);
    if (!grad || (p->step == 0) != fresh) continue;
    l[PARAMS][n] = p->tensor;
    l[GRADS][n] = grad;
    l[SLOT0][n++] = p->slots[0];
  }
  if (n == 0) return TN_OK;
  return tn_fused_sgd_(l[PARAMS], n, l[GRADS], n, l[SLOT0], s->momentum != 0.0 ? n : 0, s->weight_decay,
                       s->momentum, s->lr, s->dampening, s->nesterov, s->maximize, fresh, NULL, NULL);
}

static tn_status sgd_step(tn_optimizer *o, tni_nn_group *g) {
  TN_TRY(sgd_run(o, g, false));
  TN_TRY(sgd_run(o, g, true));
  for (size_t i = g->first; i < g->first + g->count; i++)
    if (tn_grad(o->params[i].tensor)) o->params[i].step++;
  return TN_OK;
}

static tn_status sgd_check(const tni_nn_options *options) {
  const tn_sgd_options *s = &options->sgd;
  if (s->nesterov && (s->momentum <= 0.0 || s->dampening != 0.0))
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "SGD: nesterov needs momentum > 0 and dampening 0; they are %g and %g", s->momentum,
                   s->dampening);
  return TN_OK;
}

/* ------------------------------------------------------------------ Adam, AdamW */

static tn_status adam_prepare(tn_optimizer *o, tni_nn_group *g) {
  TN_TRY(make_group_slots(o, g, g->options.adam.amsgrad ? 7 : 3));
  for (size_t i = g->first; i < g->first + g->count; i++) {
    tni_nn_param *p = &o->params[i];
    if (!tn_grad(p->tensor) || p->step_tensor) continue;
    TN_TRY(tn_zeros(
        NULL, 0, TN_OPTIONS(.dtype = TN_FLOAT32, .has_device = true, .device = tn_tensor_device(p->tensor)),
        &p->step_tensor));
  }
  return TN_OK;
}

static size_t adam_gather(tn_optimizer *o, tni_nn_group *g) {
  tn_tensor ***l = o->lists;
  size_t n = 0;
  for (size_t i = g->first; i < g->first + g->count; i++) {
    tni_nn_param *p = &o->params[i];
    tn_tensor *grad = tn_grad(p->tensor);
    if (!grad) continue;
    l[PARAMS][n] = p->tensor;
    l[GRADS][n] = grad;
    l[STEPS][n] = p->step_tensor;
    for (int s = 0; s < TNI_NN_SLOTS; s++) l[SLOT0 + s][n] = p->slots[s];
    n++;
  }
  return n;
}

/* ATen's fused operators read the number of this step, counted from 1. */
static tn_status adam_count(tn_optimizer *o, tni_nn_group *g) {
  for (size_t i = g->first; i < g->first + g->count; i++)
    if (tn_grad(o->params[i].tensor))
      TN_TRY(tn_fill_(o->params[i].step_tensor, tn_float((double)(o->params[i].step + 1))));
  return TN_OK;
}

static tn_status adam_step(tn_optimizer *o, tni_nn_group *g) {
  const tn_adam_options *a = &g->options.adam;
  tn_tensor ***l = o->lists;
  size_t n = adam_gather(o, g);
  if (n == 0) return TN_OK;
  TN_TRY(adam_count(o, g));
  size_t n_max = a->amsgrad ? n : 0;
  TN_TRY((o->kind == &tni_nn_adamw ? tn_fused_adamw_ : tn_fused_adam_)(
      l[PARAMS], n, l[GRADS], n, l[SLOT0], n, l[SLOT0 + 1], n, l[SLOT0 + 2], n_max, l[STEPS], n, a->lr,
      a->beta1, a->beta2, a->weight_decay, a->eps, a->amsgrad, a->maximize, NULL, NULL));
  for (size_t i = g->first; i < g->first + g->count; i++)
    if (tn_grad(o->params[i].tensor)) o->params[i].step++;
  return TN_OK;
}

/* ------------------------------------------------------------------ RMSprop */

static tn_status rmsprop_prepare(tn_optimizer *o, tni_nn_group *g) {
  const tn_rmsprop_options *r = &g->options.rmsprop;
  return make_group_slots(o, g, 1u | (r->centered ? 2u : 0) | (r->momentum != 0.0 ? 4u : 0));
}

static tn_status rmsprop_step(tn_optimizer *o, tni_nn_group *g) {
  const tn_rmsprop_options *r = &g->options.rmsprop;
  tn_tensor ***l = o->lists;
  size_t n = 0;
  for (size_t i = g->first; i < g->first + g->count; i++) {
    tni_nn_param *p = &o->params[i];
    if (!tn_grad(p->tensor)) continue;
    l[PARAMS][n] = p->tensor;
    l[GRADS][n] = tn_grad(p->tensor);
    for (int s = 0; s < TNI_NN_SLOTS; s++) l[SLOT0 + s][n] = p->slots[s];
    n++;
  }
  if (n == 0) return TN_OK;
  TN_TRY(tn_fused_rmsprop_(l[PARAMS], n, l[GRADS], n, l[SLOT0], n, l[SLOT0 + 1], r->centered ? n : 0,
                           l[SLOT0 + 2], r->momentum != 0.0 ? n : 0, r->weight_decay, r->lr, r->alpha, r->eps,
                           r->momentum, r->centered, r->maximize, NULL, NULL));
  for (size_t i = g->first; i < g->first + g->count; i++)
    if (tn_grad(o->params[i].tensor)) o->params[i].step++;
  return TN_OK;
}

/* ------------------------------------------------------------------ tables */

#define FIELD(kind, field, low, high) \
  { #field, offsetof(kind, field), false, low, high }
#define FLAG(kind, field) \
  { #field, offsetof(kind, field), true, 0, 1 }

static const tni_nn_field sgd_fields[] = {FIELD(tn_sgd_options, lr, 0, INFINITY),
                                          FIELD(tn_sgd_options, momentum, 0, INFINITY),
                                          FIELD(tn_sgd_options, dampening, 0, INFINITY),
                                          FIELD(tn_sgd_options, weight_decay, 0, INFINITY),
                                          FLAG(tn_sgd_options, nesterov),
                                          FLAG(tn_sgd_options, maximize),
                                          {0}};
static const tni_nn_field adam_fields[] = {FIELD(tn_adam_options, lr, 0, INFINITY),
                                           FIELD(tn_adam_options, beta1, 0, 1),
                                           FIELD(tn_adam_options, beta2, 0, 1),
                                           FIELD(tn_adam_options, eps, 0, INFINITY),
                                           FIELD(tn_adam_options, weight_decay, 0, INFINITY),
                                           FLAG(tn_adam_options, amsgrad),
                                           FLAG(tn_adam_options, maximize),
                                           {0}};

static const tni_nn_field rmsprop_fields[] = {FIELD(tn_rmsprop_options, lr, 0, INFINITY),
                                              FIELD(tn_rmsprop_options, alpha, 0, 1),
                                              FIELD(tn_rmsprop_options, eps, 0, INFINITY),
                                              FIELD(tn_rmsprop_options, weight_decay, 0, INFINITY),
                                              FIELD(tn_rmsprop_options, momentum, 0, INFINITY),
                                              FLAG(tn_rmsprop_options, centered),
                                              FLAG(tn_rmsprop_options, maximize),
                                              {0}};

const tni_nn_kind tni_nn_sgd = {"SGD",       sgd_fields, {"momentum_buffer", NULL, NULL},
                                sgd_prepare, sgd_step,   sgd_check};
const tni_nn_kind tni_nn_adam = {"Adam",       adam_fields, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
                                 adam_prepare, adam_step,   NULL};
const tni_nn_kind tni_nn_adamw = {"AdamW",      adam_fields, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
                                  adam_prepare, adam_step,   NULL};
const tni_nn_kind tni_nn_rmsprop = {
    "RMSprop",       rmsprop_fields, {"square_avg", "grad_avg", "momentum_buffer"},
    rmsprop_prepare, rmsprop_step,   NULL};

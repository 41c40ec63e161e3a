/* SPDX-License-Identifier: Apache-2.0
 *
 * The fused optimiser steps, one parameter after the other, for backends that have no kernels of their own. Everything
 * new is computed first and copied over the old once, so that each argument is written once.
 *
 * Note [A skipped step]
 * found_inf is on the device, and a body does not read data. So where it is given, every value that would be written is
 * the old one where it is not 0. grad_scale divides the gradients, and the quotients are written back, as in ATen.
 */
#include "registry/bodies/scoped_body.h"

typedef struct guard {
  tn_tensor *skip;  /* 0-d bool, or NULL */
  tn_tensor *scale; /* 0-d, or NULL */
} guard;

static guard guard_of(const tn_value *grad_scale, const tn_value *found_inf) {
  tn_tensor *found = tni_tensor_or_null(found_inf);
  return (guard){found ? tns_ne_scalar(found, tn_int(0)) : NULL, tni_tensor_or_null(grad_scale)};
}

static tn_tensor *item(const tn_value *list, uint32_t i) { return i < list->count ? list->u.ts[i] : NULL; }
static tn_tensor *times(tn_tensor *t, double x) { return tns_mul_scalar(t, tn_float(x)); }
static tn_tensor *plus(tn_tensor *a, tn_tensor *b, double x) { return tns_add(a, b, tn_float(x)); }

static void store(const guard *g, tn_tensor *old, tn_tensor *fresh) {
  tn_tensor *kept = g->skip ? tns_where(g->skip, old, fresh) : fresh;
  tns_copy_(old, kept, false);
}

/* The gradient in the dtype of the arithmetic. */
static tn_tensor *gradient(const guard *g, tn_tensor *grad, bool maximize, tn_dtype wide) {
  tn_tensor *x = tni_as(grad, wide);
  if (g->scale) {
    x = tns_div(x, tni_as(g->scale, wide));
    store(g, grad, x);
  }
  return maximize ? tns_neg(x) : x;
}

/* a * old + (1 - a) * fresh */
static tn_tensor *moved(tn_tensor *old, tn_tensor *fresh, double a) {
  return plus(times(old, a), fresh, 1 - a);
}

/* ------------------------------------------------------------------ adam */

enum { LR = 6, BETA1, BETA2, DECAY, EPS, AMSGRAD, MAXIMIZE, SCALE, FOUND };

/* 1 - beta^step */
static tn_tensor *correction(tn_tensor *step, double beta) {
  return tns_rsub_scalar(tns_pow_scalar(tn_float(beta), step), tn_int(1), tn_int(1));
}

static void adam_one(const guard *g, const tn_value *args, uint32_t i, bool decoupled) {
  tn_tensor *self = item(&args[0], i), *m = item(&args[2], i), *v = item(&args[3], i),
            *top = item(&args[4], i);
  tn_dtype wide = tni_wide(tn_tensor_dtype(self));
  double lr = args[LR].u.f, decay = args[DECAY].u.f;
  tn_tensor *w = tni_as(self, wide), *step = tni_as(item(&args[5], i), wide);
  tn_tensor *grad = gradient(g, item(&args[1], i), args[MAXIMIZE].u.i, wide);
  if (decay != 0 && decoupled) w = times(w, 1 - lr * decay);
  if (decay != 0 && !decoupled) grad = plus(grad, w, decay);
  tn_tensor *first = moved(tni_as(m, wide), grad, args[BETA1].u.f);
  tn_tensor *second = moved(tni_as(v, wide), tns_square(grad), args[BETA2].u.f);
  tn_tensor *most = args[AMSGRAD].u.i ? tns_maximum(tni_as(top, wide), second) : second;
  tn_tensor *spread = tns_div(tns_sqrt(most), tns_sqrt(correction(step, args[BETA2].u.f)));
  tn_tensor *down = tns_div(first, tns_add_scalar(spread, tn_float(args[EPS].u.f), tn_int(1)));
  tn_tensor *change = tns_div(times(down, lr), correction(step, args[BETA1].u.f));
  store(g, m, first);
  store(g, v, second);
  if (args[AMSGRAD].u.i) store(g, top, most);
  store(g, self, plus(w, change, -1));
}

static void adam_all(const tn_value *args, bool decoupled) {
  guard g = guard_of(&args[SCALE], &args[FOUND]);
  for (uint32_t i = 0; i < args[0].count && tn_scope_status() == TN_OK; i++) adam_one(&g, args, i, decoupled);
}
static void adam(const tn_value *args) { adam_all(args, false); }
static void adamw(const tn_value *args) { adam_all(args, true); }
TN_SCOPED_BODY0(fused_adam, adam)
TN_SCOPED_BODY0(fused_adamw, adamw)

/* ------------------------------------------------------------------ sgd */

/* args: self grads momentum_buffer_list | weight_decay momentum lr dampening nesterov maximize is_first_step grad_scale
 * found_inf */
static void sgd_one(const guard *g, const tn_value *args, uint32_t i) {
  tn_tensor *self = item(&args[0], i), *buffer = item(&args[2], i);
  tn_dtype wide = tni_wide(tn_tensor_dtype(self));
  tn_tensor *w = tni_as(self, wide), *grad = gradient(g, item(&args[1], i), args[8].u.i, wide);
  double momentum = args[4].u.f;
  if (args[3].u.f != 0) grad = plus(grad, w, args[3].u.f);
  if (momentum != 0) {
    tn_tensor *old = tni_as(buffer, wide);
    tn_tensor *moving = args[9].u.i ? grad : plus(times(old, momentum), grad, 1 - args[6].u.f);
    store(g, buffer, moving);
    grad = args[7].u.i ? plus(grad, moving, momentum) : moving;
  }
  store(g, self, plus(w, grad, -args[5].u.f));
}

static void sgd(const tn_value *args) {
  guard g = guard_of(&args[10], &args[11]);
  for (uint32_t i = 0; i < args[0].count && tn_scope_status() == TN_OK; i++) sgd_one(&g, args, i);
}
TN_SCOPED_BODY0(fused_sgd, sgd)

/* ------------------------------------------------------------------ rmsprop */

/* args: self grads square_avgs grad_avgs momentum_buffer_list | weight_decay lr alpha eps momentum centered maximize
 * grad_scale found_inf */
static void rmsprop_one(const guard *g, const tn_value *args, uint32_t i) {
  tn_tensor *self = item(&args[0], i), *square = item(&args[2], i), *mean = item(&args[3], i);
  tn_dtype wide = tni_wide(tn_tensor_dtype(self));
  tn_tensor *w = tni_as(self, wide), *grad = gradient(g, item(&args[1], i), args[11].u.i, wide);
  double alpha = args[7].u.f, momentum = args[9].u.f;
  if (args[5].u.f != 0) grad = plus(grad, w, args[5].u.f);
  tn_tensor *spread = moved(tni_as(square, wide), tns_square(grad), alpha);
  store(g, square, spread);
  if (args[10].u.i) {
    tn_tensor *center = moved(tni_as(mean, wide), grad, alpha);
    store(g, mean, center);
    spread = tns_clamp_min(tns_sub(spread, tns_square(center), tn_int(1)), tn_int(0));
  }
  tn_tensor *change = tns_div(grad, tns_add_scalar(tns_sqrt(spread), tn_float(args[8].u.f), tn_int(1)));
  if (momentum != 0) {
    tn_tensor *buffer = item(&args[4], i);
    change = tns_add(times(tni_as(buffer, wide), momentum), change, tn_int(1));
    store(g, buffer, change);
  }
  store(g, self, plus(w, change, -args[6].u.f));
}

static void rmsprop(const tn_value *args) {
  guard g = guard_of(&args[12], &args[13]);
  for (uint32_t i = 0; i < args[0].count && tn_scope_status() == TN_OK; i++) rmsprop_one(&g, args, i);
}
TN_SCOPED_BODY0(fused_rmsprop, rmsprop)

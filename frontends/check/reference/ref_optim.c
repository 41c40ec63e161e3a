/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimiser steps, element by element, as their papers and PyTorch's documentation state them. All lists are
 * changed in place, so the harness compares every argument afterwards.
 */
#include <math.h>

#include "ref.h"

/* Argument positions of _fused_adam_ and _fused_adamw_. */
enum { A_LR = 6, A_BETA1, A_BETA2, A_DECAY, A_EPS, A_AMSGRAD, A_MAXIMIZE, A_SCALE, A_FOUND };

static bool stopped(const ref_call *c, int found_inf) {
  return ref_has(c, found_inf) && ref_t(c, found_inf)->p[0] != 0;
}

/* The gradient to use: unscaled (and written back so), then turned round if the sum is to grow. */
static double gradient(const ref_call *c, double *grad, int scale, int maximize) {
  if (ref_has(c, scale)) *grad /= ref_t(c, scale)->p[0];
  return ref_i(c, maximize) ? -*grad : *grad;
}

static void adam(ref_call *c, bool decoupled) {
  if (stopped(c, A_FOUND)) return;
  double lr = ref_f(c, A_LR), b1 = ref_f(c, A_BETA1), b2 = ref_f(c, A_BETA2), decay = ref_f(c, A_DECAY);
  for (int k = 0; k < c->args[0].n; k++) {
    double step = c->args[5].ts[k]->p[0];
    for (int64_t i = 0; i < c->args[0].ts[k]->numel; i++) {
      double *w = rt_at(c->args[0].ts[k], i), *m = rt_at(c->args[2].ts[k], i), *v = rt_at(c->args[3].ts[k], i);
      double g = gradient(c, rt_at(c->args[1].ts[k], i), A_SCALE, A_MAXIMIZE);
      if (decoupled) *w -= lr * decay * *w;
      else g += decay * *w;
      *m = b1 * *m + (1 - b1) * g;
      *v = b2 * *v + (1 - b2) * g * g;
      double second = *v;
      if (ref_i(c, A_AMSGRAD)) {
        double *top = rt_at(c->args[4].ts[k], i);
        *top = *top > *v ? *top : *v;
        second = *top;
      }
      *w -= lr / (1 - pow(b1, step)) * *m / (sqrt(second) / sqrt(1 - pow(b2, step)) + ref_f(c, A_EPS));
    }
  }
}
static void op_adam(ref_call *c) { adam(c, false); }
static void op_adamw(ref_call *c) { adam(c, true); }

/* Argument positions of _fused_sgd_. */
enum { S_DECAY = 3, S_MOMENTUM, S_LR, S_DAMPENING, S_NESTEROV, S_MAXIMIZE, S_FIRST, S_SCALE, S_FOUND };

static void op_sgd(ref_call *c) {
  if (stopped(c, S_FOUND)) return;
  double momentum = ref_f(c, S_MOMENTUM);
  for (int k = 0; k < c->args[0].n; k++) {
    for (int64_t i = 0; i < c->args[0].ts[k]->numel; i++) {
      double *w = rt_at(c->args[0].ts[k], i);
      double g = gradient(c, rt_at(c->args[1].ts[k], i), S_SCALE, S_MAXIMIZE) + ref_f(c, S_DECAY) * *w;
      if (momentum != 0) {
        double *buffer = rt_at(c->args[2].ts[k], i);
        *buffer = ref_i(c, S_FIRST) ? g : momentum * *buffer + (1 - ref_f(c, S_DAMPENING)) * g;
        g = ref_i(c, S_NESTEROV) ? g + momentum * *buffer : *buffer;
      }
      *w -= ref_f(c, S_LR) * g;
    }
  }
}

/* Argument positions of _fused_rmsprop_. */
enum { R_DECAY = 5, R_LR, R_ALPHA, R_EPS, R_MOMENTUM, R_CENTERED, R_MAXIMIZE, R_SCALE, R_FOUND };

static void op_rmsprop(ref_call *c) {
  if (stopped(c, R_FOUND)) return;
  double alpha = ref_f(c, R_ALPHA);
  for (int k = 0; k < c->args[0].n; k++) {
    for (int64_t i = 0; i < c->args[0].ts[k]->numel; i++) {
      double *w = rt_at(c->args[0].ts[k], i), *square = rt_at(c->args[2].ts[k], i);
      double g = gradient(c, rt_at(c->args[1].ts[k], i), R_SCALE, R_MAXIMIZE) + ref_f(c, R_DECAY) * *w;
      *square = alpha * *square + (1 - alpha) * g * g;
      double spread = *square;
      if (ref_i(c, R_CENTERED)) {
        double *mean = rt_at(c->args[3].ts[k], i);
        *mean = alpha * *mean + (1 - alpha) * g;
        spread -= *mean * *mean;
      }
      g /= sqrt(spread > 0 ? spread : 0) + ref_f(c, R_EPS);
      if (ref_f(c, R_MOMENTUM) != 0) {
        double *buffer = rt_at(c->args[4].ts[k], i);
        g = *buffer = ref_f(c, R_MOMENTUM) * *buffer + g;
      }
      *w -= ref_f(c, R_LR) * g;
    }
  }
}

const ref_entry ref_optim[] = {
    {"_fused_adam_", op_adam},
    {"_fused_adamw_", op_adamw},
    {"_fused_rmsprop_", op_rmsprop},
    {"_fused_sgd_", op_sgd},
    {NULL, NULL},
};

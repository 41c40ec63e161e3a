/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused optimiser steps (device/optim.h), a launch for each parameter. Step numbers, grad_scale and found_inf are read on the
 * device: a step waits for nothing.
 */
#include <math.h>

#include "plugins/gpu/gpu.h"

enum { ADAM, SGD, RMSPROP }; /* as device/optim.h numbers them */
enum { ARRAYS = 5, NUMBERS = 14 };

typedef struct optim {
  uint8_t kind;
  bool amsgrad, momentum, centered;
  const tn_view *scale, *found; /* NULL: absent */
  double numbers[NUMBERS];      /* in step_t's order */
  const tn_view *views[ARRAYS]; /* of the parameter at hand; NULL: absent */
  const tn_view *count;
} optim;

/* step_t */
enum { LR, DECAY, EPS, SIGN, BETA1, REST1, LOG1, BETA2, REST2, LOG2, KEEP, MOMENTUM, FRESH, AHEAD };

static uint8_t type_of(const tn_view *v) { return v ? v->dtype : TN_FLOAT32; }

static void write_defines(gpu_defines *d, const void *ctx) {
  static const char *const names[] = {"adam", "sgd", "rmsprop"};
  const optim *o = ctx;
  gpu_define(d, "#define NAME %s_%s\n#define KIND %d\n", names[o->kind], gpu_type_name(o->views[0]->dtype),
             o->kind);
  gpu_define(d, "#define AMSGRAD %d\n#define MOMENTUM %d\n#define CENTERED %d\n", o->amsgrad, o->momentum,
             o->centered);
  gpu_define(d, "#define SCALED %d\n#define FOUND %d\n#define FROM_FLOAT 1\n", o->scale != NULL,
             o->found != NULL);
  gpu_define(d, "#define T MEM(%s)\n#define T0 %s\n", gpu_type_name(gpu_compute_type(o->views[0]->dtype)),
             gpu_type_name(o->views[0]->dtype));
  gpu_define(d, "#define TS %s\n#define TG %s\n#define TF %s\n", gpu_type_name(type_of(o->count)),
             gpu_type_name(type_of(o->scale)), gpu_type_name(type_of(o->found)));
}

static const tn_view *item(const tn_value *list, uint32_t i) {
  return i < list->count ? list->u.vs[i] : NULL;
}

/* The geometry of one parameter, or why another provider has to do the step. */
static tn_status geometry_of(const tn_call *call, const optim *o, gpu_geometry *g) {
  const tn_view *views[ARRAYS], *others[] = {o->count, o->scale, o->found};
  gpu_caps caps;
  TN_TRY(gpu_caps_of(call, &caps));
  for (int k = 0; k < ARRAYS; ++k) {
    views[k] = o->views[k] ? o->views[k] : o->views[0];
    if (views[k]->dtype != views[0]->dtype) return TN_DECLINED;
  }
  for (int k = 0; k < 3; ++k) {
    if (!others[k]) continue;
    if (others[k]->backend != call->device.backend || others[k]->device_index != call->device.index)
      return TN_DECLINED;
    if (!gpu_type_fits(others[k]->dtype, &caps)) return TN_DECLINED;
  }
  if (!gpu_type_fits(views[0]->dtype, &caps)) return TN_DECLINED;
  TN_TRY(gpu_geometry_make(g, views[0]->ndim, views[0]->sizes, ARRAYS, views, false));
  return g->ndim > GPU_RANK ? TN_DECLINED : TN_OK;
}

static tn_status get_kernel(const tn_call *call, const optim *o, void **out_kernel) {
  gpu_key key = {.family = GPU_OPTIM,
                 .flags = {o->kind, (uint8_t)(o->amsgrad | o->momentum << 1 | o->centered << 2),
                           (uint8_t)((o->scale != NULL) | (o->found != NULL) << 1)},
                 .device = (uint16_t)call->device.index,
                 .types = {o->views[0]->dtype, type_of(o->count), type_of(o->scale), type_of(o->found)}};
  return gpu_kernel_get(&key, write_defines, o, out_kernel);
}

static tn_status launch(const tn_call *call, const optim *o, const gpu_geometry *g) {
  int64_t words[3 + GPU_RANK * (1 + ARRAYS)] = {0, g->numel, g->ndim},
                                    *end = gpu_geometry_sizes(g, words + 3);
  const bool wide = o->views[0]->dtype == TN_FLOAT64;
  float singles[NUMBERS];
  void *kernel;
  gpu_args args = {.n = 0};
  for (uint32_t k = 0; k < ARRAYS; ++k) end = gpu_geometry_strides(g, k, end);
  for (int k = 0; k < NUMBERS; ++k) singles[k] = (float)o->numbers[k];
  for (int k = 0; k < ARRAYS; ++k)
    gpu_arg_place(&args, (o->views[k] ? o->views[k] : o->views[0])->mem, g->at[k]);
  TN_TRY(gpu_arg_view(&args, o->count));
  TN_TRY(gpu_arg_view(&args, o->scale));
  TN_TRY(gpu_arg_view(&args, o->found));
  gpu_arg_bytes(&args, words, sizeof words);
  gpu_arg_bytes(&args, wide ? (const void *)o->numbers : singles, wide ? sizeof o->numbers : sizeof singles);
  TN_TRY(get_kernel(call, o, &kernel));
  return gpu_launch_items(call, kernel, g->numel, &args);
}

/* lists: param, grad, states (NULL: not used); counts: state_steps or NULL. Declines before the first launch. */
static tn_status run(tn_call *call, optim *o, const tn_value *const *lists, const tn_value *counts) {
  gpu_geometry g;
  for (int pass = 0; pass < 2; ++pass)
    for (uint32_t i = 0; i < lists[0]->count; ++i) {
      for (int k = 0; k < ARRAYS; ++k) o->views[k] = lists[k] ? item(lists[k], i) : NULL;
      o->count = counts ? item(counts, i) : NULL;
      if (o->views[0]->numel == 0) continue;
      TN_TRY(geometry_of(call, o, &g));
      if (pass == 1) TN_TRY(launch(call, o, &g));
    }
  return TN_OK;
}

/* args: self grads exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps | lr beta1 beta2 weight_decay eps
 * amsgrad maximize grad_scale found_inf */
static tn_status fused_adam(tn_call *call, const tn_value *args, bool decoupled) {
  const double lr = gpu_double(&args[6], 0), beta1 = gpu_double(&args[7], 0), beta2 = gpu_double(&args[8], 0);
  const double decay = gpu_double(&args[9], 0);
  optim o = {.kind = ADAM,
             .amsgrad = gpu_int(&args[11], 0) != 0,
             .scale = gpu_view(&args[13]),
             .found = gpu_view(&args[14]),
             .numbers = {[LR] = lr,
                         [DECAY] = decoupled ? 0 : decay,
                         [EPS] = gpu_double(&args[10], 0),
                         [SIGN] = gpu_int(&args[12], 0) != 0 ? -1 : 1,
                         [BETA1] = beta1,
                         [REST1] = 1 - beta1,
                         [LOG1] = log(beta1),
                         [BETA2] = beta2,
                         [REST2] = 1 - beta2,
                         [LOG2] = log(beta2),
                         [KEEP] = decoupled ? 1 - lr * decay : 1}};
  const tn_value *lists[ARRAYS] = {&args[0], &args[1], &args[2], &args[3], o.amsgrad ? &args[4] : NULL};
  return run(call, &o, lists, &args[5]);
}
tn_status gpu_op_fused_adam(tn_call *call, const tn_value *args, tn_value *out) {
  return fused_adam(call, args, false);
}
tn_status gpu_op_fused_adamw(tn_call *call, const tn_value *args, tn_value *out) {
  return fused_adam(call, args, true);
}

/* args: self grads momentum_buffer_list | weight_decay momentum lr dampening nesterov maximize is_first_step
 * grad_scale found_inf */
tn_status gpu_op_fused_sgd(tn_call *call, const tn_value *args, tn_value *out) {
  const double momentum = gpu_double(&args[4], 0);
  const bool first = gpu_int(&args[9], 0) != 0, nesterov = gpu_int(&args[7], 0) != 0;
  optim o = {.kind = SGD,
             .momentum = momentum != 0,
             .scale = gpu_view(&args[10]),
             .found = gpu_view(&args[11]),
             .numbers = {[LR] = gpu_double(&args[5], 0),
                         [DECAY] = gpu_double(&args[3], 0),
                         [SIGN] = gpu_int(&args[8], 0) != 0 ? -1 : 1,
                         [MOMENTUM] = first ? 0 : momentum,
                         [FRESH] = first ? 1 : 1 - gpu_double(&args[6], 0),
                         [AHEAD] = nesterov ? momentum : 0}};
  const tn_value *lists[ARRAYS] = {&args[0], &args[1], o.momentum ? &args[2] : NULL};
  return run(call, &o, lists, NULL);
}

/* args: self grads square_avgs grad_avgs momentum_buffer_list | weight_decay lr alpha eps momentum centered maximize
 * grad_scale found_inf */
tn_status gpu_op_fused_rmsprop(tn_call *call, const tn_value *args, tn_value *out) {
  const double alpha = gpu_double(&args[7], 0), momentum = gpu_double(&args[9], 0);
  optim o = {.kind = RMSPROP,
             .momentum = momentum != 0,
             .centered = gpu_int(&args[10], 0) != 0,
             .scale = gpu_view(&args[12]),
             .found = gpu_view(&args[13]),
             .numbers = {[LR] = gpu_double(&args[6], 0),
                         [DECAY] = gpu_double(&args[5], 0),
                         [EPS] = gpu_double(&args[8], 0),
                         [SIGN] = gpu_int(&args[11], 0) != 0 ? -1 : 1,
                         [BETA2] = alpha,
                         [REST2] = 1 - alpha,
                         [MOMENTUM] = momentum}};
  const tn_value *lists[ARRAYS] = {&args[0], &args[1], &args[2], o.centered ? &args[3] : NULL,
                                   o.momentum ? &args[4] : NULL};
  return run(call, &o, lists, NULL);
}

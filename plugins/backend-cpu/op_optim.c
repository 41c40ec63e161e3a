/* SPDX-License-Identifier: Apache-2.0
 *
 * _fused_adam_, _fused_adamw_, _fused_sgd_, _fused_rmsprop_: one pass over each parameter. Halves and strided tensors go
 * through float32 copies in scratch, so the loops (per-isa/optim.c) see contiguous float32 or float64
 * only.
 *
 * state_steps hold the step number, already counted up by the caller (as in ATen). grad_scale divides the
 * gradients (they are scaled by a gradient scaler), and the quotients are written back, as in ATen; found_inf not 0
 * skips the whole step.
 */
#include <math.h>

#include "plugins/backend-cpu/cpu.h"

enum { ARRAYS = 5 }; /* param, grad, and up to three states */

/* One tensor's arrays as the loop gets them. */
typedef struct arrays {
  const tn_view *views[ARRAYS]; /* NULL: absent */
  char *data[ARRAYS];
  tn_dtype dtype; /* float32 or float64 */
  double divisor; /* of the gradient; 1: it is left as it is */
} arrays;

static tn_status load_arrays(tn_call *call, arrays *a) {
  a->dtype = cpu_wide(a->views[0]->dtype);
  for (int k = 0; k < ARRAYS; ++k) {
    const void *data = NULL;
    if (a->views[k]) TN_TRY(cpu_contiguous_data(call, a->views[k], a->dtype, &data));
    a->data[k] = (char *)(uintptr_t)data;
  }
  return TN_OK;
}

/* Copies back what the loop wrote into scratch. The gradient (1) is written only where it is divided. */
static tn_status store_arrays(const arrays *a) {
  for (int k = 0; k < ARRAYS; ++k) {
    const tn_view *v = a->views[k];
    if ((k == 1 && a->divisor == 1) || !v || v->data == a->data[k]) continue;
    cpu_local copy;
    cpu_local_contiguous(&copy, a->data[k], a->dtype, v->ndim, v->sizes);
    TN_TRY(cpu_copy(v, &copy.view));
  }
  return TN_OK;
}

typedef struct step_job {
  const arrays *a;
  cpu_step step;
  bool adam;
} step_job;

static void divide(const arrays *a, char *grad, int64_t n) {
  if (a->divisor == 1) return;
  if (a->dtype == TN_FLOAT32) {
    float *g = (float *)(void *)grad, divisor = (float)a->divisor;
    for (int64_t i = 0; i < n; ++i) g[i] /= divisor;
  } else {
    double *g = (double *)(void *)grad;
    for (int64_t i = 0; i < n; ++i) g[i] /= a->divisor;
  }
}

static tn_status step_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const step_job *job = ctx;
  const arrays *a = job->a;
  size_t size = tn_kit_dtype_size(a->dtype), offset = (size_t)begin * size;
  char *p[ARRAYS];
  for (int k = 0; k < ARRAYS; ++k) p[k] = a->data[k] ? a->data[k] + offset : NULL;
  bool single = a->dtype == TN_FLOAT32;
  divide(a, p[1], end - begin);
  if (job->adam)
    (single ? cpu_now->adam_f32 : cpu_now->adam_f64)(&job->step, p[0], p[1], p[2], p[3], p[4], end - begin);
  else
    (single ? cpu_now->sgd_f32 : cpu_now->sgd_f64)(&job->step, p[0], p[1], p[2], end - begin);
  return TN_OK;
}

/* Room for the arrays of all parameters. Everything that can run out of memory happens before the first
 * parameter is written: a failed step leaves all of them as they were. */
static tn_status arrays_new(tn_call *call, uint32_t n, arrays **out_all) {
  tn_memory memory;
  TN_TRY(tn_kit_host()->scratch(call, n * sizeof **out_all, &memory));
  *out_all = memory.address;
  return TN_OK;
}

static tn_status run_step(arrays *a, const cpu_step *step, bool adam) {
  if (a->views[0]->numel == 0) return TN_OK;
  step_job job = {a, *step, adam};
  TN_TRY(tn_kit_host()->parallel_for(a->views[0]->numel, CPU_GRAIN_HEAVY, step_chunk, &job));
  return store_arrays(a);
}

/* Is this step to be skipped, and by what are gradients divided? */
static bool scaling(const tn_value *grad_scale, const tn_value *found_inf, double *out_divisor) {
  const tn_view *scale = cpu_view(grad_scale), *found = cpu_view(found_inf);
  *out_divisor = scale ? cpu_get_double(scale->data, scale->dtype) : 1;
  return found && cpu_get_double(found->data, found->dtype) != 0;
}

static const tn_view *item(const tn_value *list, uint32_t i) {
  return i < list->count ? list->u.vs[i] : NULL;
}

/* args: self grads exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps | lr beta1 beta2 weight_decay eps
 * amsgrad maximize grad_scale found_inf */
static tn_status fused_adam(tn_call *call, const tn_value *args, bool decoupled) {
  cpu_step s = {.lr = cpu_double(&args[6], 0),
                .beta1 = cpu_double(&args[7], 0),
                .beta2 = cpu_double(&args[8], 0),
                .weight_decay = cpu_double(&args[9], 0),
                .eps = cpu_double(&args[10], 0),
                .decoupled = decoupled,
                .amsgrad = cpu_int(&args[11], 0) != 0};
  double divisor;
  s.grad_scale = cpu_int(&args[12], 0) != 0 ? -1 : 1;
  if (scaling(&args[13], &args[14], &divisor)) return TN_OK;
  arrays *all;
  TN_TRY(arrays_new(call, args[0].count, &all));
  for (uint32_t i = 0; i < args[0].count; ++i) {
    all[i] = (arrays){.views = {item(&args[0], i), item(&args[1], i), item(&args[2], i), item(&args[3], i),
                                s.amsgrad ? item(&args[4], i) : NULL},
                      .divisor = divisor};
    TN_TRY(load_arrays(call, &all[i]));
  }
  for (uint32_t i = 0; i < args[0].count; ++i) {
    const tn_view *steps = args[5].u.vs[i];
    double t = cpu_get_double(steps->data, steps->dtype);
    s.correction1 = 1 - pow(s.beta1, t);
    s.correction2_sqrt = sqrt(1 - pow(s.beta2, t));
    TN_TRY(run_step(&all[i], &s, true));
  }
  return TN_OK;
}

tn_status cpu_op_fused_adam(tn_call *call, const tn_value *args, tn_value *out) {
  return fused_adam(call, args, false);
}
tn_status cpu_op_fused_adamw(tn_call *call, const tn_value *args, tn_value *out) {
  return fused_adam(call, args, true);
}

/* args: self grads momentum_buffer_list | weight_decay momentum lr dampening nesterov maximize
 * is_first_step grad_scale found_inf */
tn_status cpu_op_fused_sgd(tn_call *call, const tn_value *args, tn_value *out) {
  cpu_step s = {.weight_decay = cpu_double(&args[3], 0),
                .momentum = cpu_double(&args[4], 0),
                .lr = cpu_double(&args[5], 0),
                .dampening = cpu_double(&args[6], 0),
                .nesterov = cpu_int(&args[7], 0) != 0,
                .first = cpu_int(&args[9], 0) != 0};
  s.no_momentum = s.momentum == 0;
  double divisor;
  s.grad_scale = cpu_int(&args[8], 0) != 0 ? -1 : 1;
  if (scaling(&args[10], &args[11], &divisor)) return TN_OK;
  arrays *all;
  TN_TRY(arrays_new(call, args[0].count, &all));
  for (uint32_t i = 0; i < args[0].count; ++i) {
    all[i] =
        (arrays){.views = {item(&args[0], i), item(&args[1], i), s.no_momentum ? NULL : item(&args[2], i)},
                 .divisor = divisor};
    TN_TRY(load_arrays(call, &all[i]));
  }
  for (uint32_t i = 0; i < args[0].count; ++i) TN_TRY(run_step(&all[i], &s, false));
  return TN_OK;
}

static tn_status rmsprop_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const step_job *job = ctx;
  const arrays *a = job->a;
  size_t offset = (size_t)begin * tn_kit_dtype_size(a->dtype);
  char *p[ARRAYS];
  for (int k = 0; k < ARRAYS; ++k) p[k] = a->data[k] ? a->data[k] + offset : NULL;
  bool single = a->dtype == TN_FLOAT32;
  divide(a, p[1], end - begin);
  (single ? cpu_now->rmsprop_f32 : cpu_now->rmsprop_f64)(&job->step, p[0], p[1], p[2], p[3], p[4],
                                                         end - begin);
  return TN_OK;
}

/* args: self grads square_avgs grad_avgs momentum_buffer_list | weight_decay lr alpha eps momentum centered maximize
 * grad_scale found_inf */
tn_status cpu_op_fused_rmsprop(tn_call *call, const tn_value *args, tn_value *out) {
  cpu_step s = {.weight_decay = cpu_double(&args[5], 0),
                .lr = cpu_double(&args[6], 0),
                .beta2 = cpu_double(&args[7], 0),
                .eps = cpu_double(&args[8], 0),
                .momentum = cpu_double(&args[9], 0)};
  s.no_momentum = s.momentum == 0;
  bool centered = cpu_int(&args[10], 0) != 0;
  double divisor;
  s.grad_scale = cpu_int(&args[11], 0) != 0 ? -1 : 1;
  if (scaling(&args[12], &args[13], &divisor)) return TN_OK;
  arrays *all;
  TN_TRY(arrays_new(call, args[0].count, &all));
  for (uint32_t i = 0; i < args[0].count; ++i) {
    all[i] =
        (arrays){.views = {item(&args[0], i), item(&args[1], i), item(&args[2], i),
                           centered ? item(&args[3], i) : NULL, s.no_momentum ? NULL : item(&args[4], i)},
                 .divisor = divisor};
    TN_TRY(load_arrays(call, &all[i]));
  }
  for (uint32_t i = 0; i < args[0].count; ++i) {
    step_job job = {&all[i], s, false};
    if (all[i].views[0]->numel == 0) continue;
    TN_TRY(tn_kit_host()->parallel_for(all[i].views[0]->numel, CPU_GRAIN_HEAVY, rmsprop_chunk, &job));
    TN_TRY(store_arrays(&all[i]));
  }
  return TN_OK;
}

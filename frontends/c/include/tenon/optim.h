/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimisers, gradient clipping and learning-rate schedules. An optimiser holds groups of parameters, each
 * with options of its own; a step is one fused operator call per group. Formulas are PyTorch's. One thread at
 * a time per optimiser.
 */
#ifndef TENON_OPTIM_H
#define TENON_OPTIM_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_optimizer tn_optimizer;

typedef struct tn_sgd_options {
  double lr;
  double momentum;
  double dampening;
  double weight_decay;
  bool nesterov; /* needs momentum > 0 and no dampening */
  bool maximize;
} tn_sgd_options;
static inline tn_sgd_options tn_sgd_defaults(void) {
  tn_sgd_options o = {.lr = 1e-3};
  return o;
}

typedef struct tn_adam_options {
  double lr;
  double beta1, beta2;
  double eps;
  double weight_decay; /* Adam: added to the gradient; AdamW: decoupled */
  bool amsgrad;
  bool maximize;
} tn_adam_options;
static inline tn_adam_options tn_adam_defaults(void) {
  tn_adam_options o = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
  return o;
}
static inline tn_adam_options tn_adamw_defaults(void) {
  tn_adam_options o = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 1e-2};
  return o;
}

typedef struct tn_rmsprop_options {
  double lr;
  double alpha; /* the share that the mean of squared gradients keeps in a step */
  double eps;   /* added to the root */
  double weight_decay;
  double momentum;
  bool centered; /* by the variance of the gradients instead of their mean square */
  bool maximize;
} tn_rmsprop_options;
static inline tn_rmsprop_options tn_rmsprop_defaults(void) {
  tn_rmsprop_options o = {.lr = 1e-2, .alpha = 0.99, .eps = 1e-8};
  return o;
}

/* ------------------------------------------------------------------ optimisers */

/* The first group. Parameters are shared: leaves of a floating dtype. options NULL: the defaults above. A
 * value out of range is an error that names it. */
TN_EXPORT tn_status tn_sgd_new(tn_tensor *const *parameters, size_t n, const tn_sgd_options *options,
                               tn_optimizer **out_optimizer);
TN_EXPORT tn_status tn_adam_new(tn_tensor *const *parameters, size_t n, const tn_adam_options *options,
                                tn_optimizer **out_optimizer);
TN_EXPORT tn_status tn_adamw_new(tn_tensor *const *parameters, size_t n, const tn_adam_options *options,
                                 tn_optimizer **out_optimizer);
TN_EXPORT tn_status tn_rmsprop_new(tn_tensor *const *parameters, size_t n, const tn_rmsprop_options *options,
                                   tn_optimizer **out_optimizer);
TN_EXPORT void tn_optimizer_release(tn_optimizer *optimizer); /* NULL is allowed */
/* Further groups; the optimiser must be of that kind, and no parameter may be in two groups. */
TN_EXPORT tn_status tn_sgd_add_group(tn_optimizer *optimizer, tn_tensor *const *parameters, size_t n,
                                     const tn_sgd_options *options);
TN_EXPORT tn_status tn_adam_add_group(tn_optimizer *optimizer, tn_tensor *const *parameters, size_t n,
                                      const tn_adam_options *options);
TN_EXPORT tn_status tn_rmsprop_add_group(tn_optimizer *optimizer, tn_tensor *const *parameters, size_t n,
                                         const tn_rmsprop_options *options);
TN_EXPORT size_t tn_optimizer_group_count(const tn_optimizer *optimizer);
TN_EXPORT tn_status tn_optimizer_lr(const tn_optimizer *optimizer, size_t group, double *out_lr);
TN_EXPORT tn_status tn_optimizer_set_lr(tn_optimizer *optimizer, size_t group, double lr);

/* Sets every gradient to none. */
TN_EXPORT tn_status tn_optimizer_zero_grad(tn_optimizer *optimizer);
/* Updates every parameter that has a gradient; the others keep value and state. The state of all groups is made
 * before the first parameter is written, so that running out of memory there changes nothing: with room again the
 * same step can be made. */
TN_EXPORT tn_status tn_optimizer_step(tn_optimizer *optimizer);

/* "group.0.lr", ... as numbers, "state.3.exp_avg", ... as tensors that share memory with the optimiser;
 * parameters are numbered through all groups. */
TN_EXPORT tn_status tn_optimizer_state_dict(tn_optimizer *optimizer, tn_state_dict **out_dict);
/* Needs the same kind, groups and parameter shapes; on failure of those checks nothing changed. */
TN_EXPORT tn_status tn_optimizer_load_state_dict(tn_optimizer *optimizer, const tn_state_dict *dict);

/* ------------------------------------------------------------------ clipping */

/* Scales all gradients so that their joint p-norm (p > 0; INFINITY: the largest magnitude) is at most
 * max_norm. *out_norm (may be NULL) is the norm before. A norm that is not finite is TN_ERR_DATA if
 * error_if_nonfinite; gradients are then unchanged. */
TN_EXPORT tn_status tn_clip_grad_norm(tn_tensor *const *parameters, size_t n, double max_norm, double p,
                                      bool error_if_nonfinite, double *out_norm);
/* Clamps every gradient into [-limit, limit]. */
TN_EXPORT tn_status tn_clip_grad_value(tn_tensor *const *parameters, size_t n, double limit);

/* ------------------------------------------------------------------ schedules */

/* A schedule is a function of (initial rate, step number); it keeps no position, so resuming needs the step
 * number only. Parts of a composed schedule are consumed, also on failure; a NULL part is an error. */
typedef struct tn_schedule tn_schedule;
typedef double (*tn_schedule_fn)(void *ctx, double initial_lr, int64_t step);
TN_EXPORT tn_status tn_schedule_new(tn_schedule_fn fn, void *ctx, void (*free_ctx)(void *),
                                    tn_schedule **out_schedule); /* ctx consumed */
TN_EXPORT void tn_schedule_release(tn_schedule *schedule);       /* NULL is allowed */
/* lr * gamma ^ floor(step / every) */
TN_EXPORT tn_status tn_schedule_step_new(int64_t every, double gamma, tn_schedule **out_schedule);
/* lr * gamma ^ step */
TN_EXPORT tn_status tn_schedule_exponential_new(double gamma, tn_schedule **out_schedule);
/* From lr down to min_lr over `steps` along half a cosine; min_lr from there on. */
TN_EXPORT tn_status tn_schedule_cosine_new(int64_t steps, double min_lr, tn_schedule **out_schedule);
/* lr * a line from `from` to `to` over `steps`; `to` from there on. */
TN_EXPORT tn_status tn_schedule_linear_new(double from, double to, int64_t steps, tn_schedule **out_schedule);
/* second gets first's rate as its initial one: factors multiply. */
TN_EXPORT tn_status tn_schedule_chain_new(tn_schedule *first, tn_schedule *second,
                                          tn_schedule **out_schedule);
/* first up to step `at`, then second, counting from 0 again (warm-up, then cosine). */
TN_EXPORT tn_status tn_schedule_then_new(tn_schedule *first, int64_t at, tn_schedule *second,
                                         tn_schedule **out_schedule);
TN_EXPORT double tn_schedule_lr(const tn_schedule *schedule, double initial_lr, int64_t step);
/* Sets each group's rate from the rate that it was made with. */
TN_EXPORT tn_status tn_schedule_apply(const tn_schedule *schedule, tn_optimizer *optimizer, int64_t step);

#ifdef __cplusplus
}
#endif
#endif

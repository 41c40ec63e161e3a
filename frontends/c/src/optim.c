/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimisers: parameter groups, the step loop, and the public constructors. The kinds themselves are in
 * optim_kinds.c, their state dicts in optim_state.c.
 */
#include "frontends/c/src/optim_int.h"

tn_status tni_nn_options_check(const tni_nn_kind *kind, const tni_nn_options *options) {
  for (const tni_nn_field *f = kind->fields; f->name; f++) {
    double value = tni_nn_field_get(f, options);
    if (!(value >= f->low && (value < f->high || f->is_bool)))
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: %s must be in [%g, %g), not %g", kind->name, f->name,
                     f->low, f->high, value);
  }
  return kind->check ? kind->check(options) : TN_OK;
}

void tn_optimizer_release(tn_optimizer *optimizer) {
  if (!optimizer) return;
  for (size_t i = 0; i < optimizer->n_params; i++) {
    tni_nn_param *p = &optimizer->params[i];
    for (int s = 0; s < TNI_NN_SLOTS; s++) tn_tensor_release(p->slots[s]);
    tn_tensor_release(p->step_tensor);
    tn_tensor_release(p->tensor);
  }
  for (int l = 0; l < 3 + TNI_NN_SLOTS; l++) free(optimizer->lists[l]);
  free(optimizer->params);
  free(optimizer->groups);
  free(optimizer);
}

/* ------------------------------------------------------------------ groups */

static tn_status check_parameters(const tn_optimizer *o, tn_tensor *const *parameters, size_t n) {
  if (n == 0)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: a group needs at least one parameter", o->kind->name);
  TN_TRY(tni_nn_not_null(parameters, "the parameter list"));
  for (size_t i = 0; i < n; i++) {
    tn_tensor *t = parameters[i];
    if (!t) return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: parameter %zu is NULL", o->kind->name, i);
    if (!tni_nn_is_floating(t))
      return tn_fail(TN_ERR_DTYPE, "%s: parameter %zu is %s; a floating dtype was expected", o->kind->name, i,
                     tn_dtype_name(tn_tensor_dtype(t)));
    if (!tn_is_leaf(t))
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: parameter %zu is the result of %s; a leaf was expected",
                     o->kind->name, i, tn_grad_fn_name(t, NULL));
    for (size_t k = 0; k < i; k++)
      if (parameters[k] == t)
        return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: parameters %zu and %zu are the same", o->kind->name, k,
                       i);
    for (size_t k = 0; k < o->n_params; k++)
      if (o->params[k].tensor == t)
        return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: parameter %zu is in another group already",
                       o->kind->name, i);
  }
  return TN_OK;
}

/* The argument lists get room for every parameter now, so that a step allocates state only. */
static tn_status widen_lists(tn_optimizer *o, size_t n) {
  for (int l = 0; l < 3 + TNI_NN_SLOTS; l++) {
    void *p = realloc(o->lists[l], n * sizeof(tn_tensor *));
    if (!p) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu parameters of an optimiser", n);
    o->lists[l] = p;
  }
  return TN_OK;
}

static tn_status widen_params(tn_optimizer *o, size_t n) {
  if (n <= o->params_capacity) return TN_OK;
  tni_nn_param *p = realloc(o->params, n * sizeof *p);
  if (!p) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu parameters of an optimiser", n);
  o->params = p;
  o->params_capacity = n;
  return TN_OK;
}

static tn_status add_group(tn_optimizer *o, tn_tensor *const *parameters, size_t n,
                           const tni_nn_options *options) {
  TN_TRY(tni_nn_options_check(o->kind, options));
  TN_TRY(check_parameters(o, parameters, n));
  TN_TRY(tni_nn_grow(&o->groups, &o->groups_capacity, o->n_groups, sizeof *o->groups, "parameter groups"));
  TN_TRY(widen_params(o, o->n_params + n));
  TN_TRY(widen_lists(o, o->n_params + n));
  o->groups[o->n_groups++] =
      (tni_nn_group){*options, tni_nn_field_get(o->kind->fields, options), o->n_params, n};
  for (size_t i = 0; i < n; i++)
    o->params[o->n_params++] = (tni_nn_param){.tensor = tn_tensor_retain(parameters[i])};
  return TN_OK;
}

static tn_status make(const tni_nn_kind *kind, tn_tensor *const *parameters, size_t n,
                      const tni_nn_options *options, tn_optimizer **out_optimizer) {
  *out_optimizer = NULL;
  tn_optimizer *o = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *o, "an optimiser", &o));
  o->kind = kind;
  tn_status status = add_group(o, parameters, n, options);
  if (status != TN_OK) {
    tn_optimizer_release(o);
    return status;
  }
  *out_optimizer = o;
  return TN_OK;
}

static tni_nn_options sgd_options(const tn_sgd_options *o) {
  return (tni_nn_options){.sgd = o ? *o : tn_sgd_defaults()};
}

tn_status tn_sgd_new(tn_tensor *const *parameters, size_t n, const tn_sgd_options *options,
                     tn_optimizer **out_optimizer) {
  tni_nn_options o = sgd_options(options);
  return make(&tni_nn_sgd, parameters, n, &o, out_optimizer);
}

tn_status tn_adam_new(tn_tensor *const *parameters, size_t n, const tn_adam_options *options,
                      tn_optimizer **out_optimizer) {
  tni_nn_options o = {.adam = options ? *options : tn_adam_defaults()};
  return make(&tni_nn_adam, parameters, n, &o, out_optimizer);
}

tn_status tn_adamw_new(tn_tensor *const *parameters, size_t n, const tn_adam_options *options,
                       tn_optimizer **out_optimizer) {
  tni_nn_options o = {.adam = options ? *options : tn_adamw_defaults()};
  return make(&tni_nn_adamw, parameters, n, &o, out_optimizer);
}

tn_status tn_rmsprop_new(tn_tensor *const *parameters, size_t n, const tn_rmsprop_options *options,
                         tn_optimizer **out_optimizer) {
  tni_nn_options o = {.rmsprop = options ? *options : tn_rmsprop_defaults()};
  return make(&tni_nn_rmsprop, parameters, n, &o, out_optimizer);
}

tn_status tn_sgd_add_group(tn_optimizer *optimizer, tn_tensor *const *parameters, size_t n,
                           const tn_sgd_options *options) {
  TN_TRY(tni_nn_not_null(optimizer, "the optimiser"));
  if (optimizer->kind != &tni_nn_sgd)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "an SGD optimiser was expected, %s came", optimizer->kind->name);
  tni_nn_options o = sgd_options(options);
  return add_group(optimizer, parameters, n, &o);
}

tn_status tn_adam_add_group(tn_optimizer *optimizer, tn_tensor *const *parameters, size_t n,
                            const tn_adam_options *options) {
  TN_TRY(tni_nn_not_null(optimizer, "the optimiser"));
  if (optimizer->kind != &tni_nn_adam && optimizer->kind != &tni_nn_adamw)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "an Adam or AdamW optimiser was expected, %s came",
                   optimizer->kind->name);
  bool decoupled = optimizer->kind == &tni_nn_adamw;
  tni_nn_options o = {.adam = options ? *options : decoupled ? tn_adamw_defaults() : tn_adam_defaults()};
  return add_group(optimizer, parameters, n, &o);
}

tn_status tn_rmsprop_add_group(tn_optimizer *optimizer, tn_tensor *const *parameters, size_t n,
                               const tn_rmsprop_options *options) {
  TN_TRY(tni_nn_not_null(optimizer, "the optimiser"));
  if (optimizer->kind != &tni_nn_rmsprop)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "an RMSprop optimiser was expected, %s came",
                   optimizer->kind->name);
  tni_nn_options o = {.rmsprop = options ? *options : tn_rmsprop_defaults()};
  return add_group(optimizer, parameters, n, &o);
}

/* ------------------------------------------------------------------ learning rate */

size_t tn_optimizer_group_count(const tn_optimizer *optimizer) { return optimizer ? optimizer->n_groups : 0; }

static tn_status check_group(const tn_optimizer *o, size_t group) {
  TN_TRY(tni_nn_not_null(o, "the optimiser"));
  if (group < o->n_groups) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: group %zu was asked for; there are %zu", o->kind->name, group,
                 o->n_groups);
}

tn_status tn_optimizer_lr(const tn_optimizer *optimizer, size_t group, double *out_lr) {
  TN_TRY(check_group(optimizer, group));
  *out_lr = tni_nn_field_get(optimizer->kind->fields, &optimizer->groups[group].options);
  return TN_OK;
}

tn_status tn_optimizer_set_lr(tn_optimizer *optimizer, size_t group, double lr) {
  TN_TRY(check_group(optimizer, group));
  tni_nn_options o = optimizer->groups[group].options;
  memcpy((char *)&o + optimizer->kind->fields->offset, &lr, sizeof lr);
  TN_TRY(tni_nn_options_check(optimizer->kind, &o));
  optimizer->groups[group].options = o;
  return TN_OK;
}

tn_status tn_schedule_apply(const tn_schedule *schedule, tn_optimizer *optimizer, int64_t step) {
  TN_TRY(tni_nn_not_null(schedule, "the schedule"));
  TN_TRY(tni_nn_not_null(optimizer, "the optimiser"));
  for (size_t g = 0; g < optimizer->n_groups; g++)
    TN_TRY(
        tn_optimizer_set_lr(optimizer, g, tn_schedule_lr(schedule, optimizer->groups[g].initial_lr, step)));
  return TN_OK;
}

/* ------------------------------------------------------------------ step */

tn_status tn_optimizer_zero_grad(tn_optimizer *optimizer) {
  TN_TRY(tni_nn_not_null(optimizer, "the optimiser"));
  for (size_t i = 0; i < optimizer->n_params; i++) TN_TRY(tn_set_grad(optimizer->params[i].tensor, NULL));
  return TN_OK;
}

tn_status tn_optimizer_step(tn_optimizer *optimizer) {
  TN_TRY(tni_nn_not_null(optimizer, "the optimiser"));
  bool grad = tn_grad_mode_set(false);
  tn_status status = TN_OK;
  for (size_t g = 0; g < optimizer->n_groups && status == TN_OK; g++)
    status = optimizer->kind->prepare(optimizer, &optimizer->groups[g]);
  for (size_t g = 0; g < optimizer->n_groups && status == TN_OK; g++)
    status = optimizer->kind->step(optimizer, &optimizer->groups[g]);
  tn_grad_mode_set(grad);
  return status == TN_OK ? TN_OK : tn_wrap(status, "in a step of %s", optimizer->kind->name);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * State dicts of optimisers. Loading makes every new tensor and checks every number first; what follows
 * cannot fail, so an optimiser is never half loaded.
 */
#include "frontends/c/src/optim_int.h"

typedef char state_name[96];

static tn_status get_number(const tn_state_dict *dict, const char *name, double *out_value) {
  tn_tensor *t = tn_state_dict_get(dict, name);
  if (!t) return tn_fail(TN_ERR_INVALID_ARGUMENT, "the optimiser's state dict lacks '%s'", name);
  tn_status status = tn_tensor_item_double(t, out_value);
  return status == TN_OK ? TN_OK : tn_wrap(status, "'%s' of the optimiser's state dict", name);
}

/* ------------------------------------------------------------------ out */

static tn_status put_group(const tn_optimizer *o, size_t g, tn_state_dict *dict) {
  state_name name;
  const tni_nn_group *group = &o->groups[g];
  for (const tni_nn_field *f = o->kind->fields; f->name; f++) {
    snprintf(name, sizeof name, "group.%zu.%s", g, f->name);
    TN_TRY(tn_state_dict_put_number(dict, name, tni_nn_field_get(f, &group->options)));
  }
  snprintf(name, sizeof name, "group.%zu.initial_lr", g);
  TN_TRY(tn_state_dict_put_number(dict, name, group->initial_lr));
  snprintf(name, sizeof name, "group.%zu.parameters", g);
  return tn_state_dict_put_number(dict, name, (double)group->count);
}

static tn_status put_param(const tn_optimizer *o, size_t i, tn_state_dict *dict) {
  state_name name;
  const tni_nn_param *p = &o->params[i];
  if (p->step == 0) return TN_OK;
  snprintf(name, sizeof name, "state.%zu.step", i);
  TN_TRY(tn_state_dict_put_number(dict, name, (double)p->step));
  for (int s = 0; s < TNI_NN_SLOTS; s++) {
    if (!p->slots[s]) continue;
    snprintf(name, sizeof name, "state.%zu.%s", i, o->kind->slots[s]);
    TN_TRY(tn_state_dict_put(dict, name, p->slots[s]));
  }
  return TN_OK;
}

static tn_status put_all(const tn_optimizer *o, tn_state_dict *dict) {
  for (size_t g = 0; g < o->n_groups; g++) TN_TRY(put_group(o, g, dict));
  for (size_t i = 0; i < o->n_params; i++) TN_TRY(put_param(o, i, dict));
  return TN_OK;
}

tn_status tn_optimizer_state_dict(tn_optimizer *optimizer, tn_state_dict **out_dict) {
  *out_dict = NULL;
  TN_TRY(tni_nn_not_null(optimizer, "the optimiser"));
  tn_state_dict *dict = NULL;
  TN_TRY(tn_state_dict_new(&dict));
  tn_status status = put_all(optimizer, dict);
  if (status != TN_OK) {
    tn_state_dict_release(dict);
    return status;
  }
  *out_dict = dict;
  return TN_OK;
}

/* ------------------------------------------------------------------ in */

static tn_status read_group(const tn_optimizer *o, size_t g, const tn_state_dict *dict,
                            tni_nn_group *out_group) {
  state_name name;
  double value;
  snprintf(name, sizeof name, "group.%zu.parameters", g);
  TN_TRY(get_number(dict, name, &value));
  if (value != (double)out_group->count)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "group %zu has %zu parameters here and %.0f in the state dict", g,
                   out_group->count, value);
  for (const tni_nn_field *f = o->kind->fields; f->name; f++) {
    snprintf(name, sizeof name, "group.%zu.%s", g, f->name);
    TN_TRY(get_number(dict, name, &value));
    char *at = (char *)&out_group->options + f->offset;
    bool flag = value != 0.0;
    memcpy(at, f->is_bool ? (void *)&flag : (void *)&value, f->is_bool ? sizeof flag : sizeof value);
  }
  snprintf(name, sizeof name, "group.%zu.initial_lr", g);
  TN_TRY(get_number(dict, name, &out_group->initial_lr));
  return tni_nn_options_check(o->kind, &out_group->options);
}

/* fresh holds owned tensors afterwards, also on failure. */
static tn_status read_param(const tn_optimizer *o, size_t i, const tn_state_dict *dict, tni_nn_param *fresh) {
  state_name name;
  double step = 0.0;
  snprintf(name, sizeof name, "state.%zu.step", i);
  if (!tn_state_dict_get(dict, name)) return TN_OK; /* it had no step yet */
  TN_TRY(get_number(dict, name, &step));
  if (!(step >= 0.0 && step < 9007199254740992.0)) /* 2^53: beyond, a double skips numbers */
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "'%s' is %g; a number of steps was expected", name, step);
  fresh->step = (int64_t)step;
  for (int s = 0; s < TNI_NN_SLOTS && o->kind->slots[s]; s++) {
    snprintf(name, sizeof name, "state.%zu.%s", i, o->kind->slots[s]);
    tn_tensor *source = tn_state_dict_get(dict, name);
    if (!source) continue;
    if (!tni_nn_same_shape(source, o->params[i].tensor)) {
      char want[160], got[160];
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "'%s' must have shape %s, not %s", name,
                     tni_nn_shape(o->params[i].tensor, want, sizeof want),
                     tni_nn_shape(source, got, sizeof got));
    }
    TN_TRY(tn_zeros_like(o->params[i].tensor, NULL, TN_MEMORY_FORMAT_NONE, &fresh->slots[s]));
    TN_TRY(tn_copy_(fresh->slots[s], source, false));
  }
  return TN_OK;
}

static void swap_in(tn_optimizer *o, tni_nn_group *groups, tni_nn_param *fresh) {
  memcpy(o->groups, groups, o->n_groups * sizeof *groups);
  for (size_t i = 0; i < o->n_params; i++) {
    tni_nn_param old = o->params[i];
    memcpy(o->params[i].slots, fresh[i].slots, sizeof old.slots);
    o->params[i].step = fresh[i].step;
    memcpy(fresh[i].slots, old.slots, sizeof old.slots);
  }
}

static tn_status read_all(const tn_optimizer *o, const tn_state_dict *dict, tni_nn_group *groups,
                          tni_nn_param *fresh) {
  memcpy(groups, o->groups, o->n_groups * sizeof *groups);
  state_name name;
  snprintf(name, sizeof name, "group.%zu.lr", o->n_groups);
  if (tn_state_dict_get(dict, name))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "the state dict has more than the %zu groups of this optimiser",
                   o->n_groups);
  for (size_t g = 0; g < o->n_groups; g++) TN_TRY(read_group(o, g, dict, &groups[g]));
  for (size_t i = 0; i < o->n_params; i++) TN_TRY(read_param(o, i, dict, &fresh[i]));
  return TN_OK;
}

tn_status tn_optimizer_load_state_dict(tn_optimizer *optimizer, const tn_state_dict *dict) {
  TN_TRY(tni_nn_not_null(optimizer, "the optimiser"));
  TN_TRY(tni_nn_not_null(dict, "the state dict"));
  tni_nn_group *groups = NULL;
  tni_nn_param *fresh = NULL;
  bool grad = tn_grad_mode_set(false);
  tn_status status = tni_nn_alloc(optimizer->n_groups, sizeof *groups, "an optimiser's state", &groups);
  if (status == TN_OK)
    status = tni_nn_alloc(optimizer->n_params, sizeof *fresh, "an optimiser's state", &fresh);
  if (status == TN_OK) status = read_all(optimizer, dict, groups, fresh);
  if (status == TN_OK) swap_in(optimizer, groups, fresh);
  tn_grad_mode_set(grad);
  for (size_t i = 0; fresh && i < optimizer->n_params; i++)
    for (int s = 0; s < TNI_NN_SLOTS; s++) tn_tensor_release(fresh[i].slots[s]);
  free(fresh);
  free(groups);
  return status == TN_OK ? TN_OK : tn_wrap(status, "%s", optimizer->kind->name);
}

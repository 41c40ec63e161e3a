/* SPDX-License-Identifier: Apache-2.0
 *
 * The module tree: making, registering by name, looking up, running. What copies whole trees of tensors
 * (state dicts, moves) is in module_state.c.
 */
#include "frontends/c/src/module_int.h"

tn_status tn_module_new(const tn_module_def *def, void *ctx, tn_module **out_module) {
  *out_module = NULL;
  if (!def || !def->name || !def->forward) {
    if (def && def->free_ctx) def->free_ctx(ctx);
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_module_new: a definition with name and forward was expected");
  }
  tn_module *m = NULL;
  tn_status status = tni_nn_alloc(1, sizeof *m, "a module", &m);
  if (status != TN_OK) {
    if (def->free_ctx) def->free_ctx(ctx);
    return status;
  }
  atomic_init(&m->refs, 1);
  m->training = true;
  m->def = *def;
  m->ctx = ctx;
  *out_module = m;
  return TN_OK;
}

tn_module *tn_module_retain(tn_module *module) {
  if (module) atomic_fetch_add_explicit(&module->refs, 1, memory_order_relaxed);
  return module;
}

void tn_module_release(tn_module *module) {
  if (!module || atomic_fetch_sub_explicit(&module->refs, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < module->n_entries; i++) {
    free(module->entries[i].name);
    tn_tensor_release(module->entries[i].tensor);
  }
  for (size_t i = 0; i < module->n_children; i++) {
    free(module->children[i].name);
    tn_module_release(module->children[i].module);
  }
  if (module->def.free_ctx) module->def.free_ctx(module->ctx);
  free(module->entries);
  free(module->children);
  free(module->parameters);
  free(module);
}

/* ------------------------------------------------------------------ registering */

static tni_nn_entry *entry_find(const tn_module *m, const char *name, size_t n) {
  for (size_t i = 0; i < m->n_entries; i++)
    if (strlen(m->entries[i].name) == n && !memcmp(m->entries[i].name, name, n)) return &m->entries[i];
  return NULL;
}

static tni_nn_child *child_find(const tn_module *m, const char *name, size_t n) {
  for (size_t i = 0; i < m->n_children; i++)
    if (strlen(m->children[i].name) == n && !memcmp(m->children[i].name, name, n)) return &m->children[i];
  return NULL;
}

static tn_status check_name(const tn_module *m, const char *name) {
  TN_TRY(tni_nn_not_null(m, "the module to register with"));
  TN_TRY(tni_nn_not_null(name, "the name to register"));
  if (!*name || strchr(name, '.'))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: a name without dots was expected, '%s' came", m->def.name,
                   name);
  if (entry_find(m, name, strlen(name)) || child_find(m, name, strlen(name)))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: the name '%s' is already taken", m->def.name, name);
  return TN_OK;
}

static tn_status add_entry(tn_module *m, const char *name, tn_tensor *tensor, int32_t kind) {
  TN_TRY(
      tni_nn_grow(&m->entries, &m->entries_capacity, m->n_entries, sizeof *m->entries, "a module's tensors"));
  tni_nn_entry e = {NULL, tensor, kind};
  TN_TRY(tni_nn_strdup(name, &e.name));
  tn_tensor_retain(tensor);
  m->entries[m->n_entries++] = e;
  return TN_OK;
}

tn_status tn_module_add_parameter(tn_module *module, const char *name, tn_tensor *tensor) {
  TN_TRY(check_name(module, name));
  if (tensor && !tn_is_leaf(tensor))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: parameter '%s' must be a leaf; it is the result of %s",
                   module->def.name, name, tn_grad_fn_name(tensor, NULL));
  if (tensor && tni_nn_is_floating(tensor)) TN_TRY(tn_set_requires_grad(tensor, true));
  return add_entry(module, name, tensor, TNI_NN_PARAMETER);
}

tn_status tn_module_add_buffer(tn_module *module, const char *name, tn_tensor *tensor, bool persistent) {
  TN_TRY(check_name(module, name));
  return add_entry(module, name, tensor, persistent ? TNI_NN_BUFFER : TNI_NN_BUFFER_TRANSIENT);
}

static bool holds(const tn_module *tree, const tn_module *sought) {
  if (tree == sought) return true;
  for (size_t i = 0; i < tree->n_children; i++)
    if (holds(tree->children[i].module, sought)) return true;
  return false;
}

tn_status tn_module_add_child(tn_module *module, const char *name, tn_module *child) {
  TN_TRY(check_name(module, name));
  TN_TRY(tni_nn_not_null(child, "the child to register"));
  if (holds(child, module))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: child '%s' holds the module that it would be added to",
                   module->def.name, name);
  TN_TRY(tni_nn_grow(&module->children, &module->children_capacity, module->n_children,
                     sizeof *module->children, "a module's children"));
  tni_nn_child c = {NULL, child};
  TN_TRY(tni_nn_strdup(name, &c.name));
  tn_module_retain(child);
  module->children[module->n_children++] = c;
  return TN_OK;
}

/* ------------------------------------------------------------------ looking up */

/* Follows the dotted name up to its last part, which is left in *name. */
static tn_module *descend(tn_module *m, const char **name) {
  for (const char *dot; m && (dot = strchr(*name, '.')); *name = dot + 1) {
    tni_nn_child *c = child_find(m, *name, (size_t)(dot - *name));
    m = c ? c->module : NULL;
  }
  return m;
}

tn_tensor *tn_module_tensor(tn_module *module, const char *name) {
  if (!name || !(module = descend(module, &name))) return NULL;
  tni_nn_entry *e = entry_find(module, name, strlen(name));
  return e ? e->tensor : NULL;
}

tn_module *tn_module_child(tn_module *module, const char *name) {
  if (!name || !*name) return name ? module : NULL;
  if (!(module = descend(module, &name))) return NULL;
  tni_nn_child *c = child_find(module, name, strlen(name));
  return c ? c->module : NULL;
}

/* ------------------------------------------------------------------ running */

tn_status tn_module_forward_many(tn_module *module, tn_tensor *const *inputs, size_t n_inputs,
                                 tn_tensor **out_result) {
  *out_result = NULL;
  TN_TRY(tni_nn_not_null(module, "tn_module_forward: the module"));
  for (size_t i = 0; i < n_inputs; i++)
    if (!inputs[i]) return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: input %zu is NULL", module->def.name, i);
  tn_status status = module->def.forward(module, module->ctx, inputs, n_inputs, out_result);
  if (status != TN_OK) {
    *out_result = NULL;
    return tn_wrap(status, "in module %s", module->def.name);
  }
  if (!*out_result)
    return tn_fail(TN_ERR_STATE, "module %s: its forward answered success without a result",
                   module->def.name);
  return TN_OK;
}

tn_status tni_nn_one_input(const tn_module *self, size_t n_inputs) {
  if (n_inputs == 1) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s takes one input; %zu came", self->def.name, n_inputs);
}

tn_status tni_nn_scope_result(tn_scope *scope, tn_tensor *result, tn_tensor **out_result) {
  tn_tensor *kept = tn_scope_keep(result);
  tn_status status = tn_scope_end(scope);
  if (status != TN_OK) {
    tn_tensor_release(kept);
    kept = NULL;
  }
  *out_result = kept;
  return status;
}

tn_status tn_module_forward(tn_module *module, tn_tensor *input, tn_tensor **out_result) {
  return tn_module_forward_many(module, &input, 1, out_result);
}

void tn_module_train(tn_module *module, bool training) {
  if (!module) return;
  module->training = training;
  for (size_t i = 0; i < module->n_children; i++) tn_module_train(module->children[i].module, training);
}

bool tn_module_is_training(const tn_module *module) { return module && module->training; }

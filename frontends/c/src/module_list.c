/* SPDX-License-Identifier: Apache-2.0
 *
 * ModuleList: modules under the names "0", "1", ... that a forward function of one's own runs as it likes, and the
 * access by number that it needs.
 */
#include "frontends/c/src/module_int.h"

static tn_status list_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                              tn_tensor **out_result) {
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "a ModuleList has no forward of its own: run its children");
}

static const tn_module_def list_def = {"ModuleList", list_forward, NULL};

tn_status tn_module_list_append(tn_module *list, tn_module *module) {
  char name[32];
  tn_status status = tni_nn_not_null(list, "tn_module_list_append: the ModuleList");
  if (status == TN_OK && list->def.forward != list_forward)
    status = tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_module_list_append: a ModuleList was expected, %s came",
                     list->def.name);
  if (status == TN_OK) {
    snprintf(name, sizeof name, "%zu", list->n_children);
    status = tn_module_add_child(list, name, module);
  }
  tn_module_release(module);
  return status;
}

tn_status tn_module_list_new(tn_module *const *modules, size_t n, tn_module **out_module) {
  tn_module *m = NULL;
  tn_status status = tn_module_new(&list_def, NULL, &m);
  for (size_t i = 0; i < n; i++) {
    if (status == TN_OK)
      status = tn_module_list_append(m, modules[i]);
    else
      tn_module_release(modules[i]);
  }
  return tni_nn_finish(status, m, out_module);
}

size_t tn_module_child_count(const tn_module *module) { return module ? module->n_children : 0; }

tn_module *tn_module_child_at(tn_module *module, size_t i) {
  return i < tn_module_child_count(module) ? module->children[i].module : NULL;
}

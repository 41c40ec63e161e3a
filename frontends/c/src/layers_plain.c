/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules without parameters: activations, Flatten, Dropout, and Sequential, which runs its children.
 */
#include "frontends/c/src/module_int.h"

/* ------------------------------------------------------------------ activations */

static tn_status relu_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                              tn_tensor **out_result) {
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_relu(in[0], out_result);
}

static tn_status gelu_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                              tn_tensor **out_result) {
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_gelu(in[0], "none", out_result);
}

static tn_status gelu_tanh_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                   tn_tensor **out_result) {
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_gelu(in[0], "tanh", out_result);
}

static tn_status tanh_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                              tn_tensor **out_result) {
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_tanh(in[0], out_result);
}

static tn_status sigmoid_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                 tn_tensor **out_result) {
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_sigmoid(in[0], out_result);
}

static tn_status silu_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                              tn_tensor **out_result) {
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_silu(in[0], out_result);
}

tn_status tn_relu_new(tn_module **out_module) {
  static const tn_module_def def = {"ReLU", relu_forward, NULL};
  return tn_module_new(&def, NULL, out_module);
}

tn_status tn_gelu_new(bool tanh_form, tn_module **out_module) {
  static const tn_module_def exact = {"GELU", gelu_forward, NULL};
  static const tn_module_def approximate = {"GELU", gelu_tanh_forward, NULL};
  return tn_module_new(tanh_form ? &approximate : &exact, NULL, out_module);
}

tn_status tn_tanh_new(tn_module **out_module) {
  static const tn_module_def def = {"Tanh", tanh_forward, NULL};
  return tn_module_new(&def, NULL, out_module);
}

tn_status tn_sigmoid_new(tn_module **out_module) {
  static const tn_module_def def = {"Sigmoid", sigmoid_forward, NULL};
  return tn_module_new(&def, NULL, out_module);
}

tn_status tn_silu_new(tn_module **out_module) {
  static const tn_module_def def = {"SiLU", silu_forward, NULL};
  return tn_module_new(&def, NULL, out_module);
}

/* ------------------------------------------------------------------ Flatten, Dropout */

static tn_status flatten_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                 tn_tensor **out_result) {
  const int64_t *dims = ctx;
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_flatten(in[0], dims[0], dims[1], out_result);
}

tn_status tn_flatten_new(int64_t start, int64_t end, tn_module **out_module) {
  static const tn_module_def def = {"Flatten", flatten_forward, free};
  int64_t *dims = NULL;
  *out_module = NULL;
  TN_TRY(tni_nn_alloc(2, sizeof *dims, "a Flatten", &dims));
  dims[0] = start;
  dims[1] = end;
  return tn_module_new(&def, dims, out_module);
}

static tn_status dropout_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                 tn_tensor **out_result) {
  const double *p = ctx;
  TN_TRY(tni_nn_one_input(self, n_in));
  if (self->training && *p > 0.0) return tn_dropout(in[0], *p, true, out_result);
  *out_result = tn_tensor_retain(in[0]);
  return TN_OK;
}

tn_status tn_dropout_new(double p, tn_module **out_module) {
  static const tn_module_def def = {"Dropout", dropout_forward, free};
  double *ctx = NULL;
  *out_module = NULL;
  if (!(p >= 0.0 && p <= 1.0))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "Dropout: a probability in [0, 1] was expected, %g came", p);
  TN_TRY(tni_nn_alloc(1, sizeof *ctx, "a Dropout", &ctx));
  *ctx = p;
  return tn_module_new(&def, ctx, out_module);
}

/* ------------------------------------------------------------------ Sequential */

static tn_status sequential_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                    tn_tensor **out_result) {
  TN_TRY(tni_nn_one_input(self, n_in));
  tn_tensor *x = tn_tensor_retain(in[0]);
  for (size_t i = 0; i < self->n_children; i++) {
    tn_tensor *y = NULL;
    tn_status status = tn_module_forward(self->children[i].module, x, &y);
    tn_tensor_release(x);
    if (status != TN_OK) return tn_wrap(status, "child '%s'", self->children[i].name);
    x = y;
  }
  *out_result = x;
  return TN_OK;
}

static const tn_module_def sequential_def = {"Sequential", sequential_forward, NULL};

tn_status tn_sequential_append(tn_module *sequential, tn_module *module) {
  char name[32];
  tn_status status = tni_nn_not_null(sequential, "tn_sequential_append: the Sequential");
  if (status == TN_OK && sequential->def.forward != sequential_forward)
    status = tn_fail(TN_ERR_INVALID_ARGUMENT, "tn_sequential_append: a Sequential was expected, %s came",
                     sequential->def.name);
  if (status == TN_OK) {
    snprintf(name, sizeof name, "%zu", sequential->n_children);
    status = tn_module_add_child(sequential, name, module);
  }
  tn_module_release(module);
  return status;
}

tn_status tn_sequential_new(tn_module *const *modules, size_t n, tn_module **out_module) {
  tn_module *m = NULL;
  tn_status status = tn_module_new(&sequential_def, NULL, &m);
  for (size_t i = 0; i < n; i++) {
    if (status == TN_OK)
      status = tn_sequential_append(m, modules[i]);
    else
      tn_module_release(modules[i]);
  }
  if (status != TN_OK) {
    tn_module_release(m);
    m = NULL;
  }
  *out_module = m;
  return status;
}

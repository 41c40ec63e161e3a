/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules that hold parameters: Linear, Embedding, LayerNorm. Each finds its tensors by position among its
 * own entries, not by name, since forward is on the path of every step.
 */
#include <math.h>

#include "frontends/c/src/module_int.h"

tn_status tni_nn_make_parameter(tn_module *m, const char *name, const tn_dim *sizes, size_t ndim,
                                const tn_options *options, tn_tensor **out_borrowed) {
  tn_tensor *t = NULL;
  TN_TRY(tn_empty(sizes, ndim, options, TN_MEMORY_FORMAT_NONE, &t));
  tn_status status = tn_module_add_parameter(m, name, t);
  tn_tensor_release(t);
  *out_borrowed = t;
  return status;
}

tn_status tni_nn_finish(tn_status status, tn_module *m, tn_module **out_module) {
  if (status != TN_OK) {
    tn_module_release(m);
    m = NULL;
  }
  *out_module = m;
  return status;
}

tn_status tni_nn_at_least(const char *module, const char *what, int64_t value, int64_t least) {
  if (value >= least) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: %s must be at least %lld, not %lld", module, what,
                 (long long)least, (long long)value);
}

tn_status tni_nn_add_affine(tn_module *m, const tn_dim *sizes, size_t ndim, bool affine, bool with_bias,
                            const tn_options *options) {
  tn_tensor *weight = NULL, *bias = NULL;
  if (!affine) {
    TN_TRY(tn_module_add_parameter(m, "weight", NULL));
    return with_bias ? tn_module_add_parameter(m, "bias", NULL) : TN_OK;
  }
  TN_TRY(tni_nn_make_parameter(m, "weight", sizes, ndim, options, &weight));
  TN_TRY(tn_init_ones(weight));
  if (!with_bias) return TN_OK;
  TN_TRY(tni_nn_make_parameter(m, "bias", sizes, ndim, options, &bias));
  return tn_init_zeros(bias);
}

tn_status tni_nn_take_child(tn_status status, tn_module *m, const char *name, tn_module *child) {
  if (status == TN_OK) status = tn_module_add_child(m, name, child);
  tn_module_release(child);
  return status;
}

/* ------------------------------------------------------------------ Linear */

static tn_status linear_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                tn_tensor **out_result) {
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_linear(in[0], self->entries[0].tensor, self->entries[1].tensor, out_result);
}

static tn_status linear_fill(tn_module *m, int64_t in, int64_t out, bool bias, const tn_options *options) {
  tn_tensor *weight = NULL, *b = NULL;
  TN_TRY(tni_nn_make_parameter(m, "weight", (const tn_dim[]){out, in}, 2, options, &weight));
  /* PyTorch: kaiming uniform with slope sqrt(5), which comes to this bound for both. */
  double bound = in > 0 ? 1.0 / sqrt((double)in) : 0.0;
  TN_TRY(tn_init_uniform(weight, -bound, bound, NULL));
  if (!bias) return tn_module_add_parameter(m, "bias", NULL);
  TN_TRY(tni_nn_make_parameter(m, "bias", &out, 1, options, &b));
  return tn_init_uniform(b, -bound, bound, NULL);
}

tn_status tn_linear_new(int64_t in, int64_t out, bool bias, const tn_options *options,
                        tn_module **out_module) {
  static const tn_module_def def = {"Linear", linear_forward, NULL};
  *out_module = NULL;
  TN_TRY(tni_nn_at_least("Linear", "the number of inputs", in, 0));
  TN_TRY(tni_nn_at_least("Linear", "the number of outputs", out, 0));
  tn_module *m = NULL;
  TN_TRY(tn_module_new(&def, NULL, &m));
  return tni_nn_finish(linear_fill(m, in, out, bias, options), m, out_module);
}

/* ------------------------------------------------------------------ Embedding */

static tn_status embedding_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                   tn_tensor **out_result) {
  const int64_t *padding = ctx;
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_embedding(self->entries[0].tensor, in[0], *padding, false, false, out_result);
}

static tn_status embedding_fill(tn_module *m, int64_t count, int64_t width, int64_t padding,
                                const tn_options *options) {
  tn_tensor *weight = NULL, *row = NULL;
  TN_TRY(tni_nn_make_parameter(m, "weight", (const tn_dim[]){count, width}, 2, options, &weight));
  TN_TRY(tn_init_normal(weight, 0.0, 1.0, NULL));
  if (padding < 0) return TN_OK;
  bool grad = tn_grad_mode_set(false);
  tn_status status = tn_select(weight, 0, padding, &row);
  if (status == TN_OK) status = tn_zero_(row);
  tn_tensor_release(row);
  tn_grad_mode_set(grad);
  return status;
}

tn_status tn_embedding_new(int64_t count, int64_t width, int64_t padding_index, const tn_options *options,
                           tn_module **out_module) {
  static const tn_module_def def = {"Embedding", embedding_forward, free};
  *out_module = NULL;
  TN_TRY(tni_nn_at_least("Embedding", "the number of rows", count, 1));
  TN_TRY(tni_nn_at_least("Embedding", "the width", width, 0));
  if (padding_index >= count)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "Embedding: padding index %lld is outside of %lld rows",
                   (long long)padding_index, (long long)count);
  int64_t *padding = NULL;
  tn_module *m = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *padding, "an Embedding", &padding));
  *padding = padding_index < 0 ? -1 : padding_index;
  TN_TRY(tn_module_new(&def, padding, &m));
  return tni_nn_finish(embedding_fill(m, count, width, *padding, options), m, out_module);
}

/* ------------------------------------------------------------------ LayerNorm */

typedef struct norm_shape {
  double eps;
  size_t ndim;
  tn_dim sizes[];
} norm_shape;

static tn_status layer_norm_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                    tn_tensor **out_result) {
  const norm_shape *s = ctx;
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_layer_norm(in[0], s->sizes, s->ndim, self->entries[0].tensor, self->entries[1].tensor, s->eps,
                       true, out_result);
}

tn_status tn_layer_norm_new(const tn_dim *sizes, int32_t ndim, double eps, bool affine,
                            const tn_options *options, tn_module **out_module) {
  static const tn_module_def def = {"LayerNorm", layer_norm_forward, free};
  *out_module = NULL;
  TN_TRY(tni_nn_at_least("LayerNorm", "the number of dims", ndim, 1));
  if (ndim > TN_MAX_RANK)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "LayerNorm: at most %d dims, not %d", TN_MAX_RANK, ndim);
  for (int32_t d = 0; d < ndim; d++) TN_TRY(tni_nn_at_least("LayerNorm", "a size", sizes[d], 0));
  norm_shape *s = NULL;
  tn_module *m = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *s + (size_t)ndim * sizeof(tn_dim), "a LayerNorm", &s));
  s->eps = eps;
  s->ndim = (size_t)ndim;
  memcpy(s->sizes, sizes, (size_t)ndim * sizeof(tn_dim));
  TN_TRY(tn_module_new(&def, s, &m));
  return tni_nn_finish(tni_nn_add_affine(m, s->sizes, s->ndim, affine, true, options), m, out_module);
}

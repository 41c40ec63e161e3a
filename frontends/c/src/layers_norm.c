/* SPDX-License-Identifier: Apache-2.0
 *
 * BatchNorm1d, BatchNorm2d, GroupNorm, RMSNorm. LayerNorm is in layers.c.
 */
#include "frontends/c/src/module_int.h"

/* ------------------------------------------------------------------ BatchNorm */

/* Entries of a batch norm, by position. */
enum { WEIGHT, BIAS, MEAN, VAR, BATCHES };

typedef struct batch_norm {
  tn_batch_norm_options options;
  int64_t features;
  bool images; /* else [N, C] or [N, C, L] */
} batch_norm;

static tn_status batch_norm_check(const batch_norm *b, bool batch_statistics, const tn_tensor *input,
                                  const char *name) {
  int32_t ndim = tn_tensor_ndim(input);
  const tn_dim *sizes = tn_tensor_sizes(input);
  char shape[160];
  bool fits = (b->images ? ndim == 4 : ndim == 2 || ndim == 3) && sizes[1] == b->features;
  if (!fits)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: an input of shape %s with C = %lld was expected, not %s",
                   name, b->images ? "[N, C, H, W]" : "[N, C] or [N, C, L]", (long long)b->features,
                   tni_nn_shape(input, shape, sizeof shape));
  if (batch_statistics && tn_tensor_numel(input) == b->features)
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "%s: statistics of a batch need more than one value a channel; the input is %s", name,
                   tni_nn_shape(input, shape, sizeof shape));
  return TN_OK;
}

/* Counted once the batch's statistics are in. */
static tn_status count_batch(tn_module *self) {
  bool grad = tn_grad_mode_set(false);
  tn_status status = tn_add_scalar_(self->entries[BATCHES].tensor, tn_int(1), tn_int(1));
  tn_grad_mode_set(grad);
  return status;
}

static tn_status batch_norm_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                    tn_tensor **out_result) {
  const batch_norm *b = ctx;
  const tni_nn_entry *e = self->entries;
  bool of_batch = self->training || !b->options.track;
  TN_TRY(tni_nn_one_input(self, n_in));
  TN_TRY(batch_norm_check(b, of_batch, in[0], self->def.name));
  TN_TRY(tn_batch_norm(in[0], e[WEIGHT].tensor, e[BIAS].tensor, b->options.track ? e[MEAN].tensor : NULL,
                       b->options.track ? e[VAR].tensor : NULL, of_batch, b->options.momentum, b->options.eps,
                       false, out_result));
  if (!self->training || !b->options.track) return TN_OK;
  tn_status status = count_batch(self);
  if (status == TN_OK) return TN_OK;
  tn_tensor_release(*out_result);
  *out_result = NULL;
  return status;
}

/* value filled in; a buffer of the module. */
static tn_status add_buffer(tn_module *m, const char *name, const tn_dim *sizes, size_t ndim, double value,
                            const tn_options *options) {
  tn_tensor *t = NULL;
  TN_TRY(tn_full(sizes, ndim, tn_float(value), options, &t));
  tn_status status = tn_module_add_buffer(m, name, t, true);
  tn_tensor_release(t);
  return status;
}

static tn_status batch_norm_fill(tn_module *m, const batch_norm *b, const tn_options *options) {
  tn_options counter = options ? *options : (tn_options){0};
  counter.dtype = TN_INT64;
  TN_TRY(tni_nn_add_affine(m, &b->features, 1, b->options.affine, true, options));
  if (!b->options.track) return TN_OK;
  TN_TRY(add_buffer(m, "running_mean", &b->features, 1, 0.0, options));
  TN_TRY(add_buffer(m, "running_var", &b->features, 1, 1.0, options));
  return add_buffer(m, "num_batches_tracked", NULL, 0, 0.0, &counter);
}

static tn_status batch_norm_new(const tn_module_def *def, bool images, int64_t features,
                                const tn_batch_norm_options *norm, const tn_options *options,
                                tn_module **out_module) {
  const tn_batch_norm_options o = norm ? *norm : tn_batch_norm_defaults();
  *out_module = NULL;
  TN_TRY(tni_nn_at_least(def->name, "the number of channels", features, 1));
  if (!(o.eps >= 0.0) || !(o.momentum >= 0.0 && o.momentum <= 1.0))
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "%s: eps >= 0 and a momentum in [0, 1] were expected, not %g and %g", def->name, o.eps,
                   o.momentum);
  batch_norm *b = NULL;
  tn_module *m = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *b, "a batch norm", &b));
  *b = (batch_norm){o, features, images};
  TN_TRY(tn_module_new(def, b, &m));
  return tni_nn_finish(batch_norm_fill(m, b, options), m, out_module);
}

tn_status tn_batch_norm1d_new(int64_t features, const tn_batch_norm_options *norm, const tn_options *options,
                              tn_module **out_module) {
  static const tn_module_def def = {"BatchNorm1d", batch_norm_forward, free};
  return batch_norm_new(&def, false, features, norm, options, out_module);
}

tn_status tn_batch_norm2d_new(int64_t features, const tn_batch_norm_options *norm, const tn_options *options,
                              tn_module **out_module) {
  static const tn_module_def def = {"BatchNorm2d", batch_norm_forward, free};
  return batch_norm_new(&def, true, features, norm, options, out_module);
}

/* ------------------------------------------------------------------ GroupNorm */

typedef struct group_norm {
  int64_t groups;
  double eps;
} group_norm;

static tn_status group_norm_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                    tn_tensor **out_result) {
  const group_norm *g = ctx;
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_group_norm(in[0], g->groups, self->entries[WEIGHT].tensor, self->entries[BIAS].tensor, g->eps,
                       false, out_result);
}

tn_status tn_group_norm_new(int64_t groups, int64_t channels, double eps, bool affine,
                            const tn_options *options, tn_module **out_module) {
  static const tn_module_def def = {"GroupNorm", group_norm_forward, free};
  *out_module = NULL;
  TN_TRY(tni_nn_at_least(def.name, "the number of groups", groups, 1));
  TN_TRY(tni_nn_at_least(def.name, "the number of channels", channels, 1));
  if (channels % groups || !(eps >= 0.0))
    return tn_fail(
        TN_ERR_INVALID_ARGUMENT,
        "GroupNorm: channels that the groups divide and eps >= 0 were expected, not %lld, %lld and %g",
        (long long)channels, (long long)groups, eps);
  group_norm *g = NULL;
  tn_module *m = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *g, "a GroupNorm", &g));
  *g = (group_norm){groups, eps};
  TN_TRY(tn_module_new(&def, g, &m));
  return tni_nn_finish(tni_nn_add_affine(m, &channels, 1, affine, true, options), m, out_module);
}

/* ------------------------------------------------------------------ RMSNorm */

typedef struct rms_norm {
  double eps;
  size_t ndim;
  tn_dim sizes[];
} rms_norm;

static tn_status rms_norm_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                  tn_tensor **out_result) {
  const rms_norm *r = ctx;
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_rms_norm(in[0], r->sizes, r->ndim, self->entries[WEIGHT].tensor, r->eps < 0.0 ? NULL : &r->eps,
                     out_result);
}

tn_status tn_rms_norm_new(const tn_dim *sizes, int32_t ndim, double eps, bool affine,
                          const tn_options *options, tn_module **out_module) {
  static const tn_module_def def = {"RMSNorm", rms_norm_forward, free};
  *out_module = NULL;
  TN_TRY(tni_nn_at_least(def.name, "the number of dims", ndim, 1));
  if (ndim > TN_MAX_RANK)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "RMSNorm: at most %d dims, not %d", TN_MAX_RANK, ndim);
  for (int32_t d = 0; d < ndim; d++) TN_TRY(tni_nn_at_least(def.name, "a size", sizes[d], 0));
  rms_norm *r = NULL;
  tn_module *m = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *r + (size_t)ndim * sizeof(tn_dim), "an RMSNorm", &r));
  r->eps = eps;
  r->ndim = (size_t)ndim;
  memcpy(r->sizes, sizes, (size_t)ndim * sizeof(tn_dim));
  TN_TRY(tn_module_new(&def, r, &m));
  return tni_nn_finish(tni_nn_add_affine(m, sizes, (size_t)ndim, affine, false, options), m, out_module);
}

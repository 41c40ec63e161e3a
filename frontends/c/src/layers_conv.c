/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules over images and sequences: convolutions with their parameters, and pools, which have none.
 */
#include <math.h>

#include "frontends/c/src/module_int.h"

/* ------------------------------------------------------------------ Conv1d, Conv2d */

typedef struct convolution {
  tn_conv_options options;
  size_t dims; /* 1 or 2 */
} convolution;

static tn_status conv_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                              tn_tensor **out_result) {
  const convolution *c = ctx;
  const tn_conv_options *o = &c->options;
  TN_TRY(tni_nn_one_input(self, n_in));
  return (c->dims == 1 ? tn_conv1d : tn_conv2d)(in[0], self->entries[0].tensor, self->entries[1].tensor,
                                                o->stride, c->dims, o->padding, c->dims, o->dilation, c->dims,
                                                o->groups, out_result);
}

static tn_status conv_check(const char *name, int64_t in, int64_t out, const int64_t *kernel,
                            const tn_conv_options *o, size_t dims) {
  TN_TRY(tni_nn_at_least(name, "the number of input channels", in, 1));
  TN_TRY(tni_nn_at_least(name, "the number of output channels", out, 1));
  TN_TRY(tni_nn_at_least(name, "the number of groups", o->groups, 1));
  TN_TRY(tni_nn_not_null(kernel, "the kernel size"));
  for (size_t d = 0; d < dims; d++) {
    TN_TRY(tni_nn_at_least(name, "a kernel size", kernel[d], 1));
    TN_TRY(tni_nn_at_least(name, "a stride", o->stride[d], 1));
    TN_TRY(tni_nn_at_least(name, "a padding", o->padding[d], 0));
    TN_TRY(tni_nn_at_least(name, "a dilation", o->dilation[d], 1));
  }
  if (in % o->groups == 0 && out % o->groups == 0) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT,
                 "%s: groups must divide both numbers of channels; %lld groups, %lld and %lld channels came",
                 name, (long long)o->groups, (long long)in, (long long)out);
}

static tn_status conv_fill(tn_module *m, int64_t in, int64_t out, const int64_t *kernel, const convolution *c,
                           const tn_options *options) {
  tn_tensor *weight = NULL, *bias = NULL;
  tn_dim sizes[4] = {out, in / c->options.groups};
  double fan = (double)sizes[1];
  for (size_t d = 0; d < c->dims; d++) {
    sizes[2 + d] = kernel[d];
    fan *= (double)kernel[d];
  }
  double bound = 1.0 / sqrt(fan); /* PyTorch: kaiming uniform with slope sqrt(5), as for Linear */
  TN_TRY(tni_nn_make_parameter(m, "weight", sizes, 2 + c->dims, options, &weight));
  TN_TRY(tn_init_uniform(weight, -bound, bound, NULL));
  if (!c->options.bias) return tn_module_add_parameter(m, "bias", NULL);
  TN_TRY(tni_nn_make_parameter(m, "bias", &out, 1, options, &bias));
  return tn_init_uniform(bias, -bound, bound, NULL);
}

static tn_status conv_new(size_t dims, int64_t in, int64_t out, const int64_t *kernel,
                          const tn_conv_options *conv, const tn_options *options, tn_module **out_module) {
  static const tn_module_def defs[] = {{"Conv1d", conv_forward, free}, {"Conv2d", conv_forward, free}};
  const tn_conv_options o = conv ? *conv : tn_conv_defaults();
  *out_module = NULL;
  TN_TRY(conv_check(defs[dims - 1].name, in, out, kernel, &o, dims));
  convolution *c = NULL;
  tn_module *m = NULL;
  TN_TRY(tni_nn_alloc(1, sizeof *c, "a convolution", &c));
  *c = (convolution){o, dims};
  TN_TRY(tn_module_new(&defs[dims - 1], c, &m));
  return tni_nn_finish(conv_fill(m, in, out, kernel, c, options), m, out_module);
}

tn_status tn_conv1d_new(int64_t in, int64_t out, int64_t kernel, const tn_conv_options *conv,
                        const tn_options *options, tn_module **out_module) {
  return conv_new(1, in, out, &kernel, conv, options, out_module);
}

tn_status tn_conv2d_new(int64_t in, int64_t out, const int64_t kernel[2], const tn_conv_options *conv,
                        const tn_options *options, tn_module **out_module) {
  return conv_new(2, in, out, kernel, conv, options, out_module);
}

/* ------------------------------------------------------------------ pools */

typedef struct pool {
  int64_t kernel[2];
  tn_pool_options options;
  size_t dims; /* 1 or 2 */
} pool;

static tn_status max_pool_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                  tn_tensor **out_result) {
  const pool *p = ctx;
  const tn_pool_options *o = &p->options;
  TN_TRY(tni_nn_one_input(self, n_in));
  return (p->dims == 1 ? tn_max_pool1d : tn_max_pool2d)(in[0], p->kernel, p->dims, o->stride, p->dims,
                                                        o->padding, p->dims, o->dilation, p->dims,
                                                        o->ceil_mode, out_result);
}

static tn_status avg_pool_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                  tn_tensor **out_result) {
  const pool *p = ctx;
  const tn_pool_options *o = &p->options;
  TN_TRY(tni_nn_one_input(self, n_in));
  if (p->dims == 1)
    return tn_avg_pool1d(in[0], p->kernel, 1, o->stride, 1, o->padding, 1, o->ceil_mode, o->count_include_pad,
                         out_result);
  return tn_avg_pool2d(in[0], p->kernel, 2, o->stride, 2, o->padding, 2, o->ceil_mode, o->count_include_pad,
                       NULL, out_result);
}

/* Stride 0 stands for the kernel's size. */
static tn_status pool_settle(const char *name, pool *p) {
  tn_pool_options *o = &p->options;
  for (size_t d = 0; d < p->dims; d++) {
    TN_TRY(tni_nn_at_least(name, "a kernel size", p->kernel[d], 1));
    TN_TRY(tni_nn_at_least(name, "a stride (0: the kernel's size)", o->stride[d], 0));
    TN_TRY(tni_nn_at_least(name, "a padding", o->padding[d], 0));
    TN_TRY(tni_nn_at_least(name, "a dilation", o->dilation[d], 1));
    if (o->padding[d] > p->kernel[d] / 2)
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: padding %lld is more than half of kernel size %lld", name,
                     (long long)o->padding[d], (long long)p->kernel[d]);
    if (o->stride[d] == 0) o->stride[d] = p->kernel[d];
  }
  return TN_OK;
}

static tn_status pool_new(const tn_module_def *def, size_t dims, const int64_t *kernel,
                          const tn_pool_options *options, tn_module **out_module) {
  *out_module = NULL;
  TN_TRY(tni_nn_not_null(kernel, "the kernel size"));
  pool settled = {.options = options ? *options : tn_pool_defaults(), .dims = dims}, *p = NULL;
  memcpy(settled.kernel, kernel, dims * sizeof *kernel);
  TN_TRY(pool_settle(def->name, &settled));
  TN_TRY(tni_nn_alloc(1, sizeof *p, "a pool", &p));
  *p = settled;
  return tn_module_new(def, p, out_module);
}

tn_status tn_max_pool1d_new(int64_t kernel, const tn_pool_options *options, tn_module **out_module) {
  static const tn_module_def def = {"MaxPool1d", max_pool_forward, free};
  return pool_new(&def, 1, &kernel, options, out_module);
}

tn_status tn_max_pool2d_new(const int64_t kernel[2], const tn_pool_options *options, tn_module **out_module) {
  static const tn_module_def def = {"MaxPool2d", max_pool_forward, free};
  return pool_new(&def, 2, kernel, options, out_module);
}

static tn_status avg_pool_new(const tn_module_def *def, size_t dims, const int64_t *kernel,
                              const tn_pool_options *options, tn_module **out_module) {
  *out_module = NULL;
  for (size_t d = 0; options && d < dims; d++)
    if (options->dilation[d] != 1)
      return tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: it has no dilation; 1 was expected, %lld came", def->name,
                     (long long)options->dilation[d]);
  return pool_new(def, dims, kernel, options, out_module);
}

tn_status tn_avg_pool1d_new(int64_t kernel, const tn_pool_options *options, tn_module **out_module) {
  static const tn_module_def def = {"AvgPool1d", avg_pool_forward, free};
  return avg_pool_new(&def, 1, &kernel, options, out_module);
}

tn_status tn_avg_pool2d_new(const int64_t kernel[2], const tn_pool_options *options, tn_module **out_module) {
  static const tn_module_def def = {"AvgPool2d", avg_pool_forward, free};
  return avg_pool_new(&def, 2, kernel, options, out_module);
}

static tn_status adaptive_forward(tn_module *self, void *ctx, tn_tensor *const *in, size_t n_in,
                                  tn_tensor **out_result) {
  const int64_t *size = ctx;
  TN_TRY(tni_nn_one_input(self, n_in));
  return tn_adaptive_avg_pool2d(in[0], size, 2, out_result);
}

tn_status tn_adaptive_avg_pool2d_new(const int64_t size[2], tn_module **out_module) {
  static const tn_module_def def = {"AdaptiveAvgPool2d", adaptive_forward, free};
  int64_t *ctx = NULL;
  *out_module = NULL;
  TN_TRY(tni_nn_not_null(size, "the result's size"));
  for (int d = 0; d < 2; d++) TN_TRY(tni_nn_at_least(def.name, "a size", size[d], 1));
  TN_TRY(tni_nn_alloc(2, sizeof *ctx, "an AdaptiveAvgPool2d", &ctx));
  memcpy(ctx, size, 2 * sizeof *ctx);
  return tn_module_new(&def, ctx, out_module);
}

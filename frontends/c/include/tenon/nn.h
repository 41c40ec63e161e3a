/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules: a forward function with named parameters, buffers and submodules, as PyTorch's nn.Module.
 *
 * A module is counted. Names join with dots ("0.weight"). Tensors that a module holds are ordinary ones: an
 * optimiser takes the handles, a state dict copies into them. One thread at a time per module tree.
 */
#ifndef TENON_NN_H
#define TENON_NN_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_module tn_module;

/* ------------------------------------------------------------------ named tensors */

/* An ordered list of names and tensors: what a module or an optimiser is restored from. */
typedef struct tn_state_dict tn_state_dict;
TN_EXPORT tn_status tn_state_dict_new(tn_state_dict **out_dict); /* owned */
TN_EXPORT void tn_state_dict_release(tn_state_dict *dict);       /* NULL is allowed */
/* Appends or replaces; the name is copied, the tensor shared. */
TN_EXPORT tn_status tn_state_dict_put(tn_state_dict *dict, const char *name, tn_tensor *tensor);
/* Appends a number as a 0-d float64 tensor. */
TN_EXPORT tn_status tn_state_dict_put_number(tn_state_dict *dict, const char *name, double value);
/* Borrowed, NULL if there is no such name. */
TN_EXPORT tn_tensor *tn_state_dict_get(const tn_state_dict *dict, const char *name);
TN_EXPORT size_t tn_state_dict_count(const tn_state_dict *dict);
/* Entry i, borrowed until the next put or release; NULL past the end. */
TN_EXPORT const char *tn_state_dict_name(const tn_state_dict *dict, size_t i);
TN_EXPORT tn_tensor *tn_state_dict_tensor(const tn_state_dict *dict, size_t i);

/* ------------------------------------------------------------------ modules of your own */

/* What a kind of module does. Copied; name must live as long as the module. */
typedef struct tn_module_def {
  const char *name; /* "Linear": for error words */
  /* Stores one owned tensor. self gives parameters and children, ctx is the module's own. */
  tn_status (*forward)(tn_module *self, void *ctx, tn_tensor *const *inputs, size_t n_inputs,
                       tn_tensor **out_result);
  void (*free_ctx)(void *ctx); /* NULL: none */
} tn_module_def;

/* ctx is consumed: freed with the module, and also if this call fails. */
TN_EXPORT tn_status tn_module_new(const tn_module_def *def, void *ctx, tn_module **out_module); /* owned */
TN_EXPORT tn_module *tn_module_retain(tn_module *module); /* NULL is allowed */
TN_EXPORT void tn_module_release(tn_module *module);      /* NULL is allowed */
/* Registers under a name without dots that the module does not use yet. The tensor is shared. A parameter
 * must be a leaf; it is switched to require grad if its dtype is floating. NULL: registered as absent (no
 * bias). */
TN_EXPORT tn_status tn_module_add_parameter(tn_module *module, const char *name, tn_tensor *tensor);
/* persistent: part of the state dict. */
TN_EXPORT tn_status tn_module_add_buffer(tn_module *module, const char *name, tn_tensor *tensor,
                                         bool persistent);
/* The child is shared; one that already holds this module is refused. */
TN_EXPORT tn_status tn_module_add_child(tn_module *module, const char *name, tn_module *child);

/* ------------------------------------------------------------------ what a module holds */

/* A parameter or buffer by its dotted name, borrowed while the module holds it; NULL if absent. */
TN_EXPORT tn_tensor *tn_module_tensor(tn_module *module, const char *name);
/* A submodule by its dotted name, borrowed; "" is the module itself; NULL if absent. */
TN_EXPORT tn_module *tn_module_child(tn_module *module, const char *name);
/* Every parameter once (tied ones too), own before children's. The array is borrowed until the next call of
 * this function on the same module. */
TN_EXPORT tn_status tn_module_parameters(tn_module *module, tn_tensor *const **out_parameters, size_t *out_n);
/* Direct children, in the order in which they were registered: their number, and one by its number (borrowed, NULL
 * past the end). */
TN_EXPORT size_t tn_module_child_count(const tn_module *module);
TN_EXPORT tn_module *tn_module_child_at(tn_module *module, size_t i);
/* Calls fn for every parameter (buffers false) or persistent buffer with its full name; a failure ends it. */
typedef tn_status (*tn_module_visit_fn)(void *ctx, const char *name, tn_tensor *tensor, bool is_buffer);
TN_EXPORT tn_status tn_module_visit(tn_module *module, tn_module_visit_fn fn, void *ctx);

/* All parameters and persistent buffers, detached, sharing memory with the module. */
TN_EXPORT tn_status tn_module_state_dict(tn_module *module, tn_state_dict **out_dict);
/* Copies values in, by name. strict: names missing from dict and names that the module lacks are an error.
 * A wrong shape always is. The words list all offenders; on such an error nothing was copied. */
TN_EXPORT tn_status tn_module_load_state_dict(tn_module *module, const tn_state_dict *dict, bool strict);

/* ------------------------------------------------------------------ using a module */

TN_EXPORT tn_status tn_module_forward(tn_module *module, tn_tensor *input,
                                      tn_tensor **out_result); /* owned */
TN_EXPORT tn_status tn_module_forward_many(tn_module *module, tn_tensor *const *inputs, size_t n_inputs,
                                           tn_tensor **out_result);
/* The scoped form: the thread's scope owns the result; NULL in, NULL out. */
static inline tn_tensor *tns_module_forward(tn_module *module, tn_tensor *input) {
  tn_tensor *out = NULL;
  if (!input) return NULL;
  tn_status status = tn_module_forward(module, input, &out);
  if (status != TN_OK) tn_scope_note(status);
  return out ? tn_scope_add(out) : NULL;
}
/* Training mode, of the whole tree; modules begin in it. */
TN_EXPORT void tn_module_train(tn_module *module, bool training);
TN_EXPORT bool tn_module_is_training(const tn_module *module);
/* Sets every parameter's gradient to none. */
TN_EXPORT tn_status tn_module_zero_grad(tn_module *module);
/* Moves all tensors; dtype (NONE: keep) applies to floating ones. Handles are replaced and gradients dropped,
 * so make the optimiser afterwards. On failure the module is as before. */
TN_EXPORT tn_status tn_module_to(tn_module *module, tn_device device, tn_dtype dtype);
/* The same for the order in memory: TN_CHANNELS_LAST concerns the tensors of four dims (the weights of Conv2d),
 * TN_CONTIGUOUS_FORMAT all. Values and shapes stay; convolutions and pools answer in the order of what they are given. */
TN_EXPORT tn_status tn_module_to_format(tn_module *module, tn_memory_format format);

/* ------------------------------------------------------------------ modules that are here */

/* options (NULL: defaults) say where and of which floating dtype the parameters are made. Random values come
 * from the device's default generator (tn_manual_seed). */
/* y = x W^T + b; weight [out, in] and bias uniform in +-1/sqrt(in), as PyTorch's. */
TN_EXPORT tn_status tn_linear_new(int64_t in, int64_t out, bool bias, const tn_options *options,
                                  tn_module **out_module);
TN_EXPORT tn_status tn_relu_new(tn_module **out_module);
TN_EXPORT tn_status tn_gelu_new(bool tanh_form, tn_module **out_module);
TN_EXPORT tn_status tn_tanh_new(tn_module **out_module);
TN_EXPORT tn_status tn_sigmoid_new(tn_module **out_module);
TN_EXPORT tn_status tn_silu_new(tn_module **out_module);
/* Joins dims start..end (negative: from the back); PyTorch's default is 1, -1. */
TN_EXPORT tn_status tn_flatten_new(int64_t start, int64_t end, tn_module **out_module);
/* In training: zero with probability p in [0, 1], the rest scaled by 1/(1-p). Else the input itself. */
TN_EXPORT tn_status tn_dropout_new(double p, tn_module **out_module);
/* weight [count, width] from N(0, 1). padding_index < 0: none; else that row is zero and gets no gradient. */
TN_EXPORT tn_status tn_embedding_new(int64_t count, int64_t width, int64_t padding_index,
                                     const tn_options *options, tn_module **out_module);
/* Over the last ndim dims, which must be sizes. affine: weight of ones and bias of zeros. */
TN_EXPORT tn_status tn_layer_norm_new(const tn_dim *sizes, int32_t ndim, double eps, bool affine,
                                      const tn_options *options, tn_module **out_module);
/* Over the last ndim dims, divided by the root of their mean square. eps < 0: the dtype's epsilon. affine: weight
 * of ones. */
TN_EXPORT tn_status tn_rms_norm_new(const tn_dim *sizes, int32_t ndim, double eps, bool affine,
                                    const tn_options *options, tn_module **out_module);
/* Input [N, channels, ...]; groups divide channels. affine: weight of ones and bias of zeros, one a channel. */
TN_EXPORT tn_status tn_group_norm_new(int64_t groups, int64_t channels, double eps, bool affine,
                                      const tn_options *options, tn_module **out_module);

typedef struct tn_batch_norm_options {
  double eps;
  double momentum; /* in [0, 1]: the share of the newest batch in the running statistics */
  bool affine;     /* weight of ones and bias of zeros */
  bool track; /* buffers running_mean, running_var, num_batches_tracked; else always the batch's statistics */
} tn_batch_norm_options;
static inline tn_batch_norm_options tn_batch_norm_defaults(void) {
  tn_batch_norm_options o = {.eps = 1e-5, .momentum = 0.1, .affine = true, .track = true};
  return o;
}
/* Input [N, C] or [N, C, L]. In training by the batch's mean and variance, which must be over more than one value a
 * channel; else by the running ones. norm NULL: the defaults above. */
TN_EXPORT tn_status tn_batch_norm1d_new(int64_t channels, const tn_batch_norm_options *norm,
                                        const tn_options *options, tn_module **out_module);
/* The same for [N, C, H, W]. */
TN_EXPORT tn_status tn_batch_norm2d_new(int64_t channels, const tn_batch_norm_options *norm,
                                        const tn_options *options, tn_module **out_module);

/* Of dims H, W (Conv1d reads the first entry of each). */
typedef struct tn_conv_options {
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];
  int64_t groups; /* divides both numbers of channels */
  bool bias;
} tn_conv_options;
static inline tn_conv_options tn_conv_defaults(void) {
  tn_conv_options o = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1, .bias = true};
  return o;
}
/* weight [out, in / groups, kernel...] and bias [out] uniform in +-1/sqrt(in / groups * kernel), as PyTorch's. Input
 * [N, in, L]. conv NULL: the defaults above. */
TN_EXPORT tn_status tn_conv1d_new(int64_t in, int64_t out, int64_t kernel, const tn_conv_options *conv,
                                  const tn_options *options, tn_module **out_module);
/* Input [N, in, H, W]; kernel and options by H, W. */
TN_EXPORT tn_status tn_conv2d_new(int64_t in, int64_t out, const int64_t kernel[2],
                                  const tn_conv_options *conv, const tn_options *options,
                                  tn_module **out_module);

/* Of dims H, W (the pools of one dim read the first entry of each). */
typedef struct tn_pool_options {
  int64_t stride[2];   /* 0: the kernel's size */
  int64_t padding[2];  /* at most half of the kernel's size */
  int64_t dilation[2]; /* of MaxPool2d; 1 for AvgPool2d */
  bool ceil_mode;
  bool count_include_pad; /* of AvgPool2d: padding counts as zeros in the mean */
} tn_pool_options;
static inline tn_pool_options tn_pool_defaults(void) {
  tn_pool_options o = {.dilation = {1, 1}, .count_include_pad = true};
  return o;
}
/* Input [N, C, H, W]; everything by H, W. options NULL: the defaults above. */
TN_EXPORT tn_status tn_max_pool2d_new(const int64_t kernel[2], const tn_pool_options *options,
                                      tn_module **out_module);
TN_EXPORT tn_status tn_avg_pool2d_new(const int64_t kernel[2], const tn_pool_options *options,
                                      tn_module **out_module);
/* The same for [N, C, L]. */
TN_EXPORT tn_status tn_max_pool1d_new(int64_t kernel, const tn_pool_options *options, tn_module **out_module);
TN_EXPORT tn_status tn_avg_pool1d_new(int64_t kernel, const tn_pool_options *options, tn_module **out_module);
/* Means over parts, so that the result is size[0] x size[1]. */
TN_EXPORT tn_status tn_adaptive_avg_pool2d_new(const int64_t size[2], tn_module **out_module);

typedef struct tn_attention_options {
  double
      dropout; /* of the attention weights, in training; of a TransformerLayer also of what its parts add */
  bool bias;   /* of the projections */
  bool causal; /* place i sees places 0..i */
} tn_attention_options;
static inline tn_attention_options tn_attention_defaults(void) {
  tn_attention_options o = {.bias = true};
  return o;
}
/* Batch first. Inputs of tn_module_forward_many: x [N, L, width] (self-attention); x, mask; query [N, L, width], key
 * and value [N, S, width]; or those and mask. mask: as of tn_scaled_dot_product_attention, broadcast to
 * [N, heads, L, S]: bool (true: may be seen) or added to the scores. Result [N, L, width]. Parameters as PyTorch's:
 * in_proj_weight [3 width, width] (Xavier uniform), in_proj_bias, out_proj.weight, out_proj.bias. heads divide
 * width. attn NULL: the defaults above. */
TN_EXPORT tn_status tn_multihead_attention_new(int64_t width, int64_t heads, const tn_attention_options *attn,
                                               const tn_options *options, tn_module **out_module);
/* Pre-norm: x + attention(norm1(x)), then + linear2(gelu(linear1(norm2(x)))). Input and result [N, L, width]. */
TN_EXPORT tn_status tn_transformer_layer_new(int64_t width, int64_t heads, int64_t hidden,
                                             const tn_attention_options *attn, const tn_options *options,
                                             tn_module **out_module);
/* Runs its children in order, "0", "1", ... Modules are consumed, also on failure; a NULL among them is an
 * error. */
TN_EXPORT tn_status tn_sequential_new(tn_module *const *modules, size_t n, tn_module **out_module);
/* Appends to a Sequential; module is consumed. */
TN_EXPORT tn_status tn_sequential_append(tn_module *sequential, tn_module *module);
/* Holds children "0", "1", ... for a forward function that runs them itself (tn_module_child_at); its own forward is
 * an error. Modules are consumed as a Sequential's are. */
TN_EXPORT tn_status tn_module_list_new(tn_module *const *modules, size_t n, tn_module **out_module);
TN_EXPORT tn_status tn_module_list_append(tn_module *list, tn_module *module);

/* ------------------------------------------------------------------ initialisers */

/* All write in place with gradients off. generator NULL: the device's default one. */
TN_EXPORT tn_status tn_init_constant(tn_tensor *tensor, double value);
TN_EXPORT tn_status tn_init_zeros(tn_tensor *tensor);
TN_EXPORT tn_status tn_init_ones(tn_tensor *tensor);
TN_EXPORT tn_status tn_init_uniform(tn_tensor *tensor, double low, double high, tn_generator *generator);
TN_EXPORT tn_status tn_init_normal(tn_tensor *tensor, double mean, double std, tn_generator *generator);
/* The rest need two dims or more: fan_in is size 1 times the rest, fan_out size 0 times the rest. */
TN_EXPORT tn_status tn_init_xavier_uniform(tn_tensor *tensor, double gain, tn_generator *generator);
TN_EXPORT tn_status tn_init_xavier_normal(tn_tensor *tensor, double gain, tn_generator *generator);
enum { TN_FAN_IN = 0, TN_FAN_OUT = 1 };
/* gain: sqrt(2) for ReLU, sqrt(2 / (1 + a * a)) for a leaky one with slope a, 1 for none. */
TN_EXPORT tn_status tn_init_kaiming_uniform(tn_tensor *tensor, double gain, int32_t fan,
                                            tn_generator *generator);
TN_EXPORT tn_status tn_init_kaiming_normal(tn_tensor *tensor, double gain, int32_t fan,
                                           tn_generator *generator);

#ifdef __cplusplus
}
#endif
#endif

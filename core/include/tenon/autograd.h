/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients as an application asks for them. Behaviour is PyTorch's; the numbers behind "see" are those of
 * the list in tests/autograd.
 */
#ifndef TENON_AUTOGRAD_H
#define TENON_AUTOGRAD_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

TN_EXPORT bool tn_requires_grad(const tn_tensor *tensor);
/* Floating dtypes only (A2); switching off is for leaves (A10). */
TN_EXPORT tn_status tn_set_requires_grad(tn_tensor *tensor, bool requires_grad);
TN_EXPORT bool tn_is_leaf(const tn_tensor *tensor);
/* Name of the node that made it ("MulBackward0"), NULL for leaves. Borrowed while the tensor lives. *out_nr (may
 * be NULL) is the output number. */
TN_EXPORT const char *tn_grad_fn_name(tn_tensor *tensor, uint32_t *out_nr);
/* The accumulated gradient or NULL. Borrowed until the next backward or set. Warns for inner tensors that do
 * not retain theirs (C8). */
TN_EXPORT tn_tensor *tn_grad(tn_tensor *tensor);
/* Sets the gradient (shared), NULL clears. Checks dtype, shape, device, not self (C9). */
TN_EXPORT tn_status tn_set_grad(tn_tensor *tensor, tn_tensor *grad);
TN_EXPORT tn_status tn_retain_grad(tn_tensor *tensor);

/* Options of a run; zeroed = defaults. */
typedef struct tn_backward_options {
  bool retain_graph;   /* keep saved tensors; implied by create_graph */
  bool create_graph;   /* gradients are themselves differentiable */
  bool allow_unused;   /* tn_grad_of: an unreached input gives NULL instead of an error */
  bool materialize;    /* tn_grad_of: ... gives zeros */
} tn_backward_options;

/* Accumulates into the grad field of every reached leaf, or of `inputs` only if n_inputs > 0.
 * grads[i]: the seed of roots[i], NULL = implicit 1 (one-element roots only); grads itself may be NULL.
 * On failure gradients written so far stay, the engine stays usable (B17). */
TN_EXPORT tn_status tn_backward_from(tn_tensor *const *roots, tn_tensor *const *grads, size_t n_roots,
                                tn_tensor *const *inputs, size_t n_inputs,
                                const tn_backward_options *options);
/* tn_backward_from for one root, all leaves, defaults; seed may be NULL. */
TN_EXPORT tn_status tn_backward_run(tn_tensor *root, tn_tensor *seed);
/* The gradients with respect to inputs, owned, in out_grads[n_inputs]; grad fields stay alone (B8). */
TN_EXPORT tn_status tn_grad_of(tn_tensor *const *roots, tn_tensor *const *grads, size_t n_roots,
                               tn_tensor *const *inputs, size_t n_inputs, const tn_backward_options *options,
                               tn_tensor **out_grads);

/* Modes of the thread; each returns the previous value, so that nesting is restore(prev). */
TN_EXPORT bool tn_grad_mode_set(bool enabled);
TN_EXPORT bool tn_grad_mode(void);
TN_EXPORT bool tn_inference_mode_set(bool enabled);
TN_EXPORT bool tn_inference_mode(void);

/* A hook sees the full gradient of its tensor; *out_replacement (owned, may stay NULL) replaces it
 * downstream. A failing hook stops the run. ctx is freed by free_ctx (may be NULL) with the hook; it stays the
 * caller's if registering fails. */
typedef tn_status (*tn_hook_fn)(void *ctx, tn_tensor *grad, tn_tensor **out_replacement);
TN_EXPORT tn_status tn_register_hook(tn_tensor *tensor, tn_hook_fn fn, void *ctx, void (*free_ctx)(void *),
                                     uint64_t *out_id);
TN_EXPORT tn_status tn_remove_hook(tn_tensor *tensor, uint64_t id);
/* Leaves only: runs after accumulation, gets the tensor (D8). */
typedef tn_status (*tn_leaf_hook_fn)(void *ctx, tn_tensor *leaf);
TN_EXPORT tn_status tn_register_post_accumulate_hook(tn_tensor *leaf, tn_leaf_hook_fn fn, void *ctx,
                                                     void (*free_ctx)(void *), uint64_t *out_id);

/* Numeric check of a function's gradients by central differences in float64 (L1): eps 1e-6, atol 1e-5, rtol 1e-3
 * where 0 is given. fn maps n_in inputs (borrowed, float64) to n_out owned outputs. second: also checks the
 * gradient of the gradient. TN_ERR_DATA with the worst element in words if they disagree. */
typedef tn_status (*tn_gradcheck_fn)(void *ctx, tn_tensor *const *in, size_t n_in, tn_tensor **out, size_t n_out);
TN_EXPORT tn_status tn_gradcheck(tn_gradcheck_fn fn, void *ctx, tn_tensor *const *in, size_t n_in, size_t n_out,
                                 double eps, double atol, double rtol, bool second);

#ifdef __cplusplus
}
#endif
#endif

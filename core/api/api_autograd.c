/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients as the application calls them: flags, grad fields, modes, and the argument checks of backward()
 * and grad() before the engine runs (B18: everything that can be refused is refused before any node runs).
 */
#include <tenon/kit/shape.h>
#include <tenon/ops.h>

#include "core/autograd/autograd_int.h"

static tn_status need(const void *p, const char *function, const char *argument) {
  return p ? TN_OK : tn_fail(TN_ERR_INVALID_ARGUMENT, "%s: argument '%s' is NULL", function, argument);
}

/* ------------------------------------------------------------------ flags */

bool tn_requires_grad(const tn_tensor *tensor) { return tensor && tni_requires_grad(tensor); }

bool tn_is_leaf(const tn_tensor *tensor) {
  if (!tensor) return false;
  tni_edge edge;
  tn_tensor *t =
      (tn_tensor *)(uintptr_t)tensor; /* a view's history may be made here; the value is not touched */
  if (!(t->keys & TNI_KEY_AUTOGRAD)) return true;
  if (tni_grad_fn(t, &edge) != TN_OK) return false;
  tni_node_release(edge.fn);
  return edge.fn == NULL;
}

tn_status tn_set_requires_grad(tn_tensor *tensor, bool requires_grad) {
  tni_autograd *slot;
  TN_TRY(need(tensor, "set_requires_grad", "tensor"));
  if (requires_grad && !tni_dtype_differentiable(tensor->view.dtype))
    return tn_fail(TN_ERR_DTYPE, "set_requires_grad: only floating dtypes have gradients, this tensor is %s",
                   tn_dtype_name(tensor->view.dtype));
  if (requires_grad && !tensor->version && !tni_tls.modes.inference)
    return tn_fail(TN_ERR_STATE,
                   "set_requires_grad: an inference tensor cannot require grad outside inference mode");
  if (!requires_grad && !tn_is_leaf(tensor))
    return tn_fail(TN_ERR_STATE, "set_requires_grad: only a leaf can stop requiring grad; use detach");
  if (!requires_grad && !tensor->autograd) return TN_OK;
  TN_TRY(tni_slot_ensure(tensor, &slot));
  slot->requires_grad = requires_grad;
  if (requires_grad) tensor->keys |= TNI_KEY_AUTOGRAD;
  if (!requires_grad && !tensor->base) tensor->keys &= ~TNI_KEY_AUTOGRAD;
  return TN_OK;
}

const char *tn_grad_fn_name(tn_tensor *tensor, uint32_t *out_nr) {
  tni_edge edge = {NULL, 0};
  if (out_nr) *out_nr = 0;
  if (!tensor || !(tensor->keys & TNI_KEY_AUTOGRAD) || tni_grad_fn(tensor, &edge) != TN_OK || !edge.fn)
    return NULL;
  if (out_nr) *out_nr = edge.nr;
  tni_node_release(edge.fn); /* the tensor holds it */
  return edge.fn->name;
}

/* ------------------------------------------------------------------ the grad field */

tn_tensor *tn_grad(tn_tensor *tensor) {
  if (!tensor || !tensor->autograd) return NULL;
  const tni_autograd *slot = tensor->autograd;
  if (slot->grad_fn && !slot->retains_grad)
    tn_log(TN_LOG_WARN,
           "the gradient of a tensor that is not a leaf was read; it is kept only after tn_retain_grad");
  return slot->cell ? slot->cell->grad : NULL;
}

static tn_status check_grad(const tn_view *t, const tn_view *g) {
  char expected[64], got[64];
  if (t->dtype != g->dtype)
    return tn_fail(TN_ERR_DTYPE, "set_grad: expected a gradient of dtype %s, got %s", tn_dtype_name(t->dtype),
                   tn_dtype_name(g->dtype));
  if (t->backend != g->backend || t->device_index != g->device_index)
    return tn_fail(TN_ERR_DEVICE, "set_grad: expected a gradient on %s, got one on %s",
                   tn_device_name(tn_view_device(t), expected, sizeof expected),
                   tn_device_name(tn_view_device(g), got, sizeof got));
  if (!tn_shape_equal(t->ndim, t->sizes, g->ndim, g->sizes))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "set_grad: expected a gradient of shape %s, got %s",
                   tn_shape_format(t->ndim, t->sizes, TN_SHAPE_TEXT),
                   tn_shape_format(g->ndim, g->sizes, TN_SHAPE_TEXT));
  return TN_OK;
}

tn_status tn_set_grad(tn_tensor *tensor, tn_tensor *grad) {
  tni_grad_cell *cell;
  TN_TRY(need(tensor, "set_grad", "tensor"));
  if (!grad && (!tensor->autograd || !tensor->autograd->cell)) return TN_OK;
  if (grad == tensor)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "set_grad: a tensor cannot be its own gradient");
  if (grad) TN_TRY(check_grad(&tensor->view, &grad->view));
  TN_TRY(tni_slot_cell(tensor, &cell));
  tni_spin_lock(&cell->lock);
  tn_tensor *old = cell->grad;
  cell->grad = tn_tensor_retain(grad);
  tni_spin_unlock(&cell->lock);
  tn_tensor_release(old);
  return TN_OK;
}

tn_status tn_retain_grad(tn_tensor *tensor) {
  tni_edge edge;
  tni_grad_cell *cell;
  TN_TRY(need(tensor, "retain_grad", "tensor"));
  if (!tni_requires_grad(tensor))
    return tn_fail(TN_ERR_STATE,
                   "retain_grad: the tensor does not require grad, so there will be none to keep");
  TN_TRY(tni_grad_fn(tensor, &edge));
  if (!edge.fn) return TN_OK; /* a leaf keeps its gradient anyway */
  tn_status status = tensor->autograd->retains_grad ? TN_OK : tni_slot_cell(tensor, &cell);
  if (status == TN_OK && !tensor->autograd->retains_grad) {
    status = tni_hooks_add_retain(edge.fn, edge.nr, cell);
    if (status == TN_OK) tensor->autograd->retains_grad = true;
  }
  tni_node_release(edge.fn);
  return status;
}

/* ------------------------------------------------------------------ modes */

bool tn_grad_mode(void) { return tni_grad_on(); }

bool tn_grad_mode_set(bool enabled) {
  bool before = tni_tls.modes.grad_enabled;
  tni_tls.modes.grad_enabled = enabled;
  return before;
}

bool tn_inference_mode(void) { return tni_tls.modes.inference; }

/* Keys are left alone: the autograd cell asks for the mode, and whoever has excluded it meanwhile keeps it so. */
bool tn_inference_mode_set(bool enabled) {
  bool before = tni_tls.modes.inference;
  tni_tls.modes.inference = enabled;
  return before;
}

/* ------------------------------------------------------------------ backward and grad */

/* The seed of one root, owned: given, or 1 for a root of one element (B1, B2). */
static tn_status seed_of(tn_tensor *root, const tni_edge *edge, tn_tensor *given, size_t i,
                         tn_tensor **out_seed) {
  const tni_shape *shape = &edge->fn->shapes[edge->nr];
  const tn_view *v = &root->view;
  *out_seed = NULL;
  if (!given) {
    if (v->numel != 1)
      return tn_fail(
          TN_ERR_INVALID_ARGUMENT,
          "backward: root %zu has shape %s; only a root of one element has an implicit gradient, give one", i,
          tn_shape_format(v->ndim, v->sizes, TN_SHAPE_TEXT));
    return tni_grad_ones(shape, out_seed);
  }
  if (!tn_shape_equal(v->ndim, v->sizes, given->view.ndim, given->view.sizes))
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "backward: root %zu has shape %s, its gradient has shape %s", i,
                   tn_shape_format(v->ndim, v->sizes, TN_SHAPE_TEXT),
                   tn_shape_format(given->view.ndim, given->view.sizes, TN_SHAPE_TEXT));
  *out_seed = tn_tensor_retain(given);
  tn_status status = tni_grad_fit(shape, out_seed, "the given gradient", (uint32_t)i);
  if (status != TN_OK) {
    tn_tensor_release(*out_seed);
    *out_seed = NULL;
  }
  return status;
}

/* Roots, seeds and captures of one call, in one allocation unless they are few. */
typedef struct request {
  tni_run run;
  tni_edge *roots;
  void *allocated;
  struct {
    tni_edge root;
    tn_tensor *seed;
    tni_capture capture;
  } few;
} request;

static tn_status request_room(request *r, size_t n_roots, size_t n_captures) {
  r->allocated = NULL;
  r->run.n_roots = n_roots;
  r->run.n_captures = n_captures;
  r->roots = &r->few.root;
  r->run.seeds = &r->few.seed;
  r->run.captures = &r->few.capture;
  r->few.root = (tni_edge){NULL, 0};
  r->few.seed = NULL;
  if (n_captures) r->few.capture = (tni_capture){.grad = NULL};
  if (n_roots > 1 || n_captures > 1) {
    size_t bytes = n_roots * (sizeof(tni_edge) + sizeof(tn_tensor *)) + n_captures * sizeof(tni_capture);
    r->allocated = tni_alloc_zero(bytes);
    if (!r->allocated) return tni_oom(bytes, "the roots and inputs of a backward run");
    r->run.captures = r->allocated;
    r->roots = (tni_edge *)(void *)(r->run.captures + n_captures);
    r->run.seeds = (tn_tensor **)(void *)(r->roots + n_roots);
  }
  r->run.roots = r->roots;
  return TN_OK;
}

static void request_release(request *r) {
  for (size_t i = 0; i < r->run.n_roots; ++i) {
    tni_node_release(r->roots[i].fn);
    tn_tensor_release(r->run.seeds[i]);
  }
  for (size_t i = 0; i < r->run.n_captures; ++i) {
    tni_node_release(r->run.captures[i].edge.fn);
    tn_tensor_release(r->run.captures[i].grad);
  }
  tni_free(r->allocated);
}

static tn_status request_roots(request *r, tn_tensor *const *roots, tn_tensor *const *grads) {
  for (size_t i = 0; i < r->run.n_roots; ++i) {
    if (!roots[i]) return tn_fail(TN_ERR_INVALID_ARGUMENT, "backward: root %zu is NULL", i);
    TN_TRY(tni_gradient_edge(roots[i], &r->roots[i]));
    if (!r->roots[i].fn)
      return tn_fail(TN_ERR_STATE, "backward: root %zu does not require grad and has no history", i);
  }
  for (size_t i = 0; i < r->run.n_roots; ++i)
    TN_TRY(seed_of(roots[i], &r->roots[i], grads ? grads[i] : NULL, i, &r->run.seeds[i]));
  return TN_OK;
}

/* For grad() gradients are handed out; for backward(inputs=) they are accumulated: by the leaf's node,
 * or in the cell of an inner tensor. */
static tn_status request_inputs(request *r, tn_tensor *const *inputs, bool accumulate) {
  for (size_t i = 0; i < r->run.n_captures; ++i) {
    if (!inputs[i]) return tn_fail(TN_ERR_INVALID_ARGUMENT, "backward: input %zu is NULL", i);
    if (!tni_requires_grad(inputs[i]))
      return tn_fail(TN_ERR_STATE, "backward: input %zu does not require grad", i);
  }
  for (size_t i = 0; i < r->run.n_captures; ++i) {
    tni_capture *c = &r->run.captures[i];
    if (accumulate) TN_TRY(tn_retain_grad(inputs[i]));
    TN_TRY(tni_gradient_edge(inputs[i], &c->edge));
    c->keep = !accumulate;
    c->execute = accumulate && tni_is_accumulator(c->edge.fn);
  }
  return TN_OK;
}

static tn_status check_lists(tn_tensor *const *roots, size_t n_roots, tn_tensor *const *inputs,
                             size_t n_inputs) {
  if (!n_roots || !roots)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "backward: expected at least one root, got none");
  if (n_inputs && !inputs)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "backward: inputs is NULL, but n_inputs is not 0");
  if (inputs && !n_inputs)
    return tn_fail(TN_ERR_INVALID_ARGUMENT,
                   "backward: the list of inputs is empty; NULL stands for all leaves");
  return TN_OK;
}

static void request_options(request *r, const tn_backward_options *options, bool filter) {
  r->run.create_graph = options && options->create_graph;
  r->run.keep_graph = options && (options->retain_graph || options->create_graph);
  r->run.filter = filter;
}

/* B7: once a process is enough. */
static void warn_cycle(void) {
  static atomic_flag warned = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set_explicit(&warned, memory_order_relaxed))
    tn_log(TN_LOG_WARN, "backward with create_graph: the grad field of a leaf and its graph hold each other "
                        "until the field is "
                        "cleared; tn_grad_of has no such circle");
}

tn_status tn_backward_from(tn_tensor *const *roots, tn_tensor *const *grads, size_t n_roots,
                           tn_tensor *const *inputs, size_t n_inputs, const tn_backward_options *options) {
  request r;
  TN_TRY(check_lists(roots, n_roots, inputs, n_inputs));
  TN_TRY(request_room(&r, n_roots, n_inputs));
  request_options(&r, options, n_inputs != 0);
  if (r.run.create_graph) warn_cycle();
  tn_status status = request_roots(&r, roots, grads);
  if (status == TN_OK) status = request_inputs(&r, inputs, true);
  if (status == TN_OK) status = tni_engine_run(&r.run);
  request_release(&r);
  return status;
}

tn_status tn_backward_run(tn_tensor *root, tn_tensor *seed) {
  return tn_backward_from(&root, &seed, 1, NULL, 0, NULL);
}

/* What no gradient came to: zero if the roots lead there (a formula may leave a zero out), else B9. */
static tn_status fill_missing(request *r, tn_tensor *const *inputs, const tn_backward_options *options) {
  bool materialize = options && options->materialize;
  for (size_t i = 0; i < r->run.n_captures; ++i) {
    tni_capture *c = &r->run.captures[i];
    if (c->grad) continue;
    if (materialize || c->reached) {
      const tn_view *v = &inputs[i]->view;
      const tni_shape shape = tni_shape_of(v);
      TN_TRY(tni_grad_zeros(&shape, &c->grad));
    } else if (!options || !options->allow_unused) {
      return tn_fail(
          TN_ERR_STATE,
          "grad: no gradient reaches input %zu from the roots; allow_unused gives NULL for such inputs", i);
    }
  }
  return TN_OK;
}

tn_status tn_grad_of(tn_tensor *const *roots, tn_tensor *const *grads, size_t n_roots,
                     tn_tensor *const *inputs, size_t n_inputs, const tn_backward_options *options,
                     tn_tensor **out_grads) {
  request r;
  TN_TRY(need(out_grads, "grad", "out_grads"));
  for (size_t i = 0; i < n_inputs; ++i) out_grads[i] = NULL;
  if (!n_inputs || !inputs)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "grad: expected at least one input, got none");
  TN_TRY(check_lists(roots, n_roots, inputs, n_inputs));
  TN_TRY(request_room(&r, n_roots, n_inputs));
  request_options(&r, options, true);
  tn_status status = request_roots(&r, roots, grads);
  if (status == TN_OK) status = request_inputs(&r, inputs, false);
  if (status == TN_OK) status = tni_engine_run(&r.run);
  if (status == TN_OK) status = fill_missing(&r, inputs, options);
  for (size_t i = 0; i < n_inputs && status == TN_OK; ++i) {
    out_grads[i] = r.run.captures[i].grad;
    r.run.captures[i].grad = NULL;
  }
  request_release(&r);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel that stands at the autograd key of every operator: decides whether a call is recorded, runs it
 * below, and hangs the node on its results.
 *
 * Note [Kernel, body, gradient]
 *   nothing needs grad               -> the call continues below, unrecorded
 *   grad needed, formula             -> recorded; below, a kernel or the body runs with autograd off
 *   grad needed, no formula, a body  -> the body runs above autograd: the gradient is that of its parts
 *   grad needed, neither             -> a node that raises at backward
 * So a kernel makes an operator faster and never takes its gradient away.
 *
 * Functional calls are recorded after they ran, because only then the results are known. In-place calls get
 * their node before: what fails must fail before the write. Version counts are the dispatcher's work, not
 * ours.
 */
#include <tenon/ops.h>

#include "core/autograd/autograd_int.h"
#include "ops_index.h"

enum { MOST_RESULTS = 8 };

static bool list_requires(const tn_value *v) {
  if (v->kind != TN_VAL_LIST) return false;
  for (uint32_t i = 0; i < v->count; ++i)
    if (v->u.ts[i] && tni_operand_requires(v->u.ts[i])) return true;
  return false;
}

/* Bit i: argument i requires grad, or an element of it. */
static inline uint64_t requiring_args(const tn_op *op, const tn_value *args) {
  uint64_t requiring = 0;
  for (uint64_t m = op->tensor_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR && tni_operand_requires(v->u.t)) requiring |= m & -m;
  }
  for (uint64_t m = op->list_args; m; m &= m - 1)
    if (list_requires(&args[__builtin_ctzll(m)])) requiring |= m & -m;
  return requiring;
}

/* The call goes on below, and everything that it calls stays unrecorded. */
static inline tn_status run_below(tn_call *call, const tn_value *args, tn_value *out) {
  uint64_t exclude = tni_tls.modes.exclude;
  tni_tls.modes.exclude = exclude | TNI_KEY_AUTOGRAD;
  tn_status status = tni_call_below(call, TNI_BIT_AUTOGRAD, args, out);
  tni_tls.modes.exclude = exclude;
  return status;
}

/* ------------------------------------------------------------------ functional calls */

static void results_release(const tn_op *op, tn_value *out) {
  for (uint32_t i = 0; i < op->n_outs; ++i) {
    if (out[i].kind == TN_VAL_TENSOR) tn_tensor_release(out[i].u.t);
    if (out[i].kind == TN_VAL_LIST)
      for (uint32_t j = 0; j < out[i].count; ++j) tn_tensor_release(out[i].u.ts[j]);
  }
}

/* Does result i of this call take part in gradients? */
static inline bool is_differentiable(const tn_tensor *t, const tn_grad_def *def, uint32_t i) {
  if (!t || !tni_dtype_differentiable(t->view.dtype)) return false;
  return !def || i >= 64 || !(def->nondiff_outs >> i & 1);
}

static tn_status attach(tni_node *node, const tn_grad_def *def, tn_tensor *const *outs, uint32_t n) {
  tni_autograd *slot;
  for (uint32_t i = 0; i < n; ++i)
    if (is_differentiable(outs[i], def, i)) TN_TRY(tni_slot_ensure(outs[i], &slot));
  for (uint32_t i = 0; i < n; ++i) {
    if (!is_differentiable(outs[i], def, i)) continue;
    tni_node_retain(node);
    tni_history_set(outs[i], node, i);
  }
  return TN_OK;
}

/* One result is most of all calls: the node's first count becomes the result's. */
static inline tn_status attach_one(tni_node *node, tn_tensor *out) {
  tn_status status = TN_OK;
  if (TNI_LIKELY(!out->autograd)) {
    status = tni_history_new(out, node, 0);
    if (TNI_UNLIKELY(status != TN_OK)) tni_node_release(node);
  } else { /* an operator that handed on what a body below had recorded already */
    tni_history_set(out, node, 0);
  }
  return status;
}

static tn_status record(const tn_op *op, const tn_value *args, uint64_t requiring, tn_tensor *const *outs,
                        uint32_t n) {
  const tn_grad_def *def = op->grad;
  bool any = false;
  for (uint32_t i = 0; i < n && !any; ++i) any = is_differentiable(outs[i], def, i);
  if (!any) return TN_OK;
  tni_node *node;
  if (def)
    TN_TRY(tni_op_node_new(op, args, requiring, outs, n, 255, &node));
  else
    TN_TRY(tni_end_node_new(op, outs, n, true, args, &node));
  tn_status status = attach(node, def, outs, n);
  tni_node_release(node);
  return status;
}

static inline tn_status record_one(const tn_op *op, const tn_value *args, uint64_t requiring, tn_tensor *result) {
  const tn_grad_def *def = op->grad;
  tni_node *node;
  if (!is_differentiable(result, def, 0)) return TN_OK;
  if (TNI_LIKELY(def != NULL))
    TN_TRY(tni_op_node_of_one(op, args, requiring, result, &node));
  else
    TN_TRY(tni_end_node_new(op, &result, 1, true, args, &node));
  return attach_one(node, result);
}

/* Several results, or a list of them. */
static tn_status record_many(const tn_op *op, const tn_value *args, uint64_t requiring, const tn_value *out) {
  if (op->n_outs == 1 && out[0].kind == TN_VAL_LIST) return record(op, args, requiring, out[0].u.ts, out[0].count);
  tn_tensor *outs[MOST_RESULTS];
  for (uint32_t i = 0; i < op->n_outs && i < MOST_RESULTS; ++i)
    outs[i] = out[i].kind == TN_VAL_TENSOR ? out[i].u.t : NULL;
  return record(op, args, requiring, outs, op->n_outs);
}

static inline tn_status run_functional(tn_call *call, const tn_value *args, uint64_t requiring, tn_value *out) {
  const tn_op *op = call->op;
  TN_TRY(run_below(call, args, out));
  tn_status status = TNI_LIKELY(op->n_outs == 1 && out[0].kind == TN_VAL_TENSOR)
                         ? record_one(op, args, requiring, out[0].u.t)
                         : record_many(op, args, requiring, out);
  if (TNI_UNLIKELY(status != TN_OK)) results_release(op, out);
  return status;
}

/* ------------------------------------------------------------------ in-place calls */

static bool is_requiring_leaf(const tn_tensor *t) {
  return t->autograd && t->autograd->requires_grad && !t->autograd->grad_fn;
}

/* E1, E13-E15: what may not be overwritten while gradients are recorded. */
static tn_status check_target(const tn_tensor *t) {
  static const char *const made[] = {
      [TNI_CREATION_NO_GRAD] = "while gradients were off",
      [TNI_CREATION_INFERENCE] = "in inference mode",
      [TNI_CREATION_MULTI_OUTPUT] = "by an operator that returns several views",
      [TNI_CREATION_CUSTOM] = "by a custom function",
  };
  if (is_requiring_leaf(t))
    return tn_fail(TN_ERR_STATE,
                   "a leaf that requires grad is written in place; turn grad mode off to do that");
  if (!t->base) return TN_OK;
  if (is_requiring_leaf(t->base))
    return tn_fail(TN_ERR_STATE,
                   "a view of a leaf that requires grad is written in place; turn grad mode off to do that");
  if (t->creation != TNI_CREATION_DEFAULT)
    return tn_fail(TN_ERR_STATE,
                   "a view that was made %s may not be written in place with gradients on; clone it",
                   made[t->creation <= TNI_CREATION_CUSTOM ? t->creation : TNI_CREATION_CUSTOM]);
  return TN_OK;
}

static tn_status check_written(const tn_op *op, const tn_value *args) {
  for (uint64_t m = op->write_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR) TN_TRY(check_target(v->u.t));
    for (uint32_t i = 0; v->kind == TN_VAL_LIST && i < v->count; ++i)
      if (v->u.ts[i]) TN_TRY(check_target(v->u.ts[i]));
  }
  return TN_OK;
}

/* The history-to-be of an in-place call, made before the write. */
typedef struct rebase {
  tn_tensor *target;
  tn_tensor *holder; /* whose history the node becomes: target, or its base */
  tni_node *node;    /* owned until set */
  tni_node *fn;      /* borrowed: the operator's own node */
} rebase;

static tn_status holder_prepare(rebase *r, uint32_t written) {
  tni_autograd *slot;
  if (r->target->base) {
    uint32_t self_edge = tni_op_node_edge_of(r->fn, written);
    tni_node *fn = r->node;
    r->node = NULL;
    TN_TRY(tni_copy_slices_new(r->target, fn, self_edge, &r->node));
    r->holder = r->target->base;
  }
  TN_TRY(tni_slot_ensure(r->holder, &slot));
  if (!slot->grad_fn) TN_TRY(tni_circles_break(r->holder, r->node));
  if (slot->retains_grad) TN_TRY(tni_hooks_add_retain(r->node, 0, slot->cell));
  return TN_OK;
}

static tn_status rebase_prepare(rebase *r, const tn_op *op, const tn_value *args, uint64_t requiring,
                                uint32_t written) {
  r->target = r->holder = args[written].u.t;
  const tn_grad_def *def = op->flags & TN_OP_NONDIFF ? NULL : op->grad;
  if (def)
    TN_TRY(tni_op_node_new(op, args, requiring, &r->target, 1, written, &r->node));
  else
    TN_TRY(tni_end_node_new(op, &r->target, 1, !(op->flags & TN_OP_NONDIFF), args, &r->node));
  r->fn = r->node;
  tn_status status = holder_prepare(r, written);
  if (status != TN_OK) {
    tni_node_release(r->node);
    r->node = NULL;
  }
  return status;
}

/* The write happened; nothing here can fail. */
static void rebase_finish(rebase *r) {
  tni_op_node_outs_written(r->fn);
  tni_history_set(r->holder, r->node, 0);
}

/* A body-only operator in its in-place form: the functional one is recorded by its parts, copy_ brings
 * it home. */
static tn_status run_parts_in_place(tn_call *call, const tn_value *args, uint32_t written) {
  const tn_op *functional = call->op->functional;
  tn_value result[MOST_RESULTS];
  TN_TRY(tni_call(functional, args, result));
  const tn_value copy[3] = {args[written], result[0], tn_value_bool(false)};
  tn_status status = tni_call(&tni_op_table[TNI_OP_copy_], copy, NULL);
  results_release(functional, result);
  return status;
}

/* The body runs above autograd, which records its parts. What the meta rule would refuse below is refused here. */
static tn_status run_body(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  return op->functional->meta ? tni_body_checked(call, args, out) : tni_body_step(call, args, out);
}

static tn_status run_in_place(tn_call *call, const tn_value *args, uint64_t requiring, tn_value *out) {
  const tn_op *op = call->op;
  uint32_t written = (uint32_t)__builtin_ctzll(op->write_args);
  TN_TRY(check_written(op, args));
  if (args[written].kind != TN_VAL_TENSOR || (op->write_args & (op->write_args - 1)))
    return tn_fail(TN_ERR_NOT_DIFFERENTIABLE,
                   "an operator that writes several tensors has no gradient; turn grad mode off to call it");
  if (!tni_dtype_differentiable(args[written].u.t->view.dtype))
    return tni_call_below(call, TNI_BIT_AUTOGRAD, args, out);
  if (!op->grad && !(op->flags & TN_OP_NONDIFF)) {
    if (op->functional != op && op->functional->body) return run_parts_in_place(call, args, written);
    if (op->functional == op && op->body) return run_body(call, args, out);
  }
  rebase r = {0};
  TN_TRY(rebase_prepare(&r, op, args, requiring, written));
  tn_status status = run_below(call, args, out);
  if (status != TN_OK) {
    tni_node_release(r.node);
    return status;
  }
  rebase_finish(&r);
  return TN_OK;
}

/* ------------------------------------------------------------------ the cell */

/* What is not simply run and recorded. */
static tn_status run_otherwise(tn_call *call, const tn_value *args, uint64_t requiring, tn_value *out) {
  const tn_op *op = call->op;
  if (TNI_UNLIKELY(op->form == TN_FORM_OUT))
    return tn_fail(TN_ERR_STATE, "an out= call is not recorded, but one of its tensors requires grad");
  if (op->flags & TN_OP_ALWAYS_BODY) return tni_body_step(call, args, out);
  if (op->write_args && op->form != TN_FORM_FUNCTIONAL) return run_in_place(call, args, requiring, out);
  if (op->write_args) TN_TRY(check_written(op, args)); /* beside results: running statistics */
  /* A body's own calls come from the top, where each would leave its history. */
  if (op->flags & TN_OP_NONDIFF)
    return op->body ? run_below(call, args, out) : tni_call_below(call, TNI_BIT_AUTOGRAD, args, out);
  if (!op->grad && op->body) return run_body(call, args, out);
  return run_functional(call, args, requiring, out);
}

tn_status tni_autograd_cell(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  const uint64_t requiring = tni_grad_on() ? requiring_args(op, args) : 0;
  if (!requiring) return tni_call_below(call, TNI_BIT_AUTOGRAD, args, out);
  if (TNI_LIKELY(op->grad && op->form == TN_FORM_FUNCTIONAL && !op->write_args &&
                 !(op->flags & (TN_OP_ALWAYS_BODY | TN_OP_NONDIFF))))
    return run_functional(call, args, requiring, out);
  return run_otherwise(call, args, requiring, out);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients and gradients of gradients in float64 by central differences (tn_gradcheck). Which operators are
 * differentiable follows from the operator: a formula's inputs; of a body without a formula all float64
 * arguments. Operators that write an argument are checked through a clone of it.
 */
#include <string.h>
#include <tenon/tenon.h>

#include "case.h"

/* What the function under tn_gradcheck needs. */
typedef struct gradient_case {
  op_case c;
  uint32_t slots[CASE_TENSORS];  /* of input k: the argument ... */
  uint32_t entries[CASE_TENSORS]; /* ... and the entry, if it is a list */
  size_t n_in;
  uint32_t outs[REF_OUTS]; /* the differentiable results; of a writing operator: argument 0 */
  size_t n_out;
} gradient_case;

/* Arguments that bodies take as constants, as ATen does: no gradient comes for them. */
static const struct {
  const char *op;
  uint32_t arg;
} constants[] = {{"nll_loss", 2}, {"nll_loss2d", 2}, {"cross_entropy_loss", 2}, {"_extreme_backward", 1}, {"_extreme_backward", 2}};

static bool is_input(const tn_op *op, uint32_t arg) {
  for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
    if (constants[i].arg == arg && strcmp(constants[i].op, op->name) == 0) return false;
  if (!op->grad) return true;
  for (uint32_t k = 0; k < op->grad->n_inputs; k++)
    if (op->grad->input_args[k] == arg) return true;
  return false;
}

/* Of these arguments one triangle is read, as of a symmetric matrix, and the gradient is that of such a matrix: the
 * function under test is the operator of the argument's symmetric part. */
static const char *const symmetric[] = {"linalg_cholesky_ex", "linalg_cholesky", "_linalg_eigh", "linalg_eigh",
                                        "linalg_eigvalsh"};

static bool is_symmetric(const tn_op *op) {
  for (size_t i = 0; i < sizeof symmetric / sizeof symmetric[0]; i++)
    if (strcmp(symmetric[i], op->name) == 0) return true;
  return false;
}

static tn_status symmetric_part(tn_tensor *x, tn_tensor **out) {
  tn_tensor *turned = NULL, *sum = NULL;
  tn_status status = tn_transpose(x, -2, -1, &turned);
  if (status == TN_OK) status = tn_add(x, turned, tn_int(1), &sum);
  if (status == TN_OK) status = tn_mul_scalar(sum, tn_float(0.5), out);
  tn_tensor_release(sum);
  tn_tensor_release(turned);
  return status;
}

static void put_input(const gradient_case *g, op_case *c, size_t k, tn_tensor *t) {
  tn_value *v = &c->args[g->slots[k]];
  if (v->kind == TN_VAL_LIST) c->lists[g->slots[k]][g->entries[k]] = t;
  else *v = tn_value_tensor(t);
}

/* The operator as a function of its inputs. */
static tn_status call_function(void *ctx, tn_tensor *const *in, size_t n_in, tn_tensor **out, size_t n_out) {
  gradient_case *g = ctx;
  op_results r;
  op_case c = g->c;
  tn_tensor *written = NULL;
  for (uint32_t i = 0; i < c.n_args; i++)
    if (c.args[i].kind == TN_VAL_LIST && c.args[i].elem == TN_VAL_TENSOR) c.args[i].u.ts = c.lists[i];
  for (size_t k = 0; k < n_in; k++) put_input(g, &c, k, in[k]);
  bool writes = c.op->write_args & 1;
  if (is_symmetric(c.op)) {
    tn_status status = symmetric_part(c.args[0].u.t, &written);
    if (status != TN_OK) return status;
    c.args[0] = tn_value_tensor(written);
  }
  if (writes) {
    tn_status status = tn_clone(c.args[0].u.t, TN_PRESERVE_FORMAT, &written);
    if (status != TN_OK) return status;
    c.args[0] = tn_value_tensor(written);
  }
  tn_status status = case_call(&c, c.op, &r);
  if (status != TN_OK) {
    tn_tensor_release(written);
    return status;
  }
  for (size_t k = 0; k < n_out; k++) out[k] = tn_tensor_retain(writes ? written : r.t[g->outs[k]]);
  results_release(&r);
  tn_tensor_release(written);
  return TN_OK;
}

static void find_inputs(gradient_case *g, tn_tensor **in) {
  for (uint32_t i = 0; i < g->c.n_args; i++) {
    const tn_value *v = &g->c.args[i];
    uint32_t n = v->kind == TN_VAL_TENSOR ? 1 : v->kind == TN_VAL_LIST && v->elem == TN_VAL_TENSOR ? v->count : 0;
    for (uint32_t k = 0; k < n && is_input(g->c.op, i); k++) {
      tn_tensor *t = v->kind == TN_VAL_TENSOR ? v->u.t : v->u.ts[k];
      if (tn_tensor_dtype(t) != TN_FLOAT64) continue;
      TN_CHECK_OK(tn_set_requires_grad(t, true));
      g->slots[g->n_in] = i;
      g->entries[g->n_in] = k;
      in[g->n_in++] = t;
    }
  }
}

/* Results that require a gradient: float64 (differences mean nothing in less), not marked as having none.
 * False if the operator has none. */
static bool find_outputs(gradient_case *g) {
  op_results r;
  if (g->c.op->write_args & 1) {
    g->outs[g->n_out++] = 0;
    return true;
  }
  tn_status status = case_call(&g->c, g->c.op, &r);
  if (status != TN_OK) {
    if (!may_decline(g->c.op, TN_FLOAT64, status))
      finding(&g->c, "failed with %d: %s", (int)status, tn_error_message());
    return false;
  }
  for (uint32_t i = 0; i < r.n; i++) {
    if (!r.t[i] || tn_tensor_dtype(r.t[i]) != TN_FLOAT64) continue;
    if (!(g->c.op->grad && g->c.op->grad->nondiff_outs & TNI_KEY(i))) g->outs[g->n_out++] = i;
  }
  results_release(&r);
  return g->n_out > 0;
}

static void run(const tn_op *op, const tn_sample *sample, bool second) {
  gradient_case g = {.n_in = 0};
  tn_tensor *in[CASE_TENSORS];
  if (op->flags & TN_OP_NONDIFF || (!op->grad && !op->body)) return;
  case_build(&g.c, op, sample, TN_FLOAT64, CASE_CONTIGUOUS);
  find_inputs(&g, in);
  if (g.n_in > 0 && find_outputs(&g)) {
    tn_status status = tn_gradcheck(call_function, &g, in, g.n_in, g.n_out, 0, 0, 0, second);
    if (status != TN_OK) finding(&g.c, "%d: %s", (int)status, tn_error_message());
  }
  case_release(&g.c);
}

void check_gradient(const tn_op *op, const tn_sample *sample, tn_dtype dtype) { run(op, sample, false); }
void check_second_gradient(const tn_op *op, const tn_sample *sample, tn_dtype dtype) { run(op, sample, true); }

/* SPDX-License-Identifier: Apache-2.0
 *
 * One operator on one sample as a function whose gradients can be compared with differences. The inputs stand on the
 * CPU in float64, where differences mean something; the function takes them to the device and the dtype under test and
 * brings the results back, and the gradient travels the same way. So a device without float64, or without memory that
 * the host sees, is checked like any other.
 *
 * Which arguments are differentiable follows from the operator: a formula's inputs; of a body without a formula all
 * that have a floating dtype.
 */
#include "frontends/check/ops.h"

typedef struct gradient {
  tni_ops_case c; /* on the CPU, float64 */
  tn_device device;
  tn_dtype dtype;
  uint32_t slots[TNI_OPS_TENSORS];   /* of input k: the argument ... */
  uint32_t entries[TNI_OPS_TENSORS]; /* ... and the entry, if that is a list */
  size_t n_in;
  uint32_t outs[REF_OUTS]; /* the differentiable results; of a writing operator: argument 0 */
  size_t n_out;
} gradient;

/* Arguments that bodies take as constants, as ATen does: no gradient comes for them. */
static const struct {
  const char *op;
  uint32_t arg;
} constants[] = {{"nll_loss", 2}, {"nll_loss2d", 2}, {"cross_entropy_loss", 2}, {"_extreme_backward", 1}, {"_extreme_backward", 2}};

/* Of these arguments one triangle is read, as of a symmetric matrix, and the gradient is that of such a matrix: the
 * function under test is the operator of the argument's symmetric part. */
static const char *const symmetric[] = {"linalg_cholesky_ex", "linalg_cholesky", "_linalg_eigh", "linalg_eigh",
                                        "linalg_eigvalsh"};

static bool is_input(const tni_ops_op *op, uint32_t arg) {
  for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
    if (constants[i].arg == arg && !strcmp(constants[i].op, op->report.name)) return false;
  return !op->report.has_formula || (op->report.grad_args >> arg & 1);
}

static bool is_symmetric(const tni_ops_op *op) {
  for (size_t i = 0; i < sizeof symmetric / sizeof symmetric[0]; i++)
    if (!strcmp(symmetric[i], op->report.name)) return true;
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

/* ------------------------------------------------------------------ the function */

/* A copy even where device and dtype fit: operators that write may write it. */
static tn_status bring(tn_tensor *t, tn_device device, tn_dtype dtype, bool copy, tn_tensor **out) {
  return tn_to_device(t, device, dtype, false, copy, TN_MEMORY_FORMAT_NONE, out);
}

/* All tensors of the case on the device: inputs from `in`, others copied. made[] is owned, also on failure. */
static tn_status bring_all(const gradient *g, tni_ops_case *c, tn_tensor *const *in, tn_tensor **made, size_t *n_made) {
  for (uint32_t i = 0; i < c->n_args; i++) {
    tn_value *v = &c->args[i];
    uint32_t n = v->kind == TN_VAL_TENSOR ? 1 : v->kind == TN_VAL_LIST && v->elem == TN_VAL_TENSOR ? v->count : 0;
    if (v->kind == TN_VAL_LIST && v->elem == TN_VAL_TENSOR) v->u.ts = c->lists[i];
    for (uint32_t k = 0; k < n; k++) {
      tn_tensor *t = v->kind == TN_VAL_TENSOR ? v->u.t : c->lists[i][k];
      if (!t) continue;
      for (size_t j = 0; j < g->n_in; j++)
        if (g->slots[j] == i && g->entries[j] == k) t = in[j];
      bool floating = TN_DTYPES_FLOAT & TN_DTYPE_BIT(tn_tensor_dtype(t));
      bool written = c->op->writes >> i & 1;
      TN_TRY(bring(t, g->device, floating ? g->dtype : tn_tensor_dtype(t), written, &made[*n_made]));
      if (v->kind == TN_VAL_TENSOR) *v = tn_value_tensor(made[*n_made]);
      else c->lists[i][k] = made[*n_made];
      (*n_made)++;
    }
  }
  if (!is_symmetric(c->op)) return TN_OK;
  TN_TRY(symmetric_part(c->args[0].u.t, &made[*n_made]));
  c->args[0] = tn_value_tensor(made[(*n_made)++]);
  return TN_OK;
}

/* Arguments that name the dtype under test name the device's. */
static void name_dtype(const gradient *g, tni_ops_case *c) {
  for (uint32_t i = 0; i < c->n_args; i++)
    if (c->sample->args[i].kind == TN_SAMPLE_TESTED_DTYPE) c->args[i] = tn_value_dtype(g->dtype);
}

static tn_status call_function(void *ctx, tn_tensor *const *in, size_t n_in, tn_tensor **out, size_t n_out) {
  gradient *g = ctx;
  tni_ops_case c = g->c;
  tni_ops_results r = {0};
  tn_tensor *made[TNI_OPS_TENSORS + 1];
  size_t n_made = 0;
  (void)n_in;
  name_dtype(g, &c);
  tn_status status = bring_all(g, &c, in, made, &n_made);
  if (status == TN_OK) status = tni_ops_call(&c, c.op, &r);
  for (size_t k = 0; k < n_out && status == TN_OK; k++)
    status = bring(c.op->writes ? c.args[0].u.t : r.t[g->outs[k]], (tn_device){.backend = TN_BACKEND_CPU}, TN_FLOAT64,
                   false, &out[k]);
  tni_ops_results_release(&r);
  while (n_made) tn_tensor_release(made[--n_made]);
  return status;
}

/* ------------------------------------------------------------------ what is differentiable */

static tn_status find_inputs(gradient *g, tn_tensor **in) {
  for (uint32_t i = 0; i < g->c.n_args; i++) {
    const tn_value *v = &g->c.args[i];
    uint32_t n = v->kind == TN_VAL_TENSOR ? 1 : v->kind == TN_VAL_LIST && v->elem == TN_VAL_TENSOR ? v->count : 0;
    for (uint32_t k = 0; k < n && is_input(g->c.op, i); k++) {
      tn_tensor *t = v->kind == TN_VAL_TENSOR ? v->u.t : v->u.ts[k];
      if (!t || tn_tensor_dtype(t) != TN_FLOAT64) continue;
      TN_TRY(tn_set_requires_grad(t, true));
      g->slots[g->n_in] = i;
      g->entries[g->n_in] = k;
      in[g->n_in++] = t;
    }
  }
  return TN_OK;
}

/* Results that may require a gradient: floating, not marked as having none. */
static tn_status find_outputs(gradient *g) {
  tni_ops_results r;
  const tn_op_report *report = &g->c.op->report;
  if (g->c.op->writes) {
    g->outs[g->n_out++] = 0;
    return TN_OK;
  }
  bool before = tn_grad_mode_set(false);
  tn_status status = tni_ops_call(&g->c, g->c.op, &r);
  tn_grad_mode_set(before);
  if (status != TN_OK) return status;
  for (uint32_t i = 0; i < r.n; i++)
    if (r.t[i] && tn_tensor_dtype(r.t[i]) == TN_FLOAT64 && !(report->nondiff_outs >> i & 1)) g->outs[g->n_out++] = i;
  tni_ops_results_release(&r);
  return TN_OK;
}

/* ------------------------------------------------------------------ without differences */

/* In less than float64 differences tell little, and nothing near a kink or a tie. There the gradients are compared with
 * those of the CPU in float64, which differences hold elsewhere. */
static const double ALLOWED = 1e-3;

/* Gradients of the sum of all differentiable results, each weighted element by element; out_grads[n_in], entries may be
 * NULL. */
static tn_status gradients(gradient *g, tn_tensor *const *in, tn_tensor **out_grads) {
  tn_tensor *outs[REF_OUTS] = {NULL}, *seeds[REF_OUTS] = {NULL};
  tn_status status = call_function(g, in, g->n_in, outs, g->n_out);
  for (size_t k = 0; k < g->n_out && status == TN_OK; k++) {
    const tn_sample_tensor like = {.sizes = tn_tensor_sizes(outs[k]), .ndim = (uint8_t)tn_tensor_ndim(outs[k]),
                                   .dtype = TN_FLOAT64};
    uint64_t state = 5 + k;
    status = tni_ops_tensor(&like, TN_FLOAT64, (tn_device){.backend = TN_BACKEND_CPU}, true, &state, &seeds[k]);
  }
  const tn_backward_options options = {.allow_unused = true};
  if (status == TN_OK) status = tn_grad_of(outs, seeds, g->n_out, in, g->n_in, &options, out_grads);
  for (size_t k = 0; k < g->n_out; k++) tn_tensor_release(outs[k]), tn_tensor_release(seeds[k]);
  return status;
}

static tn_status compare_gradient(size_t k, tn_tensor *got, tn_tensor *wanted) {
  char words[TNI_OPS_WORDS];
  if (!got && !wanted) return TN_OK;
  if (!got || !wanted)
    return tn_fail(TN_ERR_DATA, "input %zu has a gradient %s", k, got ? "that it has not on the CPU" : "on the CPU only");
  const rt *a = tni_ops_read(got), *b = tni_ops_read(wanted);
  if (!a || !b) return TN_ERR_STATE;
  if (ref_judge(a, b, TN_FLOAT64, ALLOWED, words, sizeof words)) return TN_OK;
  return tn_fail(TN_ERR_DATA, "the gradient of input %zu %s (of the CPU in float64)", k, words);
}

static tn_status compare_with_cpu(gradient *g, tn_tensor *const *in) {
  tn_tensor *got[TNI_OPS_TENSORS] = {NULL}, *wanted[TNI_OPS_TENSORS] = {NULL};
  gradient cpu = *g;
  cpu.device = (tn_device){.backend = TN_BACKEND_CPU};
  cpu.dtype = TN_FLOAT64;
  for (uint32_t i = 0; i < cpu.c.n_args; i++)
    if (cpu.c.args[i].kind == TN_VAL_LIST && cpu.c.args[i].elem == TN_VAL_TENSOR) cpu.c.args[i].u.ts = cpu.c.lists[i];
  tn_status status = gradients(&cpu, in, wanted);
  if (status == TN_OK) status = gradients(g, in, got);
  for (size_t k = 0; k < g->n_in && status == TN_OK; k++) status = compare_gradient(k, got[k], wanted[k]);
  for (size_t k = 0; k < g->n_in; k++) tn_tensor_release(got[k]), tn_tensor_release(wanted[k]);
  return status;
}

tn_status tni_ops_gradcheck(const tni_ops_op *op, const tn_sample *sample, tn_dtype dtype, tn_device device, bool second,
                            bool *out_tried) {
  gradient g = {.device = device, .dtype = dtype};
  tn_tensor *in[TNI_OPS_TENSORS];
  *out_tried = false;
  if (op->report.flags & TN_OP_NONDIFF || (!op->report.has_formula && !op->report.has_body)) return TN_OK;
  if (op->writes & ~(uint64_t)1) return TN_OK; /* several targets: optimisers' steps */
  tn_device cpu = {.backend = TN_BACKEND_CPU};
  TN_TRY(tni_ops_case_make(&g.c, op, sample, TN_FLOAT64, cpu, TNI_OPS_CONTIGUOUS));
  tn_status status = find_inputs(&g, in);
  if (status == TN_OK && g.n_in) status = find_outputs(&g);
  if (status == TN_OK && g.n_in && g.n_out) {
    *out_tried = true;
    status = dtype == TN_FLOAT64 ? tn_gradcheck(call_function, &g, in, g.n_in, g.n_out, 0, 0, 0, second)
                                 : compare_with_cpu(&g, in);
  }
  tni_ops_case_release(&g.c);
  return status;
}

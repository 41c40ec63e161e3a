/* SPDX-License-Identifier: Apache-2.0
 *
 * Making the arguments of a case, and calling. Values and places come from the reference library. Strided tensors
 * are laid over foreign memory: no operator is needed to make an operator's input.
 */
#include "case.h"

#include <stdlib.h>
#include <tenon/tenon.h>

/* ------------------------------------------------------------------ tensors */

static tn_tensor *strided_tensor(const tn_sample_tensor *s, tn_dtype dtype, uint64_t *state) {
  ref_layout layout;
  tn_tensor *t = NULL;
  ref_layout_of(s, false, &layout);
  size_t size = tn_dtype_size(dtype);
  char *memory = calloc((size_t)layout.elements + 1, size);
  TN_CHECK_NOT_NULL(memory);
  ref_draw(s, dtype, &layout, state, memory);
  tn_foreign foreign = {.data = memory + (size_t)layout.offset * size,
                        .sizes = s->sizes,
                        .strides = layout.strides,
                        .ndim = s->ndim,
                        .dtype = dtype,
                        .deleter = free,
                        .ctx = memory};
  TN_CHECK_OK(tn_tensor_from_memory(&foreign, &t));
  return t;
}

static tn_tensor *plain_tensor(const tn_sample_tensor *s, tn_dtype dtype, uint64_t *state) {
  ref_layout layout;
  tn_tensor *t = NULL;
  ref_layout_of(s, true, &layout);
  char *memory = malloc((size_t)layout.elements * tn_dtype_size(dtype) + 1);
  TN_CHECK_NOT_NULL(memory);
  ref_draw(s, dtype, &layout, state, memory);
  tn_status status = tn_tensor_from_host(memory, s->sizes, s->ndim, TN_OPTIONS(.dtype = dtype), &t);
  free(memory);
  TN_CHECK_OK(status);
  return t;
}

/* A fresh tensor has no negative strides; those of a flipped one count as forward ones, by which results are laid out. */
static tn_tensor *meta_tensor(const tn_sample_tensor *s, tn_dtype dtype) {
  ref_layout layout;
  tn_tensor *t = NULL;
  ref_layout_of(s, false, &layout);
  for (int d = 0; d < s->ndim; d++) layout.strides[d] = layout.strides[d] < 0 ? -layout.strides[d] : layout.strides[d];
  TN_CHECK_OK(tni_tensor_new(dtype, s->ndim, s->sizes, layout.strides, (tn_device){.backend = TN_BACKEND_META}, &t));
  return t;
}

static tn_tensor *make_tensor(op_case *c, const tn_sample_tensor *s, uint64_t *state) {
  tn_dtype dtype = s->dtype == TN_DTYPE_NONE ? c->dtype : s->dtype;
  tn_tensor *t;
  TN_CHECK(s->ndim <= RT_RANK && c->n_tensors < CASE_TENSORS);
  if (s->absent) return NULL;
  if (c->kind == CASE_META)
    t = meta_tensor(s, dtype);
  else if (c->kind == CASE_CONTIGUOUS || s->layout == TN_SAMPLE_CONTIGUOUS)
    t = plain_tensor(s, dtype, state);
  else
    t = strided_tensor(s, dtype, state);
  c->tensors[c->n_tensors++] = t;
  return t;
}

/* ------------------------------------------------------------------ arguments */

/* A factory that is told no dtype makes the one under test; on the meta device it is told that device. */
static tn_value default_argument(const op_case *c, uint32_t i) {
  const tni_arg *arg = &c->op->schema->args[i];
  bool factory = c->op->flags & TN_OP_FACTORY;
  if (factory && arg->type == TNI_T_DTYPE && !arg->list && arg->default_value.kind == TN_VAL_NONE)
    return tn_value_dtype(c->dtype);
  if (c->kind == CASE_META && arg->type == TNI_T_DEVICE && factory)
    return tn_value_device((tn_device){.backend = TN_BACKEND_META});
  return arg->default_value;
}

static tn_value make_argument(op_case *c, uint32_t i, const tn_sample_arg *arg, uint64_t *state) {
  switch (arg->kind) {
    case TN_SAMPLE_DEFAULT: return default_argument(c, i);
    case TN_SAMPLE_TENSOR: return tn_value_tensor(make_tensor(c, &arg->tensors[0], state));
    case TN_SAMPLE_TENSORS:
      TN_CHECK(arg->n_tensors <= CASE_LIST);
      for (uint32_t k = 0; k < arg->n_tensors; k++) c->lists[i][k] = make_tensor(c, &arg->tensors[k], state);
      return tn_value_tensors(c->lists[i], arg->n_tensors);
    case TN_SAMPLE_VALUE: return arg->value;
    case TN_SAMPLE_TESTED_DTYPE: return tn_value_dtype(c->dtype);
    default: return tn_value_none();
  }
}

void case_build(op_case *c, const tn_op *op, const tn_sample *sample, tn_dtype dtype, case_kind kind) {
  uint64_t state = ref_seed(op->name, sample->text);
  *c = (op_case){.op = op, .sample = sample, .dtype = dtype, .kind = kind, .n_args = sample->n_args};
  TN_CHECK_INT(sample->n_args, op->schema->n_args);
  TN_CHECK(sample->n_args <= CASE_ARGS);
  for (uint32_t i = 0; i < sample->n_args; i++) c->args[i] = make_argument(c, i, &sample->args[i], &state);
}

void case_release(op_case *c) {
  for (size_t i = 0; i < c->n_tensors; i++) tn_tensor_release(c->tensors[i]);
  c->n_tensors = 0;
}

/* ------------------------------------------------------------------ calling */

tn_status case_call(op_case *c, const tn_op *op, op_results *out) {
  TN_CHECK_OK(tn_manual_seed(17));
  return case_run(c, op, out);
}

tn_status case_run(op_case *c, const tn_op *op, op_results *out) {
  *out = (op_results){0};
  if (op->list_result) out->values[0] = tn_value_tensors(out->list, CASE_LIST);
  tn_status status = tni_call(op, c->args, out->values);
  if (status != TN_OK) return status;
  if (op->list_result) {
    out->n = out->values[0].count;
    for (uint32_t i = 0; i < out->n; i++) out->t[i] = out->list[i];
  } else {
    out->n = op->n_outs;
    for (uint32_t i = 0; i < out->n; i++)
      out->t[i] = out->values[i].kind == TN_VAL_TENSOR ? out->values[i].u.t : NULL;
  }
  return TN_OK;
}

void results_release(op_results *r) {
  for (uint32_t i = 0; i < r->n; i++) tn_tensor_release(r->t[i]);
  r->n = 0;
}

/* ------------------------------------------------------------------ to the reference */

static ref_arg reference_argument(const tn_value *v) {
  ref_arg a = {.kind = v->kind, .elem = v->elem, .n = (int)v->count};
  switch (v->kind) {
    case TN_VAL_BOOL:
    case TN_VAL_INT:
    case TN_VAL_DTYPE: a.num = (double)v->u.i; break;
    case TN_VAL_FLOAT: a.num = v->u.f; break;
    case TN_VAL_STRING: a.s = v->u.s; break;
    case TN_VAL_TENSOR: a.t = read_tensor(v->u.t); break;
    case TN_VAL_LIST:
      a.ints = v->u.ints;
      a.floats = v->u.floats;
      a.bools = v->u.bools;
      if (v->elem != TN_VAL_TENSOR && v->elem != TN_VAL_OPTIONAL_TENSOR) break;
      a.ts = ref_alloc((v->count + 1) * sizeof *a.ts);
      for (uint32_t k = 0; k < v->count; k++) a.ts[k] = v->u.ts[k] ? read_tensor(v->u.ts[k]) : NULL;
      break;
    default: break;
  }
  return a;
}

void case_reference(const op_case *c, ref_call *call, ref_arg *args) {
  *call = (ref_call){.op = c->op->name, .args = args, .n_args = (int)c->n_args, .dtype = c->dtype};
  for (uint32_t i = 0; i < c->n_args; i++) args[i] = reference_argument(&c->args[i]);
  for (uint32_t i = c->n_args; i-- > 0;)
    if (c->args[i].kind == TN_VAL_TENSOR) call->dtype = tn_tensor_dtype(c->args[i].u.t);
}

rt *read_tensor(const tn_tensor *t) {
  const tn_view *v = tn_tensor_view(t);
  return ref_read(v->data, v->dtype, v->ndim, v->sizes, v->strides);
}

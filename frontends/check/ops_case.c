/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of a case on a device. A tensor's memory is made whole on the host, with the values at the places where the
 * sample wants them, and goes to the device as one flat tensor; strides are a view of that, as an application would
 * make them. Negative strides no operator makes, so those tensors are over the host's memory, or lie forwards where the
 * device cannot see it.
 */
#include <stdlib.h>

#include "frontends/check/ops.h"

/* ------------------------------------------------------------------ tensors */

static tn_options on(tn_dtype dtype, tn_device device) {
  return (tn_options){.dtype = dtype, .has_device = true, .device = device};
}

static tn_status strided_view(const tn_sample_tensor *s, const ref_layout *layout, tn_tensor *flat, tn_tensor **out) {
  return tn_as_strided(flat, s->sizes, s->ndim, layout->strides, s->ndim, &layout->offset, out);
}

/* Consumes memory. */
static tn_status over_host_memory(const tn_sample_tensor *s, const ref_layout *layout, tn_dtype dtype, char *memory,
                                  tn_tensor **out) {
  const tn_foreign foreign = {.data = memory + (size_t)layout->offset * ref_item_size(dtype),
                              .sizes = s->sizes,
                              .strides = layout->strides,
                              .ndim = s->ndim,
                              .dtype = dtype,
                              .deleter = free,
                              .ctx = memory};
  return tn_tensor_from_memory(&foreign, out);
}

tn_status tni_ops_tensor(const tn_sample_tensor *s, tn_dtype dtype, tn_device device, bool contiguous, uint64_t *state,
                         tn_tensor **out_tensor) {
  ref_layout layout;
  *out_tensor = NULL;
  contiguous |= s->layout == TN_SAMPLE_CONTIGUOUS;
  bool flipped = !contiguous && s->layout == TN_SAMPLE_FLIPPED;
  if (flipped && device.backend != TN_BACKEND_CPU) contiguous = true, flipped = false;
  ref_layout_of(s, contiguous, &layout);
  char *memory = calloc((size_t)layout.elements + 1, ref_item_size(dtype));
  if (!memory) return tn_fail(TN_ERR_OUT_OF_MEMORY, "no memory for a sample's tensor");
  ref_draw(s, dtype, &layout, state, memory);
  if (flipped) return over_host_memory(s, &layout, dtype, memory, out_tensor);
  tn_options options = on(dtype, device);
  tn_tensor *flat = NULL;
  tn_status status;
  if (contiguous) {
    status = tn_tensor_from_host(memory, s->sizes, s->ndim, &options, out_tensor);
  } else {
    status = tn_tensor_from_host(memory, &layout.elements, 1, &options, &flat);
    if (status == TN_OK) status = strided_view(s, &layout, flat, out_tensor);
  }
  tn_tensor_release(flat);
  free(memory);
  return status;
}

/* Strides of a flipped tensor count as forward ones, by which results are laid out. */
static tn_status meta_tensor(const tn_sample_tensor *s, tn_dtype dtype, tn_device device, tn_tensor **out) {
  ref_layout layout;
  ref_layout_of(s, s->layout == TN_SAMPLE_FLIPPED && device.backend != TN_BACKEND_CPU, &layout);
  for (int d = 0; d < s->ndim; d++) layout.strides[d] = layout.strides[d] < 0 ? -layout.strides[d] : layout.strides[d];
  tn_options options = on(dtype, (tn_device){.backend = TN_BACKEND_META});
  return tn_empty_strided(s->sizes, s->ndim, layout.strides, s->ndim, &options, out);
}

static tn_status add_tensor(tni_ops_case *c, const tn_sample_tensor *s, uint64_t *state, tn_tensor **out) {
  tn_dtype dtype = s->dtype == TN_DTYPE_NONE ? c->dtype : s->dtype;
  *out = NULL;
  if (s->absent) return TN_OK;
  if (s->ndim > RT_RANK || c->n_tensors == TNI_OPS_TENSORS)
    return tn_fail(TN_ERR_UNSUPPORTED, "a sample of more tensors or dims than the checks have room for");
  if (c->kind == TNI_OPS_META) TN_TRY(meta_tensor(s, dtype, c->device, out));
  else TN_TRY(tni_ops_tensor(s, dtype, c->device, c->kind == TNI_OPS_CONTIGUOUS, state, out));
  c->tensors[c->n_tensors++] = *out;
  return TN_OK;
}

/* ------------------------------------------------------------------ arguments */

/* A factory that is told no dtype makes the one under test, where the case is. */
static tn_value default_argument(const tni_ops_case *c, uint32_t i) {
  const tni_arg *arg = &c->op->schema->args[i];
  if (!(c->op->report.flags & TN_OP_FACTORY)) return arg->default_value;
  if (arg->type == TNI_T_DTYPE && !arg->list && arg->default_value.kind == TN_VAL_NONE)
    return tn_value_dtype(c->dtype);
  bool meta = c->kind == TNI_OPS_META;
  if (arg->type == TNI_T_DEVICE) return tn_value_device(meta ? (tn_device){.backend = TN_BACKEND_META} : c->device);
  return arg->default_value;
}

static tn_status make_argument(tni_ops_case *c, uint32_t i, const tn_sample_arg *arg, uint64_t *state) {
  tn_tensor *t = NULL;
  c->args[i] = tn_value_none();
  switch (arg->kind) {
    case TN_SAMPLE_DEFAULT: c->args[i] = default_argument(c, i); return TN_OK;
    case TN_SAMPLE_VALUE: c->args[i] = arg->value; return TN_OK;
    case TN_SAMPLE_TESTED_DTYPE: c->args[i] = tn_value_dtype(c->dtype); return TN_OK;
    case TN_SAMPLE_TENSOR:
      TN_TRY(add_tensor(c, &arg->tensors[0], state, &t));
      c->args[i] = tn_value_tensor(t);
      return TN_OK;
    case TN_SAMPLE_TENSORS:
      if (arg->n_tensors > TNI_OPS_LIST)
        return tn_fail(TN_ERR_UNSUPPORTED, "a sample's list of %u tensors; the checks have room for %d", arg->n_tensors,
                       TNI_OPS_LIST);
      for (uint32_t k = 0; k < arg->n_tensors; k++) TN_TRY(add_tensor(c, &arg->tensors[k], state, &c->lists[i][k]));
      c->args[i] = tn_value_tensors(c->lists[i], arg->n_tensors);
      return TN_OK;
    default: return TN_OK;
  }
}

tn_status tni_ops_case_make(tni_ops_case *c, const tni_ops_op *op, const tn_sample *sample, tn_dtype dtype,
                            tn_device device, tni_ops_kind kind) {
  uint64_t state = ref_seed(op->report.functional, sample->text);
  *c = (tni_ops_case){.op = op, .sample = sample, .dtype = dtype, .device = device, .kind = kind, .n_args = sample->n_args};
  if (sample->n_args > TNI_OPS_ARGS || sample->n_args > op->schema->n_args)
    return tn_fail(TN_ERR_DATA, "sample \"%s\" gives %u arguments; %s has %u", sample->text, sample->n_args,
                   op->report.schema, op->schema->n_args);
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < sample->n_args && status == TN_OK; i++)
    status = make_argument(c, i, &sample->args[i], &state);
  if (status != TN_OK) tni_ops_case_release(c);
  return status;
}

void tni_ops_case_release(tni_ops_case *c) {
  while (c->n_tensors) tn_tensor_release(c->tensors[--c->n_tensors]);
}

/* ------------------------------------------------------------------ calling */

tn_status tni_ops_call(tni_ops_case *c, const tni_ops_op *op, tni_ops_results *out) {
  *out = (tni_ops_results){0};
  TN_TRY(tn_manual_seed(17));
  if (op->list_result) out->values[0] = tn_value_tensors(out->list, TNI_OPS_LIST);
  uint32_t n_args = c->n_args + (op->report.form == TN_FORM_OUT);
  TN_TRY(tn_op_call(op->op, c->args, n_args, out->values, REF_OUTS));
  bool returns = op->report.form == TN_FORM_FUNCTIONAL;
  if (op->list_result) {
    out->n = out->values[0].count;
    for (uint32_t i = 0; i < out->n; i++) out->t[i] = out->list[i];
  } else if (returns) {
    out->n = op->schema->n_results;
    for (uint32_t i = 0; i < out->n; i++)
      out->t[i] = out->values[i].kind == TN_VAL_TENSOR ? out->values[i].u.t : NULL;
  }
  return TN_OK;
}

void tni_ops_results_release(tni_ops_results *r) {
  for (uint32_t i = 0; i < r->n; i++) tn_tensor_release(r->t[i]);
  r->n = 0;
}

uint32_t tni_ops_version(const tn_tensor *t) {
  uint32_t version = 0;
  return tn_tensor_version(t, &version) == TN_OK ? version : 0;
}

/* ------------------------------------------------------------------ reading */

void *tni_ops_bytes(tn_tensor *t, size_t *out_size_bytes) {
  *out_size_bytes = (size_t)tn_tensor_numel(t) * tn_tensor_view(t)->itemsize;
  void *bytes = malloc(*out_size_bytes + 1);
  if (bytes && tn_tensor_to_host(t, bytes, *out_size_bytes) == TN_OK) return bytes;
  free(bytes);
  return NULL;
}

rt *tni_ops_read(tn_tensor *t) {
  const tn_view *v = tn_tensor_view(t);
  int64_t strides[RT_RANK], total = 1;
  size_t size;
  if (v->ndim > RT_RANK || !ref_item_size(v->dtype)) {
    tn_fail(TN_ERR_UNSUPPORTED, "a result of rank %d and dtype %s, which the reference does not know", v->ndim,
            tn_dtype_name(v->dtype));
    return NULL;
  }
  for (int d = v->ndim - 1; d >= 0; d--) strides[d] = total, total *= v->sizes[d];
  void *bytes = tni_ops_bytes(t, &size);
  rt *values = bytes ? ref_read(bytes, v->dtype, v->ndim, v->sizes, strides) : NULL;
  free(bytes);
  return values;
}

/* ------------------------------------------------------------------ the reference's view */

static bool reference_argument(const tn_value *v, ref_arg *a) {
  *a = (ref_arg){.kind = v->kind, .elem = v->elem, .n = (int)v->count};
  switch (v->kind) {
    case TN_VAL_BOOL:
    case TN_VAL_INT:
    case TN_VAL_DTYPE: a->num = (double)v->u.i; return true;
    case TN_VAL_FLOAT: a->num = v->u.f; return true;
    case TN_VAL_STRING: a->s = v->u.s; return true;
    case TN_VAL_TENSOR: return (a->t = tni_ops_read(v->u.t)) != NULL;
    case TN_VAL_LIST: break;
    default: return true;
  }
  a->ints = v->u.ints;
  a->floats = v->u.floats;
  a->bools = v->u.bools;
  if (v->elem != TN_VAL_TENSOR && v->elem != TN_VAL_OPTIONAL_TENSOR) return true;
  a->ts = ref_alloc((v->count + 1) * sizeof *a->ts);
  for (uint32_t k = 0; k < v->count; k++)
    if (v->u.ts[k] && !(a->ts[k] = tni_ops_read(v->u.ts[k]))) return false;
  return true;
}

bool tni_ops_reference(const tni_ops_case *c, ref_call *call, ref_arg *args) {
  *call = (ref_call){.op = c->op->report.functional, .args = args, .n_args = (int)c->n_args, .dtype = c->dtype};
  for (uint32_t i = 0; i < c->n_args; i++)
    if (!reference_argument(&c->args[i], &args[i])) return false;
  for (uint32_t i = c->n_args; i-- > 0;)
    if (c->args[i].kind == TN_VAL_TENSOR) call->dtype = tn_tensor_dtype(c->args[i].u.t);
  return true;
}

double tni_ops_tolerance(const tni_ops_case *c, const tni_ops_results *results) {
  double tolerance = ref_tolerance(TN_FLOAT64);
  for (size_t i = 0; i <= c->n_tensors + (results ? results->n : 0); i++) {
    tn_tensor *t = i < c->n_tensors ? c->tensors[i] : NULL;
    if (i > c->n_tensors) t = results->t[i - c->n_tensors - 1];
    double own = t ? ref_tolerance(tn_tensor_dtype(t)) : 0;
    tolerance = own > tolerance ? own : tolerance;
  }
  /* A composite rounds after every step, and nobody promised that a claimed kernel does not decline to it. */
  return c->op->report.has_body ? 4 * tolerance : tolerance;
}

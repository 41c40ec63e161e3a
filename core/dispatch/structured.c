/* SPDX-License-Identifier: Apache-2.0
 *
 * The structured step: meta rule, outputs from the backend's allocator, kernel on views; and the rules of the
 * in-place and out forms. Entry of every backend cell that has providers (or nothing to compute).
 * The general form, which knows all the rules; small frequent calls take a shorter way to the same result: fast.c
 * and single.c.
 */
#include <tenon/kit/dtype.h>
#include <tenon/kit/promote.h>
#include <tenon/kit/shape.h>

#include "core/dispatch/dispatch_int.h"
#include "core/dispatch/fallback.h"
#include "core/load/load.h"
#include "core/tensor/generator.h"

/* ------------------------------------------------------------------ descriptors */

tn_status tni_meta_grow_refused(tn_meta *meta, uint32_t n) {
  return tn_fail(TN_ERR_INTERNAL, "a list of %u results from an operator that is no view", n);
}

static uint32_t functional_outs(const tn_op *op) {
  const tni_schema *s = op->functional->schema;
  if (op->functional->form == TN_FORM_FUNCTIONAL) return op->functional->n_outs;
  return s->n_results; /* in-place only entries: their target */
}

/* Runs the meta rule into step->descs; n_out, compute dtype in *meta. */
static tn_status run_meta(tni_step *step, tn_meta *meta) {
  const tn_op *op = step->op;
  for (uint32_t i = 0; i < step->n_out; ++i) {
    tn_desc *d = &step->descs[i];
    d->dtype = TN_DTYPE_NONE;
    d->ndim = 0;
    d->layout = TN_DESC_CONTIGUOUS;
    d->absent = d->unknown = 0;
    d->offset = 0;
  }
  *meta = op->meta_preset;
  meta->default_dtype = tni_tls.modes.default_dtype;
  meta->n_out = meta->out_capacity = step->n_out;
  meta->out = step->descs;
  meta->grow = tni_meta_grow_refused;
  return op->meta ? op->meta(meta, step->args) : TN_OK;
}

/* ------------------------------------------------------------------ results */

const tn_dim *tni_desc_strides(const tn_op *op, const tn_value *args, tn_desc *d) {
  switch (d->layout) {
    case TN_DESC_STRIDES: return d->strides;
    case TN_DESC_ELEMENTWISE: tni_elementwise_strides(op, args, d); return d->strides;
    case TN_DESC_LIKE_SELF: {
      const tn_view *self = args[0].kind == TN_VAL_TENSOR ? args[0].u.v : NULL;
      bool like =
          self && (self->flags & TN_VIEW_DENSE) && tn_shape_equal(self->ndim, self->sizes, d->ndim, d->sizes);
      return like ? self->strides : NULL;
    }
    default: return NULL;
  }
}

static tn_status new_result(tni_step *step, uint32_t i, tn_device device) {
  tn_desc *d = &step->descs[i];
  if (d->absent || d->unknown) return TN_OK;
  return tni_tensor_new(d->dtype, d->ndim, d->sizes, tni_desc_strides(step->op, step->args, d), device,
                        &step->result[i]);
}

/* The in-place or out target of result i. */
static tn_tensor *target_of(const tni_step *step, uint32_t i) {
  const tn_op *op = step->op;
  uint64_t m = op->write_args;
  for (; i && m; --i) m &= m - 1;
  if (!m) return NULL;
  const tn_value *v = &step->args[__builtin_ctzll(m)];
  return v->kind == TN_VAL_TENSOR ? v->u.t : NULL;
}

static tn_status check_writable(const tn_tensor *t) {
  if (t->view.flags & TN_VIEW_READ_ONLY)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "the target's memory was imported read-only; writes are refused");
  if (!t->version && !tni_tls.modes.inference)
    return tn_fail(TN_ERR_STATE, "an inference tensor may be written in place only in inference mode");
  return TN_OK;
}

/* out= targets take the result's shape: a warning, unless they were empty. Counts as the call's write, since what
 * was there is gone even if the kernel fails. */
static tn_status resize_out(tni_step *step, uint32_t i, uint32_t ndim, const tn_dim *sizes) {
  tn_tensor *t = step->target[i];
  if (tn_shape_equal(t->view.ndim, t->view.sizes, ndim, sizes)) return TN_OK;
  if (t->view.numel != 0)
    tn_log(TN_LOG_WARN, "an out= tensor of shape %s was resized to %s",
           tn_shape_format(t->view.ndim, t->view.sizes, TN_SHAPE_TEXT),
           tn_shape_format(ndim, sizes, TN_SHAPE_TEXT));
  TN_TRY(tni_resize(t, ndim, sizes));
  tni_version_bump(t);
  step->counted |= 1u << i;
  return TN_OK;
}

static tn_status check_target_shape(const tn_op *op, const tn_tensor *t, const tn_desc *d) {
  if (tn_shape_equal(t->view.ndim, t->view.sizes, d->ndim, d->sizes)) return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT,
                 "the result has shape %s, which does not fit the in-place target of shape %s",
                 tn_shape_format(d->ndim, d->sizes, TN_SHAPE_TEXT),
                 tn_shape_format(t->view.ndim, t->view.sizes, TN_SHAPE_TEXT));
}

/* Two results may not be written to one place. */
static tn_status check_other_targets(const tni_step *step, uint32_t i) {
  for (uint32_t k = 0; k < i; ++k)
    if (step->target[k] == step->target[i] || tn_view_overlap(&step->target[k]->view, &step->target[i]->view))
      return tn_fail(TN_ERR_OVERLAP, "the targets of results %u and %u share memory", k, i);
  return TN_OK;
}

/* Overlap of what will be written: of the target as it is, or as an out= call resizes it. New memory meets
 * nothing. */
static tn_status check_memory(const tni_step *step, tn_tensor *t, const tn_desc *d, bool *out_temporary) {
  tn_view written = t->view;
  tn_dim strides[TN_MAX_RANK];
  if (!tn_shape_equal(t->view.ndim, t->view.sizes, d->ndim, d->sizes)) {
    bool fits;
    TN_TRY(tni_resize_fits(t, d->ndim, d->sizes, &fits));
    tni_contiguous_strides(d->ndim, d->sizes, strides);
    written.ndim = d->ndim;
    written.sizes = d->sizes;
    written.strides = strides;
    tni_view_finish(&written);
    if (!fits) written.numel = 0;
  }
  return tni_check_overlap(step->op, step->args, t, &written, out_temporary);
}

/* Everything that can be refused about the target of result i. Nothing is changed. */
static tn_status check_target(tni_step *step, uint32_t i, tn_device device) {
  const tn_op *op = step->op;
  const tn_desc *d = &step->descs[i];
  tn_tensor *t = target_of(step, i);
  if (!t)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "the target of result %u is missing; a tensor was expected", i);
  TN_TRY(check_writable(t));
  step->target[i] = t;
  TN_TRY(check_other_targets(step, i));
  if (d->absent) return TN_OK;
  if (t->view.backend != device.backend || t->view.device_index != device.index)
    return tn_fail(TN_ERR_DEVICE, "the result is on %s:%d, the target on %s:%d",
                   tni_backend_name(device.backend), device.index, tni_backend_name(t->view.backend),
                   t->view.device_index);
  if (!tn_can_cast(d->dtype, t->view.dtype))
    return tn_fail(TN_ERR_DTYPE, "a result of dtype %s cannot be stored in a target of dtype %s",
                   tn_dtype_name(d->dtype), tn_dtype_name(t->view.dtype));
  return op->form == TN_FORM_INPLACE && !d->unknown ? check_target_shape(op, t, d) : TN_OK;
}

/* Chooses where result i is written: the target itself, or a temporary that is copied into it afterwards. */
static tn_status bind_target(tni_step *step, uint32_t i, bool temporary, tn_device device) {
  tn_desc *d = &step->descs[i];
  tn_tensor *t = step->target[i];
  if (d->absent || d->unknown) return TN_OK;
  if (step->op->form == TN_FORM_OUT) TN_TRY(resize_out(step, i, d->ndim, d->sizes));
  if (temporary || t->view.dtype != d->dtype) {
    d->layout = TN_DESC_CONTIGUOUS;
    return new_result(step, i, device);
  }
  tni_retain(t);
  step->result[i] = t;
  return TN_OK;
}

static tn_status check_targets(tni_step *step, tn_device device, bool *out_temporary) {
  for (uint32_t i = 0; i < step->n_out; ++i) {
    const tn_desc *d = &step->descs[i];
    out_temporary[i] = false;
    TN_TRY(check_target(step, i, device));
    if (!d->absent && !d->unknown) TN_TRY(check_memory(step, step->target[i], d, &out_temporary[i]));
  }
  return TN_OK;
}

static tn_status make_results(tni_step *step, tn_device device) {
  bool temporary[TNI_MAX_OUTS];
  bool functional = step->op->form == TN_FORM_FUNCTIONAL;
  if (!functional) TN_TRY(check_targets(step, device, temporary));
  for (uint32_t i = 0; i < step->n_out; ++i)
    TN_TRY(functional ? new_result(step, i, device) : bind_target(step, i, temporary[i], device));
  return TN_OK;
}

/* ------------------------------------------------------------------ kernels */

tn_dtype tni_step_dtype(const tni_step *step, const tn_meta *meta) {
  if (meta->compute_dtype != TN_DTYPE_NONE) return meta->compute_dtype;
  const tn_op *op = step->op;
  for (uint64_t m = op->tensor_args | op->list_args; m; m &= m - 1) {
    const tn_value *v = &step->args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR) return v->u.v->dtype;
    if (v->kind == TN_VAL_LIST && v->count && v->u.vs[0]) return v->u.vs[0]->dtype;
  }
  return step->n_out ? step->descs[0].dtype : TN_FLOAT32;
}

/* What a claim is about beside the dtype: the greatest rank and the largest tensor of the call. */
typedef struct extent {
  uint32_t rank;
  int64_t numel;
} extent;

static void extent_add(extent *e, const tn_view *v) {
  if (v->ndim > e->rank) e->rank = v->ndim;
  if (v->numel > e->numel) e->numel = v->numel;
}

static extent claim_extent(const tni_step *step) {
  extent e = {0, 0};
  for (uint64_t m = step->op->tensor_args; m; m &= m - 1) {
    const tn_value *v = &step->args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR) extent_add(&e, v->u.v);
  }
  for (uint64_t m = step->op->list_args; m; m &= m - 1) {
    const tn_value *v = &step->args[__builtin_ctzll(m)];
    for (uint32_t i = 0; v->kind == TN_VAL_LIST && i < v->count; ++i)
      if (v->u.vs[i] && v->u.vs[i]->numel > e.numel) e.numel = v->u.vs[i]->numel;
  }
  for (uint32_t i = 0; i < step->n_out; ++i) {
    const tn_desc *d = &step->descs[i];
    if (d->absent) continue;
    if (d->unknown) e.numel = INT64_MAX;
    if (d->ndim > e.rank) e.rank = d->ndim;
    if (step->result[i] && step->result[i]->view.numel > e.numel) e.numel = step->result[i]->view.numel;
  }
  return e;
}

static tn_status draw_random(tn_call *call, tni_step *step, tn_device device) {
  const tn_op *op = step->op->functional;
  if (!op->rng) return TN_OK;
  tn_generator *generator = NULL;
  for (uint32_t i = 0; i < op->n_args; ++i)
    if (step->args[i].kind == TN_VAL_GENERATOR) generator = step->args[i].u.g;
  if (!generator) TN_TRY(tn_generator_default(device, &generator));
  int64_t numel = step->result[0] ? step->result[0]->view.numel : 0;
  tn_generator_state first;
  TN_TRY(tn_generator_draw(generator, (uint64_t)op->rng(step->args, numel), &first));
  call->rng_seed = first.seed;
  call->rng_offset = first.offset;
  return TN_OK;
}

/* Arguments behind the ones that a kernel's schema has are at default: may it serve this call? */
static bool knows_arguments(const tni_kernel *kernel, const tn_op *op, const tn_value *args) {
  const tni_schema *s = op->functional->schema;
  for (uint32_t i = kernel->max_args; i < s->n_args; ++i) {
    const tn_value *d = &s->args[i].default_value;
    if (args[i].kind != d->kind || args[i].u.bits != d->u.bits) return false;
  }
  return true;
}

/* Who declines takes back what it asked of new_output, so that the next provider may ask. */
static void drop_new_outputs(tni_step *step, tn_value *out) {
  for (uint32_t i = 0; i < step->n_out; ++i) {
    if (!step->descs[i].unknown || !step->result[i]) continue;
    tn_tensor_release(step->result[i]);
    step->result[i] = NULL;
    out[i] = tn_value_none();
  }
}

tn_status tni_step_providers(tn_call *call, tni_step *step, const tn_meta *meta, const tn_value *args,
                             tn_value *out) {
  const tni_cell *cell = call->cell;
  tn_dtype dtype = tni_step_dtype(step, meta);
  const extent most = claim_extent(step);
  bool deterministic = (call->flags & TN_CALL_DETERMINISTIC) != 0;
  for (uint32_t i = 0; i < cell->n_chain; ++i) {
    const tni_kernel *k = cell->chain[i];
    if (most.numel < k->min_numel || most.numel > k->max_numel || tni_kernel_refuses(k, dtype, most.rank, deterministic) ||
        !knows_arguments(k, step->op, args))
      continue;
    call->user = k->user;
    tn_status status = k->flags & TN_KERNEL_CONTIGUOUS ? tni_call_contiguous(call, step, k, args, out)
                                                       : k->fn(call, args, out);
    tni_scratch_release(&step->scratch);
    if (status != TN_DECLINED) return status;
    drop_new_outputs(step, out);
  }
  /* Nothing to compute where the result has no data; a cpu target with a meta source goes to the body. */
  if (call->device.backend == TN_BACKEND_META || (step->op->functional->flags & TN_OP_NO_KERNEL))
    return TN_OK;
  return TN_DECLINED;
}

/* Every provider was passed over, and there is no body: says whether it was for the dtype. */
static TN_COLD tn_status nobody_took_it(tn_call *call, const tni_step *step, const tn_meta *meta) {
  const tni_cell *cell = call->cell;
  return tni_fallback_refuse(call->op, cell->bit, tni_step_dtype(step, meta), cell->chain, cell->n_chain);
}

/* ------------------------------------------------------------------ the end */

/* Tensors that the kernel writes without their being a result's target: (a!) of functional forms and of
 * operators that return nothing, and lists. */
static uint64_t other_writes(const tni_step *step) {
  uint64_t m = step->op->write_args;
  if (step->op->form == TN_FORM_FUNCTIONAL) return m;
  for (uint32_t i = 0; i < step->n_out; ++i) m &= m - 1;
  return m;
}

static tn_status check_other_writes(const tni_step *step) {
  for (uint64_t m = other_writes(step); m; m &= m - 1) {
    const tn_value *v = &step->args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR) TN_TRY(check_writable(v->u.t));
    for (uint32_t i = 0; v->kind == TN_VAL_LIST && i < v->count; ++i)
      if (v->u.ts[i]) TN_TRY(check_writable(v->u.ts[i]));
  }
  return TN_OK;
}

static void count_other_writes(const tni_step *step) {
  for (uint64_t m = other_writes(step); m; m &= m - 1) {
    const tn_value *v = &step->args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR) tni_version_bump(v->u.t);
    for (uint32_t i = 0; v->kind == TN_VAL_LIST && i < v->count; ++i)
      if (v->u.ts[i]) tni_version_bump(v->u.ts[i]);
  }
}

/* Counts what the kernel wrote; copies temporaries into their targets. */
static tn_status settle_targets(tni_step *step) {
  for (uint32_t i = 0; i < step->n_out; ++i) {
    tn_tensor *t = step->target[i];
    if (!t || !step->result[i]) continue;
    if (step->descs[i].unknown) {
      const tn_view *v = &step->result[i]->view;
      TN_TRY(resize_out(step, i, v->ndim, v->sizes));
    }
    if (step->result[i] != t) TN_TRY(tni_copy_uncounted(t, step->result[i]));
    if (!(step->counted >> i & 1)) tni_version_bump(t);
  }
  count_other_writes(step);
  return TN_OK;
}

/* The kernel failed and may have written before: what it was given to write counts as written, unless memory ran out,
 * before which kernels write nothing. A temporary, which no target has seen, does not count. */
static void count_failed_writes(const tni_step *step, tn_status status) {
  if (status == TN_OK || status == TN_DECLINED || status == TN_ERR_OUT_OF_MEMORY) return;
  for (uint32_t i = 0; i < step->n_out; ++i) {
    tn_tensor *t = step->target[i];
    if (t && step->result[i] == t && !(step->counted >> i & 1)) tni_version_bump(t);
  }
  count_other_writes(step);
}

/* A body follows, whose own copy_ counts the write. */
static void uncount(const tni_step *step) {
  for (uint32_t i = 0; i < step->n_out; ++i) {
    tni_version *v = step->counted >> i & 1 ? step->target[i]->version : NULL;
    if (v) atomic_fetch_sub_explicit(&v->value, 1, memory_order_relaxed);
  }
}

void tni_step_release(tni_step *step) {
  tni_scratch_release(&step->scratch);
  tni_cast_lists_release(step);
  while (step->n_temps) tn_tensor_release(step->temps[--step->n_temps]);
  for (uint32_t i = 0; i < step->n_out; ++i) tn_tensor_release(step->result[i]);
}

/* Does the kernel find result 0 among its arguments, as the same memory? */
static bool is_in_place(const tni_step *step, const tn_value *args) {
  if (step->op->form != TN_FORM_INPLACE || !step->n_out) return false;
  const tn_value *self = &args[__builtin_ctzll(step->op->write_args)];
  return self->kind == TN_VAL_TENSOR && self->u.t == step->result[0];
}

/* Everything between the meta rule and the results. */
static tn_status step_run(tn_call *call, tni_step *step, tn_meta *meta) {
  tn_value out[TNI_MAX_OUTS];
  TN_TRY(tni_call_device(call, step->args, &call->device));
  TN_TRY(run_meta(step, meta));
  TN_TRY(check_other_writes(step));
  TN_TRY(make_results(step, call->device));
  TN_TRY(tni_step_localise(step, call->device));
  TN_TRY(tni_step_cast(step, meta->compute_dtype, meta->keep_args));
  TN_TRY(draw_random(call, step, call->device));
  for (uint32_t i = 0; i < step->n_out; ++i) out[i] = tn_value_tensor(step->result[i]);
  const tn_value *args = step->replaced ? step->cast : step->args;
  call->core = step;
  if (is_in_place(step, args)) call->flags |= TN_CALL_IN_PLACE;
  tn_status status = tni_step_providers(call, step, meta, args, out);
  if (status == TN_DECLINED) status = tni_fallback_run(call, step, meta, args, out);
  call->flags &= ~(uint32_t)TN_CALL_IN_PLACE;
  call->core = NULL;
  count_failed_writes(step, status);
  return status;
}

static tn_status missing_outputs(const tni_step *step) {
  bool meta = ((const tni_cell *)step->call->cell)->bit == TN_BACKEND_META;
  for (uint32_t i = 0; i < step->n_out; ++i) {
    if (step->result[i] || step->descs[i].absent) continue;
    if (meta)
      return tn_fail(TN_ERR_UNSUPPORTED,
                     "the size of result %u depends on data, which meta tensors do not have", i);
    return tn_fail(TN_ERR_PLUGIN, "the kernel succeeded without making result %u", i);
  }
  return TN_OK;
}

/* The large arrays of a step are written before they are read. */
void tni_step_begin(tni_step *step, tn_call *call, const tn_value *args, tn_desc *descs) {
  step->call = call;
  step->op = call->op;
  step->args = args;
  step->n_temps = 0;
  step->replaced = false;
  step->lists = NULL;
  step->n_out = functional_outs(call->op);
  step->descs = descs;
  step->scratch = NULL;
  step->counted = 0;
  for (uint32_t i = 0; i < step->n_out; ++i) step->result[i] = step->target[i] = NULL;
}

tn_status tni_structured(tn_call *call, const tn_value *args, tn_value *out) {
  tn_desc descs[TNI_MAX_OUTS];
  tn_meta meta;
  tni_step step;
  tni_step_begin(&step, call, args, descs);
  tn_status status = step_run(call, &step, &meta);
  bool body = status == TN_DECLINED;
  if (body && !call->op->functional->body) {
    body = false;
    status = nobody_took_it(call, &step, &meta);
  }
  if (status == TN_OK) status = missing_outputs(&step);
  if (status == TN_OK) status = settle_targets(&step);
  if (status == TN_OK && call->op->form == TN_FORM_FUNCTIONAL) {
    for (uint32_t i = 0; i < step.n_out; ++i) {
      out[i] = tn_value_tensor(step.result[i]);
      step.result[i] = NULL;
    }
  }
  if (body) uncount(&step);
  tni_step_release(&step);
  return body ? tni_body_step(call, args, out) : status;
}

/* The meta rule refuses what it would refuse before a kernel. A body of a functional form writes its own results,
 * which copy_ brings to the target, so only an in-place entry's own body meets the rules of overlap. */
tn_status tni_body_checked(tn_call *call, const tn_value *args, tn_value *out) {
  tn_desc descs[TNI_MAX_OUTS];
  tn_meta meta;
  tni_step step;
  bool temporary[TNI_MAX_OUTS];
  const tn_op *op = call->op;
  tni_step_begin(&step, call, args, descs);
  TN_TRY(tni_call_device(call, args, &call->device));
  TN_TRY(run_meta(&step, &meta));
  TN_TRY(check_other_writes(&step));
  if (op->form == TN_FORM_INPLACE && op->functional == op) {
    TN_TRY(check_targets(&step, call->device, temporary));
  } else if (op->form != TN_FORM_FUNCTIONAL) {
    for (uint32_t i = 0; i < step.n_out; ++i) TN_TRY(check_target(&step, i, call->device));
  }
  return tni_body_step(call, args, out);
}

/* ------------------------------------------------------------------ host->new_output */

tn_status tni_call_new_output(tn_call *call, uint32_t i, uint32_t ndim, const tn_dim *sizes,
                              tn_view **out_view) {
  tni_step *step = tni_call_step(call);
  *out_view = NULL;
  if (!step || i >= step->n_out)
    return tn_fail(TN_ERR_PLUGIN, "new_output(%u): the running operator has no such result", i);
  if (!step->descs[i].unknown || step->result[i])
    return tn_fail(TN_ERR_PLUGIN, "new_output(%u): the result %s", i,
                   step->result[i] ? "was made already" : "has a size that the meta rule decides");
  tn_desc *d = &step->descs[i];
  TN_TRY(tni_tensor_new(d->dtype, ndim, sizes, NULL, call->device, &step->result[i]));
  *out_view = &step->result[i]->view;
  return TN_OK;
}

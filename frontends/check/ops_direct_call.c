/* SPDX-License-Identifier: Apache-2.0
 *
 * One direct call of a kernel: its arguments and results as views over patterned memory, made from a sample. And the
 * walk over the plugin's kernels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/kit/shape.h>

#include "frontends/check/ops_direct.h"
#include "frontends/check/tools.h"

/* Elements before and behind every tensor: whole cache lines for every dtype. What no element holds is this byte. */
enum { GUARD_ELEMENTS = 64, GUARD_BYTE = 0xa5 };

/* ------------------------------------------------------------------ tensors */

static void finish_view(const tni_direct *d, tni_direct_tensor *t, tn_dtype dtype, uint8_t ndim, int64_t first) {
  tn_view *v = &t->view;
  int64_t size = (int64_t)ref_item_size(dtype);
  *v = (tn_view){.mem = t->block.memory.mem,
                 .offset_bytes = first * size,
                 .storage = &t->block,
                 .sizes = t->sizes,
                 .strides = t->strides,
                 .numel = 1,
                 .dtype = dtype,
                 .ndim = ndim,
                 .itemsize = (uint8_t)size,
                 .backend = d->raw.def ? TN_BACKEND_META - 1 : TN_BACKEND_CPU,
                 .device_index = (int16_t)d->raw.index};
  /* Where a handle is the address, offsets are part of it; an opaque handle stays whole. */
  if (t->block.memory.address) v->data = (char *)t->block.memory.address + v->offset_bytes;
  for (int k = 0; k < ndim; k++) v->numel *= t->sizes[k];
  if (tn_shape_is_contiguous(ndim, t->sizes, t->strides)) v->flags |= TN_VIEW_CONTIGUOUS;
  if (tn_shape_is_dense(ndim, t->sizes, t->strides)) v->flags |= TN_VIEW_DENSE;
}

/* A tensor whose elements lie as the layout says; values NULL: every byte is the pattern. off: elements further. */
static tn_status new_tensor(const tni_direct *d, const tn_sample_tensor *s, tn_dtype dtype, const ref_layout *layout,
                            uint64_t *values, int64_t off, tni_direct_tensor *out) {
  size_t size = ref_item_size(dtype);
  bool whole = d->raw.def && (d->raw.def->flags & TN_BACKEND_NO_OFFSETS);
  int64_t before = whole ? 0 : GUARD_ELEMENTS + off;
  uint64_t bytes = (uint64_t)(before + layout->elements + GUARD_ELEMENTS) * size;
  unsigned char *image = tni_check_alloc(bytes + 1);
  memset(image, GUARD_BYTE, bytes);
  if (values) ref_draw(s, dtype, layout, values, image + (size_t)before * size);
  for (int k = 0; k < s->ndim; k++) out->sizes[k] = s->sizes[k], out->strides[k] = layout->strides[k];
  TN_TRY(tni_direct_block_new(d, bytes, image, &out->block));
  finish_view(d, out, dtype, s->ndim, before + layout->offset);
  return TN_OK;
}

static bool wants_contiguous(const tni_direct_call *call) { return call->kernel->flags & TN_KERNEL_CONTIGUOUS; }

static tn_status add_input(tni_direct_call *call, const tn_sample_tensor *given, tn_dtype tested, tni_direct_way way,
                           uint64_t *values, const tn_view **out) {
  static const uint8_t layouts[] = {TN_SAMPLE_TRANSPOSED, TN_SAMPLE_SLICED};
  tn_sample_tensor s = *given;
  ref_layout layout;
  *out = NULL;
  if (s.absent) return TN_OK;
  if (call->n_inputs == TNI_OPS_TENSORS) return tn_fail(TN_ERR_UNSUPPORTED, "more tensors than the checks have room for");
  bool awkward = way == TNI_DIRECT_AWKWARD;
  if (awkward && s.ndim && s.layout != TN_SAMPLE_EXPANDED) s.layout = layouts[call->n_inputs % 2];
  ref_layout_of(&s, wants_contiguous(call), &layout);
  tni_direct_tensor *t = &call->inputs[call->n_inputs++];
  TN_TRY(new_tensor(call->d, &s, s.dtype ? s.dtype : tested, &layout, values, awkward, t));
  *out = &t->view;
  return TN_OK;
}

/* Only an out= form brings results whose strides are not the meta rule's. */
static bool has_out_form(const tni_ops_op *op) {
  tni_ops_op form;
  bool has = tni_ops_form_open(op, TN_FORM_OUT, &form);
  if (has) tni_ops_op_close(&form);
  return has;
}

static tn_status add_output(tni_direct_call *call, uint32_t i, const tn_view *like, tni_direct_way way) {
  tn_sample_tensor s = {.sizes = like->sizes, .ndim = like->ndim,
                        .layout = like->ndim ? TN_SAMPLE_SLICED : TN_SAMPLE_CONTIGUOUS};
  ref_layout layout;
  bool awkward = way == TNI_DIRECT_AWKWARD && call->has_out_form;
  if (like->ndim > RT_RANK) return tn_fail(TN_ERR_UNSUPPORTED, "a result of rank %d", like->ndim);
  ref_layout_of(&s, !awkward || wants_contiguous(call), &layout);
  for (int k = 0; !awkward && !wants_contiguous(call) && k < like->ndim; k++) layout.strides[k] = like->strides[k];
  tni_direct_tensor *t = &call->outputs[call->n_outputs++];
  TN_TRY(new_tensor(call->d, &s, like->dtype, &layout, NULL, awkward, t));
  call->targets[i] = t;
  call->outs[i] = (tn_value){.u = {.v = &t->view}, .kind = TN_VAL_TENSOR};
  return TN_OK;
}

static void release(tni_direct_call *call) {
  while (call->n_inputs) tni_direct_block_free(call->d, &call->inputs[--call->n_inputs].block);
  while (call->n_outputs) tni_direct_block_free(call->d, &call->outputs[--call->n_outputs].block);
}

/* ------------------------------------------------------------------ arguments */

static tn_value plain_argument(const tni_direct_call *call, uint32_t i, const tn_sample_arg *arg, tn_dtype tested) {
  const tni_arg *a = &call->op->schema->args[i];
  bool factory = call->op->report.flags & TN_OP_FACTORY;
  if (arg->kind == TN_SAMPLE_VALUE) return arg->value;
  if (arg->kind == TN_SAMPLE_TESTED_DTYPE) return tn_value_dtype(tested);
  if (arg->kind != TN_SAMPLE_DEFAULT) return tn_value_none();
  if (factory && a->type == TNI_T_DTYPE && a->default_value.kind == TN_VAL_NONE) return tn_value_dtype(tested);
  return a->default_value;
}

static tn_status add_argument(tni_direct_call *call, uint32_t i, const tn_sample_arg *arg, tn_dtype tested,
                              tni_direct_way way, uint64_t *values) {
  const tn_view *v;
  if (arg->kind == TN_SAMPLE_TENSOR) {
    TN_TRY(add_input(call, &arg->tensors[0], tested, way, values, &v));
    call->args[i] = v ? (tn_value){.u = {.v = v}, .kind = TN_VAL_TENSOR} : tn_value_none();
  } else if (arg->kind == TN_SAMPLE_TENSORS) {
    if (arg->n_tensors > TNI_OPS_LIST) return tn_fail(TN_ERR_UNSUPPORTED, "a list of %u tensors", arg->n_tensors);
    for (uint32_t k = 0; k < arg->n_tensors; k++)
      TN_TRY(add_input(call, &arg->tensors[k], tested, way, values, &call->lists[i][k]));
    call->args[i] = tn_value_tensors(NULL, arg->n_tensors);
    call->args[i].u.vs = call->lists[i];
  } else {
    call->args[i] = plain_argument(call, i, arg, tested);
  }
  return TN_OK;
}

static tn_status add_arguments(tni_direct_call *call, const tn_sample *s, tn_dtype tested, tni_direct_way way) {
  uint64_t values = ref_seed(call->op->report.functional, s->text);
  if (s->n_args > TNI_OPS_ARGS) return tn_fail(TN_ERR_UNSUPPORTED, "%u arguments", s->n_args);
  call->n_args = s->n_args;
  for (uint32_t i = 0; i < s->n_args; i++) TN_TRY(add_argument(call, i, &s->args[i], tested, way, &values));
  return TN_OK;
}

/* ------------------------------------------------------------------ inside the claim? */

/* Would the core hand these arguments to the kernel as they are? Where it casts first, the claim is about another
 * dtype. Said conservatively: what is left out here is tried through the core by the other checks. */
static bool is_in_claim(const tni_direct_call *call, tn_dtype tested) {
  const tn_op_report *report = &call->op->report;
  uint32_t rank = 0;
  int64_t numel = 0;
  bool scalars = false;
  for (size_t k = 0; k < call->n_inputs; k++) {
    const tn_view *v = &call->inputs[k].view;
    rank = v->ndim > rank ? v->ndim : rank;
    numel = v->numel > numel ? v->numel : numel;
    if (report->flags & TN_OP_ELEMENTWISE && v->dtype != tested && v->dtype != TN_BOOL) return false;
  }
  for (uint32_t i = 0; i < call->n_args; i++) scalars |= call->op->schema->args[i].type == TNI_T_SCALAR;
  for (uint32_t i = 0; i < call->n_out; i++) {
    if (!call->targets[i]) continue;
    const tn_view *v = &call->targets[i]->view;
    rank = v->ndim > rank ? v->ndim : rank;
    numel = v->numel > numel ? v->numel : numel;
  }
  if (numel < call->kernel->min_numel) return false;
  if (call->kernel->max_numel && numel > call->kernel->max_numel) return false;
  if (call->kernel->max_rank && rank > call->kernel->max_rank) return false;
  const tni_direct_tensor *first = call->n_out ? call->targets[0] : NULL;
  tn_dtype result = first ? first->view.dtype : tested;
  bool floating = TN_DTYPES_FLOAT & TN_DTYPE_BIT(tested);
  if (result == tested) return floating || !scalars || !(report->flags & TN_OP_ELEMENTWISE);
  return floating && !(TN_DTYPES_FLOAT & TN_DTYPE_BIT(result));
}

/* Of an operator that exists in place only. */
static tn_status add_target(tni_direct_call *call) {
  if (call->op->writes != 1 || call->args[0].kind != TN_VAL_TENSOR) return tn_fail(TN_ERR_UNSUPPORTED, "several targets");
  call->n_out = 1;
  call->targets[0] = &call->inputs[0];
  call->outs[0] = call->args[0];
  return TN_OK;
}

/* Results as the meta rule describes them; what it refuses is no call. */
static tn_status add_results(tni_direct_call *call, const tn_sample *s, tn_dtype tested, tni_direct_way way) {
  tni_ops_case c;
  tni_ops_results r;
  bool in_place = call->op->report.form == TN_FORM_INPLACE;
  if ((call->op->writes && !in_place) || call->op->list_result) return tn_fail(TN_ERR_UNSUPPORTED, "no plain results");
  tn_device device = {.backend = call->d->raw.def ? TN_BACKEND_META : TN_BACKEND_CPU};
  TN_TRY(tni_ops_case_make(&c, call->op, s, tested, device, TNI_OPS_META));
  tn_status status = tni_ops_call(&c, call->op, &r);
  if (status == TN_OK && in_place) status = add_target(call);
  else if (status == TN_OK) call->n_out = r.n;
  for (uint32_t i = 0; status == TN_OK && i < r.n; i++)
    if (r.t[i]) status = add_output(call, i, tn_tensor_view(r.t[i]), way);
  if (status == TN_OK) tni_ops_results_release(&r);
  tni_ops_case_release(&c);
  return status;
}

/* ------------------------------------------------------------------ calling */

/* As the core says it: the first argument is a tensor, and the dtype is a floating one. */
static bool is_flat(const tni_direct_call *call) {
  const tn_view *out = call->targets[0] ? &call->targets[0]->view : NULL;
  if (call->args[0].kind != TN_VAL_TENSOR || !(TN_DTYPES_FLOAT & TN_DTYPE_BIT(call->inputs[0].view.dtype))) return false;
  if (!out || call->n_out != 1 || !(call->op->report.flags & TN_OP_ELEMENTWISE) || !(out->flags & TN_VIEW_CONTIGUOUS))
    return false;
  for (size_t k = 0; k < call->n_inputs; k++) {
    const tn_view *v = &call->inputs[k].view;
    if (!(v->flags & TN_VIEW_CONTIGUOUS) || !tn_shape_equal(v->ndim, v->sizes, out->ndim, out->sizes)) return false;
    if (v->dtype != call->inputs[0].view.dtype || (out->dtype != v->dtype && out->dtype != TN_BOOL)) return false;
  }
  return true;
}

static void run_kernel(tni_direct_call *call) {
  tn_value outs[REF_OUTS];
  const size_t refusals = tni_door_refusals();
  memcpy(outs, call->outs, sizeof outs);
  tn_call c = {.host = tni_direct_host(call->d),
               .op = call->op->op,
               .user = call->kernel->user,
               .rng_seed = 17,
               .device = {.backend = call->d->raw.def ? TN_BACKEND_META - 1 : TN_BACKEND_CPU,
                          .index = (int16_t)call->d->raw.index}};
  if (call->op->report.form == TN_FORM_INPLACE) c.flags |= TN_CALL_IN_PLACE;
  if (is_flat(call)) c.flags |= TN_CALL_FLAT;
  call->status = call->kernel->fn(&c, call->args, outs);
  /* What is only queued has not been computed, and may fail yet. */
  const tn_backend_def *def = call->d->raw.def;
  if (call->status == TN_OK && def && def->synchronize) call->status = def->synchronize(def->ctx, call->d->raw.index);
  call->host_refused = tni_door_refusals() != refusals;
  if (!tni_direct_scratch_end(call->d)) tni_check_fail(call->d->r, call->item, "the kernel writes beyond its scratch memory");
}

tn_status tni_direct_again(tni_direct_call *call) {
  for (size_t i = 0; i < call->n_inputs + call->n_outputs; i++) {
    tni_direct_block *block = i < call->n_inputs ? &call->inputs[i].block : &call->outputs[i - call->n_inputs].block;
    if (!call->d->raw.def) memcpy(block->memory.address, block->image, block->size_bytes);
    else if (block->size_bytes) TN_TRY(tni_raw_write(&call->d->raw, &block->memory, 0, block->image, block->size_bytes));
  }
  run_kernel(call);
  return call->status;
}

/* ------------------------------------------------------------------ the reference */

static rt *before(const tni_direct_tensor *t) {
  const tn_view *v = &t->view;
  return ref_read(t->block.image + v->offset_bytes, v->dtype, v->ndim, v->sizes, v->strides);
}

static const tni_direct_tensor *input_of(const tni_direct_call *call, const tn_view *v) {
  for (size_t k = 0; k < call->n_inputs; k++)
    if (&call->inputs[k].view == v) return &call->inputs[k];
  return NULL;
}

bool tni_direct_reference(const tni_direct_call *call, ref_call *out_call, ref_arg *args) {
  *out_call = (ref_call){.op = call->op->report.functional, .args = args, .n_args = (int)call->n_args,
                         .dtype = call->n_inputs ? call->inputs[0].view.dtype : TN_FLOAT32};
  for (uint32_t i = 0; i < call->n_args; i++) {
    const tn_value *v = &call->args[i];
    ref_arg *a = &args[i];
    *a = (ref_arg){.kind = v->kind, .elem = v->elem, .n = (int)v->count, .num = (double)v->u.i, .s = v->u.s,
                   .ints = v->u.ints, .floats = v->u.floats, .bools = v->u.bools};
    if (v->kind == TN_VAL_FLOAT) a->num = v->u.f;
    if (v->kind == TN_VAL_TENSOR) a->t = before(input_of(call, v->u.v));
    if (v->kind != TN_VAL_LIST || v->elem != TN_VAL_TENSOR) continue;
    a->ts = ref_alloc((v->count + 1) * sizeof *a->ts);
    for (uint32_t k = 0; k < v->count; k++)
      if (v->u.vs[k]) a->ts[k] = before(input_of(call, v->u.vs[k]));
  }
  ref_fn fn = ref_find(out_call->op);
  if (fn) fn(out_call);
  return fn != NULL;
}

bool tni_direct_judge(const tni_direct_call *call, uint32_t result, const rt *expected, double tolerance) {
  char words[TNI_OPS_WORDS];
  const tni_direct_tensor *t = call->targets[result];
  if (!t) return true;
  unsigned char *bytes = tni_direct_bytes(call, &t->block);
  if (!bytes) return false;
  const tn_view *v = &t->view;
  const rt *got = ref_read(bytes + v->offset_bytes, v->dtype, v->ndim, v->sizes, v->strides);
  bool good = ref_judge(got, expected, v->dtype, tolerance, words, sizeof words);
  if (!good) tni_check_fail(call->d->r, call->item, "result %u %s", result, words);
  free(bytes);
  return good;
}

/* ------------------------------------------------------------------ the walk */

static void try_case(tni_direct_call *call, const tn_sample *s, tn_dtype tested, tni_direct_way way,
                     void (*visit)(tni_direct_call *call)) {
  char item[TNI_OPS_WORDS];
  snprintf(item, sizeof item, "%s %s %s", call->op->report.name, tn_dtype_name(tested), s->text);
  call->item = item;
  tni_check_at(call->d->r, item);
  tn_status status = add_arguments(call, s, tested, way);
  if (status == TN_OK) status = add_results(call, s, tested, way);
  if (status == TN_OK && is_in_claim(call, tested)) {
    run_kernel(call);
    visit(call);
  }
  release(call);
  ref_reset();
}

/* The memory that a kernel of this key computes on; false: it cannot be tried here. */
static bool place_of(tni_direct *d, const char *key) {
  d->raw = (tni_raw){0};
  for (size_t i = 0; i < d->door.n_backends; i++) {
    const tn_backend_def *def = &d->door.backends[i];
    if (strcmp(def->device_name, key)) continue;
    d->raw.def = def;
    return def->device_count(def->ctx, &d->raw.count) == TN_OK && d->raw.count > 0;
  }
  return !strcmp(key, "cpu");
}

static void try_kernel(tni_direct *d, const tn_kernel_def *k, tni_direct_way way, void (*visit)(tni_direct_call *call)) {
  tni_ops_op op;
  static tni_direct_call call;
  if (!place_of(d, k->key) || tni_ops_op_open(k->op, &op) != TN_OK) return;
  bool out_form = has_out_form(&op);
  const tn_sample *lists[] = {op.samples, tni_ops_large_samples(k->op)};
  for (tn_dtype t = TN_BOOL; t <= TN_FLOAT64; t++) {
    if (k->dtypes && !(k->dtypes & TN_DTYPE_BIT(t))) continue;
    d->enough = false;
    for (size_t l = 0; l < 2; l++) {
      if (l == 1 && t != TN_FLOAT32 && t != TN_FLOAT64 && t != TN_BFLOAT16) continue; /* time: the others are tried small */
      for (const tn_sample *s = lists[l]; tni_ops_is_sample(&op, s) && !d->enough; s++) {
        if (l == 1 && s->automatic) continue; /* time, as well */
        call = (tni_direct_call){.d = d, .kernel = k, .op = &op, .tested = t, .has_out_form = out_form};
        try_case(&call, s, t, way, visit);
      }
    }
  }
  tni_ops_op_close(&op);
}

static bool enter(tni_direct *d) {
  char *words = tni_door_open(d->c->file, &d->door);
  if (words) {
    tni_check_fail(d->r, "init", "%s", words);
    free(words);
    return false;
  }
  tn_status status = tni_door_negotiate(&d->door);
  if (status == TN_OK) status = tni_door_init(&d->door, tni_direct_host(d));
  if (status == TN_ERR_UNAVAILABLE) {
    tni_check_skip(d->r, "init", "this machine has no such device: %s", tn_error_message());
    return false;
  }
  return tni_check_ok(d->r, status, "init", "init");
}

bool tni_direct_each(tni_check_report *r, const tni_check_context *c, tni_direct_way way,
                     void (*visit)(tni_direct_call *call)) {
  static tni_direct d;
  d = (tni_direct){.r = r, .c = c};
  if (!enter(&d)) return false;
  for (size_t i = 0; i < d.n_kernels; i++) try_kernel(&d, &d.kernels[i], way, visit);
  return true;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a backend has no kernel: the body, the CPU in the backend's place, or the refusal.
 *
 * Note [Round trip]
 * The CPU takes the backend's place at the last moment: meta rule, targets, overlap, casts, random counters and results
 * are those of the backend's own structured step, and only "ask the providers" is done elsewhere. So strides, in-place
 * and out forms, versions and random numbers are what a kernel of the backend would have met. Each tensor has a face on
 * the CPU (Note [Faces]); the CPU's chain runs on the faces, and those that were written go back. A tensor that is
 * argument and target has one face. Where a kernel asks for a result of its own size, it gets one on the CPU, and a
 * copy of that becomes the result.
 */
#include <stdio.h>

#include "core/dispatch/fallback.h"

#include "core/dispatch/dispatch_int.h"
#include "core/dispatch/row.h"
#include "core/load/load.h"

typedef struct lane {
  tn_tensor *of; /* borrowed */
  tni_face face;
  bool written;
} lane;

typedef struct trip {
  tn_call call; /* on the CPU */
  tni_step step;
  tn_value args[TNI_MAX_ARGS];
  tn_value out[TNI_MAX_OUTS];
  lane *lanes;
  uint32_t n_lanes;
  uint32_t *slots; /* hash of tensors: lane + 1, 0: free; n_slots is a power of two */
  uint32_t n_slots;
} trip;

/* ------------------------------------------------------------------ lanes */

/* The target of an out= call is no argument of the kernel's. */
static uint64_t kernel_args(const tn_op *op, uint64_t args) {
  return op->form == TN_FORM_OUT ? args & ~op->write_args : args;
}

static uint32_t count_tensors(const tni_step *step, const tn_value *args) {
  uint32_t n = step->n_out;
  for (uint64_t m = kernel_args(step->op, step->op->tensor_args | step->op->list_args); m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    n += v->kind == TN_VAL_LIST ? v->count : v->kind == TN_VAL_TENSOR;
  }
  return n;
}

static tn_status lanes_make(trip *t, uint32_t n) {
  for (t->n_slots = 4; t->n_slots < 2 * n; t->n_slots *= 2) continue;
  size_t bytes = n * sizeof *t->lanes + t->n_slots * sizeof *t->slots;
  t->lanes = tni_alloc_zero(bytes);
  if (!t->lanes) return tni_oom(bytes, "a call that runs on the CPU");
  t->slots = (uint32_t *)(void *)(t->lanes + n);
  return TN_OK;
}

/* The lane of a tensor, with its face. read: its bytes are wanted, if the lane is a new one. */
static tn_status lane_of(trip *t, tn_tensor *of, bool read, lane **out_lane) {
  uint32_t at = (uint32_t)((uint64_t)(uintptr_t)of * 0x9e3779b97f4a7c15u >> 32) & (t->n_slots - 1);
  for (; t->slots[at]; at = (at + 1) & (t->n_slots - 1)) {
    *out_lane = &t->lanes[t->slots[at] - 1];
    if ((*out_lane)->of == of) return TN_OK;
  }
  if (of->view.flags & TN_VIEW_OPAQUE)
    return tn_fail(TN_ERR_UNSUPPORTED, "an opaque tensor of %s cannot go to the CPU",
                   tni_backend_name(of->view.backend));
  *out_lane = &t->lanes[t->n_lanes];
  TN_TRY(tni_face_make(&(*out_lane)->face, of, read));
  (*out_lane)->of = of;
  t->slots[at] = ++t->n_lanes;
  return TN_OK;
}

static tn_status face_list(trip *t, tn_value *v, bool written) {
  tn_tensor **items;
  lane *l;
  TN_TRY(tni_step_list(&t->step, v->count, &items));
  for (uint32_t i = 0; i < v->count; ++i) {
    if (!v->u.ts[i]) continue;
    TN_TRY(lane_of(t, v->u.ts[i], true, &l));
    l->written |= written;
    items[i] = tn_tensor_retain(l->face.tensor);
  }
  v->u.ts = items;
  return TN_OK;
}

static tn_status face_args(trip *t, const tn_value *args) {
  const tn_op *op = t->step.op;
  memcpy(t->args, args, op->n_args * sizeof *args);
  for (uint64_t m = kernel_args(op, op->tensor_args | op->list_args); m; m &= m - 1) {
    unsigned i = (unsigned)__builtin_ctzll(m);
    bool written = op->write_args >> i & 1;
    tn_value *v = &t->args[i];
    lane *l;
    if (v->kind == TN_VAL_LIST) TN_TRY(face_list(t, v, written));
    if (v->kind != TN_VAL_TENSOR) continue;
    TN_TRY(lane_of(t, v->u.t, true, &l));
    l->written |= written;
    *v = tn_value_tensor(l->face.tensor);
  }
  return TN_OK;
}

/* Results that exist already; gaps between their elements are read, because they are written back. */
static tn_status face_results(trip *t, const tni_step *device) {
  for (uint32_t i = 0; i < device->n_out; ++i) {
    tn_tensor *r = device->result[i];
    lane *l;
    t->out[i] = tn_value_none();
    if (!r) continue;
    TN_TRY(lane_of(t, r, !(r->view.flags & TN_VIEW_DENSE), &l));
    l->written = true;
    t->step.result[i] = tn_tensor_retain(l->face.tensor);
    t->out[i] = tn_value_tensor(l->face.tensor);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ home */

static tn_status write_back(trip *t) {
  for (uint32_t i = 0; i < t->n_lanes; ++i)
    if (t->lanes[i].written) TN_TRY(tni_face_write(&t->lanes[i].face, &t->lanes[i].of->view));
  return TN_OK;
}

/* Results whose size the kernel decided. */
static tn_status bring_results(trip *t, tni_step *device, tn_device to, uint64_t *out_bytes) {
  *out_bytes = 0;
  for (uint32_t i = 0; i < device->n_out; ++i) {
    if (device->result[i] || !t->step.result[i]) continue;
    const tn_view *v = &t->step.result[i]->view;
    *out_bytes += (uint64_t)v->numel * v->itemsize;
    TN_TRY(tni_cast_copy(t->step.result[i], v->dtype, to, &device->result[i]));
  }
  return TN_OK;
}

static void count(const trip *t, tni_fallback_count *counter, uint64_t results_bytes) {
  uint64_t to_host = 0, from_host = results_bytes;
  for (uint32_t i = 0; i < t->n_lanes; ++i) {
    to_host += t->lanes[i].face.bytes_read;
    from_host += t->lanes[i].face.bytes_written;
  }
  tni_fallback_note(counter, to_host, from_host);
}

static void trip_end(trip *t) {
  tni_step_release(&t->step);
  for (uint32_t i = 0; i < t->n_lanes; ++i) tni_face_release(&t->lanes[i].face);
  tni_free(t->lanes);
}

/* ------------------------------------------------------------------ the trip */

/* On the CPU's cell; everything that was written is home when it succeeds. */
static tn_status trip_run(trip *t, tni_step *device, const tn_meta *meta, const tn_value *args,
                          tni_fallback_count *counter) {
  uint64_t results_bytes;
  TN_TRY(lanes_make(t, count_tensors(device, args)));
  TN_TRY(face_args(t, args));
  TN_TRY(face_results(t, device));
  TN_TRY(tni_step_providers(&t->call, &t->step, meta, t->args, t->out));
  TN_TRY(write_back(t));
  TN_TRY(bring_results(t, device, device->call->device, &results_bytes));
  count(t, counter, results_bytes);
  return TN_OK;
}

static void trip_begin(trip *t, const tn_call *call, tni_step *device, const tni_cell *cell) {
  t->call = *call;
  t->call.cell = cell;
  t->call.device = (tn_device){TN_BACKEND_CPU, 0, 0};
  t->call.stream = NULL;
  t->call.core = &t->step;
  t->lanes = NULL;
  t->n_lanes = 0;
  tni_step_begin(&t->step, &t->call, t->args, device->descs);
}

static void warn_once(tni_fallback_count *c) {
  if (!atomic_exchange_explicit(&c->warned, true, memory_order_relaxed))
    tn_log(TN_LOG_WARN, "%s has no kernel for %s: it runs on the CPU, with copies both ways (said once)",
           tni_backend_name(c->backend), c->op->name);
}

tn_status tni_fallback_run(tn_call *call, tni_step *step, const tn_meta *meta, const tn_value *args,
                           tn_value *out) {
  const tn_op *f = call->op->functional;
  const tni_cell *cell;
  tni_fallback_count *counter;
  trip t;
  uint8_t backend = ((const tni_cell *)call->cell)->bit;
  (void)out; /* results are handed over in the step */
  if (backend == TN_BACKEND_CPU || f == tni_op_copy()) return TN_DECLINED; /* copy_'s body is the core's */
  tni_fallback_choice choice = tni_fallback_choose(f, backend);
  if (choice.policy == TN_FALLBACK_ERROR || (f->body && !choice.whole)) return TN_DECLINED;
  TN_TRY(tni_cell_get(call->op, TN_BACKEND_CPU, &cell));
  if (!cell->n_chain) return TN_DECLINED;
  TN_TRY(tni_fallback_counter(f, backend, &counter));
  if (choice.policy == TN_FALLBACK_WARN) warn_once(counter);
  trip_begin(&t, call, step, cell);
  tn_status status = trip_run(&t, step, meta, args, counter);
  trip_end(&t);
  if (status == TN_OK || (status == TN_DECLINED && f->body)) return status;
  if (status == TN_DECLINED)
    status = tni_fallback_refuse(f, TN_BACKEND_CPU, tni_step_dtype(step, meta), cell->chain, cell->n_chain);
  return tn_wrap(status, "on the CPU in place of %s", tni_backend_name(backend));
}

/* ------------------------------------------------------------------ cells */

static tn_dtype first_dtype(const tn_op *op, const tn_value *args) {
  for (uint64_t m = op->tensor_args | op->list_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR) return v->u.v->dtype;
    if (v->kind == TN_VAL_LIST && v->count && v->u.vs[0]) return v->u.vs[0]->dtype;
  }
  return TN_DTYPE_NONE;
}

/* No provider and no body: refused before anything is allocated, resized or drawn. */
tn_status tni_bodyless(tn_call *call, const tn_value *args, tn_value *out) {
  const tni_cell *cell = call->cell;
  if (tni_fallback_choose(call->op, cell->bit).policy == TN_FALLBACK_ERROR)
    return tni_fallback_refuse(call->op, cell->bit, first_dtype(call->op, args), NULL, 0);
  return tni_structured(call, args, out);
}

/* A body, and perhaps a kernel on the CPU, which goes first where composites have nothing to run on. */
tn_status tni_body_or_whole(tn_call *call, const tn_value *args, tn_value *out) {
  const tni_cell *cell = call->cell;
  bool whole = cell->bit != TN_BACKEND_CPU && call->op->functional != tni_op_copy() &&
               tni_fallback_choose(call->op, cell->bit).whole;
  return whole ? tni_structured(call, args, out) : tni_body_checked(call, args, out);
}

static const char *hint(const tn_op *op, uint8_t backend, char *words, size_t size) {
  *words = 0;
  if (backend != TN_BACKEND_CPU)
    snprintf(words, size, "; TENON_FALLBACK=%s@%s=allow would run it on the CPU", op->functional->name,
             tni_backend_name(backend));
  return words;
}

tn_status tni_fallback_refuse(const tn_op *op, uint8_t backend, tn_dtype dtype,
                              const tni_kernel *const *chain, uint32_t n_chain) {
  char words[256], of[32] = "";
  const char *name = op->functional->name, *device = tni_backend_name(backend);
  bool claimed = n_chain == 0;
  for (uint32_t i = 0; i < n_chain; ++i) claimed |= (chain[i]->dtypes & TN_DTYPE_BIT(dtype)) != 0;
  hint(op, backend, words, sizeof words);
  if (!claimed)
    return tn_fail(TN_ERR_DTYPE, "dtype %s is not taken by any of the %u providers on %s%s",
                   tn_dtype_name(dtype), n_chain, device, words);
  if (dtype != TN_DTYPE_NONE) snprintf(of, sizeof of, " of %s", tn_dtype_name(dtype));
  return tn_fail(TN_ERR_MISSING_KERNEL,
                 "no kernel for %s %s %s%s and there is no composite%s; `tenon why` names the providers",
                 device, n_chain ? "takes this call of" : "serves", name, of, words);
}

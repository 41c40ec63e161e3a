/* SPDX-License-Identifier: Apache-2.0
 *
 * What a provider with TN_KERNEL_CONTIGUOUS gets: contiguous copies of the arguments and results that are not, also
 * inside lists. What it writes is copied home. The originals stay as they are, for the next provider in case this
 * one declines; a result that is an argument too (in place) stays one memory.
 */
#include "core/dispatch/dispatch_int.h"

/* Copies that are owned until the call is over, each with the tensor that it stands for. */
typedef struct plain_call {
  tn_value args[TNI_MAX_ARGS];
  tn_value out[TNI_MAX_OUTS];
  tn_tensor *made[TNI_MAX_ARGS + TNI_MAX_OUTS];
  uint32_t n_made;
} plain_call;

static bool is_plain(const tn_tensor *t) { return !t || (t->view.flags & TN_VIEW_CONTIGUOUS); }

static tn_status copy_of(tn_tensor *t, tn_tensor **out_copy) {
  return tni_cast_copy(t, t->view.dtype, tn_view_device(&t->view), out_copy);
}

static tn_status list_plain(tni_step *step, tn_value *v) {
  tn_tensor **items;
  bool plain = true;
  for (uint32_t i = 0; i < v->count; ++i) plain &= is_plain(v->u.ts[i]);
  if (plain) return TN_OK;
  TN_TRY(tni_step_list(step, v->count, &items));
  for (uint32_t i = 0; i < v->count; ++i) {
    tn_tensor *t = v->u.ts[i];
    if (is_plain(t))
      items[i] = tn_tensor_retain(t);
    else
      TN_TRY(copy_of(t, &items[i]));
  }
  v->u.ts = items;
  return TN_OK;
}

/* The target of an out= call is no argument of the kernel's. */
static uint64_t kernel_args(const tn_op *op, uint64_t args) {
  return op->form == TN_FORM_OUT ? args & ~op->write_args : args;
}

static tn_status args_plain(plain_call *p, tni_step *step) {
  const tn_op *op = step->op;
  for (uint64_t m = kernel_args(op, op->tensor_args); m; m &= m - 1) {
    tn_value *v = &p->args[__builtin_ctzll(m)];
    if (v->kind != TN_VAL_TENSOR || is_plain(v->u.t)) continue;
    TN_TRY(copy_of(v->u.t, &p->made[p->n_made]));
    *v = tn_value_tensor(p->made[p->n_made++]);
  }
  for (uint64_t m = kernel_args(op, op->list_args); m; m &= m - 1) {
    tn_value *v = &p->args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_LIST) TN_TRY(list_plain(step, v));
  }
  return TN_OK;
}

/* The place of t among the tensor arguments, or -1. */
static int argument_of(const tn_op *op, const tn_value *args, const tn_tensor *t) {
  for (uint64_t m = kernel_args(op, op->tensor_args); m; m &= m - 1) {
    int i = __builtin_ctzll(m);
    if (args[i].kind == TN_VAL_TENSOR && args[i].u.t == t) return i;
  }
  return -1;
}

static tn_status outs_plain(plain_call *p, const tni_step *step, const tn_value *args, const tn_value *out) {
  for (uint32_t i = 0; i < step->n_out; ++i) {
    p->out[i] = out[i];
    if (out[i].kind != TN_VAL_TENSOR || is_plain(out[i].u.t)) continue;
    const tn_view *v = out[i].u.v;
    int same = argument_of(step->op, args, out[i].u.t);
    if (same >= 0) {
      p->out[i] = p->args[same];
      continue;
    }
    TN_TRY(tni_tensor_new(v->dtype, v->ndim, v->sizes, NULL, tn_view_device(v), &p->made[p->n_made]));
    p->out[i] = tn_value_tensor(p->made[p->n_made++]);
  }
  return TN_OK;
}

/* Written arguments first: a result may be one of them. */
static tn_status bring_home(const plain_call *p, const tni_step *step, const tn_value *args,
                            const tn_value *out) {
  for (uint64_t m = kernel_args(step->op, step->op->write_args); m; m &= m - 1) {
    unsigned k = (unsigned)__builtin_ctzll(m);
    if (args[k].kind == TN_VAL_TENSOR && p->args[k].u.t != args[k].u.t)
      TN_TRY(tni_copy_uncounted(args[k].u.t, p->args[k].u.t));
    for (uint32_t i = 0; args[k].kind == TN_VAL_LIST && i < args[k].count; ++i)
      if (p->args[k].u.ts[i] != args[k].u.ts[i])
        TN_TRY(tni_copy_uncounted(args[k].u.ts[i], p->args[k].u.ts[i]));
  }
  for (uint32_t i = 0; i < step->n_out; ++i) {
    if (out[i].kind != TN_VAL_TENSOR || p->out[i].u.t == out[i].u.t) continue;
    int same = argument_of(step->op, args, out[i].u.t);
    bool home = same >= 0 && (step->op->write_args >> same & 1) && p->args[same].u.t == p->out[i].u.t;
    if (!home) TN_TRY(tni_copy_uncounted(out[i].u.t, p->out[i].u.t));
  }
  return TN_OK;
}

tn_status tni_call_contiguous(tn_call *call, tni_step *step, const tni_kernel *kernel, const tn_value *args,
                              tn_value *out) {
  plain_call p;
  p.n_made = 0;
  memcpy(p.args, args, step->op->n_args * sizeof *args);
  tn_status status = args_plain(&p, step);
  if (status == TN_OK) status = outs_plain(&p, step, args, out);
  if (status == TN_OK) status = kernel->fn(call, p.args, p.out);
  if (status == TN_OK) status = bring_home(&p, step, args, out);
  while (p.n_made) tn_tensor_release(p.made[--p.n_made]);
  return status;
}

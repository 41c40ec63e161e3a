/* SPDX-License-Identifier: Apache-2.0
 *
 * What the structured step does with operands before a kernel sees them: the device they agree on, casts to
 * the compute dtype, 0-d cpu numbers brought to the device, overlap with the target, and the strides of an
 * elementwise result.
 */
#include <tenon/kit/dtype.h>
#include <tenon/kit/shape.h>

#include "core/dispatch/dispatch_int.h"
#include "core/load/load.h"

/* Calls visit(ctx, tensor) for every tensor operand that is no write target of an out= form. */
typedef tn_status (*visit_fn)(void *ctx, tn_tensor *t);
static tn_status each_operand(const tn_op *op, const tn_value *args, visit_fn visit, void *ctx) {
  for (uint64_t m = op->tensor_args | op->list_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR) TN_TRY(visit(ctx, v->u.t));
    for (uint32_t i = 0; v->kind == TN_VAL_LIST && i < v->count; ++i)
      if (v->u.ts[i]) TN_TRY(visit(ctx, v->u.ts[i]));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ device */

typedef struct device_vote {
  uint8_t backend; /* of the running cell */
  bool decided;
  tn_device device;
} device_vote;

static tn_status vote(void *ctx, tn_tensor *t) {
  device_vote *v = ctx;
  tn_device d = tn_view_device(&t->view);
  if (d.backend != v->backend) {
    if (d.backend == TN_BACKEND_CPU && t->view.ndim == 0) return TN_OK;
    if (v->backend == TN_BACKEND_META) return TN_OK; /* meta wins over all */
    return tn_fail(TN_ERR_DEVICE, "all tensors must be on one device; found %s:%d and %s",
                   tni_backend_name(d.backend), d.index, tni_backend_name(v->backend));
  }
  if (!v->decided) {
    v->decided = true;
    v->device = d;
    return TN_OK;
  }
  if (d.index == v->device.index) return TN_OK;
  return tn_fail(TN_ERR_DEVICE, "all tensors must be on one device; found %s:%d and %s:%d",
                 tni_backend_name(d.backend), v->device.index, tni_backend_name(d.backend), d.index);
}

/* meta wins over all operands, but a meta target alone does not make a result meta. */
static tn_status check_meta_out(const tn_op *op, const tn_value *args) {
  const tn_view *other = NULL;
  for (uint64_t m = op->tensor_args & ~op->write_args; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR && v->u.v->backend == TN_BACKEND_META) return TN_OK;
    if (v->kind == TN_VAL_TENSOR) other = v->u.v;
  }
  if (!other || (op->list_args & ~op->write_args)) return TN_OK;
  return tn_fail(TN_ERR_DEVICE, "the result is on %s, the target on meta", tni_backend_name(other->backend));
}

/* The backend that a call is for: of the running cell, or, asked by a layer's cell, of the keys below it. */
static uint8_t backend_of_call(const tn_call *call) {
  const uint8_t bit = ((const tni_cell *)call->cell)->bit;
  const uint64_t backends = call->keys & TNI_KEYS_BACKENDS;
  return bit < TN_BACKEND_LIMIT || !backends ? bit : (uint8_t)(63 - __builtin_clzll(backends));
}

tn_status tni_call_device(tn_call *call, const tn_value *args, tn_device *out_device) {
  const tn_op *op = call->op;
  const uint8_t backend = backend_of_call(call);
  device_vote v = {backend, false, {backend, 0, 0}};
  const tn_device *said = tni_device_said(op, args, backend);
  if (said || !(op->tensor_args | op->list_args)) {
    *out_device = said ? *said : v.device;
    return TN_OK;
  }
  if (op->flags & TN_OP_CROSS_DEVICE) {
    /* The target decides, then the first operand. */
    unsigned first = op->write_args ? (unsigned)__builtin_ctzll(op->write_args)
                                    : (unsigned)__builtin_ctzll(op->tensor_args | op->list_args);
    const tn_value *value = &args[first];
    *out_device = value->kind == TN_VAL_TENSOR ? tn_view_device(value->u.v) : v.device;
    return TN_OK;
  }
  TN_TRY(each_operand(op, args, vote, &v));
  *out_device = v.device;
  return op->form == TN_FORM_OUT && backend == TN_BACKEND_META ? check_meta_out(op, args) : TN_OK;
}

/* ------------------------------------------------------------------ casts */

/* Makes step->cast the arguments that the kernel gets. */
static void own_args(tni_step *step) {
  if (!step->replaced) memcpy(step->cast, step->args, step->op->n_args * sizeof *step->cast);
  step->replaced = true;
}

static const tn_value *current_args(const tni_step *step) { return step->replaced ? step->cast : step->args; }

static tn_status replace_arg(tni_step *step, unsigned i, tn_dtype dtype, tn_device device) {
  tn_tensor *made;
  TN_TRY(tni_cast_copy(current_args(step)[i].u.t, dtype, device, &made));
  own_args(step);
  step->temps[step->n_temps++] = made;
  step->cast[i] = tn_value_tensor(made);
  return TN_OK;
}

struct tni_cast_list {
  struct tni_cast_list *next;
  uint32_t n;
  tn_tensor *items[]; /* owned; entries may be NULL */
};

tn_status tni_step_list(tni_step *step, uint32_t n, tn_tensor ***out_items) {
  size_t bytes = sizeof(struct tni_cast_list) + n * sizeof(tn_tensor *);
  struct tni_cast_list *list = tni_alloc_zero(bytes);
  if (!list) return tni_oom(bytes, "a list of temporaries");
  list->n = n;
  list->next = step->lists;
  step->lists = list;
  *out_items = list->items;
  return TN_OK;
}

void tni_cast_lists_release(tni_step *step) {
  while (step->lists) {
    struct tni_cast_list *list = step->lists;
    step->lists = list->next;
    for (uint32_t i = 0; i < list->n; ++i) tn_tensor_release(list->items[i]);
    tni_free(list);
  }
}

/* dtype NONE: as it is. Only 0-d cpu tensors are ever elsewhere: tni_call_device has refused the others. */
static bool is_at_home(const tn_tensor *t, tn_dtype dtype, tn_device device) {
  return t->view.backend == device.backend && (dtype == TN_DTYPE_NONE || t->view.dtype == dtype);
}

static bool list_differs(const tn_value *v, tn_dtype dtype, tn_device device) {
  for (uint32_t k = 0; k < v->count; ++k)
    if (v->u.ts[k] && !is_at_home(v->u.ts[k], dtype, device)) return true;
  return false;
}

/* Replaces list argument i by one whose tensors all have the dtype and are on the device. */
static tn_status replace_list(tni_step *step, unsigned i, tn_dtype dtype, tn_device device) {
  const tn_value v = current_args(step)[i];
  tn_tensor **items = NULL;
  if (!list_differs(&v, dtype, device)) return TN_OK;
  TN_TRY(tni_step_list(step, v.count, &items));
  for (uint32_t k = 0; k < v.count; ++k) {
    tn_tensor *t = v.u.ts[k];
    if (!t || is_at_home(t, dtype, device))
      items[k] = tn_tensor_retain(t);
    else
      TN_TRY(tni_cast_copy(t, dtype == TN_DTYPE_NONE ? t->view.dtype : dtype,
                           t->view.backend == device.backend ? tn_view_device(&t->view) : device, &items[k]));
  }
  own_args(step);
  step->cast[i].u.ts = items;
  return TN_OK;
}

/* 0-d cpu operands beside another backend: the kernel gets them where it runs. */
tn_status tni_step_localise(tni_step *step, tn_device device) {
  const tn_op *op = step->op;
  if (op->flags & (TN_OP_CROSS_DEVICE | TN_OP_NO_KERNEL)) return TN_OK; /* empty_like reads sizes only */
  for (uint64_t m = op->tensor_args & ~op->write_args; m; m &= m - 1) {
    unsigned i = (unsigned)__builtin_ctzll(m);
    const tn_value *v = &step->args[i];
    if (v->kind == TN_VAL_TENSOR && v->u.v->backend != device.backend)
      TN_TRY(replace_arg(step, i, v->u.v->dtype, device));
  }
  for (uint64_t m = op->list_args & ~op->write_args; m; m &= m - 1) {
    unsigned i = (unsigned)__builtin_ctzll(m);
    if (step->args[i].kind == TN_VAL_LIST) TN_TRY(replace_list(step, i, TN_DTYPE_NONE, device));
  }
  return TN_OK;
}

tn_status tni_step_cast(tni_step *step, tn_dtype compute, uint64_t keep_args) {
  const tn_op *op = step->op;
  if (compute == TN_DTYPE_NONE) return TN_OK;
  uint64_t targets = op->form == TN_FORM_OUT ? op->write_args : 0;
  for (uint64_t m = op->tensor_args & ~targets & ~keep_args; m; m &= m - 1) {
    unsigned i = (unsigned)__builtin_ctzll(m);
    const tn_value *v = &current_args(step)[i];
    if (v->kind == TN_VAL_TENSOR && v->u.v->dtype != compute)
      TN_TRY(replace_arg(step, i, compute, tn_view_device(v->u.v)));
  }
  for (uint64_t m = op->list_args & ~targets & ~keep_args; m; m &= m - 1) {
    unsigned i = (unsigned)__builtin_ctzll(m);
    if (step->args[i].kind == TN_VAL_LIST) TN_TRY(replace_list(step, i, compute, step->call->device));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ overlap */

typedef struct overlap_check {
  const tn_op *op;
  tn_tensor *target;
  const tn_view *written;
  bool temporary;
} overlap_check;

static tn_status check_operand(void *ctx, tn_tensor *t) {
  overlap_check *c = ctx;
  uint32_t flags = c->op->functional->flags;
  if (t == c->target) { /* of out= calls only the target itself is left here: see is_input */
    if (c->op->form == TN_FORM_INPLACE && !(flags & TN_OP_POINTWISE_ALIAS) && c->op->functional != c->op)
      c->temporary = true;
    return TN_OK;
  }
  int overlap = tn_view_overlap(c->written, &t->view);
  if (overlap == TN_OVERLAP_NONE) return TN_OK;
  if (overlap == TN_OVERLAP_EXACT) {
    if (flags & TN_OP_POINTWISE_ALIAS) return TN_OK;
    if (c->op->form == TN_FORM_INPLACE) {
      c->temporary = true;
      return TN_OK;
    }
  }
  return tn_fail(TN_ERR_OVERLAP, "the target shares part of its memory with an input; clone the input first");
}

static bool holds(const tn_value *v, const tn_tensor *t) {
  if (v->kind == TN_VAL_TENSOR) return v->u.t == t;
  for (uint32_t i = 0; v->kind == TN_VAL_LIST && i < v->count; ++i)
    if (v->u.ts[i] == t) return true;
  return false;
}

/* Is the out= argument also an input, by the same handle? */
static bool is_input(const tn_op *op, const tn_value *args, const tn_tensor *target) {
  for (uint64_t m = (op->tensor_args | op->list_args) & ~op->write_args; m; m &= m - 1)
    if (holds(&args[__builtin_ctzll(m)], target)) return true;
  return false;
}

tn_status tni_check_overlap(const tn_op *op, const tn_value *args, tn_tensor *target, const tn_view *written,
                            bool *out_temporary) {
  overlap_check c = {op, target, written, false};
  *out_temporary = false;
  if (tn_view_self_overlap(written) != TN_OVERLAP_NONE)
    return tn_fail(TN_ERR_OVERLAP,
                   "elements of the target share memory (an expanded tensor?); clone it first");
  if (op->form == TN_FORM_OUT && is_input(op, args, target)) {
    if (!(op->functional->flags & TN_OP_POINTWISE_ALIAS))
      return tn_fail(TN_ERR_OVERLAP, "the out= tensor is also an input, which this operator does not allow");
    if (written->sizes != target->view.sizes)
      return tn_fail(TN_ERR_OVERLAP, "the out= tensor is also an input; its shape %s is not the result's %s",
                     tn_shape_format(target->view.ndim, target->view.sizes, TN_SHAPE_TEXT),
                     tn_shape_format(written->ndim, written->sizes, TN_SHAPE_TEXT));
  }
  TN_TRY(each_operand(op, args, check_operand, &c));
  *out_temporary = c.temporary;
  return TN_OK;
}

/* ------------------------------------------------------------------ strides of elementwise results */

/* How far apart operand v's elements lie along a dim of the result, whichever way; 0 where it is stretched. */
static tn_dim stride_at(const tn_view *v, unsigned dim, unsigned ndim) {
  int at = (int)dim - (int)(ndim - v->ndim);
  if (at < 0 || (v->sizes[at] == 1)) return 0;
  return v->strides[at] < 0 ? -v->strides[at] : v->strides[at];
}

/* Should dim a lie inside dim b (smaller stride)? The first operand that has different nonzero strides for the
 * two decides; 0: none does. */
static int compare_dims(const tn_view *const *views, unsigned n, unsigned a, unsigned b, const tn_desc *d) {
  for (unsigned k = 0; k < n; ++k) {
    tn_dim sa = stride_at(views[k], a, d->ndim), sb = stride_at(views[k], b, d->ndim);
    if (sa == 0 || sb == 0) continue;
    if (sa != sb) return sa < sb ? -1 : 1;
    if (d->sizes[a] > d->sizes[b]) return 1;
  }
  return 0;
}

static bool all_dense_alike(const tn_view *const *views, unsigned n, const tn_desc *d) {
  for (unsigned k = 0; k < n; ++k) {
    if (!(views[k]->flags & TN_VIEW_DENSE) || views[k]->ndim != d->ndim) return false;
    for (unsigned i = 0; i < d->ndim; ++i)
      if (views[k]->sizes[i] != d->sizes[i] || views[k]->strides[i] != views[0]->strides[i]) return false;
  }
  return n > 0;
}

/* Insertion sort of the dims from the innermost, as TensorIterator orders them: ambiguous pairs keep their
 * place. order[0] is the innermost. */
static void order_dims(const tn_view *const *views, unsigned n, const tn_desc *d, unsigned *order) {
  for (unsigned i = 0; i < d->ndim; ++i) order[i] = d->ndim - 1 - i;
  for (unsigned i = 1; i < d->ndim; ++i) {
    unsigned at = i;
    for (unsigned j = i; j-- > 0;) {
      int c = compare_dims(views, n, order[j], order[at], d);
      if (c > 0) {
        unsigned swap = order[j];
        order[j] = order[at];
        order[at] = swap;
        at = j;
      } else if (c < 0) {
        break;
      }
    }
  }
}

void tni_elementwise_strides(const tn_op *op, const tn_value *args, tn_desc *desc) {
  const tn_view *views[TNI_MAX_ARGS];
  unsigned n = 0, order[TN_MAX_RANK];
  uint64_t targets = op->form == TN_FORM_OUT ? op->write_args : 0;
  for (uint64_t m = op->tensor_args & ~targets; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR) views[n++] = v->u.v;
  }
  if (all_dense_alike(views, n, desc)) {
    memcpy(desc->strides, views[0]->strides, desc->ndim * sizeof *desc->strides);
    return;
  }
  order_dims(views, n, desc, order);
  tn_dim stride = 1;
  for (unsigned i = 0; i < desc->ndim; ++i) {
    desc->strides[order[i]] = stride;
    stride *= desc->sizes[order[i]] > 0 ? desc->sizes[order[i]] : 1;
  }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * View operators: the meta rule gives sizes, strides and offset, the core makes the tracked view. No backend
 * takes part, so every backend has all views.
 */
#include "core/dispatch/fresh.h"
#include "core/tensor/view.h"

/* Descriptors of the results; one on the stack of the step, more in one allocation. */
typedef struct desc_list {
  tn_meta meta; /* first: grow finds the list from it */
  tn_desc *allocated;
  tn_desc few[1];
} desc_list;

static tn_status desc_grow(tn_meta *meta, uint32_t n) {
  desc_list *list = (desc_list *)(void *)meta;
  if (n <= meta->out_capacity) {
    meta->n_out = n;
    return TN_OK;
  }
  tn_desc *more = tni_alloc_zero(n * sizeof *more);
  if (!more) return tni_oom(n * sizeof *more, "descriptions of views");
  for (uint32_t i = 0; i < meta->n_out && i < meta->out_capacity; ++i) more[i] = meta->out[i];
  tni_free(list->allocated);
  list->allocated = more;
  meta->out = more;
  meta->out_capacity = n;
  meta->n_out = n;
  return TN_OK;
}

/* Every field that is read is set; rules write sizes and strides. */
static inline void desc_init(tn_desc *desc) {
  memset(desc, 0, offsetof(tn_desc, sizes));
}

static void desc_list_init(desc_list *list, const tn_op *op) {
  desc_init(&list->few[0]);
  list->allocated = NULL;
  list->meta = op->meta_preset;
  list->meta.out = list->few;
  list->meta.grow = desc_grow;
}

/* The caller's array is out[0].u.p with room for out[0].count (tn_kernel_fn in tenon/plugin.h). */
static tn_status make_list(const tn_op *op, tn_tensor *self, const desc_list *list, const tn_value *args,
                           tn_value *out) {
  uint32_t n = list->meta.n_out;
  tn_tensor **array = (tn_tensor **)(uintptr_t)out[0].u.ts;
  if (n > out[0].count)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "there are %u results, the caller's array holds %u", n, out[0].count);
  for (uint32_t i = 0; i < n; ++i) {
    tn_status status = tni_tensor_view(self, &list->meta.out[i], op, args, i, &array[i]);
    if (status == TN_OK) continue;
    while (i) tn_tensor_release(array[--i]);
    return status;
  }
  out[0].count = n;
  return TN_OK;
}

static TN_COLD tn_status refuse_opaque(void) {
  return tn_fail(TN_ERR_UNSUPPORTED, "an opaque tensor has no strided memory to view");
}

static tn_status refuse_grow(tn_meta *meta, uint32_t n) {
  return tn_fail(TN_ERR_INTERNAL, "a list of %u views from an operator of one", n);
}

/* One result: nothing is allocated but the view. */
tn_status tni_view_step(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  tn_tensor *self = args[0].u.t;
  tn_desc desc;
  tn_meta meta = op->meta_preset;
  if (TNI_UNLIKELY(self->view.flags & TN_VIEW_OPAQUE)) return refuse_opaque();
  desc_init(&desc);
  meta.out = &desc;
  meta.grow = refuse_grow;
  tn_status status = op->meta(&meta, args);
  if (TNI_UNLIKELY(status != TN_OK)) return status;
  if (TNI_UNLIKELY(tni_meta_byte(&desc.layout) == TN_DESC_FREE_STRIDES)) TN_TRY(tni_view_check_reach(self, &desc));
  tn_tensor *view = tni_view_make(self, &desc, op, args, 0, &status);
  if (TNI_LIKELY(view != NULL)) out[0] = tn_value_make((uint64_t)(uintptr_t)view, TN_VALUE_TAG(TN_VAL_TENSOR, 0, 0));
  return status;
}

tn_status tni_view_list_step(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  desc_list list;
  tn_tensor *self = args[0].u.t;
  if (self->view.flags & TN_VIEW_OPAQUE) return refuse_opaque();
  desc_list_init(&list, op);
  tn_status status = op->meta(&list.meta, args);
  if (status == TN_OK) status = make_list(op, self, &list, args, out);
  tni_free(list.allocated);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * View operators: the meta rule gives sizes, strides and offset, the core makes the tracked view. No backend
 * takes part, so every backend has all views.
 */
#include "core/dispatch/dispatch_int.h"

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

/* Every field that is read is set; rules write sizes and strides. Most of the surroundings are the operator's own
 * and are copied. */
static inline void desc_list_init(desc_list *list, const tn_op *op) {
  list->few[0].dtype = TN_DTYPE_NONE;
  list->few[0].ndim = list->few[0].layout = list->few[0].absent = list->few[0].unknown = 0;
  list->few[0].offset = 0;
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
    tn_status status = tni_tensor_view(self, &list->meta.out[i], op, args, op->n_args, i, &array[i]);
    if (status == TN_OK) continue;
    while (i) tn_tensor_release(array[--i]);
    return status;
  }
  out[0].count = n;
  return TN_OK;
}

tn_status tni_view_step(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_op *op = call->op;
  desc_list list;
  tn_tensor *self = args[0].u.t;
  if (TNI_UNLIKELY(self->view.flags & TN_VIEW_OPAQUE))
    return tn_fail(TN_ERR_UNSUPPORTED, "an opaque tensor has no strided memory to view");
  desc_list_init(&list, op);
  tn_status status = op->meta(&list.meta, args);
  if (TNI_LIKELY(status == TN_OK)) {
    if (op->list_result) {
      status = make_list(op, self, &list, args, out);
    } else {
      tn_tensor *view;
      status = tni_tensor_view(self, &list.meta.out[0], op, args, op->n_args, 0, &view);
      out[0] = tn_value_tensor(view);
    }
  }
  tni_free(list.allocated);
  return status;
}

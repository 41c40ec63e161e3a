/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node keeps of a call: tensors, with the version they had, and private copies of plain values.
 * Which kind of handle a tensor is kept by is Note [Who holds whom] in autograd_int.h.
 */
#include <tenon/kit/shape.h>

#include "core/autograd/autograd_int.h"

tn_status tni_save_tensor(tn_tensor *t, bool own_result, const char *op_name, tn_tensor **out_kept,
                          uint32_t *out_version) {
  *out_kept = NULL;
  if (TNI_UNLIKELY(!t->version))
    return tn_fail(
        TN_ERR_STATE,
        "%s: inference tensors cannot be saved for backward; make it outside inference mode, or clone it",
        op_name);
  *out_version = tni_version_get(t);
  bool has_history = t->base || (t->autograd && t->autograd->grad_fn);
  if (!own_result && !has_history) {
    if (!__atomic_load_n(&t->kept, __ATOMIC_RELAXED)) __atomic_store_n(&t->kept, 1, __ATOMIC_RELAXED);
    tni_retain(t);
    *out_kept = t;
    return TN_OK;
  }
  return tni_tensor_alias(t, t->view.ndim, t->view.sizes, t->view.strides, 0, true, out_kept);
}

tn_status tni_saved_changed(const tn_tensor *kept, uint32_t version) {
  return tn_fail(
      TN_ERR_VERSION,
      "a tensor of shape %s that this gradient needs was changed in place since it was saved: expected "
      "version %u, found version %u",
      tn_shape_format(kept->view.ndim, kept->view.sizes, TN_SHAPE_TEXT), version, tni_version_get(kept));
}

tn_status tni_saved_with_history(tn_tensor *kept, tni_edge edge, tn_tensor **out_tensor) {
  tni_autograd *slot;
  TN_TRY(tni_tensor_alias(kept, kept->view.ndim, kept->view.sizes, kept->view.strides, 0, true, out_tensor));
  tn_status status = tni_slot_ensure(*out_tensor, &slot);
  if (status != TN_OK) {
    tn_tensor_release(*out_tensor);
    *out_tensor = NULL;
    return status;
  }
  tni_node_retain(edge.fn);
  tni_history_set(*out_tensor, edge.fn, edge.nr);
  return TN_OK;
}

/* ------------------------------------------------------------------ plain values */

static size_t entry_bytes(const tn_value *v) {
  switch (v->elem) {
    case TN_VAL_BOOL: return 1;
    case TN_VAL_SCALAR: return sizeof(tn_value);
    default: return 8; /* int, float, handles */
  }
}

/* What u.p leads to, entries that lead on left out. */
static size_t bytes_behind(const tn_value *v) {
  switch (v->kind) {
    case TN_VAL_STRING: return (size_t)v->count + 1;
    case TN_VAL_COMPLEX: return 2 * sizeof(double);
    case TN_VAL_LIST: return v->count * entry_bytes(v);
    default: return 0;
  }
}

static inline size_t eights(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

static inline bool is_scalar_list(const tn_value *v) { return v->kind == TN_VAL_LIST && v->elem == TN_VAL_SCALAR; }

size_t tni_value_payload(const tn_value *v) {
  size_t bytes = eights(bytes_behind(v));
  const tn_value *scalars = v->u.p;
  for (uint32_t i = 0; is_scalar_list(v) && i < v->count; ++i) bytes += eights(bytes_behind(&scalars[i]));
  return bytes;
}

/* v, with what lies behind it moved to *pool. */
static void move_behind(tn_value *v, char **pool) {
  size_t bytes = bytes_behind(v);
  if (!bytes) return;
  memcpy(*pool, v->u.p, bytes);
  v->u.p = *pool;
  *pool += eights(bytes);
}

tn_value tni_value_copy(const tn_value *v, char **pool) {
  tn_value copy = *v;
  move_behind(&copy, pool);
  tn_value *scalars = (tn_value *)(uintptr_t)copy.u.p;
  for (uint32_t i = 0; is_scalar_list(v) && i < v->count; ++i) move_behind(&scalars[i], pool);
  return copy;
}

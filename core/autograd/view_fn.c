/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaying views: the operators that made a view are called again on another base, or on the same base
 * after it was written, to give the view its history anew (E9, E10).
 *
 * Replays run with gradients on and with every layer above autograd off: what they compute is geometry that
 * those layers saw already when the view was first made.
 */
#include <tenon/kit/shape.h>

#include "core/autograd/autograd_int.h"

enum { MOST_ARGS = 64, MOST_RESULTS = 8, FEW_RESULTS = 32 };

/* ------------------------------------------------------------------ one record */

/* A list view operator has at most as many results as some size or list of the call has entries. */
static uint32_t most_results(const tni_replay *r, const tn_tensor *src) {
  int64_t most = r->out_index + 1;
  for (unsigned i = 0; i < src->view.ndim; ++i)
    if (src->view.sizes[i] > most) most = src->view.sizes[i];
  for (uint32_t i = 1; i < r->n_args; ++i)
    if (r->args[i].kind == TN_VAL_LIST && r->args[i].count > most) most = r->args[i].count;
  return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

static tn_status replay_list(const tni_replay *r, const tn_value *args, uint32_t most, tn_tensor **out_view) {
  tn_tensor *few[FEW_RESULTS];
  tn_tensor **array = most <= FEW_RESULTS ? few : tni_alloc(most * sizeof *array);
  if (!array) return tni_oom(most * sizeof *array, "the results of a view operator");
  tn_value out = tn_value_tensors(array, most);
  tn_status status = tni_call(r->op, args, &out);
  if (status == TN_OK) {
    if (r->out_index < out.count)
      *out_view = tn_tensor_retain(array[r->out_index]);
    else
      status = tn_fail(TN_ERR_INTERNAL, "%s gave %u results on replay, result %u was expected", r->op->name,
                       out.count, r->out_index);
    for (uint32_t i = 0; i < out.count; ++i) tn_tensor_release(array[i]);
  }
  if (array != few) tni_free(array);
  return status;
}

tn_status tni_replay_call(const tni_replay *r, tn_tensor *src, tn_tensor **out_view) {
  tn_value args[MOST_ARGS], out[MOST_RESULTS];
  *out_view = NULL;
  memcpy(args, r->args, r->n_args * sizeof *args);
  args[0] = tn_value_tensor(src);
  if (r->op->list_result) return replay_list(r, args, most_results(r, src), out_view);
  TN_TRY(tni_call(r->op, args, out));
  *out_view = out[0].u.t;
  return TN_OK;
}

/* ------------------------------------------------------------------ chains */

struct tni_view_fn {
  uint32_t n;
  tni_replay *steps[]; /* base's child first; each behind the array, in the same allocation */
};

static size_t record_bytes(const tni_replay *r) {
  size_t bytes = sizeof *r + r->n_args * sizeof(tn_value);
  for (uint32_t i = 1; i < r->n_args; ++i) bytes += tni_value_payload(&r->args[i]);
  return bytes;
}

static tni_replay *record_copy(const tni_replay *r, char **pool) {
  tni_replay *copy = (tni_replay *)(void *)*pool;
  *copy = *r;
  *pool += sizeof *r + r->n_args * sizeof(tn_value);
  for (uint32_t i = 0; i < r->n_args; ++i)
    copy->args[i] = i ? tni_value_copy(&r->args[i], pool) : tn_value_none();
  return copy;
}

tn_status tni_view_fn_new(const tn_tensor *view, tni_view_fn **out_fn) {
  uint32_t n = 0;
  size_t bytes = 0;
  *out_fn = NULL;
  for (const tn_tensor *t = view; t->base; t = t->parent, ++n) bytes += record_bytes(t->replay);
  bytes += sizeof(tni_view_fn) + n * sizeof(tni_replay *);
  tni_view_fn *fn = tni_alloc(bytes);
  if (!fn) return tni_oom(bytes, "the record of a chain of views");
  fn->n = n;
  char *pool = (char *)&fn->steps[n];
  for (const tn_tensor *t = view; t->base; t = t->parent) fn->steps[--n] = record_copy(t->replay, &pool);
  *out_fn = fn;
  return TN_OK;
}

void tni_view_fn_free(tni_view_fn *fn) { tni_free(fn); }

tn_status tni_view_fn_call(const tni_view_fn *fn, tn_tensor *base, tn_tensor **out_view) {
  tn_tensor *at = tn_tensor_retain(base);
  for (uint32_t i = 0; i < fn->n; ++i) {
    tn_tensor *next;
    tn_status status = tni_replay_call(fn->steps[i], at, &next);
    tn_tensor_release(at);
    if (status != TN_OK) return status;
    at = next;
  }
  *out_view = at;
  return TN_OK;
}

/* ------------------------------------------------------------------ history on access */

static tn_status refuse_stale(const tn_tensor *view) {
  const char *how = view->creation == TNI_CREATION_MULTI_OUTPUT ? "by an operator that returns several views"
                    : view->creation == TNI_CREATION_NO_GRAD    ? "while gradients were off"
                    : view->creation == TNI_CREATION_INFERENCE  ? "in inference mode"
                                                                : "by a custom function";
  return tn_fail(
      TN_ERR_STATE,
      "a view of shape %s was made %s, and its base or another view of it was written in place since: its "
      "gradient is not defined",
      tn_shape_format(view->view.ndim, view->view.sizes, TN_SHAPE_TEXT), how);
}

/* The replayed view; its own history is what `view` gets. */
static tn_status replay_recorded(const tn_tensor *view, tn_tensor **out_twin) {
  tni_view_fn *fn;
  TN_TRY(tni_view_fn_new(view, &fn));
  const tni_thread_modes saved = tni_tls.modes;
  tni_thread_modes *modes = &tni_tls.modes;
  modes->include &= TNI_KEY_AUTOGRAD - 1;
  modes->exclude = (modes->exclude | ~(2 * TNI_KEY_AUTOGRAD - 1)) & ~TNI_KEY_AUTOGRAD;
  modes->grad_enabled = true;
  modes->inference = false;
  tn_status status = tni_view_fn_call(fn, view->base, out_twin);
  tni_thread_restore(&saved);
  tni_view_fn_free(fn);
  return status;
}

/* Installs the twin's history unless another thread was faster. */
static tni_mutex adoptions = TNI_MUTEX_INIT;
TNI_FORK_LOCK(adoptions, TNI_FORK_AUTOGRAD, adoptions);
static tn_status adopt(tn_tensor *view, tn_tensor *twin, uint32_t version) {
  tni_autograd *slot;
  TN_TRY(tni_slot_ensure(view, &slot));
  tni_autograd *from = twin->autograd;
  tni_node *old = NULL;
  tn_status status = TN_OK;
  if (slot->retains_grad && from && from->grad_fn)
    status = tni_hooks_add_retain(from->grad_fn, from->output_nr, slot->cell);
  tni_mutex_lock(&adoptions);
  if (status == TN_OK && atomic_load_explicit(&slot->view_version, memory_order_acquire) != version) {
    old = slot->grad_fn;
    slot->grad_fn = from ? from->grad_fn : NULL;
    slot->output_nr = from ? from->output_nr : 0;
    if (slot->grad_fn) tni_node_retain(slot->grad_fn);
    atomic_store_explicit(&slot->view_version, version, memory_order_release);
  }
  tni_mutex_unlock(&adoptions);
  if (old && slot->retains_grad) tni_hooks_drop_retain(old, slot->cell);
  tni_node_release(old);
  return status;
}

tn_status tni_view_refresh(tn_tensor *view) {
  const tni_autograd *slot = __atomic_load_n(&view->autograd, __ATOMIC_ACQUIRE);
  uint32_t version = tni_version_get(view);
  uint32_t seen =
      slot ? atomic_load_explicit(&slot->view_version, memory_order_acquire) : view->replay->version;
  if (TNI_LIKELY(seen == version) || !tni_slot_requires(view->base->autograd)) return TN_OK;
  if (view->creation != TNI_CREATION_DEFAULT) return refuse_stale(view);
  tn_tensor *twin;
  TN_TRY(replay_recorded(view, &twin));
  tn_status status = adopt(view, twin, version);
  tn_tensor_release(twin);
  return status;
}

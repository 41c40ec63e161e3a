/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks of tensors and leaves. They live on the node whose result the tensor was when they were registered,
 * so they stay with that value when the tensor is later written in place (D10).
 *
 * Hooks are rare, so one mutex guards all lists. It is never held while a hook runs: a run walks the list
 * by ascending id and holds a count of the hook it calls, so that hooks may be added and removed meanwhile
 * (D2).
 */
#include <tenon/kit/shape.h>
#include <tenon/ops.h>

#include "core/autograd/autograd_int.h"

enum { KIND_GRADIENT = 0, KIND_LEAF = 1 };

typedef struct hook {
  struct hook *next;                /* in its node's list, ids ascending */
  struct hook *all_next, *all_prev; /* among all hooks of the process: removal finds by id */
  struct tni_hooks *owner;
  uint64_t id;
  uint32_t refs; /* guarded by the mutex */
  uint32_t nr;   /* KIND_GRADIENT: which result */
  uint8_t kind;
  union {
    tn_hook_fn gradient;
    tn_leaf_hook_fn leaf;
  } fn;
  void *ctx;
  void (*free_ctx)(void *);
} hook;

/* A tensor that keeps the gradient of result nr. */
typedef struct retain {
  struct retain *next;
  tni_grad_cell *cell; /* counted */
  uint32_t nr;
} retain;

struct tni_hooks {
  hook *first;
  retain *retains;
};

static struct {
  tni_mutex mutex;
  hook *all;
  uint64_t last_id;
} hooks = {.mutex = TNI_MUTEX_INIT};
TNI_FORK_LOCK(hooks, TNI_FORK_AUTOGRAD, hooks.mutex);

static void hook_free(hook *h) {
  if (h->free_ctx) h->free_ctx(h->ctx);
  tni_free(h);
}

/* Takes h out of the process's list. Mutex held. */
static void unlist(hook *h) {
  if (h->all_prev)
    h->all_prev->all_next = h->all_next;
  else
    hooks.all = h->all_next;
  if (h->all_next) h->all_next->all_prev = h->all_prev;
  h->owner = NULL;
}

static void hook_release(hook *h) {
  tni_mutex_lock(&hooks.mutex);
  bool last = --h->refs == 0;
  tni_mutex_unlock(&hooks.mutex);
  if (last) hook_free(h);
}

void tni_hooks_free(struct tni_hooks *list) {
  hook *dead = NULL;
  tni_mutex_lock(&hooks.mutex);
  while (list->first) {
    hook *h = list->first;
    list->first = h->next;
    unlist(h);
    if (--h->refs) continue;
    h->next = dead;
    dead = h;
  }
  tni_mutex_unlock(&hooks.mutex);
  while (dead) {
    hook *next = dead->next;
    hook_free(dead);
    dead = next;
  }
  while (list->retains) {
    retain *r = list->retains;
    list->retains = r->next;
    tni_cell_release(r->cell);
    tni_free(r);
  }
  tni_free(list);
}

/* The node's lists, made if need be. Mutex held. */
static struct tni_hooks *lists_of(tni_node *node) {
  struct tni_hooks *list = atomic_load_explicit(&node->hooks, memory_order_acquire);
  if (list) return list;
  list = tni_alloc_zero(sizeof *list);
  if (list) atomic_store_explicit(&node->hooks, list, memory_order_release);
  return list;
}

/* ------------------------------------------------------------------ adding and removing */

static tn_status hook_add(tni_node *node, hook *h, uint64_t *out_id) {
  tni_mutex_lock(&hooks.mutex);
  struct tni_hooks *list = lists_of(node);
  if (list) {
    h->id = ++hooks.last_id;
    h->owner = list;
    hook **at = &list->first;
    while (*at) at = &(*at)->next;
    *at = h;
    h->all_next = hooks.all;
    if (hooks.all) hooks.all->all_prev = h;
    hooks.all = h;
    if (out_id) *out_id = h->id;
  }
  tni_mutex_unlock(&hooks.mutex);
  return list ? TN_OK : tni_oom(sizeof *list, "a node's hooks");
}

/* Registers on the node that t's gradient arrives at. On failure ctx stays the caller's. */
static tn_status hook_new(tn_tensor *t, const hook *from, uint64_t *out_id) {
  tni_edge edge = {NULL, 0};
  hook *h = tni_alloc(sizeof *h);
  tn_status status = h ? tni_gradient_edge(t, &edge) : tni_oom(sizeof *h, "a hook");
  if (status == TN_OK) {
    *h = *from;
    h->refs = 1;
    h->nr = edge.nr;
    status = hook_add(edge.fn, h, out_id);
  }
  tni_node_release(edge.fn);
  if (status == TN_OK) return TN_OK;
  tni_free(h);
  return status;
}

tn_status tn_register_hook(tn_tensor *tensor, tn_hook_fn fn, void *ctx, void (*free_ctx)(void *),
                           uint64_t *out_id) {
  if (!tensor || !fn) return tn_fail(TN_ERR_INVALID_ARGUMENT, "register_hook: tensor and fn may not be NULL");
  if (!tni_requires_grad(tensor))
    return tn_fail(TN_ERR_STATE,
                   "register_hook: the tensor does not require grad, so no gradient will come by");
  hook h = {.kind = KIND_GRADIENT, .fn.gradient = fn, .ctx = ctx, .free_ctx = free_ctx};
  return hook_new(tensor, &h, out_id);
}

tn_status tn_register_post_accumulate_hook(tn_tensor *leaf, tn_leaf_hook_fn fn, void *ctx,
                                           void (*free_ctx)(void *), uint64_t *out_id) {
  if (!leaf || !fn)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "register_post_accumulate_hook: leaf and fn may not be NULL");
  if (!tni_requires_grad(leaf) || !tn_is_leaf(leaf))
    return tn_fail(TN_ERR_STATE, "register_post_accumulate_hook: expected a leaf that requires grad");
  hook h = {.kind = KIND_LEAF, .fn.leaf = fn, .ctx = ctx, .free_ctx = free_ctx};
  return hook_new(leaf, &h, out_id);
}

tn_status tn_remove_hook(tn_tensor *tensor, uint64_t id) {
  tni_mutex_lock(&hooks.mutex);
  hook *h = hooks.all;
  while (h && h->id != id) h = h->all_next;
  if (h) {
    hook **at = &h->owner->first;
    while (*at != h) at = &(*at)->next;
    *at = h->next;
    unlist(h);
  }
  tni_mutex_unlock(&hooks.mutex);
  if (!h) return tn_fail(TN_ERR_NOT_FOUND, "remove_hook: there is no hook %llu", (unsigned long long)id);
  hook_release(h);
  return TN_OK;
}

/* ------------------------------------------------------------------ running */

/* The first hook of this kind and result behind id `after`, counted; NULL at the end. */
static hook *hook_next(tni_node *node, uint8_t kind, uint32_t nr, uint64_t after) {
  struct tni_hooks *list = atomic_load_explicit(&node->hooks, memory_order_acquire);
  if (!list) return NULL;
  tni_mutex_lock(&hooks.mutex);
  hook *h = list->first;
  while (h && (h->id <= after || h->kind != kind || (kind == KIND_GRADIENT && h->nr != nr))) h = h->next;
  if (h) h->refs++;
  tni_mutex_unlock(&hooks.mutex);
  return h;
}

static tn_status check_replacement(const tni_shape *shape, const tn_tensor *t) {
  const tn_view *v = &t->view;
  if (v->dtype == shape->dtype && v->backend == shape->backend &&
      tn_shape_equal(v->ndim, v->sizes, shape->ndim, shape->sizes))
    return TN_OK;
  return tn_fail(TN_ERR_INVALID_ARGUMENT, "a hook's gradient: expected %s of shape %s, got %s of shape %s",
                 tn_dtype_name(shape->dtype), tn_shape_format(shape->ndim, shape->sizes, TN_SHAPE_TEXT),
                 tn_dtype_name(v->dtype), tn_shape_format(v->ndim, v->sizes, TN_SHAPE_TEXT));
}

tn_status tni_hooks_run(tni_node *node, uint32_t nr, tn_tensor **grad) {
  uint64_t after = 0;
  for (hook *h; (h = hook_next(node, KIND_GRADIENT, nr, after)) != NULL;) {
    tn_tensor *replacement = NULL;
    after = h->id;
    tn_status status = h->fn.gradient(h->ctx, *grad, &replacement);
    hook_release(h);
    if (status == TN_OK && replacement) status = check_replacement(&node->shapes[nr], replacement);
    if (status != TN_OK) {
      tn_tensor_release(replacement);
      return status;
    }
    if (replacement) {
      tn_tensor_release(*grad);
      *grad = replacement;
    }
  }
  return TN_OK;
}

bool tni_hooks_has_post(const tni_node *node) {
  return atomic_load_explicit(&((tni_node *)(uintptr_t)node)->hooks, memory_order_acquire) != NULL;
}

tn_status tni_hooks_post_accumulate(tni_node *node, tn_tensor *leaf) {
  uint64_t after = 0;
  for (hook *h; (h = hook_next(node, KIND_LEAF, 0, after)) != NULL;) {
    after = h->id;
    tn_status status = h->fn.leaf(h->ctx, leaf);
    hook_release(h);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ retained gradients */

tn_status tni_hooks_add_retain(tni_node *node, uint32_t nr, tni_grad_cell *cell) {
  retain *r = tni_alloc(sizeof *r);
  if (!r) return tni_oom(sizeof *r, "a retained gradient");
  tni_mutex_lock(&hooks.mutex);
  struct tni_hooks *list = lists_of(node);
  if (list) {
    tni_count_add(&cell->refs);
    *r = (retain){list->retains, cell, nr};
    list->retains = r;
  }
  tni_mutex_unlock(&hooks.mutex);
  if (list) return TN_OK;
  tni_free(r);
  return tni_oom(sizeof *list, "a node's hooks");
}

void tni_hooks_drop_retain(tni_node *node, const tni_grad_cell *cell) {
  struct tni_hooks *list = atomic_load_explicit(&node->hooks, memory_order_acquire);
  retain *found = NULL;
  if (!list) return;
  tni_mutex_lock(&hooks.mutex);
  for (retain **at = &list->retains; *at; at = &(*at)->next)
    if ((*at)->cell == cell) {
      found = *at;
      *at = found->next;
      break;
    }
  tni_mutex_unlock(&hooks.mutex);
  if (!found) return;
  tni_cell_release(found->cell);
  tni_free(found);
}

/* A gradient that is kept beside the run must not be written by it: it is held by a second handle, which
 * makes every later user copy or add out of place. */
static tn_status cell_write(tni_grad_cell *cell, tn_tensor *grad) {
  tn_status status = TN_OK;
  tni_spin_lock(&cell->lock);
  if (!cell->grad) {
    cell->grad = tn_tensor_retain(grad);
  } else {
    tn_tensor *sum;
    status = tn_add(cell->grad, grad, tn_int(1), &sum);
    if (status == TN_OK) {
      tn_tensor_release(cell->grad);
      cell->grad = sum;
    }
  }
  tni_spin_unlock(&cell->lock);
  return status;
}

tn_status tni_hooks_retain(tni_node *node, uint32_t nr, tn_tensor *grad) {
  struct tni_hooks *list = atomic_load_explicit(&node->hooks, memory_order_acquire);
  if (!list || !list->retains) return TN_OK;
  for (retain *r = list->retains; r; r = r->next)
    if (r->nr == nr) TN_TRY(cell_write(r->cell, grad));
  return TN_OK;
}

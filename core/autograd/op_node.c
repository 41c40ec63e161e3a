/* SPDX-License-Identifier: Apache-2.0
 *
 * The node of a recorded operator: built from a call's arguments and results, and run by the operator's
 * gradient function (tn_grad_def). It keeps only what the gradients that can be wanted use (A8).
 *
 * Note [Readers of a node]
 * Several threads may run one graph. node->readers counts the applies that read the saved tensors (low
 * half) and those that asked to free them (high half), which they do as they begin. From then on every other
 * apply is the "second backward" error (B4), so the one that asked and found nobody else frees them when it
 * is done, and needs no second look; if there were others, they are freed with the node.
 */
#include "core/autograd/engine_int.h"
#include "core/tensor/stream.h"

enum { MOST_ARGS = 64, MOST_OUTS = 64 };

typedef struct op_node {
  tni_node node;
  const tn_op *op;
  const tn_grad_def *def;
  tni_saved *saved;
  uint32_t n_saved;
  bool has_tensors; /* some saved entry is a tensor: it can be freed, and then missed */
  bool has_shapes;  /* some saved entry is a description: unpacking needs room */
} op_node;

static const tni_node_class op_node_class;

/* ------------------------------------------------------------------ room */

static bool is_tensor_list(const tn_value *v) {
  return v->kind == TN_VAL_LIST && (v->elem == TN_VAL_TENSOR || v->elem == TN_VAL_OPTIONAL_TENSOR);
}

/* What a node needs beside a struct, edges and shapes of the usual numbers. */
typedef struct extra {
  size_t n_dims;
  size_t payload;
} extra;

/* Of values that are more than a tn_value: descriptions of tensors, lists, strings, complex numbers. */
static __attribute__((noinline)) extra extra_of_values(const tn_value *args, uint64_t values) {
  extra e = {0, 0};
  for (uint64_t m = values; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (v->kind == TN_VAL_TENSOR) {
      e.payload += sizeof(tni_shape);
      e.n_dims += 2 * v->u.t->view.ndim; /* strides too */
    } else if (is_tensor_list(v)) {
      e.payload += v->count * sizeof(tni_shape);
      for (uint32_t i = 0; i < v->count; ++i) e.n_dims += v->u.ts[i] ? 2 * v->u.ts[i]->view.ndim : 0;
    } else {
      e.payload += tni_value_payload(v);
    }
  }
  return e;
}

/* Complex numbers lie behind a pointer of the caller's, other numbers in the value: the schema does not tell which. */
static inline uint64_t complex_among(const tn_value *args, uint64_t values) {
  uint64_t found = 0;
  for (uint64_t m = values; m; m &= m - 1)
    if (TNI_UNLIKELY(args[__builtin_ctzll(m)].kind == TN_VAL_COMPLEX)) found |= m & -m;
  return found;
}

/* Of lists of tensors that are kept. */
static __attribute__((noinline)) size_t extra_of_lists(const tn_value *args, uint64_t lists) {
  size_t payload = 0;
  for (uint64_t m = lists; m; m &= m - 1) {
    const tn_value *v = &args[__builtin_ctzll(m)];
    if (is_tensor_list(v)) payload += v->count * sizeof(tn_tensor *) + ((v->count * sizeof(uint32_t) + 7) & ~(size_t)7);
  }
  return payload;
}

/* An element of a list has an edge of its own. */
static __attribute__((noinline)) tn_status count_edges(const tn_op *op, const tn_value *args, uint32_t *out_n) {
  const tn_grad_def *def = op->grad;
  unsigned lists = 0;
  *out_n = def->n_inputs;
  for (uint32_t k = 0; k < def->n_inputs; ++k) {
    const tn_value *arg = &args[def->input_args[k]];
    if (arg->kind != TN_VAL_LIST) continue;
    if (++lists > 1)
      return tn_fail(TN_ERR_UNSUPPORTED,
                     "%s: a gradient formula takes one list of tensors, this one has more", op->name);
    *out_n += arg->count - 1;
  }
  return TN_OK;
}

/* The union of what the formulas of the inputs that require grad use. */
static inline tn_saves needed(const tn_grad_def *def, uint64_t requiring) {
  tn_saves need = {0, 0, 0};
  for (uint32_t k = 0; k < def->n_inputs; ++k) {
    if (!(requiring >> def->input_args[k] & 1)) continue;
    need.args |= def->saves[k].args;
    need.outs |= def->saves[k].outs;
    need.values |= def->saves[k].values;
  }
  need.values &= ~need.args;
  return need;
}

/* ------------------------------------------------------------------ keeping it */

static inline tn_status save_handle(const op_node *n, tni_saved *s, tn_tensor *t, bool own_result, uint8_t kind) {
  tn_tensor *kept;
  TN_TRY(tni_save_tensor(t, own_result, n->op->name, &kept, &s->version));
  s->value.u.t = kept;
  s->kind = kind;
  return TN_OK;
}

static __attribute__((noinline)) tn_status save_list(const op_node *n, tni_saved *s, const tn_value *v, char **pool) {
  tn_tensor **handles = (tn_tensor **)(void *)*pool;
  uint32_t *versions = (uint32_t *)(void *)(handles + v->count);
  *pool = (char *)versions + ((v->count * sizeof *versions + 7) & ~(size_t)7);
  s->value = (tn_value){.u = {.p = handles}, .kind = TN_VAL_LIST, .elem = v->elem, .count = v->count};
  memset(handles, 0, v->count * sizeof *handles);
  s->kind = TNI_SAVED_LIST;
  for (uint32_t i = 0; i < v->count; ++i)
    if (v->u.ts[i]) TN_TRY(tni_save_tensor(v->u.ts[i], false, n->op->name, &handles[i], &versions[i]));
  return TN_OK;
}

/* The argument that is about to be overwritten is kept as a copy made below autograd. */
static __attribute__((noinline)) tn_status save_clone(tni_saved *s, tn_tensor *t) {
  uint64_t exclude = tni_tls.modes.exclude;
  tni_tls.modes.exclude = exclude | TNI_KEY_AUTOGRAD;
  tn_status status = tni_grad_clone(t, t->view.flags & TN_VIEW_DENSE ? t->view.strides : NULL, &s->value.u.t);
  tni_tls.modes.exclude = exclude;
  if (status != TN_OK) return status;
  s->version = tni_version_get(s->value.u.t);
  s->kind = TNI_SAVED_TENSOR;
  return TN_OK;
}

/* Sizes, and behind them strides: a formula may ask how an argument lay. */
static void layout_set(tni_shape *shape, const tn_view *v, tn_dim **dims) {
  tni_shape_set(shape, v, dims);
  for (uint32_t i = 0; i < v->ndim; ++i) (*dims)[i] = v->strides[i];
  *dims += v->ndim;
}

/* A value that is more than a tn_value. */
static __attribute__((noinline)) void save_bulky(tni_saved *s, const tn_value *v, tn_dim **dims, char **pool) {
  const bool one = v->kind == TN_VAL_TENSOR;
  if (!one && !is_tensor_list(v)) {
    s->value = tni_value_copy(v, pool);
    return;
  }
  const uint32_t count = one ? 1 : v->count;
  tni_shape *shapes = (tni_shape *)(void *)*pool;
  *pool += count * sizeof *shapes;
  for (uint32_t j = 0; j < count; ++j) {
    tn_tensor *t = one ? v->u.t : v->u.ts[j];
    shapes[j] = (tni_shape){0};
    if (t) layout_set(&shapes[j], &t->view, dims);
  }
  s->kind = one ? TNI_SAVED_SHAPE : TNI_SAVED_SHAPES;
  s->value = (tn_value){.u = {.p = shapes}, .kind = TN_VAL_LIST, .elem = TN_VAL_TENSOR, .count = count};
}

static inline tni_saved *saved_next(op_node *n, uint8_t kind, unsigned index) {
  tni_saved *s = &n->saved[n->n_saved++];
  s->kind = kind;
  s->index = (uint8_t)index;
  return s;
}

/* written: the argument that is saved as a clone, or NULL. */
static inline tn_status save_args(op_node *n, const tn_value *args, uint64_t which, const tn_tensor *written,
                                  char **pool) {
  for (uint64_t m = which; m; m &= m - 1) {
    const unsigned i = (unsigned)__builtin_ctzll(m);
    const tn_value *v = &args[i];
    if (TNI_UNLIKELY(v->kind != TN_VAL_TENSOR && !is_tensor_list(v))) continue; /* absent */
    tni_saved *s = saved_next(n, TNI_SAVED_EMPTY, i);
    n->has_tensors = true;
    if (TNI_UNLIKELY(v->kind != TN_VAL_TENSOR))
      TN_TRY(save_list(n, s, v, pool));
    else if (TNI_UNLIKELY(v->u.t == written))
      TN_TRY(save_clone(s, v->u.t));
    else
      TN_TRY(save_handle(n, s, v->u.t, false, TNI_SAVED_TENSOR));
  }
  return TN_OK;
}

/* Results that the formula uses; of an in-place call the target before the write. */
static inline tn_status save_outs(op_node *n, tn_tensor *const *outs, uint32_t n_outs, uint64_t which) {
  for (uint64_t m = which; m; m &= m - 1) {
    const unsigned i = (unsigned)__builtin_ctzll(m);
    if (i >= n_outs || !outs[i]) continue;
    tni_saved *s = saved_next(n, TNI_SAVED_EMPTY, i);
    n->has_tensors = true;
    TN_TRY(save_handle(n, s, outs[i], true, TNI_SAVED_OUT));
  }
  return TN_OK;
}

static __attribute__((noinline)) void save_bulkies(op_node *n, const tn_value *args, uint64_t which, tn_dim *dims,
                                                   char *pool) {
  for (uint64_t m = which; m; m &= m - 1) {
    const unsigned i = (unsigned)__builtin_ctzll(m);
    tni_saved *s = saved_next(n, TNI_SAVED_VALUE, i);
    save_bulky(s, &args[i], &dims, &pool);
    n->has_shapes |= s->kind != TNI_SAVED_VALUE;
  }
}

static __attribute__((noinline)) tn_status edges_of_list(const tn_value *list, tni_edge *edge) {
  for (uint32_t i = 0; i < list->count; ++i, ++edge)
    if (list->u.ts[i]) TN_TRY(tni_gradient_edge(list->u.ts[i], edge));
  return TN_OK;
}

static inline tn_status edges_fill(tni_edge *edge, const tn_grad_def *def, const tn_value *args, uint64_t requiring,
                                   bool lists) {
  for (uint32_t k = 0; k < def->n_inputs; ++k, ++edge) {
    const unsigned i = def->input_args[k];
    if (lists && args[i].kind == TN_VAL_LIST) {
      TN_TRY(edges_of_list(&args[i], edge));
      edge += args[i].count - 1;
    } else if (requiring >> i & 1) {
      TN_TRY(tni_edge_of_requiring(args[i].u.t, edge));
    }
  }
  return TN_OK;
}

static inline tn_dim *shapes_fill(tni_node *node, tn_tensor *const *outs, uint32_t n_outs, tn_dim *dims) {
  tni_shape *shape = node->shapes;
  for (uint32_t i = 0; i < n_outs; ++i, ++shape) {
    if (TNI_LIKELY(outs[i] != NULL))
      tni_shape_set(shape, &outs[i]->view, &dims);
    else
      *shape = (tni_shape){0};
  }
  if (TNI_LIKELY(n_outs && outs[0])) node->device = tn_view_device(&outs[0]->view);
  if (TNI_UNLIKELY(tni_tls.modes.streams)) {
    node->stream = tni_stream_current(node->device);
    node->device.reserved = node->stream != NULL;
  }
  return dims;
}

/* ------------------------------------------------------------------ making */

/* Twice in this file: for calls of one result and without lists, which are most, the loops over them vanish. */
static inline __attribute__((always_inline)) tn_status node_build(const tn_op *op, const tn_value *args,
                                                                  uint64_t requiring, tn_tensor *const *outs,
                                                                  uint32_t n_outs, const tn_tensor *written, bool lists,
                                                                  tni_node **out_node) {
  const tn_grad_def *def = op->grad;
  const tn_saves need = needed(def, requiring);
  const uint64_t bulky = (need.values & ~op->plain_args) | complex_among(args, need.values & op->plain_args);
  uint32_t n_edges = def->n_inputs;
  if (lists) TN_TRY(count_edges(op, args, &n_edges));
  extra more = {0, 0};
  if (TNI_UNLIKELY(bulky)) more = extra_of_values(args, bulky);
  if (lists) more.payload += extra_of_lists(args, need.args & op->list_args);
  for (uint32_t i = 0; i < n_outs; ++i) more.n_dims += outs[i] ? outs[i]->view.ndim : 0;

  tn_dim *dims = NULL;
  void *payload = NULL;
  tni_node *node;
  TN_TRY(tni_node_make(&op_node_class, def->node_name, sizeof(op_node) + op->saved_most * sizeof(tni_saved), n_edges,
                       n_outs, more.n_dims, more.payload, &dims, &payload, &node));
  op_node *n = (op_node *)(void *)node;
  n->op = op;
  n->def = def;
  n->saved = (tni_saved *)(void *)(n + 1);
  n->n_saved = 0;
  n->has_tensors = n->has_shapes = false;
  if (TNI_UNLIKELY(op->added)) atomic_fetch_add_explicit(&((tn_op *)(uintptr_t)op)->n_nodes, 1, memory_order_relaxed);
  dims = shapes_fill(node, outs, n_outs, dims);
  char *pool = payload;
  tn_status status = edges_fill(node->edges, def, args, requiring, lists);
  if (TNI_LIKELY(status == TN_OK) && need.args) status = save_args(n, args, need.args, written, &pool);
  if (TNI_LIKELY(status == TN_OK) && need.outs) status = save_outs(n, outs, n_outs, need.outs);
  if (TNI_UNLIKELY(status != TN_OK)) {
    tni_node_release(node);
    return status;
  }
  for (uint64_t m = need.values & ~bulky; m; m &= m - 1) {
    const unsigned i = (unsigned)__builtin_ctzll(m);
    saved_next(n, TNI_SAVED_VALUE, i)->value = args[i];
  }
  if (TNI_UNLIKELY(bulky)) save_bulkies(n, args, bulky, dims, pool);
  node->bare = !n->has_tensors && !op->added;
  *out_node = node;
  return TN_OK;
}

tn_status tni_op_node_new(const tn_op *op, const tn_value *args, uint64_t requiring, tn_tensor *const *outs,
                          uint32_t n_outs, uint32_t written, tni_node **out_node) {
  const tn_tensor *clone = written < MOST_ARGS ? args[written].u.t : NULL;
  *out_node = NULL;
  return node_build(op, args, requiring, outs, n_outs, clone, op->list_args != 0, out_node);
}

tn_status tni_op_node_of_one(const tn_op *op, const tn_value *args, uint64_t requiring, tn_tensor *result,
                             tni_node **out_node) {
  if (TNI_UNLIKELY(op->list_args != 0)) return tni_op_node_new(op, args, requiring, &result, 1, 255, out_node);
  tn_tensor *const only = result;
  return node_build(op, args, requiring, &only, 1, NULL, false, out_node);
}

void tni_op_node_outs_written(tni_node *node) {
  if (node->cls != &op_node_class) return;
  op_node *n = (op_node *)(void *)node;
  for (uint32_t i = 0; i < n->n_saved; ++i)
    if (n->saved[i].kind == TNI_SAVED_OUT) n->saved[i].version = tni_version_get(n->saved[i].value.u.t);
}

uint32_t tni_op_node_edge_of(const tni_node *node, uint32_t arg) {
  if (node->cls != &op_node_class) return node->n_edges;
  const op_node *n = (const op_node *)(const void *)node;
  for (uint32_t k = 0; k < n->def->n_inputs; ++k) {
    /* a written argument is a single tensor and stands before any list in every schema that has both */
    if (n->def->input_args[k] == arg) return k;
  }
  return node->n_edges;
}

/* ------------------------------------------------------------------ circles */

/* An alias in place of *kept if that is t. */
static tn_status exchange(tn_tensor **kept, const tn_tensor *t, const char *op_name) {
  uint32_t version;
  tn_tensor *alias;
  if (*kept != t) return TN_OK;
  TN_TRY(tni_save_tensor(*kept, true, op_name, &alias, &version));
  tn_tensor_release(*kept);
  *kept = alias;
  return TN_OK;
}

static tn_status node_exchange(tni_node *node, const tn_tensor *t) {
  tni_node *inner = tni_copy_slices_fn(node);
  if (inner) node = inner;
  if (node->cls != &op_node_class) return TN_OK;
  op_node *n = (op_node *)(void *)node;
  for (uint32_t i = 0; i < n->n_saved; ++i) {
    tni_saved *s = &n->saved[i];
    if (s->kind == TNI_SAVED_TENSOR) TN_TRY(exchange(&s->value.u.t, t, n->op->name));
    tn_tensor **list = s->kind == TNI_SAVED_LIST ? (tn_tensor **)(uintptr_t)s->value.u.ts : NULL;
    for (uint32_t j = 0; list && j < s->value.count; ++j) TN_TRY(exchange(&list[j], t, n->op->name));
  }
  return TN_OK;
}

tn_status tni_circles_break(const tn_tensor *t, tni_node *node) {
  tni_graph_task task; /* only its map: the entries are the work list */
  uint32_t index;
  if (!__atomic_load_n(&t->kept, __ATOMIC_RELAXED) || atomic_load(&t->refs) == 1) return TN_OK;
  tni_task_init(&task, NULL);
  tn_status status = tni_task_add(&task, node, &index);
  for (uint32_t at = 0; at < task.n_entries && status == TN_OK; ++at) {
    const tni_node *here = task.entries[at].node;
    status = node_exchange(task.entries[at].node, t);
    for (uint32_t k = 0; k < here->n_edges && status == TN_OK; ++k)
      if (here->edges[k].fn) status = tni_task_add(&task, here->edges[k].fn, &index);
  }
  tni_task_deinit(&task);
  return status;
}

/* ------------------------------------------------------------------ giving it up */

static void saved_release(tni_saved *s) {
  if (s->kind == TNI_SAVED_TENSOR || s->kind == TNI_SAVED_OUT) {
    tn_tensor_release(s->value.u.t);
  } else if (s->kind == TNI_SAVED_LIST) {
    for (uint32_t i = 0; i < s->value.count; ++i) tn_tensor_release(s->value.u.ts[i]);
  } else {
    return;
  }
  s->kind = TNI_SAVED_EMPTY;
}

static void op_node_deinit(tni_node *node) {
  op_node *n = (op_node *)(void *)node;
  for (uint32_t i = 0; i < n->n_saved; ++i) saved_release(&n->saved[i]);
  if (TNI_UNLIKELY(n->op->added))
    atomic_fetch_sub_explicit(&((tn_op *)(uintptr_t)n->op)->n_nodes, 1, memory_order_relaxed);
}

enum { READER = 1u, FREE_ASKED = 1u << 16 };

/* Adds to the readers' count; what it was. As with every count, one thread alone needs no locked instruction. */
static inline uint32_t readers_add(op_node *n, uint32_t by) {
  if (!TNI_SINGLE_THREADED()) return atomic_fetch_add_explicit(&n->node.readers, by, memory_order_acq_rel);
  const uint32_t before = atomic_load_explicit(&n->node.readers, memory_order_relaxed);
  atomic_store_explicit(&n->node.readers, before + by, memory_order_relaxed);
  return before;
}

static TN_COLD tn_status reader_refused(op_node *n, uint32_t by) {
  readers_add(n, 0 - by);
  return tn_fail(
      TN_ERR_STATE,
      "backward runs through this node a second time, but its saved tensors were freed by the first; use "
      "retain_graph in the first run");
}

/* *out_alone: this apply asked to free, and nobody reads beside it, nor will. */
static inline tn_status reader_enter(op_node *n, bool keep, bool *out_alone) {
  *out_alone = false;
  if (!n->has_tensors) return TN_OK;
  const uint32_t by = keep ? READER : READER + FREE_ASKED, before = readers_add(n, by);
  if (TNI_UNLIKELY(before >= FREE_ASKED)) return reader_refused(n, by);
  *out_alone = !keep && before == 0;
  return TN_OK;
}

static inline void reader_leave(op_node *n, bool keep, bool alone, bool failed) {
  if (!n->has_tensors) return;
  if (TNI_UNLIKELY(failed)) { /* the tensors stay for another try */
    readers_add(n, 0 - (keep ? READER : READER + FREE_ASKED));
    return;
  }
  if (TNI_LIKELY(alone)) {
    for (uint32_t i = 0; i < n->n_saved; ++i) saved_release(&n->saved[i]);
    return;
  }
  readers_add(n, 0 - READER);
}

/* ------------------------------------------------------------------ running */

/* What one apply unpacks. pub is first: tni_materialize_grad finds the node from it. */
typedef struct unpacked {
  tn_backward pub;
  op_node *node;
  tn_tensor **temps; /* owned tensors of a recorded backward */
  uint32_t n_temps;
  struct tn_tensor *descs; /* descriptors of tensors that were not kept */
  tn_tensor **lists;       /* handles of list arguments */
  void *room;              /* of the three above */
  unsigned room_class;     /* TNI_BLOCK_CLASSES: from tni_alloc */
  tn_value args[MOST_ARGS];
  tn_tensor *outs[MOST_OUTS];
} unpacked;

/* A handle that can be read (sizes, strides, dtype, device) but not computed with: its key is the meta backend's. */
static void desc_fill(struct tn_tensor *t, const tni_shape *shape) {
  memset(t, 0, sizeof *t);
  tn_dim numel = 1;
  for (unsigned i = 0; i < shape->ndim; ++i) numel *= shape->sizes[i];
  t->view.sizes = shape->sizes;
  t->view.strides = shape->sizes + shape->ndim; /* layout_set */
  t->view.numel = numel;
  t->view.ndim = shape->ndim;
  t->view.dtype = shape->dtype;
  t->view.backend = shape->backend;
  t->view.device_index = shape->device_index;
  t->view.flags = TN_VIEW_OPAQUE;
  t->keys = TNI_KEY(TN_BACKEND_META);
  atomic_init(&t->refs, UINT32_MAX / 2); /* on the stack: never to be freed */
}

/* Counts what unpacking needs beyond the struct, and gets it in one piece. */
static __attribute__((noinline)) tn_status unpack_room(unpacked *u, const op_node *n, bool recorded) {
  size_t descs = 0, lists = 0, temps = 0;
  for (uint32_t i = 0; i < n->n_saved; ++i) {
    const tni_saved *s = &n->saved[i];
    if (s->kind == TNI_SAVED_SHAPE) descs += 1;
    if (s->kind == TNI_SAVED_SHAPES) descs += s->value.count, lists += s->value.count;
    if (recorded && s->kind == TNI_SAVED_LIST) lists += s->value.count, temps += s->value.count;
    if (recorded && (s->kind == TNI_SAVED_TENSOR || s->kind == TNI_SAVED_OUT)) temps += 1;
  }
  size_t bytes = descs * sizeof(struct tn_tensor) + (lists + temps) * sizeof(tn_tensor *);
  if (!bytes) return TN_OK;
  u->room_class = bytes <= TNI_BLOCK_MAX ? tni_block_class(bytes) : TNI_BLOCK_CLASSES;
  u->room = u->room_class < TNI_BLOCK_CLASSES ? tni_block_pop(u->room_class) : tni_alloc(bytes);
  if (!u->room) return tni_oom(bytes, "saved tensors of a gradient");
  u->descs = u->room;
  u->lists = (tn_tensor **)(void *)(u->descs + descs);
  u->temps = u->lists + lists;
  return TN_OK;
}

static __attribute__((noinline)) void unpack_give_back(unpacked *u) {
  for (uint32_t i = 0; i < u->n_temps; ++i) tn_tensor_release(u->temps[i]);
  if (u->room_class < TNI_BLOCK_CLASSES)
    tni_block_push(u->room, u->room_class);
  else
    tni_free(u->room);
}

/* Edges of differentiable input k: a list's width is what the other inputs leave (plan_make allows one
 * list). */
static uint32_t width_of(const op_node *n, uint32_t k) {
  bool list = n->op->list_args >> n->def->input_args[k] & 1;
  return list ? n->node.n_edges - (n->def->n_inputs - 1) : 1;
}

/* The edge of an argument; its element if it is a list. fn NULL: the argument is not differentiable. */
static tni_edge edge_of_arg(const op_node *n, uint32_t arg, uint32_t element) {
  uint32_t e = 0;
  for (uint32_t k = 0; k < n->def->n_inputs; e += width_of(n, k++))
    if (n->def->input_args[k] == arg) return n->node.edges[e + element];
  return (tni_edge){NULL, 0};
}

/* The kept tensor, with its history if this backward is recorded. */
static tn_status unpack_tensor(unpacked *u, tn_tensor *kept, uint32_t version, tni_edge edge, bool recorded,
                               tn_tensor **out) {
  *out = kept;
  TN_TRY(tni_saved_check(kept, version));
  if (!recorded || !edge.fn || (kept->autograd && !kept->owner)) return TN_OK;
  TN_TRY(tni_saved_with_history(kept, edge, out));
  u->temps[u->n_temps++] = *out;
  return TN_OK;
}

static tn_status unpack_list(unpacked *u, const tni_saved *s, bool recorded, tn_value *out) {
  const uint32_t *versions = (const uint32_t *)(const void *)(s->value.u.ts + s->value.count);
  *out = s->value;
  if (!recorded) {
    for (uint32_t i = 0; i < s->value.count; ++i)
      if (s->value.u.ts[i]) TN_TRY(tni_saved_check(s->value.u.ts[i], versions[i]));
    return TN_OK;
  }
  out->u.ts = u->lists;
  for (uint32_t i = 0; i < s->value.count; ++i) {
    u->lists[i] = NULL;
    if (s->value.u.ts[i])
      TN_TRY(unpack_tensor(u, s->value.u.ts[i], versions[i], edge_of_arg(u->node, s->index, i), true,
                           &u->lists[i]));
  }
  u->lists += s->value.count;
  return TN_OK;
}

static tn_status unpack_one(unpacked *u, const tni_saved *s, bool recorded) {
  const op_node *n = u->node;
  tn_tensor *t;
  switch (s->kind) {
    case TNI_SAVED_TENSOR:
      TN_TRY(unpack_tensor(u, s->value.u.t, s->version,
                           recorded ? edge_of_arg(n, s->index, 0) : (tni_edge){NULL, 0}, recorded, &t));
      u->args[s->index] = tn_value_tensor(t);
      return TN_OK;
    case TNI_SAVED_OUT:
      TN_TRY(unpack_tensor(u, s->value.u.t, s->version, (tni_edge){&u->node->node, s->index}, recorded, &t));
      u->outs[s->index] = t;
      return TN_OK;
    case TNI_SAVED_LIST: return unpack_list(u, s, recorded, &u->args[s->index]);
    case TNI_SAVED_VALUE: u->args[s->index] = s->value; return TN_OK;
    case TNI_SAVED_SHAPE:
      desc_fill(u->descs, s->value.u.p);
      u->args[s->index] = tn_value_tensor(u->descs++);
      return TN_OK;
    case TNI_SAVED_SHAPES:
      u->args[s->index] = tn_value_tensors(u->lists, s->value.count);
      for (uint32_t i = 0; i < s->value.count; ++i, ++u->descs) {
        desc_fill(u->descs, (const tni_shape *)s->value.u.p + i);
        *u->lists++ = u->descs;
      }
      return TN_OK;
    default: return TN_OK;
  }
}

/* Everything saved, in the places of arguments and results. Values, and tensors of a backward that is not itself
 * recorded, are most of all. */
static inline tn_status unpack(unpacked *u, const op_node *n, bool recorded) {
  u->room = NULL;
  if (TNI_UNLIKELY(recorded || n->has_shapes)) TN_TRY(unpack_room(u, n, recorded));
  for (uint32_t i = 0; i < n->op->n_args; ++i) u->args[i] = tn_value_none();
  for (uint32_t i = 0; i < n->node.n_outs && i < MOST_OUTS; ++i) u->outs[i] = NULL;
  for (uint32_t i = 0; i < n->n_saved; ++i) {
    const tni_saved *s = &n->saved[i];
    if (s->kind == TNI_SAVED_VALUE) {
      u->args[s->index] = s->value;
    } else if (TNI_LIKELY(s->kind <= TNI_SAVED_OUT && !recorded)) {
      if (s->kind == TNI_SAVED_EMPTY) continue;
      TN_TRY(tni_saved_check(s->value.u.t, s->version));
      if (s->kind == TNI_SAVED_OUT)
        u->outs[s->index] = s->value.u.t;
      else
        u->args[s->index] = tn_value_tensor(s->value.u.t);
    } else {
      TN_TRY(unpack_one(u, s, recorded));
    }
  }
  return TN_OK;
}

/* Bit k: some edge of differentiable input k is wanted. */
static uint64_t wanted_of_lists(const op_node *n, const tni_apply *how) {
  uint64_t wanted = 0;
  uint32_t e = 0;
  for (uint32_t k = 0; k < n->def->n_inputs; ++k)
    for (uint32_t i = width_of(n, k); i > 0; --i, ++e) wanted |= (uint64_t)how->wanted[e] << k;
  return wanted;
}
static inline uint64_t wanted_inputs(const op_node *n, const tni_apply *how) {
  if (TNI_UNLIKELY(n->op->list_args != 0)) return wanted_of_lists(n, how);
  return n->def->n_inputs < 64 ? how->mask & (((uint64_t)1 << n->def->n_inputs) - 1) : how->mask;
}

static tn_status op_node_apply(tni_node *node, const tni_apply *how, tn_tensor **grads, tn_tensor **out) {
  op_node *n = (op_node *)(void *)node;
  const bool recorded = tni_grad_on();
  bool alone;
  unpacked u;
  u.node = n;
  u.n_temps = 0;
  TN_TRY(reader_enter(n, how->keep, &alone));
  tn_status status = unpack(&u, n, recorded);
  if (TNI_LIKELY(status == TN_OK)) {
    u.pub = (tn_backward){.host = tn_kit_host_table,
                          .args = u.args,
                          .outs = u.outs,
                          .wanted = wanted_inputs(n, how),
                          .n_grad_outs = node->n_outs,
                          .n_grad_ins = node->n_edges};
    status = n->def->fn(&u.pub, grads, out);
  }
  if (TNI_UNLIKELY(u.room != NULL)) unpack_give_back(&u);
  reader_leave(n, how->keep, alone, status != TN_OK);
  return status;
}

static const tni_node_class op_node_class = {op_node_apply, op_node_deinit};

tn_status tni_materialize_grad(const tn_backward *ctx, uint32_t i, tn_tensor **out) {
  const unpacked *u = (const unpacked *)(const void *)ctx;
  *out = NULL;
  if (i >= u->node->node.n_outs)
    return tn_fail(TN_ERR_INVALID_ARGUMENT, "result %u was asked for; the call has %u", i,
                   u->node->node.n_outs);
  return tni_grad_zeros(&u->node->node.shapes[i], out);
}

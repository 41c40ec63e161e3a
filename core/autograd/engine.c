/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a graph backward: count the edges that lead to each node, then run nodes whose edges have all
 * delivered, the latest made first (C1, C2). No recursion over the graph (A7).
 *
 * With given inputs only nodes on a path to one of them run (B12). A node that got no gradient at all does
 * not run, but still counts as delivered for those behind it (C7). Everything that a run holds is in one
 * tni_graph_task on the caller's stack, so that a failure leaves nothing behind (B17).
 */
#include "core/autograd/engine_int.h"
#include "core/profile/profile.h"
#include "core/tensor/stream.h"

enum { FEW_EDGES = 8, MOST_NESTED = 60 };

/* ------------------------------------------------------------------ dependencies */

/* Entries for what the edges of entry `at` lead to, each with one edge more to wait for. */
static tn_status add_targets(tni_graph_task *task, uint32_t at) {
  const tni_node *node = task->entries[at].node;
  TN_TRY(tni_task_reserve_targets(task, node->n_edges));
  for (uint32_t k = 0; k < node->n_edges; ++k) {
    uint32_t index = UINT32_MAX;
    if (node->edges[k].fn) {
      TN_TRY(tni_task_add(task, node->edges[k].fn, &index));
      task->entries[index].deps++;
    }
    task->targets[task->n_targets++] = index;
  }
  return TN_OK;
}

/* Every node that the roots lead to gets an entry; the entries are the work list. */
static tn_status count_dependencies(tni_graph_task *task) {
  const tni_run *run = task->run;
  uint32_t index;
  for (size_t i = 0; i < run->n_roots; ++i) TN_TRY(tni_task_add(task, run->roots[i].fn, &index));
  for (uint32_t at = 0; at < task->n_entries; ++at) {
    tni_task_entry *e = &task->entries[at];
    const tni_node *node = e->node;
    e->run = !run->filter;
    e->targets = task->n_targets;
    if (TNI_UNLIKELY(node->device.backend != TN_BACKEND_CPU && tni_is_accelerator(node->device)))
      task->shared = true;
    if (TNI_UNLIKELY(node->device.reserved)) task->streams = true;
    if (node->n_edges) TN_TRY(add_targets(task, at));
  }
  return tni_task_reserve_ready(task);
}

static inline bool is_wanted(const tni_task_entry *e) { return e->run || e->capture; }

/* Entries in an order in which every node stands before those that its edges lead to. */
static void order_fill(const tni_graph_task *task, uint32_t *order, uint32_t *deps) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < task->n_entries; ++i) {
    deps[i] = task->entries[i].deps;
    if (!deps[i]) order[n++] = i;
  }
  for (uint32_t at = 0; at < n; ++at) {
    const uint32_t *targets = tni_task_targets(task, order[at]);
    for (uint32_t k = 0; k < task->entries[order[at]].node->n_edges; ++k)
      if (targets[k] != UINT32_MAX && --deps[targets[k]] == 0) order[n++] = targets[k];
  }
}

/* Links captures to their entries and marks what leads to them. */
static tn_status mark_paths(tni_graph_task *task) {
  tni_run *run = task->run;
  for (size_t i = 0; i < run->n_captures; ++i) {
    tni_capture *c = &run->captures[i];
    uint32_t index = tni_task_find(task, c->edge.fn);
    if (index == UINT32_MAX) continue;
    c->reached = true;
    tni_task_entry *e = &task->entries[index];
    c->next = e->capture;
    e->capture = (uint32_t)i + 1;
    e->run |= c->execute;
  }
  if (!run->filter) return TN_OK;
  size_t bytes = task->n_entries * 2 * sizeof(uint32_t);
  uint32_t *order = tni_alloc(bytes);
  if (!order) return tni_oom(bytes, "the order of a backward run");
  order_fill(task, order, order + task->n_entries);
  for (uint32_t i = task->n_entries; i-- > 0;) {
    tni_task_entry *e = &task->entries[order[i]];
    const uint32_t *targets = tni_task_targets(task, order[i]);
    for (uint32_t k = 0; k < e->node->n_edges && !e->run; ++k)
      if (targets[k] != UINT32_MAX) e->run = is_wanted(&task->entries[targets[k]]);
  }
  tni_free(order);
  return TN_OK;
}

/* ------------------------------------------------------------------ one node */

static tn_status run_hooks(tni_node *node, tn_tensor **grads) {
  for (uint32_t nr = 0; nr < node->n_outs; ++nr) {
    if (!grads[nr]) continue;
    TN_TRY(tni_hooks_run(node, nr, &grads[nr]));
    TN_TRY(tni_hooks_retain(node, nr, grads[nr]));
  }
  return TN_OK;
}

static void capture(tni_graph_task *task, const tni_task_entry *e, tn_tensor **grads) {
  for (uint32_t i = e->capture; i; i = task->run->captures[i - 1].next) {
    tni_capture *c = &task->run->captures[i - 1];
    if (c->keep && grads[c->edge.nr] && !c->grad) c->grad = tn_tensor_retain(grads[c->edge.nr]);
  }
}

/* What its function reads may come from another stream of the device, or go to one. */
static tn_status order_edge(const tni_node *from, const tni_node *to) {
  if (from->device.backend != to->device.backend || from->device.index != to->device.index) return TN_OK;
  return tni_stream_order(from->device, tni_node_stream(from), tni_node_stream(to));
}

static tn_status apply(tni_node *node, const tni_apply *how, tn_tensor **grads, tn_tensor **out) {
  if (!tni_profile_wants(TNI_PROFILE_SPANS)) return node->cls->apply(node, how, grads, out);
  tni_profile_span span;
  tn_device device = {.backend = node->device.backend, .index = node->device.index};
  tni_profile_begin(&span, TN_PROFILE_BACKWARD, node->name, device, NULL, 0);
  tn_status status = node->cls->apply(node, how, grads, out);
  tni_profile_end(&span, status);
  return status;
}

/* What one evaluation needs per edge. */
typedef struct edge_state {
  const uint32_t *targets;
  uint8_t *wanted;
  tn_tensor **out;
} edge_state;

/* Brings the gradient of edge k to its node's buffer. *out_ready: that node may run now. Without a
 * gradient only the count goes down. */
static inline tn_status deliver(tni_graph_task *task, const tni_node *node, uint32_t k, edge_state *s,
                                bool *out_ready) {
  const tni_edge *edge = &node->edges[k];
  tn_tensor *grad = s->out[k];
  *out_ready = false;
  if (TNI_LIKELY(grad != NULL)) {
    tn_status fits = tni_grad_fit(&edge->fn->shapes[edge->nr], &s->out[k], node->name, k);
    grad = s->out[k];
    if (TNI_UNLIKELY(fits != TN_OK)) return fits;
    if (TNI_UNLIKELY(node->device.reserved | edge->fn->device.reserved)) TN_TRY(order_edge(node, edge->fn));
    s->out[k] = NULL;
  }
  if (TNI_UNLIKELY(task->shared)) tni_mutex_lock(&task->lock);
  tn_status status = grad ? tni_task_deliver(task, s->targets[k], edge->nr, grad) : TN_OK;
  if (TNI_LIKELY(status == TN_OK)) *out_ready = --task->entries[s->targets[k]].deps == 0;
  if (TNI_UNLIKELY(task->shared)) tni_mutex_unlock(&task->lock);
  return status;
}

static inline tn_status deliver_all(tni_graph_task *task, const tni_node *node, edge_state *s) {
  for (uint32_t k = 0; k < node->n_edges; ++k) {
    bool ready;
    if (!s->wanted[k]) continue;
    TN_TRY(deliver(task, node, k, s, &ready));
    if (!ready) continue;
    if (TNI_LIKELY(!task->shared))
      tni_task_push(task, s->targets[k]);
    else
      TN_TRY(tni_task_hand_out(task, s->targets[k]));
  }
  return TN_OK;
}

/* The node's function, if a gradient came; then the gradients are given up. */
static inline tn_status run_function(const tni_graph_task *task, tni_node *node, uint64_t mask, tn_tensor **grads,
                                     const edge_state *s) {
  bool any = false;
  for (uint32_t nr = 0; grads && nr < node->n_outs; ++nr) any |= grads[nr] != NULL;
  if (TNI_UNLIKELY(!any)) return TN_OK;
  const tni_apply how = {.wanted = s->wanted, .mask = mask, .keep = task->run->keep_graph};
  tn_status status = apply(node, &how, grads, s->out);
  if (TNI_UNLIKELY(status != TN_OK)) status = tn_wrap(status, "%s", node->name);
  for (uint32_t nr = 0; nr < node->n_outs; ++nr) { /* a count of 1 downstream means nobody else has it */
    tn_tensor_release(grads[nr]);
    grads[nr] = NULL;
  }
  return status;
}

static inline tn_status run_node(tni_graph_task *task, tni_node *node, tn_tensor **grads, edge_state *s) {
  const uint32_t n_edges = node->n_edges;
  uint64_t mask = 0;
  for (uint32_t k = 0; k < n_edges; ++k) {
    s->out[k] = NULL;
    const bool wanted = s->targets[k] != UINT32_MAX && is_wanted(&task->entries[s->targets[k]]);
    s->wanted[k] = wanted;
    if (k < 64) mask |= (uint64_t)wanted << k;
  }
  tn_status status = run_function(task, node, mask, grads, s);
  if (TNI_LIKELY(status == TN_OK)) status = deliver_all(task, node, s);
  for (uint32_t k = 0; k < n_edges; ++k)
    if (TNI_UNLIKELY(s->out[k] != NULL)) tn_tensor_release(s->out[k]);
  return status;
}

/* Nodes with many edges (cat, stack) take their per-edge state from the heap. */
static __attribute__((noinline)) tn_status run_wide(tni_graph_task *task, tni_node *node, tn_tensor **grads,
                                                    const uint32_t *targets) {
  size_t n = node->n_edges, bytes = n * (sizeof(tn_tensor *) + 1);
  char *room = tni_alloc(bytes);
  if (!room) return tni_oom(bytes, "the edges of a node");
  edge_state s = {.targets = targets, .out = (tn_tensor **)(void *)room};
  s.wanted = (uint8_t *)(s.out + n);
  tn_status status = run_node(task, node, grads, &s);
  tni_free(room);
  return status;
}

static inline tn_status evaluate(tni_graph_task *task, uint32_t index) {
  tni_task_entry *e = &task->entries[index];
  tni_node *node = e->node;
  tn_tensor **grads = node->n_outs == 1 ? &e->one : e->many;
  if (grads) {
    if (TNI_UNLIKELY(atomic_load_explicit(&node->hooks, memory_order_acquire) != NULL))
      TN_TRY(run_hooks(node, grads));
    if (TNI_UNLIKELY(e->capture)) capture(task, e, grads);
  }
  if (!e->run) return TN_OK;
  const uint32_t *targets = tni_task_targets(task, index);
  if (TNI_UNLIKELY(node->n_edges > FEW_EDGES)) return run_wide(task, node, grads, targets);
  uint8_t wanted[FEW_EDGES];
  tn_tensor *out[FEW_EDGES];
  return run_node(task, node, grads, &(edge_state){targets, wanted, out});
}

/* On the stream of the node's forward call. */
static TN_COLD tn_status evaluate_on_stream(tni_graph_task *task, uint32_t index) {
  const tni_node *node = task->entries[index].node;
  const tn_device device = {.backend = node->device.backend, .index = node->device.index};
  const struct tni_stream_set *saved = tni_tls.modes.streams;
  tn_status status = tni_stream_set_current(device, tni_node_stream(node));
  if (status == TN_OK) status = evaluate(task, index);
  tni_tls.modes.streams = saved;
  return status;
}

tn_status tni_task_evaluate(tni_graph_task *task, uint32_t index) {
  if (TNI_UNLIKELY(task->entries[index].node->device.reserved || tni_tls.modes.streams))
    return evaluate_on_stream(task, index);
  return evaluate(task, index);
}

/* ------------------------------------------------------------------ a run */

/* The caller's streams wait for those that nodes used, and (first) those of the roots for the caller's, on which the
 * seeds were made. */
static tn_status order_roots(const tni_run *run) {
  for (size_t i = 0; i < run->n_roots; ++i) {
    const tni_node *root = run->roots[i].fn;
    const tn_device device = {.backend = root->device.backend, .index = root->device.index};
    if (root->device.reserved || tni_tls.modes.streams)
      TN_TRY(tni_stream_order(device, tni_stream_current(device), tni_node_stream(root)));
  }
  return TN_OK;
}

static tn_status order_end(const tni_graph_task *task) {
  for (uint32_t i = 0; i < task->n_entries; ++i) {
    const tni_node *node = task->entries[i].node;
    const tn_device device = {.backend = node->device.backend, .index = node->device.index};
    if (node->device.reserved || tni_tls.modes.streams)
      TN_TRY(tni_stream_order(device, tni_node_stream(node), tni_stream_current(device)));
  }
  return TN_OK;
}

/* Seeds go to the buffers; what has no edge leading to it is ready. */
static tn_status start(tni_graph_task *task) {
  tni_run *run = task->run;
  if (TNI_UNLIKELY(task->streams)) TN_TRY(order_roots(run));
  for (size_t i = 0; i < run->n_roots; ++i) {
    tn_tensor *seed = run->seeds[i];
    run->seeds[i] = NULL;
    const uint32_t index = i ? tni_task_find(task, run->roots[i].fn) : 0; /* the first one was added first */
    TN_TRY(tni_task_deliver(task, index, run->roots[i].nr, seed));
  }
  /* Workers begin with the first that is handed out; what they make ready meanwhile they hand out themselves. */
  tn_status status = TN_OK;
  if (task->shared) tni_mutex_lock(&task->lock);
  for (uint32_t i = 0; i < task->n_entries && status == TN_OK; ++i) {
    if (task->entries[i].deps || !is_wanted(&task->entries[i])) continue;
    if (task->shared)
      status = tni_task_hand_out(task, i);
    else
      tni_task_push(task, i);
  }
  if (task->shared) tni_mutex_unlock(&task->lock);
  return status;
}

static tn_status run_shared(tni_graph_task *task) {
  TN_TRY(tni_thread_snapshot(&task->modes));
  tni_mutex_init(&task->lock);
  task->owner = tni_tls.device_worker;
  tn_status status = tni_task_run_shared(task, start(task));
  tni_mutex_deinit(&task->lock);
  tni_modes_release(&task->modes);
  return status;
}

static tn_status run_here(tni_run *run) {
  tni_graph_task task;
  bool grad_mode = tni_tls.modes.grad_enabled;
  tni_task_init(&task, run);
  task.streams = tni_tls.modes.streams != NULL;
  tni_tls.modes.grad_enabled = run->create_graph;
  tni_tls.backward_depth++;
  task.depth = tni_tls.backward_depth;
  tn_status status = count_dependencies(&task);
  if (status == TN_OK && run->n_captures) status = mark_paths(&task);
  if (TNI_UNLIKELY(task.shared)) {
    if (status == TN_OK) status = run_shared(&task);
  } else {
    uint32_t index;
    if (status == TN_OK) status = start(&task);
    while (status == TN_OK && tni_task_pop(&task, &index)) status = tni_task_evaluate(&task, index);
  }
  if (TNI_UNLIKELY(task.streams) && status == TN_OK) status = order_end(&task);
  tni_tls.modes.grad_enabled = grad_mode;
  tni_task_deinit(&task);
  tni_tls.backward_depth--;
  return status;
}

/* ------------------------------------------------------------------ bounded nesting */

typedef struct fresh_stack {
  tni_run *run;
  tni_thread_modes modes;
  tn_status status;
  char *words;
} fresh_stack;

static void run_fresh(void *ctx) {
  fresh_stack *f = ctx;
  tni_thread_modes saved;
  f->status = tni_thread_enter(&f->modes, &saved);
  if (f->status == TN_OK) {
    f->status = run_here(f->run);
    tni_thread_leave(&saved);
  }
  if (f->status != TN_OK) f->words = tni_strdup(tn_error_message());
}

/* A backward inside a backward, too deep for this stack: another thread's stack, while this one waits
 * (H2). */
static tn_status run_on_fresh_stack(tni_run *run) {
  fresh_stack f = {.run = run, .status = TN_OK};
  tni_worker *worker;
  TN_TRY(tni_thread_snapshot(&f.modes));
  tn_status started = tni_worker_start(run_fresh, &f, "tenon-backward", &worker);
  if (started == TN_OK) tni_worker_join(worker);
  tni_modes_release(&f.modes);
  if (started != TN_OK || f.status == TN_OK) return started;
  tn_status status = tn_fail(f.status, "%s", f.words ? f.words : "out of memory while telling why");
  tni_free(f.words);
  return status;
}

tn_status tni_engine_run(tni_run *run) {
  if (TNI_UNLIKELY(tni_tls.backward_depth >= MOST_NESTED)) return run_on_fresh_stack(run);
  return run_here(run);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of core/autograd share: the slot in a tensor, nodes and edges, saved values, hooks, and
 * the floor between recording (record.c) and running (engine.c).
 *
 * Note [Who holds whom]
 * tensor -> slot -> grad_fn (strong); node -> next nodes by its edges (strong), node -> saved tensors. A
 * node saves a leaf or a plain tensor by its handle, and everything that has a history (inner tensors,
 * views, its own results) by an alias that shares memory and version but no history; the history is the
 * node's own edge, and is put back on unpacking when the backward is itself recorded. So a node never holds
 * a tensor that leads back to it, and dropping the last handle frees a graph at once (A6, A9). One case
 * needs a hand: a plain tensor that a node saved by its handle gets its first history from a call that
 * leads to that node (c.add_(x * c)). Its handle in those nodes is then exchanged for an alias
 * (tni_circles_break); the version count moves on with the write, so those nodes could not have used it
 * anyway. A leaf's slot holds its accumulation node (strong); the node knows its leaf weakly and shares the
 * gradient's cell with the slot. Reaching the node from a leaf is therefore one load, which recording
 * needs.
 *
 * Note [Sole owner]
 * A node's count is only ever raised by who holds one already, so a count of 1 seen by an acquire load is
 * the caller's own and needs no read-modify-write.
 */
#ifndef TENON_CORE_AUTOGRAD_INT_H
#define TENON_CORE_AUTOGRAD_INT_H

#include <sched.h>

#include "core/autograd/autograd.h"
#include "core/tensor/small.h"

typedef struct tni_node tni_node;

/* ------------------------------------------------------------------ small locks */

/* Held for a few loads or for one accumulation. Only a leaf's hooks run under one: post_hooks in accumulate.c. */
typedef _Atomic uint8_t tni_spin;
/* What a held one contains. A forked child has another than its parent: what the parent's threads held is free there,
 * since none of them is left to give it back (Note [Fork]). */
static inline uint8_t tni_spin_mark(void) { return (uint8_t)(1 + tni_fork_generation() % 255); }
static inline void tni_spin_lock(tni_spin *lock) {
  uint8_t own = tni_spin_mark(), seen = 0;
  if (TNI_SINGLE_THREADED()) { /* nobody can hold it; a thread that starts meanwhile finds it held */
    atomic_store_explicit(lock, own, memory_order_relaxed);
    return;
  }
  while (TNI_UNLIKELY(
      !atomic_compare_exchange_weak_explicit(lock, &seen, own, memory_order_acquire, memory_order_relaxed))) {
    if (seen == own) {
      while (atomic_load_explicit(lock, memory_order_relaxed) == own) sched_yield();
      seen = 0;
    }
  }
}
static inline void tni_spin_unlock(tni_spin *lock) { atomic_store_explicit(lock, 0, memory_order_release); }

/* ------------------------------------------------------------------ nodes */

/* Where a gradient goes: result nr of the call that fn stands for. fn NULL: nowhere. */
typedef struct tni_edge {
  tni_node *fn;
  uint32_t nr;
} tni_edge;

/* What a result looked like: gradients that arrive there are brought to this. */
typedef struct tni_shape {
  const tn_dim *sizes; /* in the node's block */
  union {
    uint64_t word; /* the fields, in one comparison: tni_view_word */
    struct {
      tn_dtype dtype;
      uint8_t ndim;
      uint8_t itemsize;
      uint8_t backend;
      int16_t device_index;
      uint16_t reserved0;
    };
  };
} tni_shape;
static inline tn_device tni_shape_device(const tni_shape *shape) {
  return (tn_device){.backend = shape->backend, .index = shape->device_index};
}
/* Of a view, whose sizes it borrows. */
static inline tni_shape tni_shape_of(const tn_view *v) {
  return (tni_shape){.sizes = v->sizes, .word = tni_view_word(v)};
}

/* How one apply shall run. */
typedef struct tni_apply {
  const uint8_t *wanted; /* per edge: 1 if somebody waits for that gradient */
  uint64_t mask;         /* the same of the first 64 edges, as bits */
  bool keep;             /* saved tensors stay for another run */
} tni_apply;

typedef struct tni_node_class {
  /* grads: one per result, NULL where none arrived, at least one given; the node may take one over by
   * setting its place to NULL. out: one place per edge, NULL on entry, owned by the caller afterwards,
   * also on failure. */
  tn_status (*apply)(tni_node *node, const tni_apply *how, tn_tensor **grads, tn_tensor **out);
  /* Gives up what only this class knows; edges and hooks are given up by node.c. May be NULL. */
  void (*deinit)(tni_node *node);
} tni_node_class;

/* One block: the class's struct, then edges, shapes, sizes, and the class's own payload. */
struct tni_node {
  const tni_node_class *cls;
  const char *name; /* "MulBackward0" */
  _Atomic uint32_t refs;
  uint32_t n_outs;
  uint32_t n_edges;
  tn_device device;     /* of result 0: which thread runs it */
  uint64_t sequence_nr; /* ready nodes run highest first */
  tni_edge *edges;
  tni_shape *shapes;                 /* n_outs entries */
  _Atomic(struct tni_hooks *) hooks; /* NULL: none */
  tni_node *next_dying;
  /* Low half: applies that read the saved tensors now; high half: applies that asked to free them. */
  _Atomic uint32_t readers;
  uint8_t block_class; /* TNI_BLOCK_CLASSES: from tni_alloc */
  bool bare;           /* its class's deinit has nothing to give up */
  /* Where device.reserved is 1: the stream that the forward call ran on, which backward uses too (borrowed: Note
   * [Current streams] in core/tensor/stream.h). Else not set, and it was the default one. */
  struct tn_stream *stream;
};

static inline struct tn_stream *tni_node_stream(const tni_node *node) {
  return TNI_UNLIKELY(node->device.reserved) ? node->stream : NULL;
}

/* tni_block_class as a table: by 64-byte steps. */
static inline unsigned tni_node_block_class(size_t bytes) {
  static const uint8_t by_step[TNI_BLOCK_MAX / 64 + 1] = {0, 0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7};
  return bytes <= TNI_BLOCK_MAX ? by_step[(bytes + 63) / 64] : TNI_BLOCK_CLASSES;
}
/* A node with room for n_dims sizes and payload_bytes; edges are empty, shapes are the caller's to fill.
 * *out_dims points to the sizes, *out_payload to the payload (8-byte aligned). struct_bytes is a multiple of 8. */
static inline __attribute__((always_inline)) tn_status tni_node_make(
    const tni_node_class *cls, const char *name, size_t struct_bytes, uint32_t n_edges, uint32_t n_outs, size_t n_dims,
    size_t payload_bytes, tn_dim **out_dims, void **out_payload, tni_node **out_node) {
  const size_t at_shapes = struct_bytes + n_edges * sizeof(tni_edge);
  const size_t at_dims = at_shapes + n_outs * sizeof(tni_shape);
  const size_t at_payload = at_dims + n_dims * sizeof(tn_dim);
  const size_t bytes = at_payload + payload_bytes;
  const unsigned block_class = tni_node_block_class(bytes);
  char *block = TNI_LIKELY(block_class < TNI_BLOCK_CLASSES) ? tni_block_pop(block_class) : tni_alloc(bytes);
  if (TNI_UNLIKELY(!block)) {
    *out_node = NULL;
    return tni_oom(bytes, "an autograd node");
  }
  tni_node *node = (tni_node *)(void *)block;
  node->cls = cls;
  node->name = name;
  atomic_init(&node->refs, 1);
  node->n_outs = n_outs;
  node->n_edges = n_edges;
  node->device = (tn_device){.backend = TN_BACKEND_CPU};
  node->sequence_nr = tni_tls.sequence_nr++;
  node->edges = (tni_edge *)(void *)(block + struct_bytes);
  node->shapes = (tni_shape *)(void *)(block + at_shapes);
  atomic_init(&node->hooks, NULL);
  atomic_init(&node->readers, 0);
  node->block_class = (uint8_t)block_class;
  node->bare = false;
  for (uint32_t i = 0; i < n_edges; ++i) node->edges[i].fn = NULL;
  *out_dims = (tn_dim *)(void *)(block + at_dims);
  *out_payload = block + at_payload;
  *out_node = node;
  return TN_OK;
}
/* The same out of line; out_dims and out_payload may be NULL. */
tn_status tni_node_new(const tni_node_class *cls, const char *name, size_t struct_bytes, uint32_t n_edges,
                       uint32_t n_outs, size_t n_dims, size_t payload_bytes, tn_dim **out_dims,
                       void **out_payload, tni_node **out_node);
static inline void tni_node_retain(tni_node *node) { tni_count_add(&node->refs); }
void tni_node_release(tni_node *node); /* NULL is allowed; no recursion over the graph */
/* Describes a tensor; sizes go to *dims, which moves on. */
static inline void tni_shape_set(tni_shape *shape, const tn_view *v, tn_dim **dims) {
  tn_dim *sizes = *dims;
  const unsigned ndim = v->ndim;
  shape->sizes = sizes;
  shape->word = tni_view_word(v);
  for (unsigned i = 0; i < ndim; ++i) sizes[i] = v->sizes[i];
  *dims = sizes + ndim;
}
/* A node that raises "derivative of X is not implemented" (words), or that sends nothing on (words
 * NULL). */
tn_status tni_end_node_new(const tn_op *op, tn_tensor *const *outs, uint32_t n_outs, bool raises,
                           const tn_value *args, tni_node **out_node);

/* ------------------------------------------------------------------ the slot in a tensor */

/* A gradient, shared by the tensor that shows it and the node that writes it. */
typedef struct tni_grad_cell {
  _Atomic uint32_t refs;
  tni_spin lock;   /* guards grad against concurrent accumulation */
  tn_tensor *grad; /* owned */
} tni_grad_cell;

struct tni_autograd {
  tni_node *grad_fn;               /* inner tensors; else NULL */
  _Atomic(tni_node *) accumulator; /* leaves, made at first use */
  tni_grad_cell *cell;             /* made when a gradient is first set or expected */
  uint32_t output_nr;              /* which result of grad_fn */
  _Atomic uint32_t view_version;   /* views: version of the memory that grad_fn belongs to */
  bool requires_grad;              /* set by the user */
  bool retains_grad;
};

/* The tensor's slot, made if need be. */
tn_status tni_slot_ensure(tn_tensor *t, tni_autograd **out_slot);
tn_status tni_slot_cell(tn_tensor *t, tni_grad_cell **out_cell); /* borrowed */
void tni_cell_release(tni_grad_cell *cell);                      /* NULL is allowed */
/* Makes node the history of t (consumes one count of node; drops the old history) and sets the key. The
 * slot must exist, and a retained gradient's cell must be on node already (D11). */
void tni_history_set(tn_tensor *t, tni_node *node, uint32_t nr);
/* The same for a tensor that a call has just made (no view, or a view without history so far). */
tn_status tni_history_new(tn_tensor *t, tni_node *node, uint32_t nr);
/* History of an inner tensor; fn NULL if it has none. Views whose memory was written get theirs anew.
 * Retained. */
tn_status tni_grad_fn(tn_tensor *t, tni_edge *out_edge);
/* Where the gradient of t goes: tni_grad_fn, or the accumulation node of a leaf that requires grad.
 * Retained. */
tn_status tni_gradient_edge(tn_tensor *t, tni_edge *out_edge);
/* The same for a tensor that is known to require grad; most are no views and have their node. */
static inline tn_status tni_edge_of_requiring(tn_tensor *t, tni_edge *out_edge) {
  tni_autograd *slot = t->autograd;
  if (TNI_LIKELY(slot && !t->base)) {
    tni_node *fn = slot->grad_fn;
    if (!fn) fn = atomic_load_explicit(&slot->accumulator, memory_order_acquire);
    if (TNI_LIKELY(fn != NULL)) {
      tni_node_retain(fn);
      out_edge->fn = fn;
      out_edge->nr = slot->output_nr;
      return TN_OK;
    }
  }
  return tni_gradient_edge(t, out_edge);
}
static inline bool tni_slot_requires(const tni_autograd *slot) {
  return slot && (slot->requires_grad || slot->grad_fn);
}
/* tni_requires_grad of an operand, without a call for most. */
static inline bool tni_operand_requires(const tn_tensor *t) {
  if (!(t->keys & TNI_KEY_AUTOGRAD)) return false;
  return TNI_LIKELY(tni_slot_requires(t->autograd)) || tni_requires_grad(t);
}
/* Gradient mode as recording sees it. */
static inline bool tni_grad_on(void) { return tni_tls.modes.grad_enabled && !tni_tls.modes.inference; }
static inline bool tni_dtype_differentiable(tn_dtype d) { return (TN_DTYPE_BIT(d) & TN_DTYPES_FLOAT) != 0; }

/* ------------------------------------------------------------------ accumulation nodes */

tn_status tni_accumulator_get(tn_tensor *leaf, tni_node **out_node); /* retained */
bool tni_is_accumulator(const tni_node *node);
void tni_accumulator_forget_leaf(tni_node *node); /* the leaf is dying */

/* ------------------------------------------------------------------ operator nodes */

enum {
  TNI_SAVED_EMPTY = 0,
  TNI_SAVED_TENSOR, /* argument `index`, a tensor */
  TNI_SAVED_OUT,    /* result `index` */
  TNI_SAVED_LIST,  /* argument, a list of tensors: value.u.p is handles[count], behind them versions[count] */
  TNI_SAVED_VALUE, /* argument, no tensor: private copy */
  TNI_SAVED_SHAPE, /* argument, a tensor of which only the description is kept: value.u.p is tni_shape */
  TNI_SAVED_SHAPES /* the same of a list: value.count entries */
};

typedef struct tni_saved {
  tn_value value;
  uint32_t version; /* of the tensor when it was saved */
  uint8_t kind;     /* TNI_SAVED_... */
  uint8_t index;
} tni_saved;

/* Handle or alias by Note [Who holds whom]; a failure names the operator. */
tn_status tni_save_tensor(tn_tensor *t, bool own_result, const char *op_name, tn_tensor **out_kept,
                          uint32_t *out_version);
/* Is the kept tensor as it was? The engine puts the node's name before the words. */
tn_status tni_saved_changed(const tn_tensor *kept, uint32_t version) TN_COLD;
static inline tn_status tni_saved_check(const tn_tensor *kept, uint32_t version) {
  return TNI_LIKELY(tni_version_get(kept) == version) ? TN_OK : tni_saved_changed(kept, version);
}
/* kept with history `edge` for a recorded backward; owned. */
tn_status tni_saved_with_history(tn_tensor *kept, tni_edge edge, tn_tensor **out_tensor);
/* Bytes behind a value (list entries, string, complex number), 8-aligned; and the copy of the value with those at *pool. */
size_t tni_value_payload(const tn_value *v);
tn_value tni_value_copy(const tn_value *v, char **pool);

/* Node of a call whose arguments and results are at hand. requiring: bit i, argument i requires grad. written:
 * position of the argument that the call is about to overwrite, 255 if none; it is then saved as a clone, and
 * tni_op_node_outs_written says that the write happened. */
tn_status tni_op_node_new(const tn_op *op, const tn_value *args, uint64_t requiring, tn_tensor *const *outs,
                          uint32_t n_outs, uint32_t written, tni_node **out_node);
/* The same of a call with one result, of which no argument was overwritten. */
tn_status tni_op_node_of_one(const tn_op *op, const tn_value *args, uint64_t requiring, tn_tensor *result,
                             tni_node **out_node);
void tni_op_node_outs_written(tni_node *node);
/* Before `t` gets `node` as its first history: no node that `node` leads to may keep t by its handle. */
tn_status tni_circles_break(const tn_tensor *t, tni_node *node);
/* The writing operator's node inside a node of copy_slices.c; NULL for other nodes. */
tni_node *tni_copy_slices_fn(tni_node *node);
/* Which edge of an operator node belongs to argument `arg`; n_edges if none. */
uint32_t tni_op_node_edge_of(const tni_node *node, uint32_t arg);

/* ------------------------------------------------------------------ views */

/* Calls the view operator of a record on src; *out_view is owned. */
tn_status tni_replay_call(const tni_replay *replay, tn_tensor *src, tn_tensor **out_view);
/* A private copy of the records from base to view, applied in order. */
typedef struct tni_view_fn tni_view_fn;
tn_status tni_view_fn_new(const tn_tensor *view, tni_view_fn **out_fn);
void tni_view_fn_free(tni_view_fn *fn);
tn_status tni_view_fn_call(const tni_view_fn *fn, tn_tensor *base, tn_tensor **out_view);
/* Makes a view's history anew if its memory was written since. */
tn_status tni_view_refresh(tn_tensor *view);
/* The node that takes over base's history after `fn` wrote into a view of it. Consumes fn, also on
 * failure. */
tn_status tni_copy_slices_new(tn_tensor *view, tni_node *fn, uint32_t self_edge, tni_node **out_node);

/* ------------------------------------------------------------------ hooks */

void tni_hooks_free(struct tni_hooks *hooks); /* with their node */
/* Runs the tensor hooks of result nr on *grad (may be replaced). */
tn_status tni_hooks_run(tni_node *node, uint32_t nr, tn_tensor **grad);
/* Writes *grad to the cells of tensors that retain theirs. */
tn_status tni_hooks_retain(tni_node *node, uint32_t nr, tn_tensor *grad);
tn_status tni_hooks_post_accumulate(tni_node *accumulator, tn_tensor *leaf);
bool tni_hooks_has_post(const tni_node *accumulator);
tn_status tni_hooks_add_retain(tni_node *node, uint32_t nr, tni_grad_cell *cell);
void tni_hooks_drop_retain(tni_node *node, const tni_grad_cell *cell);

/* ------------------------------------------------------------------ gradient arithmetic (engine_math.c) */

/* Brings *grad to shape: sums broadcast dims, casts; a device or shape that does not fit is an error
 * that names the node and the edge. */
tn_status tni_grad_fit_slow(const tni_shape *shape, tn_tensor **grad, const char *node_name, uint32_t k);
static inline tn_status tni_grad_fit(const tni_shape *shape, tn_tensor **grad, const char *node_name,
                                     uint32_t k) {
  const tn_view *v = &(*grad)->view;
  bool same = tni_view_word(v) == shape->word;
  for (unsigned i = 0; same && i < shape->ndim; ++i) same = v->sizes[i] == shape->sizes[i];
  return TNI_LIKELY(same) ? TN_OK : tni_grad_fit_slow(shape, grad, node_name, k);
}
/* *slot += grad; grad is consumed, also on failure. */
tn_status tni_grad_add(tn_tensor **slot, tn_tensor *grad);
/* Nobody else can see this tensor's memory, and writing in place is allowed now. */
bool tni_grad_writable(const tn_tensor *t);
/* The same of a view of all elements of a tensor that is held by the view alone. */
bool tni_grad_view_alone(const tn_tensor *t);
/* A copy with the given strides if they are dense (NULL: row-major). */
tn_status tni_grad_clone(tn_tensor *grad, const tn_dim *strides, tn_tensor **out_clone);
tn_status tni_grad_zeros(const tni_shape *shape, tn_tensor **out_zeros);
tn_status tni_grad_ones(const tni_shape *shape, tn_tensor **out_ones);

/* ------------------------------------------------------------------ the engine */

/* One asked-for gradient (grad(), or an inner tensor of backward(inputs=)). */
typedef struct tni_capture {
  tni_edge edge;   /* retained */
  tn_tensor *grad; /* owned: what arrived */
  bool keep;       /* wanted by the caller (else only the path to it) */
  bool execute;    /* leaves of backward(inputs=): the node runs and accumulates */
  bool reached;    /* the roots lead to it: no gradient then means zero */
  uint32_t next;   /* next capture of the same node + 1 */
} tni_capture;

typedef struct tni_run {
  const tni_edge *roots; /* n_roots, borrowed */
  tn_tensor **seeds;     /* n_roots, owned by the run: taken */
  size_t n_roots;
  tni_capture *captures;
  size_t n_captures;
  bool filter; /* only paths to captures run */
  bool keep_graph;
  bool create_graph;
} tni_run;
tn_status tni_engine_run(tni_run *run);

#endif

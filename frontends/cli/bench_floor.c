/* SPDX-License-Identifier: Apache-2.0
 *
 * Note [The least of a call]
 * What no runtime of this kind gets round, written as plain C in this executable and nothing else: no arguments checked,
 * no dtypes, shapes or devices looked at, no keys, no word on failure.
 *   a call    one direct call (the entry), the table's address read with acquire, one indirect call through it
 *   a result  a block popped off the thread's free list, 64 bytes of header written (address, one size, one stride, rank,
 *             dtype, device, version, count, node, owner), its datum after it; its death: the count read with acquire
 *             and found to be 1, the block pushed back
 *   add       a call, a result, two data read, one written; sum and empty: one and none read, empty writes none
 *   add_      a call, two data read, one written, the version counted up; no result
 *   view      a call, a result without datum, the owner's count up and down by plain stores
 *   layer     add, with one indirect call more
 *   mm        add, and the multiply-adds at the rate that registers reach on one thread (bench_ceiling.c)
 *   record    add, and a node: a block of 64 bytes popped, its function and two edges written, the result pointing to it
 *   chain     forward an operator: a call, a result, a node with its function, an edge, and a saved reference whose
 *             count goes up by a plain store; the operand dies. backward: one indirect call, a result, one product, the
 *             saved reference and the node given back, the gradient before it dies
 *   fan       forward: as chain, with two edges and nothing saved; backward: one indirect call, one addition in
 *             place to the leaf's gradient, the node given back (the gradient itself only moves on)
 *   node      one operator of chain, forward and backward, with the seed's result and one addition in place
 * Counts are changed without locked instructions: a runtime may know that an object has one owner.
 */
#include "frontends/cli/bench_floor.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontends/cli/bench.h"

extern char **environ;

/* ------------------------------------------------------------------ blocks and nodes */

typedef struct node node;
typedef struct block block;

/* A tensor of the least: its header fills a cache line. */
struct block {
  _Alignas(64) float *data;
  int64_t size, stride;
  int32_t ndim, dtype;
  uint32_t device, version;
  _Atomic uint32_t count;
  uint32_t flags;
  node *history;
  block *owner; /* in the free list: the next */
  float datum;
};

struct node {
  _Alignas(64) block *(*apply)(node *self, block *gradient);
  node *edges[2]; /* in the free list edges[0] is the next */
  block *saved;   /* or the leaf of a fan */
};

/* Where blocks come from that no list has: one slab each, for as many as a chain keeps alive. */
enum { BLOCKS = 16, NODES = TNI_FLOOR_CHAIN + 16 };
typedef struct slab {
  block blocks[BLOCKS];
  node nodes[NODES];
  int used_blocks, used_nodes;
} slab;

/* The thread's own, as a runtime would have them. */
static _Thread_local block *spare_blocks;
static _Thread_local node *spare_nodes;
static _Thread_local slab *more;

static __attribute__((noinline)) block *block_more(void) { return &more->blocks[more->used_blocks++]; }
static __attribute__((noinline)) node *node_more(void) { return &more->nodes[more->used_nodes++]; }

static inline block *block_new(void) {
  block *b = spare_blocks;
  if (b)
    spare_blocks = b->owner;
  else
    b = block_more();
  b->data = &b->datum, b->size = 1, b->stride = 1, b->ndim = 1, b->dtype = 1, b->device = 0, b->version = 0;
  atomic_store_explicit(&b->count, 1, memory_order_relaxed);
  b->flags = 0, b->history = NULL, b->owner = NULL;
  return b;
}

static inline node *node_new(block *(*apply)(node *, block *), node *first, node *second, block *saved) {
  node *n = spare_nodes;
  if (n)
    spare_nodes = n->edges[0];
  else
    n = node_more();
  n->apply = apply, n->edges[0] = first, n->edges[1] = second, n->saved = saved;
  return n;
}

static inline void node_free(node *n) {
  n->edges[0] = spare_nodes;
  spare_nodes = n;
}

static inline void count_add(block *b, uint32_t by) {
  atomic_store_explicit(&b->count, atomic_load_explicit(&b->count, memory_order_relaxed) + by,
                        memory_order_relaxed);
}

/* A block that a node or a view has besides stays. */
static inline void block_release(block *b) {
  if (atomic_load_explicit(&b->count, memory_order_acquire) != 1) {
    count_add(b, UINT32_MAX);
    return;
  }
  b->owner = spare_blocks;
  spare_blocks = b;
}

/* ------------------------------------------------------------------ calls */

typedef block *(*kernel)(block *a, block *b);

static block *kernel_add(block *a, block *b) {
  block *r = block_new();
  *r->data = *a->data + *b->data;
  return r;
}
static block *kernel_mul(block *a, block *b) {
  block *r = block_new();
  *r->data = *a->data * *b->data;
  return r;
}
static block *kernel_sum(block *a, block *b) {
  block *r = block_new();
  *r->data = *a->data;
  return r;
}
static block *kernel_empty(block *a, block *b) { return block_new(); }
static block *kernel_view(block *a, block *b) {
  block *r = block_new();
  r->data = a->data, r->owner = a;
  count_add(a, 1);
  return r;
}
static block *kernel_in_place(block *a, block *b) {
  *a->data += *b->data;
  a->version++;
  return a;
}

enum { ADD, MUL, SUM, EMPTY, VIEW, IN_PLACE, LAYER };
static block *kernel_layer(block *a, block *b);
static const kernel rows[] = {kernel_add,  kernel_mul,      kernel_sum,  kernel_empty,
                              kernel_view, kernel_in_place, kernel_layer};
static const kernel *_Atomic table = rows;

static inline block *indirect(int row, block *a, block *b) {
  return atomic_load_explicit(&table, memory_order_acquire)[row](a, b);
}
static block *kernel_layer(block *a, block *b) { return indirect(ADD, a, b); }

/* The entry of a call; a direct call, as one into a library is. */
static __attribute__((noinline)) block *call(int row, block *a, block *b) { return indirect(row, a, b); }

/* ------------------------------------------------------------------ graphs */

static block *apply_mul(node *self, block *gradient) {
  block *r = block_new();
  *r->data = *gradient->data * *self->saved->data;
  block_release(self->saved);
  block_release(gradient);
  return r;
}
/* saved: the leaf's gradient. */
static block *apply_add(node *self, block *gradient) {
  *self->saved->data += *gradient->data;
  return gradient;
}

static inline block *recorded_mul(block *y, block *c) {
  block *r = call(MUL, y, c);
  count_add(c, 1);
  r->history = node_new(apply_mul, y->history, NULL, c);
  return r;
}
static inline block *recorded_add(block *y, block *x, block *leaf) {
  block *r = call(ADD, y, x);
  r->history = node_new(apply_add, y->history, x->history, leaf);
  return r;
}

/* All nodes from history on; the gradient that arrives at the leaf is owned. */
static inline block *backward(node *history) {
  block *gradient = block_new();
  *gradient->data = 1.0f;
  while (history) {
    node *next = history->edges[0];
    gradient = history->apply(history, gradient);
    node_free(history);
    history = next;
  }
  return gradient;
}

/* ------------------------------------------------------------------ runs */

/* a and b are operands, leaf a gradient; the nanoseconds of n runs. */
typedef double (*floor_fn)(block *a, block *b, block *leaf, int64_t n);

static inline double calls(int row, block *a, block *b, int64_t n) {
  double begin = tni_bench_now();
  for (int64_t i = 0; i < n; i++) block_release(call(row, a, b));
  return tni_bench_now() - begin;
}
static double run_add(block *a, block *b, block *leaf, int64_t n) { return calls(ADD, a, b, n); }
static double run_sum(block *a, block *b, block *leaf, int64_t n) { return calls(SUM, a, b, n); }
static double run_empty(block *a, block *b, block *leaf, int64_t n) { return calls(EMPTY, a, b, n); }
static double run_layer(block *a, block *b, block *leaf, int64_t n) { return calls(LAYER, a, b, n); }

static double run_view(block *a, block *b, block *leaf, int64_t n) {
  double begin = tni_bench_now();
  for (int64_t i = 0; i < n; i++) {
    block *view = call(VIEW, a, b), *owner = view->owner;
    block_release(view);
    block_release(owner);
  }
  return tni_bench_now() - begin;
}
static double run_in_place(block *a, block *b, block *leaf, int64_t n) {
  double begin = tni_bench_now();
  for (int64_t i = 0; i < n; i++) call(IN_PLACE, a, b);
  return tni_bench_now() - begin;
}
static double run_record(block *a, block *b, block *leaf, int64_t n) {
  double begin = tni_bench_now();
  for (int64_t i = 0; i < n; i++) {
    block *r = recorded_add(a, b, leaf);
    node_free(r->history);
    block_release(r);
  }
  return tni_bench_now() - begin;
}
static double run_node(block *a, block *b, block *leaf, int64_t n) {
  double begin = tni_bench_now();
  for (int64_t i = 0; i < n; i++) {
    block *y = recorded_mul(a, b), *gradient = backward(y->history);
    *leaf->data += *gradient->data;
    block_release(gradient);
    block_release(y);
  }
  return tni_bench_now() - begin;
}

/* n graphs of TNI_FLOOR_CHAIN operators; leaf NULL: a chain. */
static inline double graphs(block *a, block *b, block *leaf, int64_t n, bool is_backward) {
  double total = 0.0;
  for (int64_t k = 0; k < n; k++) {
    double begin = tni_bench_now();
    block *y = a;
    count_add(a, 1);
    for (int i = 0; i < TNI_FLOOR_CHAIN; i++) {
      block *next = leaf ? recorded_add(y, a, leaf) : recorded_mul(y, b);
      block_release(y);
      y = next;
    }
    double middle = tni_bench_now();
    block *gradient = backward(y->history);
    double end = tni_bench_now();
    block_release(gradient);
    block_release(y);
    total += is_backward ? end - middle : middle - begin;
  }
  return total;
}
static double chain_forward(block *a, block *b, block *leaf, int64_t n) {
  return graphs(a, b, NULL, n, false);
}
static double chain_backward(block *a, block *b, block *leaf, int64_t n) {
  return graphs(a, b, NULL, n, true);
}
static double fan_forward(block *a, block *b, block *leaf, int64_t n) { return graphs(a, b, leaf, n, false); }
static double fan_backward(block *a, block *b, block *leaf, int64_t n) { return graphs(a, b, leaf, n, true); }

/* ------------------------------------------------------------------ a process */

tn_status tni_floor_process(const char *program, char *const *argv) {
  posix_spawn_file_actions_t actions;
  pid_t child = 0;
  int result = 0;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  int code = posix_spawnp(&child, program, &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code) return tn_fail(TN_ERR_IO, "a process could not be started: %s", strerror(code));
  if (waitpid(child, &result, 0) != child || result != 0)
    return tn_fail(TN_ERR_STATE, "'%s' ended with status %d", argv[0], result);
  return TN_OK;
}

/* The system's `true`: linked to the C library, and ends at once. */
static tn_status processes(int64_t n, double *out_ns) {
  char *argv[] = {"true", NULL};
  double begin = tni_bench_now();
  for (int64_t i = 0; i < n; i++) TN_TRY(tni_floor_process("true", argv));
  *out_ns = tni_bench_now() - begin;
  return TN_OK;
}

/* ------------------------------------------------------------------ floors */

struct tni_floor {
  floor_fn run; /* NULL: a process */
  slab slab;
  block a, b, leaf;
};

static floor_fn run_of(tni_ceiling_kind kind) {
  switch (kind) {
    case TNI_CEILING_CALL_ADD:
    case TNI_CEILING_CALL_MM: return run_add;
    case TNI_CEILING_CALL_SUM: return run_sum;
    case TNI_CEILING_CALL_EMPTY: return run_empty;
    case TNI_CEILING_CALL_VIEW: return run_view;
    case TNI_CEILING_CALL_IN_PLACE: return run_in_place;
    case TNI_CEILING_CALL_LAYER: return run_layer;
    case TNI_CEILING_CALL_RECORD: return run_record;
    case TNI_CEILING_NODE: return run_node;
    case TNI_CEILING_CHAIN_FORWARD: return chain_forward;
    case TNI_CEILING_CHAIN_BACKWARD: return chain_backward;
    case TNI_CEILING_FAN_FORWARD: return fan_forward;
    case TNI_CEILING_FAN_BACKWARD: return fan_backward;
    default: return NULL;
  }
}

static void operand(block *b, float value) {
  *b = (block){.data = &b->datum, .size = 1, .stride = 1, .ndim = 1, .dtype = 1, .count = 1, .datum = value};
}

tn_status tni_floor_new(tni_ceiling_kind kind, tni_floor **out_floor) {
  *out_floor = NULL;
  if (kind < TNI_CEILING_CALL_ADD) return TN_OK;
  tni_floor *f = aligned_alloc(_Alignof(tni_floor), sizeof *f);
  if (!f) return tn_fail(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu bytes for a floor", sizeof *f);
  memset(f, 0, sizeof *f);
  f->run = run_of(kind);
  operand(&f->a, 1.5f);
  operand(&f->b, 1.0f);
  operand(&f->leaf, 0.0f);
  *out_floor = f;
  return TN_OK;
}

void tni_floor_free(tni_floor *floor) { free(floor); }

static tn_status timed(tni_floor *f, int64_t n, double *out_ns) {
  if (!f->run) return processes(n, out_ns);
  spare_blocks = NULL, spare_nodes = NULL, more = &f->slab;
  f->slab.used_blocks = f->slab.used_nodes = 0;
  *out_ns = f->run(&f->a, &f->b, &f->leaf, n);
  spare_blocks = NULL, spare_nodes = NULL, more = NULL;
  return TN_OK;
}

/* Parts get longer; the best of those that are long enough for the clock counts. */
tn_status tni_floor_run(tni_floor *f, double block_ns, double *out_ns) {
  double passed = 0.0, ns, best = 0.0;
  for (int64_t n = 1; passed < block_ns; n *= ns < block_ns / 8 ? 2 : 1) {
    TN_TRY(timed(f, n, &ns));
    passed += ns;
    if (ns >= block_ns / 32 && (best == 0.0 || ns / (double)n < best)) best = ns / (double)n;
  }
  *out_ns = best;
  return TN_OK;
}

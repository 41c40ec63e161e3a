/* SPDX-License-Identifier: Apache-2.0
 *
 * Cached device memory, for neighbours in the core: one pool per device over the raw alloc and free of its backend.
 *
 * Note [Blocks, slabs, segments]
 * A segment is one raw allocation. It is cut into blocks; neighbours that are free again are joined. Requests of at
 * most TNI_MEMORY_SMALL bytes are objects of a slab: a block that is cut once into equal parts, so that they neither
 * search nor join. Everything is described by records of ours beside the memory, since the host may be unable to
 * write it. Where a raw block's mem is its address, parts are named mem + offset; elsewhere (an OpenCL buffer) all
 * parts carry the segment's mem and `base` says where they begin.
 *
 * Note [The front]
 * Objects of slab size are taken from and put back to lists of the calling thread, without a lock, on the CPU and on every
 * backend whose memory needs no order of streams and outlives a fork. A thread has one front for each such pool that it
 * used; the inline doors look at the first, the one used last. A front counts
 * in plain fields of its own; whoever reads statistics adds the fronts up. A list that overflows gives half of itself
 * back to the pool.
 *
 * Note [Pairs]
 * Nearly every object is the memory of one tensor and dies with it, and the next tensor of that size wants both an
 * object and a block for itself. So the front keeps them together: a pair is a holder's block, with its object. Who
 * takes one finds what the holder had noted about the memory still written there, which leaves little to do. A pair
 * counts as an object of its list in every respect; it is taken apart when someone wants the object alone, or the list
 * is too long.
 *
 * Note [Streams]
 * A block belongs to the stream that it was allocated on and, freed, goes back to that stream's free memory, where
 * stream order makes reuse safe at once. Another stream may take it when an event recorded behind its freeing is
 * done. Such a mark is recorded only when another stream finds nothing of its own, so a free costs no vendor call.
 * A block that was also used on other streams waits for an event on each of them. Backends without `synchronize` are
 * synchronous, and all their streams are one.
 *
 * Note [Backends after a fork]
 * A child may have no use of a device that its parent opened. What the backend declares decides: TN_FORK_SAFE, nothing
 * changes. TN_FORK_POISONED: whoever asks for memory, a copy or a kernel gets a sentence, and what is freed is dropped
 * without a call. TN_FORK_REINIT: the first use in the child calls the backend's `reinit`, once; pools begin anew, and
 * blocks of before the fork (each knows its generation) are dropped when freed and refused when used. tni_fork_admit
 * stands before everything that calls a backend.
 *
 * The pools stand on base alone. Address-sanitizer and stress builds make every block a raw allocation, so that
 * each life is seen.
 */
#ifndef TENON_CORE_MEMORY_H
#define TENON_CORE_MEMORY_H

#include <tenon/memory.h>
#include <tenon/plugin_backend.h>

#include "core/base/base.h"
#include "core/base/thread_state.h"

typedef struct tni_pool tni_pool;

/* Sizes of slab objects: four steps a doubling from 256 bytes. */
enum { TNI_MEMORY_SMALL = 64 << 10, TNI_MEMORY_CLASSES = 28, TNI_MEMORY_NO_CLASS = 255 };

/* What a block is doing; only snapshots read it without being the block's owner. */
enum {
  TNI_MEMORY_FREE = 0,
  TNI_MEMORY_LIVE = 1,
  TNI_MEMORY_CACHED = 2,
  TNI_MEMORY_PENDING = 3,
  TNI_MEMORY_SLAB = 4
};

/* tni_memory_free: in the order of the stream that the block was allocated on. */
#define TNI_MEMORY_OWN_STREAM ((void *)(uintptr_t)-1)

typedef struct tni_memory_block {
  uint64_t mem;
  void *address;      /* NULL where the host has no name for it */
  int64_t base_bytes; /* where the block begins behind mem */
  uint64_t size;
  tni_pool *pool;
  struct tni_memory_block *next; /* of the free list, front list or pending list that it is on */
  _Atomic uint8_t state;         /* TNI_MEMORY_... */
  uint8_t size_class;            /* slab objects; else TNI_MEMORY_NO_CLASS */
  uint8_t tag;                   /* that it is counted under; 0 while free */
  uint8_t kind;                  /* memory_int.h */
  uint32_t slot;                 /* slab objects: number in the slab */
  struct tni_use *uses;          /* other streams that work with it */
  /* blocks that are no slab objects: */
  struct tni_memory_block *previous;     /* in its bin */
  struct tni_memory_block *left, *right; /* neighbours in the segment */
  struct tni_segment *segment;
  struct tni_memory_stream *stream;
  uint64_t freed; /* the stream's count of frees when it came back */
  struct tni_slab *slab;
  int32_t generation; /* of forks, when it was given out */
} tni_memory_block;

_Static_assert(offsetof(tni_memory_block, tag) == offsetof(tni_memory_block, size_class) + 1 &&
                   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tni_front_list_for reads both at once");

/* What the block of an object's holder begins with while both lie in a front. See Note [Pairs]. */
typedef struct tni_memory_pair {
  struct tni_memory_pair *next;
  tni_memory_block *object;
} tni_memory_pair;
enum { TNI_MEMORY_PAIR_CLASS = 4 }; /* of tni_block_bytes: a tensor without data in its block */

/* The calling thread's part of one pool. Fields are atomic for the reader of statistics; only the thread writes. */
typedef struct tni_front {
  tni_pool *pool;
  _Atomic int64_t delta; /* bytes taken less bytes put back since the last sum */
  _Atomic int64_t high;  /* the highest delta */
  _Atomic uint64_t n_allocs, n_frees;
  uint32_t purges; /* of the pool when the front last gave its lists back */
  struct tni_front_list {
    tni_memory_pair *pairs;
    tni_memory_block *head; /* objects alone */
    uint32_t count, most;   /* of both */
  } lists[TNI_MEMORY_CLASSES];
  struct tni_front *previous, *next; /* in the pool's list */
  struct tni_front *other;           /* the thread's next one, of another pool */
} tni_front;

/* Which forked process a backend is good for. See Note [Backends after a fork]. */
typedef struct tni_fork_state {
  const tn_backend_def *def;
  const char *name;
  _Atomic int32_t generation; /* of forks */
  _Atomic int32_t refused;    /* generation in which reinit failed; 0: none */
  char *words;                /* why */
} tni_fork_state;
void tni_fork_state_init(tni_fork_state *state, const tn_backend_def *def, const char *name);
void tni_fork_state_deinit(tni_fork_state *state);
/* May this process call the backend? Calls `reinit` if that is still to be done: no lock may be held. */
tn_status tni_fork_admit_slow(tni_fork_state *state);
static inline tn_status tni_fork_admit(tni_fork_state *state) {
  if (TNI_LIKELY(state->def->fork == TN_FORK_SAFE)) return TN_OK;
  return tni_fork_admit_slow(state);
}
/* Can it be called without more ado? For frees and clean-up. */
static inline bool tni_fork_usable(const tni_fork_state *state) {
  return state->def->fork == TN_FORK_SAFE ||
         atomic_load_explicit(&state->generation, memory_order_acquire) == tni_fork_generation();
}
/* Was the block's memory lost in a fork? */
static inline bool tni_memory_lost(const tni_memory_block *block, const tn_backend_def *def) {
  return def->fork != TN_FORK_SAFE && block->generation != tni_fork_generation();
}

typedef struct tni_pool_options {
  const tn_backend_def *def; /* borrowed for the pool's life */
  const char *name;          /* of the backend; borrowed */
  int32_t index;
  tni_fork_state *fork; /* shared by the backend's pools; NULL: one of the pool's own */
  tn_device device;     /* for profilers */
  bool pinned;          /* host memory for a device: see pinned.c in core/tensor */
  bool cached; /* tni_memory_cached() in the product; tests choose */
  bool fronts; /* a synchronous backend that a fork leaves whole: threads may keep lists of their own */
} tni_pool_options;

/* false in builds where every block must be seen by a checker. */
bool tni_memory_cached(void);
tn_status tni_pool_new(const tni_pool_options *options, tni_pool **out_pool);
const tn_backend_def *tni_pool_def(const tni_pool *pool);
/* Gives segments back and frees the pool. No block of it may be live. NULL is allowed. */
void tni_pool_free(tni_pool *pool);
/* Gives every segment back that has no live block; waits for the device first if it is asynchronous. Lists of other
 * threads' fronts come back when those threads next need the pool. */
void tni_pool_purge(tni_pool *pool);
void tni_pools_purge(void); /* all of them */
/* Purges, other threads' lists too, which must not compute with the backend; if no block is in use, no request succeeds
 * from then on. Returns how many segments are still in use. */
uint64_t tni_pool_close(tni_pool *pool, uint64_t *out_bytes);
void tni_pool_reopen(tni_pool *pool);

/* whole: the block is a raw allocation of its own, for whoever can pass on no offset. */
tn_status tni_memory_alloc_slow(tni_pool *pool, uint64_t bytes, void *stream, bool whole,
                                tni_memory_block **out_block);
void tni_memory_free_slow(tni_memory_block *block, void *stream);
/* The block is also used by work on this stream: it is not reused before that work is done. */
tn_status tni_memory_use(tni_memory_block *block, void *stream);

/* The stream that the block's memory is reused on. */
void *tni_memory_stream_of(const tni_memory_block *block);
bool tni_memory_is_pinned(const tni_memory_block *block);

/* For tn_memory_... (core/api/api_memory.c). */
void tni_pool_stats(tni_pool *pool, tn_memory_stats *out_stats);
void tni_pool_tag_stats(tni_pool *pool, uint32_t tag, tn_memory_tag_stats *out_stats);
void tni_pool_reset_peak(tni_pool *pool);
void tni_pool_set_limit(tni_pool *pool, uint64_t bytes);
tn_status tni_pool_snapshot(tni_pool *pool, FILE *file);
/* Tags are numbered in the order of their first use; 0 is "untagged". */
tn_status tni_memory_tag_number(const char *name, uint32_t *out_tag);
const char *tni_memory_tag_name(uint32_t tag); /* NULL beyond the last */

static inline unsigned tni_memory_class(uint64_t bytes) {
  if (bytes <= 1024) return bytes ? (unsigned)((bytes - 1) / 256) : 0;
  unsigned log = 63 - (unsigned)__builtin_clzll(bytes - 1);
  return 4 * (log - 9) + (unsigned)((bytes - 1) >> (log - 2) & 3);
}

/* The calling thread's front, if it is this pool's. */
static inline tni_front *tni_front_at(const tni_pool *pool) {
  tni_front *front = tni_tls.front;
  return TNI_LIKELY(front && front->pool == pool) ? front : NULL;
}
/* An object leaves the list for its user. */
static inline void tni_front_count_alloc(tni_front *front, struct tni_front_list *list, tni_memory_block *object) {
  list->count--;
  int64_t delta = atomic_load_explicit(&front->delta, memory_order_relaxed) + (int64_t)object->size;
  atomic_store_explicit(&front->delta, delta, memory_order_relaxed);
  if (delta > atomic_load_explicit(&front->high, memory_order_relaxed))
    atomic_store_explicit(&front->high, delta, memory_order_relaxed);
  uint64_t n = atomic_load_explicit(&front->n_allocs, memory_order_relaxed);
  atomic_store_explicit(&front->n_allocs, n + 1, memory_order_relaxed);
  atomic_store_explicit(&object->state, TNI_MEMORY_LIVE, memory_order_relaxed);
}
static inline void tni_front_count_free(tni_front *front, struct tni_front_list *list, tni_memory_block *object) {
  list->count++;
  int64_t delta = atomic_load_explicit(&front->delta, memory_order_relaxed) - (int64_t)object->size;
  atomic_store_explicit(&front->delta, delta, memory_order_relaxed);
  uint64_t n = atomic_load_explicit(&front->n_frees, memory_order_relaxed);
  atomic_store_explicit(&front->n_frees, n + 1, memory_order_relaxed);
  atomic_store_explicit(&object->state, TNI_MEMORY_CACHED, memory_order_relaxed);
}
/* The list that a freed block goes to; NULL: the pool must see to it. */
static inline struct tni_front_list *tni_front_list_for(tni_front *front, const tni_memory_block *block) {
  uint16_t class_and_tag; /* in one comparison */
  memcpy(&class_and_tag, &block->size_class, sizeof class_and_tag);
  if (TNI_UNLIKELY(class_and_tag >= TNI_MEMORY_CLASSES)) return NULL;
  struct tni_front_list *list = &front->lists[class_and_tag];
  return TNI_LIKELY(list->count < list->most) ? list : NULL;
}

static inline tn_status tni_memory_alloc(tni_pool *pool, uint64_t bytes, void *stream,
                                         tni_memory_block **out_block) {
  tni_front *front = tni_front_at(pool);
  if (TNI_LIKELY(front && bytes <= TNI_MEMORY_SMALL && !tni_tls.modes.memory_tag)) {
    struct tni_front_list *list = &front->lists[tni_memory_class(bytes)];
    tni_memory_block *block = list->head;
    if (TNI_LIKELY(block)) {
      list->head = block->next;
      tni_front_count_alloc(front, list, block);
      *out_block = block;
      return TN_OK;
    }
  }
  return tni_memory_alloc_slow(pool, bytes, stream, false, out_block);
}

static inline void tni_memory_free(tni_memory_block *block, void *stream) {
  tni_front *front = tni_front_at(block->pool);
  struct tni_front_list *list = front ? tni_front_list_for(front, block) : NULL;
  if (TNI_LIKELY(list)) {
    block->next = list->head;
    list->head = block;
    tni_front_count_free(front, list, block);
    return;
  }
  tni_memory_free_slow(block, stream);
}

/* What the next two do when the pool's front is not the thread's first one. */
tni_memory_pair *tni_memory_pair_take_slow(const tni_pool *pool, uint64_t bytes);
bool tni_memory_pair_give_slow(tni_memory_pair *pair, tni_memory_block *object);
/* A holder's block with an object of at least `bytes` (not 0); NULL: none lies ready. */
static inline tni_memory_pair *tni_memory_pair_take(const tni_pool *pool, uint64_t bytes) {
  tni_front *front = tni_front_at(pool);
  if (TNI_UNLIKELY(!front || bytes > TNI_MEMORY_SMALL || tni_tls.modes.memory_tag)) return NULL;
  struct tni_front_list *list = &front->lists[tni_memory_class(bytes)];
  tni_memory_pair *pair = list->pairs;
  if (TNI_UNLIKELY(!pair)) return NULL;
  list->pairs = pair->next;
  tni_front_count_alloc(front, list, pair->object);
  return pair;
}

/* Frees an object and its holder's block, of TNI_MEMORY_PAIR_CLASS. false: nothing was done, each goes its own way. */
static inline bool tni_memory_pair_give(tni_memory_pair *pair, tni_memory_block *object) {
  tni_front *front = tni_front_at(object->pool);
  struct tni_front_list *list = front ? tni_front_list_for(front, object) : NULL;
  if (TNI_UNLIKELY(!list)) return false;
  pair->next = list->pairs;
  pair->object = object;
  list->pairs = pair;
  tni_front_count_free(front, list, object);
  return true;
}

#endif

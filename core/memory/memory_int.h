/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of core/memory share. Reading order: pool.c (a request's way), bins.c, segment.c, slab.c, front.c,
 * stream.c, then stats.c and snapshot.c. All functions here are called with the pool's mutex held.
 */
#ifndef TENON_CORE_MEMORY_INT_H
#define TENON_CORE_MEMORY_INT_H

#include "core/memory/memory.h"

/* Blocks of different kinds never share a segment, so that a few small ones cannot pin a large one's place. */
enum {
  TNI_KIND_MEDIUM = 0, /* slabs, and requests under TNI_MEMORY_LARGE */
  TNI_KIND_LARGE = 1,
  TNI_KIND_WHOLE = 2, /* segments that are never cut */
  TNI_KINDS = 3,
  TNI_KIND_RAW = 3 /* not cached: a raw allocation and nothing else */
};
enum { TNI_MEMORY_LARGE = 1 << 20, TNI_MEMORY_SEGMENT = 2 << 20, TNI_MEMORY_SEGMENT_MOST = 32 << 20 };
enum { TNI_MEMORY_TAGS = 256 };

/* ------------------------------------------------------------------ bins.c: free blocks by size */

enum { TNI_BIN_ROWS = 40, TNI_BIN_COLUMNS = 8 };
typedef struct tni_bins {
  uint64_t rows; /* bit r: row r has a block */
  uint8_t columns[TNI_BIN_ROWS];
  tni_memory_block *heads[TNI_BIN_ROWS][TNI_BIN_COLUMNS];
} tni_bins;

void tni_bins_put(tni_bins *bins, tni_memory_block *block);
void tni_bins_take(tni_bins *bins, tni_memory_block *block);
/* The best fit of at least `size` and at most `most` bytes among blocks freed by the count `freed`; NULL: none. It
 * stays in its bin. */
tni_memory_block *tni_bins_find(const tni_bins *bins, uint64_t size, uint64_t most, uint64_t freed);

/* ------------------------------------------------------------------ the pool */

/* Free memory in the order of one stream. */
typedef struct tni_memory_stream {
  struct tni_memory_stream *next;
  void *stream;
  tni_bins bins[TNI_KINDS];
  struct tni_slab *slabs[TNI_MEMORY_CLASSES]; /* those with a free object */
  uint64_t freed;                             /* blocks that came back, ever */
  uint64_t done;                              /* blocks freed up to this count may go to other streams */
  void *mark;                                 /* event, NULL before the first */
  uint64_t marked;                            /* value of `freed` when mark was recorded */
  bool mark_out;                              /* recorded and not seen done yet */
} tni_memory_stream;

typedef struct tni_segment {
  struct tni_segment *previous, *next;
  tn_memory memory;
  tni_memory_block *first;
  uint64_t number;
  uint8_t kind;
} tni_segment;

typedef struct tni_slab {
  tni_memory_block *place; /* the block that is cut */
  struct tni_slab *previous, *next;
  tni_memory_block *free;
  uint32_t n, n_free;
  tni_memory_block items[];
} tni_slab;

typedef struct tni_use {
  struct tni_use *next;
  void *stream;
  void *event; /* recorded when the block was freed */
} tni_use;

struct tni_pool {
  tni_mutex mutex;
  tni_pool_options options;
  struct tni_pool *previous, *next; /* in the list of all pools */
  uint64_t granule;                 /* sizes and places of blocks are multiples of it */
  bool offsets;                     /* segments may be cut */
  bool asynchronous, events;
  tni_fork_state *fork;
  tni_fork_state own_fork;
  int32_t generation; /* of forks, that its memory belongs to */
  _Atomic bool closed; /* its backend was unloaded: requests fail in words, nothing of it is called */
  _Atomic uint32_t purges;
  tni_segment *segments;
  uint64_t reserved[TNI_KINDS]; /* bytes of the segments of a kind */
  tni_memory_stream *streams;
  tni_memory_block *pending; /* freed, but other streams still use them */
  tni_front *fronts;
  uint64_t n_numbers; /* of segments */
  /* statistics; fronts' deltas come on top */
  int64_t current, peak;
  tn_memory_stats stats;
  struct {
    uint64_t current, peak, n_allocs;
  } tags[TNI_MEMORY_TAGS];
};

/* Bytes of an object of a class in this pool. */
uint64_t tni_memory_class_bytes(const tni_pool *pool, unsigned size_class);
static inline uint64_t tni_round_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

/* ------------------------------------------------------------------ pool.c */

/* A block of exactly `size` bytes or a little more, out of the stream's memory, a neighbour stream's, or a new
 * segment. */
tn_status tni_pool_take(tni_pool *pool, tni_memory_stream *stream, uint8_t kind, uint64_t size,
                        tni_memory_block **out_block);
/* Back to the free memory of its stream. */
void tni_pool_give(tni_pool *pool, tni_memory_block *block);
void tni_pool_purge_locked(tni_pool *pool);
/* Waits for the device; true: all work is done. */
bool tni_pool_wait(tni_pool *pool);

/* ------------------------------------------------------------------ fork.c */

/* The memory that the pool had is gone with the parent: it begins anew. */
void tni_pool_forget(tni_pool *pool);

/* ------------------------------------------------------------------ segment.c */

/* A new segment, its one block live. size is rounded already. */
tn_status tni_segment_new(tni_pool *pool, tni_memory_stream *stream, uint8_t kind, uint64_t size,
                          tni_memory_block **out_block);
/* The size that a segment gets when `size` bytes are wanted from it. */
uint64_t tni_segment_size(const tni_pool *pool, uint8_t kind, uint64_t size);
/* A raw block's mem is its address: a part's mem is then its own address, and its base 0. */
bool tni_segment_by_address(const tni_segment *segment);
/* Cuts the block to `size` and puts the rest into the bins, if that is worth it. */
void tni_segment_cut(tni_pool *pool, tni_memory_block *block, uint64_t size);
/* Puts a block into its stream's bins, joined with free neighbours of the same stream. */
void tni_segment_join(tni_memory_block *block);
/* Gives back the segments that are one free block. all_done: streams need not be told apart any more. */
void tni_segments_release(tni_pool *pool, bool all_done);
/* A raw allocation that is no segment (TNI_KIND_RAW). */
tn_status tni_raw_alloc(tni_pool *pool, uint64_t bytes, void *stream, tn_memory *out_memory);
void tni_raw_free(tni_pool *pool, const tn_memory *memory, void *stream);

/* ------------------------------------------------------------------ slab.c */

tn_status tni_slab_alloc(tni_pool *pool, tni_memory_stream *stream, unsigned size_class,
                         tni_memory_block **out_block);
void tni_slab_give(tni_pool *pool, tni_memory_block *object);
void tni_slabs_release(tni_pool *pool); /* empty ones go back to the bins */

/* ------------------------------------------------------------------ front.c */

/* The calling thread's front of this pool, made if need be, and put first; NULL: the pool has none, or out of memory. */
tni_front *tni_front_of(tni_pool *pool);
tni_front *tni_front_find(const tni_pool *pool); /* the same without making one */
/* Puts the thread's front of this pool before its others, where the inline doors look; true if it was not there. */
bool tni_front_raise(const tni_pool *pool);
/* Takes a pair apart where a request of this size finds no object alone; true: now it does. */
bool tni_front_part(const tni_pool *pool, uint64_t bytes);
void tni_front_drop(tni_pool *pool); /* the calling thread's, if it has one */
/* Adds what the front counted to the pool's figures. */
void tni_front_sum(tni_front *front);
/* Gives back objects of one list until `keep` are left. */
void tni_front_spill(tni_front *front, unsigned size_class, uint32_t keep);
void tni_front_spill_all(tni_front *front);
/* Takes objects of a class from the pool until half of the list is full, or as many as there are. */
void tni_front_refill(tni_front *front, unsigned size_class);

/* ------------------------------------------------------------------ stream.c */

/* NULL when out of memory. */
tni_memory_stream *tni_stream_of(tni_pool *pool, void *stream);
/* A block of another stream that is done with it; force: one that is not, behind an event that `stream` waits for. */
tni_memory_block *tni_stream_steal(tni_pool *pool, tni_memory_stream *stream, uint8_t kind, uint64_t size,
                                   uint64_t most, bool force);
/* A freed block that other streams use: pending until they are done (or the device is, where there are no events). */
void tni_stream_give(tni_pool *pool, tni_memory_block *block, void *freed_on);
void tni_stream_drain(tni_pool *pool, bool all_done); /* pending blocks whose events are done come back */
void tni_streams_deinit(tni_pool *pool);

/* ------------------------------------------------------------------ stats.c */

void tni_count_alloc(tni_pool *pool, tni_memory_block *block, uint8_t tag);
void tni_count_free(tni_pool *pool, tni_memory_block *block);

#endif

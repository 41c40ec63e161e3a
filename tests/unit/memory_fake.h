/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that has no memory: names and counts only, with a budget, streams that run when told to, and events. So
 * tests decide when work is done and what the device refuses. Nothing writes through its addresses.
 */
#ifndef TN_TEST_MEMORY_FAKE_H
#define TN_TEST_MEMORY_FAKE_H

#include "core/memory/memory.h"

typedef struct fake_stream {
  uint64_t given, done; /* units of work */
} fake_stream;

typedef struct fake_event {
  const fake_stream *stream;
  uint64_t at;
} fake_event;

typedef struct fake {
  tn_backend_def def;
  bool opaque;         /* mem is a handle and there is no address */
  uint64_t budget;     /* most bytes; 0: any number */
  uint64_t held, next; /* bytes now; where the next block begins */
  tn_status refuse;    /* not TN_OK: the next alloc answers it */
  uint32_t n_events, n_waits, n_syncs;
  fake_stream *streams[4]; /* that synchronize completes */
} fake;

/* asynchronous: has synchronize; events: and the five rows. */
void fake_init(fake *f, bool asynchronous, bool events);
/* A pool over it; ends the test if that fails. */
tni_pool *fake_pool(fake *f, bool cached, bool fronts);
tn_memory_stats fake_stats(tni_pool *pool);
/* Allocates on a stream; ends the test if that fails. */
tni_memory_block *fake_take(tni_pool *pool, uint64_t bytes, void *stream);
/* Frees the pool and checks that the device holds nothing. */
void fake_end(fake *f, tni_pool *pool);

#endif

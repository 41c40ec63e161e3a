/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files behind tni_parallel_for: a region as its executors see it, and the two executors.
 */
#ifndef TENON_CORE_PARALLEL_INT_H
#define TENON_CORE_PARALLEL_INT_H

#include "core/base/base.h"

enum { TNI_THREADS_MOST = 1024 };

/* What a worker needs of a region. */
typedef struct tni_chunks {
  tn_parallel_fn fn;
  void *ctx;
  int64_t n;
  int64_t chunk; /* length of all chunks but the last */
  struct tni_region *region;
} tni_chunks;

/* On the stack of the thread that asked for it. */
typedef struct tni_region {
  tni_chunks chunks;
  int32_t n_chunks;
  _Atomic tn_status status; /* the first error */
  _Atomic(char *) words;    /* its words; owned */
} tni_region;

/* Runs chunk i with worker number i on the calling thread; its error is kept in the region. */
void tni_chunk_run(const tni_chunks *c, int32_t i);

/* Executors: run every chunk of a region once and return when all have ended. One region at a time: the caller
 * sees to that (parallel.c). */

/* parallel_team.c: our pthreads. */
void tni_team_run(tni_region *r);
void tni_team_stop(void); /* joins them; no region may run. The next region starts them again */

/* parallel_gomp.c: the libgomp.so.1 that the process has loaded. */
bool tni_gomp_open(
    void); /* false: none is loaded, or it lacks a function. Idempotent, one thread at a time */
void tni_gomp_run(tni_region *r);
/* From now on every OpenMP region of the calling thread has one thread. Nothing if tni_gomp_open has not succeeded. */
void tni_gomp_hold(void);

/* parallel_runtimes.c: what else in this process has threads for parallel regions. */
typedef struct tni_runtime {
  const char *what; /* "GNU OpenMP" */
  const char *path; /* of the loaded file; as long as it stays loaded */
} tni_runtime;
/* How many are loaded; fills at most `most` entries, in the order in which they were loaded. Any thread. */
size_t tni_runtimes_loaded(tni_runtime *out_runtimes, size_t most);
/* NULL, or what a file of this name is; tests. */
const char *tni_runtime_called(const char *path);

#endif

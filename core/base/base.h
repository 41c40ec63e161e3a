/* SPDX-License-Identifier: Apache-2.0
 *
 * The floor of the core: memory for small objects, threads, locks, and hashing. Knows no tensor.
 *
 * All memory of libtenon that is not tensor data comes through tni_alloc, so that the stress build can fail
 * the n-th allocation inside a chosen call. Objects of the hot path (tensors, nodes) come as blocks from
 * freelists of the calling thread; a block may be freed by any thread and then joins that thread's list.
 */
#ifndef TENON_CORE_BASE_H
#define TENON_CORE_BASE_H

#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <tenon/error.h>
#include <tenon/kit/status.h>
#include <tenon/plugin.h>

#define TNI_LIKELY(x) __builtin_expect(!!(x), 1)
#define TNI_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Our own mistakes only; vanishes in release builds. Never on input. */
#ifdef NDEBUG
#define TNI_ASSERT(cond) ((void)0)
#else
#include <assert.h>
#define TNI_ASSERT(cond) assert(cond)
#endif

/* ------------------------------------------------------------------ words */

/* tn_fail, tn_wrap and tn_log with a va_list. */
tn_status tni_vfail(tn_status code, const char *format, va_list args) TN_PRINTF(2, 0);
tn_status tni_vwrap(tn_status code, const char *format, va_list args) TN_PRINTF(2, 0);
void tni_vlog(int32_t level, const char *format, va_list args) TN_PRINTF(2, 0);
/* Is anybody listening at this level? */
bool tni_log_wanted(int32_t level);
/* Moves this thread's words out (owned, may be NULL) and back in (consumed): for code that runs while a failure
 * travels, and for words that cross from a worker to the caller. */
char *tni_error_take(void);
char *tni_error_copy(void); /* owned by the caller, for tni_error_give; the words stay */
void tni_error_give(char *words);

/* This thread's words, put aside before something that may fail and be mended. Whoever puts them aside keeps their age as
 * well, so that what is called meanwhile may do the same (Note [Whose words] in thread_state.h). */
typedef struct tni_words {
  char *text; /* owned; NULL: none */
  uint32_t age;
} tni_words;
tni_words tni_words_aside(void);
/* Consumes them. Whatever was said meanwhile goes, and the words are as old as they were. Makes no record where there is none. */
void tni_words_back(tni_words words);
/* Consumes them: what was said meanwhile stays. */
void tni_words_drop(tni_words words);

/* ------------------------------------------------------------------ memory */

/* NULL when out of memory (the caller makes the status: tni_oom). tni_free(NULL) is allowed. */
void *tni_alloc(size_t size_bytes);
void *tni_alloc_zero(size_t size_bytes);
void *tni_realloc(void *p, size_t size_bytes);
void tni_free(void *p);
char *tni_strdup(const char *s);
/* Sets "out of memory: N bytes for WHAT" and returns TN_ERR_OUT_OF_MEMORY. */
tn_status tni_oom(size_t size_bytes, const char *what) TN_COLD;

/* Blocks: 64-byte aligned, sizes by class. The last two classes have the size of another: blocks on their lists are as
 * their last users left them, but for the first word (Note [Ready blocks] in core/tensor/small.h). */
enum { TNI_BLOCK_CLASSES = 10, TNI_BLOCK_SMALL = 8, TNI_BLOCK_VIEW = 9, TNI_BLOCK_MAX = 1024 };
extern const uint16_t tni_block_bytes[TNI_BLOCK_CLASSES];
/* Smallest class that holds size_bytes; size_bytes <= TNI_BLOCK_MAX. */
unsigned tni_block_class(size_t size_bytes);
void *tni_block_alloc(unsigned block_class); /* NULL when out of memory; contents undefined */
void tni_block_free(void *block, unsigned block_class);
/* Most blocks that one list of a thread keeps; 0 where freelists are off. */
uint32_t tni_block_limit(void);
/* Gives the thread's free blocks back to the C library (thread exit, shutdown, tests). */
void tni_block_trim(void);

/* Fault injection for the stress build (compiled to nothing elsewhere): the n-th tni_alloc or
 * tni_block_alloc of this thread from now fails once; 0 = off. Returns how many ran since the last call. */
uint64_t tni_fail_after(uint64_t n);
/* True once if an allocation shall fail now; backends' alloc goes through it as well. */
bool tni_should_fail(void);

/* ------------------------------------------------------------------ counts */

/* Note [Counts]
 * A reference count is raised only by who holds one, so whoever reads 1 (acquire) is the sole owner and needs no
 * read-modify-write to drop it. And as long as the process has one thread, no count needs a locked instruction: a
 * pair of them costs 12 ns, as much as a whole small operator. glibc says so in one byte, which it clears before
 * the second thread can run (pthread_create). Where the C library does not say, the locked form is used. */
#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define TNI_SINGLE_THREADED() (__libc_single_threaded)
#endif
#endif
#ifndef TNI_SINGLE_THREADED
#define TNI_SINGLE_THREADED() 0
#endif

static inline void tni_count_add(_Atomic uint32_t *count) {
  if (TNI_SINGLE_THREADED())
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_relaxed);
  else
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}
/* true: that was the last one; the count itself is then left at 1 or 0. */
static inline bool tni_count_drop(_Atomic uint32_t *count) {
  uint32_t before = atomic_load_explicit(count, memory_order_acquire);
  if (before == 1) return true;
  if (!TNI_SINGLE_THREADED()) return atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel) == 1;
  atomic_store_explicit(count, before - 1, memory_order_relaxed);
  return false;
}

/* ------------------------------------------------------------------ threads */

/* Zero bytes are an initialised lock and condition on the platforms we have (thread_posix.c asserts the size). */
typedef struct tni_mutex {
  union {
    uint64_t align;
    unsigned char bytes[64];
  } u;
} tni_mutex;
typedef struct tni_cond {
  union {
    uint64_t align;
    unsigned char bytes[64];
  } u;
} tni_cond;
#define TNI_MUTEX_INIT {{0}}
#define TNI_COND_INIT {{0}}
typedef struct tni_worker tni_worker; /* a running thread */
void tni_mutex_init(tni_mutex *m);
void tni_mutex_deinit(tni_mutex *m);
void tni_mutex_lock(tni_mutex *m);
void tni_mutex_unlock(tni_mutex *m);
void tni_cond_init(tni_cond *c);
void tni_cond_deinit(tni_cond *c);
void tni_cond_wait(tni_cond *c, tni_mutex *m);
void tni_cond_signal(tni_cond *c);
void tni_cond_broadcast(tni_cond *c);
/* Runs fn once per process, other threads wait. */
typedef struct tni_once {
  _Atomic int state;
  tni_mutex mutex;
} tni_once;
#define TNI_ONCE_INIT {0, TNI_MUTEX_INIT}
void tni_once_run(tni_once *once, void (*fn)(void));
tn_status tni_worker_start(void (*fn)(void *ctx), void *ctx, const char *name, tni_worker **out_worker);
void tni_worker_join(tni_worker *worker); /* waits and frees */
/* Gives back the device memory that this thread keeps for its next request: for threads of ours before they wait, so that a
 * backend can be unloaded and its memory purged. */
void tni_thread_rest(void);
/* In a forked child: frees the record of a thread of the parent. */
void tni_worker_forget(tni_worker *worker);
/* Note [Fork] in fork.c. Ranks in the order in which locks nest, outermost first. */
enum {
  TNI_FORK_LOADER,
  TNI_FORK_PROFILE,
  TNI_FORK_REGISTRY,
  TNI_FORK_AUTOGRAD,
  TNI_FORK_GENERATORS,
  TNI_FORK_STREAMS,
  TNI_FORK_REINIT,
  TNI_FORK_STOPWATCHES,
  TNI_FORK_MEMORY,
  TNI_FORK_PARALLEL,
  TNI_FORK_LOG,
  TNI_FORK_RANKS
};
/* before runs in the thread that forks, then parent or child on the two sides. */
typedef struct tni_fork_part {
  uint32_t rank; /* TNI_FORK_... */
  void (*before)(void);
  void (*parent)(void);
  void (*child)(void);
  struct tni_fork_part *next; /* the list's */
} tni_fork_part;
/* Only while the library is being loaded (from constructors). part lives as long as the process. */
void tni_at_fork(tni_fork_part *part);
#define TNI_FORK_PART(name, rank, before, parent, child)                                            \
  __attribute__((constructor)) static void name##_register(void) {                                  \
    static tni_fork_part part = {rank, before, parent, child, NULL};                                \
    tni_at_fork(&part);                                                                             \
  }                                                                                                 \
  _Static_assert((rank) < TNI_FORK_RANKS, "a rank of the list")
/* A lock of file scope that a fork finds free. */
#define TNI_FORK_LOCK(name, rank, mutex)                                                            \
  static void name##_take(void) { tni_mutex_lock(&(mutex)); }                                       \
  static void name##_give(void) { tni_mutex_unlock(&(mutex)); }                                     \
  TNI_FORK_PART(name, rank, name##_take, name##_give, name##_give)
/* How often this process and its ancestors forked since the library was loaded. */
int32_t tni_fork_generation(void);
/* Processors in the calling thread's affinity mask and cgroup quota, at least 1; reads a few small files. */
int32_t tni_cpu_count(void);

/* host->parallel_for: fixed chunks, run by threads of ours or by libgomp's. See core/base/parallel.c. */
tn_status tni_parallel_for(int64_t n, int64_t grain, tn_parallel_fn fn, void *ctx);
tn_status tni_parallel_set_threads(int32_t n); /* 1 .. 1024 */
/* host->num_threads. A kernel sizes its workers' memory by it, so regions that this thread asks for afterwards have no
 * more workers, even if another thread raises the number in between. */
int32_t tni_parallel_tell_threads(void);
int32_t tni_parallel_threads(void);            /* what was set, TENON_NUM_THREADS, OMP_NUM_THREADS, or the default */
void tni_parallel_stop(void); /* joins the workers; the next region starts them again */
/* A provider that computes with this thread runtime ("libgomp", from its manifest) is open: from now on its threads
 * run our regions, too. Warns where that cannot be, or where it leaves the process with a second runtime. */
void tni_parallel_use_runtime(const char *runtime, const char *plugin);
/* Threads, processors and runtimes in words, a line at a time. Reads the topology. */
void tni_parallel_describe(void (*line)(void *ctx, const char *words), void *ctx);
/* Where memory is not equally near to all processors: writes a 0 into each page of fresh memory, on the threads that
 * by chunk order will work on it, so that the system places it beside them. Elsewhere nothing. */
void tni_parallel_first_touch(void *address, uint64_t bytes);

/* ------------------------------------------------------------------ string map */

/* Open addressing, keys are NUL-terminated strings that the caller keeps alive. Not thread-safe. */
typedef struct tni_map {
  struct tni_map_entry *entries;
  size_t capacity;
  size_t count;
} tni_map;
void tni_map_deinit(tni_map *map);
tn_status tni_map_put(tni_map *map, const char *key, void *value); /* replaces */
void tni_map_remove(tni_map *map, const char *key);
void *tni_map_get(const tni_map *map, const char *key); /* NULL if absent */

/* ------------------------------------------------------------------ growing arrays */

/* Makes room for one more element of `size` bytes behind *count in *items (capacity in *capacity). */
tn_status tni_grow(void *items, size_t *capacity, size_t count, size_t size);

#endif

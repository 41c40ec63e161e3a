/* SPDX-License-Identifier: Apache-2.0
 *
 * All per-thread state is one struct. Everything a worker must inherit is copied by tni_thread_snapshot; the
 * rest (freelists, error words, scopes) belongs to its thread alone.
 *
 * initial-exec TLS: libtenon is a start-up library for its users; the struct stays under 512 bytes.
 */
#ifndef TENON_CORE_THREAD_STATE_H
#define TENON_CORE_THREAD_STATE_H

#include "core/base/base.h"

/* What layers keep per thread: made by core/load/layer_state.c, which base cannot see, at a thread's first slot. */
typedef struct tni_layer_states {
  /* Through the layers' own state_dup and state_free; no lock may be held. */
  tn_status (*dup)(const struct tni_layer_states *states, struct tni_layer_states **out_states);
  void (*release)(struct tni_layer_states *states);
} tni_layer_states;

/* Note [Whose words]
 * A plugin may fail without a word, and the words that the thread still has are then of an earlier failure. So words
 * are counted, from TNI_WORDS_ONE on in the flags that a call begins with, where it costs a successful call
 * nothing: a call that fails with the count of its beginning has no words of its own (tni_call_failed). Plugins see
 * flags that they do not know, which mean nothing to them. */
enum { TNI_WORDS_ONE = 1 << 16 };

/* The part that travels to workers. */
typedef struct tni_thread_modes {
  uint64_t include;        /* key bits added to every call */
  uint64_t exclude;        /* key bits taken from every call */
  tn_device default_device;
  tn_dtype default_dtype;
  bool grad_enabled;
  bool inference;
  uint32_t call_flags;     /* every call starts with it: TN_CALL_DETERMINISTIC or 0; Note [Whose words] */
  int32_t forward_level;   /* reserved for forward-mode gradients; 0 = none */
  uint32_t memory_tag;     /* core/memory: what is allocated is counted under it; 0 = untagged */
  struct tni_transform *transforms; /* reserved: stack of pushed modes and transforms (DESIGN 4) */
  void *autocast;          /* reserved */
  void *saved_hooks;       /* reserved: pack and unpack hooks */
  const struct tni_stream_set *streams; /* core/tensor/stream.h: the current ones; NULL: each device's default */
  tni_layer_states *layer_states; /* owned by the thread or the snapshot; NULL: no layer has kept anything */
} tni_thread_modes;

typedef struct tni_thread {
  tni_thread_modes modes;
  struct tn_scope *scope;
  struct tni_error *error;     /* this thread's words; allocated at its first failure */
  struct tni_graph_task *task; /* the backward run that this thread works for, or NULL */
  int32_t backward_depth;      /* nested backward calls on this thread */
  int32_t parallel_worker;     /* inside parallel_for: own worker number + 1, else 0 */
  int32_t threads_told;        /* host->num_threads' last answer here; 0: none since the program set the number */
  uint64_t sequence_nr;        /* next autograd node */
  struct tni_node *dying;      /* autograd nodes that the release now running still has to free */
  bool freeing_nodes;          /* such a release is running on this thread */
  struct tni_device_worker *device_worker; /* backward: this thread serves an accelerator; else NULL */
  uint64_t fail_after, fail_count; /* stress build */
  struct tni_front *front;     /* core/memory: cached small blocks of the pool used last, or NULL */
  void (*front_free)(struct tni_front *front); /* for the thread's end, all of them; set with front */
  uint64_t profile_parent;     /* core/profile: id of the event that this thread is in, 0: none */
  uint64_t profile_thread;     /* the system's number of this thread, 0: not asked yet */
  struct tni_range *ranges;    /* open spans that a profiler heard the begin of; each begins with the next one */
  int32_t range_depth;         /* open spans, heard of or not */
  bool profile_inside;         /* a profiler's callback runs on this thread */
  bool armed;                  /* the thread-exit destructor is set */
  uint32_t block_limit;        /* most blocks on one list: 0 until armed, and where lists are off */
  struct tni_freelist {
    void *head; /* a free block begins with a pointer to the next one */
    uint32_t count;
    uint32_t reserved;
  } blocks[TNI_BLOCK_CLASSES];
} tni_thread;

_Static_assert(sizeof(tni_thread) <= 512, "thread state must stay under 512 bytes of TLS");

extern __attribute__((visibility("hidden"), tls_model("initial-exec"))) _Thread_local tni_thread tni_tls;

/* Makes sure that the thread's freelists and words are freed when it ends. Idempotent; cheap when armed. */
void tni_thread_arm(void);
void tni_error_release(struct tni_error *error); /* core/base/status.c */

/* A copy of this thread's modes for other threads, the states of layers in it; ends with tni_modes_release. */
tn_status tni_thread_snapshot(tni_thread_modes *out_modes);
void tni_modes_release(tni_thread_modes *modes);
/* This thread works under a copy of a snapshot, which several threads may enter at once, until tni_thread_leave puts
 * back what was. After a failed enter nothing has changed. */
tn_status tni_thread_enter(const tni_thread_modes *modes, tni_thread_modes *out_saved);
void tni_thread_leave(const tni_thread_modes *saved);
/* Puts this thread's own modes back as they were copied before; what layers kept meanwhile stays. */
void tni_thread_restore(const tni_thread_modes *saved);

/* The hot halves of tni_block_alloc and tni_block_free. */
void *tni_block_alloc_slow(unsigned block_class);
void tni_block_free_slow(void *block, unsigned block_class);
static inline __attribute__((always_inline)) void *tni_block_pop(unsigned block_class) {
  struct tni_freelist *list = &tni_tls.blocks[block_class];
  void **block = list->head;
  if (TNI_UNLIKELY(!block)) return tni_block_alloc_slow(block_class);
  list->head = *block;
  list->count--;
  return block;
}
/* A listed block, or NULL: for callers that have a slower way. */
static inline __attribute__((always_inline)) void *tni_block_pop_listed(unsigned block_class) {
  struct tni_freelist *list = &tni_tls.blocks[block_class];
  void **block = list->head;
  if (TNI_UNLIKELY(!block)) return NULL;
  list->head = *block;
  list->count--;
  return block;
}
static inline __attribute__((always_inline)) void tni_block_push(void *block, unsigned block_class) {
  struct tni_freelist *list = &tni_tls.blocks[block_class];
  if (TNI_UNLIKELY(list->count >= tni_tls.block_limit)) {
    tni_block_free_slow(block, block_class);
    return;
  }
  *(void **)block = list->head;
  list->head = block;
  list->count++;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * One backward run: its nodes with their dependency counts and buffers, its ready queue, and the hand-over
 * to device workers. For engine.c, graph_task.c and workers.c only.
 *
 * Note [Two ways to run]
 * A run whose nodes all live on host memory belongs to the calling thread alone: no lock is taken. If the
 * dependency pass meets a node of an accelerator, the run is `shared`: nodes of accelerators go to that
 * device's worker, the others stay with the calling thread, buffers are guarded by the run's lock, and
 * everything that a thread may wait for (ready queues, pending counts, the run's status) by the engine's
 * one mutex. A worker that waits for a nested run serves its own device's queue meanwhile, so that no
 * circle of waiting arises.
 */
#ifndef TENON_CORE_AUTOGRAD_ENGINE_INT_H
#define TENON_CORE_AUTOGRAD_ENGINE_INT_H

#include "core/autograd/autograd_int.h"

/* A node of this run. */
typedef struct tni_task_entry {
  tni_node *node;
  tn_tensor *one;   /* gradient that arrived, for nodes of one result */
  tn_tensor **many; /* the same for several, made when the first arrives */
  uint32_t deps;    /* edges that have not delivered yet */
  uint32_t capture; /* first capture + 1 */
  uint32_t targets; /* where its edges' entries stand among the run's targets */
  bool run;         /* its function runs; else it only captures */
} tni_task_entry;

typedef struct tni_ready {
  uint64_t sequence_nr;
  uint32_t index;
} tni_ready;

enum { TNI_TASK_FEW = 12, TNI_TASK_FEW_SLOTS = 32, TNI_TASK_FEW_TARGETS = 24 };

typedef struct tni_graph_task {
  tni_run *run;
  tni_task_entry *entries;
  uint32_t n_entries, entry_capacity;
  uint32_t *slots;     /* open addressing: index + 1 by node, 0 = free */
  uint32_t slot_shift; /* 64 - log2(number of slots) */
  uint32_t *targets;   /* entries that edges lead to, node by node; UINT32_MAX: the edge leads nowhere */
  uint32_t n_targets, target_capacity;
  tni_ready *ready;    /* binary heap, highest sequence number first */
  uint32_t n_ready, ready_capacity;
  bool streams;                          /* some node, or the caller, is not on a default stream */
  bool shared;                           /* see Note [Two ways to run] */
  tni_mutex lock;                        /* shared: deps and buffers */
  uint32_t pending;                      /* shared: entries that workers still owe */
  tn_status status;                      /* shared: the first failure of any thread */
  char *words;                           /* shared: its words, owned, may be NULL */
  tni_thread_modes modes;                /* of the run */
  const struct tni_device_worker *owner; /* the caller is this device's worker, or NULL */
  int32_t depth;
  tni_task_entry few_entries[TNI_TASK_FEW];
  uint32_t few_slots[TNI_TASK_FEW_SLOTS];
  uint32_t few_targets[TNI_TASK_FEW_TARGETS];
  tni_ready few_ready[TNI_TASK_FEW];
} tni_graph_task;

void tni_task_init(tni_graph_task *task, tni_run *run);
void tni_task_deinit(tni_graph_task *task); /* releases what buffers still hold */
/* Entry of a node, added if new. */
tn_status tni_task_add(tni_graph_task *task, tni_node *node, uint32_t *out_index);
/* Entry of a node that must be there; UINT32_MAX if not. */
uint32_t tni_task_find(const tni_graph_task *task, const tni_node *node);
/* Room for n more targets. */
tn_status tni_task_reserve_targets(tni_graph_task *task, uint32_t n);
static inline const uint32_t *tni_task_targets(const tni_graph_task *task, uint32_t index) {
  return task->targets + task->entries[index].targets;
}
/* Room for every entry in the ready heap, so that pushing cannot fail. */
tn_status tni_task_reserve_ready(tni_graph_task *task);
void tni_task_push(tni_graph_task *task, uint32_t index);
bool tni_task_pop(tni_graph_task *task, uint32_t *out_index);
/* Adds a gradient (consumed) to the buffer of result nr. */
tn_status tni_task_deliver(tni_graph_task *task, uint32_t index, uint32_t nr, tn_tensor *grad);

/* Runs one entry: hooks, captures, function, delivery. engine.c */
tn_status tni_task_evaluate(tni_graph_task *task, uint32_t index);

/* ------------------------------------------------------------------ workers.c */

/* Does this node run on a device worker? */
bool tni_is_accelerator(tn_device device);
/* Pushes a ready entry where it runs. A failure (no thread) is the run's. */
tn_status tni_task_hand_out(tni_graph_task *task, uint32_t index);
/* The calling thread's part of a shared run, of which workers may have done some: returns when nothing is pending.
 * started: how handing out its first nodes ended. */
tn_status tni_task_run_shared(tni_graph_task *task, tn_status started);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of one backward run: a map from nodes to entries, the entries, and the ready heap.
 *
 * Dependency counts live here and not in the nodes, because several threads may run one graph at once (H5).
 * The map is open addressing over entry numbers; small runs use the room in the struct and allocate
 * nothing.
 */
#include "core/autograd/engine_int.h"

enum { FEW_SLOTS_LOG2 = 5 };
_Static_assert(1 << FEW_SLOTS_LOG2 == TNI_TASK_FEW_SLOTS, "slots of a small run");

void tni_task_init(tni_graph_task *task, tni_run *run) {
  task->run = run;
  task->entries = task->few_entries;
  task->n_entries = 0;
  task->entry_capacity = TNI_TASK_FEW;
  task->slots = task->few_slots;
  task->slot_shift = 64 - FEW_SLOTS_LOG2;
  memset(task->few_slots, 0, sizeof task->few_slots);
  task->targets = task->few_targets;
  task->n_targets = 0;
  task->target_capacity = TNI_TASK_FEW_TARGETS;
  task->ready = task->few_ready;
  task->n_ready = 0;
  task->ready_capacity = TNI_TASK_FEW;
  task->shared = false;
  task->pending = 0;
  task->status = TN_OK;
  task->words = NULL;
  task->owner = NULL;
}

void tni_task_deinit(tni_graph_task *task) {
  for (uint32_t i = 0; i < task->n_entries; ++i) {
    tni_task_entry *e = &task->entries[i];
    if (e->one) tn_tensor_release(e->one);
    if (!e->many) continue;
    for (uint32_t j = 0; j < e->node->n_outs; ++j) tn_tensor_release(e->many[j]);
    tni_free(e->many);
  }
  if (task->entries != task->few_entries) tni_free(task->entries);
  if (task->slots != task->few_slots) tni_free(task->slots);
  if (task->targets != task->few_targets) tni_free(task->targets);
  if (task->ready != task->few_ready) tni_free(task->ready);
  tni_free(task->words);
}

/* ------------------------------------------------------------------ map */

static inline uint32_t slot_of(const tni_graph_task *task, const tni_node *node) {
  return (uint32_t)(((uint64_t)(uintptr_t)node >> 6) * UINT64_C(0x9E3779B97F4A7C15) >> task->slot_shift);
}

static inline uint32_t slot_mask(const tni_graph_task *task) {
  return (uint32_t)((UINT64_C(1) << (64 - task->slot_shift)) - 1);
}

uint32_t tni_task_find(const tni_graph_task *task, const tni_node *node) {
  uint32_t mask = slot_mask(task);
  for (uint32_t s = slot_of(task, node); task->slots[s]; s = (s + 1) & mask)
    if (task->entries[task->slots[s] - 1].node == node) return task->slots[s] - 1;
  return UINT32_MAX;
}

static tn_status slots_grow(tni_graph_task *task) {
  size_t bytes = ((size_t)slot_mask(task) + 1) * 4 * sizeof *task->slots;
  uint32_t *slots = tni_alloc_zero(bytes);
  if (!slots) return tni_oom(bytes, "the map of a backward run");
  if (task->slots != task->few_slots) tni_free(task->slots);
  task->slots = slots;
  task->slot_shift -= 2;
  uint32_t mask = slot_mask(task);
  for (uint32_t i = 0; i < task->n_entries; ++i) {
    uint32_t s = slot_of(task, task->entries[i].node);
    while (slots[s]) s = (s + 1) & mask;
    slots[s] = i + 1;
  }
  return TN_OK;
}

static tn_status entries_grow(tni_graph_task *task) {
  size_t capacity = (size_t)task->entry_capacity * 4, bytes = capacity * sizeof *task->entries;
  if (capacity >= UINT32_MAX) return tni_oom(bytes, "the nodes of a backward run");
  bool few = task->entries == task->few_entries;
  tni_task_entry *entries = few ? tni_alloc(bytes) : tni_realloc(task->entries, bytes);
  if (!entries) return tni_oom(bytes, "the nodes of a backward run");
  if (few) memcpy(entries, task->few_entries, sizeof task->few_entries);
  task->entries = entries;
  task->entry_capacity = (uint32_t)capacity;
  return TN_OK;
}

tn_status tni_task_add(tni_graph_task *task, tni_node *node, uint32_t *out_index) {
  uint32_t mask = slot_mask(task), s = slot_of(task, node);
  for (; task->slots[s]; s = (s + 1) & mask)
    if (task->entries[task->slots[s] - 1].node == node) {
      *out_index = task->slots[s] - 1;
      return TN_OK;
    }
  if (TNI_UNLIKELY(task->n_entries == task->entry_capacity)) TN_TRY(entries_grow(task));
  if (TNI_UNLIKELY((uint64_t)task->n_entries * 2 >= mask)) {
    TN_TRY(slots_grow(task));
    mask = slot_mask(task);
    for (s = slot_of(task, node); task->slots[s];) s = (s + 1) & mask;
  }
  *out_index = task->n_entries;
  task->entries[task->n_entries++] = (tni_task_entry){.node = node};
  task->slots[s] = task->n_entries;
  return TN_OK;
}

/* ------------------------------------------------------------------ targets */

tn_status tni_task_reserve_targets(tni_graph_task *task, uint32_t n) {
  size_t least = (size_t)task->n_targets + n, capacity = task->target_capacity;
  if (TNI_LIKELY(least <= capacity)) return TN_OK;
  while (capacity < least) capacity *= 4;
  const size_t bytes = capacity * sizeof *task->targets;
  if (capacity >= UINT32_MAX) return tni_oom(bytes, "the edges of a backward run");
  const bool few = task->targets == task->few_targets;
  uint32_t *targets = few ? tni_alloc(bytes) : tni_realloc(task->targets, bytes);
  if (!targets) return tni_oom(bytes, "the edges of a backward run");
  if (few) memcpy(targets, task->few_targets, sizeof task->few_targets);
  task->targets = targets;
  task->target_capacity = (uint32_t)capacity;
  return TN_OK;
}

/* ------------------------------------------------------------------ ready heap */

tn_status tni_task_reserve_ready(tni_graph_task *task) {
  if (task->n_entries <= task->ready_capacity) return TN_OK;
  /* Most graphs are deep, not wide: the heap grows on demand below; here only its certainty is bought. */
  size_t bytes = task->n_entries * sizeof *task->ready;
  tni_ready *ready = tni_alloc(bytes);
  if (!ready) return tni_oom(bytes, "the ready queue of a backward run");
  task->ready = ready;
  task->ready_capacity = task->n_entries;
  return TN_OK;
}

void tni_task_push(tni_graph_task *task, uint32_t index) {
  tni_ready item = {task->entries[index].node->sequence_nr, index};
  uint32_t i = task->n_ready++;
  while (i && task->ready[(i - 1) / 2].sequence_nr < item.sequence_nr) {
    task->ready[i] = task->ready[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  task->ready[i] = item;
}

bool tni_task_pop(tni_graph_task *task, uint32_t *out_index) {
  if (!task->n_ready) return false;
  *out_index = task->ready[0].index;
  tni_ready last = task->ready[--task->n_ready];
  uint32_t i = 0, n = task->n_ready;
  for (;;) {
    uint32_t child = 2 * i + 1;
    if (child >= n) break;
    if (child + 1 < n && task->ready[child + 1].sequence_nr > task->ready[child].sequence_nr) ++child;
    if (task->ready[child].sequence_nr <= last.sequence_nr) break;
    task->ready[i] = task->ready[child];
    i = child;
  }
  task->ready[i] = last;
  return true;
}

/* ------------------------------------------------------------------ buffers */

tn_status tni_task_deliver(tni_graph_task *task, uint32_t index, uint32_t nr, tn_tensor *grad) {
  tni_task_entry *e = &task->entries[index];
  if (TNI_LIKELY(e->node->n_outs == 1)) return tni_grad_add(&e->one, grad);
  if (!e->many) {
    e->many = tni_alloc_zero(e->node->n_outs * sizeof *e->many);
    if (!e->many) {
      tn_tensor_release(grad);
      return tni_oom(e->node->n_outs * sizeof *e->many, "gradients of a node");
    }
  }
  return tni_grad_add(&e->many[nr], grad);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread per accelerator device that runs the nodes of that device, for all backward runs of the
 * process. See
 * Note [Two ways to run] in engine_int.h. A worker starts at the first node of its device and ends at
 * tni_autograd_stop; CPU-only programs never have one.
 */
#include "core/autograd/engine_int.h"

/* A ready entry of a shared run. */
typedef struct work {
  struct work *next;
  tni_graph_task *task;
  uint64_t sequence_nr;
  int32_t depth;
  uint32_t index;
} work;

typedef struct tni_device_worker {
  struct tni_device_worker *next;
  tn_device device;
  work *queue; /* deepest run first, then latest node first */
  tni_worker *thread;
  bool stop;
} tni_device_worker;

static struct {
  tni_mutex mutex; /* queues, and every shared run's ready heap, pending and status */
  tni_cond changed;
  tni_device_worker *workers;
} engine = {.mutex = TNI_MUTEX_INIT, .changed = TNI_COND_INIT};

/* A forked child has no workers: its first run on an accelerator starts new ones. */
static void before_fork(void) { tni_mutex_lock(&engine.mutex); }
static void after_fork(void) { tni_mutex_unlock(&engine.mutex); }
static void after_fork_child(void) {
  engine.workers = NULL;
  tni_cond_init(&engine.changed); /* its waiters do not exist */
  tni_mutex_unlock(&engine.mutex);
}
TNI_FORK_PART(engine, TNI_FORK_AUTOGRAD, before_fork, after_fork, after_fork_child);

bool tni_is_accelerator(tn_device device) {
  if (device.backend == TN_BACKEND_CPU || device.backend == TN_BACKEND_META) return false;
  const tni_backend *backend = tni_backend_get(device.backend);
  return backend && !(backend->def->flags & TN_BACKEND_HOST_MEMORY);
}

/* ------------------------------------------------------------------ failures */

/* The first failure of a run is the one that its caller sees. engine.mutex is held. */
static void poison(tni_graph_task *task, tn_status status) {
  if (status == TN_OK || task->status != TN_OK) return;
  task->status = status;
  task->words = tni_strdup(tn_error_message());
}

/* ------------------------------------------------------------------ queues: engine.mutex is held */

static void enqueue(tni_device_worker *worker, work *w) {
  work **at = &worker->queue;
  while (*at &&
         ((*at)->depth > w->depth || ((*at)->depth == w->depth && (*at)->sequence_nr >= w->sequence_nr)))
    at = &(*at)->next;
  w->next = *at;
  *at = w;
}

static work *dequeue(tni_device_worker *worker) {
  work *w = worker->queue;
  if (w) worker->queue = w->next;
  return w;
}

/* Runs one piece of work with the mutex released meanwhile. */
static void serve(work *w) {
  tni_graph_task *task = w->task;
  uint32_t index = w->index;
  tni_free(w);
  bool poisoned = task->status != TN_OK;
  tni_mutex_unlock(&engine.mutex);
  tn_status status = TN_OK;
  if (!poisoned) {
    tni_thread_modes saved;
    int32_t depth = tni_tls.backward_depth;
    status = tni_thread_enter(&task->modes, &saved);
    if (status == TN_OK) {
      tni_tls.backward_depth = task->depth;
      status = tni_task_evaluate(task, index);
      tni_tls.backward_depth = depth;
      tni_thread_leave(&saved);
    }
  }
  tni_mutex_lock(&engine.mutex);
  poison(task, status);
  task->pending--;
  tni_cond_broadcast(&engine.changed);
}

static void worker_main(void *ctx) {
  tni_device_worker *self = ctx;
  tni_tls.device_worker = self;
  tni_mutex_lock(&engine.mutex);
  while (!self->stop) {
    work *w = dequeue(self);
    if (w) {
      serve(w);
      continue;
    }
    tni_thread_rest();
    tni_cond_wait(&engine.changed, &engine.mutex);
  }
  tni_mutex_unlock(&engine.mutex);
}

/* The device's worker, started if need be. */
static tn_status worker_of(tn_device device, tni_device_worker **out_worker) {
  tni_device_worker *w = engine.workers;
  while (w && (w->device.backend != device.backend || w->device.index != device.index)) w = w->next;
  *out_worker = w;
  if (w) return TN_OK;
  w = tni_alloc_zero(sizeof *w);
  if (!w) return tni_oom(sizeof *w, "a device's worker");
  w->device = device;
  tn_status status = tni_worker_start(worker_main, w, "tenon-backward", &w->thread);
  if (status != TN_OK) {
    tni_free(w);
    return status;
  }
  w->next = engine.workers;
  engine.workers = w;
  *out_worker = w;
  return TN_OK;
}

/* ------------------------------------------------------------------ shared runs */

static bool runs_here(const tni_graph_task *task, tn_device device) {
  if (!tni_is_accelerator(device)) return true;
  const tni_device_worker *owner = task->owner;
  return owner && owner->device.backend == device.backend && owner->device.index == device.index;
}

tn_status tni_task_hand_out(tni_graph_task *task, uint32_t index) {
  const tni_node *node = task->entries[index].node;
  tn_status status = TN_OK;
  bool here = runs_here(task, node->device);
  work *w = here ? NULL : tni_alloc(sizeof *w);
  if (!here && !w) return tni_oom(sizeof *w, "work for a device");
  tni_mutex_lock(&engine.mutex);
  if (here) {
    tni_task_push(task, index);
  } else {
    tni_device_worker *worker;
    status = worker_of(node->device, &worker);
    if (status == TN_OK) {
      *w = (work){NULL, task, node->sequence_nr, task->depth, index};
      enqueue(worker, w);
      task->pending++;
    } else {
      tni_free(w);
    }
  }
  tni_cond_broadcast(&engine.changed);
  tni_mutex_unlock(&engine.mutex);
  return status;
}

tn_status tni_task_run_shared(tni_graph_task *task, tn_status started) {
  tni_device_worker *self = tni_tls.device_worker;
  tni_mutex_lock(&engine.mutex);
  poison(task, started); /* unless a worker has failed meanwhile: its status is there already */
  for (;;) {
    uint32_t index;
    work *w;
    if (task->status == TN_OK && tni_task_pop(task, &index)) {
      tni_mutex_unlock(&engine.mutex);
      tn_status status = tni_task_evaluate(task, index);
      tni_mutex_lock(&engine.mutex);
      poison(task, status);
    } else if (!task->pending) {
      break;
    } else if (self && (w = dequeue(self)) != NULL) {
      serve(w);
    } else {
      tni_cond_wait(&engine.changed, &engine.mutex);
    }
  }
  tni_mutex_unlock(&engine.mutex);
  if (task->status == TN_OK) return TN_OK;
  return task->words ? tn_fail(task->status, "%s", task->words) : task->status;
}

void tni_autograd_stop(void) {
  tni_mutex_lock(&engine.mutex);
  tni_device_worker *workers = engine.workers;
  engine.workers = NULL;
  for (tni_device_worker *w = workers; w; w = w->next) w->stop = true;
  tni_cond_broadcast(&engine.changed);
  tni_mutex_unlock(&engine.mutex);
  while (workers) {
    tni_device_worker *next = workers->next;
    tni_worker_join(workers->thread);
    tni_free(workers);
    workers = next;
  }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The processors in the order in which threads take them, how many threads that makes, and binding.
 *
 * Note [Binding]
 * A worker that is bound to one processor waits for it while others are idle, if another process (perhaps a second
 * Tenon, bound to the same one) has it. On shared machines that costs more than a thread that wanders. What binding is
 * needed for is memory: a worker should stay on the node where its chunk's pages lie. So by default workers are bound
 * to the processors of a node, on machines that have several, and only if nobody bound the process before
 * (taskset, a batch system, mpirun: they know more). TENON_BIND=nodes does it in any case, within what the process may
 * use; TENON_BIND=cores gives each worker one processor, for a machine of one's own; TENON_BIND=off. The calling
 * thread belongs to the program and is never bound.
 */
#include "core/base/topology.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BIND_OFF, BIND_NODES, BIND_CORES };
static const char *const bind_names[] = {"off", "nodes", "cores"};

static tni_topology machine;
static tni_mutex machine_mutex = TNI_MUTEX_INIT; /* guards reading it */
static _Atomic bool machine_known;
TNI_FORK_LOCK(machine, TNI_FORK_PARALLEL, machine_mutex);
static _Atomic(const tni_topology *) pretended;

/* ------------------------------------------------------------------ reading */

/* The mask may be wider than the largest number; the kernel refuses one that is too narrow. */
int32_t tni_cpus_allowed(tni_cpu **out_cpus) {
  *out_cpus = NULL;
  for (int width = 1024; width <= 1 << 20; width *= 2) {
    cpu_set_t *set = CPU_ALLOC((size_t)width);
    size_t bytes = CPU_ALLOC_SIZE((size_t)width);
    if (!set) return 0;
    if (sched_getaffinity(0, bytes, set) != 0) {
      CPU_FREE(set);
      continue;
    }
    int32_t n = 0, count = CPU_COUNT_S(bytes, set);
    tni_cpu *cpus = tni_alloc((size_t)count * sizeof *cpus);
    for (int i = 0; cpus && i < width && n < count; ++i)
      if (CPU_ISSET_S((size_t)i, bytes, set)) cpus[n++] = (tni_cpu){i, -1, 0};
    CPU_FREE(set);
    *out_cpus = cpus;
    return n;
  }
  return 0;
}

int32_t tni_cpu_count(void) {
  tni_cpu *cpus;
  int32_t n = tni_cpus_allowed(&cpus), quota = tni_cgroup_cpus("");
  tni_free(cpus);
  if (n > quota) n = quota;
  return n < 1 ? 1 : n;
}

static int by_core(const void *a, const void *b) {
  const tni_cpu *x = a, *y = b;
  if (x->node != y->node) return x->node < y->node ? -1 : 1;
  if (x->core != y->core) return x->core < y->core ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

/* Takes the first of each core, then the second of each, and so on. */
static tn_status one_of_each_core(tni_cpu *cpus, int32_t n) {
  tni_cpu *order = tni_alloc((size_t)n * sizeof *order);
  if (!order) return TN_ERR_OUT_OF_MEMORY;
  int32_t taken = 0;
  for (int32_t turn = 0; taken < n; ++turn)
    for (int32_t i = 0, rank = 0; i < n; ++i) {
      rank = i && cpus[i].core == cpus[i - 1].core && cpus[i].node == cpus[i - 1].node ? rank + 1 : 0;
      if (rank == turn) order[taken++] = cpus[i];
    }
  memcpy(cpus, order, (size_t)n * sizeof *order);
  tni_free(order);
  return TN_OK;
}

void tni_topology_arrange(tni_cpu *cpus, int32_t n, tni_topology *out_topology) {
  for (int32_t i = 0; i < n; ++i)
    if (cpus[i].core < 0) cpus[i].core = INT32_MAX / 2 + cpus[i].number; /* a core of its own */
  qsort(cpus, (size_t)n, sizeof *cpus, by_core);
  out_topology->cpus = cpus;
  out_topology->n_cpus = n;
  out_topology->n_cores = out_topology->n_nodes = 0;
  for (int32_t i = 0; i < n; ++i) {
    bool new_node = !i || cpus[i].node != cpus[i - 1].node;
    out_topology->n_nodes += new_node;
    out_topology->n_cores += new_node || cpus[i].core != cpus[i - 1].core;
  }
  (void)one_of_each_core(cpus, n); /* without memory the order is less good */
}

static void read_machine(void) {
  tni_cpu *cpus;
  int32_t n = tni_cpus_allowed(&cpus);
  static tni_cpu only = {0, 0, 0}; /* no mask, or no memory for it */
  if (n < 1 || !cpus) {
    machine = (tni_topology){&only, 1, 1, 1, false, "unknown"};
    return;
  }
  snprintf(machine.source, sizeof machine.source, "sysfs");
  if (n == 1 || !tni_topology_hwloc(NULL, &cpus, &n, machine.source, sizeof machine.source))
    tni_topology_sysfs("", cpus, n);
  tni_topology_arrange(cpus, n, &machine);
  machine.whole = n >= sysconf(_SC_NPROCESSORS_ONLN);
}

const tni_topology *tni_topology_get(void) {
  const tni_topology *other = atomic_load_explicit(&pretended, memory_order_acquire);
  if (other) return other;
  if (!atomic_load_explicit(&machine_known, memory_order_acquire)) {
    tni_mutex_lock(&machine_mutex);
    if (!atomic_load_explicit(&machine_known, memory_order_relaxed)) read_machine();
    atomic_store_explicit(&machine_known, true, memory_order_release);
    tni_mutex_unlock(&machine_mutex);
  }
  return &machine;
}

void tni_topology_pretend(const tni_topology *t) { atomic_store(&pretended, t); }

int32_t tni_topology_threads(void) {
  int32_t cores = tni_topology_get()->n_cores, quota = tni_cgroup_cpus("");
  return cores < quota ? cores : quota;
}

/* ------------------------------------------------------------------ binding */

/* See Note [Binding]. */
static int policy(const tni_topology *t) {
  const char *wish = getenv("TENON_BIND");
  for (int i = 0; wish && i < 3; ++i)
    if (strcmp(wish, bind_names[i]) == 0) return i;
  if (wish && *wish && strcmp(wish, "auto") != 0)
    tn_log(TN_LOG_WARN, "TENON_BIND is '%s'; expected off, nodes, cores or auto; auto is used", wish);
  return t->whole && t->n_nodes > 1 ? BIND_NODES : BIND_OFF;
}

const char *tni_topology_binding(void) { return bind_names[policy(tni_topology_get())]; }

static bool never_binds(void) {
  const char *wish = getenv("TENON_BIND");
  return wish && strcmp(wish, "off") == 0;
}

/* Reading replaces the environment for a moment (Note [hwloc's plugins]), which no worker may do beside the program. */
void tni_topology_bind_prepare(void) {
  if (!never_binds()) (void)tni_topology_get();
}

/* A failure is no failure of the region: the thread runs where it may. */
void tni_topology_bind(int32_t index) {
  if (never_binds()) return; /* before the topology is read */
  const tni_topology *t = tni_topology_get();
  int how = policy(t);
  if (how == BIND_OFF) return;
  int32_t most = 0;
  const tni_cpu *own = &t->cpus[index % t->n_cpus];
  for (int32_t i = 0; i < t->n_cpus; ++i)
    if (t->cpus[i].number > most) most = t->cpus[i].number;
  cpu_set_t *set = CPU_ALLOC((size_t)most + 1);
  size_t bytes = CPU_ALLOC_SIZE((size_t)most + 1);
  if (!set) return;
  CPU_ZERO_S(bytes, set);
  for (int32_t i = 0; i < t->n_cpus; ++i)
    if (how == BIND_NODES ? t->cpus[i].node == own->node : &t->cpus[i] == own)
      CPU_SET_S((size_t)t->cpus[i].number, bytes, set);
  if (sched_setaffinity(0, bytes, set) != 0) tn_log(TN_LOG_DEBUG, "worker %d cannot be bound", index);
  CPU_FREE(set);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processors this process may use, which of them share a core and a memory node, and in which order threads
 * take them. Read once, when the first region or thread count asks for it: hwloc takes time to load, and a
 * listing of devices has no need of it.
 */
#ifndef TENON_CORE_TOPOLOGY_H
#define TENON_CORE_TOPOLOGY_H

#include "core/base/base.h"

typedef struct tni_cpu {
  int32_t number; /* the kernel's */
  int32_t core;   /* equal for processors that share one; -1: nobody says */
  int32_t node;   /* of memory */
} tni_cpu;

typedef struct tni_topology {
  tni_cpu *cpus; /* n_cpus: one of each core, node by node; then second ones of a core, and so on */
  int32_t n_cpus, n_cores, n_nodes;
  bool whole; /* no affinity mask keeps the process from a part of the machine */
  char source[32];
} tni_topology;

/* Borrowed for good, never NULL. Any thread. */
const tni_topology *tni_topology_get(void);
/* Threads by default: its cores, or as many as the cgroup's quota has processors' worth of time. */
int32_t tni_topology_threads(void);

/* Binds the calling thread as worker `index` of the pool should be: TENON_BIND. */
void tni_topology_bind(int32_t index);
/* Reads what binding needs, on the calling thread: before workers run that call tni_topology_bind. */
void tni_topology_bind_prepare(void);
/* What TENON_BIND comes to on this machine: "off", "nodes" or "cores". */
const char *tni_topology_binding(void);

/* ------------------------------------------------------------------ its parts; tests see them, too */

/* The numbers of the processors in the calling thread's affinity mask, ascending; owned (tni_free). 0: no memory. */
int32_t tni_cpus_allowed(tni_cpu **out_cpus);
/* Sorts the processors as tni_topology says and counts. Consumes cpus. */
void tni_topology_arrange(tni_cpu *cpus, int32_t n_cpus, tni_topology *out_topology);
/* Fill in core and node of each processor. root: "" or a folder that stands for "/". synthetic: NULL for this machine,
 * or a description for hwloc; then *out_cpus is made, of all its processors. false: cannot say. */
void tni_topology_sysfs(const char *root, tni_cpu *cpus, int32_t n_cpus);
bool tni_topology_hwloc(const char *synthetic, tni_cpu **cpus, int32_t *n_cpus, char *out_source,
                        size_t size);
/* Processors' worth of time that the process's cgroups allow, rounded up; INT32_MAX: no limit. */
int32_t tni_cgroup_cpus(const char *root);
/* Makes tni_topology_get answer t (borrowed), NULL: the machine's again; tests. */
void tni_topology_pretend(const tni_topology *t);

#endif

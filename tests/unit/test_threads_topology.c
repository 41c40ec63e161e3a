/* SPDX-License-Identifier: Apache-2.0
 *
 * core/base/topology*: which processors, cores and nodes; in which order threads take them; a cgroup's limit; binding;
 * and where fresh memory is put.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/parallel_int.h"
#include "core/base/topology.h"
#include "tn_test.h"

/* ------------------------------------------------------------------ a folder that stands for "/" */

static char root[64];

static void new_root(void) {
  snprintf(root, sizeof root, "/tmp/tenon-root-XXXXXX");
  TN_CHECK_NOT_NULL(mkdtemp(root));
}

static void put(const char *path, const char *words) {
  char full[512];
  snprintf(full, sizeof full, "%s%s", root, path);
  for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    (void)mkdir(full, 0700);
    *slash = '/';
  }
  FILE *f = fopen(full, "w");
  TN_CHECK_NOT_NULL(f);
  TN_CHECK(fputs(words, f) >= 0);
  TN_CHECK_INT(fclose(f), 0);
}

static void drop_root(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  TN_CHECK_INT(system(command), 0);
}

/* ------------------------------------------------------------------ cgroups */

TN_TEST(threads_cgroup, without_files_there_is_no_limit) {
  new_root();
  TN_CHECK_INT(tni_cgroup_cpus(root), INT32_MAX);
  put("/proc/self/cgroup", "0::/a\n");
  TN_CHECK_INT(tni_cgroup_cpus(root), INT32_MAX);
  put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  TN_CHECK_INT(tni_cgroup_cpus(root), INT32_MAX);
  drop_root();
}

TN_TEST(threads_cgroup, version_2_counts_the_least_of_all_groups_around) {
  new_root();
  put("/proc/self/cgroup", "0::/a/b/c\n");
  put("/sys/fs/cgroup/a/b/c/cpu.max", "550000 100000\n");
  TN_CHECK_INT(tni_cgroup_cpus(root), 6);
  put("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  TN_CHECK_INT(tni_cgroup_cpus(root), 3);
  put("/sys/fs/cgroup/a/b/cpu.max", "10000 100000\n");
  TN_CHECK_INT(tni_cgroup_cpus(root), 1);
  drop_root();
}

TN_TEST(threads_cgroup, version_1_is_read_from_the_cpu_controller_only) {
  new_root();
  put("/proc/self/cgroup", "4:cpuset,cpus:/x\n3:cpu,cpuacct:/outside/name\n2:memory:/x\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n"); /* of the container's own root */
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  TN_CHECK_INT(tni_cgroup_cpus(root), INT32_MAX);
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "110000\n");
  TN_CHECK_INT(tni_cgroup_cpus(root), 3);
  put("/sys/fs/cgroup/cpuset,cpus/x/cpu.max", "1 100000\n");
  TN_CHECK_INT(tni_cgroup_cpus(root), 3);
  drop_root();
}

TN_TEST(threads_cgroup, nonsense_is_no_limit) {
  static const char *const lines[] = {"", ":", "0:", "0::", "x:y:z", "0::/a/../..//\n", "::::\n", "1:cpu"};
  new_root();
  put("/sys/fs/cgroup/cpu.max", "0 0\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "what\n");
  for (size_t i = 0; i < sizeof lines / sizeof *lines; ++i) {
    put("/proc/self/cgroup", lines[i]);
    TN_CHECK_INT(tni_cgroup_cpus(root), INT32_MAX);
  }
  drop_root();
}

/* ------------------------------------------------------------------ cores and nodes */

static tni_cpu *some_cpus(int32_t n) {
  tni_cpu *cpus = tni_alloc((size_t)n * sizeof *cpus);
  for (int32_t i = 0; cpus && i < n; ++i) cpus[i] = (tni_cpu){i, -1, 0};
  return cpus;
}

TN_TEST(threads_topology, files_of_the_kernel_give_cores_and_nodes) {
  tni_topology t;
  char path[128], words[32];
  new_root();
  for (int i = 0; i < 8; ++i) { /* processor i and i + 4 share a core; the old name for half of them */
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", i,
             i % 2 ? "core_cpus_list" : "thread_siblings_list");
    snprintf(words, sizeof words, "%d,%d\n", i % 4, i % 4 + 4);
    put(path, words);
  }
  put("/sys/devices/system/node/online", "0,2\n");
  put("/sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
  put("/sys/devices/system/node/node1/cpulist", "0-7\n"); /* not online */
  put("/sys/devices/system/node/node2/cpulist", "2-3,6-7\n");
  tni_cpu *cpus = some_cpus(8);
  tni_topology_sysfs(root, cpus, 8);
  tni_topology_arrange(cpus, 8, &t);
  TN_CHECK_INT(t.n_cpus, 8);
  TN_CHECK_INT(t.n_cores, 4);
  TN_CHECK_INT(t.n_nodes, 2);
  for (int i = 0; i < 8; ++i) TN_CHECK_INT(t.cpus[i].number, i); /* one of each core first, node by node */
  TN_CHECK_INT(t.cpus[3].node, 2);
  tni_free(cpus);
  drop_root();
}

TN_TEST(threads_topology, siblings_with_neighbouring_numbers_come_last) {
  static const int expected[] = {0, 2, 4, 6, 1, 3, 5, 7};
  tni_topology t;
  tni_cpu *cpus = some_cpus(8);
  for (int i = 0; i < 8; ++i) cpus[i].core = i / 2;
  tni_topology_arrange(cpus, 8, &t);
  TN_CHECK_INT(t.n_cores, 4);
  for (int i = 0; i < 8; ++i) TN_CHECK_INT(t.cpus[i].number, expected[i]);
  tni_free(cpus);
}

TN_TEST(threads_topology, processors_of_which_nothing_is_known_are_cores) {
  tni_topology t;
  new_root();
  tni_cpu *cpus = some_cpus(3);
  tni_topology_sysfs(root, cpus, 3);
  tni_topology_arrange(cpus, 3, &t);
  TN_CHECK_INT(t.n_cores, 3);
  TN_CHECK_INT(t.n_nodes, 1);
  tni_free(cpus);
  drop_root();
}

/* The machines that this one is not. Where hwloc is not there, or built without, nothing is to be seen. */
TN_TEST(threads_topology, hwloc_describes_machines_with_several_nodes) {
  static const struct {
    const char *machine;
    int cpus, cores, nodes, second; /* second: the processor that the second thread takes */
  } cases[] = {{"node:2 core:4 pu:2", 16, 8, 2, 2},
               {"core:3 pu:1", 3, 3, 1, 1},
               {"package:2 node:2 core:2 pu:4", 32, 8, 4, 4},
               {"pu:5", 5, 5, 1, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    tni_topology t;
    tni_cpu *cpus = NULL;
    int32_t n = 0;
    char source[32] = "";
    if (!tni_topology_hwloc(cases[i].machine, &cpus, &n, source, sizeof source)) return;
    TN_CHECK_CONTAINS(source, "hwloc 2.");
    tni_topology_arrange(cpus, n, &t);
    TN_CHECK_INT(t.n_cpus, cases[i].cpus);
    TN_CHECK_INT(t.n_cores, cases[i].cores);
    TN_CHECK_INT(t.n_nodes, cases[i].nodes);
    TN_CHECK_INT(t.cpus[1].number, cases[i].second);
    for (int c = 0; c < t.n_cores; ++c) /* physical cores first */
      for (int d = 0; d < c; ++d) TN_CHECK(t.cpus[c].core != t.cpus[d].core);
    tni_free(cpus);
  }
}

TN_TEST(threads_topology, hwloc_and_the_kernels_files_agree_on_this_machine) {
  tni_cpu *one, *other;
  int32_t n = tni_cpus_allowed(&one), m = tni_cpus_allowed(&other);
  tni_topology a, b;
  char source[32];
  TN_CHECK(n >= 1);
  TN_CHECK_INT(n, m);
  if (tni_topology_hwloc(NULL, &one, &n, source, sizeof source)) {
    tni_topology_sysfs("", other, m);
    tni_topology_arrange(one, n, &a);
    tni_topology_arrange(other, m, &b);
    TN_CHECK_INT(a.n_cpus, b.n_cpus);
    TN_CHECK_INT(a.n_cores, b.n_cores);
    TN_CHECK_INT(a.n_nodes, b.n_nodes);
  }
  tni_free(one);
  tni_free(other);
}

TN_TEST(threads_topology, the_affinity_mask_is_kept_to) {
  cpu_set_t all, one;
  TN_CHECK_INT(sched_getaffinity(0, sizeof all, &all), 0);
  int last = 0;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &all)) last = i;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  TN_CHECK_INT(sched_setaffinity(0, sizeof one, &one), 0);
  tni_cpu *cpus;
  TN_CHECK_INT(tni_cpus_allowed(&cpus), 1);
  TN_CHECK_INT(cpus[0].number, last);
  TN_CHECK_INT(tni_cpu_count(), 1);
  tni_free(cpus);
  TN_CHECK_INT(sched_setaffinity(0, sizeof all, &all), 0);
}

/* ------------------------------------------------------------------ binding and first touch */

static _Atomic int bound_to; /* processors in the mask of worker 1 */
static tn_status look_at_mask(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  (void)begin, (void)end, (void)ctx;
  cpu_set_t set;
  if (worker == 0) { /* leave chunk 1 to its worker */
    for (int i = 0; i < 2000 && !bound_to; ++i) usleep(1000);
    return TN_OK;
  }
  if (sched_getaffinity(0, sizeof set, &set) == 0) bound_to = CPU_COUNT(&set);
  return TN_OK;
}

static int processors_of_a_worker(const char *bind) {
  TN_CHECK_INT(setenv("TENON_BIND", bind, 1), 0);
  bound_to = 0;
  tni_parallel_stop();
  TN_CHECK_OK(tni_parallel_set_threads(2));
  TN_CHECK_OK(tni_parallel_for(2, 1, look_at_mask, NULL));
  tni_parallel_stop();
  TN_CHECK_INT(unsetenv("TENON_BIND"), 0);
  return bound_to;
}

TN_TEST(threads_topology, workers_are_bound_as_asked_and_on_one_node_by_default_not) {
  int32_t before = tni_parallel_threads();
  int n = tni_topology_get()->n_cpus;
  TN_CHECK_INT(processors_of_a_worker("cores"), 1);
  TN_CHECK_INT(processors_of_a_worker("off"), n);
  if (tni_topology_get()->n_nodes == 1) {
    TN_CHECK_INT(processors_of_a_worker("nodes"), n);
    TN_CHECK_INT(processors_of_a_worker("auto"), n);
  }
  TN_CHECK_OK(tni_parallel_set_threads(before));
}

/* Two nodes of which the second is this machine's last processor: workers land there, if the process is unbound. */
TN_TEST(threads_topology, by_default_workers_stay_on_their_node_unless_the_process_is_bound) {
  int32_t before = tni_parallel_threads();
  const tni_topology *real = tni_topology_get();
  if (real->n_cpus < 2) return;
  tni_cpu cpus[2] = {real->cpus[0], real->cpus[1]};
  cpus[0].node = 0, cpus[1].node = 1;
  tni_topology two = {cpus, 2, 2, 2, true, "two nodes"}, part = two;
  part.whole = false;
  tni_topology_pretend(&two);
  TN_CHECK_STR(tni_topology_binding(), "nodes");
  TN_CHECK_INT(processors_of_a_worker(""), 1);
  TN_CHECK_INT(processors_of_a_worker("off"), real->n_cpus);
  tni_topology_pretend(&part);
  TN_CHECK_INT(processors_of_a_worker(""), real->n_cpus);
  TN_CHECK_INT(processors_of_a_worker("nodes"), 1);
  tni_topology_pretend(NULL);
  TN_CHECK_OK(tni_parallel_set_threads(before));
}

enum { FRESH_BYTES = 8 << 20, FRESH_PAGES = FRESH_BYTES / 4096 };

static int pages_there(void *p) {
  static unsigned char there[FRESH_PAGES];
  int n = 0;
  TN_CHECK_INT(mincore(p, FRESH_BYTES, there), 0);
  for (int i = 0; i < FRESH_PAGES; ++i) n += there[i] & 1;
  return n;
}

TN_TEST(threads_topology, fresh_memory_is_touched_where_there_are_several_nodes) {
  int32_t before = tni_parallel_threads();
  const tni_topology *real = tni_topology_get();
  tni_topology one = *real, two = *real;
  one.n_nodes = 1, two.n_nodes = 2;
  TN_CHECK_OK(tni_parallel_set_threads(2));
  char *p = mmap(NULL, FRESH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TN_CHECK(p != MAP_FAILED);
  tni_topology_pretend(&one);
  tni_parallel_first_touch(p, FRESH_BYTES);
  TN_CHECK_INT(pages_there(p), 0);
  tni_topology_pretend(&two);
  tni_parallel_first_touch(p, 4096); /* small: not worth it */
  TN_CHECK_INT(pages_there(p), 0);
  tni_parallel_first_touch(p, FRESH_BYTES);
  TN_CHECK_INT(pages_there(p), FRESH_PAGES);
  tni_parallel_first_touch(NULL, FRESH_BYTES); /* memory that the host cannot write */
  tni_topology_pretend(NULL);
  TN_CHECK_INT(munmap(p, FRESH_BYTES), 0);
  TN_CHECK_OK(tni_parallel_set_threads(before));
  tni_parallel_stop();
}

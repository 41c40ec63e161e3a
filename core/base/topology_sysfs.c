/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel says in files: who shares a core, which node has whom, and a cgroup's share of time. Used where
 * hwloc is not there; the share of time always, since hwloc does not know it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/topology.h"

/* ------------------------------------------------------------------ small files */

enum { PATH_ROOM = 1024, LINE_ROOM = 4096 };

/* The first line; false: there is no such file. */
static bool read_line(const char *path, char *line, size_t size) {
  FILE *f = fopen(path, "re");
  if (!f) return false;
  bool good = fgets(line, (int)size, f) != NULL;
  fclose(f);
  if (good) line[strcspn(line, "\n")] = 0;
  return good;
}

/* Is number in a list like "0-3,8,10-11"? */
static bool in_list(const char *list, long number) {
  while (*list) {
    char *end;
    long low = strtol(list, &end, 10), high = low;
    if (end == list) return false;
    if (*end == '-') high = strtol(end + 1, &end, 10);
    if (number >= low && number <= high) return true;
    list = *end ? end + 1 : end;
  }
  return false;
}

/* ------------------------------------------------------------------ cores and nodes */

/* A core is called by the lowest number of its processors. */
static int32_t core_of(const char *root, int32_t number) {
  static const char *const names[] = {"core_cpus_list",
                                      "thread_siblings_list"}; /* the second until Linux 5.5 */
  char path[PATH_ROOM], line[LINE_ROOM];
  for (int i = 0; i < 2; ++i) {
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/%s", root, number, names[i]);
    if (read_line(path, line, sizeof line) && *line >= '0' && *line <= '9')
      return (int32_t)strtol(line, NULL, 10);
  }
  return -1;
}

void tni_topology_sysfs(const char *root, tni_cpu *cpus, int32_t n_cpus) {
  enum { NODES_MOST = 4096 };
  char path[PATH_ROOM], online[LINE_ROOM], line[LINE_ROOM];
  for (int32_t i = 0; i < n_cpus; ++i) cpus[i].core = core_of(root, cpus[i].number);
  snprintf(path, sizeof path, "%s/sys/devices/system/node/online", root);
  if (!read_line(path, online, sizeof online)) return;
  for (int node = 0; node < NODES_MOST; ++node) {
    if (!in_list(online, node)) continue;
    snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/cpulist", root, node);
    if (!read_line(path, line, sizeof line)) continue;
    for (int32_t i = 0; i < n_cpus; ++i)
      if (in_list(line, cpus[i].number)) cpus[i].node = node;
  }
}

/* ------------------------------------------------------------------ cgroups */

/* Note [Quota]
 * A group may use `quota` microseconds of processor time a period, and so may each group around it; the least counts.
 * Version 2 keeps both in cpu.max, version 1 in two files of the cpu controller. A container may see its own group as
 * the root of the hierarchy while /proc names it by its path outside: so every folder on the way up from that path is
 * looked at, those that do not exist are passed over, and the root always exists. */
static int32_t quota_at(const char *folder, bool v2) {
  char path[PATH_ROOM + LINE_ROOM + 32], line[128];
  long long quota = -1, period = -1;
  if (v2) {
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lld %lld", &quota, &period) != 2)
      return INT32_MAX;
  } else {
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lld", &quota) != 1) return INT32_MAX;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lld", &period) != 1) return INT32_MAX;
  }
  if (quota <= 0 || period <= 0) return INT32_MAX; /* no limit */
  long long cpus = quota / period + (quota % period != 0);
  return cpus > INT32_MAX ? INT32_MAX : (int32_t)cpus;
}

static int32_t least_upwards(const char *mount, const char *group, bool v2) {
  char folder[PATH_ROOM + LINE_ROOM];
  size_t top = strlen(mount);
  int32_t least = INT32_MAX;
  memcpy(folder, mount, top);
  memcpy(folder + top, group, strlen(group) + 1); /* part of a line */
  for (;;) {
    int32_t n = quota_at(folder, v2);
    if (n < least) least = n;
    char *slash = strrchr(folder + top, '/');
    if (!slash) return least;
    *slash = 0;
  }
}

static bool has_word(const char *list, size_t n, const char *word) {
  size_t length = strlen(word);
  for (size_t i = 0; i + length <= n; ++i) {
    bool starts = i == 0 || list[i - 1] == ',', ends = i + length == n || list[i + length] == ',';
    if (starts && ends && strncmp(list + i, word, length) == 0) return true;
  }
  return false;
}

/* A line is "number:controllers:/path"; version 2 has number 0 and no controllers. */
static int32_t quota_of_line(const char *root, char *line) {
  static const char *const mounts[2][2] = {{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"},
                                           {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}};
  char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return INT32_MAX;
  size_t n = (size_t)(group - controllers - 1);
  bool v2 = n == 0 && strncmp(line, "0:", 2) == 0;
  if (!v2 && !has_word(controllers + 1, n, "cpu")) return INT32_MAX;
  group[strcspn(group, "\n")] = 0;
  int32_t least = INT32_MAX;
  for (int i = 0; i < 2; ++i) {
    char mount[PATH_ROOM];
    snprintf(mount, sizeof mount, "%s%s", root, mounts[v2][i]);
    int32_t quota = least_upwards(mount, group + 1, v2);
    if (quota < least) least = quota;
  }
  return least;
}

int32_t tni_cgroup_cpus(const char *root) {
  char line[LINE_ROOM];
  int32_t least = INT32_MAX;
  snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
  FILE *f = fopen(line, "re");
  while (f && fgets(line, sizeof line, f)) {
    int32_t quota = quota_of_line(root, line);
    if (quota < least) least = quota;
  }
  if (f) fclose(f);
  return least;
}

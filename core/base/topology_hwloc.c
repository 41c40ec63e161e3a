/* SPDX-License-Identifier: Apache-2.0
 *
 * Cores and nodes as hwloc sees them. It is opened when it is needed and closed at once. Where it cannot be opened,
 * topology_sysfs.c answers. Builds without its header (TN_HWLOC off) always answer so.
 *
 * Note [hwloc's plugins]
 * hwloc opens all of its own plugins, for OpenCL, X11, PCI and XML, before it can be told that nothing is asked of
 * them: a dozen libraries, 2 to 7 ms of time, and some of them leave memory behind. Only a variable of the
 * environment keeps it from that. So while it starts, an environment stands in that has HWLOC_PLUGINS_PATH empty.
 * setenv would free or move what other threads read; the one that stands in is kept.
 */
#include <stdio.h>

#include "core/base/topology.h"

#ifdef TN_HWLOC

#include <dlfcn.h>
#include <hwloc.h>
#include <unistd.h>

/* Of hwloc 2; the number in the file's name is that of its ABI. */
#define FUNCTIONS(F)               \
  F(get_api_version)               \
  F(topology_init)                 \
  F(topology_set_flags)            \
  F(topology_set_components)       \
  F(topology_set_synthetic)        \
  F(topology_set_all_types_filter) \
  F(topology_set_type_filter)      \
  F(topology_load)                 \
  F(topology_destroy)              \
  F(get_type_depth)                \
  F(get_nbobjs_by_depth)           \
  F(get_obj_by_depth)              \
  F(bitmap_isset)

typedef struct library {
  void *handle;
#define MEMBER(name) __typeof__(hwloc_##name) *name;
  FUNCTIONS(MEMBER)
#undef MEMBER
} library;

static bool open_library(library *l) {
  l->handle = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
  if (!l->handle) return false;
  bool good = true;
#define LOOK_UP(function)                                 \
  {                                                       \
    void *address = dlsym(l->handle, "hwloc_" #function); \
    memcpy(&l->function, &address, sizeof address);       \
    good &= address != NULL;                              \
  }
  FUNCTIONS(LOOK_UP)
#undef LOOK_UP
  if (good && l->get_api_version() >> 16 == 2) return true;
  dlclose(l->handle);
  return false;
}

/* A copy of the environment for Note [hwloc's plugins]; NULL: no memory. */
static char **environment_without_plugins(void) {
  static char setting[] = "HWLOC_PLUGINS_PATH=";
  static char **copies; /* all that were made, each begins with the one before */
  size_t n = 0, kept = 1;
  while (environ && environ[n]) ++n;
  char **copy = tni_alloc((n + 3) * sizeof *copy);
  if (!copy) return NULL;
  copy[0] = (char *)copies;
  for (size_t i = 0; i < n; ++i)
    if (strncmp(environ[i], setting, sizeof setting - 1) != 0) copy[kept++] = environ[i];
  copy[kept++] = setting;
  copy[kept] = NULL;
  copies = copy;
  return copy + 1;
}

static bool start(const library *l, hwloc_topology_t *out_topology) {
  char **theirs = environ, **ours = environment_without_plugins();
  if (ours) environ = ours;
  bool good = l->topology_init(out_topology) == 0;
  environ = theirs;
  return good;
}

/* The component for x86 would move this thread over all processors. */
static bool load(const library *l, const char *synthetic, hwloc_topology_t *out_topology) {
  hwloc_topology_t t;
  if (!start(l, &t)) return false;
#if HWLOC_API_VERSION >= 0x00020500
  l->topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
#endif
  l->topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  if ((!synthetic || l->topology_set_synthetic(t, synthetic) == 0) && l->topology_load(t) == 0) {
    *out_topology = t;
    return true;
  }
  l->topology_destroy(t);
  return false;
}

static unsigned count_of(const library *l, hwloc_topology_t t, hwloc_obj_type_t type) {
  int depth = l->get_type_depth(t, type);
  return depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE
             ? 0
             : l->get_nbobjs_by_depth(t, depth);
}

static hwloc_obj_t object(const library *l, hwloc_topology_t t, hwloc_obj_type_t type, unsigned i) {
  return l->get_obj_by_depth(t, l->get_type_depth(t, type), i);
}

/* All processors of a synthetic machine, which has no affinity mask. */
static bool make_cpus(const library *l, hwloc_topology_t t, tni_cpu **out_cpus, int32_t *out_n) {
  unsigned n = count_of(l, t, HWLOC_OBJ_PU);
  *out_cpus = tni_alloc(n * sizeof **out_cpus);
  if (!n || !*out_cpus) return false;
  for (unsigned i = 0; i < n; ++i)
    (*out_cpus)[i] = (tni_cpu){(int32_t)object(l, t, HWLOC_OBJ_PU, i)->os_index, -1, 0};
  *out_n = (int32_t)n;
  return true;
}

static void fill(const library *l, hwloc_topology_t t, tni_cpu *cpus, int32_t n_cpus) {
  unsigned cores = count_of(l, t, HWLOC_OBJ_CORE), nodes = count_of(l, t, HWLOC_OBJ_NUMANODE);
  for (unsigned i = 0; i < cores; ++i)
    for (int32_t k = 0; k < n_cpus; ++k)
      if (l->bitmap_isset(object(l, t, HWLOC_OBJ_CORE, i)->cpuset, (unsigned)cpus[k].number))
        cpus[k].core = (int32_t)i;
  for (unsigned i = 0; i < nodes; ++i)
    for (int32_t k = 0; k < n_cpus; ++k)
      if (l->bitmap_isset(object(l, t, HWLOC_OBJ_NUMANODE, i)->cpuset, (unsigned)cpus[k].number))
        cpus[k].node = (int32_t)object(l, t, HWLOC_OBJ_NUMANODE, i)->os_index;
}

bool tni_topology_hwloc(const char *synthetic, tni_cpu **cpus, int32_t *n_cpus, char *out_source,
                        size_t size) {
  library l;
  hwloc_topology_t t;
  if (!open_library(&l)) return false;
  bool good = load(&l, synthetic, &t);
  if (good) {
    unsigned version = l.get_api_version();
    if (synthetic) good = make_cpus(&l, t, cpus, n_cpus);
    if (good) fill(&l, t, *cpus, *n_cpus);
    if (good) snprintf(out_source, size, "hwloc %u.%u", version >> 16, version >> 8 & 255);
    l.topology_destroy(t);
  }
  dlclose(l.handle);
  return good;
}

#else

bool tni_topology_hwloc(const char *synthetic, tni_cpu **cpus, int32_t *n_cpus, char *out_source,
                        size_t size) {
  (void)synthetic, (void)cpus, (void)n_cpus, (void)out_source, (void)size;
  return false;
}

#endif

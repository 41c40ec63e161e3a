/* SPDX-License-Identifier: Apache-2.0
 *
 * Which thread runtimes this process has loaded, by the names of its shared objects. Each has a pool of its own; two
 * pools that work at once take the processors from each other (a training step on two threads: 2.3 times slower).
 */
#include <link.h>

#include "core/base/parallel_int.h"

/* The file's name begins with `name`, and what follows is a version, a hash or a suffix: ".so.1", "-1a2b3c.so.1".
 * libtbbmalloc and libtbbbind have no threads. */
static const struct {
  const char *name, *what;
} known[] = {{"libgomp", "GNU OpenMP"},    {"libomp", "LLVM OpenMP"}, {"libomp5", "LLVM OpenMP"},
             {"libiomp5", "Intel OpenMP"}, {"libtbb", "oneTBB"},      {"libtbb_debug", "oneTBB"},
             {"libnvomp", "NVIDIA OpenMP"}};

const char *tni_runtime_called(const char *path) {
  const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    size_t n = strlen(known[i].name);
    if (strncmp(file, known[i].name, n) == 0 && (file[n] == '.' || file[n] == '-') && strstr(file + n, ".so"))
      return known[i].what;
  }
  return NULL;
}

typedef struct collection {
  tni_runtime *items;
  size_t count, most;
} collection;

static int collect(struct dl_phdr_info *info, size_t size, void *p) {
  (void)size;
  collection *c = p;
  const char *what = info->dlpi_name ? tni_runtime_called(info->dlpi_name) : NULL;
  if (!what) return 0;
  if (c->count < c->most) c->items[c->count] = (tni_runtime){what, info->dlpi_name};
  c->count++;
  return 0;
}

size_t tni_runtimes_loaded(tni_runtime *out_runtimes, size_t most) {
  collection c = {out_runtimes, 0, most};
  dl_iterate_phdr(collect, &c);
  return c.count;
}

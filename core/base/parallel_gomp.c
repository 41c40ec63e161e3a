/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor over libgomp: for processes in which a provider computes with OpenMP, so that its threads and ours are
 * the same ones.
 *
 * The core links no OpenMP, and no compiler flag: a clang build would bring libomp as a second runtime. What gcc makes
 * of `#pragma omp parallel` is a call of GOMP_parallel, which is looked up here in the library that the provider has
 * loaded. Each thread that calls has a team of its own in libgomp; parallel.c lets one region run at a time, so the
 * other teams sleep.
 *
 * Note [libgomp and fork]
 * A child of a process in which libgomp has run a team waits for ever in its first region of more than one thread.
 * There our own threads run the regions, and libgomp is held to one: by the number that omp_get_max_threads gives,
 * which providers go by, and by zero levels of parallelism, which holds whatever number a caller asks for.
 */
#include <dlfcn.h>

#include "core/base/parallel_int.h"

static struct {
  void (*parallel)(void (*fn)(void *data), void *data, unsigned threads, unsigned flags);
  int (*thread_num)(void);
  int (*num_threads)(void);
  void (*set_num_threads)(int n);
  void (*set_max_active_levels)(int n);
  _Atomic bool open;
} gomp;

/* A function's address is copied, not cast: ISO C knows no cast from void * to it. */
static bool look_up(void *library, const char *name, void *out_function) {
  void *address = dlsym(library, name);
  memcpy(out_function, &address, sizeof address);
  return address != NULL;
}

bool tni_gomp_open(void) {
  if (atomic_load(&gomp.open)) return true;
  void *library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD); /* stays: threads run in it */
  if (!library) return false;
  bool good = look_up(library, "GOMP_parallel", &gomp.parallel) &&
              look_up(library, "omp_get_thread_num", &gomp.thread_num) &&
              look_up(library, "omp_get_num_threads", &gomp.num_threads) &&
              look_up(library, "omp_set_num_threads", &gomp.set_num_threads) &&
              look_up(library, "omp_set_max_active_levels", &gomp.set_max_active_levels);
  atomic_store(&gomp.open, good);
  if (!good) dlclose(library);
  return good;
}

/* Each thread of the team. There may be fewer than asked for: OMP_THREAD_LIMIT, or a caller in a region of its own. */
static void team_main(void *p) {
  tni_region *r = p;
  int32_t threads = gomp.num_threads();
  for (int32_t i = gomp.thread_num(); i < r->n_chunks; i += threads) tni_chunk_run(&r->chunks, i);
}

void tni_gomp_run(tni_region *r) { gomp.parallel(team_main, r, (unsigned)r->n_chunks, 0); }

void tni_gomp_hold(void) {
  if (!atomic_load(&gomp.open)) return;
  gomp.set_num_threads(1);
  gomp.set_max_active_levels(0);
}

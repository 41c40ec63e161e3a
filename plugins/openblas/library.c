/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses OpenBLAS's kernels and keeps it from starting threads.
 *
 * Note [Which kernels]
 * OpenBLAS chooses when it is loaded, by the processor's model number and by OPENBLAS_CORETYPE; both may name
 * another chip than this one, and OPENBLAS_L2_SIZE changes block sizes. So init chooses again, by feature
 * bits: the library is made to look at an environment in which the wanted name stands. That is safe only
 * while nobody computes with it: if the process had the library before this plugin came, it stays as it is,
 * and is used where its kernels are ones that table.c knows.
 *
 * Note [One thread runtime]
 * Threads are the host's. Each call here runs on the thread that makes it, on a piece whose borders come from
 * shapes alone. A build over OpenMP asks its runtime how many threads the calling thread may use: that is set
 * to 1 around the calls and put back, so other users of OpenMP see nothing. A build over pthreads has one
 * number for the whole process; it is set to 1 if the library is ours alone, else the plugin stands back.
 */
#include "plugins/openblas/library.h"

#include <cblas.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <tenon/kit/status.h>
#include <unistd.h>

/* Of a build with several kernels (DYNAMIC_ARCH) and of its OpenMP runtime; elsewhere they are NULL. */
extern void gotoblas_dynamic_init(void) __attribute__((weak));
extern void gotoblas_dynamic_quit(void) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int n) __attribute__((weak));

static const char *const core_names[OB_CORES] = {[OB_HASWELL] = "Haswell", [OB_SKYLAKEX] = "SkylakeX"};
static ob_core core_now;
static char words[128];

ob_core ob_library_core(void) { return core_now; }
const char *ob_library_words(void) { return words; }

/* ------------------------------------------------------------------ threads */

bool ob_library_single(void) {
  return openblas_get_parallel() != OPENBLAS_THREAD || openblas_get_num_threads() == 1;
}

int ob_single_begin(void) {
  if (!omp_get_max_threads || !omp_set_num_threads) return 1;
  int before = omp_get_max_threads();
  if (before != 1) omp_set_num_threads(1);
  return before;
}

void ob_single_end(int before) {
  if (before != 1) omp_set_num_threads(before);
}

/* ------------------------------------------------------------------ who loaded it */

typedef struct search {
  const void *library, *plugin; /* where they are mapped */
  bool plugin_seen, library_first;
} search;

/* Objects come in the order in which they were loaded. */
static int visit(struct dl_phdr_info *info, size_t size, void *p) {
  search *s = p;
  const void *base = (const void *)info->dlpi_addr;
  if (base == s->plugin) s->plugin_seen = true;
  if (base == s->library) s->library_first = !s->plugin_seen;
  return 0;
}

/* Was the library in the process before this plugin? */
static bool loaded_before(void) {
  Dl_info library, plugin;
  if (!dladdr((void *)openblas_get_corename, &library) || !dladdr(core_names, &plugin)) return true;
  search s = {library.dli_fbase, plugin.dli_fbase, false, true};
  dl_iterate_phdr(visit, &s);
  return s.library_first;
}

/* ------------------------------------------------------------------ kernels */

/* TENON_CPU_ISA lowers the choice, as it does for the CPU plugin. OB_CORES: none. */
static ob_core wanted_core(void) {
  const char *isa = getenv("TENON_CPU_ISA");
  bool scalar = isa && strcmp(isa, "scalar") == 0, avx2 = isa && strcmp(isa, "avx2") == 0;
#if defined(__x86_64__)
  if (scalar || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return OB_CORES;
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return wide && !avx2 ? OB_SKYLAKEX : OB_HASWELL;
#else
  (void)scalar, (void)avx2;
  return OB_CORES;
#endif
}

static bool is_variable(const char *setting, const char *name) {
  size_t n = strlen(name);
  return strncmp(setting, name, n) == 0 && setting[n] == '=';
}

/* This process's environment with OPENBLAS_CORETYPE as given and without OPENBLAS_L2_SIZE. Never freed:
 * another thread may be reading it while it stands in. */
static char **environment_for(char *core_setting) {
  size_t n = 0, kept = 0;
  while (environ && environ[n]) ++n;
  char **copy = malloc((n + 2) * sizeof *copy);
  if (!copy) return NULL;
  for (size_t i = 0; i < n; ++i)
    if (!is_variable(environ[i], "OPENBLAS_CORETYPE") && !is_variable(environ[i], "OPENBLAS_L2_SIZE"))
      copy[kept++] = environ[i];
  copy[kept++] = core_setting;
  copy[kept] = NULL;
  return copy;
}

/* See Note [Which kernels]. The environment is put back; setenv would free or move what other threads read.
 */
static tn_status choose_again(ob_core wanted) {
  static char setting[64];
  static char **ours;
  snprintf(setting, sizeof setting, "OPENBLAS_CORETYPE=%s", core_names[wanted]);
  if (!ours) ours = environment_for(setting);
  if (!ours) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "openblas: no memory for a copy of the environment");
  char **theirs = environ;
  environ = ours;
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  environ = theirs;
  return TN_OK;
}

/* Cooperlake's float32 and float64 kernels are SkylakeX's; Zen's are Haswell's. */
static ob_core core_called(const char *name) {
  if (strcasecmp(name, "SkylakeX") == 0 || strcasecmp(name, "Cooperlake") == 0) return OB_SKYLAKEX;
  if (strcasecmp(name, "Haswell") == 0 || strcasecmp(name, "Zen") == 0) return OB_HASWELL;
  return OB_CORES;
}

static tn_status choose_kernels(bool ours) {
  ob_core wanted = wanted_core();
  if (wanted == OB_CORES)
    return TN_FAIL(TN_ERR_UNAVAILABLE,
                   "OpenBLAS is used from AVX2 with FMA on; this processor (or TENON_CPU_ISA) "
                   "allows less, and there the CPU plugin's own kernels are as good");
  if (ours && gotoblas_dynamic_init && gotoblas_dynamic_quit) TN_TRY(choose_again(wanted));
  core_now = core_called(openblas_get_corename());
  if (core_now == wanted || (core_now == OB_HASWELL && !ours)) return TN_OK;
  return TN_FAIL(
      TN_ERR_UNAVAILABLE, "OpenBLAS runs its %s kernels here and cannot be changed (%s); %s were expected",
      openblas_get_corename(),
      ours ? "this build has no others" : "the process had loaded it before this plugin", core_names[wanted]);
}

static tn_status hold_threads(bool ours) {
  if (openblas_get_parallel() != OPENBLAS_THREAD) return TN_OK;
  if (ours) {
    openblas_set_num_threads(1);
    tn_kit_host()->log(TN_LOG_INFO,
                       "openblas: this libopenblas has a thread pool of its own; it is held to one "
                       "thread. The builds over OpenMP, or without threads, start none");
  } else if (openblas_get_num_threads() != 1) {
    return TN_FAIL(TN_ERR_UNAVAILABLE,
                   "libopenblas was loaded by another part of this process and runs %d threads of "
                   "its own: a second thread pool beside Tenon's; OPENBLAS_NUM_THREADS=1 allows it",
                   openblas_get_num_threads());
  }
  return TN_OK;
}

tn_status ob_library_open(void) {
  const char *config = openblas_get_config(); /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
  if (strstr(config, "USE64BITINT"))
    return TN_FAIL(TN_ERR_UNAVAILABLE,
                   "this libopenblas was built with 64-bit integers; 32-bit ones were expected");
  bool ours = !loaded_before();
  TN_TRY(choose_kernels(ours));
  TN_TRY(hold_threads(ours));
  const char *version = strncmp(config, "OpenBLAS ", 9) == 0 ? config + 9 : config;
  snprintf(words, sizeof words, "OpenBLAS %.*s, %s kernels", (int)strcspn(version, " "), version,
           openblas_get_corename());
  tn_kit_host()->log(TN_LOG_INFO, "openblas: %s", words);
  return TN_OK;
}

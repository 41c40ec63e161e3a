/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plugin needs of the machine: CPU features and paths, as its manifest lists them. Looked at before the
 * file is opened, because a file compiled for a missing feature may die in its constructor.
 */
#include <errno.h>
#include <unistd.h>

#include "core/load/load_int.h"

typedef struct cpu_feature {
  const char *name;
  bool here;
} cpu_feature;

#if defined(__x86_64__) || defined(__i386__)
#define FEATURE(name) \
  { name, __builtin_cpu_supports(name) != 0 }
#define CPU_FEATURES                                                                                        \
  FEATURE("sse3"), FEATURE("ssse3"), FEATURE("sse4.1"), FEATURE("sse4.2"), FEATURE("popcnt"),               \
      FEATURE("avx"), FEATURE("fma"), FEATURE("bmi"), FEATURE("bmi2"), FEATURE("avx2"), FEATURE("avx512f"), \
      FEATURE("avx512bw"), FEATURE("avx512dq"), FEATURE("avx512vl"), FEATURE("avx512cd"),                   \
      FEATURE("avx512vnni"), FEATURE("avx512vbmi"), FEATURE("avx512bf16")
#elif defined(__aarch64__)
#define CPU_FEATURES \
  { "neon", true }
#else
#define CPU_FEATURES \
  { "base", true }
#endif

static tn_status check_cpu(const char *name) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
#endif
  const cpu_feature features[] = {CPU_FEATURES};
  for (size_t i = 0; i < sizeof features / sizeof *features; ++i) {
    if (strcmp(features[i].name, name) != 0) continue;
    if (features[i].here) return TN_OK;
    return TN_FAIL(TN_ERR_UNAVAILABLE, "needs the CPU feature %s, which this CPU lacks", name);
  }
  return TN_FAIL(TN_ERR_DATA, "needs the CPU feature %s, which this host does not know", name);
}

tn_status tni_needs_check(const tni_manifest *m) {
  for (size_t i = 0; i < m->needs_cpu.count; ++i) TN_TRY(check_cpu(m->needs_cpu.items[i]));
  for (size_t i = 0; i < m->needs_path.count; ++i)
    if (access(m->needs_path.items[i], F_OK) != 0)
      return TN_FAIL(TN_ERR_UNAVAILABLE, "needs %s: %s", m->needs_path.items[i], strerror(errno));
  return TN_OK;
}

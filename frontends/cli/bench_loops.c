/* SPDX-License-Identifier: Apache-2.0
 *
 * The ceilings' loops for AVX-512, AVX2 and plain C. They are written apart from the kernels of any plugin: a
 * ceiling that shared the kernels' code would share their faults.
 */
#include "frontends/cli/bench_loops.h"

/* The short inner loops must lie flat, whatever the optimisation level. */
#ifdef __clang__
#define FLAT
#else
#define FLAT , optimize("O3")
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define NAME(x)      x##_avx512
#define TARGET       __attribute__((target("avx512f") FLAT))
#define VECTOR       __m512
#define LANES        16
#define LOAD(p)      _mm512_load_ps(p)
#define STORE(p, v)  _mm512_store_ps(p, v)
#define STREAM(p, v) _mm512_stream_ps(p, v)
#define FENCE        _mm_sfence()
#define SET(x)       _mm512_set1_ps(x)
#define ADD(x, y)    _mm512_add_ps(x, y)
#define FMA(x, y, z) _mm512_fmadd_ps(x, y, z)
#include "frontends/cli/bench_loops.inc"

#define NAME(x)      x##_avx2
#define TARGET       __attribute__((target("avx2,fma") FLAT))
#define VECTOR       __m256
#define LANES        8
#define LOAD(p)      _mm256_load_ps(p)
#define STORE(p, v)  _mm256_store_ps(p, v)
#define STREAM(p, v) _mm256_stream_ps(p, v)
#define FENCE        _mm_sfence()
#define SET(x)       _mm256_set1_ps(x)
#define ADD(x, y)    _mm256_add_ps(x, y)
#define FMA(x, y, z) _mm256_fmadd_ps(x, y, z)
#include "frontends/cli/bench_loops.inc"
#endif

/* Vectors of GCC and clang, which every processor's compiler maps as well as it can. */
typedef float four __attribute__((vector_size(16)));

#define NAME(x) x##_plain
#define TARGET
#define VECTOR       four
#define LANES        4
#define LOAD(p)      (*(const four *)(const void *)(p))
#define STORE(p, v)  (*(four *)(void *)(p) = (v))
#define STREAM(p, v) (*(four *)(void *)(p) = (v))
#define FENCE        (void)0
#define SET(x)       ((four){(x), (x), (x), (x)})
#define ADD(x, y)    ((x) + (y))
#define FMA(x, y, z) ((x) * (y) + (z))
#include "frontends/cli/bench_loops.inc"

const tni_loops *tni_loops_best(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx512f")) return &loops_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &loops_avx2;
#endif
  return &loops_plain;
}

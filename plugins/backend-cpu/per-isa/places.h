/* SPDX-License-Identifier: Apache-2.0
 *
 * Extremes of float32 that remember their places, in vectors: a lane keeps its best element and that element's
 * number, without branches. A lane never takes a NaN; who calls looks for those beside (lanes_nan).
 */
#ifndef CPU_PER_ISA_PLACES_H
#define CPU_PER_ISA_PLACES_H

#include <stdbool.h>

#include "plugins/backend-cpu/per-isa/lanes.h"

typedef int32_t vi __attribute__((vector_size(VEC_BYTES), may_alias));

typedef struct places {
  vf best;
  vi place;
} places;

static inline vi vi_set(int32_t x) { return x - (vi){0}; }

#if defined(__AVX512F__)
/* largest is a constant where it is inlined. */
static inline void places_see(places *p, vf v, vi at, bool largest) {
  const __mmask16 better = largest ? _mm512_cmp_ps_mask((__m512)v, (__m512)p->best, _CMP_GT_OQ)
                                   : _mm512_cmp_ps_mask((__m512)v, (__m512)p->best, _CMP_LT_OQ);
  p->best = (vf)_mm512_mask_mov_ps((__m512)p->best, better, (__m512)v);
  p->place = (vi)_mm512_mask_mov_epi32((__m512i)p->place, better, (__m512i)at);
}
static inline float places_best(vf v, bool largest) {
  return largest ? _mm512_reduce_max_ps((__m512)v) : _mm512_reduce_min_ps((__m512)v);
}
/* The smallest place of lanes that hold `best`; INT32_MAX if there is none. */
static inline vi places_of(const places *p, vf best) {
  const __mmask16 equal = _mm512_cmp_ps_mask((__m512)p->best, (__m512)best, _CMP_EQ_OQ);
  return (vi)_mm512_mask_mov_epi32(_mm512_set1_epi32(INT32_MAX), equal, (__m512i)p->place);
}
static inline int32_t places_first(vi v) { return _mm512_reduce_min_epi32((__m512i)v); }
#else
#if defined(__AVX2__)
static inline vi places_choose(vi mask, vi yes, vi no) {
  return (vi)_mm256_blendv_epi8((__m256i)no, (__m256i)yes, (__m256i)mask);
}
#else
static inline vi places_choose(vi mask, vi yes, vi no) { return (mask & yes) | (~mask & no); }
#endif
static inline void places_see(places *p, vf v, vi at, bool largest) {
  const vi better = (vi)(largest ? v > p->best : v < p->best);
  p->best = (vf)places_choose(better, (vi)v, (vi)p->best);
  p->place = places_choose(better, at, p->place);
}
static inline float places_best(vf v, bool largest) {
  float best = v[0];
  for (int i = 1; i < F32_LANES; ++i) best = (largest ? v[i] > best : v[i] < best) ? v[i] : best;
  return best;
}
static inline vi places_of(const places *p, vf best) {
  return places_choose((vi)(p->best == best), p->place, vi_set(INT32_MAX));
}
static inline int32_t places_first(vi v) {
  int32_t first = v[0];
  for (int i = 1; i < F32_LANES; ++i) first = v[i] < first ? v[i] : first;
  return first;
}
#endif

#endif

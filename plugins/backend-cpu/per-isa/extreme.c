/* SPDX-License-Identifier: Apache-2.0
 *
 * The place of the largest or smallest element, of a run and of many columns at once, for float32, float64 and
 * int64. The first of equal elements wins; the first NaN wins over everything.
 *
 * float64 and int64 runs are searched twice: once for the extreme, by vectors that remember no places (reduce.c), and
 * if that beats what was known, once more for the first element that equals it. float32 remembers places (places.h)
 * and is searched again only for a NaN.
 */
#include <math.h>
#include <stdbool.h>

#include "plugins/backend-cpu/per-isa/per_isa.h"
#include "plugins/backend-cpu/per-isa/places.h"

#define NEVER(x)  false
#define IS_NAN(x) ((x) != (x))

static int64_t find_i64(const int64_t *x, int64_t n, int64_t value) {
  int64_t i = 0;
  while (i < n && x[i] != value) ++i;
  return i;
}
static int64_t find_f64(const double *x, int64_t n, double value) {
  int64_t i = 0;
  if (isnan(value))
    while (i < n && !isnan(x[i])) ++i;
  else
    while (i < n && x[i] != value) ++i;
  return i;
}
static int64_t first_nan(const float *x, int64_t n) {
  int64_t i = 0;
  while (i < n && !isnan(x[i])) ++i;
  return i;
}

enum { CHAINS = 4, AHEAD = 1024 };

/* The extreme and its place; a NaN is the extreme. The lanes begin with what every element beats or equals, at their
 * own first places, so that a run of nothing but infinities has its first element named. */
static inline __attribute__((always_inline)) float best_f32(const float *x, int64_t n, bool largest,
                                                            int64_t *out_place) {
  const float start = largest ? -INFINITY : INFINITY;
  places p[CHAINS];
  vi at[CHAINS];
  unsigned nan = 0;
  int64_t i = 0;
  for (int k = 0; k < CHAINS; ++k) p[k] = (places){vf_set(start), at[k] = places_from(k * F32_LANES)};
  for (; i + CHAINS * F32_LANES <= n; i += CHAINS * F32_LANES) {
    vf v[CHAINS];
    for (int k = 0; k < CHAINS; ++k) {
      __builtin_prefetch(x + i + AHEAD + k * F32_LANES);
      v[k] = vf_load(x + i + k * F32_LANES);
    }
    nan |= lanes_nan(v[0], v[1]) | lanes_nan(v[2], v[3]);
    for (int k = 0; k < CHAINS; ++k) {
      places_see(&p[k], v[k], at[k], largest);
      at[k] += vi_set(CHAINS * F32_LANES);
    }
  }
  for (int k = 0; i < n; i += F32_LANES, ++k) {
    const vf v = n - i < F32_LANES ? lanes_load_part(x + i, n - i, start) : vf_load(x + i);
    nan |= lanes_nan(v, v);
    places_see(&p[k], v, at[k], largest);
  }
  if (__builtin_expect(nan != 0, 0)) {
    *out_place = first_nan(x, n);
    return NAN;
  }
  const vf ab = largest ? lanes_max(p[0].best, p[1].best) : lanes_min(p[0].best, p[1].best);
  const vf cd = largest ? lanes_max(p[2].best, p[3].best) : lanes_min(p[2].best, p[3].best);
  const float best = places_best(largest ? lanes_max(ab, cd) : lanes_min(ab, cd), largest);
  const vf all = vf_set(best);
  *out_place = places_first(places_earlier(places_earlier(places_of(&p[0], all), places_of(&p[1], all)),
                                           places_earlier(places_of(&p[2], all), places_of(&p[3], all))));
  return best;
}

static cpu_extreme_found run_f32(const void *x, int64_t n, bool largest, bool first, void *best,
                                 int64_t *out_place) {
  float *known = best;
  int64_t place;
  const float v = largest ? best_f32(x, n, true, &place) : best_f32(x, n, false, &place);
  if (!first && !isnan(v) && !(largest ? v > *known : v < *known)) return CPU_EXTREME_NONE;
  *known = v;
  *out_place = place;
  return isnan(v) ? CPU_EXTREME_NAN : CPU_EXTREME_BETTER;
}

#define RUN(name, T, dtype, field, BAD)                                                               \
  static cpu_extreme_found run_##name(const void *x, int64_t n, bool largest, bool first, void *best, \
                                      int64_t *out_place) {                                           \
    T *known = best;                                                                                  \
    cpu_acc acc;                                                                                      \
    acc.field = *(const T *)x;                                                                        \
    CPU_FN(cpu_fold)(largest ? CPU_MAX : CPU_MIN, dtype)(x, n, 0, &acc);                              \
    const T v = (T)acc.field;                                                                         \
    if (!first && !BAD(v) && !(largest ? v > *known : v < *known)) return CPU_EXTREME_NONE;           \
    *known = v;                                                                                       \
    *out_place = find_##name(x, n, v);                                                                \
    return BAD(v) ? CPU_EXTREME_NAN : CPU_EXTREME_BETTER;                                             \
  }
RUN(f64, double, TN_FLOAT64, f, IS_NAN)
RUN(i64, int64_t, TN_INT64, i, NEVER)

#define ROWS(name, T, PLACE, BAD)                                                                     \
  static void rows_##name(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, bool largest, \
                          void *best, int64_t *out_places) {                                          \
    T *known = best;                                                                                  \
    PLACE at[CPU_EXTREME_COLUMNS];                                                                    \
    for (int64_t j = 0; j < n; ++j) known[j] = ((const T *)x)[j], at[j] = 0;                          \
    for (int64_t r = 1; r < rows; ++r) {                                                              \
      const T *row = (const T *)(const void *)((const char *)x + r * stride_bytes);                   \
      const PLACE place = (PLACE)r;                                                                   \
      if (largest) CPU_INDEPENDENT for (int64_t j = 0; j < n; ++j) {                                  \
          const T v = row[j], k = known[j];                                                           \
          const bool better = (v > k) | (BAD(v) & !BAD(k));                                           \
          known[j] = better ? v : k;                                                                  \
          at[j] = better ? place : at[j];                                                             \
        }                                                                                             \
      else                                                                                            \
        CPU_INDEPENDENT for (int64_t j = 0; j < n; ++j) {                                             \
          const T v = row[j], k = known[j];                                                           \
          const bool better = (v < k) | (BAD(v) & !BAD(k));                                           \
          known[j] = better ? v : k;                                                                  \
          at[j] = better ? place : at[j];                                                             \
        }                                                                                             \
    }                                                                                                 \
    for (int64_t j = 0; j < n; ++j) out_places[j] = at[j];                                            \
  }                                                                                                   \
  const cpu_extreme_fns CPU_FN(cpu_extreme_##name) = {run_##name, rows_##name};
ROWS(f32, float, int32_t, IS_NAN)
ROWS(f64, double, int64_t, IS_NAN)
ROWS(i64, int64_t, int64_t, NEVER)

/* SPDX-License-Identifier: Apache-2.0
 *
 * The place of the largest or smallest element, of a run and of many columns at once, for float32, float64 and
 * int64. The first of equal elements wins; the first NaN wins over everything.
 *
 * float64 and int64 runs are searched twice: once for the extreme, by vectors that remember no places (reduce.c), and
 * if that beats what was known, once more for the first element that equals it. float32 remembers the place of a group of
 * vectors (places.h), which alone is searched again.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

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

/* A group's elements are compared with each other first, so that a place is kept for eight vectors at a time. */
enum { GROUP = 8 * F32_LANES };

/* The first of n elements that equals `best`; there is one. */
static inline int64_t first_equal(const float *x, int64_t n, float best) {
  const vf all = vf_set(best);
  for (int64_t i = 0; i + F32_LANES <= n; i += F32_LANES) {
    const unsigned equal = lanes_equal(vf_load(x + i), all);
    if (equal) return i + __builtin_ctz(equal);
  }
  int64_t i = n / F32_LANES * F32_LANES;
  while (x[i] != best) ++i;
  return i;
}

/* The extreme and its place; a NaN is the extreme. Lanes remember groups and begin with what every element beats or
 * equals, in the first group, so that a run of nothing but infinities has its first element named. */
static inline __attribute__((always_inline)) float best_f32(const float *x, int64_t n, bool largest,
                                                            int64_t *out_place) {
  const float start = largest ? -INFINITY : INFINITY;
  places p = {vf_set(start), vi_set(0)};
  vi group = vi_set(0);
  unsigned nan = 0;
  int64_t i = 0;
#define BETTER(a, b) (largest ? lanes_max(a, b) : lanes_min(a, b))
  for (; i + GROUP <= n; i += GROUP, group += vi_set(1)) {
    vf v[8];
    for (int k = 0; k < 8; ++k) v[k] = vf_load(x + i + k * F32_LANES);
    nan |= lanes_nan(v[0], v[1]) | lanes_nan(v[2], v[3]) | lanes_nan(v[4], v[5]) | lanes_nan(v[6], v[7]);
    const vf low = BETTER(BETTER(v[0], v[1]), BETTER(v[2], v[3]));
    const vf high = BETTER(BETTER(v[4], v[5]), BETTER(v[6], v[7]));
    places_see(&p, BETTER(low, high), group, largest);
  }
  for (; i < n; i += F32_LANES) {
    const vf v = n - i < F32_LANES ? lanes_load_part(x + i, n - i, start) : vf_load(x + i);
    nan |= lanes_nan(v, v);
    places_see(&p, v, group, largest);
  }
#undef BETTER
  if (__builtin_expect(nan != 0, 0)) {
    *out_place = first_nan(x, n);
    return NAN;
  }
  const float best = places_best(p.best, largest);
  const int64_t first = (int64_t)places_first(places_of(&p, vf_set(best))) * GROUP;
  *out_place = first + first_equal(x + first, n - first, best);
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
  }
ROWS(f32_with_nan, float, int32_t, IS_NAN)
ROWS(f64, double, int64_t, IS_NAN)
ROWS(i64, int64_t, int64_t, NEVER)

enum { PAGE_BYTES = 4096 };

/* Places of m columns from j on, of one or eight rows from number `first` on; NaN in any of them is told. */
static inline __attribute__((always_inline)) unsigned
see_rows(places *p, const float *x, int64_t stride_bytes, int count, int64_t m, int32_t first, bool largest) {
  const float start = largest ? -INFINITY : INFINITY;
  vf v[ROWS_TREE];
  unsigned nan = 0;
  for (int k = 0; k < count; ++k) {
    const float *row = (const float *)(const void *)((const char *)x + k * stride_bytes);
    v[k] = m < F32_LANES ? lanes_load_part(row, m, start) : vf_load(row);
    places_see(p, v[k], vi_set(first + k), largest);
  }
  for (int k = 0; k < count; k += 2) nan |= lanes_nan(v[k], v[count == 1 ? k : k + 1]);
  return nan;
}

/* Eight rows to a loop, so that what is known is read and written once for them. Without NaN, which is the usual case:
 * if there is one, all is done again by the loop that keeps it. Rows that share a page are asked for, near or not: from a
 * near cache that costs less than the places. */
static inline __attribute__((always_inline)) void rows_best_f32(const void *x, int64_t stride_bytes,
                                                                int64_t rows, int64_t n, bool largest,
                                                                float *best, int64_t *out_places) {
  places known[CPU_EXTREME_COLUMNS / F32_LANES];
  const rows_asked ask = rows_ask(ROWS_TREE, stride_bytes, n);
  const bool asked = stride_bytes > -PAGE_BYTES && stride_bytes < PAGE_BYTES;
  const int64_t vectors = (n + F32_LANES - 1) / F32_LANES;
  unsigned nan = 0;
  for (int64_t i = 0; i < vectors; ++i)
    known[i] = (places){vf_set(largest ? -INFINITY : INFINITY), vi_set(0)};
  for (int64_t r = 0, count; r < rows; r += count) {
    const char *row = (const char *)x + r * stride_bytes;
    count = r + ROWS_TREE <= rows ? ROWS_TREE : 1;
    uintptr_t next = (uintptr_t)row + (uintptr_t)ask.ahead;
    for (int64_t i = 0, m = n; i < vectors; ++i, m -= F32_LANES) {
      if (asked && count > 1) rows_ask_at(ROWS_TREE, &ask, &next);
      const float *p = (const float *)(const void *)row + i * F32_LANES;
      if (count == 1 || m < F32_LANES)
        for (int64_t k = 0; k < count; ++k)
          nan |= see_rows(&known[i], (const float *)(const void *)((const char *)p + k * stride_bytes), 0, 1,
                          m, (int32_t)(r + k), largest);
      else
        nan |= see_rows(&known[i], p, stride_bytes, ROWS_TREE, F32_LANES, (int32_t)r, largest);
    }
  }
  if (__builtin_expect(nan != 0, 0)) {
    rows_f32_with_nan(x, stride_bytes, rows, n, largest, best, out_places);
    return;
  }
  int32_t at[CPU_EXTREME_COLUMNS];
  for (int64_t i = 0, m = n; i < vectors; ++i, m -= F32_LANES) {
    if (m < F32_LANES)
      lanes_store_part(best + i * F32_LANES, known[i].best, m);
    else
      vf_store(best + i * F32_LANES, known[i].best);
    memcpy(at + i * F32_LANES, &known[i].place, sizeof known[i].place);
  }
  for (int64_t j = 0; j < n; ++j) out_places[j] = at[j];
}
static void rows_f32(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, bool largest, void *best,
                     int64_t *out_places) {
  if (largest)
    rows_best_f32(x, stride_bytes, rows, n, true, best, out_places);
  else
    rows_best_f32(x, stride_bytes, rows, n, false, best, out_places);
}

const cpu_extreme_fns CPU_FN(cpu_extreme_f32) = {run_f32, rows_f32};
const cpu_extreme_fns CPU_FN(cpu_extreme_f64) = {run_f64, rows_f64};
const cpu_extreme_fns CPU_FN(cpu_extreme_i64) = {run_i64, rows_i64};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Inner loops of reductions: `fold` takes a contiguous run into one accumulator, `fold_rows` adds rows
 * into as many accumulators as a row is long (a sum over the outer dim). Only the widest dtypes have
 * loops; the driver (op_reduce.c) widens blocks of the others first: integers to int64, halves to float32,
 * products to float64, any and all to bool. One loop for each of 66 pairs made a megabyte of code.
 */
#include <math.h>
#include <stdbool.h>

#include "plugins/backend-cpu/per-isa/lanes.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

/* Accumulators: A is double (field f) or int64 (field i). Integer sums and products wrap. */
#define ADD_F(a, v) ((a) + (v))
#define MUL_F(a, v) ((a) * (v))
#define MAX_F(a, v) KEEP_NAN(a, (a) > (v) ? (a) : (v))
#define MIN_F(a, v) KEEP_NAN(a, (a) < (v) ? (a) : (v))
#define ADD_I(a, v) ((int64_t)((uint64_t)(a) + (uint64_t)(v)))
#define MUL_I(a, v) ((int64_t)((uint64_t)(a) * (uint64_t)(v)))
#define MAX_I(a, v) ((a) > (v) ? (a) : (v))
#define MIN_I(a, v) ((a) < (v) ? (a) : (v))
#define OR_I(a, v)  ((a) | (v))
#define AND_I(a, v) ((a) & (v))
#define TRUTH(x)    ((x) != 0)
/* Two choices of one comparison each: with both in one condition gcc branches, an element at a time (rows at 1 GB/s). The
 * choice takes v where that is NaN. */
#define KEEP_NAN(a, choice) ((a) != (a) ? (a) : (choice))

/* Rows into the accumulators to(0), to(1), ...: four at a time as a tree, the last ones singly. */
#define ROWS_INTO(to, S, READ, A, OP)                                                   \
  do {                                                                                  \
    int64_t r_ = 0;                                                                     \
    for (; r_ + 4 <= rows; r_ += 4) {                                                   \
      const S *a_ = ROW(S, r_), *b_ = ROW(S, r_ + 1), *c_ = ROW(S, r_ + 2);             \
      const S *d_ = ROW(S, r_ + 3);                                                     \
      CPU_INDEPENDENT for (int64_t j = 0; j < n; ++j) {                                 \
        const A p_ = (A)READ(a_[j]), q_ = (A)READ(b_[j]), s_ = (A)READ(c_[j]);          \
        const A t_ = (A)READ(d_[j]), u_ = OP(p_, q_), v_ = OP(s_, t_), w_ = OP(u_, v_); \
        to(j) = OP(to(j), w_);                                                          \
      }                                                                                 \
    }                                                                                   \
    for (; r_ < rows; ++r_) {                                                           \
      const S *a_ = ROW(S, r_);                                                         \
      CPU_INDEPENDENT for (int64_t j = 0; j < n; ++j) {                                 \
        const A p_ = (A)READ(a_[j]);                                                    \
        to(j) = OP(to(j), p_);                                                          \
      }                                                                                 \
    }                                                                                   \
  } while (0)
#define ROW(S, r) ((const S *)(const void *)((const char *)x + (r)*stride_bytes))

#define FOLD(fn, A, field, S, READ, OP, start)                                                               \
  static void fold_##fn(const void *x, int64_t n, double centre, cpu_acc *acc) {                             \
    LANES_FOLD(A, S, READ, OP, OP, start, x, n, acc->field);                                                 \
  }                                                                                                          \
  static void rows_##fn(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, const double *centres, \
                        cpu_acc *acc) {                                                                      \
    ROWS_INTO(INTO_##field, S, READ, A, OP);                                                                 \
  }
#define INTO_f(j) acc[j].f
#define INTO_i(j) acc[j].i

FOLD(sum_f64, double, f, double, LANES_PLAIN, ADD_F, 0.0)
FOLD(max_f64, double, f, double, LANES_PLAIN, MAX_F, -INFINITY)
FOLD(min_f64, double, f, double, LANES_PLAIN, MIN_F, INFINITY)
FOLD(prod_f64, double, f, double, LANES_PLAIN, MUL_F, 1.0)
FOLD(sum_i64, int64_t, i, int64_t, LANES_PLAIN, ADD_I, 0)
FOLD(prod_i64, int64_t, i, int64_t, LANES_PLAIN, MUL_I, 1)
FOLD(max_i64, int64_t, i, int64_t, LANES_PLAIN, MAX_I, INT64_MIN)
FOLD(min_i64, int64_t, i, int64_t, LANES_PLAIN, MIN_I, INT64_MAX)

/* Squares of distances from a centre: the second pass of a variance, norms with centre 0. */
#define ADD_SQUARE(a, v) ((a) + ((v)-centre) * ((v)-centre))
static void fold_squares_f64(const void *x, int64_t n, double centre, cpu_acc *acc) {
  LANES_FOLD(double, double, LANES_PLAIN, ADD_SQUARE, ADD_F, 0.0, x, n, acc->f);
}
static void rows_squares_f64(const void *x, int64_t stride_bytes, int64_t rows, int64_t n,
                             const double *centres, cpu_acc *acc) {
  for (int64_t r = 0; r < rows; ++r) {
    const double *row = ROW(double, r);
    CPU_INDEPENDENT for (int64_t j = 0; j < n; ++j) {
      const double v = row[j] - centres[j];
      acc[j].f += v * v;
    }
  }
}

/* ------------------------------------------------------------------ float32: See Note [Pairwise blocks] */

static void fold_sum_f32(const void *x, int64_t n, double centre, cpu_acc *acc) {
  const float *p = x;
  lanes_wide wide = lanes_zero();
  if (n == 1) {
    acc->f += (double)p[0];
    return;
  }
#define TERM(i)    vf_load(p + (i))
#define PART(i, m) lanes_load_part(p + (i), m, 0)
  LANES_SUM(n, TERM, PART, wide);
#undef TERM
#undef PART
  acc->f += lanes_join(wide);
}

/* Note [Rows]
 * Rows of float32 are added in groups of six, as two chains of three; four groups are added in floats, whose sum is widened:
 * six roundings deep, as runs are. Sums of doubles are twice as large as what the first cache holds of the rows between
 * two uses of one, so each addition to them moves a line in and out of it: eight rows to a double were 28 % slower
 * (2048 x 2048). Six rows, for at a multiple of a page apart they and the sums share the eight places of one set. The bits are
 * the same however the rows are read; sizes and strides decide on that (op_reduce.c):
 * - All six at once: the fewest stores. Right where a near cache holds the rows.
 * - All six at once, and the beginnings of the next six asked for: from the last cache where each row covers pages, which the
 *   prefetchers follow once they have begun.
 * - All six at once, and later lines asked for: where several rows share a page, whose streams confuse the prefetchers,
 *   and from memory, where they do not know the next rows. The lines go to the second cache (to the first they cost as
 *   much as they gain), and are asked for in order of addresses where the rows lie side by side.
 * - Row after row, through three sums in the first cache: rows that share a page, from memory. There lines that are asked
 *   for are dropped (256 x 256 x 256: 20 to 24 GB/s asked for, 24 to 26 in order).
 * Measured on a core of a 2-core AMD EPYC (family 25): docs/measurements/2026-12-01-memory.md. */
enum { ROWS_CHAIN = 3, ROWS_GROUP = 2 * ROWS_CHAIN, ROWS_GROUPS = 4, ROWS_BEGINNING = 2 };
enum { PAGE_BYTES = 4096, PAGE_FLOATS = PAGE_BYTES / 4 };

/* m <= F32_LANES elements from j on, or their squared distances from near (NULL: themselves), else 0. */
ROWS_INLINE vf row_term(const float *row, const float *near, int64_t j, int64_t m) {
  vf v = m == F32_LANES ? vf_load(row + j) : lanes_load_part(row + j, m, 0);
  if (!near) return v;
  v -= m == F32_LANES ? vf_load(near + j) : lanes_load_part(near + j, m, 0);
  return v * v;
}
ROWS_INLINE void rows_widen(double *acc, vf v, int64_t m) {
  if (m == F32_LANES)
    lanes_add_to(acc, v);
  else
    lanes_add_part_to(acc, v, m);
}

/* Of a group, which may be the last and shorter. */
ROWS_INLINE vf group_term(const float *const *row, int count, const float *near, int64_t j, int64_t m) {
  vf v = row_term(row[0], near, j, m);
  if (count < ROWS_GROUP) {
    for (int k = 1; k < count; ++k) v += row_term(row[k], near, j, m);
    return v;
  }
  vf w = row_term(row[ROWS_CHAIN], near, j, m);
  for (int k = 1; k < ROWS_CHAIN; ++k) {
    v += row_term(row[k], near, j, m);
    w += row_term(row[ROWS_CHAIN + k], near, j, m);
  }
  return v + w;
}

/* Where a group stands in its sum in floats. */
typedef struct group_place {
  float *sums;
  bool first, last;
} group_place;

ROWS_INLINE void group_into(const group_place *to, const float *const *row, int count, const float *near,
                            int64_t j, int64_t m, cpu_acc *acc) {
  vf v = group_term(row, count, near, j, m);
  if (!to->first) v += vf_load(to->sums + j);
  if (to->last)
    rows_widen(&acc->f + j, v, m);
  else
    vf_store(to->sums + j, v);
}
ROWS_INLINE void rows_group(const group_place *to, const void *x, int64_t stride_bytes, int count, int64_t n,
                            bool asked, const float *near, cpu_acc *acc) {
  const rows_asked ask = rows_ask(ROWS_GROUP, stride_bytes, n);
  const float *row[ROWS_GROUP];
  for (int k = 0; k < count; ++k) row[k] = ROW(float, k);
  uintptr_t next = (uintptr_t)x + (uintptr_t)ask.ahead;
  int64_t j = 0;
  for (; j + F32_LANES <= n; j += F32_LANES) {
    if (asked) rows_ask_at(ROWS_GROUP, &ask, &next);
    group_into(to, row, count, near, j, F32_LANES, acc);
  }
  if (j < n) group_into(to, row, count, near, j, n - j, acc);
}

/* The sums in floats stand where the columns do within a page: a store a little ahead of the loads, by the lower 12 bits of
 * its address, holds these up (by a third). */
ROWS_INLINE float *sums_beside(float *room, const void *x) {
  return room + ((uintptr_t)x - (uintptr_t)room) % PAGE_BYTES / CPU_LINE * (CPU_LINE / sizeof(float));
}
ROWS_INLINE void rows_at_once(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, cpu_rows_read read,
                              const float *near, cpu_acc *acc) {
  float room[CPU_FOLD_WIDE + F32_LANES + PAGE_FLOATS] __attribute__((aligned(CPU_LINE)));
  group_place to = {.sums = sums_beside(room, x)};
  for (int64_t r = 0, group = 0; r < rows; r += ROWS_GROUP, ++group) {
    const char *at = (const char *)x + r * stride_bytes;
    if (read == CPU_ROWS_BEGUN)
      for (int k = 0; k < ROWS_GROUP * ROWS_BEGINNING; ++k)
        __builtin_prefetch((const void *)((uintptr_t)at + (uintptr_t)((ROWS_GROUP + k % ROWS_GROUP) * stride_bytes +
                                                                      k / ROWS_GROUP * CPU_LINE)), 0, 2);
    to.first = group % ROWS_GROUPS == 0;
    to.last = group % ROWS_GROUPS == ROWS_GROUPS - 1 || r + ROWS_GROUP >= rows;
    if (r + ROWS_GROUP <= rows)
      rows_group(&to, at, stride_bytes, ROWS_GROUP, n, read == CPU_ROWS_ASKED, near, acc);
    else
      rows_group(&to, at, stride_bytes, (int)(rows - r), n, false, near, acc);
  }
}

/* sums = the first row, or += a later one. One loop with the last, shorter vector in it: with a loop of whole vectors
 * alone, which asks for lines faster, rows of 1 KiB came at half the rate (15 instead of 28 GB/s). */
ROWS_INLINE void rows_chain(float *sums, const float *row, int64_t n, bool first, const float *near) {
  for (int64_t j = 0; j < n; j += F32_LANES) {
    vf v = row_term(row, near, j, n - j < F32_LANES ? n - j : F32_LANES);
    if (!first) v += vf_load(sums + j);
    vf_store(sums + j, v);
  }
}
/* A group's two chains, or the one of a shorter group, joined; after the last of a sum into acc. */
ROWS_INLINE void rows_join(float (*sums)[CPU_FOLD_WIDE + F32_LANES], bool pair, bool first, bool last, int64_t n,
                           cpu_acc *acc) {
  for (int64_t j = 0; j < n; j += F32_LANES) {
    vf v = vf_load(sums[0] + j);
    if (pair) v += vf_load(sums[1] + j);
    if (!first) v += vf_load(sums[2] + j);
    if (last)
      rows_widen(&acc->f + j, v, n - j < F32_LANES ? n - j : F32_LANES);
    else
      vf_store(sums[2] + j, v);
  }
}
ROWS_INLINE void rows_in_order(const void *x, int64_t stride_bytes, int64_t rows, int64_t n,
                               const float *near, cpu_acc *acc) {
  float sums[3][CPU_FOLD_WIDE + F32_LANES] __attribute__((aligned(CPU_LINE)));
  for (int64_t r = 0, group = 0; r < rows; r += ROWS_GROUP, ++group) {
    const int64_t count = rows - r < ROWS_GROUP ? rows - r : ROWS_GROUP;
    const bool pair = count == ROWS_GROUP;
    for (int64_t k = 0; k < count; ++k)
      rows_chain(sums[pair ? k / ROWS_CHAIN : 0], ROW(float, r + k), n, k == 0 || (pair && k == ROWS_CHAIN), near);
    rows_join(sums, pair, group % ROWS_GROUPS == 0,
              group % ROWS_GROUPS == ROWS_GROUPS - 1 || r + ROWS_GROUP >= rows, n, acc);
  }
}

#define ROWS_SUM(name, HOW)                                                                \
  static void name##_sum_f32(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, \
                             const double *centres, cpu_acc *acc) {                        \
    HOW(NULL);                                                                             \
  }
#define AT_ONCE(near)  rows_at_once(x, stride_bytes, rows, n, CPU_ROWS_AT_ONCE, near, acc)
#define BEGUN(near)    rows_at_once(x, stride_bytes, rows, n, CPU_ROWS_BEGUN, near, acc)
#define ASKED(near)    rows_at_once(x, stride_bytes, rows, n, CPU_ROWS_ASKED, near, acc)
#define IN_ORDER(near) rows_in_order(x, stride_bytes, rows, n, near, acc)
ROWS_SUM(rows, AT_ONCE)
ROWS_SUM(begun, BEGUN)
ROWS_SUM(asked, ASKED)
ROWS_SUM(in_order, IN_ORDER)

/* The centre is rounded to float32, so differences near it are exact; what the rounding adds to the sum of a
 * whole variance, the square of its error for each element, is taken away again. */
static void fold_squares_f32(const void *x, int64_t n, double centre, cpu_acc *acc) {
  const float *p = x;
  const float near = (float)centre;
  const vf c = vf_set(near);
  const double error = near - centre;
  lanes_wide wide = lanes_zero();
#define SQUARE(v)  ((v) * (v))
#define TERM(i)    SQUARE(vf_load(p + (i)) - c)
#define PART(i, m) SQUARE(lanes_load_part(p + (i), m, near) - c)
  LANES_SUM(n, TERM, PART, wide);
#undef TERM
#undef PART
  acc->f += lanes_join(wide) - (double)n * (error * error);
}

static void centres_f32(const double *centres, int64_t rows, int64_t n, float *near, cpu_acc *acc) {
  for (int64_t j = 0; j < n; ++j) {
    near[j] = (float)centres[j];
    const double error = near[j] - centres[j];
    acc[j].f -= (double)rows * (error * error);
  }
}
#define ROWS_SQUARES(name, HOW)                                                                \
  static void name##_squares_f32(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, \
                                 const double *centres, cpu_acc *acc) {                        \
    float near[CPU_FOLD_WIDE];                                                                 \
    centres_f32(centres, rows, n, near, acc);                                                  \
    HOW(near);                                                                                 \
  }
ROWS_SQUARES(rows, AT_ONCE)
ROWS_SQUARES(begun, BEGUN)
ROWS_SQUARES(asked, ASKED)
ROWS_SQUARES(in_order, IN_ORDER)

/* NaN is looked for beside the extreme, since a vector's maximum loses it. */
#define EXTREME_F32(name, OP, VOP, start)                                                \
  static void fold_##name##_f32(const void *x, int64_t n, double centre, cpu_acc *acc) { \
    const float *p = x;                                                                  \
    int64_t i = 0;                                                                       \
    vf best[4] = {vf_set(start), vf_set(start), vf_set(start), vf_set(start)};           \
    unsigned nan = 0;                                                                    \
    for (; i + 4 * F32_LANES <= n; i += 4 * F32_LANES) {                                 \
      const vf a = vf_load(p + i), b = vf_load(p + i + F32_LANES);                       \
      const vf c = vf_load(p + i + 2 * F32_LANES), d = vf_load(p + i + 3 * F32_LANES);   \
      nan |= lanes_nan(a, b) | lanes_nan(c, d);                                          \
      best[0] = VOP(a, best[0]);                                                         \
      best[1] = VOP(b, best[1]);                                                         \
      best[2] = VOP(c, best[2]);                                                         \
      best[3] = VOP(d, best[3]);                                                         \
    }                                                                                    \
    for (; i + F32_LANES <= n; i += F32_LANES) {                                         \
      const vf a = vf_load(p + i);                                                       \
      nan |= lanes_nan(a, a);                                                            \
      best[0] = VOP(a, best[0]);                                                         \
    }                                                                                    \
    if (i < n) {                                                                         \
      const vf a = lanes_load_part(p + i, n - i, start);                                 \
      nan |= lanes_nan(a, a);                                                            \
      best[1] = VOP(a, best[1]);                                                         \
    }                                                                                    \
    float lane[F32_LANES];                                                               \
    vf_store(lane, VOP(VOP(best[0], best[1]), VOP(best[2], best[3])));                   \
    for (int half = F32_LANES / 2; half; half /= 2)                                      \
      for (int j = 0; j < half; ++j) lane[j] = OP(lane[j], lane[j + half]);              \
    const double v = nan ? (double)NAN : (double)lane[0];                                \
    acc->f = OP(acc->f, v);                                                              \
  }
EXTREME_F32(max, MAX_F, lanes_max, -INFINITY)
EXTREME_F32(min, MIN_F, lanes_min, INFINITY)

ROWS_INLINE vf best_of(vf a, vf b, bool largest) { return largest ? lanes_max(a, b) : lanes_min(a, b); }
/* best[j ..], and a vector of one or eight rows: the extreme of each lane, NaN where any is. */
ROWS_INLINE void best_rows(float *best, const float *const *row, int count, int64_t j, bool largest) {
  vf v[ROWS_TREE];
  unsigned nan = 0;
  for (int k = 0; k < count; ++k) v[k] = vf_load(row[k] + j);
  for (int k = 0; k < count; k += 2) nan |= lanes_nan(v[k], v[count == 1 ? k : k + 1]);
  for (int half = count / 2; half; half /= 2)
    for (int k = 0; k < half; ++k) v[k] = best_of(v[k], v[k + half], largest);
  v[0] = best_of(v[0], vf_load(best + j), largest); /* the second where either is NaN, so that stays */
  vf_store(best + j, lanes_put_nan(v[0], nan));
}
/* One row, a last part of a vector too. */
ROWS_INLINE void best_row(float *best, const float *row, int64_t j, int64_t n, bool largest) {
  for (; j + F32_LANES <= n; j += F32_LANES) best_rows(best, &row, 1, j, largest);
  if (j == n) return;
  const vf v = lanes_load_part(row + j, n - j, largest ? -INFINITY : INFINITY);
  vf_store(best + j, lanes_put_nan(best_of(v, vf_load(best + j), largest), lanes_nan(v, v)));
}
/* Whole vectors of eight rows; how many columns those are. */
ROWS_INLINE int64_t best_eight(float *best, const void *x, int64_t stride_bytes, int64_t n, bool asked,
                               bool largest) {
  const rows_asked ask = rows_ask(ROWS_TREE, stride_bytes, n);
  const float *row[ROWS_TREE];
  uintptr_t next = (uintptr_t)x + (uintptr_t)ask.ahead;
  int64_t j = 0;
  for (int k = 0; k < ROWS_TREE; ++k) row[k] = ROW(float, k);
  for (; j + F32_LANES <= n; j += F32_LANES) {
    if (asked) rows_ask_at(ROWS_TREE, &ask, &next);
    best_rows(best, row, ROWS_TREE, j, largest);
  }
  return j;
}
ROWS_INLINE void rows_extreme(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, bool asked,
                              bool largest, cpu_acc *acc) {
  float best[CPU_FOLD_WIDE + F32_LANES]; /* a last vector may have unused lanes */
  for (int64_t j = 0; j < n; ++j) best[j] = (float)acc[j].f;
  for (int64_t r = 0, count; r < rows; r += count) {
    int64_t seen = 0; /* columns of all these rows */
    count = r + ROWS_TREE <= rows ? ROWS_TREE : 1;
    if (count > 1 && asked)
      seen = best_eight(best, ROW(float, r), stride_bytes, n, true, largest);
    else if (count > 1)
      seen = best_eight(best, ROW(float, r), stride_bytes, n, false, largest);
    for (int64_t k = 0; k < count && seen < n; ++k) best_row(best, ROW(float, r + k), seen, n, largest);
  }
  for (int64_t j = 0; j < n; ++j) acc[j].f = (double)best[j];
}
/* Not inlined: one copy for both. */
#define ROWS_EXTREME(name, largest)                                                                       \
  static __attribute__((noinline)) void extreme_##name(const void *x, int64_t stride_bytes, int64_t rows, \
                                                       int64_t n, bool asked, cpu_acc *acc) {             \
    rows_extreme(x, stride_bytes, rows, n, asked, largest, acc);                                          \
  }                                                                                                       \
  static void rows_##name##_f32(const void *x, int64_t stride_bytes, int64_t rows, int64_t n,             \
                                const double *centres, cpu_acc *acc) {                                    \
    extreme_##name(x, stride_bytes, rows, n, false, acc);                                                 \
  }                                                                                                       \
  static void asked_##name##_f32(const void *x, int64_t stride_bytes, int64_t rows, int64_t n,            \
                                 const double *centres, cpu_acc *acc) {                                   \
    extreme_##name(x, stride_bytes, rows, n, true, acc);                                                  \
  }
ROWS_EXTREME(max, true)
ROWS_EXTREME(min, false)

/* ------------------------------------------------------------------ any and all, of bytes */

enum { TRUTH_BLOCK = 4096 }; /* after each of which the answer may be known */

static uint8_t all_bits(const uint8_t *p, int64_t n) {
  uint8_t seen = 0;
  for (int64_t i = 0; i < n; ++i) seen |= p[i];
  return seen;
}
static uint8_t no_zero(const uint8_t *p, int64_t n) {
  uint8_t seen = 0;
  for (int64_t i = 0; i < n; ++i) seen |= (uint8_t)(p[i] == 0);
  return !seen;
}
static void fold_any_b8(const void *x, int64_t n, double centre, cpu_acc *acc) {
  const uint8_t *p = x;
  for (int64_t i = 0; i < n && !acc->i; i += TRUTH_BLOCK)
    acc->i = all_bits(p + i, n - i < TRUTH_BLOCK ? n - i : TRUTH_BLOCK) != 0;
}
static void fold_all_b8(const void *x, int64_t n, double centre, cpu_acc *acc) {
  const uint8_t *p = x;
  for (int64_t i = 0; i < n && acc->i; i += TRUTH_BLOCK)
    acc->i = no_zero(p + i, n - i < TRUTH_BLOCK ? n - i : TRUTH_BLOCK);
}
static void rows_any_b8(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, const double *centres,
                        cpu_acc *acc) {
  ROWS_INTO(INTO_i, uint8_t, TRUTH, int64_t, OR_I);
}
static void rows_all_b8(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, const double *centres,
                        cpu_acc *acc) {
  ROWS_INTO(INTO_i, uint8_t, TRUTH, int64_t, AND_I);
}

#define TABLE(kind)                                                     \
  {                                                                     \
    [TN_BOOL] = {[CPU_ANY] = kind##_any_b8, [CPU_ALL] = kind##_all_b8}, \
    [TN_INT64] = {[CPU_SUM] = kind##_sum_i64,                           \
                  [CPU_PROD] = kind##_prod_i64,                         \
                  [CPU_MAX] = kind##_max_i64,                           \
                  [CPU_MIN] = kind##_min_i64},                          \
    [TN_FLOAT32] = {[CPU_SUM] = kind##_sum_f32,                         \
                    [CPU_MAX] = kind##_max_f32,                         \
                    [CPU_MIN] = kind##_min_f32,                         \
                    [CPU_SQUARES] = kind##_squares_f32},                \
    [TN_FLOAT64] = {                                                    \
      [CPU_SUM] = kind##_sum_f64,                                       \
      [CPU_PROD] = kind##_prod_f64,                                     \
      [CPU_MAX] = kind##_max_f64,                                       \
      [CPU_MIN] = kind##_min_f64,                                       \
      [CPU_SQUARES] = kind##_squares_f64                                \
    }                                                                   \
  }
static const cpu_fold_fn folds[CPU_DTYPES][CPU_REDUCTIONS] = TABLE(fold);
static const cpu_fold_rows_fn row_folds[CPU_DTYPES][CPU_REDUCTIONS] = TABLE(rows);

cpu_fold_fn CPU_FN(cpu_fold)(uint32_t reduction, tn_dtype dtype) { return folds[dtype][reduction]; }
cpu_fold_rows_fn CPU_FN(cpu_fold_rows)(uint32_t reduction, tn_dtype dtype, cpu_rows_read read) {
  static const cpu_fold_rows_fn far[][CPU_REDUCTIONS] = {
      [CPU_ROWS_BEGUN] = {[CPU_SUM] = begun_sum_f32,
                          [CPU_MAX] = asked_max_f32,
                          [CPU_MIN] = asked_min_f32,
                          [CPU_SQUARES] = begun_squares_f32},
      [CPU_ROWS_ASKED] = {[CPU_SUM] = asked_sum_f32,
                          [CPU_MAX] = asked_max_f32,
                          [CPU_MIN] = asked_min_f32,
                          [CPU_SQUARES] = asked_squares_f32},
      [CPU_ROWS_IN_ORDER] = {[CPU_SUM] = in_order_sum_f32,
                             [CPU_MAX] = asked_max_f32,
                             [CPU_MIN] = asked_min_f32,
                             [CPU_SQUARES] = in_order_squares_f32}};
  if (dtype == TN_FLOAT32 && far[read][reduction]) return far[read][reduction];
  return row_folds[dtype][reduction];
}

/* ------------------------------------------------------------------ dot */

#define DOT(name, T)                                                                                  \
  double CPU_FN(cpu_dot_##name)(const void *a, const void *b, int64_t n) {                            \
    const T *x = a, *y = b;                                                                           \
    double lane[LANES] = {0};                                                                         \
    int64_t i = 0;                                                                                    \
    for (; i + LANES <= n; i += LANES)                                                                \
      for (int j = 0; j < LANES; ++j) lane[j] = CPU_FMA((double)x[i + j], (double)y[i + j], lane[j]); \
    for (int j = 0; i + j < n; ++j) lane[j] = CPU_FMA((double)x[i + j], (double)y[i + j], lane[j]);   \
    for (int half = LANES / 2; half; half /= 2)                                                       \
      for (int j = 0; j < half; ++j) lane[j] += lane[j + half];                                       \
    return lane[0];                                                                                   \
  }
DOT(f32, float)
DOT(f64, double)

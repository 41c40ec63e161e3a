/* SPDX-License-Identifier: Apache-2.0
 *
 * Inner loops of reductions: `fold` takes a contiguous run into one accumulator, `fold_rows` adds rows
 * into as many accumulators as a row is long (a sum over the outer dim). Only the widest dtypes have
 * loops; the driver (op_reduce.c) widens blocks of the others first: integers to int64, halves to float32,
 * products to float64, any and all to bool. One loop for each of 66 pairs made a megabyte of code.
 */
#include <math.h>

#include "plugins/backend-cpu/per-isa/lanes.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

/* Accumulators: A is double (field f) or int64 (field i). Integer sums and products wrap. */
#define ADD_F(a, v) ((a) + (v))
#define MUL_F(a, v) ((a) * (v))
#define MAX_F(a, v) ((((a) > (v)) | ((a) != (a))) ? (a) : (v))
#define MIN_F(a, v) ((((a) < (v)) | ((a) != (a))) ? (a) : (v))
#define ADD_I(a, v) ((int64_t)((uint64_t)(a) + (uint64_t)(v)))
#define MUL_I(a, v) ((int64_t)((uint64_t)(a) * (uint64_t)(v)))
#define MAX_I(a, v) ((a) > (v) ? (a) : (v))
#define MIN_I(a, v) ((a) < (v) ? (a) : (v))
#define OR_I(a, v)  ((a) | (v))
#define AND_I(a, v) ((a) & (v))
#define TRUTH(x)    ((x) != 0)

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

/* Eight rows to a float32 tree, the others one by one. (Two rows at a time into partial sums in the first cache
 * read a quarter slower, sixteen at a time a tenth where rows are long.) TERM(row, j) is a vf of elements from j on, PART(row, j, m) of the last m. */
#define ROWS_FOUR(k, TERM, ...)                                    \
  ((TERM(row[k], __VA_ARGS__) + TERM(row[(k) + 1], __VA_ARGS__)) + \
   (TERM(row[(k) + 2], __VA_ARGS__) + TERM(row[(k) + 3], __VA_ARGS__)))
#define ROWS_TREE(TERM, ...) (ROWS_FOUR(0, TERM, __VA_ARGS__) + ROWS_FOUR(4, TERM, __VA_ARGS__))
#define ROWS_SUM(TERM, PART)                                                                    \
  do {                                                                                          \
    const float *row[8];                                                                        \
    int64_t r_ = 0;                                                                             \
    for (; r_ + 8 <= rows; r_ += 8) {                                                           \
      for (int k = 0; k < 8; ++k) row[k] = ROW(float, r_ + k);                                  \
      int64_t j = 0;                                                                            \
      for (; j + F32_LANES <= n; j += F32_LANES) lanes_add_to(&acc->f + j, ROWS_TREE(TERM, j)); \
      if (j < n) lanes_add_part_to(&acc->f + j, ROWS_TREE(PART, j, n - j), n - j);              \
    }                                                                                           \
    for (; r_ < rows; ++r_) {                                                                   \
      row[0] = ROW(float, r_);                                                                  \
      int64_t j = 0;                                                                            \
      for (; j + F32_LANES <= n; j += F32_LANES) lanes_add_to(&acc->f + j, TERM(row[0], j));    \
      if (j < n) lanes_add_part_to(&acc->f + j, PART(row[0], j, n - j), n - j);                 \
    }                                                                                           \
  } while (0)

static void rows_sum_f32(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, const double *centres,
                         cpu_acc *acc) {
#define TERM(row, j)    vf_load(row + (j))
#define PART(row, j, m) lanes_load_part(row + (j), m, 0)
  ROWS_SUM(TERM, PART);
#undef TERM
#undef PART
}

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

static void rows_squares_f32(const void *x, int64_t stride_bytes, int64_t rows, int64_t n,
                             const double *centres, cpu_acc *acc) {
  float near[CPU_FOLD_WIDE];
  for (int64_t j = 0; j < n; ++j) {
    near[j] = (float)centres[j];
    const double error = near[j] - centres[j];
    acc[j].f -= (double)rows * (error * error);
  }
#define TERM(row, j)    SQUARE(vf_load(row + (j)) - vf_load(near + (j)))
#define PART(row, j, m) SQUARE(lanes_load_part(row + (j), m, 0) - lanes_load_part(near + (j), m, 0))
  ROWS_SUM(TERM, PART);
#undef TERM
#undef PART
}

/* NaN is looked for beside the extreme, since a vector's maximum loses it. */
#define EXTREME_F32(name, OP, VOP, start)                                                     \
  static void fold_##name##_f32(const void *x, int64_t n, double centre, cpu_acc *acc) {      \
    const float *p = x;                                                                       \
    int64_t i = 0;                                                                            \
    vf best[4] = {vf_set(start), vf_set(start), vf_set(start), vf_set(start)};                \
    unsigned nan = 0;                                                                         \
    for (; i + 4 * F32_LANES <= n; i += 4 * F32_LANES) {                                      \
      const vf a = vf_load(p + i), b = vf_load(p + i + F32_LANES);                            \
      const vf c = vf_load(p + i + 2 * F32_LANES), d = vf_load(p + i + 3 * F32_LANES);        \
      nan |= lanes_nan(a, b) | lanes_nan(c, d);                                               \
      best[0] = VOP(a, best[0]);                                                              \
      best[1] = VOP(b, best[1]);                                                              \
      best[2] = VOP(c, best[2]);                                                              \
      best[3] = VOP(d, best[3]);                                                              \
    }                                                                                         \
    for (; i + F32_LANES <= n; i += F32_LANES) {                                              \
      const vf a = vf_load(p + i);                                                            \
      nan |= lanes_nan(a, a);                                                                 \
      best[0] = VOP(a, best[0]);                                                              \
    }                                                                                         \
    if (i < n) {                                                                              \
      const vf a = lanes_load_part(p + i, n - i, start);                                      \
      nan |= lanes_nan(a, a);                                                                 \
      best[1] = VOP(a, best[1]);                                                              \
    }                                                                                         \
    float lane[F32_LANES];                                                                    \
    vf_store(lane, VOP(VOP(best[0], best[1]), VOP(best[2], best[3])));                        \
    for (int half = F32_LANES / 2; half; half /= 2)                                           \
      for (int j = 0; j < half; ++j) lane[j] = OP(lane[j], lane[j + half]);                   \
    const double v = nan ? (double)NAN : (double)lane[0];                                     \
    acc->f = OP(acc->f, v);                                                                   \
  }                                                                                           \
  static void rows_##name##_f32(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, \
                                const double *centres, cpu_acc *acc) {                        \
    float best[CPU_FOLD_WIDE];                                                                \
    for (int64_t j = 0; j < n; ++j) best[j] = (float)acc[j].f;                                \
    ROWS_INTO(INTO_BEST, float, LANES_PLAIN, float, OP);                                      \
    for (int64_t j = 0; j < n; ++j) acc[j].f = (double)best[j];                               \
  }
#define INTO_BEST(j) best[j]
EXTREME_F32(max, MAX_F, lanes_max, -INFINITY)
EXTREME_F32(min, MIN_F, lanes_min, INFINITY)

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
cpu_fold_rows_fn CPU_FN(cpu_fold_rows)(uint32_t reduction, tn_dtype dtype) {
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

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

#define FOLD(fn, A, field, S, READ, OP, start)                                                               \
  static void fold_##fn(const void *x, int64_t n, double centre, cpu_acc *acc) {                             \
    LANES_FOLD(A, S, READ, OP, OP, start, x, n, acc->field);                                                 \
  }                                                                                                          \
  static void rows_##fn(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, const double *centres, \
                        cpu_acc *acc) {                                                                      \
    A sums[CPU_FOLD_COLUMNS];                                                                                \
    for (int64_t j = 0; j < n; ++j) sums[j] = acc[j].field;                                                  \
    for (int64_t r = 0; r < rows; ++r) {                                                                     \
      const S *row = (const S *)(const void *)((const char *)x + r * stride_bytes);                          \
      for (int64_t j = 0; j < n; ++j) {                                                                      \
        const A v = (A)READ(row[j]);                                                                         \
        sums[j] = OP(sums[j], v);                                                                            \
      }                                                                                                      \
    }                                                                                                        \
    for (int64_t j = 0; j < n; ++j) acc[j].field = sums[j];                                                  \
  }

/* Squares of distances from a centre: the second pass of a variance, norms with centre 0. */
#define SQUARES(name, S)                                                                        \
  static void fold_squares_##name(const void *x, int64_t n, double centre, cpu_acc *acc) {      \
    LANES_FOLD(double, S, LANES_PLAIN, ADD_SQUARE, ADD_F, 0.0, x, n, acc->f);                   \
  }                                                                                             \
  static void rows_squares_##name(const void *x, int64_t stride_bytes, int64_t rows, int64_t n, \
                                  const double *centres, cpu_acc *acc) {                        \
    double sums[CPU_FOLD_COLUMNS];                                                              \
    for (int64_t j = 0; j < n; ++j) sums[j] = acc[j].f;                                         \
    for (int64_t r = 0; r < rows; ++r) {                                                        \
      const S *row = (const S *)(const void *)((const char *)x + r * stride_bytes);             \
      for (int64_t j = 0; j < n; ++j) {                                                         \
        const double v = (double)row[j] - centres[j];                                           \
        sums[j] += v * v;                                                                       \
      }                                                                                         \
    }                                                                                           \
    for (int64_t j = 0; j < n; ++j) acc[j].f = sums[j];                                         \
  }
#define ADD_SQUARE(a, v) ((a) + ((v)-centre) * ((v)-centre))

#define FOLDS_FLOAT(S, name)                                    \
  FOLD(sum_##name, double, f, S, LANES_PLAIN, ADD_F, 0.0)       \
  FOLD(max_##name, double, f, S, LANES_PLAIN, MAX_F, -INFINITY) \
  FOLD(min_##name, double, f, S, LANES_PLAIN, MIN_F, INFINITY)  \
  SQUARES(name, S)
FOLDS_FLOAT(float, f32)
FOLDS_FLOAT(double, f64)
FOLD(prod_f64, double, f, double, LANES_PLAIN, MUL_F, 1.0)
FOLD(sum_i64, int64_t, i, int64_t, LANES_PLAIN, ADD_I, 0)
FOLD(prod_i64, int64_t, i, int64_t, LANES_PLAIN, MUL_I, 1)
FOLD(max_i64, int64_t, i, int64_t, LANES_PLAIN, MAX_I, INT64_MIN)
FOLD(min_i64, int64_t, i, int64_t, LANES_PLAIN, MIN_I, INT64_MAX)
FOLD(any_b8, int64_t, i, uint8_t, TRUTH, OR_I, 0)
FOLD(all_b8, int64_t, i, uint8_t, TRUTH, AND_I, 1)

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

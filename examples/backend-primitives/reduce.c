/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions: the kit sorts kept dims from reduced ones, a row function computes some results, one walk a result.
 */
#include <string.h>
#include <tenon/kit/shape.h>

#include "forty.h"

/* Reduces the dims of a list argument (absent or empty: all) in rows of `row`; ctx goes to it. */
static tn_status reduce(const tn_view *self, const tn_view *result, uint64_t dims, uint32_t flags,
                        tn_reduce_fn row, void *ctx) {
  tn_reduce it;
  TN_TRY(tn_reduce_init(&it, dims, 1, &result, self, flags));
  return tn_reduce_run(&it, FORTY_GRAIN, row, ctx);
}

static tn_status dims_of(const tn_value *list, uint32_t ndim, uint64_t *out_dims) {
  bool has = list->kind != TN_VAL_NONE;
  return tn_shape_dim_mask(list->u.ints, has ? list->count : 0, ndim, true, out_dims);
}

/* ------------------------------------------------------------------ sums: floats add up in double */

#define SUM(ctype, acc, name)                                                                               \
  static void add_##name(void *total, char **data, const int64_t *strides, int64_t n) {                     \
    const char *p = forty_bytes(data[0]);                                                                   \
    acc sum = *(acc *)total;                                                                                \
    for (int64_t i = 0; i < n; i++) sum += *(const ctype *)(const void *)(p + i * strides[0]);              \
    *(acc *)total = sum;                                                                                    \
  }                                                                                                         \
  static void sum_##name(void *ctx, char **data, const int64_t *strides, int64_t n, const tn_iter *inner) { \
    for (int64_t i = 0; i < n; i++) {                                                                       \
      char *first = data[1] + i * strides[1];                                                               \
      acc total = 0;                                                                                        \
      tn_iter_walk(inner, &first, 0, inner->numel, add_##name, &total);                                     \
      *(ctype *)(void *)(forty_bytes(data[0]) + i * strides[0]) = (ctype)total;                             \
    }                                                                                                       \
  }
SUM(float, double, float32)
SUM(double, double, float64)
SUM(int64_t, uint64_t, int64)

tn_status forty_sum(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v;
  uint64_t dims;
  TN_TRY(dims_of(&args[1], self->ndim, &dims));
  tn_reduce_fn row = self->dtype == TN_FLOAT32   ? sum_float32
                     : self->dtype == TN_FLOAT64 ? sum_float64
                                                 : sum_int64;
  return reduce(self, out[0].u.v, dims, 0, row, NULL);
}

/* ------------------------------------------------------------------ extremes: a NaN wins, the first of equals stays */

typedef struct best {
  int64_t seen, at; /* elements so far; the number of the best */
  double f;
  int64_t i;
} best;

#define EXTREME(op, sign, member, ctype, name)                                                               \
  static void op##_seek_##name(void *ctx, char **data, const int64_t *strides, int64_t n) {                  \
    best *b = ctx;                                                                                           \
    const char *p = forty_bytes(data[0]);                                                                    \
    for (int64_t i = 0; i < n; i++, b->seen++) {                                                             \
      const ctype x = *(const ctype *)(const void *)(p + i * strides[0]);                                    \
      bool better = x sign b->member || (x != x && b->member == b->member);                                  \
      if (b->seen && !better) continue;                                                                      \
      b->member = x;                                                                                         \
      b->at = b->seen;                                                                                       \
    }                                                                                                        \
  }                                                                                                          \
  static void op##_##name(void *ctx, char **data, const int64_t *strides, int64_t n, const tn_iter *inner) { \
    const bool *index = ctx;                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                                        \
      char *first = data[1] + i * strides[1], *to = forty_bytes(data[0]) + i * strides[0];                   \
      best b = {0};                                                                                          \
      tn_iter_walk(inner, &first, 0, inner->numel, op##_seek_##name, &b);                                    \
      if (*index)                                                                                            \
        *(int64_t *)(void *)to = b.at;                                                                       \
      else                                                                                                   \
        *(ctype *)(void *)to = (ctype)b.member;                                                              \
    }                                                                                                        \
  }
#define EXTREMES(op, sign)                                                            \
  EXTREME(op, sign, i, bool, boolean)                                                 \
  EXTREME(op, sign, i, int64_t, int64)                                                \
  EXTREME(op, sign, f, float, float32)                                                \
  EXTREME(op, sign, f, double, float64)                                               \
  static const tn_reduce_fn op##_rows[TN_DTYPE_LIMIT] = {[TN_BOOL] = op##_boolean,    \
                                                         [TN_INT64] = op##_int64,     \
                                                         [TN_FLOAT32] = op##_float32, \
                                                         [TN_FLOAT64] = op##_float64};
EXTREMES(most, >)
EXTREMES(least, <)

static tn_status extreme(const tn_value *args, tn_value *out, const tn_reduce_fn *rows) {
  const tn_view *self = args[0].u.v;
  bool index = false;
  uint64_t dims;
  TN_TRY(dims_of(&args[1], self->ndim, &dims));
  return reduce(self, out[0].u.v, dims, 0, rows[self->dtype], &index);
}

tn_status forty_amax(tn_call *call, const tn_value *args, tn_value *out) {
  return extreme(args, out, most_rows);
}
tn_status forty_amin(tn_call *call, const tn_value *args, tn_value *out) {
  return extreme(args, out, least_rows);
}

tn_status forty_argmax(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v;
  bool index = true, has = args[1].kind != TN_VAL_NONE;
  uint64_t dims;
  TN_TRY(tn_shape_dim_mask(&args[1].u.i, has ? 1 : 0, self->ndim, true, &dims));
  return reduce(self, out[0].u.v, dims, TN_ITER_IN_ORDER, most_rows[self->dtype], &index);
}

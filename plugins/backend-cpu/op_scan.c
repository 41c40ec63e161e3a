/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that walk lines along one dim in order: the place of the largest or smallest element (max.dim,
 * min.dim, argmax, argmin) and running sums. The first of equal elements wins; the first NaN wins over
 * everything.
 */
#include <math.h>

#include "plugins/backend-cpu/cpu.h"

/* ------------------------------------------------------------------ extremes with their place */

typedef struct extreme {
  tn_dtype dtype, wide; /* of the elements; int64, float32 or float64 */
  int64_t n, stride;    /* of a line of self */
  bool largest;
  bool with_value; /* data: values, indices, self; else indices, self */
} extreme;

#define BETTER(T, bad)                                                                               \
  static bool better_##T(const T *x, int64_t n, bool largest, T *best, int64_t *place, int64_t at) { \
    for (int64_t i = 0; i < n; ++i)                                                                  \
      if ((largest ? x[i] > *best : x[i] < *best) || bad(x[i]) || *place < 0) {                      \
        *best = x[i];                                                                                \
        *place = at + i;                                                                             \
        if (bad(x[i])) return true;                                                                  \
      }                                                                                              \
    return false;                                                                                    \
  }
#define NEVER(x)  false
#define IS_NAN(x) ((x) != (x))
BETTER(int64_t, NEVER)
BETTER(float, IS_NAN)
BETTER(double, IS_NAN)

static int64_t find_extreme(const extreme *e, const char *line) {
  uint64_t block[CPU_BLOCK];
  int64_t place = -1;
  union {
    int64_t i;
    float f;
    double d;
  } best = {0};
  bool done = false;
  for (int64_t i = 0; i < e->n && !done; i += CPU_BLOCK) {
    int64_t m = e->n - i < CPU_BLOCK ? e->n - i : CPU_BLOCK;
    cpu_read(block, e->wide, line + i * e->stride, e->dtype, e->stride, m);
    if (e->wide == TN_FLOAT32)
      done = better_float((const float *)block, m, e->largest, &best.f, &place, i);
    else if (e->wide == TN_FLOAT64)
      done = better_double((const double *)block, m, e->largest, &best.d, &place, i);
    else
      done = better_int64_t((const int64_t *)block, m, e->largest, &best.i, &place, i);
  }
  return place;
}

static void extreme_line(void *ctx, char *const *data) {
  const extreme *e = ctx;
  const char *line = data[e->with_value ? 2 : 1];
  int64_t place = find_extreme(e, line);
  memcpy(data[e->with_value ? 1 : 0], &place, sizeof place);
  if (e->with_value) memcpy(data[0], line + place * e->stride, tn_kit_dtype_size(e->dtype));
}

static extreme extreme_of(const tn_view *self, uint32_t dim, bool largest) {
  tn_dtype wide = tn_kit_dtype_is_float(self->dtype) ? cpu_wide(self->dtype) : TN_INT64;
  return (extreme){self->dtype, wide, cpu_size(self, dim), cpu_stride_bytes(self, dim), largest, false};
}

static tn_status extreme_dim(const tn_value *args, tn_value *out, bool largest) {
  const tn_view *self = args[0].u.v, *views[3] = {out[0].u.v, out[1].u.v, self};
  uint32_t dim = cpu_dim(args[1].u.i, self->ndim);
  extreme e = extreme_of(self, dim, largest);
  e.with_value = true;
  return cpu_lines(3, views, dim, CPU_GRAIN / (e.n + 1), extreme_line, &e);
}

static tn_status arg_extreme(tn_call *call, const tn_value *args, tn_value *out, bool largest) {
  const tn_view *self = args[0].u.v, *views[2] = {out[0].u.v, self};
  if (args[1].kind == TN_VAL_NONE) {
    const void *data;
    TN_TRY(cpu_contiguous_data(call, self, self->dtype, &data));
    extreme e = extreme_of(self, 0, largest);
    e.n = self->numel;
    e.stride = self->itemsize;
    int64_t place = find_extreme(&e, data);
    memcpy(out[0].u.v->data, &place, sizeof place);
    return TN_OK;
  }
  uint32_t dim = cpu_dim(args[1].u.i, self->ndim);
  extreme e = extreme_of(self, dim, largest);
  return cpu_lines(2, views, dim, CPU_GRAIN / (e.n + 1), extreme_line, &e);
}

tn_status cpu_op_max_dim(tn_call *call, const tn_value *args, tn_value *out) {
  return extreme_dim(args, out, true);
}
tn_status cpu_op_min_dim(tn_call *call, const tn_value *args, tn_value *out) {
  return extreme_dim(args, out, false);
}
tn_status cpu_op_argmax(tn_call *call, const tn_value *args, tn_value *out) {
  return arg_extreme(call, args, out, true);
}
tn_status cpu_op_argmin(tn_call *call, const tn_value *args, tn_value *out) {
  return arg_extreme(call, args, out, false);
}

/* ------------------------------------------------------------------ running sums */

typedef struct scan {
  tn_dtype in, out, wide; /* wide: int64 or float64 */
  int64_t n, in_stride, out_stride;
} scan;

static void scan_line(void *ctx, char *const *data) {
  const scan *s = ctx;
  union {
    double f[CPU_BLOCK];
    uint64_t u[CPU_BLOCK];
  } block;
  double sum = 0;
  uint64_t total = 0;
  for (int64_t i = 0; i < s->n; i += CPU_BLOCK) {
    int64_t m = s->n - i < CPU_BLOCK ? s->n - i : CPU_BLOCK;
    cpu_read(&block, s->wide, data[1] + i * s->in_stride, s->in, s->in_stride, m);
    if (s->wide == TN_FLOAT64)
      for (int64_t j = 0; j < m; ++j) block.f[j] = sum += block.f[j];
    else
      for (int64_t j = 0; j < m; ++j) block.u[j] = total += block.u[j];
    cpu_write(data[0] + i * s->out_stride, s->out, s->out_stride, &block, s->wide, m);
  }
}

tn_status cpu_op_cumsum(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v, *result = out[0].u.v, *views[2] = {result, self};
  if (result->numel == 0) return TN_OK;
  uint32_t dim = cpu_dim(args[1].u.i, self->ndim);
  scan s = {self->dtype,
            result->dtype,
            tn_kit_dtype_is_float(result->dtype) ? TN_FLOAT64 : TN_INT64,
            cpu_size(self, dim),
            cpu_stride_bytes(self, dim),
            cpu_stride_bytes(result, dim)};
  return cpu_lines(2, views, dim, CPU_GRAIN / (s.n + 1), scan_line, &s);
}

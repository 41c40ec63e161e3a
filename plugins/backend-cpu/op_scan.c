/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that walk lines along one dim in order: the place of the largest or smallest element (max.dim,
 * min.dim, argmax, argmin; their loops are in per-isa/extreme.c) and running sums.
 */
#include <math.h>

#include "plugins/backend-cpu/cpu.h"

/* ------------------------------------------------------------------ extremes with their place */

enum {
  LINE_BLOCK = 4096,   /* elements of a line that are looked at in one call */
  SPLIT_BLOCK = 65536, /* of one long line, what a thread takes at a time */
};

typedef struct extreme {
  tn_dtype dtype, wide; /* of the elements; int64, float32 or float64 */
  const cpu_extreme_fns *fns;
  bool largest;
  bool with_value; /* data: values, indices, self; else indices, self */
  bool columns;    /* neighbouring lines lie side by side in memory, in the wide dtype */
} extreme;

/* The best element of a line so far. */
typedef struct found {
  int64_t place;
  union {
    int64_t i;
    float f;
    double d;
  } value;
} found;

/* Looks at n elements whose numbers begin at `at`; true if nothing can beat what was found. */
static bool look_at(const extreme *e, const char *line, int64_t stride, int64_t n, int64_t at, found *best) {
  uint64_t block[CPU_BLOCK];
  bool direct = e->dtype == e->wide && stride == (int64_t)tn_kit_dtype_size(e->wide);
  int64_t step = direct ? LINE_BLOCK : CPU_BLOCK;
  for (int64_t i = 0; i < n; i += step) {
    int64_t m = n - i < step ? n - i : step, place;
    const char *x = line + i * stride;
    if (!direct) {
      cpu_read(block, e->wide, x, e->dtype, stride, m);
      x = (const char *)block;
    }
    cpu_extreme_found how = e->fns->run(x, m, e->largest, best->place < 0, &best->value, &place);
    if (how != CPU_EXTREME_NONE) best->place = at + i + place;
    if (how == CPU_EXTREME_NAN) return true;
  }
  return false;
}

static int64_t find_extreme(const extreme *e, const char *line, int64_t stride, int64_t n) {
  found best = {.place = -1};
  look_at(e, line, stride, n, 0, &best);
  return best.place;
}

/* Neighbouring lines at once. More rows than one call takes: the later calls' extremes compete with the first's. */
static void extreme_columns(const extreme *e, char **data, const int64_t *strides, int64_t n, int64_t rows,
                            int64_t row_stride) {
  uint64_t best[CPU_EXTREME_COLUMNS];
  int64_t places[CPU_EXTREME_COLUMNS];
  uint32_t self = e->with_value ? 2 : 1, index = e->with_value ? 1 : 0;
  for (int64_t j = 0; j < n; j += CPU_EXTREME_COLUMNS) {
    int64_t m = n - j < CPU_EXTREME_COLUMNS ? n - j : CPU_EXTREME_COLUMNS;
    const char *x = data[self] + j * strides[self];
    e->fns->rows(x, row_stride, rows, m, e->largest, best, places);
    cpu_scatter(data[index] + j * strides[index], strides[index], places, m, sizeof *places);
    if (e->with_value) cpu_scatter(data[0] + j * strides[0], strides[0], best, m, tn_kit_dtype_size(e->wide));
  }
}

static void extreme_row(void *ctx, char **data, const int64_t *strides, int64_t n, const tn_iter *inner) {
  const extreme *e = ctx;
  uint32_t self = e->with_value ? 2 : 1, index = e->with_value ? 1 : 0;
  int64_t count = inner->sizes[0], stride = inner->strides[0][0];
  size_t size = tn_kit_dtype_size(e->dtype);
  if (e->columns) {
    extreme_columns(e, data, strides, n, count, stride);
    return;
  }
  for (int64_t j = 0; j < n; ++j) {
    const char *line = data[self] + j * strides[self];
    int64_t place = find_extreme(e, line, stride, count);
    memcpy(data[index] + j * strides[index], &place, sizeof place);
    if (e->with_value) memcpy(data[0] + j * strides[0], line + place * stride, size);
  }
}

static extreme extreme_of(const tn_view *self, bool largest, bool with_value) {
  tn_dtype wide = tn_kit_dtype_is_float(self->dtype) ? cpu_wide(self->dtype) : TN_INT64;
  const cpu_extreme_fns *fns = wide == TN_FLOAT32   ? cpu_now->extreme_f32
                               : wide == TN_FLOAT64 ? cpu_now->extreme_f64
                                                    : cpu_now->extreme_i64;
  return (extreme){
      .dtype = self->dtype, .wide = wide, .fns = fns, .largest = largest, .with_value = with_value};
}

/* out: values, if they are wanted, and indices. */
static tn_status extreme_dim(extreme *e, const tn_view *self, uint32_t dim, const tn_view *const *out) {
  tn_reduce it;
  if (out[0]->numel == 0) return TN_OK;
  uint64_t mask = self->ndim ? (uint64_t)1 << dim : 0;
  uint32_t n_outputs = e->with_value ? 2 : 1;
  TN_TRY(tn_reduce_init(&it, mask, n_outputs, out, self, TN_ITER_IN_ORDER));
  e->columns = it.outer.numel > 1 && it.outer.strides[0][n_outputs] == self->itemsize &&
               it.inner.sizes[0] > 1 && it.inner.strides[0][0] != self->itemsize && e->wide == e->dtype &&
               it.inner.sizes[0] <= CPU_EXTREME_ROWS;
  return tn_reduce_run(&it, CPU_GRAIN, extreme_row, e);
}

typedef struct split_extreme {
  const extreme *e;
  const char *data;
  int64_t n;
  found *parts;
} split_extreme;

static tn_status split_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const split_extreme *job = ctx;
  size_t size = tn_kit_dtype_size(job->e->dtype);
  for (int64_t c = begin; c < end; ++c) {
    int64_t at = c * SPLIT_BLOCK, n = job->n - at < SPLIT_BLOCK ? job->n - at : SPLIT_BLOCK;
    job->parts[c].place = -1;
    look_at(job->e, job->data + (size_t)at * size, (int64_t)size, n, at, &job->parts[c]);
  }
  return TN_OK;
}

/* The flattened elements as one line, whose blocks the threads share; then the blocks' bests in order. */
static tn_status extreme_all(tn_call *call, const extreme *e, const tn_view *self, int64_t *out_place) {
  const void *data;
  void *parts;
  int64_t chunks = (self->numel + SPLIT_BLOCK - 1) / SPLIT_BLOCK;
  found best = {.place = -1};
  TN_TRY(cpu_contiguous_data(call, self, self->dtype, &data));
  TN_TRY(cpu_scratch(call, (size_t)chunks * sizeof(found), &parts));
  split_extreme job = {e, data, self->numel, parts};
  TN_TRY(tn_kit_host()->parallel_for(chunks, 1, split_chunk, &job));
  for (int64_t c = 0; c < chunks; ++c) {
    int64_t place;
    cpu_extreme_found how =
        e->fns->run(&job.parts[c].value, 1, e->largest, best.place < 0, &best.value, &place);
    if (how != CPU_EXTREME_NONE) best.place = job.parts[c].place;
    if (how == CPU_EXTREME_NAN) break;
  }
  *out_place = best.place;
  return TN_OK;
}

static tn_status extreme_with_value(const tn_value *args, tn_value *out, bool largest) {
  const tn_view *self = args[0].u.v, *views[2] = {out[0].u.v, out[1].u.v};
  extreme e = extreme_of(self, largest, true);
  return extreme_dim(&e, self, cpu_dim(args[1].u.i, self->ndim), views);
}

static tn_status arg_extreme(tn_call *call, const tn_value *args, tn_value *out, bool largest) {
  const tn_view *self = args[0].u.v, *views[1] = {out[0].u.v};
  extreme e = extreme_of(self, largest, false);
  if (args[1].kind != TN_VAL_NONE) return extreme_dim(&e, self, cpu_dim(args[1].u.i, self->ndim), views);
  int64_t place = 0;
  if (self->numel <= SPLIT_BLOCK && cpu_contiguous(self))
    place = find_extreme(&e, self->data, self->itemsize, self->numel);
  else
    TN_TRY(extreme_all(call, &e, self, &place));
  memcpy(out[0].u.v->data, &place, sizeof place);
  return TN_OK;
}

tn_status cpu_op_max_dim(tn_call *call, const tn_value *args, tn_value *out) {
  return extreme_with_value(args, out, true);
}
tn_status cpu_op_min_dim(tn_call *call, const tn_value *args, tn_value *out) {
  return extreme_with_value(args, out, false);
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over any dims: sum, mean, prod, amax, amin, any, all, var. The kit's reduction iterator gives
 * rows of outputs and describes the reduced elements of each; this file turns both into the two loops of
 * per-isa/reduce.c (a contiguous run into one accumulator, rows into many) and widens other dtypes block
 * by block.
 *
 * Note [Chunks]
 * The elements of one output are folded in chunks of fixed size, whose results are joined in order. Chunks
 * are what threads share when there is only one output; since their borders come from the sizes alone, the
 * bits do not depend on the number of threads.
 */
#include <math.h>

#include "plugins/backend-cpu/cpu.h"

enum { CHUNK = 32768, ROW_CHUNK = 1024 };
enum { FINISH_NONE = 0, FINISH_MEAN, FINISH_VAR };

typedef struct reduction {
  uint32_t kind; /* CPU_SUM ... */
  int finish;    /* FINISH_... */
  double correction;
  tn_dtype in;   /* of the elements */
  tn_dtype wide; /* what the loops take */
  tn_dtype out;
  bool is_float; /* accumulators are doubles */
  int64_t count; /* elements of one output */
} reduction;

static cpu_acc start_of(const reduction *r, uint32_t kind) {
  static const double floats[] = {
      [CPU_SUM] = 0, [CPU_PROD] = 1, [CPU_MAX] = -INFINITY, [CPU_MIN] = INFINITY, [CPU_SQUARES] = 0};
  static const int64_t ints[] = {[CPU_SUM] = 0,         [CPU_PROD] = 1, [CPU_MAX] = INT64_MIN,
                                 [CPU_MIN] = INT64_MAX, [CPU_ANY] = 0,  [CPU_ALL] = 1};
  cpu_acc acc;
  if (r->is_float)
    acc.f = floats[kind];
  else
    acc.i = ints[kind];
  return acc;
}

static void join(const reduction *r, uint32_t kind, cpu_acc *acc, cpu_acc part) {
  switch (kind) {
    case CPU_PROD:
      if (r->is_float)
        acc->f *= part.f;
      else
        acc->i = (int64_t)((uint64_t)acc->i * (uint64_t)part.i);
      return;
    case CPU_MAX:
      if (r->is_float)
        acc->f = acc->f > part.f || isnan(acc->f) ? acc->f : part.f;
      else
        acc->i = acc->i > part.i ? acc->i : part.i;
      return;
    case CPU_MIN:
      if (r->is_float)
        acc->f = acc->f < part.f || isnan(acc->f) ? acc->f : part.f;
      else
        acc->i = acc->i < part.i ? acc->i : part.i;
      return;
    case CPU_ANY: acc->i |= part.i; return;
    case CPU_ALL: acc->i &= part.i; return;
    default:
      if (r->is_float)
        acc->f += part.f;
      else
        acc->i = (int64_t)((uint64_t)acc->i + (uint64_t)part.i);
  }
}

/* ------------------------------------------------------------------ one output, or a few side by side */

typedef struct fold_walk {
  const reduction *r;
  cpu_fold_fn fold;
  cpu_fold_rows_fn rows;
  int64_t columns;
  const double *centres;
  cpu_acc *acc;
} fold_walk;

static void fold_run(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const fold_walk *w = ctx;
  const reduction *r = w->r;
  if (r->in == r->wide && strides[0] == (int64_t)tn_kit_dtype_size(r->wide)) {
    w->fold(data[0], n, w->centres[0], w->acc);
    return;
  }
  uint64_t block[CPU_BLOCK];
  for (int64_t i = 0; i < n; i += CPU_BLOCK) {
    int64_t m = n - i < CPU_BLOCK ? n - i : CPU_BLOCK;
    cpu_read(block, r->wide, data[0] + i * strides[0], r->in, strides[0], m);
    w->fold(block, m, w->centres[0], w->acc);
  }
}

static void fold_rows(void *ctx, char **data, const int64_t *strides, int64_t n) {
  const fold_walk *w = ctx;
  const reduction *r = w->r;
  if (r->in == r->wide) {
    w->rows(data[0], strides[0], n, w->columns, w->centres, w->acc);
    return;
  }
  uint64_t block[CPU_FOLD_COLUMNS];
  for (int64_t i = 0; i < n; ++i) {
    cpu_now->cast(r->wide, r->in)(block, data[0] + i * strides[0], w->columns);
    w->rows(block, 0, 1, w->columns, w->centres, w->acc);
  }
}

/* Folds the reduced elements of `columns` outputs that lie side by side (1: at any strides) into acc. */
static void fold_columns(const reduction *r, uint32_t kind, char *base, const tn_iter *inner, int64_t begin,
                         int64_t end, int64_t columns, const double *centres, cpu_acc *acc) {
  int64_t chunk = columns == 1 ? CHUNK : ROW_CHUNK;
  for (int64_t i = begin; i < end; i += chunk) {
    cpu_acc part[CPU_FOLD_COLUMNS];
    for (int64_t j = 0; j < columns; ++j) part[j] = start_of(r, kind);
    fold_walk w = {r,   cpu_now->fold(kind, r->wide), cpu_now->fold_rows(kind, r->wide), columns, centres,
                   part};
    tn_iter_walk(inner, &base, i, end - i < chunk ? end : i + chunk, columns == 1 ? fold_run : fold_rows, &w);
    for (int64_t j = 0; j < columns; ++j) join(r, kind, &acc[j], part[j]);
  }
}

/* What accumulators of a finished fold become: mean, variance, or themselves. */
static void finish_columns(const reduction *r, int64_t columns, cpu_acc *acc) {
  double divisor = (double)r->count - (r->finish == FINISH_VAR ? r->correction : 0);
  if (r->finish == FINISH_NONE) return;
  if (divisor < 0) divisor = 0; /* as ATen: more correction than elements divides by 0 */
  for (int64_t j = 0; j < columns; ++j) acc[j].f /= divisor;
}

static void reduce_columns(const reduction *r, char *dst, int64_t dst_stride, char *src, const tn_iter *inner,
                           int64_t columns) {
  static const double no_centres[CPU_FOLD_COLUMNS];
  double centres[CPU_FOLD_COLUMNS];
  cpu_acc acc[CPU_FOLD_COLUMNS];
  for (int64_t j = 0; j < columns; ++j) acc[j] = start_of(r, r->kind);
  if (r->finish == FINISH_VAR) {
    for (int64_t j = 0; j < columns; ++j) acc[j].f = 0;
    fold_columns(r, CPU_SUM, src, inner, 0, r->count, columns, no_centres, acc);
    for (int64_t j = 0; j < columns; ++j) {
      centres[j] = acc[j].f / (double)r->count;
      acc[j].f = 0;
    }
  }
  fold_columns(r, r->kind, src, inner, 0, r->count, columns, r->finish == FINISH_VAR ? centres : no_centres,
               acc);
  finish_columns(r, columns, acc);
  cpu_write(dst, r->out, dst_stride, acc, r->is_float ? TN_FLOAT64 : TN_INT64, columns);
}

static void reduce_row(void *ctx, char **data, const int64_t *strides, int64_t n, const tn_iter *inner) {
  const reduction *r = ctx;
  bool side_by_side =
      n > 1 && strides[1] == (int64_t)tn_kit_dtype_size(r->in) && inner->strides[0][0] != strides[1];
  int64_t step = side_by_side ? CPU_FOLD_COLUMNS : 1;
  for (int64_t j = 0; j < n; j += step)
    reduce_columns(r, data[0] + j * strides[0], strides[0], data[1] + j * strides[1], inner,
                   n - j < step ? n - j : step);
}

/* ------------------------------------------------------------------ one output over many elements */

typedef struct split_job {
  const reduction *r;
  uint32_t kind;
  char *base;
  const tn_iter *inner;
  double centre;
  cpu_acc *parts; /* one a chunk */
} split_job;

static tn_status split_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const split_job *job = ctx;
  for (int64_t c = begin; c < end; ++c) {
    int64_t from = c * CHUNK, to = job->r->count - from < CHUNK ? job->r->count : from + CHUNK;
    job->parts[c] = start_of(job->r, job->kind);
    fold_columns(job->r, job->kind, job->base, job->inner, from, to, 1, &job->centre, &job->parts[c]);
  }
  return TN_OK;
}

static tn_status split_fold(split_job *job, uint32_t kind, cpu_acc *out_acc) {
  int64_t chunks = (job->r->count + CHUNK - 1) / CHUNK;
  job->kind = kind;
  TN_TRY(tn_kit_host()->parallel_for(chunks, 2, split_chunk, job));
  *out_acc = start_of(job->r, kind);
  for (int64_t c = 0; c < chunks; ++c) join(job->r, kind, out_acc, job->parts[c]);
  return TN_OK;
}

static tn_status reduce_to_one(tn_call *call, const reduction *r, const tn_reduce *it) {
  void *parts;
  TN_TRY(cpu_scratch(call, (size_t)((r->count + CHUNK - 1) / CHUNK) * sizeof(cpu_acc), &parts));
  split_job job = {.r = r, .base = it->outer.data[1], .inner = &it->inner, .parts = parts};
  cpu_acc acc;
  if (r->finish == FINISH_VAR) {
    TN_TRY(split_fold(&job, CPU_SUM, &acc));
    job.centre = acc.f / (double)r->count;
  }
  TN_TRY(split_fold(&job, r->kind, &acc));
  finish_columns(r, 1, &acc);
  cpu_write(it->outer.data[0], r->out, 0, &acc, r->is_float ? TN_FLOAT64 : TN_INT64, 1);
  return TN_OK;
}

/* ------------------------------------------------------------------ set-up */

static uint64_t all_dims(const tn_view *v) {
  return v->ndim == 64 ? ~(uint64_t)0 : ((uint64_t)1 << v->ndim) - 1;
}

/* Dims of a list argument; none or an empty list: all. */
static uint64_t dims_of(const tn_value *dims, const tn_view *v) {
  uint64_t mask = 0;
  if (dims->kind == TN_VAL_INT) return v->ndim ? (uint64_t)1 << cpu_dim(dims->u.i, v->ndim) : 0;
  if (dims->kind == TN_VAL_NONE || dims->count == 0) return all_dims(v);
  for (uint32_t i = 0; i < dims->count && v->ndim; ++i)
    mask |= (uint64_t)1 << cpu_dim(dims->u.ints[i], v->ndim);
  return mask;
}

static tn_dtype widened(uint32_t kind, tn_dtype in) {
  if (kind == CPU_ANY || kind == CPU_ALL) return TN_BOOL;
  if (!tn_kit_dtype_is_float(in)) return TN_INT64;
  return kind == CPU_PROD ? TN_FLOAT64 : cpu_wide(in);
}

/* Nothing to fold: every output is the start value, finished. */
static tn_status reduce_nothing(const reduction *r, const tn_view *out) {
  cpu_acc acc = start_of(r, r->kind);
  finish_columns(r, 1, &acc);
  cpu_scalar s = r->is_float ? (cpu_scalar){acc.f, 0} : (cpu_scalar){(double)acc.i, acc.i};
  return cpu_fill(out, &s);
}

/* One contiguous run into one output, without an iterator: the usual loss. */
static tn_status reduce_run(const reduction *r, const tn_view *self, const tn_view *out) {
  cpu_acc acc = start_of(r, r->kind);
  cpu_now->fold(r->kind, r->wide)(self->data, r->count, 0, &acc);
  finish_columns(r, 1, &acc);
  cpu_scalar s = r->is_float ? (cpu_scalar){acc.f, 0} : (cpu_scalar){(double)acc.i, acc.i};
  cpu_put_scalar(out->data, r->out, &s);
  return TN_OK;
}

static tn_status reduce(tn_call *call, reduction r, const tn_view *self, const tn_view *out, uint64_t mask) {
  r.in = self->dtype;
  r.out = out->dtype;
  r.wide = widened(r.kind, r.in);
  r.is_float = tn_kit_dtype_is_float(r.wide);
  if (out->numel == 0) return TN_OK;
  r.count = self->numel / out->numel;
  if (r.count == 0) return reduce_nothing(&r, out);
  if (out->numel == 1 && r.count <= CHUNK && cpu_contiguous(self) && r.in == r.wide && r.finish != FINISH_VAR)
    return reduce_run(&r, self, out);
  tn_reduce it;
  TN_TRY(tn_reduce_init(&it, mask, 1, &out, self, 0));
  if (out->numel == 1 && r.count > CHUNK) return reduce_to_one(call, &r, &it);
  return tn_reduce_run(&it, CPU_GRAIN, reduce_row, &r);
}

static tn_status reduce_all(tn_call *call, uint32_t kind, int finish, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v;
  return reduce(call, (reduction){.kind = kind, .finish = finish}, self, out[0].u.v, all_dims(self));
}

static tn_status reduce_dims(tn_call *call, uint32_t kind, int finish, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v;
  return reduce(call, (reduction){.kind = kind, .finish = finish}, self, out[0].u.v, dims_of(&args[1], self));
}

#define REDUCTION(name, how, kind, finish)                                      \
  tn_status cpu_op_##name(tn_call *call, const tn_value *args, tn_value *out) { \
    return how(call, kind, finish, args, out);                                  \
  }
REDUCTION(sum, reduce_all, CPU_SUM, FINISH_NONE)
REDUCTION(sum_dim, reduce_dims, CPU_SUM, FINISH_NONE)
REDUCTION(mean, reduce_all, CPU_SUM, FINISH_MEAN)
REDUCTION(mean_dim, reduce_dims, CPU_SUM, FINISH_MEAN)
REDUCTION(prod, reduce_all, CPU_PROD, FINISH_NONE)
REDUCTION(prod_dim, reduce_dims, CPU_PROD, FINISH_NONE)
REDUCTION(amax, reduce_dims, CPU_MAX, FINISH_NONE)
REDUCTION(amin, reduce_dims, CPU_MIN, FINISH_NONE)
REDUCTION(any, reduce_all, CPU_ANY, FINISH_NONE)
REDUCTION(any_dim, reduce_dims, CPU_ANY, FINISH_NONE)
REDUCTION(all, reduce_all, CPU_ALL, FINISH_NONE)
REDUCTION(all_dim, reduce_dims, CPU_ALL, FINISH_NONE)

tn_status cpu_op_var(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v;
  reduction r = {.kind = CPU_SQUARES, .finish = FINISH_VAR, .correction = cpu_double(&args[2], 1)};
  return reduce(call, r, self, out[0].u.v, dims_of(&args[1], self));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over any dims: sum, mean, prod, amax, amin, any, all, var. The kit's reduction iterator gives
 * rows of outputs and describes the reduced elements of each; this file turns both into the two loops of
 * per-isa/reduce.c (a contiguous run into one accumulator, rows into many) and widens other dtypes block
 * by block.
 *
 * Note [Chunks]
 * The elements of one output are folded in chunks of fixed size, whose results are joined in order. Chunks
 * are what threads share when there are few outputs; since their borders come from the sizes alone, the
 * bits do not depend on the number of threads.
 */
#include <math.h>

#include "plugins/backend-cpu/cpu.h"

enum { CHUNK = 32768, ROW_CHUNK = 1024, PAGE_BYTES = 4096 };
/* Rows and columns that are widened at a time (a multiple of what fold_rows makes a tree of); the most outputs,
 * and columns, that are few. */
enum { CAST_ROWS = 12, CAST_COLUMNS = 256, SPLIT_OUTPUTS = 16, SPLIT_COLUMNS = 512 };
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
  /* How the elements lie: a decision for the whole call, so that threads cannot differ in it. */
  bool side_by_side; /* neighbouring outputs have neighbouring elements, and one output's are apart */
  bool run;          /* one output's are contiguous, of one chunk, and need no cast */
  cpu_rows_read read;
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

/* ------------------------------------------------------------------ one output, or some side by side */

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
  uint64_t block[CAST_ROWS * CAST_COLUMNS];
  int64_t row = w->columns * (int64_t)tn_kit_dtype_size(r->wide);
  for (int64_t i = 0; i < n; i += CAST_ROWS) {
    int64_t m = n - i < CAST_ROWS ? n - i : CAST_ROWS;
    for (int64_t k = 0; k < m; ++k)
      cpu_now->cast(r->wide, r->in)((char *)block + k * row, data[0] + (i + k) * strides[0], w->columns);
    w->rows(block, row, m, w->columns, w->centres, w->acc);
  }
}

static void start_columns(const reduction *r, uint32_t kind, int64_t columns, cpu_acc *acc) {
  cpu_acc start = start_of(r, kind);
  for (int64_t j = 0; j < columns; ++j) acc[j] = start;
}

/* Folds the reduced elements [begin, end) of `columns` outputs that lie side by side (1: at any strides). */
static void fold_part(const reduction *r, uint32_t kind, char *base, const tn_iter *inner, int64_t begin,
                      int64_t end, int64_t columns, const double *centres, cpu_acc *part) {
  fold_walk w = {
      r, cpu_now->fold(kind, r->wide), cpu_now->fold_rows(kind, r->wide, r->read), columns, centres, part};
  tn_iter_walk(inner, &base, begin, end, columns == 1 ? fold_run : fold_rows, &w);
}

static int64_t chunk_of(const reduction *r) { return r->side_by_side ? ROW_CHUNK : CHUNK; }

/* The same over all chunks, joined into acc. See Note [Chunks]. */
static void fold_columns(const reduction *r, uint32_t kind, char *base, const tn_iter *inner, int64_t columns,
                         const double *centres, cpu_acc *acc) {
  int64_t chunk = chunk_of(r);
  cpu_acc part[CPU_FOLD_WIDE];
  start_columns(r, kind, columns, acc);
  if (r->count <= chunk) {
    fold_part(r, kind, base, inner, 0, r->count, columns, centres, acc);
    return;
  }
  for (int64_t i = 0; i < r->count; i += chunk) {
    start_columns(r, kind, columns, part);
    fold_part(r, kind, base, inner, i, r->count - i < chunk ? r->count : i + chunk, columns, centres, part);
    for (int64_t j = 0; j < columns; ++j) join(r, kind, &acc[j], part[j]);
  }
}

/* What accumulators of a finished fold become: mean, variance, or themselves. */
static void finish_columns(const reduction *r, int64_t columns, cpu_acc *acc) {
  double divisor = (double)r->count - (r->finish == FINISH_VAR ? r->correction : 0);
  if (r->finish == FINISH_NONE) return;
  if (divisor < 0) divisor = 0; /* as ATen: more correction than elements divides by 0 */
  for (int64_t j = 0; j < columns; ++j) {
    if (r->finish == FINISH_VAR && acc[j].f < 0) acc[j].f = 0; /* the last bit of a sum of zeros */
    acc[j].f /= divisor;
  }
}

static void write_columns(const reduction *r, char *dst, int64_t dst_stride, cpu_acc *acc, int64_t columns) {
  finish_columns(r, columns, acc);
  cpu_write(dst, r->out, dst_stride, acc, r->is_float ? TN_FLOAT64 : TN_INT64, columns);
}

static void means_of(const reduction *r, const cpu_acc *acc, int64_t columns, double *centres) {
  for (int64_t j = 0; j < columns; ++j) centres[j] = acc[j].f / (double)r->count;
}

static const double no_centres[CPU_FOLD_WIDE];

static void reduce_columns(const reduction *r, char *dst, int64_t dst_stride, char *src, const tn_iter *inner,
                           int64_t columns) {
  double centres[CPU_FOLD_WIDE];
  cpu_acc acc[CPU_FOLD_WIDE];
  if (r->finish == FINISH_VAR) {
    fold_columns(r, CPU_SUM, src, inner, columns, no_centres, acc);
    means_of(r, acc, columns, centres);
  }
  fold_columns(r, r->kind, src, inner, columns, r->finish == FINISH_VAR ? centres : no_centres, acc);
  write_columns(r, dst, dst_stride, acc, columns);
}

/* Outputs whose elements are one short run each: no walk, and one write for many. */
static void reduce_runs(const reduction *r, char **data, const int64_t *strides, int64_t n) {
  cpu_acc acc[CPU_FOLD_COLUMNS];
  cpu_fold_fn fold = cpu_now->fold(r->kind, r->wide);
  cpu_fold_fn sum = r->finish == FINISH_VAR ? cpu_now->fold(CPU_SUM, r->wide) : NULL;
  for (int64_t i = 0; i < n; i += CPU_FOLD_COLUMNS) {
    int64_t m = n - i < CPU_FOLD_COLUMNS ? n - i : CPU_FOLD_COLUMNS;
    start_columns(r, r->kind, m, acc);
    for (int64_t j = 0; j < m; ++j) {
      const char *run = data[1] + (i + j) * strides[1];
      cpu_acc total = {0};
      if (sum) sum(run, r->count, 0, &total);
      fold(run, r->count, total.f / (double)r->count, &acc[j]);
    }
    write_columns(r, data[0] + i * strides[0], strides[0], acc, m);
  }
}

static void reduce_row(void *ctx, char **data, const int64_t *strides, int64_t n, const tn_iter *inner) {
  const reduction *r = ctx;
  if (r->run) {
    reduce_runs(r, data, strides, n);
    return;
  }
  int64_t step = !r->side_by_side ? 1 : r->in == r->wide ? CPU_FOLD_WIDE : CAST_COLUMNS;
  for (int64_t j = 0; j < n; j += step)
    reduce_columns(r, data[0] + j * strides[0], strides[0], data[1] + j * strides[1], inner,
                   n - j < step ? n - j : step);
}

/* ------------------------------------------------------------------ few outputs over many elements */

typedef struct split_job {
  const reduction *r;
  uint32_t kind;
  char *base;
  const tn_iter *inner;
  int64_t columns;
  const double *centres;
  cpu_acc *parts; /* columns for each chunk */
} split_job;

static tn_status split_chunk(int64_t begin, int64_t end, int32_t worker, void *ctx) {
  const split_job *job = ctx;
  const reduction *r = job->r;
  int64_t chunk = chunk_of(r);
  for (int64_t c = begin; c < end; ++c) {
    cpu_acc *part = job->parts + c * job->columns;
    start_columns(r, job->kind, job->columns, part);
    fold_part(r, job->kind, job->base, job->inner, c * chunk,
              r->count - c * chunk < chunk ? r->count : (c + 1) * chunk, job->columns, job->centres, part);
  }
  return TN_OK;
}

static tn_status split_fold(split_job *job, uint32_t kind, cpu_acc *acc) {
  int64_t chunk = chunk_of(job->r), chunks = (job->r->count + chunk - 1) / chunk;
  int64_t work = (job->r->side_by_side ? ROW_CHUNK : CHUNK) * job->columns;
  job->kind = kind;
  TN_TRY(tn_kit_host()->parallel_for(chunks, 2 * CPU_GRAIN / work + 1, split_chunk, job));
  start_columns(job->r, kind, job->columns, acc);
  for (int64_t c = 0; c < chunks; ++c)
    for (int64_t j = 0; j < job->columns; ++j) join(job->r, kind, &acc[j], job->parts[c * job->columns + j]);
  return TN_OK;
}

/* One output, or all of a side-by-side row, whose chunks the threads share. */
static tn_status reduce_split(const reduction *r, char *dst, int64_t dst_stride, split_job *job) {
  double centres[CPU_FOLD_WIDE];
  cpu_acc acc[CPU_FOLD_WIDE];
  job->centres = no_centres;
  if (r->finish == FINISH_VAR) {
    TN_TRY(split_fold(job, CPU_SUM, acc));
    means_of(r, acc, job->columns, centres);
    job->centres = centres;
  }
  TN_TRY(split_fold(job, r->kind, acc));
  write_columns(r, dst, dst_stride, acc, job->columns);
  return TN_OK;
}

/* Threads share chunks where there are too few outputs to share. That changes no bits: chunks are joined in
 * the same order either way. */
static bool worth_splitting(const reduction *r, const tn_iter *outer) {
  int64_t chunks = (r->count + chunk_of(r) - 1) / chunk_of(r);
  if (chunks < 2) return false;
  if (!r->side_by_side) return outer->numel < SPLIT_OUTPUTS;
  return outer->ndim == 1 && outer->numel <= (r->in == r->wide ? SPLIT_COLUMNS : CAST_COLUMNS) &&
         r->count * outer->numel > 2 * CPU_GRAIN;
}

static tn_status reduce_by_chunks(tn_call *call, const reduction *r, const tn_reduce *it) {
  int64_t columns = r->side_by_side ? it->outer.numel : 1;
  void *parts;
  size_t chunks = (size_t)((r->count + chunk_of(r) - 1) / chunk_of(r));
  TN_TRY(cpu_scratch(call, chunks * (size_t)columns * sizeof(cpu_acc), &parts));
  for (int64_t i = 0; i < it->outer.numel; i += columns) {
    char *data[TN_ITER_MAX_OPERANDS];
    tn_iter_pointers(&it->outer, NULL, i, data);
    split_job job = {.r = r, .base = data[1], .inner = &it->inner, .columns = columns, .parts = parts};
    TN_TRY(reduce_split(r, data[0], it->outer.strides[0][0], &job));
  }
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

/* How rows of a tensor of size_bytes are read, stride_bytes apart. For one thread long rows count as in memory from half of
 * the last cache on, which then holds other tensors too. Beyond an eighth of the last cache the nearer ones hold
 * little of it. Blocks that are widened first (fold_rows) are always near. Note [Rows] in per-isa/reduce.c. */
static cpu_rows_read read_of(const reduction *r, int64_t size_bytes, int64_t stride_bytes) {
  bool page_shared = stride_bytes > -PAGE_BYTES && stride_bytes < PAGE_BYTES,
       memory = size_bytes >= cpu_stream_bytes;
  if (r->in != r->wide || size_bytes < cpu_stream_bytes / 8) return CPU_ROWS_AT_ONCE;
  if (page_shared) return memory ? CPU_ROWS_IN_ORDER : CPU_ROWS_ASKED;
  return memory ? CPU_ROWS_ASKED : CPU_ROWS_BEGUN;
}

/* r is by address: copied as a whole it would be read before the parts that were just stored have reached the cache. */
static tn_status reduce(tn_call *call, reduction *r, const tn_view *self, const tn_view *out, uint64_t mask) {
  r->in = self->dtype;
  r->out = out->dtype;
  r->wide = widened(r->kind, r->in);
  r->is_float = tn_kit_dtype_is_float(r->wide);
  if (out->numel == 0) return TN_OK;
  r->count = self->numel / out->numel;
  if (r->count == 0) return reduce_nothing(r, out);
  if (out->numel == 1 && r->count <= CHUNK && cpu_contiguous(self) && r->in == r->wide && r->finish != FINISH_VAR)
    return reduce_run(r, self, out);
  tn_reduce it;
  TN_TRY(tn_reduce_init(&it, mask, 1, &out, self, 0));
  bool contiguous = it.inner.strides[0][0] == self->itemsize || r->count == 1;
  r->side_by_side = it.outer.numel > 1 && it.outer.strides[0][1] == self->itemsize && !contiguous;
  r->read = read_of(r, self->numel * self->itemsize, it.inner.strides[0][0]);
  r->run = contiguous && it.inner.ndim == 1 && r->count <= CHUNK && r->in == r->wide;
  if (worth_splitting(r, &it.outer)) return reduce_by_chunks(call, r, &it);
  return tn_reduce_run(&it, CPU_GRAIN, reduce_row, r);
}

static tn_status reduce_all(tn_call *call, uint32_t kind, int finish, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v;
  reduction r = {.kind = kind, .finish = finish};
  return reduce(call, &r, self, out[0].u.v, all_dims(self));
}

static tn_status reduce_dims(tn_call *call, uint32_t kind, int finish, const tn_value *args, tn_value *out) {
  const tn_view *self = args[0].u.v;
  reduction r = {.kind = kind, .finish = finish};
  return reduce(call, &r, self, out[0].u.v, dims_of(&args[1], self));
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
  return reduce(call, &r, self, out[0].u.v, dims_of(&args[1], self));
}
